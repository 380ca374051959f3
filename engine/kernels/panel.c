/*
 * Packing into panels and the exact way back, in plain C.
 *
 * The way back gathers a block's bytes out of the panel and hands them to tensor_type_unpack: there
 * is one place that knows what the formats mean. It is used for token embeddings and by the
 * reference kernels; fast kernels read panels directly and are tested against this.
 */
#include "engine/kernels/panel.h"

#include <string.h>
#include "engine/base/assert.h"
#include "engine/base/checked.h"

enum { PANEL_ALIGNMENT = 64 }; /* each panel begins on its own cache line */

struct panel_layout panel_layout_of(enum tensor_type type)
{
    static const struct panel_layout layouts[TENSOR_TYPE_COUNT] = {
        [TENSOR_F32] = {.words = 1},
        [TENSOR_F16] = {.halves = 1},
        [TENSOR_BF16] = {.halves = 1},
        [TENSOR_Q4_0] = {1, 4, .words_at = 2, .turned_to = 4, .turned = 0x88888888},
        [TENSOR_Q4_1] = {2, 4, .words_at = 4, .turned_to = 4, .turned = 0x88888888},
        /* The fifth bits are a word of their own. */
        [TENSOR_Q5_0] = {1, 5, .words_at = 2, .turned_to = 1, .turned = 0xffffffff},
        [TENSOR_Q5_1] = {2, 5, .words_at = 4, .turned_to = 1, .turned = 0xffffffff},
        [TENSOR_Q8_0] = {1, 8, .words_at = 2},
        /* Three words of scales, eight of fifth bits, nibbles; top bits of Q6_K are pairs. */
        [TENSOR_Q4_K] = {2, 35, 0, 4, .turned_from = 3, .turned_to = 35, .turned = 0x88888888},
        [TENSOR_Q5_K] = {2, 43, 0, 4, .turned_from = 3, .turned_to = 11, .turned = 0xffffffff},
        [TENSOR_Q6_K] = {1, 52, 208, 0, .turned_from = 32, .turned_to = 48, .turned = 0xaaaaaaaa},
    };
    ASSERT((unsigned)type < TENSOR_TYPE_COUNT);
    return layouts[type];
}

size_t panel_bytes(enum tensor_type type, int32_t inputs)
{
    const int32_t block = tensor_type_block(type);
    if (inputs < 1 || inputs % block != 0) {
        return 0;
    }
    size_t bytes;
    if (!checked_mul(
            (size_t)(inputs / block) * PANEL_OUTPUTS, tensor_type_block_bytes(type), &bytes) ||
        !checked_align(bytes, PANEL_ALIGNMENT, &bytes)) {
        return 0;
    }
    return bytes;
}

static uint32_t turned_bits(const struct panel_layout *layout, int32_t word)
{
    return word >= layout->turned_from && word < layout->turned_to ? layout->turned : 0;
}

/* One block of one output into lane `lane` of its place in the panel. */
static void scatter_block(
    const struct panel_layout *layout, const unsigned char *block, unsigned char *to, int32_t lane)
{
    unsigned char *halves = to + 2 * lane;
    unsigned char *words = to + layout->halves * 2 * PANEL_OUTPUTS + 4 * lane;
    for (int32_t i = 0; i < layout->halves; i++) {
        memcpy(halves + i * 2 * PANEL_OUTPUTS, block + layout->halves_at + 2 * i, 2);
    }
    for (int32_t i = 0; i < layout->words; i++) {
        uint32_t word;
        memcpy(&word, block + layout->words_at + 4 * i, 4);
        word ^= turned_bits(layout, i);
        memcpy(words + i * 4 * PANEL_OUTPUTS, &word, 4);
    }
}

