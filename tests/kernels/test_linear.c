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
#include "engine/base/threads.h"
#include "tests/kernels/kernel_check.h"
#include "tests/scale.h"

enum { ROWS_MAX = 64 };

struct linear_case {
    enum tensor_type type;
    int32_t outputs, inputs, rows;
    unsigned char *file;
    struct packed packed;
    float *x, *y; /* [rows, inputs], [rows, y_stride] */
    size_t x_stride, y_stride;
    struct activation activation;
};

static struct linear_case open_case(struct check_random *random, const struct kernels *kernels,
    enum tensor_type type, int32_t outputs, int32_t inputs, int32_t rows)
{
    struct linear_case c = {
        .type = type,
        .outputs = outputs,
        .inputs = inputs,
        .rows = rows,
        .x_stride = (size_t)inputs + (size_t)check_random_int(random, 0, 5),
        .y_stride = (size_t)outputs + (size_t)check_random_int(random, 0, 5),
    };
    size_t bytes = 0;
    assert_true(tensor_type_bytes(type, (size_t)outputs * (size_t)inputs, &bytes));
    c.file = check_alloc(bytes, 1);
    check_random_blocks(random, type, (size_t)outputs * (size_t)inputs, c.file);
    c.packed = check_pack(random, kernels, type, outputs, inputs, c.file);
    /* The distance between rows holds NaN: kernels must not read past a row. */
    c.x = check_alloc(((size_t)(rows - 1) * c.x_stride + (size_t)inputs) * sizeof(float), 4);
    for (int32_t r = 0; r < rows; r++) {
        check_random_floats(random, c.x + (size_t)r * c.x_stride, (size_t)inputs);
    }
    c.y = check_alloc(((size_t)(rows - 1) * c.y_stride + (size_t)outputs) * sizeof(float), 4);
    c.activation =
        (struct activation){ACTIVATION_F32, rows, inputs, c.x_stride * sizeof(float), c.x};
    return c;
}

static void close_case(struct linear_case *c)
{
    check_free(c->file);
    check_free(c->packed.data);
    check_free(c->x);
    check_free(c->y);
}

static int32_t random_inputs(struct check_random *random, enum tensor_type type)
{
    const int32_t block = tensor_type_block(type);
    return block == 1 ? check_random_int(random, 1, 700)
                      : block * check_random_int(random, 1, block == 32 ? 20 : 3);
}

/* Exact weights of one output. */
static void weights_of(const struct linear_case *c, int32_t output, float *out)
{
    const size_t row_bytes =
        (size_t)(c->inputs / tensor_type_block(c->type)) * tensor_type_block_bytes(c->type);
    tensor_type_unpack(c->type, c->file + (size_t)output * row_bytes, (size_t)c->inputs, out);
}

/* s_i of the rounding bound. */
static void sizes_of(const struct linear_case *c, const float *w, float *out)
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

static void check_against_sums(const struct linear_case *c)
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

static void every_rung_is_within_rounding(void **state)
{
    (void)state;
    struct check_random random = check_random_open();
    for (const char *const *name = kernels_available(); *name != NULL; name++) {
        const struct kernels kernels = check_rung(*name);
        for (int type = 0; type < TENSOR_TYPE_COUNT; type++) {
            for (int repeat = 0; repeat < 8; repeat++) {
                const int32_t rows = repeat < 4 ? repeat + 1 : check_random_int(&random, 5, 30);
                struct linear_case c = open_case(&random, &kernels, (enum tensor_type)type,
                    check_random_int(&random, 1, 120),
                    random_inputs(&random, (enum tensor_type)type), rows);
                kernels.linear(
                    &c.packed, &c.activation, 0, rows, 0, c.packed.panels, c.y, c.y_stride);
                check_against_sums(&c);
                close_case(&c);
            }
        }
    }
}

