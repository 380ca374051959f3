/* lanes.h on x86-64: 8 lanes with AVX2, FMA and F16C, 16 with AVX-512 (F, BW, DQ, VL). */
#ifndef ENGINE_KERNELS_LANES_LANES_X86_H
#define ENGINE_KERNELS_LANES_LANES_X86_H

#include <immintrin.h>
#include <stdint.h>

#if defined(KERNELS_AVX512)
#define MM(operation) _mm512_##operation
enum { LANES = 16 };
typedef __m512 floats;
typedef __m512i ints;
typedef __m512d doubles; /* half as many lanes */
typedef __mmask16 bools; /* a bit of each lane */
#else
#define MM(operation) _mm256_##operation
enum { LANES = 8 };
typedef __m256 floats;
typedef __m256i ints;
typedef __m256d doubles;
typedef __m256i bools; /* all bits of each lane */
#endif

/* ---- what has the same name in both --------------------------------------------------------- */

#define floats_load MM(loadu_ps)
#define floats_store MM(storeu_ps)
#define floats_all MM(set1_ps)
#define floats_zero MM(setzero_ps)
#define floats_fma MM(fmadd_ps)         /* a b + c, rounded once */
#define floats_fms MM(fmsub_ps)         /* a b - c */
#define floats_fnma MM(fnmadd_ps)       /* c - a b */
#define floats_fmaddsub MM(fmaddsub_ps) /* a b - c in even lanes, a b + c in odd ones */
#define floats_max MM(max_ps)           /* b where one of a, b is NaN */
#define floats_of_ints MM(cvtepi32_ps)
#define floats_evens MM(moveldup_ps) /* the even lanes, each twice */
#define floats_odds MM(movehdup_ps)
#define ints_all MM(set1_epi32)
#define ints_all_bytes MM(set1_epi8)
#define ints_add MM(add_epi32)
#define ints_add_bytes MM(add_epi8)
#define ints_sub MM(sub_epi32)
#define ints_size MM(abs_epi32)
#define ints_left MM(slli_epi32) /* by a constant */
#define ints_right MM(srli_epi32)
#define ints_right_signed MM(srai_epi32)
#define ints_of_floats MM(cvtps_epi32)
#define ints_shuffle_bytes MM(shuffle_epi8) /* within each four lanes; index 0x80 gives 0 */
#define doubles_zero MM(setzero_pd)
#define doubles_fma MM(fmadd_pd)
#define doubles_store MM(storeu_pd)

static inline floats floats_size(floats v)
{
    return MM(andnot_ps)(floats_all(-0.0f), v);
}

/* Each even lane and the odd one after it change places. */
static inline floats floats_swapped(floats v)
{
    return MM(permute_ps)(v, 0xb1);
}

/* By numbers known only when it runs; to the left where `by` is negative. */
static inline ints ints_shifted_right(ints v, int by)
{
    return by >= 0 ? MM(srl_epi32)(v, _mm_cvtsi32_si128(by))
                   : MM(sll_epi32)(v, _mm_cvtsi32_si128(-by));
}

#if defined(KERNELS_AVX512)

/* ---- 16 lanes ------------------------------------------------------------------------------- */

static inline floats floats_round(floats v)
{
    return _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* The low four bits of each lane as a signed number, times 2^28: a vector holds all there are. */
static inline floats floats_of_nibbles(ints v)
{
    const floats numbers = _mm512_setr_ps(0, 0x1p28f, 0x2p28f, 0x3p28f, 0x4p28f, 0x5p28f, 0x6p28f,
        0x7p28f, -0x8p28f, -0x7p28f, -0x6p28f, -0x5p28f, -0x4p28f, -0x3p28f, -0x2p28f, -0x1p28f);
    return _mm512_permutexvar_ps(v, numbers);
}

static inline floats floats_of_f16(const void *numbers)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)numbers));
}

