/*
 * Products of 8-bit activations and block formats. Compiled once for each rung that has them, over
 * its own vectors (int8_vectors.h); INT8_NAME puts the rung's name behind the function's.
 *
 * A weight is a q + b (tensor_integers.h), a number of the input q' scale. Over a group of 32
 * inputs (Q6_K: of 16)
 *
 *     y = fma(b, block.sum, y)                 formats with minima only
 *     y = fma(a * scale, sum(q q'), y)
 *
 * groups in ascending order. The sum of integers is exact whatever its order, so these few float
 * operations are all that rungs must agree on, and their bits are equal.
 *
 * The instructions multiply unsigned by signed bytes. Signed q are read with the middle of their
 * range added, and sums begin at minus the middle times the sum of q', which is exact and free. The
 * exception is Q8_0 without vpdpbusd: two products of 255 x 127 pass 16 bits, so |q| is multiplied
 * with q' that has taken q's sign. Smaller q leave room: quad_pairs says how many quads of four
 * products can be added in 16 bits.
 *
 * One to FEW_ROWS rows (decoding) read panels directly, several panels side by side, each a stream
 * of memory. More rows: a piece of a panel is unpacked to bytes in a tile in the L1 cache and used
 * by all rows at hand, TILE_ROWS at a time. Both run the same code with another source of quads.
 */
#include "engine/kernels/x86/int8.h"

#include <string.h>
#include "engine/base/assert.h"
#include "engine/kernels/int8_row.h"
#include "engine/kernels/x86/int8_quads.h"

enum {
    FEW_ROWS = 4,
    FEW_PANELS = 4,
    /* Many rows: a tile's, as they fit the registers. Two panels halve what each load of an input
     * costs, and what a sum begins with. */
    MANY_PANELS = LANES == 16 ? 2 : 1,
    TILE_ROWS = LANES == 16 ? 6 : 4,
    MANY_ROWS = 128, /* of a block of rows */
    ROWS_MAX = TILE_ROWS > FEW_ROWS ? TILE_ROWS : FEW_ROWS,
    VECTORS_MAX = FEW_PANELS * PANEL_VECTORS,
    AHEAD_BYTES = 2048, /* prefetched before use */
    TILE_INPUTS = 1024, /* of a piece; its tile is 16 KiB */
    TILE_GROUPS = TILE_INPUTS / 16,
};

/* ---- the sum of one group ------------------------------------------------------------------- */

/* A piece of a panel, unpacked. */
struct int8_tile {
    _Alignas(64) unsigned char quads[TILE_INPUTS * PANEL_OUTPUTS]; /* [inputs / 4][16] words */
    _Alignas(64) float a[TILE_GROUPS * PANEL_OUTPUTS];             /* [group][16] */
    _Alignas(64) float b[TILE_GROUPS * PANEL_OUTPUTS];
};

/* Where a piece of work reads and writes. */
struct int8_job {
    const int8_t *q; /* the first row, at its first input */
    size_t row_bytes;
    const struct int8_block *blocks; /* of the first row and input; rows are row_bytes apart */
    int32_t inputs;                  /* a multiple of SUB_BLOCK, of whole blocks of the format */
    const unsigned char *panel;      /* few rows: the first of several, panel_bytes apart */
    size_t panel_bytes;
    const struct int8_tile *tiles; /* many rows: of each panel */
    const unsigned char *ahead;    /* many rows: fetched meanwhile, ahead_bytes of it a sub-block */
    size_t ahead_bytes;
    float *y; /* of the first row and output; whole panels are written */
    size_t y_stride;
    bool resume; /* add to what y holds instead of zero */
};

/* What sums of group `part` of a block begin with; part < 0: the whole block. */
ALWAYS_INLINE ints begin_sum(enum tensor_type type, const struct int8_block *block, int part)
{
    if (quad_middle(type) == 0) {
        return ints_all(0);
    }
    const uint32_t factor = (uint32_t)-quad_middle(type) & 0xffffu;
    const uint32_t first = part == 1 ? 0 : factor;
    const uint32_t second = part == 0 ? 0 : factor << 16;
    return quad_madd(quad_inputs(block->halves), ints_all((int)(first | second)));
}

