/*
 * LayerNorm (arXiv 1607.06450). Sum and sum of squares in double, in one walk over the row: the
 * variance is their difference, which in double keeps enough even of rows whose mean is a thousand
 * times their spread. Number i is added in lane i % 16, and the lanes pairwise, on every rung.
 */
#include <math.h>
#include "engine/kernels/lanes/isa.h"
#include "engine/kernels/lanes/lanes.h"

/* out = x * scale + shift, the two that make mean 0 and variance 1. */
static void moments(const float *x, float eps, int32_t count, float *out_scale, float *out_shift)
{
    doubles sums[SIXTEEN_VECTORS], squares[SIXTEEN_VECTORS];
    for (int j = 0; j < SIXTEEN_VECTORS; j++) {
        sums[j] = doubles_zero();
        squares[j] = doubles_zero();
    }
    for (int32_t i = 0, j = 0; i < count; i += LANES, j = (j + 2) % SIXTEEN_VECTORS) {
        const floats v = lanes_load(x + i, count - i);
        const doubles low = doubles_of_low(v);
        const doubles high = doubles_of_high(v);
        sums[j] += low;
        sums[j + 1] += high;
        squares[j] = doubles_fma(low, low, squares[j]);
        squares[j + 1] = doubles_fma(high, high, squares[j + 1]);
    }
    const double mean = sixteen_sum(sums) / (double)count;
    const double variance = sixteen_sum(squares) / (double)count - mean * mean;
    const double scale = 1.0 / sqrt((variance > 0 ? variance : 0) + (double)eps);
    *out_scale = (float)scale;
    *out_shift = (float)(-mean * scale);
}

void ISA(layer_norm)(
    const float *x, const float *weight, const float *bias, float eps, int32_t count, float *out)
{
    float scale, shift;
    moments(x, eps, count, &scale, &shift);
    for (int32_t i = 0; i < count; i += LANES) {
        const int32_t left = count - i;
        const floats normed =
            floats_fma(lanes_load(x + i, left), floats_all(scale), floats_all(shift));
        floats y = normed * lanes_load(weight + i, left);
        if (bias != NULL) {
            y = y + lanes_load(bias + i, left);
        }
        lanes_store(out + i, left, y);
    }
}
