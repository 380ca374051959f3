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
#include "engine/base/threads.h"
#include "engine/kernels/int8_row.h"
#include "engine/kernels/tensor_integers.h"
#include "tests/kernels/kernel_check.h"

enum { ROWS_MAX = 64 };

static const enum tensor_type block_types[] = {TENSOR_Q8_0, TENSOR_Q4_0, TENSOR_Q4_1, TENSOR_Q5_0,
    TENSOR_Q5_1, TENSOR_Q4_K, TENSOR_Q5_K, TENSOR_Q6_K};

struct int8_case {
    enum tensor_type type;
    int32_t outputs, inputs, rows;
    unsigned char *file;
    struct packed packed;
    float *x;           /* [rows, inputs] */
    unsigned char *x_8; /* the same prepared by the reference */
    struct activation activation;
    float *y; /* [rows, y_stride] */
    size_t y_stride, y_bytes;
};

static void prepare(struct int8_case *c, const struct kernels *kernels)
{
    for (int32_t r = 0; r < c->rows; r++) {
        kernels->quantize(c->x + (size_t)r * (size_t)c->inputs, c->inputs,
            c->x_8 + (size_t)r * int8_row_bytes(c->inputs));
    }
}

static struct int8_case open_case(struct check_random *random, enum tensor_type type,
    int32_t outputs, int32_t inputs, int32_t rows)
{
    const struct kernels ref = check_rung("ref");
    struct int8_case c = {
        .type = type,
        .outputs = outputs,
        .inputs = inputs,
        .rows = rows,
        .y_stride = (size_t)outputs + (size_t)check_random_int(random, 0, 5),
    };
    size_t bytes = 0;
    assert_true(tensor_type_bytes(type, (size_t)outputs * (size_t)inputs, &bytes));
    c.file = check_alloc(bytes, 1);
    check_random_blocks(random, type, (size_t)outputs * (size_t)inputs, c.file);
    c.packed = check_pack(random, &ref, type, outputs, inputs, c.file);
    c.x = check_alloc((size_t)rows * (size_t)inputs * sizeof(float), 4);
    check_random_floats(random, c.x, (size_t)rows * (size_t)inputs);
    c.x_8 = check_alloc((size_t)rows * int8_row_bytes(inputs), 0);
    prepare(&c, &ref);
    c.activation =
        (struct activation){ACTIVATION_INT8, rows, inputs, int8_row_bytes(inputs), c.x_8};
    c.y_bytes = ((size_t)(rows - 1) * c.y_stride + (size_t)outputs) * sizeof(float);
    c.y = check_alloc(c.y_bytes, 4);
    return c;
}

static void close_case(struct int8_case *c)
{
    check_free(c->file);
    check_free(c->packed.data);
    check_free(c->x);
    check_free(c->x_8);
    check_free(c->y);
}

static int32_t random_inputs(struct check_random *random, enum tensor_type type)
{
    const int32_t block = tensor_type_block(type);
    return block * check_random_int(random, 1, block == 32 ? 40 : 6);
}

static void multiply(const struct kernels *kernels, struct int8_case *c)
{
    memset(c->y, 0xff, c->y_bytes);
    kernels->linear_int8(
        &c->packed, &c->activation, 0, c->rows, 0, c->packed.panels, c->y, c->y_stride);
}

/* The file's block of an output that holds `input`. */
static const unsigned char *block_of(const struct int8_case *c, int32_t output, int32_t input)
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

static void every_rung_prepares_the_same_row(void **state)
{
    (void)state;
    enum { INPUTS = 32 * 200 };
    struct check_random random = check_random_open();
    const struct kernels ref = check_rung("ref");
    float *x = check_alloc(INPUTS * sizeof(float), 4);
    unsigned char *want = check_alloc(int8_row_bytes(INPUTS), 0);
    unsigned char *have = check_alloc(int8_row_bytes(INPUTS), 0);
    fill_blocks(&random, x, INPUTS);
    ref.quantize(x, INPUTS, want);
    check_row(x, INPUTS, want);
    for (const char *const *name = kernels_available(); *name != NULL; name++) {
        const struct kernels kernels = check_rung(*name);
        if (kernels.quantize == NULL) {
            continue;
        }
        memset(have, 0xff, int8_row_bytes(INPUTS));
        kernels.quantize(x, INPUTS, have);
        assert_memory_equal(have, want, int8_row_bytes(INPUTS));
    }
    check_free(x);
    check_free(want);
    check_free(have);
}

