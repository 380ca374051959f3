/* The NEON rung shares the panels of the reference rung and replaces what computes. */
#include "engine/kernels/arm/neon.h"
#include "engine/kernels/rungs.h"

void rung_neon_fill(struct kernels *table)
{
    table->name = "neon";
    table->deterministic = true;
    table->linear = linear_neon;
    table->linear_int8 = NULL; /* the reference's would be slower than f32: refused instead */
    table->quantize = NULL;
    table->kv_store = kv_neon_store;
    table->attention = attention_neon;
    table->attention_part = attention_part_neon;
    table->attention_merge = attention_merge_neon;
    table->rms_norm = vector_neon_rms_norm;
    table->rope = vector_neon_rope;
    table->silu_mul = vector_neon_silu_mul;
    table->add = vector_neon_add;
    table->argmax = vector_neon_argmax;
    table->log_sum_exp = vector_neon_log_sum_exp;
    table->all_finite = vector_neon_all_finite;
}