/* Of vector v of a row of panels: four inputs of each output. */
ALWAYS_INLINE ints tile_quad(const struct int8_job *job, size_t quad, int v)
{
    return ints_load(job->tiles[v / PANEL_VECTORS].quads + quad * WORD_BYTES +
                     v % PANEL_VECTORS * (WORD_BYTES / PANEL_VECTORS));
}

ALWAYS_INLINE struct affine tile_scales(const struct int8_job *job, size_t group, int v)
{
    const struct int8_tile *tile = &job->tiles[v / PANEL_VECTORS];
    const size_t place = group * PANEL_OUTPUTS + (size_t)(v % PANEL_VECTORS * LANES);
    return (struct affine){floats_load(tile->a + place), floats_load(tile->b + place)};
}

/* Quads [from, from + count) in quad_order of a sub-block, of all vectors and rows. */
ALWAYS_INLINE void add_quads(enum tensor_type type, bool tiled, const struct int8_job *job,
    const struct sub_block at[VECTORS_MAX], size_t sub, const int8_t *const q[ROWS_MAX], int from,
    int count, const int rows, const int vectors, ints sums[ROWS_MAX][VECTORS_MAX])
{
#if INT8_DOTS == 0
    ints pairs[ROWS_MAX][VECTORS_MAX];
#endif
    UNROLL
    for (int i = from; i < from + count; i++) {
        const int quad = quad_order(type, i);
        UNROLL
        for (int v = 0; v < vectors; v++) {
            const ints w = tiled ? tile_quad(job, sub * SUB_QUADS + (size_t)quad, v)
                                 : quad_of(type, &at[v], quad);
            UNROLL
            for (int r = 0; r < rows; r++) {
                const ints x = quad_inputs(q[r] + quad * QUAD);
#if INT8_DOTS
                sums[r][v] = quad_dot(sums[r][v], w, x);
#else
                if (type == TENSOR_Q8_0) {
                    sums[r][v] = quad_widen(sums[r][v], quad_dot_signed(w, x));
                    continue;
                }
                const ints so_far = i % quad_pairs(type) == 0 ? ints_all(0) : pairs[r][v];
                pairs[r][v] = quad_dot_pairs(so_far, w, x);
                if ((i + 1) % quad_pairs(type) == 0) {
                    sums[r][v] = quad_widen(sums[r][v], pairs[r][v]);
                }
#endif
            }
        }
    }
}

/* One sub-block: its one or two groups, and their float operations on y. */
ALWAYS_INLINE void add_sub_block(enum tensor_type type, bool tiled, const struct int8_job *job,
    int32_t sub, const int8_t *const q[ROWS_MAX], const struct int8_block *const blocks[ROWS_MAX],
    const int rows, const int vectors, floats y[ROWS_MAX][VECTORS_MAX])
{
    const int groups = SUB_BLOCK / panel_chain(type);
    struct sub_block at[VECTORS_MAX];
    UNROLL
    for (int v = 0; !tiled && v < vectors; v++) {
        at[v] = panel_sub_block(
            type, job->panel + (size_t)(v / PANEL_VECTORS) * job->panel_bytes, sub, 0);
        at[v].f16 += v % PANEL_VECTORS * (F16_BYTES / PANEL_VECTORS);
        at[v].words += v % PANEL_VECTORS * (WORD_BYTES / PANEL_VECTORS);
    }
    UNROLL
    for (int group = 0; group < groups; group++) {
        ints sums[ROWS_MAX][VECTORS_MAX];
        UNROLL
        for (int r = 0; r < rows; r++) {
            const ints begin = begin_sum(type, blocks[r], groups == 1 ? -1 : group);
            UNROLL
            for (int v = 0; v < vectors; v++) {
                sums[r][v] = begin;
            }
        }
        add_quads(type, tiled, job, at, (size_t)sub, q, group * (SUB_QUADS / groups),
            SUB_QUADS / groups, rows, vectors, sums);
        UNROLL
        for (int v = 0; v < vectors; v++) {
            const struct affine w =
                tiled ? tile_scales(job, (size_t)sub * (size_t)groups + (size_t)group, v)
                      : panel_scales(type, &at[v], group);
            UNROLL
            for (int r = 0; r < rows; r++) {
                if (panel_has_minima(type)) {
                    y[r][v] = floats_fma(w.b, floats_all(blocks[r]->sum), y[r][v]);
                }
                y[r][v] = floats_fma(
                    w.a * floats_all(blocks[r]->scale), floats_of_ints(sums[r][v]), y[r][v]);
            }
        }
    }
}