/* ---- products ------------------------------------------------------------------------------- */

/* What an output should be from the integers alone, and the sizes of the two bounds. */
struct expected {
    double sum, size, exact, lost;
};

static struct expected expect(const struct int8_case *c, int32_t row, int32_t output)
{
    struct expected e = {0};
    const int32_t count = tensor_integers_group(c->type);
    const int8_t *q = int8_row_at(&c->activation, row);
    const struct int8_block *blocks = int8_row_blocks(q, c->inputs);
    const float *x = c->x + (size_t)row * (size_t)c->inputs;
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
        struct int8_case c =
            open_case(&random, block_types[t], 40, random_inputs(&random, block_types[t]), 5);
        const double gamma = check_gamma(2 * (c.inputs / tensor_integers_group(c.type)) + 2);
        multiply(&ref, &c);
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
        close_case(&c);
    }
}

static void compare_rungs(struct int8_case *c, const char *what)
{
    const struct kernels ref = check_rung("ref");
    float *want = check_alloc(c->y_bytes, 0);
    multiply(&ref, c);
    memcpy(want, c->y, c->y_bytes);
    for (const char *const *name = kernels_available(); *name != NULL; name++) {
        const struct kernels kernels = check_rung(*name);
        if (kernels.linear_int8 == NULL) {
            continue;
        }
        multiply(&kernels, c);
        if (memcmp(c->y, want, c->y_bytes) != 0) {
            fail_msg("%s %s [%d, %d] %d rows, %s: not the reference's bits", *name,
                tensor_type_word(c->type), c->outputs, c->inputs, c->rows, what);
        }
    }
    check_free(want);
}

static void every_rung_gives_the_same_bits(void **state)
{
    (void)state;
    struct check_random random = check_random_open();
    for (size_t t = 0; t < ARRAY_COUNT(block_types); t++) {
        for (int32_t repeat = 0; repeat < 12; repeat++) {
            const int32_t rows = repeat < 9 ? repeat + 1 : check_random_int(&random, 10, 40);
            struct int8_case c = open_case(&random, block_types[t],
                check_random_int(&random, 1, 150), random_inputs(&random, block_types[t]), rows);
            compare_rungs(&c, "random");
            close_case(&c);
        }
    }
}

/* Quants at both ends of their range, inputs all of the greatest size: the sums that would pass 16
 * bits, were they added carelessly. */
static void extremes_do_not_overflow(void **state)
{
    (void)state;
    static const unsigned char fills[] = {0x00, 0xff, 0x80, 0x7f, 0x0f, 0xf0};
    struct check_random random = check_random_open();
    for (size_t t = 0; t < ARRAY_COUNT(block_types); t++) {
        const enum tensor_type type = block_types[t];
        const struct kernels ref = check_rung("ref");
        for (size_t f = 0; f < ARRAY_COUNT(fills); f++) {
            struct int8_case c = open_case(&random, type, 16, 512, 6);
            const size_t block_bytes = tensor_type_block_bytes(type);
            for (size_t b = 0; b < 16 * 512 / (size_t)tensor_type_block(type); b++) {
                unsigned char *block = c.file + b * block_bytes;
                const unsigned char halves[4] = {block[0], block[1], block[2], block[3]};
                const unsigned char last[2] = {block[block_bytes - 2], block[block_bytes - 1]};
                const bool at_end = type == TENSOR_Q6_K;
                const size_t kept = at_end ? 0 : tensor_integers_minima(type) ? 4 : 2;
                memset(block, fills[f], block_bytes);
                memcpy(block, halves, kept);
                if (at_end) {
                    memcpy(block + block_bytes - 2, last, 2);
                }
            }
            ref.pack(&c.packed, 0, 16, c.file);
            for (int32_t i = 0; i < 6 * 512; i++) {
                const int32_t row = i / 512;
                const bool negative =
                    row == 1 || (row == 2 && i % 2 == 0) || (row == 3 && i % 3 == 0);
                c.x[i] = negative ? -1.0f : 1.0f;
            }
            prepare(&c, &ref);
            compare_rungs(&c, "extremes");
            c.rows = c.activation.rows = 2;
            c.y_bytes = (c.y_stride + 16) * sizeof(float);
            compare_rungs(&c, "extremes");
            close_case(&c);
        }
    }
}

