/*
 * Goal: the digit tables give the same angles as computing each in double from its definition.
 * Method: every position up to 20,000 and a stride of positions to the last, with and without
 * divisors, within one rounding to float plus the error of the angle itself: position * frequency
 * in double is off by 2^-53 of up to 2^21 radians, 2.3e-10, for either way.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <float.h>
#include <math.h>
#include "engine/base/mem.h"
#include "engine/blocks/rope.h"

enum { PAIRS = 8 };

static const float divisors[PAIRS] = {1, 1, 1, 1.5f, 2, 4, 8, 8};

static void check_position(
    const struct rope_table *table, int32_t position, double base, double factor, const float *by)
{
    float out[PAIRS][2];
    rope_angles(table, position, &out[0][0]);
    for (int32_t i = 0; i < PAIRS; i++) {
        double angle = position * pow(base, -2.0 * i / (2 * PAIRS)) / factor;
        angle /= by != NULL ? (double)by[i] : 1;
        double bound = FLT_EPSILON / 2 + 5e-10;
        assert_true(fabs((double)out[i][0] - cos(angle)) <= bound);
        assert_true(fabs((double)out[i][1] - sin(angle)) <= bound);
    }
}

static void check_table(double base, double factor, const float *by)
{
    uint64_t before = mem_bytes(MEM_WEIGHTS);
    struct rope_table table;
    assert_int_equal(rope_open(&table, PAIRS, base, factor, by), ERR_OK);
    assert_int_equal(mem_bytes(MEM_WEIGHTS) - before, rope_bytes(PAIRS));
    for (int32_t position = 0; position < 20000; position++) {
        check_position(&table, position, base, factor, by);
    }
    for (int32_t position = 0; position < ROPE_POSITIONS; position += 997) {
        check_position(&table, position, base, factor, by);
    }
    check_position(&table, ROPE_POSITIONS - 1, base, factor, by);
    rope_close(&table);
    assert_int_equal(mem_bytes(MEM_WEIGHTS), before);
}

static void test_angles(void **state)
{
    check_table(10000, 1, NULL);
    check_table(500000, 1, divisors);
    check_table(100000, 4, NULL);
}

static void test_position_zero_is_exact(void **state)
{
    struct rope_table table;
    assert_int_equal(rope_open(&table, PAIRS, 10000, 1, NULL), ERR_OK);
    float out[PAIRS][2];
    rope_angles(&table, 0, &out[0][0]);
    for (int32_t i = 0; i < PAIRS; i++) {
        assert_true(out[i][0] == 1.0f && out[i][1] == 0.0f);
    }
    rope_close(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_angles),
        cmocka_unit_test(test_position_zero_is_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
