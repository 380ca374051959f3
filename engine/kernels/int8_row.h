/*
 * A row of ACTIVATION_INT8: what an input becomes when it is prepared for 8-bit products.
 *
 *     int8_t q[inputs]                       x = q scale, within half a scale
 *     struct int8_block blocks[inputs / 32]
 *
 * Rows begin at 64-byte borders. Every rung writes the same bytes: a row is quantised by single
 * rounded operations whose order nothing can change.
 */
#ifndef ENGINE_KERNELS_INT8_ROW_H
#define ENGINE_KERNELS_INT8_ROW_H

#include "engine/kernels/kernels.h"

enum {
    INT8_BLOCK = 32, /* inputs that share a scale; what every block format is cut into */
    INT8_ALIGNMENT = 64,
};

/* Blocks whose greatest number is smaller are taken for zero: 127 over it might not be finite. */
#define INT8_SMALLEST 0x1p-100f

struct int8_block {
    float scale;       /* greatest |x| / 127; NaN when one of the numbers is not finite */
    float sum;         /* scale * (sum of q): what the minima of weights are multiplied with */
    int16_t halves[2]; /* sums of q over the first and the last 16 */
};

/* Numbers of a row are cut into whole blocks: matrices of block formats have no other inputs. */
static inline size_t int8_row_bytes(int32_t inputs)
{
    const size_t blocks = (size_t)inputs / INT8_BLOCK;
    const size_t bytes = (size_t)inputs + blocks * sizeof(struct int8_block);
    return (bytes + INT8_ALIGNMENT - 1) / INT8_ALIGNMENT * INT8_ALIGNMENT;
}

static inline const int8_t *int8_row_at(const struct activation *x, int32_t row)
{
    return (const int8_t *)x->data + (size_t)row * x->row_bytes;
}

static inline const struct int8_block *int8_row_blocks(const int8_t *q, int32_t inputs)
{
    return (const struct int8_block *)(const void *)(q + inputs);
}

#endif