/* ---- company -------------------------------------------------------------------------------- */

struct share {
    const struct kernels *kernels;
    struct int8_case *c;
    int32_t rows_each, panels_each, row_chunks;
};

static void run_share(void *context, int32_t chunk, int32_t thread)
{
    (void)thread;
    const struct share *share = context;
    struct int8_case *c = share->c;
    const int32_t row = chunk % share->row_chunks * share->rows_each;
    const int32_t panel = chunk / share->row_chunks * share->panels_each;
    share->kernels->linear_int8(&c->packed, &c->activation, row,
        MIN(row + share->rows_each, c->rows), panel,
        MIN(panel + share->panels_each, c->packed.panels), c->y, c->y_stride);
}

static void check_split(const struct kernels *kernels, struct int8_case *c, struct threads *threads,
    int32_t rows_each, int32_t panels_each, const float *want)
{
    struct share share = {
        kernels, c, rows_each, panels_each, (c->rows + rows_each - 1) / rows_each};
    const int32_t panel_chunks = (c->packed.panels + panels_each - 1) / panels_each;
    memset(c->y, 0xff, c->y_bytes);
    threads_run(threads, share.row_chunks * panel_chunks, run_share, &share);
    if (memcmp(c->y, want, c->y_bytes) != 0) {
        fail_msg("%s %s [%d, %d]: %d rows x %d panels a call change bits", kernels->name,
            tensor_type_word(c->type), c->outputs, c->inputs, rows_each, panels_each);
    }
}

static void bits_do_not_depend_on_company(void **state)
{
    (void)state;
    struct check_random random = check_random_open();
    struct threads *threads = NULL;
    assert_int_equal(threads_open(3, &threads), ERR_OK);
    for (const char *const *name = kernels_available(); *name != NULL; name++) {
        const struct kernels kernels = check_rung(*name);
        if (kernels.linear_int8 == NULL || strcmp(*name, "ref") == 0) {
            continue;
        }
        for (size_t t = 0; t < ARRAY_COUNT(block_types); t++) {
            struct int8_case c = open_case(&random, block_types[t], 7 * 16 + 5,
                random_inputs(&random, block_types[t]), ROWS_MAX);
            multiply(&kernels, &c);
            float *want = check_alloc(c.y_bytes, 0);
            memcpy(want, c.y, c.y_bytes);
            for (int32_t rows_each = 1; rows_each <= ROWS_MAX; rows_each++) {
                check_split(&kernels, &c, threads, rows_each, c.packed.panels, want);
            }
            for (int32_t panels_each = 1; panels_each < c.packed.panels; panels_each++) {
                check_split(&kernels, &c, threads, 1 + panels_each * 3, panels_each, want);
            }
            check_split(&kernels, &c, threads, 1, 1, want);
            check_free(want);
            close_case(&c);
        }
    }
    threads_close(threads);
}

/* Past every constant of the blocking: rows of a block and inputs of a tile. */
static void many_rows_and_long_rows(void **state)
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
    (void)state;
    struct check_random random = check_random_open();
    for (size_t i = 0; i < ARRAY_COUNT(shapes); i++) {
        struct int8_case c =
            open_case(&random, shapes[i].type, shapes[i].outputs, shapes[i].inputs, shapes[i].rows);
        compare_rungs(&c, "blocking");
        close_case(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_are_the_numbers_of_the_format),
        cmocka_unit_test(every_rung_prepares_the_same_row),
        cmocka_unit_test(the_reference_is_within_rounding),
        cmocka_unit_test(every_rung_gives_the_same_bits),
        cmocka_unit_test(extremes_do_not_overflow),
        cmocka_unit_test(bits_do_not_depend_on_company),
        cmocka_unit_test(many_rows_and_long_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
