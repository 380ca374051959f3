/*
 * Goal: 8-bit activations are what int8_row.h says, and products with them are exact but for the
 * float operations they state; every rung gives the bits of the reference, in any company.
 *
 * Method:
 *   integers    a q + b of every group is the number that tensor_type_unpack gives, bit for bit
 *   rows        bytes of every rung equal the reference's; |x - q scale| <= scale / 2 (1 + 2^-20)
 *   products    the reference against a sum in double over the same integers:
 *                   |y - sum| <= gamma_(2 groups + 2) sum(|a scale isum| + |b sum|),
 *               two FMAs a group, a scale's product and a block's sum, each rounded once; and
 *               against the product with x itself, plus sum |w| scale / 2 of what 8 bits lose
 *   same bits   rungs against the reference on random numbers and on the extremes that would pass
 *               16 bits; 1 to 64 rows, any split, several threads
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
#include <cmocka.h>
#include "engine/kernels/int8_row.h"
#include "engine/kernels/tensor_integers.h"
#include "tests/kernels/product_check.h"

static const enum tensor_type block_types[] = {TENSOR_Q8_0, TENSOR_Q4_0, TENSOR_Q4_1, TENSOR_Q5_0,
    TENSOR_Q5_1, TENSOR_Q4_K, TENSOR_Q5_K, TENSOR_Q6_K};

/* All rungs read the panels of the reference. */
static struct product open_int8(struct check_random *random, enum tensor_type type, int32_t outputs,
    int32_t inputs, int32_t rows)
{
    const struct kernels ref = check_rung("ref");
    return product_open(random, &ref, ACTIVATION_INT8, type, outputs, inputs, rows);
}

static int32_t random_inputs(struct check_random *random, enum tensor_type type)
{
    return product_inputs(random, type, 40, 6);
}

/* The file's block of an output that holds `input`. */
static const unsigned char *block_of(const struct product *c, int32_t output, int32_t input)
{
    const int32_t block = tensor_type_block(c->type);
    const size_t blocks = (size_t)output * (size_t)(c->inputs / block) + (size_t)(input / block);
    return c->file + blocks * tensor_type_block_bytes(c->type);
}

/* ---- integers ------------------------------------------------------------------------------- */

static void groups_are_the_numbers_of_the_format(void **state)
{
    (void)state;
    struct check_random random = check_random_open();
    for (size_t t = 0; t < ARRAY_COUNT(block_types); t++) {
        const enum tensor_type type = block_types[t];
        const int32_t block = tensor_type_block(type);
        const int32_t count = tensor_integers_group(type);
        unsigned char *file = check_alloc(tensor_type_block_bytes(type), 1);
        for (int repeat = 0; repeat < 200; repeat++) {
            float want[256];
            check_random_blocks(&random, type, (size_t)block, file);
            tensor_type_unpack(type, file, (size_t)block, want);
            for (int32_t i = 0; i < block; i++) {
                struct tensor_group group;
                tensor_integers_read(type, file, i / count, &group);
                const float product = group.a * (float)group.q[i % count];
                assert_true(product + group.b == want[i]);
            }
        }
        check_free(file);
    }
    assert_int_equal(tensor_integers_group(TENSOR_F16), 0);
}

/* ---- rows ----------------------------------------------------------------------------------- */

/* Blocks of every kind: random of many sizes, zeros, ties, the smallest, infinite, NaN. */
static void fill_blocks(struct check_random *random, float *x, int32_t inputs)
{
    for (int32_t i = 0; i < inputs; i++) {
        const int32_t block = i / INT8_BLOCK;
        const float size = ldexpf(1.0f, block * 7 % 200 - 120);
        x[i] = check_random_float(random, -1.0f, 1.0f) * size;
        if (block % 8 == 1) {
            x[i] = i % 2 == 0 ? 0.0f : -0.0f;
        } else if (block % 8 == 2) {
            x[i] = i % INT8_BLOCK == 0 ? 127.0f : (float)(i % 64) + 0.5f;
        }
    }
    x[3 * INT8_BLOCK + 5] = INFINITY;
    x[4 * INT8_BLOCK + 31] = -NAN;
    x[5 * INT8_BLOCK] = 0x1.fffffep-101f;
    memset(x + 5 * INT8_BLOCK + 1, 0, 31 * sizeof *x);
}

