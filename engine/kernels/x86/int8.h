/* 8-bit activations on x86, as entries of struct kernels. int8.c is compiled once for each rung
 * that has its own products; their bits are equal. Private to engine/kernels. */
#ifndef ENGINE_KERNELS_X86_INT8_H
#define ENGINE_KERNELS_X86_INT8_H

#include "engine/kernels/kernels.h"

typedef void int8_linear_fn(const struct packed *packed, const struct activation *x,
    int32_t row_from, int32_t row_to, int32_t panel_from, int32_t panel_to, float *y,
    size_t y_stride);

int8_linear_fn int8_linear_avx2, int8_linear_avxvnni, int8_linear_avx512vnni;
void int8_quantize_avx2(const float *x, int32_t inputs, void *out);

#endif
