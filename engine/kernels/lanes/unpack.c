/* Panels to exact floats in a tile, for products of many rows. How a format is read is told in
 * panel_lanes.h; here it is only written out. */
#include "engine/base/assert.h"
#include "engine/kernels/lanes/isa.h"
#include "engine/kernels/lanes/panel_lanes.h"
#include "engine/kernels/unroll.h"

ALWAYS_INLINE void unpack_vector(
    enum tensor_type type, const struct sub_block *at, float *tile, float *a, float *b)
{
    UNROLL
    for (int part = 0; part < 2; part++) {
        for (int quad = 0; quad < PART_QUADS; quad++) {
            const ints q = panel_quad(type, at, part, quad);
            float *out = tile + (part * PART_QUADS + quad) * QUAD * PANEL_OUTPUTS;
            UNROLL
            for (int i = 0; i < QUAD; i++) {
                floats_store(out + i * PANEL_OUTPUTS, panel_number(type, q, i));
            }
        }
    }
    const int chains = SUB_BLOCK / panel_chain(type);
    UNROLL
    for (int chain = 0; chain < chains; chain++) {
        const struct affine f = panel_affine(type, at, chain);
        floats_store(a + chain * PANEL_OUTPUTS, f.a);
        floats_store(b + chain * PANEL_OUTPUTS, f.b);
    }
}

ALWAYS_INLINE void unpack(enum tensor_type type, const unsigned char *panel, int32_t from,
    int32_t count, const struct unpacked *whole)
{
    const struct unpacked to = *whole; /* a copy, which writing floats cannot change */
    const struct unpacked *out = &to;
    if (panel_is_float(type)) {
        for (int32_t i = 0; i < count; i++) {
            const size_t input = (size_t)(from + i);
            float *tile = out->tile + (size_t)i * PANEL_OUTPUTS;
            UNROLL
            for (int v = 0; v < PANEL_VECTORS; v++) {
                floats_store(tile + v * LANES, panel_float(type, panel, input, v));
            }
        }
        return;
    }
    for (int32_t i = 0; i < count; i += SUB_BLOCK) {
        const int32_t chain = i / panel_chain(type);
        for (int32_t v = 0; v < PANEL_VECTORS; v++) {
            const struct sub_block at = panel_sub_block(type, panel, (from + i) / SUB_BLOCK, v);
            unpack_vector(type, &at, out->tile + i * PANEL_OUTPUTS + v * LANES,
                out->a + chain * PANEL_OUTPUTS + v * LANES,
                out->b + chain * PANEL_OUTPUTS + v * LANES);
        }
    }
}

void ISA(unpack)(enum tensor_type type, const unsigned char *panel, int32_t from, int32_t count,
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

int32_t ISA(unpack_chain)(enum tensor_type type)
{
    return panel_is_float(type) ? CHAIN_INPUTS : panel_chain(type);
}

bool ISA(unpack_has_minima)(enum tensor_type type)
{
    return panel_has_minima(type);
}
