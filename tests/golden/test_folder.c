/*
 * Goal: a folder of safetensors and the GGUF file with the same numbers are the same model, bit by
 * bit, on every rung of kernels.
 * Method: pairs given as arguments (GGUF FOLDER ...), written by make_folder.py. Everything a
 * network takes from either must agree, then logits of a causal text, of one that sees itself both
 * ways, and of a text filled at a gap; of encoders the rows of a text. No tolerance.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tests/golden/forward_helper.h"

enum { TOKENS = 40, ROWS_MAX = 128 };

static int pair_count;
static char **pairs;

static void compare_info(const struct model_info *file, const struct model_info *folder)
{
    assert_string_equal(folder->architecture, file->architecture);
    assert_string_equal(folder->weights_type, file->weights_type);
    assert_int_equal(folder->layers, file->layers);
    assert_int_equal(folder->hidden, file->hidden);
    assert_int_equal(folder->heads, file->heads);
    assert_int_equal(folder->heads_kv, file->heads_kv);
    assert_int_equal(folder->head_dim, file->head_dim);
    assert_int_equal(folder->ffn, file->ffn);
    assert_int_equal(folder->vocab, file->vocab);
    assert_int_equal(folder->vector, file->vector);
    assert_int_equal(folder->dense_widest, file->dense_widest);
    assert_int_equal(folder->context_trained, file->context_trained);
    assert_int_equal(folder->parameters, file->parameters);
}

/* Every row for a pooled vector, through the dense head: [rows, vector]. Takes hidden. */
static float *run_dense(struct forward *forward, float *hidden, int32_t rows, size_t *out_bytes)
{
    const size_t width = (size_t)forward->width;
    const size_t vector = (size_t)model_info(forward->model)->vector;
    const size_t stride = MAX(width, vector);
    double *sums = calloc((size_t)rows * stride, sizeof(double));
    double **row = calloc((size_t)rows, sizeof(double *));
    float *out = malloc((size_t)rows * vector * sizeof(float));
    assert_true(sums != NULL && row != NULL && out != NULL);
    for (size_t r = 0; r < (size_t)rows; r++) {
        row[r] = sums + r * stride;
        for (size_t i = 0; i < width; i++) {
            row[r][i] = (double)hidden[r * width + i];
        }
    }
    model_dense(forward->model, forward->scratch, forward->threads, row, rows);
    for (size_t r = 0; r < (size_t)rows; r++) {
        for (size_t i = 0; i < vector; i++) {
            out[r * vector + i] = (float)row[r][i];
        }
    }
    free(sums);
    free(row);
    free(hidden);
    *out_bytes = (size_t)rows * vector * sizeof(float);
    return out;
}

/* Logits of three sequences, [3 * TOKENS, vocab], or rows of one where there is no head. */
static float *run(const char *path, const char *rung, struct forward *forward, size_t *out_bytes)
{
    static const int32_t contexts[] = {TOKENS, 0, TOKENS / 2};
    struct forward_sequence sequences[ARRAY_COUNT(contexts)];
    int32_t tokens[TOKENS];
    forward_open(forward, path, rung, KV_F32, ROWS_MAX);
    const size_t width = (size_t)forward->width;
    const bool headless = model_info(forward->model)->embeds_only;
    const int32_t count = headless ? 1 : (int32_t)ARRAY_COUNT(contexts);
    const int32_t rows = TOKENS * count;
    float *hidden = calloc((size_t)rows * width, sizeof(float));
    assert_non_null(hidden);
    for (int32_t i = 0; i < TOKENS; i++) {
        tokens[i] = (i * 7919 + 11) % forward->vocab;
    }
    for (int32_t i = 0; i < count; i++) {
        sequences[i] = (struct forward_sequence){.tokens = tokens,
            .count = TOKENS,
            .context_count = contexts[i],
            .read_count = TOKENS,
            .hidden = hidden + (size_t)i * TOKENS * width};
    }
    forward_run(forward, sequences, count);
    *out_bytes = (size_t)rows * width * sizeof(float);
    if (headless && model_info(forward->model)->dense_widest > 0) {
        return run_dense(forward, hidden, rows, out_bytes);
    }
    if (headless) {
        return hidden;
    }
    *out_bytes = (size_t)rows * (size_t)forward->vocab * sizeof(float);
    float *logits = malloc(*out_bytes);
    assert_non_null(logits);
    forward_logits(forward, hidden, rows, logits);
    free(hidden);
    return logits;
}

static void check_pair(const char *file_path, const char *folder_path, const char *rung)
{
    struct forward file;
    struct forward folder;
    size_t bytes = 0;
    size_t folder_bytes = 0;
    float *expected = run(file_path, rung, &file, &bytes);
    float *logits = run(folder_path, rung, &folder, &folder_bytes);
    compare_info(model_info(file.model), model_info(folder.model));
    assert_int_equal(model_bytes(folder.model), model_bytes(file.model));
    assert_int_equal(folder_bytes, bytes);
    if (memcmp(logits, expected, bytes) != 0) {
        fail_msg("%s and %s differ on %s", file_path, folder_path, rung);
    }
    free(expected);
    free(logits);
    forward_close(&file);
    forward_close(&folder);
}

static void test_same_bits(void **state)
{
    assert_true(pair_count > 0);
    for (int i = 0; i < pair_count; i++) {
        for (const char *const *rung = kernels_available(); *rung != NULL; rung++) {
            struct kernels kernels;
            assert_int_equal(kernels_select(*rung, &kernels, NULL), ERR_OK);
            if (kernels.deterministic) {
                check_pair(pairs[2 * i], pairs[2 * i + 1], *rung);
            }
        }
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_bits)};
    pair_count = (argc - 1) / 2;
    pairs = argv + 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