static inline floats floats_of_bf16(const void *numbers)
{
    const __m256i bits = _mm256_loadu_si256((const __m256i *)numbers);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

/* To the nearest, ties to even. */
static inline void floats_store_f16(void *numbers, floats v)
{
    _mm256_storeu_si256((__m256i *)numbers, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}

static inline ints floats_bits(floats v)
{
    return _mm512_castps_si512(v);
}

static inline floats floats_of_bits(ints v)
{
    return _mm512_castsi512_ps(v);
}

/* Takes pairs apart, those in low and then those in high: first numbers, second numbers. */
static inline void floats_unzip(floats low, floats high, floats *out_first, floats *out_second)
{
    const ints first = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    *out_first = _mm512_permutex2var_ps(low, first, high);
    *out_second = _mm512_permutex2var_ps(low, ints_add(first, ints_all(1)), high);
}

static inline bools floats_less(floats a, floats b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}

static inline bools floats_equal(floats a, floats b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ);
}

/* a where true, else b. */
static inline floats floats_where(bools where, floats a, floats b)
{
    return _mm512_mask_blend_ps(where, b, a);
}

static inline ints ints_load(const void *x)
{
    return _mm512_loadu_si512(x);
}

static inline bools ints_greater(ints a, ints b)
{
    return _mm512_cmpgt_epi32_mask(a, b);
}

static inline bools ints_equal(ints a, ints b)
{
    return _mm512_cmpeq_epi32_mask(a, b);
}

/* v where true, else 0. */
static inline ints ints_where(bools where, ints v)
{
    return _mm512_maskz_mov_epi32(where, v);
}

/* Four numbers over and over. */
static inline ints ints_four(int a, int b, int c, int d)
{
    return _mm512_broadcast_i32x4(_mm_setr_epi32(a, b, c, d));
}

/* `value` in each byte of v that has the one bit that is set in this byte of `bit`, else 0. */
static inline ints ints_bytes_with(ints v, ints bit, int value)
{
    return _mm512_maskz_set1_epi8(_mm512_test_epi8_mask(v, bit), (char)value);
}

/* A bit of each lane. */
static inline unsigned bools_bits(bools v)
{
    return v;
}

/* The first `count` lanes: none if it is negative, all from LANES on. */
static inline bools lanes_first(int32_t count)
{
    return ints_greater(
        ints_all(count), _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
}

/* The first `count` lanes; others are 0 and not read, or left as they are. */
static inline floats floats_load_first(const float *x, int32_t count)
{
    return _mm512_maskz_loadu_ps(lanes_first(count), x);
}

static inline ints ints_load_first(const int32_t *x, int32_t count)
{
    return _mm512_maskz_loadu_epi32(lanes_first(count), x);
}

static inline void floats_store_first(float *x, int32_t count, floats v)
{
    _mm512_mask_storeu_ps(x, lanes_first(count), v);
}

static inline doubles doubles_of_low(floats v)
{
    return _mm512_cvtps_pd(_mm512_castps512_ps256(v));
}

static inline doubles doubles_of_high(floats v)
{
    return _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1));
}

static inline __m256 max_of_eight(floats v)
{
    return _mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
}

#else

/* ---- 8 lanes: the same ---------------------------------------------------------------------- */

static inline floats floats_round(floats v)
{
    return _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

static inline floats floats_of_nibbles(ints v)
{
    return floats_of_ints(ints_left(v, 28));
}

static inline floats floats_of_f16(const void *numbers)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)numbers));
}

static inline floats floats_of_bf16(const void *numbers)
{
    const __m128i bits = _mm_loadu_si128((const __m128i *)numbers);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}

