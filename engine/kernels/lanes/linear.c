/*
 * Rows times a packed matrix.
 *
 * Few rows (decoding): memory and the conversion of weights are the limit; see few.c.
 * Many rows: a piece of a panel is unpacked to float in a tile that stays in the L1 cache, and the
 * tile is multiplied with all rows at hand by the one inner kernel of tile.c, so unpacking
 * costs about as much as two rows; meanwhile the next panel's piece is fetched. The rows are cut
 * into blocks whose piece of the inputs stays in the L2 cache. Sums wait in y between pieces, a
 * float in both places.
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
    FEW_PANELS = 4,            /* the most that few.c takes at once */
    MANY_ROWS = 120,           /* of a block; its piece of the inputs is 90 to 150 KiB */
    PIECE_STEP = CHAIN_INPUTS, /* pieces are whole chains */
    SUM_INPUTS = 32,           /* of one sum of x */
    FEW_INPUTS = 1 << 15,      /* of few rows at a time; their sums of x are 16 KiB */
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

/* ---- sums of x ------------------------------------------------------------------------------ */

/* out[i] = sum of x[32 i] to x[32 i + 31]; count is a multiple of 32. Eight lanes in every rung: it
 * takes no time to speak of, and the order is theirs. */
static void sum_blocks(const float *x, int32_t count, float *out)
{
    const int32_t blocks = count / SUM_INPUTS;
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

/* Sums of inputs [from, from + count) of some rows: out[rows][stride]. */
static void sum_rows(const struct activation *x, int32_t row, int32_t rows, int32_t from,
    int32_t count, float *out, size_t stride)
{
    for (int32_t r = 0; r < rows; r++) {
        sum_blocks(row_at(x, row + r) + from, count, out + (size_t)r * stride);
    }
}

/* ---- few rows ------------------------------------------------------------------------------- */

static void few_rows(const struct packed *packed, const struct activation *x, int32_t row,
    int32_t rows, int32_t panel_from, int32_t panel_to, float *y, size_t y_stride)
{
    enum { SUMS_MAX = FEW_INPUTS / SUM_INPUTS, WIDTH = FEW_PANELS * PANEL_OUTPUTS };
    _Alignas(64) float sums[FEW_ROWS * WIDTH];
    float x_sums[FEW_ROWS * SUMS_MAX];
    const bool has_minima = ISA(unpack_has_minima)(packed->type);
    const size_t block = (size_t)tensor_type_block(packed->type);
    const size_t block_bytes = tensor_type_block_bytes(packed->type) * PANEL_OUTPUTS;
    int32_t summed = -1; /* the input from which on x_sums are */
    for (int32_t panel = panel_from; panel < panel_to;) {
        int32_t panels = 0;
        for (int32_t from = 0; from < packed->inputs; from += FEW_INPUTS) {
            const int32_t count = MIN(packed->inputs - from, FEW_INPUTS);
            if (has_minima && summed != from) {
                sum_rows(x, row, rows, from, count, x_sums, SUMS_MAX);
                summed = from;
            }
            const struct few_job job = {
                .x = row_at(x, row) + from,
                .x_stride = x->row_bytes / sizeof(float),
                .inputs = count,
                .panel = panel_at(packed, panel) + (size_t)from / block * block_bytes,
                .panel_bytes = packed->panel_bytes,
                .x_sums = x_sums,
                .x_sums_stride = SUMS_MAX,
                .y = sums,
                .y_stride = WIDTH,
                .resume = from > 0,
            };
            panels = ISA(few)(packed->type, &job, rows, MIN(panel_to - panel, FEW_PANELS));
        }
        put_sums(packed, sums, WIDTH, panels, rows, panel, y + (size_t)row * y_stride, y_stride);
        panel += panels;
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

static void many_rows(const struct packed *packed, const struct activation *x, int32_t row,
    int32_t rows, int32_t panel_from, int32_t panel_to, float *y, size_t y_stride)
{
    enum { SUMS_MAX = MANY_INPUTS / SUM_INPUTS, CHAINS_MAX = MANY_INPUTS / 16 };
    _Alignas(64) float tile[MANY_PANELS][MANY_INPUTS * PANEL_OUTPUTS];
    _Alignas(64) float a[MANY_PANELS][CHAINS_MAX * PANEL_OUTPUTS];
    _Alignas(64) float b[MANY_PANELS][CHAINS_MAX * PANEL_OUTPUTS];
    const bool is_block = tensor_type_block(packed->type) > 1;
    const bool has_minima = ISA(unpack_has_minima)(packed->type);
    float x_sums[MANY_ROWS * SUMS_MAX];
    /* The matrix's last panel can be partial: the sums of it and its neighbour wait here. */
    _Alignas(64) float partial[MANY_ROWS * MANY_PANELS * PANEL_OUTPUTS];
    float *y_row = y + (size_t)row * y_stride;
    const int32_t piece = piece_inputs(packed->inputs);
    const size_t input_bytes = packed->panel_bytes / (size_t)packed->inputs;
    for (int32_t from = 0; from < packed->inputs; from += piece) {
        const int32_t count = MIN(packed->inputs - from, piece);
        if (has_minima) {
            sum_rows(x, row, rows, from, count, x_sums, SUMS_MAX);
        }
        for (int32_t panel = panel_from; panel < panel_to; panel += MANY_PANELS) {
            const int32_t panels = MIN(panel_to - panel, MANY_PANELS);
            const int32_t output = panel * PANEL_OUTPUTS;
            const bool whole = output + panels * PANEL_OUTPUTS <= packed->outputs;
            for (int32_t p = 0; p < panels; p++) {
                const struct unpacked unpacked = {tile[p], a[p], b[p]};
                ISA(unpack)(packed->type, panel_at(packed, panel + p), from, count, &unpacked);
            }
            const bool last = panel + panels >= panel_to;
            const struct tile_job job = {
                .x = row_at(x, row) + from,
                .x_stride = x->row_bytes / sizeof(float),
                .w = tile[0],
                .w_stride = PANEL_OUTPUTS,
                .w_panel = ARRAY_COUNT(tile[0]),
                .count = count,
                .y = whole ? y_row + output : partial,
                .y_stride = whole ? y_stride : MANY_PANELS * PANEL_OUTPUTS,
                .resume = from > 0,
                .chain = ISA(unpack_chain)(packed->type),
                .a = is_block ? a[0] : NULL,
                .b = has_minima ? b[0] : NULL,
                .a_panel = ARRAY_COUNT(a[0]),
                .x_sums = x_sums,
                .x_sums_stride = SUMS_MAX,
                .ahead =
                    last ? NULL : panel_at(packed, panel + panels) + (size_t)from * input_bytes,
                .ahead_bytes = last ? 0 : (size_t)count * input_bytes,
                .ahead_panel = last ? 0 : packed->panel_bytes,
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
    for (int32_t row = row_from; row < row_to; row += MANY_ROWS) {
        const int32_t rows = MIN(row_to - row, MANY_ROWS);
        if (rows <= FEW_ROWS) {
            few_rows(packed, x, row, rows, panel_from, panel_to, y, y_stride);
        } else {
            many_rows(packed, x, row, rows, panel_from, panel_to, y, y_stride);
        }
    }
}
