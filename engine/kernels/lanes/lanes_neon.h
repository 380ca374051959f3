/*
 * lanes.h on AArch64: 4 lanes, in the instructions that every such CPU has.
 *
 * NEON has no masked loads and stores: the last few numbers of a row pass through a small buffer.
 * Checked under emulation, never timed on real hardware.
 */
#ifndef ENGINE_KERNELS_LANES_LANES_NEON_H
#define ENGINE_KERNELS_LANES_LANES_NEON_H

#include <arm_neon.h>
#include <stdint.h>
#include <string.h>

enum { LANES = 4 };
typedef float32x4_t floats;
typedef int32x4_t ints;
typedef float64x2_t doubles; /* half as many lanes */
typedef int32x4_t bools;     /* all bits of each lane */

/* ---- floats --------------------------------------------------------------------------------- */

#define floats_load vld1q_f32
#define floats_store vst1q_f32
#define floats_all vdupq_n_f32
#define floats_round vrndnq_f32
#define floats_size vabsq_f32
#define floats_swapped vrev64q_f32 /* each even lane and the odd one after it change places */
#define floats_of_ints vcvtq_f32_s32
#define floats_bits vreinterpretq_s32_f32
#define floats_of_bits vreinterpretq_f32_s32
#define floats_greatest vmaxvq_f32 /* no lane may be NaN */

static inline floats floats_zero(void)
{
    return floats_all(0);
}

/* a b + c, rounded once */
static inline floats floats_fma(floats a, floats b, floats c)
{
    return vfmaq_f32(c, a, b);
}

/* a b - c */
static inline floats floats_fms(floats a, floats b, floats c)
{
    return vfmaq_f32(-c, a, b);
}

/* c - a b */
static inline floats floats_fnma(floats a, floats b, floats c)
{
    return vfmsq_f32(c, a, b);
}

/* a b - c in even lanes, a b + c in odd ones */
static inline floats floats_fmaddsub(floats a, floats b, floats c)
{
    const ints signs = {INT32_MIN, 0, INT32_MIN, 0};
    return vfmaq_f32(floats_of_bits(floats_bits(c) ^ signs), a, b);
}

/* The even lanes, each twice. */
static inline floats floats_evens(floats v)
{
    return vtrn1q_f32(v, v);
}

static inline floats floats_odds(floats v)
{
    return vtrn2q_f32(v, v);
}

/* The low four bits of each lane as a signed number, times 2^28. */
static inline floats floats_of_nibbles(ints v)
{
    return floats_of_ints(v << 28);
}

static inline floats floats_of_f16(const void *numbers)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(numbers)));
}

static inline floats floats_of_bf16(const void *numbers)
{
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(numbers), 16));
}

/* To the nearest, ties to even. */
static inline void floats_store_f16(void *numbers, floats v)
{
    vst1_u16(numbers, vreinterpret_u16_f16(vcvt_f16_f32(v)));
}

/* Takes pairs apart, those in low and then those in high: first numbers, second numbers. */
static inline void floats_unzip(floats low, floats high, floats *out_first, floats *out_second)
{
    *out_first = vuzp1q_f32(low, high);
    *out_second = vuzp2q_f32(low, high);
}

static inline bools floats_less(floats a, floats b)
{
    return vreinterpretq_s32_u32(vcltq_f32(a, b));
}

static inline bools floats_equal(floats a, floats b)
{
    return vreinterpretq_s32_u32(vceqq_f32(a, b));
}

/* a where true, else b. */
static inline floats floats_where(bools where, floats a, floats b)
{
    return vbslq_f32(vreinterpretq_u32_s32(where), a, b);
}

/* b where one of a, b is NaN */
static inline floats floats_max(floats a, floats b)
{
    return floats_where(floats_less(b, a), a, b);
}

/* ---- ints ----------------------------------------------------------------------------------- */

#define ints_all vdupq_n_s32
#define ints_size vabsq_s32
#define ints_of_floats vcvtnq_s32_f32
#define ints_add vaddq_s32
#define ints_sub vsubq_s32

static inline ints ints_load(const void *x)
{
    return vld1q_s32(x);
}

static inline ints ints_all_bytes(char byte)
{
    return vreinterpretq_s32_s8(vdupq_n_s8((int8_t)byte));
}

static inline ints ints_add_bytes(ints a, ints b)
{
    return vreinterpretq_s32_s8(vaddq_s8(vreinterpretq_s8_s32(a), vreinterpretq_s8_s32(b)));
}

static inline ints ints_left(ints v, int by)
{
    return v << by;
}

static inline ints ints_right(ints v, int by)
{
    return vreinterpretq_s32_u32(vreinterpretq_u32_s32(v) >> by);
}

