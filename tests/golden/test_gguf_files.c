/*
 * Goal: real GGUF files, written by other programs, open and hold what they are known to hold.
 * Method: every .gguf of the reference data is opened and visited as a whole; the quantised files
 * of one small model are unpacked and compared with its F32 file, within half a step of each
 * format (the bound is stated at its table).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "engine/load/gguf.h"
#include "tests/golden/golden_data.h"

/* ---- every file ----------------------------------------------------------------------------- */

static int files_seen; /* nftw passes no context */

/* Scores, types and tokens of a vocabulary belong together, and every tensor can be read. */
static void visit(const struct gguf *gguf)
{
    struct gguf_array tokens = {0};
    struct gguf_array types = {0};
    struct gguf_array scores = {0};
    struct gguf_string architecture = {0};
    assert_int_equal(
        gguf_get_string(gguf, "general.architecture", true, &architecture, NULL), ERR_OK);
    assert_true(architecture.count > 0);
    assert_int_equal(
        gguf_get_array(gguf, "tokenizer.ggml.tokens", true, GGUF_STRING, &tokens, NULL), ERR_OK);
    assert_int_equal(
        gguf_get_array(gguf, "tokenizer.ggml.token_type", false, GGUF_I32, &types, NULL), ERR_OK);
    assert_int_equal(
        gguf_get_array(gguf, "tokenizer.ggml.scores", false, GGUF_F32, &scores, NULL), ERR_OK);
    assert_true(tokens.count >= 512);
    assert_true(types.count == 0 || types.count == tokens.count);
    assert_true(scores.count == 0 || scores.count == tokens.count);
    for (int32_t i = 0; i < gguf_tensor_count(gguf); i++) {
        const struct gguf_tensor *tensor = gguf_tensor_at(gguf, i);
        void *data = malloc(tensor->bytes);
        assert_non_null(data);
        assert_int_equal(gguf_read(gguf, tensor, 0, tensor->bytes, data, NULL), ERR_OK);
        const int64_t *shape = tensor->shape;
        assert_true(tensor_type_finite(
            tensor->type, data, (size_t)(shape[0] * shape[1] * shape[2] * shape[3])));
        free(data);
    }
}

static int visit_path(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    const size_t length = strlen(path);
    struct gguf *gguf = NULL;
    struct err_info info = {0};
    if (kind != FTW_F || length < 5 || strcmp(path + length - 5, ".gguf") != 0) {
        return 0;
    }
    if (gguf_open(path, &gguf, &info) != ERR_OK) {
        fail_msg(
            "%s: %s at %s: %s", path + place->base, err_word(info.code), info.where, info.text);
    }
    assert_int_equal(gguf_file_bytes(gguf), status->st_size);
    visit(gguf);
    gguf_close(gguf);
    files_seen++;
    return 0;
}

static void test_every_file(void **state)
{
    static const struct {
        const char *folder;
        int files;
    } rows[] = {{"llama-vocabs", 14}, {"stories260K/gguf", 8}, {"minilm-reference", 1}};
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        char path[GOLDEN_PATH_BYTES];
        if (!golden_reference(rows[i].folder, path)) {
            golden_skip(rows[i].folder);
        }
        files_seen = 0;
        assert_int_equal(nftw(path, visit_path, 16, FTW_PHYS), 0);
        assert_int_equal(files_seen, rows[i].files);
    }
}

/* ---- one model in every format -------------------------------------------------------------- */

static float *load(const struct gguf *gguf, const char *name, size_t *out_count)
{
    const struct gguf_tensor *tensor = gguf_find_tensor(gguf, name);
    assert_non_null(tensor);
    const size_t count = (size_t)(tensor->shape[0] * tensor->shape[1]);
    void *data = malloc(tensor->bytes);
    float *numbers = malloc(count * sizeof(*numbers));
    assert_true(data != NULL && numbers != NULL);
    assert_int_equal(gguf_read(gguf, tensor, 0, tensor->bytes, data, NULL), ERR_OK);
    tensor_type_unpack(tensor->type, data, count, numbers);
    free(data);
    *out_count = count;
    return numbers;
}

