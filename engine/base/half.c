/*
 * f16 and bf16 by integer arithmetic on the bits, so that the result does not depend on what the
 * CPU offers. NaNs stay NaNs and become quiet.
 *
 *     f32   s eeeeeeee mmmmmmmmmmmmmmmmmmmmmmm   bias 127
 *     f16   s eeeee mmmmmmmmmm                   bias 15
 *     bf16  s eeeeeeee mmmmmmm                   the upper half of an f32
 */
#include "engine/base/half.h"

#include <string.h>

static float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t bits_of_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

float half_from_f16(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16;
    uint32_t exponent = (bits >> 10) & 0x1f;
    uint32_t mantissa = bits & 0x3ff;
    if (exponent == 0x1f) {
        uint32_t quiet = mantissa == 0 ? 0 : UINT32_C(0x400000);
        return float_of_bits(sign | UINT32_C(0x7f800000) | quiet | mantissa << 13);
    }
    if (exponent == 0) {
        /* Zero or subnormal: mantissa * 2^-24, which f32 holds exactly. */
        float magnitude = (float)mantissa * 0x1p-24f;
        return sign == 0 ? magnitude : -magnitude;
    }
    return float_of_bits(sign | (exponent + 112) << 23 | mantissa << 13);
}

/* value / 2^shift, to nearest, ties to even. */
static uint32_t shift_rounded(uint32_t value, uint32_t shift)
{
    uint32_t half = UINT32_C(1) << (shift - 1);
    uint32_t rest = value & ((half << 1) - 1);
    uint32_t result = value >> shift;
    return result + (rest > half || (rest == half && (result & 1) != 0));
}

uint16_t half_to_f16(float value)
{
    uint32_t bits = bits_of_float(value);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    uint32_t magnitude = bits & UINT32_C(0x7fffffff);
    if (magnitude > UINT32_C(0x7f800000)) {
        return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
    }
    uint32_t exponent = magnitude >> 23;
    if (exponent >= 143) { /* 2^16 and more */
        return (uint16_t)(sign | 0x7c00);
    }
    if (exponent >= 113) {
        /* Rounding may carry into the exponent, and from the largest number into infinity: both
         * are what the format wants. */
        return (uint16_t)(sign | shift_rounded(magnitude - (UINT32_C(112) << 23), 13));
    }
    if (exponent < 102) { /* below half of the smallest subnormal */
        return sign;
    }
    uint32_t mantissa = (magnitude & UINT32_C(0x7fffff)) | UINT32_C(0x800000);
    return (uint16_t)(sign | shift_rounded(mantissa, 126 - exponent));
}

float half_from_bf16(uint16_t bits)
{
    return float_of_bits((uint32_t)bits << 16);
}

uint16_t half_to_bf16(float value)
{
    uint32_t bits = bits_of_float(value);
    if ((bits & UINT32_C(0x7fffffff)) > UINT32_C(0x7f800000)) {
        return (uint16_t)(bits >> 16 | 0x40);
    }
    return (uint16_t)shift_rounded(bits, 16);
}
