/*
 * Goal: every mask mode computes what the written definition says, on every rung of kernels, for
 * both types of K/V, alone, batched together and decoded token by token.
 * Method: tiny random files of every network and their outputs from an independent float64 forward
 * with a dense mask in text order (numpy_llama.py, numpy_networks.py and what makes the files,
 * make_tiny_*.py). A row's error is max |y - r| / max |r|.
 *
 * Bound. A number of the output has passed, layer by layer, through sums of these lengths: norm and
 * Q/K/V over the width, a score over head_dim, the softmax and V over n tokens, the output
 * projection over the heads, norm and gate/up over the width, down over the FFN; then the last norm
 * and the head over the width, or the dense layers over what goes into them. A sum of length m
 * keeps a relative error of at most m u, u = 2^-24, against the sum of its magnitudes (Higham,
 * Accuracy and Stability, section 3.1). Taking every one of them at its worst, undamped and
 * unamplified (the norms keep magnitudes), with
 *     N = layers * (5 width + head_dim + n + heads * head_dim + ffn) + 2 width
 * the bound is N u, some 5e-5. Roundings being of either sign, an implementation that is right
 * stays far below: about sqrt(N) u; measured: at most 0.04 of the bound. f16 K/V are rounded by
 * 2^-11 each: K moves each score, V the result, layer by layer: plus layers * 4 * 2^-11; measured:
 * at most 0.42 of it.
 *
 * With adapters (make_tiny_adapters.py) every product has another beside it: twice as many sums.
 * Rows with and without them share batches, and have the bits they have alone, those without the
 * bits of a model that has none.
 *
 * usage: test_tiny FOLDER/NAME [BASE ADAPTER...], of fixtures.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "engine/blocks/pooling.h"
#include "tests/golden/forward_helper.h"
#include "tests/golden/golden_data.h"

enum {
    CASES_MAX = 16,
    ADAPTERS_MAX = 2,
    STACKS = 3,
    ROWS_MAX = 512,
    WIDTH_MAX = 80,
    VOCAB = 272,
    POOLINGS = 4
};

static const enum pooling poolings[POOLINGS] = {
    POOLING_MEAN, POOLING_CLS, POOLING_LAST, POOLING_WEIGHTED_MEAN};

/* ---- fixtures ---- */

struct fixture {
    char path[GOLDEN_PATH_BYTES];
    char adapters[ADAPTERS_MAX][GOLDEN_PATH_BYTES];
    int32_t adapter_count;
    json_t *cases;
    float *floats;
    int32_t count;
    struct forward_sequence sequences[CASES_MAX];
};

/* The program's arguments. */
struct names {
    const char *name, *base;
    char *const *adapters;
    int32_t adapter_count;
};

static void fixture_open(const struct names *names, struct fixture *fixture)
{
    const char *name = names->name;
    char path[GOLDEN_PATH_BYTES], file[64];
    size_t floats;
    snprintf(file, sizeof(file), "%s.json", name);
    assert_true(golden_fixture(file, path));
    fixture->cases = golden_json(path);
    snprintf(file, sizeof(file), "%s.bin", name);
    assert_true(golden_fixture(file, path));
    fixture->floats = golden_floats(path, &floats);
    snprintf(file, sizeof(file), "%s.gguf", names->base);
    assert_true(golden_fixture(file, fixture->path));
    fixture->adapter_count = names->adapter_count;
    for (int32_t i = 0; i < names->adapter_count; i++) {
        assert_true(golden_fixture(names->adapters[i], fixture->adapters[i]));
    }
    const json_t *cases = golden_member(fixture->cases, "cases");
    fixture->count = (int32_t)json_array_size(cases);
    assert_in_range(fixture->count, 1, CASES_MAX);
    for (int32_t i = 0; i < fixture->count; i++) {
        const json_t *one = json_array_get(cases, (size_t)i);
        struct forward_sequence *sequence = &fixture->sequences[i];
        int32_t count;
        sequence->tokens = golden_ints(one, "tokens", &sequence->count);
        sequence->positions = golden_ints(one, "positions", &count);
        assert_int_equal(count, sequence->count);
        sequence->context_count = golden_int(one, "context_count");
        sequence->read_count = sequence->count;
        sequence->stack = names->adapter_count > 0;
        sequence->hidden = calloc((size_t)count * WIDTH_MAX, sizeof(float));
        assert_non_null(sequence->hidden);
    }
}

