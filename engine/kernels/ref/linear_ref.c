/*
 * Reference product of rows and a packed matrix.
 *
 * A piece of one output's weights is unpacked once and used for a few rows, so that the reference
 * stays usable on a real model. Sums are double: with at most 2^17 inputs their own error is far
 * below the final rounding to float.
 */
#include "engine/base/assert.h"
#include "engine/kernels/panel.h"
#include "engine/kernels/ref/ref.h"

enum {
    PIECE = 256, /* numbers unpacked at once: a multiple of every block */
    ROWS = 32,   /* rows that share an unpacked piece */
};

/* Rows [0, rows) of x times one output. */
static void output_of_rows(
    const struct packed *packed, int32_t output, const float *x[ROWS], int32_t rows, double *sums)
{
    float w[PIECE];
    for (int32_t from = 0; from < packed->inputs; from += PIECE) {
        const int32_t count = MIN(packed->inputs - from, PIECE);
        panel_unpack(packed, output, from, count, w);
        for (int32_t r = 0; r < rows; r++) {
            for (int32_t i = 0; i < count; i++) {
                sums[r] += (double)x[r][from + i] * (double)w[i];
            }
        }
    }
}

void linear_ref(const struct packed *packed, const struct activation *x, int32_t row_from,
    int32_t row_to, int32_t panel_from, int32_t panel_to, float *y, size_t y_stride)
{
    ASSERT(x->format == ACTIVATION_F32 && x->inputs == packed->inputs);
    const int32_t output_to = MIN(panel_to * PANEL_OUTPUTS, packed->outputs);
    for (int32_t row = row_from; row < row_to; row += ROWS) {
        const int32_t rows = MIN(row_to - row, ROWS);
        const float *x_rows[ROWS];
        for (int32_t r = 0; r < rows; r++) {
            x_rows[r] =
                (const float *)((const unsigned char *)x->data + (size_t)(row + r) * x->row_bytes);
        }
        for (int32_t output = panel_from * PANEL_OUTPUTS; output < output_to; output++) {
            double sums[ROWS] = {0};
            output_of_rows(packed, output, x_rows, rows, sums);
            for (int32_t r = 0; r < rows; r++) {
                y[(size_t)(row + r) * y_stride + (size_t)output] = (float)sums[r];
            }
        }
    }
}
