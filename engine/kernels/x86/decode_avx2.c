/*
 * Scores and values of a single row: decoding, where keys and values are read once and turning them
 * to float in a tile first would cost as much again. The chains of FMAs are those of tile_avx2, so
 * the bits are the same.
 */
#include <immintrin.h>
#include "engine/base/attr.h"
#include "engine/kernels/x86/avx2.h"
#include "engine/kernels/x86/unroll.h"

enum {
    LANES = 8,
    SIDE_BY_SIDE = 8, /* chains: enough to hide the latency of FMA */
};

ALWAYS_INLINE __m256 number(enum kv_type type, const void *numbers, size_t index)
{
    if (type == KV_F32) {
        return _mm256_loadu_ps((const float *)numbers + index);
    }
    const void *at = (const uint16_t *)numbers + index;
    return _mm256_cvtph_ps(_mm_loadu_si128(at));
}

/* scores[16 t + lane] = sum over d of q[d] K[t][d][lane] for `count` tiles. */
ALWAYS_INLINE void score_tiles(enum kv_type type, const float *q, int32_t dims,
    const void *const tiles[], const int count, float *scores)
{
    __m256 sums[SIDE_BY_SIDE];
    UNROLL
    for (int v = 0; v < 2 * count; v++) {
        sums[v] = _mm256_setzero_ps();
    }
    for (size_t d = 0; d < (size_t)dims; d++) {
        const __m256 one = _mm256_broadcast_ss(q + d);
        UNROLL
        for (int v = 0; v < 2 * count; v++) {
            const __m256 keys = number(type, tiles[v / 2], d * KV_TILE + (size_t)(v % 2) * LANES);
            sums[v] = _mm256_fmadd_ps(one, keys, sums[v]);
        }
    }
    UNROLL
    for (int v = 0; v < 2 * count; v++) {
        _mm256_storeu_ps(scores + v * LANES, sums[v]);
    }
}

/* sums[8 v + lane] += sum over slots of p[slot] V[slot][8 v + lane] for `vectors` vectors. */
ALWAYS_INLINE void add_slots(enum kv_type type, const float *p, int32_t slots, const void *values,
    size_t first, size_t dims, const int vectors, float *out)
{
    __m256 sums[SIDE_BY_SIDE];
    UNROLL
    for (int v = 0; v < vectors; v++) {
        sums[v] = _mm256_loadu_ps(out + v * LANES);
    }
    for (size_t slot = 0; slot < (size_t)slots; slot++) {
        const __m256 one = _mm256_broadcast_ss(p + slot);
        UNROLL
        for (int v = 0; v < vectors; v++) {
            const __m256 v8 = number(type, values, slot * dims + first + (size_t)v * LANES);
            sums[v] = _mm256_fmadd_ps(one, v8, sums[v]);
        }
    }
    UNROLL
    for (int v = 0; v < vectors; v++) {
        _mm256_storeu_ps(out + v * LANES, sums[v]);
    }
}

ALWAYS_INLINE void score_all(enum kv_type type, const float *q, int32_t dims,
    const void *const tiles[], int32_t count, float *scores)
{
    int32_t t = 0;
    for (; t + 4 <= count; t += 4) {
        score_tiles(type, q, dims, tiles + t, 4, scores + t * KV_TILE);
    }
    for (; t < count; t++) {
        score_tiles(type, q, dims, tiles + t, 1, scores + t * KV_TILE);
    }
}

ALWAYS_INLINE void add_all(
    enum kv_type type, const float *p, int32_t slots, const void *values, int32_t dims, float *out)
{
    int32_t d = 0;
    for (; d + SIDE_BY_SIDE * LANES <= dims; d += SIDE_BY_SIDE * LANES) {
        add_slots(type, p, slots, values, (size_t)d, (size_t)dims, SIDE_BY_SIDE, out + d);
    }
    for (; d < dims; d += LANES) {
        add_slots(type, p, slots, values, (size_t)d, (size_t)dims, 1, out + d);
    }
}

void decode_avx2_scores(enum kv_type type, const float *q, int32_t dims, const void *const tiles[],
    int32_t count, float *scores)
{
    if (type == KV_F16) {
        score_all(KV_F16, q, dims, tiles, count, scores);
    } else {
        score_all(KV_F32, q, dims, tiles, count, scores);
    }
}

void decode_avx2_values(
    enum kv_type type, const float *p, int32_t slots, const void *values, int32_t dims, float *sums)
{
    if (type == KV_F16) {
        add_all(KV_F16, p, slots, values, dims, sums);
    } else {
        add_all(KV_F32, p, slots, values, dims, sums);
    }
}
