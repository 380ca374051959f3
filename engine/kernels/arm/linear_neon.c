/*
 * Rows times a packed matrix.
 *
 * Few rows (decoding): the conversion of weights is the limit; see few_neon.c.
 * Many rows: a piece of a panel is unpacked to float in a tile that stays in the L1 cache, and the
 * tile is multiplied with all rows at hand by the one inner kernel of tile_neon.c. The rows are cut
 * into blocks whose piece of the inputs stays in the L2 cache. Sums wait in y between pieces, a
 * float in both places.
 */
#include <arm_neon.h>
#include <string.h>
#include "engine/base/assert.h"
#include "engine/base/attr.h"
#include "engine/kernels/arm/neon.h"

enum {
    MANY_ROWS = 120,           /* of a block; its piece of the inputs is 150 KiB */
    MANY_INPUTS = 320,         /* of a piece at most; the tile is 20 KiB */
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
    const unsigned char *bytes = x->data;
    return (const float *)(const void *)(bytes + (size_t)row * x->row_bytes);
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

/* The sum of x[0] to x[31]: numbers eight apart are added first, (0 + 8) + (16 + 24); then the
 * eight sums, ((0+1)+(2+3)) + ((4+5)+(6+7)). */
static float sum_block(const float *x)
{
    float32x4_t parts[2];
    for (int i = 0; i < 2; i++, x += 4) {
        parts[i] = vaddq_f32(vaddq_f32(vld1q_f32(x), vld1q_f32(x + 8)),
            vaddq_f32(vld1q_f32(x + 16), vld1q_f32(x + 24)));
    }
    const float32x4_t pairs = vpaddq_f32(parts[0], parts[1]);
    return vpadds_f32(vpadd_f32(vget_low_f32(pairs), vget_high_f32(pairs)));
}

/* Sums of inputs [from, from + count) of some rows: out[rows][stride]. */
static void sum_rows(const struct activation *x, int32_t row, int32_t rows, int32_t from,
    int32_t count, float *out, size_t stride)
{
    for (int32_t r = 0; r < rows; r++) {
        const float *at = row_at(x, row + r) + from;
        for (int32_t i = 0; i < count / SUM_INPUTS; i++) {
            out[(size_t)r * stride + (size_t)i] = sum_block(at + i * SUM_INPUTS);
        }
    }
}

/* ---- few rows ------------------------------------------------------------------------------- */

static void few_rows(const struct packed *packed, const struct activation *x, int32_t row,
    int32_t rows, int32_t panel_from, int32_t panel_to, float *y, size_t y_stride)
{
    enum { SUMS_MAX = FEW_INPUTS / SUM_INPUTS, WIDTH = FEW_PANELS * PANEL_OUTPUTS };
    _Alignas(64) float sums[FEW_ROWS * WIDTH];
    float x_sums[FEW_ROWS * SUMS_MAX];
    const bool has_minima = unpack_neon_has_minima(packed->type);
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
            panels = few_neon(packed->type, &job, rows, panel_to - panel);
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
    _Alignas(64) float tile[MANY_INPUTS * PANEL_OUTPUTS];
    _Alignas(64) float a[CHAINS_MAX * PANEL_OUTPUTS];
    _Alignas(64) float b[CHAINS_MAX * PANEL_OUTPUTS];
    const struct unpacked unpacked = {tile, a, b};
    const bool is_block = tensor_type_block(packed->type) > 1;
    const bool has_minima = unpack_neon_has_minima(packed->type);
    float x_sums[MANY_ROWS * SUMS_MAX];
    /* Only the matrix's last panel can be partial: its sums wait here. */
    _Alignas(64) float partial[MANY_ROWS * PANEL_OUTPUTS];
    float *y_row = y + (size_t)row * y_stride;
    const int32_t piece = piece_inputs(packed->inputs);
    for (int32_t from = 0; from < packed->inputs; from += piece) {
        const int32_t count = MIN(packed->inputs - from, piece);
        if (has_minima) {
            sum_rows(x, row, rows, from, count, x_sums, SUMS_MAX);
        }
        for (int32_t panel = panel_from; panel < panel_to; panel++) {
            const int32_t output = panel * PANEL_OUTPUTS;
            const bool whole = output + PANEL_OUTPUTS <= packed->outputs;
            unpack_neon(packed->type, panel_at(packed, panel), from, count, &unpacked);
            const struct tile_job job = {
                .x = row_at(x, row) + from,
                .x_stride = x->row_bytes / sizeof(float),
                .w = tile,
                .w_stride = PANEL_OUTPUTS,
                .count = count,
                .y = whole ? y_row + output : partial,
                .y_stride = whole ? y_stride : PANEL_OUTPUTS,
                .resume = from > 0,
                .chain = unpack_neon_chain(packed->type),
                .a = is_block ? a : NULL,
                .b = has_minima ? b : NULL,
                .x_sums = x_sums,
                .x_sums_stride = SUMS_MAX,
            };
            tile_neon(&job, rows);
            if (!whole && from + count == packed->inputs) {
                put_sums(packed, partial, PANEL_OUTPUTS, 1, rows, panel, y_row, y_stride);
            }
        }
    }
}

void linear_neon(const struct packed *packed, const struct activation *x, int32_t row_from,
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
