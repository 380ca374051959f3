/* The plain C rung fills every entry of the table: what runs where nothing faster does, and what
 * the faster kernels are tested against. */
#include "engine/kernels/panel.h"
#include "engine/kernels/ref/ref.h"
#include "engine/kernels/rungs.h"

void rung_ref_fill(struct kernels *table)
{
    *table = (struct kernels){
        .name = "ref",
        .deterministic = true,
        .panel_bytes = panel_bytes,
        .pack = panel_pack,
        .unpack_row = panel_unpack_row,
        .linear = linear_ref,
        .linear_int8 = int8_ref_linear,
        .quantize = int8_ref_quantize,
        .kv_store = kv_ref_store,
        .attention = attention_ref,
        .rms_norm = vector_ref_rms_norm,
        .layer_norm = encoder_ref_layer_norm,
        .rope = vector_ref_rope,
        .silu_mul = vector_ref_silu_mul,
        .gelu_erf = encoder_ref_gelu_erf,
        .gelu_tanh = encoder_ref_gelu_tanh,
        .add = vector_ref_add,
        .argmax = vector_ref_argmax,
        .log_sum_exp = vector_ref_log_sum_exp,
        .all_finite = vector_ref_all_finite,
    };
}
