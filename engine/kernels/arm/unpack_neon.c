/* Panels to exact floats in a tile, for products of many rows. How a format is read is told in
 * panel_neon.h; here it is only written out. */
#include "engine/base/assert.h"
#include "engine/kernels/arm/neon.h"
#include "engine/kernels/arm/panel_neon.h"

ALWAYS_INLINE void unpack_quarter(
    enum tensor_type type, const struct sub_block *at, float *tile, float *a, float *b)
{
    UNROLL
    for (int part = 0; part < 2; part++) {
        for (int quad = 0; quad < PART_QUADS; quad++) {
            const uint32x4_t q = panel_quad(type, at, part, quad);
            float *out = tile + (part * PART_QUADS + quad) * QUAD * PANEL_OUTPUTS;
            UNROLL
            for (int i = 0; i < QUAD; i++) {
                vst1q_f32(out + i * PANEL_OUTPUTS, panel_number(type, q, i));
            }
        }
    }
    const int chains = SUB_BLOCK / panel_chain(type);
    UNROLL
    for (int chain = 0; chain < chains; chain++) {
        const struct affine f = panel_affine(type, at, chain);
        vst1q_f32(a + chain * PANEL_OUTPUTS, f.a);
        vst1q_f32(b + chain * PANEL_OUTPUTS, f.b);
    }
}

ALWAYS_INLINE void unpack(enum tensor_type type, const unsigned char *panel, int32_t from,
    int32_t count, const struct unpacked *out)
{
    enum { QUARTERS = PANEL_OUTPUTS / LANES };
    if (panel_is_float(type)) {
        for (int32_t i = 0; i < count * QUARTERS; i++) {
            const float32x4_t w =
                panel_float(type, panel, (size_t)(from + i / QUARTERS), i % QUARTERS);
            vst1q_f32(out->tile + (size_t)i * LANES, w);
        }
        return;
    }
    for (int32_t i = 0; i < count; i += SUB_BLOCK) {
        const int32_t chain = i / panel_chain(type);
        for (int32_t quarter = 0; quarter < QUARTERS; quarter++) {
            const struct sub_block at =
                panel_sub_block(type, panel, (from + i) / SUB_BLOCK, quarter);
            unpack_quarter(type, &at, out->tile + i * PANEL_OUTPUTS + quarter * LANES,
                out->a + chain * PANEL_OUTPUTS + quarter * LANES,
                out->b + chain * PANEL_OUTPUTS + quarter * LANES);
        }
    }
}

void unpack_neon(enum tensor_type type, const unsigned char *panel, int32_t from, int32_t count,
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

int32_t unpack_neon_chain(enum tensor_type type)
{
    return panel_is_float(type) ? CHAIN_INPUTS : panel_chain(type);
}

bool unpack_neon_has_minima(enum tensor_type type)
{
    return panel_has_minima(type);
}