static void gather_block(const struct panel_layout *layout, const unsigned char *from, int32_t lane,
    unsigned char *block)
{
    const unsigned char *halves = from + 2 * lane;
    const unsigned char *words = from + layout->halves * 2 * PANEL_OUTPUTS + 4 * lane;
    for (int32_t i = 0; i < layout->halves; i++) {
        memcpy(block + layout->halves_at + 2 * i, halves + i * 2 * PANEL_OUTPUTS, 2);
    }
    for (int32_t i = 0; i < layout->words; i++) {
        uint32_t word;
        memcpy(&word, words + i * 4 * PANEL_OUTPUTS, 4);
        word ^= turned_bits(layout, i);
        memcpy(block + layout->words_at + 4 * i, &word, 4);
    }
}

void panel_pack(
    const struct packed *packed, int32_t output_from, int32_t output_count, const void *file_rows)
{
    ASSERT(output_from >= 0 && output_from % PANEL_OUTPUTS == 0);
    ASSERT(output_count >= 1 && output_count <= packed->outputs - output_from);
    ASSERT(output_count % PANEL_OUTPUTS == 0 || output_from + output_count == packed->outputs);
    const struct panel_layout layout = panel_layout_of(packed->type);
    const size_t block_bytes = tensor_type_block_bytes(packed->type);
    const size_t blocks = (size_t)(packed->inputs / tensor_type_block(packed->type));
    for (int32_t first = 0; first < output_count; first += PANEL_OUTPUTS) {
        const int32_t lanes = MIN(output_count - first, PANEL_OUTPUTS);
        const unsigned char *rows =
            (const unsigned char *)file_rows + (size_t)first * blocks * block_bytes;
        unsigned char *panel =
            packed->data + (size_t)((output_from + first) / PANEL_OUTPUTS) * packed->panel_bytes;
        if (lanes < PANEL_OUTPUTS) {
            memset(panel, 0, packed->panel_bytes);
        }
        for (size_t b = 0; b < blocks; b++) {
            for (int32_t lane = 0; lane < lanes; lane++) {
                scatter_block(&layout, rows + ((size_t)lane * blocks + b) * block_bytes,
                    panel + b * block_bytes * PANEL_OUTPUTS, lane);
            }
        }
    }
}

void panel_block(const struct packed *packed, int32_t output, int32_t from,
    unsigned char out[PANEL_BLOCK_BYTES_MAX])
{
    const struct panel_layout layout = panel_layout_of(packed->type);
    const int32_t block = tensor_type_block(packed->type);
    const size_t block_bytes = tensor_type_block_bytes(packed->type);
    ASSERT(block_bytes <= PANEL_BLOCK_BYTES_MAX && from % block == 0);
    const unsigned char *panel =
        packed->data + (size_t)(output / PANEL_OUTPUTS) * packed->panel_bytes;
    gather_block(&layout, panel + (size_t)(from / block) * block_bytes * PANEL_OUTPUTS,
        output % PANEL_OUTPUTS, out);
}

void panel_unpack(
    const struct packed *packed, int32_t output, int32_t from, int32_t count, float *out)
{
    const int32_t block = tensor_type_block(packed->type);
    unsigned char bytes[PANEL_BLOCK_BYTES_MAX];
    ASSERT(count % block == 0);
    if (packed->type == TENSOR_F32) { /* a row of an encoder's table of tokens, mostly */
        const unsigned char *panel =
            packed->data + (size_t)(output / PANEL_OUTPUTS) * packed->panel_bytes;
        const float *at = (const float *)(const void *)panel + output % PANEL_OUTPUTS;
        for (int32_t i = 0; i < count; i++) {
            out[i] = at[(size_t)(from + i) * PANEL_OUTPUTS];
        }
        return;
    }
    for (int32_t i = 0; i < count; i += block) {
        panel_block(packed, output, from + i, bytes);
        tensor_type_unpack(packed->type, bytes, (size_t)block, out + i);
    }
}

void panel_unpack_row(const struct packed *packed, int32_t output, float *out)
{
    ASSERT(output >= 0 && output < packed->outputs);
    panel_unpack(packed, output, 0, packed->inputs, out);
}
