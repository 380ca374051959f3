/*
 * The reference kernels: plain C, sums in double, one rounding to float at the end. They define
 * what the fast ones approximate. Contracts are those of struct kernels. Private to
 * engine/kernels.
 */
#ifndef ENGINE_KERNELS_REF_REF_H
#define ENGINE_KERNELS_REF_REF_H

#include "engine/kernels/kernels.h"

void linear_ref(const struct packed *packed, const struct activation *x, int32_t row_from,
    int32_t row_to, int32_t panel_from, int32_t panel_to, float *y, size_t y_stride);
void int8_ref_linear(const struct packed *packed, const struct activation *x, int32_t row_from,
    int32_t row_to, int32_t panel_from, int32_t panel_to, float *y, size_t y_stride);
void int8_ref_quantize(const float *x, int32_t inputs, void *out);
void attention_ref(const struct attention_args *args, int32_t row_from, int32_t row_to);
bool kv_ref_store(enum kv_type type, int32_t page_slots, int32_t heads_kv, int32_t head_dim,
    unsigned char *page, size_t layer_offset, size_t head_bytes, int32_t slot_in_page,
    const float *k, const float *v);
void vector_ref_rms_norm(const float *x, const float *weight, float eps, int32_t count, float *out);
void vector_ref_rope(enum rope_style style, float *x, int32_t heads, int32_t head_dim,
    int32_t rotary_dim, const float *cos_sin);
void vector_ref_silu_mul(const float *gate, const float *up, int32_t count, float *out);
void vector_ref_add(float *x, const float *y, int32_t count);
int32_t vector_ref_argmax(const float *x, int32_t count);
double vector_ref_log_sum_exp(const float *x, int32_t count);
bool vector_ref_all_finite(const float *x, int32_t count);

void encoder_ref_layer_norm(
    const float *x, const float *weight, const float *bias, float eps, int32_t count, float *out);
void encoder_ref_gelu_erf(const float *gate, const float *up, int32_t count, float *out);
void encoder_ref_gelu_tanh(const float *gate, const float *up, int32_t count, float *out);

#endif
