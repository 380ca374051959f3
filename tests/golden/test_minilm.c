/*
 * Goal: a published encoder gives the vectors of its reference implementation, from a folder and
 * from GGUF files, in full precision and rounded.
 * Method: the mean of the rows of all-MiniLM-L6-v2, on the reference's token ids cut at 256,
 * against the vectors that sentence-transformers computed in float64. How far they may lie apart in
 * cosine is stated at each test; what rounded weights cost is the larger part there. run_minilm.py
 * hands over the folder and the files make_bert_gguf.py wrote from it; minilm-q8_0.gguf, which the
 * usual converter wrote, lies beside the reference.
 *
 * All 40 texts are in it, since ids are what is asked. Asked for a text, the reference takes
 * spellings like [MASK] for special tokens and /embed does not; golden_minilm_ids parses them.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "engine/blocks/pooling.h"
#include "engine/load/gguf.h"
#include "tests/golden/forward_helper.h"
#include "tests/golden/golden_data.h"
#include "tests/scale.h"
#include "tests/skip.h"

enum { WIDTH = 384, TEXT_COUNT = 40, TOKENS_MAX = 256 };

/* What run_minilm.py made; NULL = there is no folder to make it of. */
static struct {
    const char *folder, *f32, *bf16, *q8_0;
} made;

struct texts {
    json_t *lines;
    float *vectors; /* [rows][WIDTH] */
    struct forward_sequence sequences[TEXT_COUNT];
    int32_t rows[TEXT_COUNT];
};

static void texts_open(struct texts *texts)
{
    char path[GOLDEN_PATH_BYTES];
    size_t floats;
    if (!golden_reference("minilm-reference/texts.jsonl", path)) {
        golden_skip("minilm-reference");
    }
    texts->lines = golden_json_lines(path);
    assert_true(golden_reference("minilm-reference/vectors_f32.bin", path));
    texts->vectors = golden_floats(path, &floats);
    assert_int_equal(json_array_size(texts->lines), TEXT_COUNT);
    for (int32_t i = 0; i < TEXT_COUNT; i++) {
        const json_t *line = json_array_get(texts->lines, (size_t)i);
        struct forward_sequence *sequence = &texts->sequences[i];
        sequence->tokens = golden_ints(line, "ids", &sequence->count);
        assert_in_range(sequence->count, 1, TOKENS_MAX);
        sequence->context_count = sequence->read_count = sequence->count;
        sequence->hidden = calloc((size_t)sequence->count * WIDTH, sizeof(float));
        assert_non_null(sequence->hidden);
        texts->rows[i] = golden_int(line, "row");
        assert_true((size_t)texts->rows[i] < floats / WIDTH);
    }
}

static void texts_close(struct texts *texts)
{
    for (int32_t i = 0; i < TEXT_COUNT; i++) {
        free((void *)(uintptr_t)texts->sequences[i].tokens);
        free(texts->sequences[i].hidden);
    }
    free(texts->vectors);
    json_decref(texts->lines);
}

static void mean_of(const struct forward_sequence *sequence, float *out)
{
    double sum[WIDTH];
    struct pool pool;
    pooling_begin(&pool, POOLING_MEAN, WIDTH, sequence->count, sum);
    for (int32_t r = 0; r < sequence->count; r++) {
        pooling_add(&pool, sequence->hidden + (size_t)r * WIDTH);
    }
    pooling_close(&pool);
    assert_int_equal(pooling_finish(&pool, WIDTH, true, out), ERR_OK);
}

static double distance(const float *a, const float *b)
{
    double product = 0, a_squares = 0, b_squares = 0;
    for (int32_t i = 0; i < WIDTH; i++) {
        product += (double)a[i] * (double)b[i];
        a_squares += (double)a[i] * (double)a[i];
        b_squares += (double)b[i] * (double)b[i];
    }
    return 1 - product / sqrt(a_squares * b_squares);
}

/* The texts' vectors by a model, each at most `bound` from the reference's; some of them once more
 * alone, with the same bits. Of ten texts where each step costs more (tests/scale.h). */
static void check(const char *path, double bound, float (*vectors)[WIDTH])
{
    static struct texts texts;
    const int32_t count = test_scale() > 1 ? TEXT_COUNT / 4 : TEXT_COUNT;
    struct forward forward;
    double worst = 0, sum = 0;
    texts_open(&texts);
    forward_open(&forward, path, NULL, KV_F32, 2048);
    assert_int_equal(forward.width, WIDTH);
    forward_run(&forward, texts.sequences, count);
    for (int32_t i = 0; i < count; i++) {
        mean_of(&texts.sequences[i], vectors[i]);
        double error = distance(vectors[i], texts.vectors + (size_t)texts.rows[i] * WIDTH);
        worst = fmax(worst, error);
        sum += error;
        if (!(error <= bound)) {
            fail_msg("text %d is %.2e from the reference", i, error);
        }
    }
    for (int32_t i = 0; i < count; i += 16) {
        float alone[WIDTH];
        forward_run(&forward, &texts.sequences[i], 1);
        mean_of(&texts.sequences[i], alone);
        assert_memory_equal(alone, vectors[i], sizeof(alone));
    }
    print_message(
        "%s: %.2e from the reference at most, %.2e in the mean\n", path, worst, sum / count);
    forward_close(&forward);
    texts_close(&texts);
}