static void fixture_close(struct fixture *fixture)
{
    for (int32_t i = 0; i < fixture->count; i++) {
        free((void *)(uintptr_t)fixture->sequences[i].tokens);
        free((void *)(uintptr_t)fixture->sequences[i].positions);
        free(fixture->sequences[i].hidden);
    }
    free(fixture->floats);
    json_decref(fixture->cases);
}

/* ---- comparison ---- */

static double row_error(const float *row, const float *reference, int32_t count)
{
    double error = 0, size = 0;
    for (int32_t i = 0; i < count; i++) {
        error = fmax(error, fabs((double)row[i] - (double)reference[i]));
        size = fmax(size, fabs((double)reference[i]));
        assert_true(isfinite(row[i]));
    }
    return error / size;
}

static double bound(const struct forward *forward, const struct fixture *fixture, int32_t n)
{
    const struct model_info *info = model_info(forward->model);
    double sums = info->layers * (5.0 * info->hidden + info->head_dim + n +
                                     (double)info->heads * info->head_dim + info->ffn) +
                  2.0 * info->hidden + 2.0 * info->dense_widest;
    sums *= fixture->adapter_count > 0 ? 2 : 1;
    return sums * 0x1p-24 + (forward->pages.type == KV_F16 ? info->layers * 4 * 0x1p-11 : 0);
}

/* Pooled vectors [POOLINGS][WIDTH_MAX] through the dense head, all at once and each alone, against
 * what the fixture says of them. */
static double dense_error(
    struct forward *forward, const float *expected, const double pooled[POOLINGS][WIDTH_MAX])
{
    const size_t bytes = sizeof(pooled[0]);
    double worst = 0;
    double together[POOLINGS][WIDTH_MAX];
    double *rows[POOLINGS];
    const int32_t width = model_info(forward->model)->vector;
    memcpy(together, pooled, POOLINGS * bytes);
    for (int32_t p = 0; p < POOLINGS; p++) {
        rows[p] = together[p];
    }
    model_dense(forward->model, forward->scratch, forward->threads, rows, POOLINGS);
    for (int32_t p = 0; p < POOLINGS; p++) {
        double alone[WIDTH_MAX];
        double *row = alone;
        float vector[WIDTH_MAX];
        memcpy(alone, pooled[p], bytes);
        model_dense(forward->model, forward->scratch, forward->threads, &row, 1);
        if (forward->kernels.deterministic) {
            assert_memory_equal(alone, together[p], (size_t)width * sizeof(double));
        }
        for (int32_t i = 0; i < width; i++) {
            vector[i] = (float)together[p][i];
        }
        worst = fmax(worst, row_error(vector, expected + (size_t)p * (size_t)width, width));
    }
    return worst;
}

/* Largest error of a case as a share of its bound: logits of the stored rows, or of a network that
 * has none the rows, and all poolings. */
