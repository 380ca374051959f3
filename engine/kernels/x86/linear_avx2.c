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
#include <immintrin.h>
#include <string.h>
#include "engine/base/assert.h"
#include "engine/kernels/x86/avx2.h"
#include "engine/kernels/x86/lanes_avx2.h"

enum {
    FEW_PANELS = 4,            /* the most that few_avx2 takes at once */
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

/* Sum of the lanes of each of eight vectors: ((0+1)+(2+3)) + ((4+5)+(6+7)). */
static __m256 sums_of_lanes(const __m256 v[8])
{
    const __m256 low = _mm256_hadd_ps(_mm256_hadd_ps(v[0], v[1]), _mm256_hadd_ps(v[2], v[3]));
    const __m256 high = _mm256_hadd_ps(_mm256_hadd_ps(v[4], v[5]), _mm256_hadd_ps(v[6], v[7]));
    return _mm256_add_ps(
        _mm256_permute2f128_ps(low, high, 0x20), _mm256_permute2f128_ps(low, high, 0x31));
}

/* out[i] = sum of x[32 i] to x[32 i + 31]; count is a multiple of 32. */
static void sum_blocks(const float *x, int32_t count, float *out)
{
    for (int32_t from = 0; from < count; from += LANES * SUM_INPUTS) {
        const int32_t left = MIN((count - from) / SUM_INPUTS, LANES);
        __m256 v[LANES];
        for (int32_t i = 0; i < LANES; i++) {
            const float *at = x + from + i * SUM_INPUTS;
            v[i] = i < left
                       ? _mm256_add_ps(_mm256_add_ps(_mm256_loadu_ps(at), _mm256_loadu_ps(at + 8)),
                             _mm256_add_ps(_mm256_loadu_ps(at + 16), _mm256_loadu_ps(at + 24)))
                       : _mm256_setzero_ps();
        }
        lanes_store(out + from / SUM_INPUTS, left, sums_of_lanes(v));
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
    const bool has_minima = unpack_avx2_has_minima(packed->type);
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
            panels = few_avx2(packed->type, &job, rows, MIN(panel_to - panel, FEW_PANELS));
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
    const bool has_minima = unpack_avx2_has_minima(packed->type);
    float x_sums[MANY_ROWS * SUMS_MAX];
    /* Only the matrix's last panel can be partial: its sums wait here. */
    _Alignas(64) float partial[MANY_ROWS * PANEL_OUTPUTS];
    float *y_row = y + (size_t)row * y_stride;
    const int32_t piece = piece_inputs(packed->inputs);
    const size_t input_bytes = packed->panel_bytes / (size_t)packed->inputs;
    for (int32_t from = 0; from < packed->inputs; from += piece) {
        const int32_t count = MIN(packed->inputs - from, piece);
        if (has_minima) {
            sum_rows(x, row, rows, from, count, x_sums, SUMS_MAX);
        }
        for (int32_t panel = panel_from; panel < panel_to; panel++) {
            const int32_t output = panel * PANEL_OUTPUTS;
            const bool whole = output + PANEL_OUTPUTS <= packed->outputs;
            unpack_avx2(packed->type, panel_at(packed, panel), from, count, &unpacked);
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
                .chain = unpack_avx2_chain(packed->type),
                .a = is_block ? a : NULL,
                .b = has_minima ? b : NULL,
                .x_sums = x_sums,
                .x_sums_stride = SUMS_MAX,
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
