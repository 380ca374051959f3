/*
 * exp of a vector of floats, shared by softmax, SiLU and log-sum-exp.
 *
 * x = n ln2 + r with n whole and |r| <= ln2/2; exp(x) = 2^n exp(r). ln2 is split in two floats, so
 * that r keeps its precision; exp(r) is 1 + r + r^2 q(r), q of degree 4 fitted to the least
 * greatest relative error, 3.1e-9, far below half a unit in the last place (6e-8). Together the
 * result is within 1.01 ulp of exp(x), which tests/kernels/test_exp.c checks for every float.
 *
 * Results below the smallest normal float are 0: exp(-inf) = 0, exp(+inf) = +inf, exp(NaN) = NaN,
 * exp(0) = 1 exactly. A lane's result depends on that lane alone.
 */
#ifndef ENGINE_KERNELS_LANES_LANES_EXP_H
#define ENGINE_KERNELS_LANES_LANES_EXP_H

#include "engine/kernels/lanes/lanes.h"

/* ln of 2^-126, the smallest normal float, and of the greatest one: the nearest floats inside. */
#define EXP_LOWEST -0x1.5d589ep+6f
#define EXP_HIGHEST 0x1.62e42ep+6f

static inline floats lanes_exp(floats x)
{
    const floats n = floats_round(x * floats_all(0x1.715476p+0f));
    floats r = floats_fnma(n, floats_all(0x1.62e4p-1f), x);
    r = floats_fnma(n, floats_all(0x1.7f7d1cp-20f), r);
    floats q = floats_all(0x1.6a2434p-10f);
    q = floats_fma(q, r, floats_all(0x1.1239e2p-7f));
    q = floats_fma(q, r, floats_all(0x1.5558f2p-5f));
    q = floats_fma(q, r, floats_all(0x1.555492p-3f));
    q = floats_fma(q, r, floats_all(0x1.fffffcp-2f));
    const floats p = floats_fma(q, r * r, r) + floats_all(1.0f);
    /* 2^n goes straight into the exponent bits; between the two limits nothing overflows. */
    const ints exponent = ints_left(ints_of_floats(n), 23);
    const floats scaled = floats_of_bits(ints_add(floats_bits(p), exponent));
    const bools low = floats_less(x, floats_all(EXP_LOWEST));
    const bools high = floats_less(floats_all(EXP_HIGHEST), x);
    const floats at_most = floats_where(high, floats_all(__builtin_inff()), scaled);
    return floats_where(low, floats_zero(), at_most);
}

#endif
