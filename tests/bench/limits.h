/*
 * What the machine can do at most, for the figures of benchmarks to be held against: FMA on eight
 * lanes without loads, and reading memory in four streams with prefetch. On CPUs without AVX2 both
 * are plain C and mean less.
 */
#ifndef TESTS_BENCH_LIMITS_H
#define TESTS_BENCH_LIMITS_H

#include <stddef.h>

/* `rounds` rounds of ten FMAs of eight lanes, independent enough to fill the units. */
void limits_fma(int rounds);
double limits_fma_flops(int rounds);
void limits_read(const unsigned char *bytes, size_t count);

#endif
