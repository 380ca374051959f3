/*
 * Stores a slot's keys and values. All numbers are checked before the first is written, so that a
 * refused slot leaves the page as it was. A float16 that rounds to infinity does not fit: clamping
 * it would change answers silently.
 */
#include <math.h>
#include "engine/base/assert.h"
#include "engine/base/half.h"
#include "engine/kernels/ref/ref.h"

/* From here on, rounding to nearest even gives an infinite f16: half way between the greatest
 * finite one, 65504, and the next step. */
#define F16_OVERFLOW 65520.0f

static bool fits(enum kv_type type, const float *x, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        if (!isfinite(x[i]) || (type == KV_F16 && fabsf(x[i]) >= F16_OVERFLOW)) {
            return false;
        }
    }
    return true;
}

static void put(enum kv_type type, unsigned char *region, size_t index, float value)
{
    if (type == KV_F16) {
        ((uint16_t *)(void *)region)[index] = half_to_f16(value);
    } else {
        ((float *)(void *)region)[index] = value;
    }
}

bool kv_ref_store(enum kv_type type, int32_t page_slots, int32_t heads_kv, int32_t head_dim,
    unsigned char *page, size_t layer_offset, size_t head_bytes, int32_t slot_in_page,
    const float *k, const float *v)
{
    ASSERT(page_slots % KV_TILE == 0 && slot_in_page >= 0 && slot_in_page < page_slots);
    if (!fits(type, k, heads_kv * head_dim) || !fits(type, v, heads_kv * head_dim)) {
        return false;
    }
    const size_t dims = (size_t)head_dim;
    const size_t slot = (size_t)slot_in_page;
    const size_t k_first = slot / KV_TILE * KV_TILE * dims + slot % KV_TILE;
    const size_t v_first = (size_t)page_slots * dims + slot * dims;
    for (size_t h = 0; h < (size_t)heads_kv; h++) {
        unsigned char *region = page + layer_offset + h * head_bytes;
        for (size_t d = 0; d < dims; d++) {
            put(type, region, k_first + d * KV_TILE, k[h * dims + d]);
            put(type, region, v_first + d, v[h * dims + d]);
        }
    }
    return true;
}
