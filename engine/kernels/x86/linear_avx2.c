/*
 * Rows times a packed matrix: a piece of a panel is unpacked to float in a tile that stays in the
 * L1 cache, and the tile is multiplied with all rows at hand. One inner kernel serves all number
 * formats, and unpacking costs about two rows' worth of products.
 *
 * Few rows (decoding): memory is the limit. Four panels are walked side by side, so that four
 * streams of cache lines are under way, in short pieces; sums stay in a small buffer.
 * Many rows: one panel at a time in long pieces; the rows are cut into blocks whose piece of the
 * inputs stays in the L2 cache. Sums wait in y between pieces, a float in both places.
 */
#include <string.h>
#include <xmmintrin.h>
#include "engine/base/assert.h"
#include "engine/kernels/x86/avx2.h"

enum {
    FEW_ROWS = 3,         /* up to here: many panels at once */
    FEW_PANELS = 4,       /* walked side by side */
    FEW_INPUTS = 32,      /* of a piece; the tile is 8 KiB */
    MANY_ROWS = 120,      /* of a block; its piece of the inputs is 120 KiB */
    MANY_INPUTS = 256,    /* of a piece; the tile is 16 KiB */
    PREFETCH_BYTES = 1024 /* ahead of the unpacking, in each stream */
};

static const unsigned char *panel_at(const struct packed *packed, int32_t panel)
{
    return packed->data + (size_t)panel * packed->panel_bytes;
}

static const float *row_at(const struct activation *x, int32_t row)
{
    return (
        const float *)(const void *)((const unsigned char *)x->data + (size_t)row * x->row_bytes);
}

/* Copies the outputs that exist from [rows][width] sums to y at (row, output). */
static void put_sums(const struct packed *packed, const float *sums, size_t width, int32_t rows,
    int32_t output, float *y, size_t y_stride)
{
    const size_t count = (size_t)MIN((int32_t)width, packed->outputs - output);
    for (size_t r = 0; r < (size_t)rows; r++) {
        memcpy(y + r * y_stride + output, sums + r * width, count * sizeof(float));
    }
}

/* Asks for the bytes that this stream reads PREFETCH_BYTES later. Past the panel's end that is the
 * next group's panel, FEW_PANELS further on. */
static void prefetch(
    const struct packed *packed, const unsigned char *panel, size_t from, size_t to)
{
    for (size_t at = from; at < to; at += 64) {
        const size_t ahead = at + PREFETCH_BYTES;
        const size_t skip =
            ahead < packed->panel_bytes ? 0 : packed->panel_bytes * (FEW_PANELS - 1);
        _mm_prefetch((const char *)panel + ahead + skip, _MM_HINT_T0);
    }
}

static void few_rows(const struct packed *packed, const struct activation *x, int32_t row,
    int32_t rows, int32_t panel_from, int32_t panel_to, float *y, size_t y_stride)
{
    _Alignas(64) float tile[FEW_PANELS][FEW_INPUTS * PANEL_OUTPUTS];
    _Alignas(64) float sums[FEW_ROWS][FEW_PANELS * PANEL_OUTPUTS];
    const size_t panel_bytes = packed->panel_bytes;
    const size_t inputs = (size_t)packed->inputs;
    for (int32_t panel = panel_from; panel < panel_to; panel += FEW_PANELS) {
        const int32_t panels = MIN(panel_to - panel, FEW_PANELS);
        for (int32_t from = 0; from < packed->inputs; from += FEW_INPUTS) {
            const int32_t count = MIN(packed->inputs - from, FEW_INPUTS);
            for (int32_t p = 0; p < panels; p++) {
                const unsigned char *data = panel_at(packed, panel + p);
                prefetch(packed, data, panel_bytes * (size_t)from / inputs,
                    panel_bytes * (size_t)(from + count) / inputs);
                unpack_avx2(packed->type, data, from, count, tile[p]);
            }
            const struct tile_job job = {
                .x = row_at(x, row) + from,
                .x_stride = x->row_bytes / sizeof(float),
                .w = tile[0],
                .w_stride = PANEL_OUTPUTS,
                .w_panel = FEW_INPUTS * PANEL_OUTPUTS,
                .count = count,
                .y = sums[0],
                .y_stride = FEW_PANELS * PANEL_OUTPUTS,
                .resume = from > 0,
            };
            tile_avx2(&job, rows, panels);
        }
        for (int32_t p = 0; p < panels; p++) {
            const int32_t output = (panel + p) * PANEL_OUTPUTS;
            for (int32_t r = 0; r < rows; r++) {
                put_sums(packed, sums[r] + p * PANEL_OUTPUTS, PANEL_OUTPUTS, 1, output,
                    y + (size_t)(row + r) * y_stride, y_stride);
            }
        }
    }
}

static void many_rows(const struct packed *packed, const struct activation *x, int32_t row,
    int32_t rows, int32_t panel_from, int32_t panel_to, float *y, size_t y_stride)
{
    _Alignas(64) float tile[MANY_INPUTS * PANEL_OUTPUTS];
    /* Only the matrix's last panel can be partial: its sums wait here. */
    _Alignas(64) float partial[MANY_ROWS * PANEL_OUTPUTS];
    float *y_row = y + (size_t)row * y_stride;
    for (int32_t from = 0; from < packed->inputs; from += MANY_INPUTS) {
        const int32_t count = MIN(packed->inputs - from, MANY_INPUTS);
        for (int32_t panel = panel_from; panel < panel_to; panel++) {
            const int32_t output = panel * PANEL_OUTPUTS;
            const bool whole = output + PANEL_OUTPUTS <= packed->outputs;
            unpack_avx2(packed->type, panel_at(packed, panel), from, count, tile);
            const struct tile_job job = {
                .x = row_at(x, row) + from,
                .x_stride = x->row_bytes / sizeof(float),
                .w = tile,
                .w_stride = PANEL_OUTPUTS,
                .count = count,
                .y = whole ? y_row + output : partial,
                .y_stride = whole ? y_stride : PANEL_OUTPUTS,
                .resume = from > 0,
            };
            tile_avx2(&job, rows, 1);
            if (!whole && from + count == packed->inputs) {
                put_sums(packed, partial, PANEL_OUTPUTS, rows, output, y_row, y_stride);
            }
        }
    }
}

void linear_avx2(const struct packed *packed, const struct activation *x, int32_t row_from,
    int32_t row_to, int32_t panel_from, int32_t panel_to, float *y, size_t y_stride)
{
    ASSERT(x->format == ACTIVATION_F32 && x->inputs == packed->inputs);
    ASSERT(x->row_bytes % sizeof(float) == 0 && panel_to <= packed->panels);
    for (int32_t row = row_from; row < row_to; row += MANY_ROWS) {
        const int32_t rows = MIN(row_to - row, MANY_ROWS);
        if (rows <= FEW_ROWS) {
            few_rows(packed, x, row, rows, panel_from, panel_to, y, y_stride);
        } else {
            many_rows(packed, x, row, rows, panel_from, panel_to, y, y_stride);
        }
    }
}