static void check_row(const float *x, int32_t inputs, const unsigned char *row)
{
    const int8_t *q = (const int8_t *)row;
    const struct int8_block *blocks = int8_row_blocks(q, inputs);
    for (int32_t i = 0; i < inputs; i++) {
        const struct int8_block *block = &blocks[i / INT8_BLOCK];
        const int32_t at = i / INT8_BLOCK;
        if (at == 3 || at == 4) {
            assert_true(isnan(block->scale) && isnan(block->sum) && q[i] == 0);
            continue;
        }
        const double error = fabs((double)x[i] - (double)q[i] * (double)block->scale);
        if (error > (double)block->scale / 2 * (1 + 0x1p-20) && fabsf(x[i]) >= INT8_SMALLEST) {
            fail_msg("input %d: %g is off by %g, scale %g", i, (double)x[i], error,
                (double)block->scale);
        }
        assert_true(q[i] >= -127);
    }
    for (int32_t b = 0; b < inputs / INT8_BLOCK; b++) {
        int32_t halves[2] = {0};
        for (int32_t i = 0; i < INT8_BLOCK; i++) {
            halves[i / 16] += q[b * INT8_BLOCK + i];
        }
        assert_int_equal(blocks[b].halves[0], halves[0]);
        assert_int_equal(blocks[b].halves[1], halves[1]);
        if (!isnan(blocks[b].scale)) {
            assert_true(blocks[b].sum == blocks[b].scale * (float)(halves[0] + halves[1]));
        }
    }
}

static void every_rung_prepares_the_same_row(
    struct check_random *random, const struct kernels *kernels)
{
    enum { INPUTS = 32 * 200 };
    const struct kernels ref = check_rung("ref");
    float *x = check_alloc(INPUTS * sizeof(float), 4);
    unsigned char *want = check_alloc(int8_row_bytes(INPUTS), 0);
    unsigned char *have = check_alloc(int8_row_bytes(INPUTS), 0);
    fill_blocks(random, x, INPUTS);
    ref.quantize(x, INPUTS, want);
    check_row(x, INPUTS, want);
    kernels->quantize(x, INPUTS, have);
    assert_memory_equal(have, want, int8_row_bytes(INPUTS));
    check_free(x);
    check_free(want);
    check_free(have);
}

/* ---- products ------------------------------------------------------------------------------- */

/* What an output should be from the integers alone, and the sizes of the two bounds. */
struct expected {
    double sum, size, exact, lost;
};

static struct expected expect(const struct product *c, int32_t row, int32_t output)
{
    struct expected e = {0};
    const int32_t count = tensor_integers_group(c->type);
    const int8_t *q = int8_row_at(&c->activation, row);
    const struct int8_block *blocks = int8_row_blocks(q, c->inputs);
    const float *x = c->x + (size_t)row * c->x_stride;
    for (int32_t from = 0; from < c->inputs; from += count) {
        struct tensor_group group;
        const struct int8_block *block = &blocks[from / INT8_BLOCK];
        tensor_integers_read(
            c->type, block_of(c, output, from), from % tensor_type_block(c->type) / count, &group);
        int32_t sum = 0;
        for (int32_t i = 0; i < count; i++) {
            sum += q[from + i] * group.q[i];
            const double w = (double)group.a * group.q[i] + (double)group.b;
            e.exact += w * (double)x[from + i];
            e.lost += fabs(w) * (double)block->scale / 2 * (1 + 0x1p-20);
        }
        const double first = (double)group.a * (double)block->scale * sum;
        const double second =
            (double)group.b * (double)block->scale * (block->halves[0] + block->halves[1]);
        e.sum += first + second;
        e.size += fabs(first) + fabs(second);
    }
    return e;
}

static void the_reference_is_within_rounding(void **state)
{
    (void)state;
    struct check_random random = check_random_open();
    const struct kernels ref = check_rung("ref");
    for (size_t t = 0; t < ARRAY_COUNT(block_types); t++) {
        struct product c =
            open_int8(&random, block_types[t], 40, random_inputs(&random, block_types[t]), 5);
        const double gamma = check_gamma(2 * (c.inputs / tensor_integers_group(c.type)) + 2);
        product_run(&ref, &c);
        for (int32_t r = 0; r < c.rows; r++) {
            for (int32_t o = 0; o < c.outputs; o++) {
                const struct expected e = expect(&c, r, o);
                const double have = (double)c.y[(size_t)r * c.y_stride + (size_t)o];
                if (!(fabs(have - e.sum) <= gamma * e.size) ||
                    !(fabs(have - e.exact) <= e.lost + gamma * e.size)) {
                    fail_msg("%s inputs %d: %.9g, not %.9g +- %.3g or %.9g +- %.3g",
                        tensor_type_word(c.type), c.inputs, have, e.sum, gamma * e.size, e.exact,
                        e.lost);
                }
            }
        }
        product_close(&c);
    }
}

static void compare_with_reference(
    const struct kernels *kernels, struct product *c, const char *what)
{
    const struct kernels ref = check_rung("ref");
    float *want = check_alloc(c->y_bytes, 0);
    product_run(&ref, c);
    memcpy(want, c->y, c->y_bytes);
    product_run(kernels, c);
    if (memcmp(c->y, want, c->y_bytes) != 0) {
        fail_msg("%s %s [%d, %d] %d rows, %s: not the reference's bits", kernels->name,
            tensor_type_word(c->type), c->outputs, c->inputs, c->rows, what);
    }
    check_free(want);
}