static double case_error(
    struct forward *forward, const struct fixture *fixture, int32_t index, const char *label)
{
    const json_t *one = json_array_get(golden_member(fixture->cases, "cases"), (size_t)index);
    const struct forward_sequence *sequence = &fixture->sequences[index];
    size_t width = (size_t)forward->width;
    double worst = 0;
    int32_t row_count;
    int32_t *rows = golden_ints(one, "logit_rows", &row_count);
    bool headless = model_info(forward->model)->embeds_only;
    int32_t count = headless ? forward->width : VOCAB;
    for (int32_t i = 0; i < row_count; i++) {
        float logits[VOCAB];
        const float *hidden = sequence->hidden + (size_t)rows[i] * width;
        if (!headless) {
            forward_logits(forward, hidden, 1, logits);
        }
        const float *expected = fixture->floats + golden_int(one, "logits_at") + i * count;
        worst = fmax(worst, row_error(headless ? hidden : logits, expected, count));
    }
    free(rows);
    double pooled[POOLINGS][WIDTH_MAX] = {{0}};
    for (int32_t p = 0; p < POOLINGS; p++) {
        double *sum = pooled[p];
        float vector[WIDTH_MAX];
        struct pool pool;
        pooling_begin(&pool, poolings[p], forward->width, sequence->count, sum);
        for (int32_t r = 0; r < sequence->count; r++) {
            pooling_add(&pool, sequence->hidden + (size_t)r * width);
        }
        pooling_close(&pool);
        assert_int_equal(pooling_finish(&pool, forward->width, false, vector), ERR_OK);
        const float *expected = fixture->floats + golden_int(one, "pooled_at") + p * forward->width;
        worst = fmax(worst, row_error(vector, expected, forward->width));
    }
    if (json_object_get(one, "dense_at") != NULL) {
        worst = fmax(worst, dense_error(forward, fixture->floats + golden_int(one, "dense_at"),
                                (const double(*)[WIDTH_MAX])pooled));
    }
    double share = worst / bound(forward, fixture, sequence->count);
    if (share > 1) {
        fail_msg("%s, %s: error %.3g is %.2f of the bound", label,
            json_string_value(golden_member(one, "name")), worst, share);
    }
    return share;
}

/* ---- ways to run the same rows ---- */

static void keep_hidden(const struct forward *forward, const struct fixture *fixture, float **kept)
{
    for (int32_t i = 0; i < fixture->count; i++) {
        size_t bytes = (size_t)fixture->sequences[i].count * (size_t)forward->width * sizeof(float);
        kept[i] = malloc(bytes);
        assert_non_null(kept[i]);
        memcpy(kept[i], fixture->sequences[i].hidden, bytes);
        memset(fixture->sequences[i].hidden, 0, bytes);
    }
}

/* Together in one batch, alone, and in pieces: right each time, and the same bits each time where
 * the rung promises it. Returns the largest share of the bound. */
static double check_model(struct forward *forward, struct fixture *fixture, const char *label)
{
    float *kept[CASES_MAX];
    double worst = 0;
    forward_run(forward, fixture->sequences, fixture->count);
    for (int32_t i = 0; i < fixture->count; i++) {
        worst = fmax(worst, case_error(forward, fixture, i, label));
    }
    keep_hidden(forward, fixture, kept);
    static const int32_t pieces[] = {0, 1, 5};
    for (size_t p = 0; p < ARRAY_COUNT(pieces); p++) {
        forward->piece = pieces[p];
        for (int32_t i = 0; i < fixture->count; i++) {
            struct forward_sequence *sequence = &fixture->sequences[i];
            forward_run(forward, sequence, 1);
            worst = fmax(worst, case_error(forward, fixture, i, label));
            if (forward->kernels.deterministic) {
                assert_memory_equal(sequence->hidden, kept[i],
                    (size_t)sequence->count * (size_t)forward->width * sizeof(float));
            }
        }
    }
    for (int32_t i = 0; i < fixture->count; i++) {
        free(kept[i]);
    }
    return worst;
}

/* The fixture's model with its adapters, or without. */
static void open_forward(struct forward *forward, const struct fixture *fixture, const char *rung,
    enum kv_type type, int32_t threads, bool with_adapters)
{
    const char *paths[ADAPTERS_MAX];
    for (int32_t i = 0; i < fixture->adapter_count; i++) {
        paths[i] = fixture->adapters[i];
    }
    const struct forward_options options = {.kernels = rung,
        .type = type,
        .rows_max = ROWS_MAX,
        .threads = threads,
        .adapters = paths,
        .adapter_count = with_adapters ? fixture->adapter_count : 0};
    forward_open_with(forward, fixture->path, &options);
}