/* Each panel's lines of sub-block `sub`, AHEAD_BYTES later. Past a panel's end comes the panel that
 * follows the last of this step. */
ALWAYS_INLINE void prefetch_panels(
    enum tensor_type type, const struct int8_job *job, int32_t sub, int panels)
{
    const size_t bytes = panel_block_bytes(type) / (panel_is_k(type) ? SUPER_SUBS : 1);
    const size_t ahead = (size_t)sub * bytes + AHEAD_BYTES;
    const size_t skip = ahead < job->panel_bytes ? 0 : job->panel_bytes * (size_t)(panels - 1);
    UNROLL
    for (int p = 0; p < panels; p++) {
        const unsigned char *at = job->panel + (size_t)p * job->panel_bytes + ahead + skip;
        for (size_t line = 0; line < bytes; line += 64) {
            _mm_prefetch((const char *)at + line, _MM_HINT_T0);
        }
    }
}

ALWAYS_INLINE void run(enum tensor_type type, bool tiled, const struct int8_job *whole_job,
    const int rows, const int panels)
{
    const struct int8_job job = *whole_job; /* a copy, which writing y cannot change */
    const int vectors = panels * PANEL_VECTORS;
    const char *ahead = (const char *)job.ahead;
    const int8_t *q[ROWS_MAX];
    const struct int8_block *blocks[ROWS_MAX];
    floats y[ROWS_MAX][VECTORS_MAX];
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int v = 0; v < vectors; v++) {
            y[r][v] = job.resume ? floats_load(job.y + (size_t)r * job.y_stride + v * LANES)
                                 : floats_all(0);
        }
    }
    for (int32_t sub = 0; sub < job.inputs / SUB_BLOCK; sub++) {
        UNROLL
        for (int r = 0; r < rows; r++) {
            q[r] = job.q + (size_t)r * job.row_bytes + (size_t)sub * SUB_BLOCK;
            blocks[r] = (const struct int8_block *)(const void *)((const char *)job.blocks +
                                                                  (size_t)r * job.row_bytes) +
                        sub;
        }
        if (tiled) {
            UNROLL
            for (int p = 0; p < panels; p++) {
                for (size_t line = 0; line < job.ahead_bytes; line += 64) {
                    _mm_prefetch(ahead + (size_t)p * job.panel_bytes + line, _MM_HINT_T1);
                }
            }
            ahead += job.ahead_bytes;
        } else {
            prefetch_panels(type, &job, sub, panels);
        }
        add_sub_block(type, tiled, &job, sub, q, blocks, rows, vectors, y);
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int v = 0; v < vectors; v++) {
            floats_store(job.y + (size_t)r * job.y_stride + v * LANES, y[r][v]);
        }
    }
}

typedef void int8_fn(const struct int8_job *job);