static inline ints ints_right_signed(ints v, int by)
{
    return v >> by;
}

/* To the left where `by` is negative. */
static inline ints ints_shifted_right(ints v, int by)
{
    return vreinterpretq_s32_u32(vshlq_u32(vreinterpretq_u32_s32(v), ints_all(-by)));
}

/* Index 0x80 gives 0. */
static inline ints ints_shuffle_bytes(ints v, ints indices)
{
    return vreinterpretq_s32_u8(vqtbl1q_u8(vreinterpretq_u8_s32(v), vreinterpretq_u8_s32(indices)));
}

static inline ints ints_four(int a, int b, int c, int d)
{
    return (ints){a, b, c, d};
}

/* `value` in each byte of v that has the one bit that is set in this byte of `bit`, else 0. */
static inline ints ints_bytes_with(ints v, ints bit, int value)
{
    const uint8x16_t has = vtstq_u8(vreinterpretq_u8_s32(v), vreinterpretq_u8_s32(bit));
    return vreinterpretq_s32_u8(has) & ints_all_bytes((char)value);
}

static inline bools ints_greater(ints a, ints b)
{
    return vreinterpretq_s32_u32(vcgtq_s32(a, b));
}

static inline bools ints_equal(ints a, ints b)
{
    return vreinterpretq_s32_u32(vceqq_s32(a, b));
}

/* v where true, else 0. */
static inline ints ints_where(bools where, ints v)
{
    return where & v;
}

/* ---- some of the lanes ---------------------------------------------------------------------- */

/* A bit of each lane. */
static inline unsigned bools_bits(bools v)
{
    return (unsigned)vaddvq_s32(v & ints_four(1, 2, 4, 8));
}

/* The first `count` lanes: none if it is negative, all from LANES on. */
static inline bools lanes_first(int32_t count)
{
    return ints_greater(ints_all(count), ints_four(0, 1, 2, 3));
}

/* The first `count` lanes; others are 0 and not read, or left as they are. */
static inline floats floats_load_first(const float *x, int32_t count)
{
    float some[LANES] = {0};
    for (int32_t i = 0; i < LANES && i < count; i++) {
        some[i] = x[i];
    }
    return floats_load(some);
}

static inline ints ints_load_first(const int32_t *x, int32_t count)
{
    int32_t some[LANES] = {0};
    for (int32_t i = 0; i < LANES && i < count; i++) {
        some[i] = x[i];
    }
    return ints_load(some);
}

static inline void floats_store_first(float *x, int32_t count, floats v)
{
    float some[LANES];
    floats_store(some, v);
    for (int32_t i = 0; i < LANES && i < count; i++) {
        x[i] = some[i];
    }
}

/* ---- doubles -------------------------------------------------------------------------------- */

#define doubles_of_high vcvt_high_f64_f32
#define doubles_store vst1q_f64

static inline doubles doubles_zero(void)
{
    return vdupq_n_f64(0);
}

static inline doubles doubles_of_low(floats v)
{
    return vcvt_f64_f32(vget_low_f32(v));
}

static inline doubles doubles_fma(doubles a, doubles b, doubles c)
{
    return vfmaq_f64(c, a, b);
}

/* ---- sums of lanes -------------------------------------------------------------------------- */

typedef float32x4x2_t eight;

static inline eight eight_load(const float *x)
{
    return (eight){{floats_load(x), floats_load(x + LANES)}};
}

static inline void eight_store(float *x, eight v)
{
    floats_store(x, v.val[0]);
    floats_store(x + LANES, v.val[1]);
}

static inline eight eight_add(eight a, eight b)
{
    return (eight){{a.val[0] + b.val[0], a.val[1] + b.val[1]}};
}

/* ((0+4)+(2+6)) + ((1+5)+(3+7)) */
static inline float eight_sum(eight v)
{
    const floats four = v.val[0] + v.val[1];
    return vpadds_f32(vget_low_f32(four) + vget_high_f32(four));
}

/* ((0+1)+(2+3)) of each of four. */
static inline floats four_sums(floats a, floats b, floats c, floats d)
{
    return vpaddq_f32(vpaddq_f32(a, b), vpaddq_f32(c, d));
}

/* The sum of each of eight: ((0+1)+(2+3)) + ((4+5)+(6+7)). */
static inline eight eight_sums(const eight v[8])
{
    eight sums;
    for (int i = 0; i < 2; i++, v += 4) {
        sums.val[i] = four_sums(v[0].val[0], v[1].val[0], v[2].val[0], v[3].val[0]) +
                      four_sums(v[0].val[1], v[1].val[1], v[2].val[1], v[3].val[1]);
    }
    return sums;
}

#endif
