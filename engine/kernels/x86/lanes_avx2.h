/* Small vector pieces: row tails by masks, and sums and maxima across lanes in a fixed order. */
#ifndef ENGINE_KERNELS_X86_LANES_AVX2_H
#define ENGINE_KERNELS_X86_LANES_AVX2_H

#include <immintrin.h>
#include <stdint.h>

enum { LANES = 8 };

/* The first `count` of eight lanes, 0 <= count <= 8. */
static inline __m256i lanes_first(int32_t count)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/* Eight numbers, or the last few of a row and zeros; never reads past `left`. */
static inline __m256 lanes_load(const float *x, int32_t left)
{
    return left >= LANES ? _mm256_loadu_ps(x) : _mm256_maskload_ps(x, lanes_first(left));
}

static inline void lanes_store(float *x, int32_t left, __m256 value)
{
    if (left >= LANES) {
        _mm256_storeu_ps(x, value);
    } else {
        _mm256_maskstore_ps(x, lanes_first(left), value);
    }
}

/* ((0+4)+(2+6)) + ((1+5)+(3+7)) */
static inline float lanes_sum(__m256 v)
{
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

/* No lane may be NaN. */
static inline float lanes_max(__m256 v)
{
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

#endif