static void check_name(const struct names *names)
{
    struct fixture fixture = {0};
    const char *name = names->name;
    fixture_open(names, &fixture);
    for (const char *const *rung = kernels_available(); *rung != NULL; rung++) {
        for (int type = KV_F16; type <= KV_F32; type++) {
            struct forward forward;
            char label[64];
            snprintf(label, sizeof(label), "%s, %s, K/V %s", name, *rung,
                type == KV_F16 ? "f16" : "f32");
            open_forward(&forward, &fixture, *rung, (enum kv_type)type, 2, true);
            assert_int_equal(forward.vocab, VOCAB);
            print_message("%s: %.4f of the bound\n", label, check_model(&forward, &fixture, label));
            forward_close(&forward);
        }
    }
    fixture_close(&fixture);
}

/* ---- rows with and without adapters ---- */

/* Each sequence alone, all with this stack. */
static void run_alone(struct forward *forward, struct fixture *fixture, int32_t stack, float **kept)
{
    for (int32_t i = 0; i < fixture->count; i++) {
        fixture->sequences[i].stack = stack;
        forward_run(forward, &fixture->sequences[i], 1);
    }
    keep_hidden(forward, fixture, kept);
}

/* One batch in which neighbours have other stacks, or none. */
static void check_mix(struct forward *forward, struct fixture *fixture, float *alone[][CASES_MAX])
{
    for (int32_t turn = 0; turn < STACKS; turn++) {
        for (int32_t i = 0; i < fixture->count; i++) {
            fixture->sequences[i].stack = (i + turn) % STACKS;
        }
        forward_run(forward, fixture->sequences, fixture->count);
        for (int32_t i = 0; i < fixture->count; i++) {
            const struct forward_sequence *sequence = &fixture->sequences[i];
            assert_memory_equal(sequence->hidden, alone[sequence->stack][i],
                (size_t)sequence->count * (size_t)forward->width * sizeof(float));
        }
    }
}

static void check_mixes(const struct names *names, const char *rung)
{
    struct fixture fixture = {0};
    struct forward forward;
    float *alone[STACKS][CASES_MAX];
    fixture_open(names, &fixture);
    open_forward(&forward, &fixture, rung, KV_F16, 1, false);
    run_alone(&forward, &fixture, 0, alone[0]);
    forward_close(&forward);
    for (int32_t threads = 1; threads <= 3; threads++) {
        open_forward(&forward, &fixture, rung, KV_F16, threads, true);
        for (int32_t stack = 1; stack < STACKS && threads == 1; stack++) {
            run_alone(&forward, &fixture, stack, alone[stack]);
            size_t bytes = (size_t)forward.width * sizeof(float);
            assert_memory_not_equal(alone[stack][0], alone[stack - 1][0], bytes);
        }
        for (forward.piece = 0; forward.piece <= 4; forward.piece += 2) {
            check_mix(&forward, &fixture, alone);
        }
        forward_close(&forward);
    }
    for (int32_t i = 0; i < STACKS * fixture.count; i++) {
        free(alone[i / fixture.count][i % fixture.count]);
    }
    fixture_close(&fixture);
}

static void test_adapters_do_not_touch_other_rows(void **state)
{
    const struct names *names = *state;
    struct kernels kernels;
    for (const char *const *rung = kernels_available(); *rung != NULL; rung++) {
        assert_int_equal(kernels_select(*rung, &kernels, NULL), ERR_OK);
        if (kernels.deterministic) {
            check_mixes(names, *rung);
        }
    }
}

/* ---- refusals ---- */

