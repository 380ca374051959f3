/*
 * What the kernel tests share: seeded random numbers, buffers between guard bytes, random blocks
 * of every number format, and tests that run for every rung.
 *
 * The seed is fixed, so that a failure repeats; MAGNETD_SEED=n tries another one. It is printed.
 */
#ifndef TESTS_KERNELS_KERNEL_CHECK_H
#define TESTS_KERNELS_KERNEL_CHECK_H

#include <stddef.h>
#include <stdint.h>
#include "engine/kernels/kernels.h"

struct check_random {
    uint64_t state;
};

/* Prints the seed it takes. */
struct check_random check_random_open(void);
uint32_t check_random_bits(struct check_random *random);
/* Uniform in [low, high]. */
int32_t check_random_int(struct check_random *random, int32_t low, int32_t high);
float check_random_float(struct check_random *random, float low, float high);
void check_random_floats(struct check_random *random, float *out, size_t count);

/* `bytes` bytes of 0xff (a NaN in every float type) between two zones of guard bytes; misaligned
 * by `skew` bytes from a 64-byte border. The test fails when a guard byte has changed. */
void *check_alloc(size_t bytes, size_t skew);
void check_free(void *memory);

/* `count` numbers in `type`, a multiple of the block: any quants, scales of all signs, finite.
 * All weights are below 1, as those of real models are: kernels promise exact weights there. */
void check_random_blocks(
    struct check_random *random, enum tensor_type type, size_t count, unsigned char *out);

/* Packs file rows by a rung, in pieces of random size. data is freed with check_free. */
struct packed check_pack(struct check_random *random, const struct kernels *kernels,
    enum tensor_type type, int32_t outputs, int32_t inputs, const unsigned char *file_rows);

/* The sums of rows that a rung wants with them, [rows][inputs / 32]; NULL if it wants none. Freed
 * with check_free. */
float *check_sums(
    const struct kernels *kernels, const float *x, int32_t rows, int32_t inputs, size_t x_stride);

/* Selects a rung that must exist; fails the test otherwise. */
struct kernels check_rung(const char *name);

/* Entries of a cmocka test list. A rung test runs for each rung of this machine that it wants, a
 * twin test for the two x86 rungs, which promise the same bits; without any it skips and says so.
 *     RUNG_TEST(argmax_of_few, check_wants_any)
 */
typedef void check_rung_fn(struct check_random *random, const struct kernels *kernels);
typedef void check_twin_fn(
    struct check_random *random, const struct kernels *avx2, const struct kernels *avx512);
typedef bool check_wants_fn(const struct kernels *kernels);

check_wants_fn check_wants_any;
check_wants_fn check_wants_lanes; /* written in lanes: neither the reference nor blas */
check_wants_fn check_wants_int8;  /* has products in 8 bits */
check_wants_fn check_wants_parts; /* has attention in parts */

struct check_rungs {
    check_rung_fn *check;
    check_wants_fn *wants;
};

void check_rungs_run(void **state); /* *state: struct check_rungs */
void check_twins_run(void **state); /* *state: check_twin_fn ** */

#define RUNG_TEST(check, wants)                                                                    \
    {                                                                                              \
#check, check_rungs_run, NULL, NULL, &(struct check_rungs)                                 \
        {                                                                                          \
            check, wants                                                                           \
        }                                                                                          \
    }
#define TWIN_TEST(check)                                                                           \
    {                                                                                              \
#check, check_twins_run, NULL, NULL, &(check_twin_fn *)                                    \
        {                                                                                          \
            check                                                                                  \
        }                                                                                          \
    }

/* gamma_n = n u / (1 - n u) with u = 2^-24: the relative bound of a sum of n rounded operations
 * (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1). */
double check_gamma(int32_t n);

#endif