static bool is_made(void)
{
    if (made.folder == NULL) {
        printf("skipped: all-MiniLM-L6-v2 is not there (deploy/fetch_model.sh minilm)\n");
        skipped_tests++;
    }
    return made.folder != NULL;
}

/* Measured: 2.0e-13 at most. */
static void test_full(void **state)
{
    static float folder[TEXT_COUNT][WIDTH], file[TEXT_COUNT][WIDTH];
    if (!is_made()) {
        skip();
    }
    check(made.folder, 1e-5, folder);
    check(made.f32, 1e-5, file);
    assert_memory_equal(folder, file, sizeof(folder));
}

/* Measured: 2.0e-5 at most. */
static void test_bf16(void **state)
{
    static float vectors[TEXT_COUNT][WIDTH];
    if (!is_made()) {
        skip();
    }
    check(made.bf16, 1e-4, vectors);
}

/* Measured: 5.2e-4 at most, as the next. */
static void test_eight_bits(void **state)
{
    static float vectors[TEXT_COUNT][WIDTH];
    if (!is_made()) {
        skip();
    }
    check(made.q8_0, 2e-3, vectors);
}

/* Measured: 5.2e-4 at most, 1.8e-4 in the mean. */
static void test_usual_file(void **state)
{
    static float vectors[TEXT_COUNT][WIDTH];
    char path[GOLDEN_PATH_BYTES];
    if (!golden_reference("minilm-reference/minilm-q8_0.gguf", path)) {
        golden_skip("minilm-reference");
    }
    check(path, 2e-3, vectors);
}

/* ---- what the script writes is what the usual converter writes ---- */

static void compare_tensor(const struct gguf *ours, const struct gguf *theirs, int32_t index)
{
    const struct gguf_tensor *want = gguf_tensor_at(theirs, index);
    const struct gguf_tensor *got = gguf_find_tensor(ours, want->name.bytes);
    assert_non_null(got);
    assert_int_equal(got->type, want->type);
    assert_memory_equal(got->shape, want->shape, sizeof(want->shape));
    unsigned char *bytes[2] = {malloc(want->bytes), malloc(want->bytes)};
    assert_true(bytes[0] != NULL && bytes[1] != NULL);
    assert_int_equal(gguf_read(ours, got, 0, got->bytes, bytes[0], NULL), ERR_OK);
    assert_int_equal(gguf_read(theirs, want, 0, want->bytes, bytes[1], NULL), ERR_OK);
    size_t others = 0;
    for (size_t i = 0; i < want->bytes; i++) {
        others += bytes[0][i] != bytes[1][i];
    }
    /* The converter divides in float32, the script in float64: a few halves go the other way. */
    if (others > (want->type == TENSOR_F32 ? 0 : want->bytes / 10000)) {
        fail_msg("%s: %zu of %zu bytes differ", want->name.bytes, others, (size_t)want->bytes);
    }
    free(bytes[0]);
    free(bytes[1]);
}

static void compare_vocabularies(const struct gguf *ours, const struct gguf *theirs)
{
    struct gguf_array got, want;
    const char *key = "tokenizer.ggml.tokens";
    assert_int_equal(gguf_get_array(ours, key, true, GGUF_STRING, &got, NULL), ERR_OK);
    assert_int_equal(gguf_get_array(theirs, key, true, GGUF_STRING, &want, NULL), ERR_OK);
    assert_int_equal(got.count, want.count);
    for (size_t i = 0; i < want.count; i++) {
        assert_int_equal(got.strings[i].count, want.strings[i].count);
        assert_memory_equal(got.strings[i].bytes, want.strings[i].bytes, want.strings[i].count);
    }
    key = "tokenizer.ggml.token_type";
    assert_int_equal(gguf_get_array(ours, key, true, GGUF_I32, &got, NULL), ERR_OK);
    assert_int_equal(gguf_get_array(theirs, key, true, GGUF_I32, &want, NULL), ERR_OK);
    assert_int_equal(got.count, want.count);
    assert_memory_equal(got.data, want.data, want.count * sizeof(int32_t));
}

static void test_script(void **state)
{
    char path[GOLDEN_PATH_BYTES];
    struct gguf *ours = NULL, *theirs = NULL;
    if (!is_made() || !golden_reference("minilm-reference/minilm-q8_0.gguf", path)) {
        skip();
    }
    assert_int_equal(gguf_open(made.q8_0, &ours, NULL), ERR_OK);
    assert_int_equal(gguf_open(path, &theirs, NULL), ERR_OK);
    assert_int_equal(gguf_tensor_count(ours), gguf_tensor_count(theirs));
    for (int32_t i = 0; i < gguf_tensor_count(theirs); i++) {
        compare_tensor(ours, theirs, i);
    }
    compare_vocabularies(ours, theirs);
    gguf_close(ours);
    gguf_close(theirs);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_eight_bits),
        cmocka_unit_test(test_usual_file),
        cmocka_unit_test(test_script),
    };
    if (argc == 5) {
        made.folder = argv[1];
        made.f32 = argv[2];
        made.bf16 = argv[3];
        made.q8_0 = argv[4];
    }
    return skip_status(cmocka_run_group_tests(tests, NULL, NULL), (int)ARRAY_COUNT(tests));
}