/* Block formats. */
#define INT8_TYPES(X, ...)                                                                         \
    X(Q8_0, __VA_ARGS__)                                                                           \
    X(Q4_0, __VA_ARGS__)                                                                           \
    X(Q4_1, __VA_ARGS__)                                                                           \
    X(Q5_0, __VA_ARGS__)                                                                           \
    X(Q5_1, __VA_ARGS__)                                                                           \
    X(Q4_K, __VA_ARGS__)                                                                           \
    X(Q5_K, __VA_ARGS__)                                                                           \
    X(Q6_K, __VA_ARGS__)

/* ---- few rows ------------------------------------------------------------------------------- */

/* rows, panels side by side */
#define FEW_MAP(X, type)                                                                           \
    X(type, 1, 1) X(type, 1, 4) X(type, 2, 1) X(type, 2, 2) X(type, 3, 1) X(type, 4, 1)

#define FEW(type, rows, panels)                                                                    \
    static void few_##type##_##rows##_##panels(const struct int8_job *job)                         \
    {                                                                                              \
        run(TENSOR_##type, false, job, rows, panels);                                              \
    }
#define X(type, ...) FEW_MAP(FEW, type)
INT8_TYPES(X, )
#undef X

/* Runs as many panels as the widest function takes and says how many. */
static int32_t run_few(
    enum tensor_type type, const struct int8_job *job, int32_t rows, int32_t panels)
{
#define ENTRY(type, rows, panels) [rows][panels] = few_##type##_##rows##_##panels,
#define X(type, ...) [TENSOR_##type] = {FEW_MAP(ENTRY, type)},
    static int8_fn *const table[TENSOR_TYPE_COUNT][FEW_ROWS + 1][FEW_PANELS + 1] = {
        INT8_TYPES(X, )};
#undef X
#undef ENTRY
    const int32_t taken = rows == 1 && panels >= 4 ? 4 : rows == 2 && panels >= 2 ? 2 : 1;
    table[type][rows][taken](job);
    return taken;
}

static void few_rows(const struct packed *packed, const struct activation *x, int32_t row,
    int32_t rows, int32_t panel_from, int32_t panel_to, float *y, size_t y_stride)
{
    enum { WIDTH = FEW_PANELS * PANEL_OUTPUTS };
    _Alignas(64) float sums[FEW_ROWS * WIDTH];
    const int8_t *q = int8_row_at(x, row);
    for (int32_t panel = panel_from; panel < panel_to;) {
        const struct int8_job job = {
            .q = q,
            .row_bytes = x->row_bytes,
            .blocks = int8_row_blocks(q, x->inputs),
            .inputs = x->inputs,
            .panel = packed->data + (size_t)panel * packed->panel_bytes,
            .panel_bytes = packed->panel_bytes,
            .y = sums,
            .y_stride = WIDTH,
        };
        const int32_t panels = run_few(packed->type, &job, rows, panel_to - panel);
        const int32_t output = panel * PANEL_OUTPUTS;
        const size_t count = (size_t)MIN(panels * PANEL_OUTPUTS, packed->outputs - output);
        for (size_t r = 0; r < (size_t)rows; r++) {
            memcpy(
                y + ((size_t)row + r) * y_stride + output, sums + r * WIDTH, count * sizeof(float));
        }
        panel += panels;
    }
}

/* ---- many rows ------------------------------------------------------------------------------ */

/* Inputs [from, from + count) of a panel. */
ALWAYS_INLINE void unpack(enum tensor_type type, const unsigned char *panel, int32_t from,
    int32_t count, struct int8_tile *tile)
{
    const int groups = SUB_BLOCK / panel_chain(type);
    for (int32_t sub = 0; sub < count / SUB_BLOCK; sub++) {
        UNROLL
        for (int v = 0; v < PANEL_VECTORS; v++) {
            struct sub_block at = panel_sub_block(type, panel, from / SUB_BLOCK + sub, 0);
            at.f16 += v * (F16_BYTES / PANEL_VECTORS);
            at.words += v * (WORD_BYTES / PANEL_VECTORS);
            unsigned char *out =
                tile->quads + sub * SUB_QUADS * WORD_BYTES + v * (WORD_BYTES / PANEL_VECTORS);
            UNROLL
            for (int i = 0; i < SUB_QUADS; i++) {
                const int quad = quad_order(type, i);
                const ints w = quad_of(type, &at, quad);
                memcpy(out + quad * WORD_BYTES, &w, sizeof w);
            }
            UNROLL
            for (int group = 0; group < groups; group++) {
                const struct affine scales = panel_scales(type, &at, group);
                const int32_t place = (sub * groups + group) * PANEL_OUTPUTS + v * LANES;
                floats_store(tile->a + place, scales.a);
                floats_store(tile->b + place, scales.b);
            }
        }
    }
}

#define X(type, ...)                                                                               \
    static void unpack_##type(                                                                     \
        const unsigned char *panel, int32_t from, int32_t count, struct int8_tile *tile)           \
    {                                                                                              \
        unpack(TENSOR_##type, panel, from, count, tile);                                           \
    }
INT8_TYPES(X, )
#undef X

/* rows, panels */
#if defined(KERNELS_AVX512)
#define SIX_ROWS(X, type, panels)                                                                  \
    X(type, 1, panels)                                                                             \
    X(type, 2, panels) X(type, 3, panels) X(type, 4, panels) X(type, 5, panels) X(type, 6, panels)
#define TILE_MAP(X, type) SIX_ROWS(X, type, 1) SIX_ROWS(X, type, 2)
#else
#define TILE_MAP(X, type) X(type, 1, 1) X(type, 2, 1) X(type, 3, 1) X(type, 4, 1)
#endif

/* In a tile formats differ by the bits of q, minima and the length of groups only. */
#define TILE_TYPES(X) X(Q8_0) X(Q4_0) X(Q4_1) X(Q5_0) X(Q5_1) X(Q6_K)

#define TILE(type, rows, panels)                                                                   \
    static void tile_##type##_##rows##_##panels(const struct int8_job *job)                        \
    {                                                                                              \
        run(TENSOR_##type, true, job, rows, panels);                                               \
    }
#define X(type) TILE_MAP(TILE, type)
TILE_TYPES(X)
#undef X

static void run_tile(
    enum tensor_type type, const struct int8_job *job, int32_t rows, int32_t panels)
{
#define ENTRY(type, rows, panels) [rows][panels] = tile_##type##_##rows##_##panels,
#define X(type) [TENSOR_##type] = {TILE_MAP(ENTRY, type)},
    static int8_fn *const table[TENSOR_TYPE_COUNT][TILE_ROWS + 1][MANY_PANELS + 1] = {
        TILE_TYPES(X)};
#undef X
#undef ENTRY
    const enum tensor_type alike = type == TENSOR_Q4_K   ? TENSOR_Q4_1
                                   : type == TENSOR_Q5_K ? TENSOR_Q5_1
                                                         : type;
    table[alike][rows][panels](job);
}

/* Of as few tiles as there can be, about the same size: few rows at once starve. */
static int32_t rows_at_once(int32_t rows)
{
    const int32_t tiles = (rows + TILE_ROWS - 1) / TILE_ROWS;
    return (rows + tiles - 1) / tiles;
}

/* All rows times the unpacked piece; `job` as for the first rows. */
static void multiply_tile(enum tensor_type type, const struct int8_job *job, int32_t rows,
    int32_t panels, size_t ahead_bytes)
{
    const size_t subs = (size_t)(job->inputs / SUB_BLOCK);
    /* One copy for all tiles: a wide load of fields that were just stored one by one has to wait
     * until they have left the core. */
    struct int8_job part = *job;
    for (int32_t row = 0; row < rows;) {
        const int32_t count = rows_at_once(rows - row);
        const size_t bytes = (size_t)count * job->row_bytes;
        part.ahead_bytes = ahead_bytes * (size_t)count / (size_t)rows / subs;
        run_tile(type, &part, count, panels);
        part.q += bytes;
        part.blocks = (const struct int8_block *)(const void *)((const char *)part.blocks + bytes);
        part.y += (size_t)count * job->y_stride;
        part.ahead += part.ahead_bytes * subs;
        row += count;
    }
}

static void many_rows(const struct packed *packed, const struct activation *x, int32_t row,
    int32_t rows, int32_t panel_from, int32_t panel_to, float *y, size_t y_stride)
{
    typedef void unpack_fn(
        const unsigned char *panel, int32_t from, int32_t count, struct int8_tile *tile);
#define X(type, ...) [TENSOR_##type] = unpack_##type,
    static unpack_fn *const unpacks[TENSOR_TYPE_COUNT] = {INT8_TYPES(X, )};
#undef X
    enum { WIDTH = MANY_PANELS * PANEL_OUTPUTS };
    struct int8_tile tiles[MANY_PANELS];
    /* The matrix's last panel can be partial: the sums of it and its neighbour wait here. */
    _Alignas(64) float partial[MANY_ROWS * WIDTH];
    const int8_t *q = int8_row_at(x, row);
    const size_t input_bytes = packed->panel_bytes / (size_t)packed->inputs;
    for (int32_t from = 0; from < packed->inputs; from += TILE_INPUTS) {
        const int32_t count = MIN(packed->inputs - from, TILE_INPUTS);
        for (int32_t panel = panel_from; panel < panel_to; panel += MANY_PANELS) {
            const int32_t panels = MIN(panel_to - panel, MANY_PANELS);
            const int32_t output = panel * PANEL_OUTPUTS;
            const bool whole = output + panels * PANEL_OUTPUTS <= packed->outputs;
            const unsigned char *data = packed->data + (size_t)panel * packed->panel_bytes;
            /* What is fetched meanwhile is as many panels again, if there are. */
            const bool last = panel + 2 * panels > panel_to;
            for (int32_t p = 0; p < panels; p++) {
                unpacks[packed->type](
                    data + (size_t)p * packed->panel_bytes, from, count, &tiles[p]);
            }
            const struct int8_job job = {
                .q = q + from,
                .row_bytes = x->row_bytes,
                .blocks = int8_row_blocks(q, x->inputs) + from / INT8_BLOCK,
                .inputs = count,
                .tiles = tiles,
                .panel_bytes = packed->panel_bytes,
                .ahead =
                    last ? data
                         : data + (size_t)panels * packed->panel_bytes + (size_t)from * input_bytes,
                .y = whole ? y + (size_t)row * y_stride + output : partial,
                .y_stride = whole ? y_stride : WIDTH,
                .resume = from > 0,
            };
            multiply_tile(packed->type, &job, rows, panels, last ? 0 : (size_t)count * input_bytes);
            if (!whole && from + count == packed->inputs) {
                for (size_t r = 0; r < (size_t)rows; r++) {
                    memcpy(y + ((size_t)row + r) * y_stride + output, partial + r * WIDTH,
                        (size_t)(packed->outputs - output) * sizeof(float));
                }
            }
        }
    }
}

void INT8_NAME(int8_linear)(const struct packed *packed, const struct activation *x,
    int32_t row_from, int32_t row_to, int32_t panel_from, int32_t panel_to, float *y,
    size_t y_stride)
{
    ASSERT(x->format == ACTIVATION_INT8 && x->inputs == packed->inputs);
    ASSERT(panel_to <= packed->panels);
    for (int32_t row = row_from; row < row_to; row += MANY_ROWS) {
        const int32_t rows = MIN(row_to - row, MANY_ROWS);
        if (rows <= FEW_ROWS) {
            few_rows(packed, x, row, rows, panel_from, panel_to, y, y_stride);
        } else {
            many_rows(packed, x, row, rows, panel_from, panel_to, y, y_stride);
        }
    }
}
