/*
 * Scores and values of a single row: decoding, where keys and values are read once and turning them
 * to float in a tile first would cost as much again. The chains of FMAs are those of tile.c, so the
 * bits are the same.
 */
#include "engine/base/attr.h"
#include "engine/kernels/lanes/lanes.h"
#include "engine/kernels/unroll.h"
#include "engine/kernels/lanes/isa.h"

enum {
    SIDE_BY_SIDE = 64 / LANES, /* chains, of a block of slots: enough to hide the latency of FMA */
    TILE_VECTORS = KV_TILE / LANES,
};

ALWAYS_INLINE floats number(enum kv_type type, const void *numbers, size_t index)
{
    if (type == KV_F32) {
        return floats_load((const float *)numbers + index);
    }
    return floats_of_f16((const uint16_t *)numbers + index);
}

/* scores[16 t + lane] = sum over d of q[d] K[t][d][lane] for `count` tiles. */
ALWAYS_INLINE void score_tiles(enum kv_type type, const float *q, int32_t dims,
    const void *const tiles[], const int count, float *scores)
{
    floats sums[SIDE_BY_SIDE];
    UNROLL
    for (int v = 0; v < TILE_VECTORS * count; v++) {
        sums[v] = floats_zero();
    }
    for (size_t d = 0; d < (size_t)dims; d++) {
        const floats one = floats_all(q[d]);
        UNROLL
        for (int v = 0; v < TILE_VECTORS * count; v++) {
            const floats keys = number(
                type, tiles[v / TILE_VECTORS], d * KV_TILE + (size_t)(v % TILE_VECTORS) * LANES);
            sums[v] = floats_fma(one, keys, sums[v]);
        }
    }
    UNROLL
    for (int v = 0; v < TILE_VECTORS * count; v++) {
        floats_store(scores + v * LANES, sums[v]);
    }
}

/* sums[d] += sum over slots of p[slot] V[slot][d] for d in `vectors` vectors from `first` on. */
ALWAYS_INLINE void add_slots(enum kv_type type, const float *p, int32_t slots, const void *values,
    size_t first, size_t dims, const int vectors, float *out)
{
    floats sums[SIDE_BY_SIDE];
    UNROLL
    for (int v = 0; v < vectors; v++) {
        sums[v] = floats_load(out + v * LANES);
    }
    for (size_t slot = 0; slot < (size_t)slots; slot++) {
        const floats one = floats_all(p[slot]);
        UNROLL
        for (int v = 0; v < vectors; v++) {
            const floats w = number(type, values, slot * dims + first + (size_t)v * LANES);
            sums[v] = floats_fma(one, w, sums[v]);
        }
    }
    UNROLL
    for (int v = 0; v < vectors; v++) {
        floats_store(out + v * LANES, sums[v]);
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

void ISA(decode_scores)(enum kv_type type, const float *q, int32_t dims, const void *const tiles[],
    int32_t count, float *scores)
{
    if (type == KV_F16) {
        score_all(KV_F16, q, dims, tiles, count, scores);
    } else {
        score_all(KV_F32, q, dims, tiles, count, scores);
    }
}

void ISA(decode_values)(
    enum kv_type type, const float *p, int32_t slots, const void *values, int32_t dims, float *sums)
{
    if (type == KV_F16) {
        add_all(KV_F16, p, slots, values, dims, sums);
    } else {
        add_all(KV_F32, p, slots, values, dims, sums);
    }
}
