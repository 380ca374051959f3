/* Stores a slot's keys and values; the checks come first, as in ref/kv_ref.c, whose bits it gives
 * (VCVTPS2PH rounds to nearest even). Keys are scattered: a tile holds 16 slots side by side. */
#include <string.h>
#include "engine/base/assert.h"
#include "engine/kernels/lanes/isa.h"
#include "engine/kernels/lanes/lanes.h"
#include "engine/kernels/unroll.h"

/* Every |x| below `limit`; a NaN is not. */
static bool all_below(const float *x, int32_t count, float limit)
{
    const floats bound = floats_all(limit);
    bools below = lanes_first(LANES);
    for (int32_t i = 0; i < count; i += LANES) {
        below = (bools)(below & floats_less(floats_size(lanes_load(x + i, count - i)), bound));
    }
    return bools_bits(below) == (1u << LANES) - 1;
}

static void put_f16(const float *k, const float *v, int32_t dims, uint16_t *k_out, uint16_t *v_out)
{
    int32_t d = 0;
    for (; d + LANES <= dims; d += LANES) {
        uint16_t half[LANES];
        floats_store_f16(half, floats_load(k + d));
        floats_store_f16(v_out + d, floats_load(v + d));
        UNROLL
        for (int32_t i = 0; i < LANES; i++) {
            k_out[(d + i) * KV_TILE] = half[i];
        }
    }
    if (d < dims) {
        const int32_t left = dims - d;
        uint16_t k_half[LANES];
        uint16_t v_half[LANES];
        floats_store_f16(k_half, lanes_load(k + d, left));
        floats_store_f16(v_half, lanes_load(v + d, left));
        memcpy(v_out + d, v_half, (size_t)left * sizeof *v_half);
        for (int32_t i = 0; i < left; i++) {
            k_out[(d + i) * KV_TILE] = k_half[i];
        }
    }
}

static void put_f32(const float *k, const float *v, int32_t dims, float *k_out, float *v_out)
{
    memcpy(v_out, v, (size_t)dims * sizeof *v);
    for (int32_t d = 0; d < dims; d++) {
        k_out[d * KV_TILE] = k[d];
    }
}

bool ISA(kv_store)(enum kv_type type, int32_t page_slots, int32_t heads_kv, int32_t head_dim,
    unsigned char *page, size_t layer_offset, size_t head_bytes, int32_t slot_in_page,
    const float *k, const float *v)
{
    ASSERT(page_slots % KV_TILE == 0 && slot_in_page >= 0 && slot_in_page < page_slots);
    const float limit = type == KV_F16 ? 65520.0f : __builtin_inff();
    if (!all_below(k, heads_kv * head_dim, limit) || !all_below(v, heads_kv * head_dim, limit)) {
        return false;
    }
    const size_t dims = (size_t)head_dim;
    const size_t slot = (size_t)slot_in_page;
    const size_t k_first = slot / KV_TILE * KV_TILE * dims + slot % KV_TILE;
    const size_t v_first = (size_t)page_slots * dims + slot * dims;
    for (size_t h = 0; h < (size_t)heads_kv; h++) {
        void *region = page + layer_offset + h * head_bytes;
        if (type == KV_F16) {
            uint16_t *numbers = region;
            put_f16(k + h * dims, v + h * dims, head_dim, numbers + k_first, numbers + v_first);
        } else {
            float *numbers = region;
            put_f32(k + h * dims, v + h * dims, head_dim, numbers + k_first, numbers + v_first);
        }
    }
    return true;
}
