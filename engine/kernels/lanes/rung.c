/* The rungs written in lanes share the panels of the reference rung and replace what computes. */
#include "engine/kernels/lanes/isa.h"
#include "engine/kernels/rungs.h"
#include "engine/kernels/x86/int8.h"

void ISA(rung_fill)(struct kernels *table)
{
    table->name = ISA_NAME;
    table->deterministic = true;
    table->linear = ISA(linear);
    table->sum_blocks = ISA(linear_sums);
#if defined(__aarch64__)
    table->linear_int8 = NULL; /* the reference's would be slower than f32: refused instead */
    table->quantize = NULL;
#elif !defined(KERNELS_AVX512)
    table->linear_int8 = int8_linear_avx2; /* avx512 has no better; rung_vnni.c has */
    table->quantize = int8_quantize_avx2;
#endif
    table->kv_store = ISA(kv_store);
    table->attention = ISA(attention);
    table->attention_part = ISA(attention_part);
    table->attention_merge = ISA(attention_merge);
    table->rms_norm = ISA(vector_rms_norm);
    table->layer_norm = ISA(layer_norm);
    table->rope = ISA(vector_rope);
    table->silu_mul = ISA(vector_silu_mul);
    table->gelu_erf = ISA(gelu_erf);
    table->gelu_tanh = ISA(gelu_tanh);
    table->add = ISA(vector_add);
    table->argmax = ISA(vector_argmax);
    table->log_sum_exp = ISA(vector_log_sum_exp);
    table->all_finite = ISA(vector_all_finite);
}
