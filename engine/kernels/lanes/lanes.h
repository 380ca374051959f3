/*
 * Vectors of 4, 8 or 16 lanes under one name: what the kernels of this folder are written in.
 *
 * Every file here is compiled once for each rung, with that rung's flags: AVX2 gives 8 lanes,
 * AVX-512 16, NEON 4. All do the same operations on the same numbers in the same order, so their
 * bits are equal, which the kernel tests compare; where numbers of several lanes meet, the order is
 * that of 8 floats (`eight`, which every rung has) or of 16 doubles (sixteen_sum).
 *
 * Operators of C work on all types but `eight`: + - * / on floats and doubles, & | ~ on ints and
 * bools. Nothing here needs alignment.
 */
#ifndef ENGINE_KERNELS_LANES_LANES_H
#define ENGINE_KERNELS_LANES_LANES_H

#if defined(__aarch64__)
#include "engine/kernels/lanes/lanes_neon.h"
#else
#include "engine/kernels/lanes/lanes_x86.h"
#endif

/* Asks for the cache line at `address`: into all caches, or the L2 cache and what is beyond. */
#define PREFETCH_L1(address) __builtin_prefetch(address, 0, 3)
#define PREFETCH_L2(address) __builtin_prefetch(address, 0, 2)

/* LANES numbers, or the last few of a row and zeros; never reads past `left`. */
static inline floats lanes_load(const float *x, int32_t left)
{
    return left >= LANES ? floats_load(x) : floats_load_first(x, left);
}

static inline void lanes_store(float *x, int32_t left, floats v)
{
    if (left >= LANES) {
        floats_store(x, v);
    } else {
        floats_store_first(x, left, v);
    }
}

/* Vectors of 16 sums in double: number i of a row is added in lane i % 16. */
enum { SIXTEEN_VECTORS = 2 * 16 / LANES };

/* The sum of all, lanes pairwise. */
static inline double sixteen_sum(const doubles sums[SIXTEEN_VECTORS])
{
    double p[16];
    for (int j = 0; j < SIXTEEN_VECTORS; j++) {
        doubles_store(p + j * LANES / 2, sums[j]);
    }
    for (int k = 0; k < 4; k++) {
        p[k] = (p[k] + p[k + 4]) + (p[k + 8] + p[k + 12]);
    }
    return (p[0] + p[1]) + (p[2] + p[3]);
}

#endif
