/*
 * One product of random rows and a random matrix, for the tests of linear and of linear_int8: their
 * rungs differ in what x is prepared as and in nothing else.
 */
#ifndef TESTS_KERNELS_PRODUCT_CHECK_H
#define TESTS_KERNELS_PRODUCT_CHECK_H

#include "tests/kernels/kernel_check.h"

enum { PRODUCT_ROWS = 64 }; /* that product_check_company wants at least */

struct product {
    enum tensor_type type;
    int32_t outputs, inputs, rows;
    unsigned char *file;
    struct packed packed;
    float *x; /* [rows, x_stride]; what lies between rows is NaN */
    size_t x_stride;
    unsigned char *x_int8; /* the same prepared in 8 bits; NULL for f32 */
    float *sums;           /* of f32 rows, for a rung that wants them; else NULL */
    void (*sum_blocks)(const float *x, int32_t inputs, float *out);
    struct activation activation;
    float *y; /* [rows, y_stride] */
    size_t y_stride, y_bytes;
};

/* Packed by `kernels`; rows in 8 bits are prepared by the reference, sums of
 * f32 rows by `kernels`. */
struct product product_open(struct check_random *random, const struct kernels *kernels,
    enum activation_format format, enum tensor_type type, int32_t outputs, int32_t inputs,
    int32_t rows);
void product_close(struct product *product);
/* Prepares x anew after it changed. */
void product_prepare(struct product *product);
/* A number of inputs that the type can have, of up to so many blocks; or up to 700. */
int32_t product_inputs(
    struct check_random *random, enum tensor_type type, int32_t small_blocks, int32_t great_blocks);

/* All rows and outputs. y is NaN before. */
void product_run(const struct kernels *kernels, struct product *product);
/* Fails unless rows give the same bits in groups of every size 1 to PRODUCT_ROWS, split by rows and
 * by panels, and shared out among threads. */
void product_check_company(const struct kernels *kernels, struct product *product);

#endif
