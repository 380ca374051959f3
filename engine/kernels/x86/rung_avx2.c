/* The AVX2 rung shares the panels of the reference rung and replaces what computes. */
#include "engine/kernels/rungs.h"
#include "engine/kernels/x86/avx2.h"

void rung_avx2_fill(struct kernels *table)
{
    table->name = "avx2";
    table->deterministic = true;
    table->linear = linear_avx2;
    table->kv_store = kv_avx2_store;
    table->attention = attention_avx2;
    table->rms_norm = vector_avx2_rms_norm;
    table->rope = vector_avx2_rope;
    table->silu_mul = vector_avx2_silu_mul;
    table->add = vector_avx2_add;
    table->argmax = vector_avx2_argmax;
    table->log_sum_exp = vector_avx2_log_sum_exp;
    table->all_finite = vector_avx2_all_finite;
}
