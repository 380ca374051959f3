/*
 * Goal: every pooling, cut and normalisation is what its formula says, the same bits however the
 * rows come in pieces, and a number that is not finite is reported. Method: random rows with a
 * fixed seed against a direct evaluation in long double; special rows by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <float.h>
#include <math.h>
#include <string.h>
#include "engine/base/rng.h"
#include "engine/blocks/pooling.h"

enum { HIDDEN = 48, ROWS = 37 };

static const enum pooling poolings[] = {
    POOLING_MEAN, POOLING_CLS, POOLING_LAST, POOLING_EOS, POOLING_WEIGHTED_MEAN};

static void fill(float rows[ROWS][HIDDEN])
{
    for (int32_t r = 0; r < ROWS; r++) {
        for (int32_t i = 0; i < HIDDEN; i++) {
            rows[r][i] = (float)(rng_uniform(7, 0, (uint64_t)(r * HIDDEN + i)) * 4 - 2);
        }
    }
}

static long double weight(enum pooling pooling, int32_t row)
{
    if (pooling == POOLING_MEAN) {
        return 1.0L / ROWS;
    }
    if (pooling == POOLING_WEIGHTED_MEAN) {
        return (row + 1) / (ROWS * (ROWS + 1) / 2.0L);
    }
    return row == (pooling == POOLING_CLS ? 0 : ROWS - 1);
}

static void check(enum pooling pooling, float rows[ROWS][HIDDEN], int32_t dimensions,
    bool normalize, const float *out)
{
    long double want[HIDDEN] = {0};
    long double squares = 0;
    for (int32_t i = 0; i < dimensions; i++) {
        for (int32_t r = 0; r < ROWS; r++) {
            want[i] += weight(pooling, r) * (long double)rows[r][i];
        }
        squares += want[i] * want[i];
    }
    for (int32_t i = 0; i < dimensions; i++) {
        long double value = normalize ? want[i] / sqrtl(squares) : want[i];
        /* One rounding to float, and double sums of ROWS terms of at most 2. */
        long double bound = fabsl(value) * FLT_EPSILON / 2 + ROWS * 2 * (long double)DBL_EPSILON;
        assert_true(fabsl((long double)out[i] - value) <= bound);
    }
}

static void test_every_pooling(void **state)
{
    static float rows[ROWS][HIDDEN];
    fill(rows);
    for (size_t p = 0; p < sizeof(poolings) / sizeof(poolings[0]); p++) {
        for (int32_t dimensions = 1; dimensions <= HIDDEN; dimensions++) {
            for (int normalize = 0; normalize < 2; normalize++) {
                double sum[HIDDEN];
                float out[HIDDEN];
                struct pool pool;
                pooling_begin(&pool, poolings[p], HIDDEN, ROWS, sum);
                for (int32_t r = 0; r < ROWS; r++) {
                    pooling_add(&pool, rows[r]);
                }
                pooling_close(&pool);
                assert_int_equal(pooling_finish(&pool, dimensions, normalize, out), ERR_OK);
                check(poolings[p], rows, dimensions, normalize, out);
            }
        }
    }
}

/* Rows that are not needed may be skipped, and then need not even be numbers. */
static void test_skipped_rows(void **state)
{
    static float rows[ROWS][HIDDEN], spoilt[HIDDEN];
    fill(rows);
    for (int32_t i = 0; i < HIDDEN; i++) {
        spoilt[i] = NAN;
    }
    for (size_t p = 0; p < sizeof(poolings) / sizeof(poolings[0]); p++) {
        double sum[2][HIDDEN];
        float out[2][HIDDEN];
        struct pool whole, partly;
        pooling_begin(&whole, poolings[p], HIDDEN, ROWS, sum[0]);
        pooling_begin(&partly, poolings[p], HIDDEN, ROWS, sum[1]);
        int32_t needed = 0;
        for (int32_t r = 0; r < ROWS; r++) {
            pooling_add(&whole, rows[r]);
            if (pooling_needs(poolings[p], r, ROWS)) {
                pooling_add(&partly, rows[r]);
                needed++;
            } else if (r % 2 == 0) {
                pooling_skip(&partly, 1);
            } else {
                pooling_add(&partly, spoilt);
            }
        }
        bool all = poolings[p] == POOLING_MEAN || poolings[p] == POOLING_WEIGHTED_MEAN;
        assert_int_equal(needed, all ? ROWS : 1);
        pooling_close(&whole);
        assert_int_equal(pooling_finish(&whole, HIDDEN, true, out[0]), ERR_OK);
        pooling_close(&partly);
        assert_int_equal(pooling_finish(&partly, HIDDEN, true, out[1]), ERR_OK);
        assert_memory_equal(out[0], out[1], sizeof(out[0]));
    }
}

