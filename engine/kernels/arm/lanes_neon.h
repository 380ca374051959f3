/*
 * Small vector pieces: row tails, f16, and sums and maxima in a fixed order.
 *
 * NEON has no masked loads: the last few numbers of a row pass through a small buffer.
 */
#ifndef ENGINE_KERNELS_ARM_LANES_NEON_H
#define ENGINE_KERNELS_ARM_LANES_NEON_H

#include <arm_neon.h>
#include <stdint.h>
#include <string.h>

enum { LANES = 4 };

/* All ones in the first `count` of four lanes; count may be any number. */
static inline uint32x4_t lanes_first(int32_t count)
{
    static const int32_t indices[LANES] = {0, 1, 2, 3};
    return vcgtq_s32(vdupq_n_s32(count), vld1q_s32(indices));
}

/* Four numbers, or the last `left` of a row and zeros; never reads past them. */
static inline float32x4_t lanes_load(const float *x, int32_t left)
{
    if (left >= LANES) {
        return vld1q_f32(x);
    }
    float rest[LANES] = {0};
    memcpy(rest, x, (size_t)left * sizeof *x);
    return vld1q_f32(rest);
}

static inline void lanes_store(float *x, int32_t left, float32x4_t value)
{
    if (left >= LANES) {
        vst1q_f32(x, value);
        return;
    }
    float rest[LANES];
    vst1q_f32(rest, value);
    memcpy(x, rest, (size_t)left * sizeof *x);
}

/* Four pairs, or the last `left`, as first and second numbers. */
static inline float32x4x2_t lanes_load_pairs(const float *x, int32_t left)
{
    if (left >= LANES) {
        return vld2q_f32(x);
    }
    float rest[2 * LANES] = {0};
    memcpy(rest, x, (size_t)left * 2 * sizeof *x);
    return vld2q_f32(rest);
}

static inline void lanes_store_pairs(float *x, int32_t left, float32x4x2_t value)
{
    if (left >= LANES) {
        vst2q_f32(x, value);
        return;
    }
    float rest[2 * LANES];
    vst2q_f32(rest, value);
    memcpy(x, rest, (size_t)left * 2 * sizeof *x);
}

/* Four f16 numbers. */
static inline float32x4_t lanes_f16(const void *at)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(at)));
}

/* Lanes 0-3 and 4-7 of eight: ((0+4)+(2+6)) + ((1+5)+(3+7)), the order of the AVX2 rung. */
static inline float lanes_sum(float32x4_t low, float32x4_t high)
{
    const float32x4_t four = vaddq_f32(low, high);
    const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}

/* The greater of each lane; where x is NaN, best. */
static inline float32x4_t lanes_greater(float32x4_t x, float32x4_t best)
{
    return vbslq_f32(vcgtq_f32(x, best), x, best);
}

#endif
