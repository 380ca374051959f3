/*
 * exp of four floats, shared by softmax, SiLU and log-sum-exp: step for step that of the AVX2 rung
 * (x86/exp_avx2.h derives it), so the bits are the same. Within 1.01 ulp of exp(x), which
 * tests/kernels/test_exp.c checks.
 *
 * Results below the smallest normal float are 0: exp(-inf) = 0, exp(+inf) = +inf, exp(NaN) = NaN,
 * exp(0) = 1 exactly. A lane's result depends on that lane alone.
 */
#ifndef ENGINE_KERNELS_ARM_EXP_NEON_H
#define ENGINE_KERNELS_ARM_EXP_NEON_H

#include <arm_neon.h>

/* ln of 2^-126, the smallest normal float, and of the greatest one: the nearest floats inside. */
#define EXP_LOWEST -0x1.5d589ep+6f
#define EXP_HIGHEST 0x1.62e42ep+6f

static inline float32x4_t exp_neon(float32x4_t x)
{
    const float32x4_t n = vrndnq_f32(vmulq_n_f32(x, 0x1.715476p+0f));
    float32x4_t r = vfmsq_f32(x, n, vdupq_n_f32(0x1.62e4p-1f));
    r = vfmsq_f32(r, n, vdupq_n_f32(0x1.7f7d1cp-20f));
    float32x4_t q = vdupq_n_f32(0x1.6a2434p-10f);
    q = vfmaq_f32(vdupq_n_f32(0x1.1239e2p-7f), q, r);
    q = vfmaq_f32(vdupq_n_f32(0x1.5558f2p-5f), q, r);
    q = vfmaq_f32(vdupq_n_f32(0x1.555492p-3f), q, r);
    q = vfmaq_f32(vdupq_n_f32(0x1.fffffcp-2f), q, r);
    const float32x4_t p = vaddq_f32(vfmaq_f32(r, q, vmulq_f32(r, r)), vdupq_n_f32(1.0f));
    /* 2^n goes straight into the exponent bits; between the two limits nothing overflows. */
    const uint32x4_t exponent = vshlq_n_u32(vreinterpretq_u32_s32(vcvtq_s32_f32(n)), 23);
    const float32x4_t scaled = vreinterpretq_f32_u32(vaddq_u32(vreinterpretq_u32_f32(p), exponent));
    const uint32x4_t low = vcltq_f32(x, vdupq_n_f32(EXP_LOWEST));
    const uint32x4_t high = vcgtq_f32(x, vdupq_n_f32(EXP_HIGHEST));
    const float32x4_t kept = vbslq_f32(high, vdupq_n_f32(__builtin_inff()), scaled);
    return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(kept), low));
}

#endif
