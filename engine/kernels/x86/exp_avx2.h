/*
 * exp of eight floats, shared by softmax, SiLU and log-sum-exp.
 *
 * x = n ln2 + r with n whole and |r| <= ln2/2; exp(x) = 2^n exp(r). ln2 is split in two floats, so
 * that r keeps its precision; exp(r) is 1 + r + r^2 q(r), q of degree 4 fitted to the least
 * greatest relative error, 3.1e-9, far below half a unit in the last place (6e-8). Together the
 * result is within 1.01 ulp of exp(x), which tests/kernels/test_exp.c checks for every float.
 *
 * Results below the smallest normal float are 0: exp(-inf) = 0, exp(+inf) = +inf, exp(NaN) = NaN,
 * exp(0) = 1 exactly. A lane's result depends on that lane alone.
 */
#ifndef ENGINE_KERNELS_X86_EXP_AVX2_H
#define ENGINE_KERNELS_X86_EXP_AVX2_H

#include <immintrin.h>

/* ln of 2^-126, the smallest normal float, and of the greatest one: the nearest floats inside. */
#define EXP_LOWEST -0x1.5d589ep+6f
#define EXP_HIGHEST 0x1.62e42ep+6f

static inline __m256 exp_avx2(__m256 x)
{
    const __m256 n = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(0x1.715476p+0f)),
        _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0x1.62e4p-1f), x);
    r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0x1.7f7d1cp-20f), r);
    __m256 q = _mm256_set1_ps(0x1.6a2434p-10f);
    q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(0x1.1239e2p-7f));
    q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(0x1.5558f2p-5f));
    q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(0x1.555492p-3f));
    q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(0x1.fffffcp-2f));
    const __m256 p =
        _mm256_add_ps(_mm256_fmadd_ps(q, _mm256_mul_ps(r, r), r), _mm256_set1_ps(1.0f));
    /* 2^n goes straight into the exponent bits; between the two limits nothing overflows. */
    const __m256i exponent = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
    const __m256 scaled = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), exponent));
    const __m256 low = _mm256_cmp_ps(x, _mm256_set1_ps(EXP_LOWEST), _CMP_LT_OQ);
    const __m256 high = _mm256_cmp_ps(x, _mm256_set1_ps(EXP_HIGHEST), _CMP_GT_OQ);
    const __m256 infinite = _mm256_set1_ps(__builtin_inff());
    return _mm256_andnot_ps(low, _mm256_blendv_ps(scaled, infinite, high));
}

#endif
