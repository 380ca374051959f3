/* Panels to exact floats in a tile, for products of many rows. How a format is read is told in
 * panel_avx2.h; here it is only written out. */
#include <immintrin.h>
#include "engine/base/assert.h"
#include "engine/kernels/x86/avx2.h"
#include "engine/kernels/x86/panel_avx2.h"
#include "engine/kernels/x86/unroll.h"

ALWAYS_INLINE void unpack_half(
    enum tensor_type type, const struct sub_block *at, float *tile, float *a, float *b)
{
    UNROLL
    for (int part = 0; part < 2; part++) {
        for (int quad = 0; quad < PART_QUADS; quad++) {
            const __m256i q = panel_quad(type, at, part, quad);
            float *out = tile + (part * PART_QUADS + quad) * QUAD * PANEL_OUTPUTS;
            UNROLL
            for (int i = 0; i < QUAD; i++) {
                _mm256_store_ps(out + i * PANEL_OUTPUTS, panel_number(q, i));
            }
        }
    }
    const int chains = SUB_BLOCK / panel_chain(type);
    UNROLL
    for (int chain = 0; chain < chains; chain++) {
        const struct affine f = panel_affine(type, at, chain);
        _mm256_store_ps(a + chain * PANEL_OUTPUTS, f.a);
        _mm256_store_ps(b + chain * PANEL_OUTPUTS, f.b);
    }
}

ALWAYS_INLINE void unpack(enum tensor_type type, const unsigned char *panel, int32_t from,
    int32_t count, const struct unpacked *out)
{
    if (panel_is_float(type)) {
        for (int32_t i = 0; i < count; i++) {
            const size_t input = (size_t)(from + i);
            float *tile = out->tile + (size_t)i * PANEL_OUTPUTS;
            _mm256_store_ps(tile, panel_float(type, panel, input, 0));
            _mm256_store_ps(tile + 8, panel_float(type, panel, input, 1));
        }
        return;
    }
    for (int32_t i = 0; i < count; i += SUB_BLOCK) {
        const int32_t chain = i / panel_chain(type);
        for (int32_t half = 0; half < 2; half++) {
            const struct sub_block at = panel_sub_block(type, panel, (from + i) / SUB_BLOCK, half);
            unpack_half(type, &at, out->tile + i * PANEL_OUTPUTS + half * 8,
                out->a + chain * PANEL_OUTPUTS + half * 8,
                out->b + chain * PANEL_OUTPUTS + half * 8);
        }
    }
}

void unpack_avx2(enum tensor_type type, const unsigned char *panel, int32_t from, int32_t count,
    const struct unpacked *out)
{
    switch (type) {
#define X(name, word, id, block, bytes)                                                            \
    case TENSOR_##name:                                                                            \
        unpack(TENSOR_##name, panel, from, count, out);                                            \
        break;
        TENSOR_TYPE_MAP(X)
#undef X
    case TENSOR_TYPE_COUNT:
        ASSERT(false);
    }
}

int32_t unpack_avx2_chain(enum tensor_type type)
{
    return panel_is_float(type) ? CHAIN_INPUTS : panel_chain(type);
}

bool unpack_avx2_has_minima(enum tensor_type type)
{
    return panel_has_minima(type);
}
