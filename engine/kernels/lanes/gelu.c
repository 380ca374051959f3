/*
 * GELU (arXiv 1606.08415): x times the share of a normal distribution below x, exactly or as
 * published models approximate it.
 *
 * The share is 1/2 + x r(x^2), r a quotient of two polynomials of degree 5, fitted to the least
 * greatest error of the share within 5.5 spreads, 7.2e-9; beyond them the share is 0 or 1 to
 * within 1.9e-8. With roundings the result is within 4 u |x|, u = 2^-24, which
 * tests/kernels/test_encoder.c checks: the accuracy of 1 + erf in float, without an exp.
 */
#include "engine/kernels/lanes/isa.h"
#include "engine/kernels/lanes/lanes_exp.h"
#include "engine/kernels/lanes/lanes.h"

/* Coefficients in ascending order. */
static inline floats polynomial(const float c[6], floats s)
{
    floats p = floats_all(c[5]);
    for (int i = 4; i >= 0; i--) {
        p = floats_fma(p, s, floats_all(c[i]));
    }
    return p;
}

static inline floats gelu_erf(floats x)
{
    static const float above[6] = {0x1.988450p-2f, 0x1.155248p-5f, 0x1.32877cp-8f, 0x1.620df8p-13f,
        0x1.aa48b6p-18f, 0x1.86d4d8p-26f};
    static const float below[6] = {
        1, 0x1.018f02p-2f, 0x1.d555a6p-6f, 0x1.edff36p-10f, 0x1.34e6acp-14f, 0x1.4173ecp-20f};
    const floats s = x * x;
    const floats half = x * polynomial(above, s) / polynomial(below, s);
    floats share = half + floats_all(0.5f);
    share = floats_where(floats_less(floats_all(5.5f), x), floats_all(1.0f), share);
    share = floats_where(floats_less(x, floats_all(-5.5f)), floats_zero(), share);
    return x * share;
}

/* x (1 + tanh(u)) / 2 = x / (1 + exp(-2 u)), u = sqrt(2 / pi) (x + 0.044715 x^3). */
static inline floats gelu_tanh(floats x)
{
    const floats cubic = floats_all(-0x1.2444f2p-4f); /* -2 sqrt(2 / pi) 0.044715 */
    const floats line = floats_all(-0x1.988454p+0f);  /* -2 sqrt(2 / pi) */
    const floats t = x * floats_fma(x * x, cubic, line);
    return x / (floats_all(1.0f) + lanes_exp(t));
}

void ISA(gelu_erf)(const float *gate, const float *up, int32_t count, float *out)
{
    for (int32_t i = 0; i < count; i += LANES) {
        floats y = gelu_erf(lanes_load(gate + i, count - i));
        if (up != NULL) {
            y = y * lanes_load(up + i, count - i);
        }
        lanes_store(out + i, count - i, y);
    }
}

void ISA(gelu_tanh)(const float *gate, const float *up, int32_t count, float *out)
{
    for (int32_t i = 0; i < count; i += LANES) {
        floats y = gelu_tanh(lanes_load(gate + i, count - i));
        if (up != NULL) {
            y = y * lanes_load(up + i, count - i);
        }
        lanes_store(out + i, count - i, y);
    }
}
