/*
 * Rows times a packed matrix.
 *
 * Few rows (decoding): memory and the conversion of weights are the limit; see few.c.
 * Many rows: a piece of a panel is unpacked to float in a tile that stays in the L1 cache, and the
 * tile is multiplied with all rows at hand by the one inner kernel of tile.c, so unpacking
 * costs about as much as two rows; meanwhile the next panel's piece is fetched. Panels of F32 are
 * such tiles already. The rows are cut into blocks whose piece of the inputs stays in the L2 cache.
 * Sums wait in y between pieces, a float in both places.
 */
#include <string.h>
#include "engine/base/assert.h"
#include "engine/kernels/lanes/lanes.h"
#include "engine/kernels/lanes/isa.h"

#if defined(KERNELS_AVX512)
enum { MANY_PANELS = 2, MANY_INPUTS = 192 };
#else
enum { MANY_PANELS = 1, MANY_INPUTS = 320 };
#endif

/* MANY_PANELS panels are unpacked and multiplied side by side, MANY_INPUTS inputs of them at most:
 * 20 to 24 KiB. */
enum {
    FEW_PANELS = 4, /* the most that few.c takes at once */
    SLICED_ROWS = 8,
    MANY_ROWS = 120,           /* of a block; its piece of the inputs is 90 to 150 KiB */
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

/* The panel that is probably wanted after [.., panel_to): an existing one. */
static const unsigned char *panel_after(
    const struct packed *packed, const struct activation *x, int32_t panel_to)
{
    const int32_t next = x->panel_next > 0 ? x->panel_next : panel_to;
    return panel_at(packed, MIN(next, packed->panels - 1));
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

/* ---- sums of x ------------------------------------------------------------------------------ */

/* Eight lanes in every rung: it takes no time to speak of, and the order is theirs. */
void ISA(linear_sums)(const float *x, int32_t inputs, float *out)
{
    const int32_t blocks = inputs / SUM_INPUTS;
    for (int32_t block = 0; block < blocks; block += 8) {
        const int32_t left = MIN(blocks - block, 8);
        eight v[8];
        for (int32_t i = 0; i < 8; i++) {
            const float *at = x + (block + MIN(i, left - 1)) * SUM_INPUTS;
            v[i] = eight_add(eight_add(eight_load(at), eight_load(at + 8)),
                eight_add(eight_load(at + 16), eight_load(at + 24)));
        }
        float sums[8];
        eight_store(sums, eight_sums(v));
        memcpy(out + block, sums, (size_t)left * sizeof *sums);
    }
}

static size_t sums_of_row(const struct activation *x)
{
    return (size_t)(x->inputs / SUM_INPUTS);
}

/* ---- few rows ------------------------------------------------------------------------------- */

/* Up to FEW_ROWS rows of up to FEW_PANELS panels. */
static void few_panels(const struct packed *packed, const struct activation *x, int32_t row,
    int32_t rows, int32_t panel_from, int32_t panel_to, const unsigned char *next, float *y,
    size_t y_stride)
{
    enum { WIDTH = FEW_PANELS * PANEL_OUTPUTS };
    _Alignas(64) float sums[FEW_ROWS * WIDTH];
    const bool has_minima = ISA(unpack_has_minima)(packed->type);
    for (int32_t panel = panel_from; panel < panel_to;) {
        const struct few_job job = {
            .x = row_at(x, row),
            .x_stride = x->row_bytes / sizeof(float),
            .inputs = packed->inputs,
            .panel = panel_at(packed, panel),
            .panel_bytes = packed->panel_bytes,
            .next = next,
            .x_sums = has_minima ? x->sums + (size_t)row * sums_of_row(x) : NULL,
            .x_sums_stride = sums_of_row(x),
            .y = sums,
            .y_stride = WIDTH,
        };
        const int32_t panels = ISA(few)(packed->type, &job, rows, panel_to - panel);
        put_sums(packed, sums, WIDTH, panels, rows, panel, y + (size_t)row * y_stride, y_stride);
        panel += panels;
    }
}

/* Up to SLICED_ROWS rows, in slices of about the same size; panels stay in the L1 or L2 cache from
 * one slice to the next. */
static void few_rows(const struct packed *packed, const struct activation *x, int32_t row_from,
    int32_t rows, int32_t panel_from, int32_t panel_to, float *y, size_t y_stride)
{
    const int32_t slices = (rows + FEW_ROWS - 1) / FEW_ROWS;
    for (int32_t panel = panel_from; panel < panel_to; panel += FEW_PANELS) {
        const int32_t to = MIN(panel + FEW_PANELS, panel_to);
        const unsigned char *next =
            to < panel_to ? panel_at(packed, to) : panel_after(packed, x, panel_to);
        for (int32_t slice = 0; slice < slices; slice++) {
            const int32_t row = rows * slice / slices;
            const int32_t row_to = rows * (slice + 1) / slices;
            few_panels(packed, x, row_from + row, row_to - row, panel, to, next, y, y_stride);
        }
    }
}

/* ---- many rows ------------------------------------------------------------------------------ */

/* As few pieces as fit the tile, of about the same size: a short one costs as much to start. */
static int32_t piece_inputs(int32_t inputs)
{
    const int32_t pieces = (inputs + MANY_INPUTS - 1) / MANY_INPUTS;
    const int32_t each = (inputs + pieces - 1) / pieces;
    return (each + PIECE_STEP - 1) / PIECE_STEP * PIECE_STEP;
}

/* A panel of F32 from an input on: it lies as a tile does, so it is none the worse for one. */
static const float *floats_at(const struct packed *packed, int32_t panel, int32_t input)
{
    return (const float *)(const void *)panel_at(packed, panel) + (size_t)input * PANEL_OUTPUTS;
}

static void many_rows(const struct packed *packed, const struct activation *x, int32_t row,
    int32_t rows, int32_t panel_from, int32_t panel_to, float *y, size_t y_stride)
{
    enum { CHAINS_MAX = MANY_INPUTS / 16 };
    _Alignas(64) float tile[MANY_PANELS][MANY_INPUTS * PANEL_OUTPUTS];
    _Alignas(64) float a[MANY_PANELS][CHAINS_MAX * PANEL_OUTPUTS];
    _Alignas(64) float b[MANY_PANELS][CHAINS_MAX * PANEL_OUTPUTS];
    const bool is_block = tensor_type_block(packed->type) > 1;
    const bool in_place = packed->type == TENSOR_F32;
    const bool has_minima = ISA(unpack_has_minima)(packed->type);
    const float *x_sums = has_minima ? x->sums + (size_t)row * sums_of_row(x) : NULL;
    /* The matrix's last panel can be partial: the sums of it and its neighbour wait here. */
    _Alignas(64) float partial[MANY_ROWS * MANY_PANELS * PANEL_OUTPUTS];
    float *y_row = y + (size_t)row * y_stride;
    const int32_t piece = piece_inputs(packed->inputs);
    const size_t input_bytes = packed->panel_bytes / (size_t)packed->inputs;
    for (int32_t from = 0; from < packed->inputs; from += piece) {
        const int32_t count = MIN(packed->inputs - from, piece);
        for (int32_t panel = panel_from; panel < panel_to; panel += MANY_PANELS) {
            const int32_t panels = MIN(panel_to - panel, MANY_PANELS);
            const int32_t output = panel * PANEL_OUTPUTS;
            const bool whole = output + panels * PANEL_OUTPUTS <= packed->outputs;
            for (int32_t p = 0; !in_place && p < panels; p++) {
                const struct unpacked unpacked = {tile[p], a[p], b[p]};
                ISA(unpack)(packed->type, panel_at(packed, panel + p), from, count, &unpacked);
            }
            const bool last = panel + panels >= panel_to;
            const bool more = from + count < packed->inputs; /* the same panels from the first on */
            const unsigned char *ahead = !last  ? panel_at(packed, panel + panels)
                                         : more ? panel_at(packed, panel_from)
                                                : panel_after(packed, x, panel_to);
            const int32_t ahead_from = !last ? from : more ? from + count : 0;
            const struct tile_job job = {
                .x = row_at(x, row) + from,
                .x_stride = x->row_bytes / sizeof(float),
                .x_next = row_at(x, row) + ahead_from,
                .w = in_place ? floats_at(packed, panel, from) : tile[0],
                .w_stride = PANEL_OUTPUTS,
                .w_panel = in_place ? packed->panel_bytes / sizeof(float) : ARRAY_COUNT(tile[0]),
                .count = count,
                .y = whole ? y_row + output : partial,
                .y_stride = whole ? y_stride : MANY_PANELS * PANEL_OUTPUTS,
                .resume = from > 0,
                .chain = ISA(unpack_chain)(packed->type),
                .a = is_block ? a[0] : NULL,
                .b = has_minima ? b[0] : NULL,
                .a_panel = ARRAY_COUNT(a[0]),
                .x_sums = has_minima ? x_sums + from / SUM_INPUTS : NULL,
                .x_sums_stride = sums_of_row(x),
                .ahead = ahead + (size_t)ahead_from * input_bytes,
                .ahead_bytes = (size_t)count * input_bytes,
                .ahead_panel = packed->panel_bytes,
            };
            ISA(tile)(&job, rows, panels);
            if (!whole && from + count == packed->inputs) {
                put_sums(packed, partial, MANY_PANELS * PANEL_OUTPUTS, panels, rows, panel, y_row,
                    y_stride);
            }
        }
    }
}

void ISA(linear)(const struct packed *packed, const struct activation *x, int32_t row_from,
    int32_t row_to, int32_t panel_from, int32_t panel_to, float *y, size_t y_stride)
{
    ASSERT(x->format == ACTIVATION_F32 && x->inputs == packed->inputs);
    ASSERT(x->row_bytes % sizeof(float) == 0 && panel_to <= packed->panels);
    ASSERT(x->sums != NULL || !ISA(unpack_has_minima)(packed->type));
    for (int32_t row = row_from; row < row_to; row += MANY_ROWS) {
        const int32_t rows = MIN(row_to - row, MANY_ROWS);
        if (rows <= SLICED_ROWS) {
            few_rows(packed, x, row, rows, panel_from, panel_to, y, y_stride);
        } else {
            many_rows(packed, x, row, rows, panel_from, panel_to, y, y_stride);
        }
    }
}