static void test_one_row_is_itself(void **state)
{
    static float rows[ROWS][HIDDEN];
    fill(rows);
    for (size_t p = 0; p < sizeof(poolings) / sizeof(poolings[0]); p++) {
        double sum[HIDDEN];
        float pooled[HIDDEN], alone[HIDDEN];
        struct pool pool;
        pooling_begin(&pool, poolings[p], HIDDEN, 1, sum);
        pooling_add(&pool, rows[3]);
        pooling_close(&pool);
        assert_int_equal(pooling_finish(&pool, HIDDEN, false, pooled), ERR_OK);
        assert_memory_equal(pooled, rows[3], sizeof(pooled));
        assert_int_equal(pooling_finish(&pool, 20, true, pooled), ERR_OK);
        assert_int_equal(pooling_row(rows[3], 20, true, alone), ERR_OK);
        assert_memory_equal(pooled, alone, 20 * sizeof(float));
    }
}

/* The norm is that of the whole vector, of as many numbers as a dense head has left. */
static void test_layer_norm(void **state)
{
    enum { COUNT = 40, CUT = 7 };
    static float rows[ROWS][HIDDEN];
    double sum[HIDDEN];
    float out[CUT];
    struct pool pool;
    long double mean = 0;
    long double variance = 0;
    long double squares = 0;
    fill(rows);
    pooling_begin(&pool, POOLING_LAST, HIDDEN, 1, sum);
    assert_false(pool.layer_norm);
    pool.layer_norm = true;
    pooling_add(&pool, rows[0]);
    pooling_close(&pool);
    pool.count = COUNT;
    for (int32_t i = 0; i < COUNT; i++) {
        mean += (long double)rows[0][i] / COUNT;
    }
    for (int32_t i = 0; i < COUNT; i++) {
        variance += ((long double)rows[0][i] - mean) * ((long double)rows[0][i] - mean) / COUNT;
    }
    const long double deviation = sqrtl(variance + 1e-5L);
    for (int32_t i = 0; i < CUT; i++) {
        squares += powl(((long double)rows[0][i] - mean) / deviation, 2);
    }
    for (int normalize = 0; normalize < 2; normalize++) {
        assert_int_equal(pooling_finish(&pool, CUT, normalize, out), ERR_OK);
        for (int32_t i = 0; i < CUT; i++) {
            long double value = ((long double)rows[0][i] - mean) / deviation;
            value = normalize ? value / sqrtl(squares) : value;
            /* One rounding to float, and sums of COUNT doubles of at most 4. */
            long double bound =
                fabsl(value) * FLT_EPSILON / 2 + COUNT * 4 * (long double)DBL_EPSILON;
            assert_true(fabsl((long double)out[i] - value) <= bound);
        }
    }
}

static void test_special_numbers(void **state)
{
    double sum[HIDDEN];
    float row[HIDDEN] = {0}, out[HIDDEN];
    struct pool pool;
    assert_int_equal(pooling_row(row, HIDDEN, true, out), ERR_OK); /* zeros stay zeros */
    assert_memory_equal(row, out, sizeof(row));

    for (int32_t i = 0; i < HIDDEN; i++) {
        row[i] = FLT_MAX; /* its square is no float */
    }
    assert_int_equal(pooling_row(row, 4, true, out), ERR_OK);
    assert_true(out[0] == 0.5f && out[3] == 0.5f);

    const float bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t b = 0; b < 3; b++) {
        row[5] = bad[b];
        for (int normalize = 0; normalize < 2; normalize++) {
            pooling_begin(&pool, POOLING_MEAN, HIDDEN, 2, sum);
            pooling_add(&pool, row);
            pooling_add(&pool, row);
            pooling_close(&pool);
            assert_int_equal(pooling_finish(&pool, HIDDEN, normalize, out), ERR_NON_FINITE);
            assert_int_equal(pooling_row(row, HIDDEN, normalize, out), ERR_NON_FINITE);
            assert_int_equal(pooling_row(row, 5, normalize, out), ERR_OK); /* cut away */
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_pooling),
        cmocka_unit_test(test_skipped_rows),
        cmocka_unit_test(test_one_row_is_itself),
        cmocka_unit_test(test_layer_norm),
        cmocka_unit_test(test_special_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
