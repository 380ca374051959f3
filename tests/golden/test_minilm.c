/*
 * Goal: a published encoder gives the vectors of its reference implementation.
 * Method: all-MiniLM-L6-v2 in 8 bits (minilm-q8_0.gguf) on the reference's token ids, cut at 256;
 * the mean of the rows against the vectors that sentence-transformers computed in float64 from the
 * weights in full, at most 2e-3 apart in cosine; measured: 5.2e-4 at most, 1.8e-4 in the mean.
 * What the 8 bits cost is the larger part: bits are the same alone and together.
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

enum { WIDTH = 384, TEXTS_MAX = 256, TOKENS_MAX = 256 };

struct texts {
    json_t *lines;
    float *vectors; /* [rows][WIDTH] */
    struct forward_sequence sequences[TEXTS_MAX];
    int32_t rows[TEXTS_MAX];
    int32_t count;
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
    texts->count = (int32_t)MIN(json_array_size(texts->lines), (size_t)TEXTS_MAX);
    assert_true(texts->count > 0);
    for (int32_t i = 0; i < texts->count; i++) {
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
    for (int32_t i = 0; i < texts->count; i++) {
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

static void test_vectors_of_the_reference(void **state)
{
    static struct texts texts;
    char path[GOLDEN_PATH_BYTES];
    struct forward forward;
    double worst = 0, sum = 0;
    texts_open(&texts);
    assert_true(golden_reference("minilm-reference/minilm-q8_0.gguf", path));
    forward_open(&forward, path, NULL, KV_F32, 2048);
    assert_int_equal(forward.width, WIDTH);
    forward_run(&forward, texts.sequences, texts.count);
    for (int32_t i = 0; i < texts.count; i++) {
        float vector[WIDTH], together[WIDTH];
        mean_of(&texts.sequences[i], together);
        double error = distance(together, texts.vectors + (size_t)texts.rows[i] * WIDTH);
        worst = fmax(worst, error);
        sum += error;
        if (!(error <= 2e-3)) {
            fail_msg("text %d is %.2e from the reference", i, error);
        }
        if (i % 16 == 0) {
            forward_run(&forward, &texts.sequences[i], 1);
            mean_of(&texts.sequences[i], vector);
            assert_memory_equal(vector, together, sizeof(vector));
        }
    }
    print_message("%d texts: %.2e from the reference at most, %.2e in the mean\n", texts.count,
        worst, sum / texts.count);
    forward_close(&forward);
    texts_close(&texts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors_of_the_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