/* Row r of x is zero but for a one at input from + r. */
static void check_single_weights(
    const struct kernels *kernels, struct linear_case *c, int32_t from, int32_t rows)
{
    for (int32_t r = 0; r < rows; r++) {
        float *x = c->x + (size_t)r * c->x_stride;
        memset(x, 0, (size_t)c->inputs * sizeof *x);
        x[from + r] = 1.0f;
    }
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

static void every_weight_is_exact(void **state)
{
    (void)state;
    struct check_random random = check_random_open();
    for (const char *const *name = kernels_available(); *name != NULL; name++) {
        const struct kernels kernels = check_rung(*name);
        for (int type = 0; type < TENSOR_TYPE_COUNT; type++) {
            const int32_t block = tensor_type_block((enum tensor_type)type);
            const int32_t inputs = block == 1 ? 172 : block == 32 ? 96 : 512;
            struct linear_case c =
                open_case(&random, &kernels, (enum tensor_type)type, 37, inputs, ROWS_MAX);
            for (int32_t from = 0; from < inputs; from += ROWS_MAX) {
                const int32_t rows = inputs - from < ROWS_MAX ? inputs - from : ROWS_MAX;
                check_single_weights(&kernels, &c, from, rows);
            }
            check_single_weights(&kernels, &c, inputs - 1, 1);
            close_case(&c);
        }
    }
}

struct share {
    const struct kernels *kernels;
    struct linear_case *c;
    int32_t rows_each, panels_each, row_chunks;
};

/* Chunk -> one rectangle of rows and panels. */
static void run_share(void *context, int32_t chunk, int32_t thread)
{
    (void)thread;
    const struct share *share = context;
    struct linear_case *c = share->c;
    const int32_t row = chunk % share->row_chunks * share->rows_each;
    const int32_t panel = chunk / share->row_chunks * share->panels_each;
    const int32_t row_to = row + share->rows_each < c->rows ? row + share->rows_each : c->rows;
    const int32_t panel_to = panel + share->panels_each < c->packed.panels
                                 ? panel + share->panels_each
                                 : c->packed.panels;
    share->kernels->linear(
        &c->packed, &c->activation, row, row_to, panel, panel_to, c->y, c->y_stride);
}

static void check_split(const struct kernels *kernels, struct linear_case *c,
    struct threads *threads, int32_t rows_each, int32_t panels_each, const float *want)
{
    struct share share = {
        kernels, c, rows_each, panels_each, (c->rows + rows_each - 1) / rows_each};
    const int32_t panel_chunks = (c->packed.panels + panels_each - 1) / panels_each;
    const size_t bytes = ((size_t)(c->rows - 1) * c->y_stride + (size_t)c->outputs) * sizeof(float);
    memset(c->y, 0xff, bytes);
    threads_run(threads, share.row_chunks * panel_chunks, run_share, &share);
    if (memcmp(c->y, want, bytes) != 0) {
        fail_msg("%s %s [%d, %d]: %d rows x %d panels a call change bits", kernels->name,
            tensor_type_word(c->type), c->outputs, c->inputs, rows_each, panels_each);
    }
}

static void bits_do_not_depend_on_company(void **state)
{
    (void)state;
    struct check_random random = check_random_open();
    const int32_t outputs = (test_scale() > 1 ? 2 : 7) * 16 + 5;
    struct threads *threads = NULL;
    assert_int_equal(threads_open(3, &threads), ERR_OK);
    for (const char *const *name = kernels_available(); *name != NULL; name++) {
        const struct kernels kernels = check_rung(*name);
        if (!kernels.deterministic || strcmp(*name, "ref") == 0) {
            continue;
        }
        for (int type = 0; type < TENSOR_TYPE_COUNT; type++) {
            struct linear_case c = open_case(&random, &kernels, (enum tensor_type)type, outputs,
                random_inputs(&random, (enum tensor_type)type), ROWS_MAX);
            kernels.linear(
                &c.packed, &c.activation, 0, ROWS_MAX, 0, c.packed.panels, c.y, c.y_stride);
            const size_t bytes =
                ((size_t)(ROWS_MAX - 1) * c.y_stride + (size_t)c.outputs) * sizeof(float);
            float *want = check_alloc(bytes, 0);
            memcpy(want, c.y, bytes);
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

/* Two blocks of rows and long rows: past every constant of the blocking. */
static void many_rows_and_long_rows(void **state)
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
    (void)state;
    struct check_random random = check_random_open();
    for (const char *const *name = kernels_available(); *name != NULL; name++) {
        const struct kernels kernels = check_rung(*name);
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            const int32_t rows = shapes[i].rows;
            struct linear_case c = open_case(
                &random, &kernels, shapes[i].type, shapes[i].outputs, shapes[i].inputs, rows);
            kernels.linear(&c.packed, &c.activation, 0, rows, 0, c.packed.panels, c.y, c.y_stride);
            check_against_sums(&c);
            close_case(&c);
        }
    }
}

/* The first n rows by avx512, for every n, against all by avx2. */
static void check_same_bits(const struct kernels *avx2, const struct kernels *avx512,
    struct linear_case *c, int32_t rows_step)
{
    const size_t bytes = ((size_t)(c->rows - 1) * c->y_stride + (size_t)c->outputs) * sizeof(float);
    float *want = check_alloc(bytes, 0);
    avx2->linear(&c->packed, &c->activation, 0, c->rows, 0, c->packed.panels, want, c->y_stride);
    for (int32_t rows = rows_step; rows <= c->rows; rows += rows_step) {
        memset(c->y, 0xff, bytes);
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

static void twins_give_the_same_bits(void **state)
{
    (void)state;
    struct check_random random = check_random_open();
    struct kernels avx2, avx512;
    if (!check_twins(&avx2, &avx512)) {
        print_message("skipped: no AVX-512\n");
        skip();
    }
    for (int type = 0; type < TENSOR_TYPE_COUNT; type++) {
        for (int repeat = 0; repeat < 2; repeat++) {
            struct linear_case c =
                open_case(&random, &avx2, (enum tensor_type)type, check_random_int(&random, 1, 150),
                    random_inputs(&random, (enum tensor_type)type), ROWS_MAX);
            check_same_bits(&avx2, &avx512, &c, 1);
            close_case(&c);
        }
        /* Past every constant of the blocking. */
        const int32_t extra = tensor_type_block((enum tensor_type)type);
        struct linear_case few =
            open_case(&random, &avx2, (enum tensor_type)type, 17, 32768 + extra, 3);
        check_same_bits(&avx2, &avx512, &few, 1);
        close_case(&few);
        struct linear_case many = open_case(&random, &avx2, (enum tensor_type)type, 33, 1536, 251);
        check_same_bits(&avx2, &avx512, &many, 251);
        close_case(&many);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_weight_is_exact),
        cmocka_unit_test(every_rung_is_within_rounding),
        cmocka_unit_test(bits_do_not_depend_on_company),
        cmocka_unit_test(many_rows_and_long_rows),
        cmocka_unit_test(twins_give_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
