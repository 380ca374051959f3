/*
 * The rungs behind kernels_select. Each filler overwrites the entries it has; ref fills all of
 * them and so comes first. Private to engine/kernels.
 */
#ifndef ENGINE_KERNELS_RUNGS_H
#define ENGINE_KERNELS_RUNGS_H

#include "engine/kernels/kernels.h"

void rung_ref_fill(struct kernels *table);
/* Needs AVX2, FMA and F16C. */
void rung_fill_avx2(struct kernels *table);
/* Needs AVX-512 F, BW, DQ and VL, and what avx2 needs. */
void rung_fill_avx512(struct kernels *table);
/* 8-bit products: what avx2 needs and AVX-VNNI; what avx512 needs and its VNNI. */
void rung_vnni_fill_avx(struct kernels *table);
void rung_vnni_fill_avx512(struct kernels *table);
/* Any AArch64 CPU. */
void rung_fill_neon(struct kernels *table);
/* F32 products by OpenBLAS; call rung_blas_prepare first. */
void rung_blas_fill(struct kernels *table);
/* False, saying why, when the OpenBLAS at hand must not be called from several threads. */
MUST_USE bool rung_blas_prepare(struct err_info *info);
/* True when rung_blas_prepare would succeed; changes nothing. */
bool rung_blas_usable(void);

#endif
