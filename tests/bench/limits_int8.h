/*
 * What the machine can do at most with 8-bit integers, on the instructions that a rung multiplies
 * them with (docs/kernels.md): pairs of products added in 16 bits and eight such sums widened
 * together, as for 4-bit weights, or vpdpbusd on eight or sixteen lanes. Without loads.
 */
#ifndef TESTS_BENCH_LIMITS_INT8_H
#define TESTS_BENCH_LIMITS_INT8_H

#include "engine/kernels/kernels.h"

/* Rounds of multiplications; the operations (a product and a sum are two) of that many rounds. 0
 * where the rung has no 8-bit products of its own. */
void limits_int8(const struct kernels *kernels, int rounds);
double limits_int8_ops(const struct kernels *kernels, int rounds);

#endif
