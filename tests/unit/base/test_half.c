/*
 * Goal: the 16-bit float conversions are exact.
 * Method: all 65,536 bit patterns of both formats against values computed from the definition with
 * ldexp; then back to the same bits. Rounding is tried on both sides of and on every midpoint
 * between neighbours.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "engine/base/attr.h"
#include "engine/base/half.h"

/* (-1)^s * m * 2^e as the formats define it, in double, which holds every value exactly. */
static double defined_value(uint16_t bits, int exponent_bits, int mantissa_bits)
{
    int bias = (1 << (exponent_bits - 1)) - 1;
    int exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
    int mantissa = bits & ((1 << mantissa_bits) - 1);
    double magnitude = 0;
    if (exponent == (1 << exponent_bits) - 1) {
        magnitude = mantissa == 0 ? INFINITY : NAN;
    } else if (exponent == 0) {
        magnitude = ldexp(mantissa, 1 - bias - mantissa_bits);
    } else {
        magnitude = ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
    }
    return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

static void check_all(
    float (*from)(uint16_t), uint16_t (*to)(float), int exponent_bits, int mantissa_bits)
{
    for (uint32_t i = 0; i <= 0xFFFF; i++) {
        uint16_t bits = (uint16_t)i;
        double expected = defined_value(bits, exponent_bits, mantissa_bits);
        float value = from(bits);
        if (isnan(expected)) {
            assert_true(isnan(value));
            assert_true(isnan(from(to(value))));
            assert_int_equal(to(value) & 0x8000, bits & 0x8000);
            continue;
        }
        assert_true((double)value == expected);
        assert_int_equal(signbit(value) != 0, bits >> 15);
        assert_int_equal(to(value), bits);
    }
}

static void test_f16_all(void **state)
{
    check_all(half_from_f16, half_to_f16, 5, 10);
}

static void test_bf16_all(void **state)
{
    check_all(half_from_bf16, half_to_bf16, 8, 7);
}

/* Every finite positive number and its upper neighbour: the midpoint goes to the even one, and a
 * hair to either side of it goes to that side. `largest_step` stands for infinity's neighbour. */
static void check_midpoints(float (*from)(uint16_t), uint16_t (*to)(float), uint16_t infinity)
{
    for (uint32_t i = 0; i < infinity; i++) {
        uint16_t low = (uint16_t)i, high = (uint16_t)(i + 1);
        double below = (double)from(low);
        double step =
            high == infinity ? below - (double)from((uint16_t)(i - 1)) : (double)from(high) - below;
        double exact_middle = below + step / 2;
        float middle = (float)exact_middle;
        if (!((double)middle == exact_middle)) {
            continue; /* below f32's own resolution: no such input exists */
        }
        uint16_t even = (i & 1) == 0 ? low : high;
        assert_int_equal(to(middle), even);
        assert_int_equal(to(-middle), even | 0x8000);
        assert_int_equal(to(nextafterf(middle, 0)), low);
        assert_int_equal(to(nextafterf(middle, INFINITY)), high);
    }
}

static void test_f16_midpoints(void **state)
{
    check_midpoints(half_from_f16, half_to_f16, 0x7C00);
}

static void test_bf16_midpoints(void **state)
{
    check_midpoints(half_from_bf16, half_to_bf16, 0x7F80);
}

static void test_far_out(void **state)
{
    assert_int_equal(half_to_f16(65519.0f), 0x7BFF); /* just below the last midpoint */
    assert_int_equal(half_to_f16(65520.0f), 0x7C00);
    assert_int_equal(half_to_f16(1e30f), 0x7C00);
    assert_int_equal(half_to_f16(-1e30f), 0xFC00);
    assert_int_equal(half_to_f16(0x1p-25f), 0x0000); /* ties to even: zero */
    assert_int_equal(half_to_f16(nextafterf(0x1p-25f, 1)), 0x0001);
    assert_int_equal(half_to_f16(-0x1p-149f), 0x8000);
    uint32_t signalling_bits = 0x7F800001;
    float signalling;
    memcpy(&signalling, &signalling_bits, sizeof signalling);
    assert_int_equal(half_to_f16(signalling) & 0x7E00, 0x7E00);
    assert_int_equal(half_to_bf16(signalling) & 0x7FC0, 0x7FC0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f16_all),
        cmocka_unit_test(test_bf16_all),
        cmocka_unit_test(test_f16_midpoints),
        cmocka_unit_test(test_bf16_midpoints),
        cmocka_unit_test(test_far_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
