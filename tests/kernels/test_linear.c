/*
 * Goal: every rung multiplies the exact weights, within rounding, and a deterministic rung gives a
 * row the same bits in any company.
 *
 * Method: random shapes, formats and rungs.
 *   exact weights   rows of x with a single one pick single weights, which must be equal
 *   rounding        |y - ref| <= gamma_(n+2) sum |x_i| s_i: n products and sums, a scale or minimum
 *                   and the rounding of the reference itself. s_i is |w_i|; but a format with
 *                   minima may sum a c x and b x apart, where w = a c + b: |a c| + |b| is at
 *                   most |w| + 2 |b|, and b at most the greatest |w| of its block, since b lies
 *                   between weights of a block that has integers c of both signs
 *   same bits       each row alone, in groups of every size 1 to 64, split by rows and by panels,
 *                   and shared out among threads; and the two x86 rungs against each other
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
#include <cmocka.h>
#include "tests/kernels/product_check.h"
#include "tests/scale.h"

static struct product open_f32(struct check_random *random, const struct kernels *kernels,
    enum tensor_type type, int32_t outputs, int32_t inputs, int32_t rows)
{
    return product_open(random, kernels, ACTIVATION_F32, type, outputs, inputs, rows);
}

static int32_t random_inputs(struct check_random *random, enum tensor_type type)
{
    return product_inputs(random, type, 20, 3);
}

/* Exact weights of one output. */
static void weights_of(const struct product *c, int32_t output, float *out)
{
    const size_t row_bytes =
        (size_t)(c->inputs / tensor_type_block(c->type)) * tensor_type_block_bytes(c->type);
    tensor_type_unpack(c->type, c->file + (size_t)output * row_bytes, (size_t)c->inputs, out);
}

/* s_i of the rounding bound. */
static void sizes_of(const struct product *c, const float *w, float *out)
{
    const bool has_minima = c->type == TENSOR_Q4_1 || c->type == TENSOR_Q5_1 ||
                            c->type == TENSOR_Q4_K || c->type == TENSOR_Q5_K;
    for (int32_t i = 0; i < c->inputs; i++) {
        float greatest = 0;
        for (int32_t k = i / 32 * 32; has_minima && k < i / 32 * 32 + 32; k++) {
            greatest = fmaxf(greatest, fabsf(w[k]));
        }
        out[i] = fabsf(w[i]) + 2 * greatest;
    }
}

static void check_against_sums(const struct product *c)
{
    float *w = check_alloc((size_t)c->inputs * sizeof(float), 0);
    float *sizes = check_alloc((size_t)c->inputs * sizeof(float), 0);
    const double gamma = check_gamma(c->inputs + 2);
    for (int32_t o = 0; o < c->outputs; o++) {
        weights_of(c, o, w);
        sizes_of(c, w, sizes);
        for (int32_t r = 0; r < c->rows; r++) {
            const float *x = c->x + (size_t)r * c->x_stride;
            double sum = 0;
            double size = 0;
            for (int32_t i = 0; i < c->inputs; i++) {
                sum += (double)x[i] * (double)w[i];
                size += fabs((double)x[i]) * (double)sizes[i];
            }
            const double have = (double)c->y[(size_t)r * c->y_stride + (size_t)o];
            if (!(fabs(have - sum) <= gamma * size)) {
                fail_msg("%s [%d, %d] row %d output %d: %.9g, not %.9g +- %.3g",
                    tensor_type_word(c->type), c->outputs, c->inputs, r, o, have, sum,
                    gamma * size);
            }
        }
    }
    /* Between the rows nothing was written. */
    for (int32_t r = 0; r + 1 < c->rows; r++) {
        for (size_t o = (size_t)c->outputs; o < c->y_stride; o++) {
            assert_true(isnan(c->y[(size_t)r * c->y_stride + o]));
        }
    }
    check_free(w);
    check_free(sizes);
}

static void every_rung_is_within_rounding(
    struct check_random *random, const struct kernels *kernels)
{
    for (int t = 0; t < TENSOR_TYPE_COUNT; t++) {
        const enum tensor_type type = (enum tensor_type)t;
        for (int repeat = 0; repeat < 8; repeat++) {
            const int32_t rows = repeat < 4 ? repeat + 1 : check_random_int(random, 5, 30);
            struct product c = open_f32(random, kernels, type, check_random_int(random, 1, 120),
                random_inputs(random, type), rows);
            product_run(kernels, &c);
            check_against_sums(&c);
            product_close(&c);
        }
    }
}

/* Row r of x is zero but for a one at input from + r. */
static void check_single_weights(
    const struct kernels *kernels, struct product *c, int32_t from, int32_t rows)
{
    for (int32_t r = 0; r < rows; r++) {
        float *x = c->x + (size_t)r * c->x_stride;
        memset(x, 0, (size_t)c->inputs * sizeof *x);
        x[from + r] = 1.0f;
    }
    product_prepare(c);
    kernels->linear(&c->packed, &c->activation, 0, rows, 0, c->packed.panels, c->y, c->y_stride);
    float *w = check_alloc((size_t)c->inputs * sizeof(float), 0);
    for (int32_t o = 0; o < c->outputs; o++) {
        weights_of(c, o, w);
        for (int32_t r = 0; r < rows; r++) {
            if (c->y[(size_t)r * c->y_stride + (size_t)o] != w[from + r]) {
                fail_msg("%s %s: weight [%d, %d] is not exact", kernels->name,
                    tensor_type_word(c->type), o, from + r);
            }
        }
    }
    check_free(w);
}