/* Largest |number| among the 32 of a block, the unit that the bounds below are stated in. */
static float block_max(const float *numbers, size_t index)
{
    float max = 0;
    for (size_t i = index / 32 * 32; i < index / 32 * 32 + 32; i++) {
        max = fmaxf(max, fabsf(numbers[i]));
    }
    return max;
}

static void compare(
    const struct gguf *exact, const struct gguf *other, enum tensor_type type, double bound)
{
    int compared = 0;
    for (int32_t t = 0; t < gguf_tensor_count(exact); t++) {
        size_t count = 0;
        size_t other_count = 0;
        const char *name = gguf_tensor_at(exact, t)->name.bytes;
        const struct gguf_tensor *tensor = gguf_find_tensor(other, name);
        assert_non_null(tensor);
        if (tensor->type != type || tensor->shape[0] % 32 != 0) {
            continue; /* norms stay F32, rows of 172 numbers F16 */
        }
        float *want = load(exact, name, &count);
        float *got = load(other, name, &other_count);
        assert_int_equal(count, other_count);
        for (size_t i = 0; i < count; i++) {
            const double error = fabs((double)got[i] - (double)want[i]);
            if (error > bound * (double)block_max(want, i)) {
                fail_msg("%s, %s, number %zu: %g instead of %g", tensor_type_word(type), name, i,
                    (double)got[i], (double)want[i]);
            }
        }
        free(want);
        free(got);
        compared++;
    }
    assert_true(compared > 5);
}

/*
 * Half a step in units of the block's largest |number| m: F16 2^-11, BF16 2^-8 (with the rounding's
 * second order: times 1.01), Q8_0 1/254; Qn_0 steps by m / 2^(n-1), and its one end is a whole step
 * off; Qn_1 steps by at most 2m / (2^n - 1). Scale and minimum are f16: 2^-11 of m each.
 */
static void test_quantised_files(void **state)
{
    static const struct {
        const char *file;
        enum tensor_type type;
        double bound;
    } rows[] = {
        {"stories260K/gguf/stories260K-f16.gguf", TENSOR_F16, 1.01 / 2048},
        {"stories260K/gguf/stories260K-bf16.llamacpp.gguf", TENSOR_BF16, 1.01 / 256},
        {"stories260K/gguf/stories260K-q8_0.gguf", TENSOR_Q8_0, 1.0 / 254 + 1.0 / 2048},
        {"stories260K/gguf/stories260K-q5_0.gguf", TENSOR_Q5_0, 1.0 / 16 + 1.0 / 2048},
        {"stories260K/gguf/stories260K-q5_1.gguf", TENSOR_Q5_1, 1.0 / 31 + 1.0 / 1024},
        {"stories260K/gguf/stories260K-q4_0.gguf", TENSOR_Q4_0, 1.0 / 8 + 1.0 / 2048},
        {"stories260K/gguf/stories260K-q4_1.gguf", TENSOR_Q4_1, 1.0 / 15 + 1.0 / 1024},
    };
    char path[GOLDEN_PATH_BYTES];
    struct gguf *exact = NULL;
    if (!golden_reference("stories260K/gguf/stories260K-f32.gguf", path)) {
        golden_skip("stories260K");
    }
    assert_int_equal(gguf_open(path, &exact, NULL), ERR_OK);
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct gguf *other = NULL;
        if (!golden_reference(rows[i].file, path)) {
            golden_skip(rows[i].file);
        }
        assert_int_equal(gguf_open(path, &other, NULL), ERR_OK);
        assert_int_equal(gguf_tensor_count(other), gguf_tensor_count(exact));
        compare(exact, other, rows[i].type, rows[i].bound);
        gguf_close(other);
    }
    gguf_close(exact);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_file),
        cmocka_unit_test(test_quantised_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
