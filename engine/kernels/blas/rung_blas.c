/*
 * The OpenBLAS rung: weights unpacked to plain float32 [outputs, inputs], products by cblas_sgemm.
 *
 * It serves CPUs without kernels of our own and is the baseline of benchmarks. sgemm chooses its
 * blocking by the number of rows, so a row's bits depend on its neighbours: not deterministic.
 * We call it from our own workers, hence the pthread build with one thread of its own; the serial
 * build keeps shared buffers without locks and returns wrong results under two callers.
 */
#include <cblas.h>
#include <string.h>
#include "engine/base/assert.h"
#include "engine/base/checked.h"
#include "engine/kernels/rungs.h"

static size_t blas_panel_bytes(enum tensor_type type, int32_t inputs)
{
    size_t bytes;
    if (inputs < 1 || inputs % tensor_type_block(type) != 0 ||
        !checked_mul((size_t)inputs, PANEL_OUTPUTS * sizeof(float), &bytes)) {
        return 0;
    }
    return bytes;
}

static float *row_of(const struct packed *packed, int32_t output)
{
    return (float *)(void *)packed->data + (size_t)output * (size_t)packed->inputs;
}

static void blas_pack(
    const struct packed *packed, int32_t output_from, int32_t output_count, const void *file_rows)
{
    ASSERT(output_from % PANEL_OUTPUTS == 0 && output_count <= packed->outputs - output_from);
    const size_t count = (size_t)output_count * (size_t)packed->inputs;
    tensor_type_unpack(packed->type, file_rows, count, row_of(packed, output_from));
    if (output_from + output_count == packed->outputs) {
        const int32_t padding = packed->panels * PANEL_OUTPUTS - packed->outputs;
        memset(row_of(packed, packed->outputs), 0,
            (size_t)padding * (size_t)packed->inputs * sizeof(float));
    }
}

static void blas_unpack_row(const struct packed *packed, int32_t output, float *out)
{
    memcpy(out, row_of(packed, output), (size_t)packed->inputs * sizeof(float));
}

static void blas_linear(const struct packed *packed, const struct activation *x, int32_t row_from,
    int32_t row_to, int32_t panel_from, int32_t panel_to, float *y, size_t y_stride)
{
    ASSERT(x->format == ACTIVATION_F32 && x->inputs == packed->inputs);
    ASSERT(x->row_bytes % sizeof(float) == 0);
    const int32_t output_from = panel_from * PANEL_OUTPUTS;
    const int32_t output_to = MIN(panel_to * PANEL_OUTPUTS, packed->outputs);
    if (row_to <= row_from || output_to <= output_from) {
        return;
    }
    const float *rows =
        (const float *)((const unsigned char *)x->data + (size_t)row_from * x->row_bytes);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, row_to - row_from, output_to - output_from,
        packed->inputs, 1.0f, rows, (int)(x->row_bytes / sizeof(float)),
        row_of(packed, output_from), packed->inputs, 0.0f,
        y + (size_t)row_from * y_stride + output_from, (int)y_stride);
}

bool rung_blas_usable(void)
{
    return openblas_get_parallel() != 0;
}

bool rung_blas_prepare(struct err_info *info)
{
    if (!rung_blas_usable()) {
        (void)err_set(info, ERR_CONFIG, "kernels",
            "the OpenBLAS found is the serial build, which returns wrong results when two threads "
            "call it; install the pthread build (libopenblas0-pthread)");
        return false;
    }
    openblas_set_num_threads(1);
    return true;
}

void rung_blas_fill(struct kernels *table)
{
    table->name = "blas";
    table->deterministic = false;
    table->panel_bytes = blas_panel_bytes;
    table->pack = blas_pack;
    table->unpack_row = blas_unpack_row;
    table->linear = blas_linear;
    table->linear_int8 = NULL; /* its panels are floats */
    table->quantize = NULL;
    table->sum_blocks = NULL;
}
