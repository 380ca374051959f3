/* Panels to exact floats in a tile, for products of many rows. How a format is read is told in
 * panel_avx2.h; here it is only written out. */
#include <immintrin.h>
#include "engine/base/assert.h"
#include "engine/kernels/x86/avx2.h"
#include "engine/kernels/x86/panel_avx2.h"
#include "engine/kernels/x86/unroll.h"

ALWAYS_INLINE void unpack_half(enum tensor_type type, const struct sub_block *at, float *tile)
{
    UNROLL
    for (int part = 0; part < 2; part++) {
        const struct affine f = panel_affine(type, at, part);
        for (int quad = 0; quad < PART_QUADS; quad++) {
            const __m256i q = panel_quad(type, at, part, quad);
            float *out = tile + (part * PART_QUADS + quad) * QUAD * PANEL_OUTPUTS;
            UNROLL
            for (int i = 0; i < QUAD; i++) {
                _mm256_store_ps(out + i * PANEL_OUTPUTS, panel_weight(type, q, i, &f));
            }
        }
    }
}

ALWAYS_INLINE void unpack(
    enum tensor_type type, const unsigned char *panel, int32_t from, int32_t count, float *tile)
{
    if (panel_is_float(type)) {
        for (int32_t i = 0; i < count; i++) {
            const size_t input = (size_t)(from + i);
            float *out = tile + (size_t)i * PANEL_OUTPUTS;
            _mm256_store_ps(out, panel_float(type, panel, input, 0));
            _mm256_store_ps(out + 8, panel_float(type, panel, input, 1));
        }
        return;
    }
    for (int32_t i = 0; i < count; i += SUB_BLOCK) {
        for (int half = 0; half < 2; half++) {
            const struct sub_block at = panel_sub_block(type, panel, (from + i) / SUB_BLOCK, half);
            unpack_half(type, &at, tile + i * PANEL_OUTPUTS + half * 8);
        }
    }
}

void unpack_avx2(
    enum tensor_type type, const unsigned char *panel, int32_t from, int32_t count, float *tile)
{
    switch (type) {
#define X(name, word, id, block, bytes)                                                            \
    case TENSOR_##name:                                                                            \
        unpack(TENSOR_##name, panel, from, count, tile);                                           \
        break;
        TENSOR_TYPE_MAP(X)
#undef X
    case TENSOR_TYPE_COUNT:
        ASSERT(false);
    }
}
