/* See the header. */
#include "tests/kernels/product_check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>
#include "engine/base/threads.h"
#include "engine/kernels/int8_row.h"

struct product product_open(struct check_random *random, const struct kernels *kernels,
    enum activation_format format, enum tensor_type type, int32_t outputs, int32_t inputs,
    int32_t rows)
{
    struct product p = {
        .type = type,
        .outputs = outputs,
        .inputs = inputs,
        .rows = rows,
        .x_stride = (size_t)inputs + (size_t)check_random_int(random, 0, 5),
        .y_stride = (size_t)outputs + (size_t)check_random_int(random, 0, 5),
    };
    size_t bytes = 0;
    assert_true(tensor_type_bytes(type, (size_t)outputs * (size_t)inputs, &bytes));
    p.file = check_alloc(bytes, 1);
    check_random_blocks(random, type, (size_t)outputs * (size_t)inputs, p.file);
    p.packed = check_pack(random, kernels, type, outputs, inputs, p.file);
    p.x = check_alloc(((size_t)(rows - 1) * p.x_stride + (size_t)inputs) * sizeof(float), 4);
    for (int32_t r = 0; r < rows; r++) {
        check_random_floats(random, p.x + (size_t)r * p.x_stride, (size_t)inputs);
    }
    p.activation = (struct activation){format, rows, inputs, p.x_stride * sizeof(float), p.x};
    if (format == ACTIVATION_F32 && kernels->sum_blocks != NULL && inputs % SUM_INPUTS == 0 &&
        tensor_type_has_minima(type)) { /* others must do without */
        p.sum_blocks = kernels->sum_blocks;
        p.sums = check_alloc((size_t)(rows * (inputs / SUM_INPUTS)) * sizeof(float), 4);
        p.activation.sums = p.sums;
        product_prepare(&p);
    }
    if (format == ACTIVATION_INT8) {
        const size_t row_bytes = int8_row_bytes(inputs);
        p.x_int8 = check_alloc((size_t)rows * row_bytes, 0);
        p.activation = (struct activation){format, rows, inputs, row_bytes, p.x_int8};
        product_prepare(&p);
    }
    p.y_bytes = ((size_t)(rows - 1) * p.y_stride + (size_t)outputs) * sizeof(float);
    p.y = check_alloc(p.y_bytes, 4);
    return p;
}

void product_close(struct product *product)
{
    check_free(product->file);
    check_free(product->packed.data);
    check_free(product->x);
    if (product->x_int8 != NULL) {
        check_free(product->x_int8);
    }
    if (product->sums != NULL) {
        check_free(product->sums);
    }
    check_free(product->y);
}

void product_prepare(struct product *product)
{
    const struct kernels ref = check_rung("ref");
    for (size_t r = 0; r < (size_t)product->rows; r++) {
        const float *x = product->x + r * product->x_stride;
        if (product->x_int8 != NULL) {
            ref.quantize(x, product->inputs, product->x_int8 + r * product->activation.row_bytes);
        } else if (product->sums != NULL) {
            const size_t sums = (size_t)(product->inputs / SUM_INPUTS);
            product->sum_blocks(x, product->inputs, product->sums + r * sums);
        }
    }
}

int32_t product_inputs(
    struct check_random *random, enum tensor_type type, int32_t small_blocks, int32_t great_blocks)
{
    const int32_t block = tensor_type_block(type);
    return block == 1
               ? check_random_int(random, 1, 700)
               : block * check_random_int(random, 1, block == 32 ? small_blocks : great_blocks);
}

/* ---- running -------------------------------------------------------------------------------- */

struct share {
    const struct kernels *kernels;
    struct product *product;
    int32_t rows_each, panels_each, row_chunks;
};

/* Chunk -> one rectangle of rows and panels. */
static void run_share(void *context, int32_t chunk, int32_t thread)
{
    (void)thread;
    const struct share *share = context;
    const struct kernels *kernels = share->kernels;
    struct product *p = share->product;
    const int32_t row = chunk % share->row_chunks * share->rows_each;
    const int32_t panel = chunk / share->row_chunks * share->panels_each;
    const int32_t row_to = MIN(row + share->rows_each, p->rows);
    const int32_t panel_to = MIN(panel + share->panels_each, p->packed.panels);
    const bool int8 = p->activation.format == ACTIVATION_INT8;
    (int8 ? kernels->linear_int8 : kernels->linear)(
        &p->packed, &p->activation, row, row_to, panel, panel_to, p->y, p->y_stride);
}

/* threads NULL: all in one call. */
static void run(const struct kernels *kernels, struct product *product, struct threads *threads,
    int32_t rows_each, int32_t panels_each)
{
    struct share share = {
        kernels, product, rows_each, panels_each, (product->rows + rows_each - 1) / rows_each};
    const int32_t panel_chunks = (product->packed.panels + panels_each - 1) / panels_each;
    memset(product->y, 0xff, product->y_bytes);
    if (threads == NULL) {
        run_share(&share, 0, 0);
    } else {
        threads_run(threads, share.row_chunks * panel_chunks, run_share, &share);
    }
}

void product_run(const struct kernels *kernels, struct product *product)
{
    run(kernels, product, NULL, product->rows, product->packed.panels);
}

static void check_split(const struct kernels *kernels, struct product *p, struct threads *threads,
    int32_t rows_each, int32_t panels_each, const float *want)
{
    run(kernels, p, threads, rows_each, panels_each);
    if (memcmp(p->y, want, p->y_bytes) != 0) {
        fail_msg("%s %s [%d, %d]: %d rows x %d panels a call change bits", kernels->name,
            tensor_type_word(p->type), p->outputs, p->inputs, rows_each, panels_each);
    }
}

void product_check_company(const struct kernels *kernels, struct product *product)
{
    struct threads *threads = NULL;
    assert_int_equal(threads_open(3, &threads), ERR_OK);
    assert_true(product->rows >= PRODUCT_ROWS);
    const int32_t panels = product->packed.panels;
    float *want = check_alloc(product->y_bytes, 0);
    product_run(kernels, product);
    memcpy(want, product->y, product->y_bytes);
    for (int32_t rows_each = 1; rows_each <= PRODUCT_ROWS; rows_each++) {
        check_split(kernels, product, threads, rows_each, panels, want);
    }
    for (int32_t panels_each = 1; panels_each < panels; panels_each++) {
        check_split(kernels, product, threads, 1 + panels_each * 3, panels_each, want);
    }
    check_split(kernels, product, threads, 1, 1, want);
    check_free(want);
    threads_close(threads);
}
