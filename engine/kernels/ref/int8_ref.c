/*
 * Reference of 8-bit activations. Unlike the other references it is no better than the fast
 * kernels: sums of a group are whole numbers and so exact everywhere, and what is left are a few
 * float operations a group, done here in the same order. All rungs give equal bits.
 */
#include <math.h>
#include <string.h>
#include "engine/base/assert.h"
#include "engine/kernels/int8_row.h"
#include "engine/kernels/panel.h"
#include "engine/kernels/ref/ref.h"
#include "engine/kernels/tensor_integers.h"

enum { ROWS = 32 }; /* rows that share a group that was read */

/* As an integer: an ordering of finite numbers by size, infinite and NaN above them. */
static uint32_t size_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits & 0x7fffffffu;
}

static struct int8_block quantize_block(const float *x, int8_t *q)
{
    float greatest = 0;
    for (int i = 0; i < INT8_BLOCK; i++) {
        if (size_bits(x[i]) > size_bits(greatest)) {
            greatest = fabsf(x[i]);
        }
    }
    memset(q, 0, INT8_BLOCK);
    if (!isfinite(greatest)) {
        return (struct int8_block){.scale = NAN, .sum = NAN};
    }
    if (greatest < INT8_SMALLEST) {
        return (struct int8_block){0};
    }
    struct int8_block block = {.scale = greatest / 127.0f};
    const float inverse = 127.0f / greatest;
    for (int i = 0; i < INT8_BLOCK; i++) {
        q[i] = (int8_t)lrintf(x[i] * inverse); /* to nearest even */
        block.halves[i / 16] = (int16_t)(block.halves[i / 16] + q[i]);
    }
    block.sum = block.scale * (float)(block.halves[0] + block.halves[1]);
    return block;
}

void int8_ref_quantize(const float *x, int32_t inputs, void *out)
{
    ASSERT(inputs % INT8_BLOCK == 0);
    int8_t *q = out;
    struct int8_block *blocks = (struct int8_block *)(void *)(q + inputs);
    for (int32_t i = 0; i < inputs; i += INT8_BLOCK) {
        blocks[i / INT8_BLOCK] = quantize_block(x + i, q + i);
    }
}

/* sums[r] of `rows` rows takes in one group of an output; `from` is its first input. */
static void add_group(const struct packed *packed, const struct tensor_group *group, int32_t count,
    int32_t from, const int8_t *const rows_q[ROWS], int32_t rows, float *sums)
{
    for (int32_t r = 0; r < rows; r++) {
        const int8_t *q = rows_q[r] + from;
        const struct int8_block *block =
            int8_row_blocks(rows_q[r], packed->inputs) + from / INT8_BLOCK;
        int32_t sum = 0;
        for (int32_t i = 0; i < count; i++) {
            sum += q[i] * group->q[i];
        }
        if (tensor_integers_minima(packed->type)) {
            sums[r] = fmaf(group->b, block->sum, sums[r]);
        }
        sums[r] = fmaf(group->a * block->scale, (float)sum, sums[r]);
    }
}

static void output_of_rows(const struct packed *packed, int32_t output,
    const int8_t *const rows_q[ROWS], int32_t rows, float *sums)
{
    const int32_t block = tensor_type_block(packed->type);
    const int32_t count = tensor_integers_group(packed->type);
    for (int32_t from = 0; from < packed->inputs; from += block) {
        unsigned char bytes[PANEL_BLOCK_BYTES_MAX];
        panel_block(packed, output, from, bytes);
        for (int32_t i = 0; i < block; i += count) {
            struct tensor_group group;
            tensor_integers_read(packed->type, bytes, i / count, &group);
            add_group(packed, &group, count, from + i, rows_q, rows, sums);
        }
    }
}

void int8_ref_linear(const struct packed *packed, const struct activation *x, int32_t row_from,
    int32_t row_to, int32_t panel_from, int32_t panel_to, float *y, size_t y_stride)
{
    ASSERT(x->format == ACTIVATION_INT8 && x->inputs == packed->inputs);
    const int32_t output_to = MIN(panel_to * PANEL_OUTPUTS, packed->outputs);
    for (int32_t row = row_from; row < row_to; row += ROWS) {
        const int32_t rows = MIN(row_to - row, ROWS);
        const int8_t *rows_q[ROWS];
        for (int32_t r = 0; r < rows; r++) {
            rows_q[r] = int8_row_at(x, row + r);
        }
        for (int32_t output = panel_from * PANEL_OUTPUTS; output < output_to; output++) {
            float sums[ROWS] = {0};
            output_of_rows(packed, output, rows_q, rows, sums);
            for (int32_t r = 0; r < rows; r++) {
                y[(size_t)(row + r) * y_stride + (size_t)output] = sums[r];
            }
        }
    }
}
