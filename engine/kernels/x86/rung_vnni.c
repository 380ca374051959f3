/* Rungs that differ in 8-bit products only. */
#include "engine/kernels/rungs.h"
#include "engine/kernels/x86/int8.h"

void rung_vnni_fill_avx(struct kernels *table)
{
    table->name = "avxvnni";
    table->linear_int8 = int8_linear_avxvnni;
}

void rung_vnni_fill_avx512(struct kernels *table)
{
    table->name = "avx512vnni";
    table->linear_int8 = int8_linear_avx512vnni;
}