/* Where a name stands in a GGUF file: behind its length, 8 bytes. */
static unsigned char *find_name(unsigned char *bytes, size_t count, const char *name)
{
    unsigned char wanted[sizeof(uint64_t) + 128];
    uint64_t length = strlen(name);
    assert_true(length <= 128);
    memcpy(wanted, &length, sizeof(length));
    memcpy(wanted + sizeof(length), name, length);
    unsigned char *at = memmem(bytes, count, wanted, sizeof(length) + length);
    assert_non_null(at);
    return at + sizeof(length);
}

/* Opens the file with the last letter of one name changed. Nothing is missing then but that name,
 * and nothing is there that was not but its changed form: the error must give one of the two. */
static void expect_refusal(
    unsigned char *bytes, size_t count, const struct kernels *kernels, const char *name)
{
    struct err_info info = {0};
    struct gguf *gguf = NULL;
    struct model *model = NULL;
    char changed[sizeof(info.where)];
    unsigned char *last = find_name(bytes, count, name) + strlen(name) - 1;
    unsigned char kept = *last;
    (void)snprintf(changed, sizeof(changed), "%s", name);
    *last = kept == '~' ? '!' : '~';
    changed[strlen(name) - 1] = (char)*last;
    assert_int_equal(gguf_open_memory(bytes, count, &gguf, &info), ERR_OK);
    enum err err = model_open(gguf, kernels, NULL, true, &model, &info);
    if (err == ERR_OK || (strcmp(info.where, name) != 0 && strcmp(info.where, changed) != 0)) {
        fail_msg("without %s: %s at \"%s\"", name, err_word(err), info.where);
    }
    gguf_close(gguf);
    *last = kept;
}

static void test_every_key_and_tensor_has_its_name(void **state)
{
    char path[GOLDEN_PATH_BYTES], file[64];
    struct kernels kernels;
    struct gguf *gguf;
    struct gguf_string network;
    size_t count;
    (void)snprintf(file, sizeof(file), "%s.gguf", ((const struct names *)*state)->base);
    assert_true(golden_fixture(file, path));
    assert_int_equal(kernels_select("ref", &kernels, NULL), ERR_OK);
    assert_int_equal(gguf_open(path, &gguf, NULL), ERR_OK);
    assert_int_equal(gguf_get_string(gguf, "general.architecture", true, &network, NULL), ERR_OK);
    unsigned char *bytes = golden_bytes(path, &count);
    for (int32_t i = 0; i < gguf_key_count(gguf); i++) {
        const char *key = gguf_key(gguf, i);
        if (strncmp(key, network.bytes, network.count) == 0 && key[network.count] == '.') {
            expect_refusal(bytes, count, &kernels, key);
        }
    }
    for (int32_t i = 0; i < gguf_tensor_count(gguf); i++) {
        expect_refusal(bytes, count, &kernels, gguf_tensor_at(gguf, i)->name.bytes);
    }
    free(bytes);
    gguf_close(gguf);
}

static void test_every_mask_on_every_rung(void **state)
{
    check_name(*state);
}

int main(int argc, char **argv)
{
    if (argc < 2 || argc > 3 + ADAPTERS_MAX || argc == 3) {
        (void)fprintf(stderr, "usage: %s FOLDER/NAME [BASE ADAPTER...] of fixtures\n", argv[0]);
        return 2;
    }
    struct names names = {argv[1], argc > 2 ? argv[2] : argv[1], argv + 3, argc > 3 ? argc - 3 : 0};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_every_mask_on_every_rung, &names),
        cmocka_unit_test_prestate(test_every_key_and_tensor_has_its_name, &names),
    };
    const struct CMUnitTest with_adapters[] = {
        cmocka_unit_test_prestate(test_every_mask_on_every_rung, &names),
        cmocka_unit_test_prestate(test_adapters_do_not_touch_other_rows, &names),
    };
    if (names.adapter_count > 0) {
        return cmocka_run_group_tests(with_adapters, NULL, NULL);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
