/*
 * Rows times a packed matrix.
 *
 * Few rows (decoding): memory and the conversion of weights are the limit; see few_avx2.c.
 * Many rows: a piece of a panel is unpacked to float in a tile that stays in the L1 cache, and the
 * tile is multiplied with all rows at hand by the one inner kernel of tile_avx2.c, so unpacking
 * costs about as much as two rows; meanwhile the next panel's piece is fetched. The rows are cut
 * into blocks whose piece of the inputs stays in the L2 cache. Sums wait in y between pieces, a
 * float in both places.
 */
#include <string.h>
#include "engine/base/assert.h"
#include "engine/kernels/x86/avx2.h"

enum {
    FEW_PANELS = 4,            /* the most that few_avx2 takes at once */
    MANY_ROWS = 120,           /* of a block; its piece of the inputs is 150 KiB */
    MANY_INPUTS = 320,         /* of a piece at most; the tile is 20 KiB */
    PIECE_STEP = CHAIN_INPUTS, /* pieces are whole chains */
};

_Static_assert(MANY_INPUTS % PIECE_STEP == 0, "pieces rounded up to whole chains fit the tile");

static const unsigned char *panel_at(const struct packed *packed, int32_t panel)
{
    return packed->data + (size_t)panel * packed->panel_bytes;
}

static const float *row_at(const struct activation *x, int32_t row)
{
    return (
        const float *)(const void *)((const unsigned char *)x->data + (size_t)row * x->row_bytes);
}

/* Copies the outputs that exist from [rows][width] sums of `panels` panels to y, which points at
 * the first row. */
static void put_sums(const struct packed *packed, const float *sums, size_t width, int32_t panels,
    int32_t rows, int32_t panel, float *y, size_t y_stride)
{
    const int32_t output = panel * PANEL_OUTPUTS;
    const size_t count = (size_t)MIN(panels * PANEL_OUTPUTS, packed->outputs - output);
    for (size_t r = 0; r < (size_t)rows; r++) {
        memcpy(y + r * y_stride + output, sums + r * width, count * sizeof(float));
    }
}

static void few_rows(const struct packed *packed, const struct activation *x, int32_t row,
    int32_t rows, int32_t panel_from, int32_t panel_to, float *y, size_t y_stride)
{
    _Alignas(64) float sums[FEW_ROWS * FEW_PANELS * PANEL_OUTPUTS];
    const size_t width = FEW_PANELS * PANEL_OUTPUTS;
    for (int32_t panel = panel_from; panel < panel_to;) {
        const struct few_job job = {
            .x = row_at(x, row),
            .x_stride = x->row_bytes / sizeof(float),
            .inputs = packed->inputs,
            .panel = panel_at(packed, panel),
            .panel_bytes = packed->panel_bytes,
            .y = sums,
            .y_stride = width,
        };
        const int32_t panels =
            few_avx2(packed->type, &job, rows, MIN(panel_to - panel, FEW_PANELS));
        put_sums(packed, sums, width, panels, rows, panel, y + (size_t)row * y_stride, y_stride);
        panel += panels;
    }
}

/* As few pieces as fit the tile, of about the same size: a short one costs as much to start. */
static int32_t piece_inputs(int32_t inputs)
{
    const int32_t pieces = (inputs + MANY_INPUTS - 1) / MANY_INPUTS;
    const int32_t each = (inputs + pieces - 1) / pieces;
    return (each + PIECE_STEP - 1) / PIECE_STEP * PIECE_STEP;
}

static void many_rows(const struct packed *packed, const struct activation *x, int32_t row,
    int32_t rows, int32_t panel_from, int32_t panel_to, float *y, size_t y_stride)
{
    _Alignas(64) float tile[MANY_INPUTS * PANEL_OUTPUTS];
    /* Only the matrix's last panel can be partial: its sums wait here. */
    _Alignas(64) float partial[MANY_ROWS * PANEL_OUTPUTS];
    float *y_row = y + (size_t)row * y_stride;
    const int32_t piece = piece_inputs(packed->inputs);
    const size_t input_bytes = packed->panel_bytes / (size_t)packed->inputs;
    for (int32_t from = 0; from < packed->inputs; from += piece) {
        const int32_t count = MIN(packed->inputs - from, piece);
        for (int32_t panel = panel_from; panel < panel_to; panel++) {
            const int32_t output = panel * PANEL_OUTPUTS;
            const bool whole = output + PANEL_OUTPUTS <= packed->outputs;
            unpack_avx2(packed->type, panel_at(packed, panel), from, count, tile);
            const bool last = panel + 1 == panel_to;
            const struct tile_job job = {
                .x = row_at(x, row) + from,
                .x_stride = x->row_bytes / sizeof(float),
                .w = tile,
                .w_stride = PANEL_OUTPUTS,
                .count = count,
                .y = whole ? y_row + output : partial,
                .y_stride = whole ? y_stride : PANEL_OUTPUTS,
                .resume = from > 0,
                .chain = CHAIN_INPUTS,
                .ahead = last ? NULL : panel_at(packed, panel + 1) + (size_t)from * input_bytes,
                .ahead_bytes = last ? 0 : (size_t)count * input_bytes,
            };
            tile_avx2(&job, rows, 1);
            if (!whole && from + count == packed->inputs) {
                put_sums(packed, partial, PANEL_OUTPUTS, 1, rows, panel, y_row, y_stride);
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