static void every_weight_is_exact(struct check_random *random, const struct kernels *kernels)
{
    for (int type = 0; type < TENSOR_TYPE_COUNT; type++) {
        const int32_t block = tensor_type_block((enum tensor_type)type);
        const int32_t inputs = block == 1 ? 172 : block == 32 ? 96 : 512;
        struct product c =
            open_f32(random, kernels, (enum tensor_type)type, 37, inputs, PRODUCT_ROWS);
        for (int32_t from = 0; from < inputs; from += PRODUCT_ROWS) {
            check_single_weights(kernels, &c, from, MIN(inputs - from, PRODUCT_ROWS));
        }
        check_single_weights(kernels, &c, inputs - 1, 1);
        product_close(&c);
    }
}

static void bits_do_not_depend_on_company(
    struct check_random *random, const struct kernels *kernels)
{
    const int32_t outputs = (test_scale() > 1 ? 2 : 7) * 16 + 5;
    for (int type = 0; type < TENSOR_TYPE_COUNT; type++) {
        struct product c = open_f32(random, kernels, (enum tensor_type)type, outputs,
            random_inputs(random, (enum tensor_type)type), PRODUCT_ROWS);
        product_check_company(kernels, &c);
        product_close(&c);
    }
}

/* A single chain whose products vanish: the sum is -0 where weights are positive, and stays so. */
static void sums_that_vanish_keep_their_sign(
    struct check_random *random, const struct kernels *kernels)
{
    for (int t = 0; t < TENSOR_TYPE_COUNT; t++) {
        const enum tensor_type type = (enum tensor_type)t;
        const int32_t inputs = tensor_type_block(type) == 1 ? 40 : tensor_type_block(type);
        struct product c = open_f32(random, kernels, type, 37, inputs, PRODUCT_ROWS);
        for (int32_t r = 0; r < c.rows; r++) {
            float *x = c.x + (size_t)r * c.x_stride;
            memset(x, 0, (size_t)inputs * sizeof *x);
            x[inputs - 1] = -0x1p-149f;
        }
        product_prepare(&c);
        product_check_company(kernels, &c);
        product_close(&c);
    }
}

/* Two blocks of rows and long rows: past every constant of the blocking. */
static void many_rows_and_long_rows(struct check_random *random, const struct kernels *kernels)
{
    static const struct {
        enum tensor_type type;
        int32_t outputs, inputs, rows;
    } shapes[] = {
        {TENSOR_Q8_0, 33, 1536, 251},
        {TENSOR_Q4_1, 17, 32768 + 96, 2},
        {TENSOR_Q6_K, 17, 32768 + 256, 2},
        {TENSOR_F16, 17, 32768 + 1, 2},
    };
    for (size_t i = 0; i < ARRAY_COUNT(shapes); i++) {
        struct product c = open_f32(
            random, kernels, shapes[i].type, shapes[i].outputs, shapes[i].inputs, shapes[i].rows);
        product_run(kernels, &c);
        check_against_sums(&c);
        product_close(&c);
    }
}

/* The first n rows by avx512, for every n, against all by avx2. */
static void check_same_bits(
    const struct kernels *avx2, const struct kernels *avx512, struct product *c, int32_t rows_step)
{
    float *want = check_alloc(c->y_bytes, 0);
    product_run(avx2, c);
    memcpy(want, c->y, c->y_bytes);
    for (int32_t rows = rows_step; rows <= c->rows; rows += rows_step) {
        memset(c->y, 0xff, c->y_bytes);
        avx512->linear(&c->packed, &c->activation, 0, rows, 0, c->packed.panels, c->y, c->y_stride);
        for (size_t r = 0; r < (size_t)rows; r++) {
            if (memcmp(c->y + r * c->y_stride, want + r * c->y_stride,
                    (size_t)c->outputs * sizeof(float)) != 0) {
                fail_msg("%s [%d, %d]: row %zu of %d differs between avx2 and avx512",
                    tensor_type_word(c->type), c->outputs, c->inputs, r, rows);
            }
        }
    }
    check_free(want);
}

static void twins_give_the_same_bits(
    struct check_random *random, const struct kernels *avx2, const struct kernels *avx512)
{
    for (int t = 0; t < TENSOR_TYPE_COUNT; t++) {
        const enum tensor_type type = (enum tensor_type)t;
        /* The last two are past every constant of the blocking. */
        const struct {
            int32_t outputs, inputs, rows, rows_step;
        } shapes[] = {
            {check_random_int(random, 1, 150), random_inputs(random, type), PRODUCT_ROWS, 1},
            {check_random_int(random, 1, 150), random_inputs(random, type), PRODUCT_ROWS, 1},
            {17, 32768 + tensor_type_block(type), 3, 1},
            {33, 1536, 251, 251},
        };
        for (size_t i = 0; i < ARRAY_COUNT(shapes); i++) {
            struct product c =
                open_f32(random, avx2, type, shapes[i].outputs, shapes[i].inputs, shapes[i].rows);
            check_same_bits(avx2, avx512, &c, shapes[i].rows_step);
            product_close(&c);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RUNG_TEST(every_weight_is_exact, check_wants_any),
        RUNG_TEST(every_rung_is_within_rounding, check_wants_any),
        RUNG_TEST(bits_do_not_depend_on_company, check_wants_lanes),
        RUNG_TEST(sums_that_vanish_keep_their_sign, check_wants_lanes),
        RUNG_TEST(many_rows_and_long_rows, check_wants_any),
        TWIN_TEST(twins_give_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