static void every_rung_gives_the_same_bits(
    struct check_random *random, const struct kernels *kernels)
{
    for (size_t t = 0; t < ARRAY_COUNT(block_types); t++) {
        for (int32_t repeat = 0; repeat < 12; repeat++) {
            const int32_t rows = repeat < 9 ? repeat + 1 : check_random_int(random, 10, 40);
            struct product c = open_int8(random, block_types[t], check_random_int(random, 1, 150),
                random_inputs(random, block_types[t]), rows);
            compare_with_reference(kernels, &c, "random");
            product_close(&c);
        }
    }
}

/* Every quant of the file's blocks becomes `fill`; scales and minima stay. */
static void fill_quants(struct product *c, unsigned char fill)
{
    const size_t block_bytes = tensor_type_block_bytes(c->type);
    const size_t blocks = (size_t)c->outputs * (size_t)(c->inputs / tensor_type_block(c->type));
    const bool at_end = c->type == TENSOR_Q6_K;
    const size_t head = at_end ? 0 : tensor_integers_minima(c->type) ? 4 : 2;
    for (size_t b = 0; b < blocks; b++) {
        memset(c->file + b * block_bytes + head, fill, block_bytes - head - (at_end ? 2 : 0));
    }
}

/* Quants at both ends of their range, inputs all of the greatest size: the sums that would pass 16
 * bits, were they added carelessly. */
static void extremes_do_not_overflow(struct check_random *random, const struct kernels *kernels)
{
    enum { OUTPUTS = 16, INPUTS = 512, ROWS = 6 };
    static const unsigned char fills[] = {0x00, 0xff, 0x80, 0x7f, 0x0f, 0xf0};
    const struct kernels ref = check_rung("ref");
    for (size_t t = 0; t < ARRAY_COUNT(block_types); t++) {
        for (size_t f = 0; f < ARRAY_COUNT(fills); f++) {
            struct product c = open_int8(random, block_types[t], OUTPUTS, INPUTS, ROWS);
            fill_quants(&c, fills[f]);
            ref.pack(&c.packed, 0, OUTPUTS, c.file);
            for (int32_t i = 0; i < ROWS * INPUTS; i++) {
                const int32_t row = i / INPUTS;
                const bool negative =
                    row == 1 || (row == 2 && i % 2 == 0) || (row == 3 && i % 3 == 0);
                c.x[(size_t)row * c.x_stride + (size_t)(i % INPUTS)] = negative ? -1.0f : 1.0f;
            }
            product_prepare(&c);
            compare_with_reference(kernels, &c, "extremes");
            c.rows = c.activation.rows = 2;
            c.y_bytes = (c.y_stride + OUTPUTS) * sizeof(float);
            compare_with_reference(kernels, &c, "extremes");
            product_close(&c);
        }
    }
}

/* ---- company -------------------------------------------------------------------------------- */

static void bits_do_not_depend_on_company(
    struct check_random *random, const struct kernels *kernels)
{
    for (size_t t = 0; t < ARRAY_COUNT(block_types); t++) {
        struct product c = open_int8(random, block_types[t], 7 * 16 + 5,
            random_inputs(random, block_types[t]), PRODUCT_ROWS);
        product_check_company(kernels, &c);
        product_close(&c);
    }
}

/* Past every constant of the blocking: rows of a block and inputs of a tile. */
static void many_rows_and_long_rows(struct check_random *random, const struct kernels *kernels)
{
    static const struct {
        enum tensor_type type;
        int32_t outputs, inputs, rows;
    } shapes[] = {
        {TENSOR_Q8_0, 17, 1024 + 32, 131},
        {TENSOR_Q4_1, 33, 4096 + 96, 7},
        {TENSOR_Q6_K, 17, 1024 + 256, 133},
        {TENSOR_Q4_K, 17, 32768 + 256, 2},
    };
    for (size_t i = 0; i < ARRAY_COUNT(shapes); i++) {
        struct product c =
            open_int8(random, shapes[i].type, shapes[i].outputs, shapes[i].inputs, shapes[i].rows);
        compare_with_reference(kernels, &c, "blocking");
        product_close(&c);
    }
}

/* The reference against itself would say nothing. */
static bool fast_int8(const struct kernels *kernels)
{
    return check_wants_int8(kernels) && check_wants_lanes(kernels);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_are_the_numbers_of_the_format),
        RUNG_TEST(every_rung_prepares_the_same_row, check_wants_int8),
        cmocka_unit_test(the_reference_is_within_rounding),
        RUNG_TEST(every_rung_gives_the_same_bits, fast_int8),
        RUNG_TEST(extremes_do_not_overflow, fast_int8),
        RUNG_TEST(bits_do_not_depend_on_company, fast_int8),
        RUNG_TEST(many_rows_and_long_rows, fast_int8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