static inline void floats_store_f16(void *numbers, floats v)
{
    _mm_storeu_si128((__m128i *)numbers, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}

static inline ints floats_bits(floats v)
{
    return _mm256_castps_si256(v);
}

static inline floats floats_of_bits(ints v)
{
    return _mm256_castsi256_ps(v);
}

static inline void floats_unzip(floats low, floats high, floats *out_first, floats *out_second)
{
    /* The shuffle works within 128 bits: pairs 0 1 4 5 | 2 3 6 7. */
    const ints order = _mm256_setr_epi32(0, 1, 4, 5, 2, 3, 6, 7);
    *out_first = _mm256_permutevar8x32_ps(_mm256_shuffle_ps(low, high, 0x88), order);
    *out_second = _mm256_permutevar8x32_ps(_mm256_shuffle_ps(low, high, 0xdd), order);
}

static inline bools floats_less(floats a, floats b)
{
    return _mm256_castps_si256(_mm256_cmp_ps(a, b, _CMP_LT_OQ));
}

static inline bools floats_equal(floats a, floats b)
{
    return _mm256_castps_si256(_mm256_cmp_ps(a, b, _CMP_EQ_OQ));
}

static inline floats floats_where(bools where, floats a, floats b)
{
    return _mm256_blendv_ps(b, a, _mm256_castsi256_ps(where));
}

static inline ints ints_load(const void *x)
{
    return _mm256_loadu_si256((const __m256i *)x);
}

static inline bools ints_greater(ints a, ints b)
{
    return _mm256_cmpgt_epi32(a, b);
}

static inline bools ints_equal(ints a, ints b)
{
    return _mm256_cmpeq_epi32(a, b);
}

static inline ints ints_where(bools where, ints v)
{
    return where & v;
}

static inline ints ints_four(int a, int b, int c, int d)
{
    return _mm256_broadcastsi128_si256(_mm_setr_epi32(a, b, c, d));
}

static inline ints ints_bytes_with(ints v, ints bit, int value)
{
    return _mm256_cmpeq_epi8(v & bit, bit) & ints_all_bytes((char)value);
}

static inline unsigned bools_bits(bools v)
{
    return (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(v));
}

static inline bools lanes_first(int32_t count)
{
    return ints_greater(ints_all(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

static inline floats floats_load_first(const float *x, int32_t count)
{
    return _mm256_maskload_ps(x, lanes_first(count));
}

static inline ints ints_load_first(const int32_t *x, int32_t count)
{
    return _mm256_maskload_epi32(x, lanes_first(count));
}

static inline void floats_store_first(float *x, int32_t count, floats v)
{
    _mm256_maskstore_ps(x, lanes_first(count), v);
}

static inline doubles doubles_of_low(floats v)
{
    return _mm256_cvtps_pd(_mm256_castps256_ps128(v));
}

static inline doubles doubles_of_high(floats v)
{
    return _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));
}

static inline __m256 max_of_eight(floats v)
{
    return v;
}

#endif

/* ---- both ----------------------------------------------------------------------------------- */

/* No lane may be NaN. */
static inline float floats_greatest(floats v)
{
    const __m256 eight = max_of_eight(v);
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

/* ---- sums of lanes -------------------------------------------------------------------------- */

typedef __m256 eight;

#define eight_load _mm256_loadu_ps
#define eight_store _mm256_storeu_ps
#define eight_add _mm256_add_ps

/* ((0+4)+(2+6)) + ((1+5)+(3+7)) */
static inline float eight_sum(eight v)
{
    const __m128 four = _mm256_castps256_ps128(v) + _mm256_extractf128_ps(v, 1);
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

/* The sum of each of eight: ((0+1)+(2+3)) + ((4+5)+(6+7)). */
static inline eight eight_sums(const eight v[8])
{
    const __m256 low = _mm256_hadd_ps(_mm256_hadd_ps(v[0], v[1]), _mm256_hadd_ps(v[2], v[3]));
    const __m256 high = _mm256_hadd_ps(_mm256_hadd_ps(v[4], v[5]), _mm256_hadd_ps(v[6], v[7]));
    return _mm256_permute2f128_ps(low, high, 0x20) + _mm256_permute2f128_ps(low, high, 0x31);
}

#endif
