/*
 * What the machine can do at most with the vectors of a rung, for the figures of benchmarks to be
 * held against: FMA without loads, and reading memory in four streams with prefetch.
 */
#ifndef TESTS_BENCH_LIMITS_H
#define TESTS_BENCH_LIMITS_H

#include <stddef.h>

struct limits_of {
    int lanes; /* floats of a vector */
    void (*fma)(
        int rounds); /* rounds of LIMITS_CHAINS FMAs, independent enough to fill the units */
    void (*read)(const unsigned char *bytes, size_t count);
};

enum { LIMITS_CHAINS = 10 };

/* The widest this machine has for "blas", 16 lanes for "avx512" and "avx512vnni", else 8. Only
 * where avx2 runs. */
struct limits_of limits_of(const char *kernels);
double limits_fma_flops(const struct limits_of *limits, int rounds);

/* limits_x86.c, which is compiled for each width. */
struct limits_of limits_x86_avx2(void);
struct limits_of limits_x86_avx512(void);

#endif
