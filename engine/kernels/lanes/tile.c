/*
 * The inner product kernel, as register tiles of rows x 16-output panels.
 *
 * A tile is chosen so that at least eight independent accumulators hide the latency of FMA (4-5
 * cycles, two a cycle) while accumulators, weights and a broadcast fit the registers: 6 rows x 1
 * panel in the 16 of AVX2, 12 x 2 in the 32 of AVX-512. Two panels side by side also halve the
 * broadcasts, of which a core loads no more than it multiplies vectors. Every size is the same code
 * with other constants; all give the same bits.
 */
#include <string.h>
#include "engine/base/assert.h"
#include "engine/base/attr.h"
#include "engine/kernels/lanes/lanes.h"
#include "engine/kernels/unroll.h"
#include "engine/kernels/lanes/isa.h"

#if defined(KERNELS_AVX512)
enum { ROWS_MAX = 12 };
#else
enum { ROWS_MAX = 6 };
#endif

enum {
    VECTORS = PANEL_OUTPUTS / LANES, /* of a panel */
    PANELS_MAX = 4,
    VECTORS_MAX = PANELS_MAX * VECTORS,
    STEP = 8, /* inputs a turn: so few turns a chain that their end is predicted */
    TRIPLES_MAX = ROWS_MAX / 3,
};

/* Hides what a pointer is computed from: gcc would keep one for each address and spill them. */
#define KEEP_POINTER(pointer) __asm__("" : "+r"(pointer))

/* Where a tile stands. Rows have a pointer for each three: an address can add a stride once or
 * twice by itself, and a pointer for each row would not fit the machine's registers. */
struct place {
    const float *x[TRIPLES_MAX];
    size_t x_stride;  /* bytes */
    ptrdiff_t x_next; /* bytes to the rows that come next */
    const float *w;
    size_t w_stride, w_panel;
    const char *ahead;
    size_t ahead_step, ahead_panel; /* bytes a turn, and from panel to panel */
};

ALWAYS_INLINE struct place place_of(const struct tile_job *job, const int rows)
{
    struct place at = {
        .x_stride = job->x_stride * sizeof(float),
        .x_next = (const char *)job->x_next - (const char *)job->x,
        .w = job->w,
        .w_stride = job->w_stride,
        .w_panel = job->w_panel,
        .ahead = (const char *)job->ahead,
        .ahead_step = job->ahead_bytes * STEP / (size_t)job->count,
        .ahead_panel = job->ahead_panel,
    };
    UNROLL
    for (int t = 0; 3 * t < rows; t++) {
        at.x[t] = job->x + (size_t)(3 * t) * job->x_stride;
    }
    return at;
}

/* `inputs` inputs of all rows and panels. */
ALWAYS_INLINE void add_inputs(struct place *at, const int inputs, const int rows, const int panels,
    floats sums[ROWS_MAX][VECTORS_MAX])
{
    UNROLL
    for (int k = 0; k < inputs; k++) {
        floats w[VECTORS_MAX];
        UNROLL
        for (int v = 0; v < panels * VECTORS; v++) {
            w[v] = floats_load(at->w + (size_t)(v / VECTORS) * at->w_panel + v % VECTORS * LANES);
        }
        /* Or gcc makes, and spills, a stride for each input of a turn. */
        size_t stride = at->x_stride;
        KEEP_POINTER(stride);
        UNROLL
        for (int r = 0; r < rows; r++) {
            const char *row = (const char *)(at->x[r / 3] + k) + (size_t)(r % 3) * stride;
            const floats one = floats_all(*(const float *)(const void *)row);
            UNROLL
            for (int v = 0; v < panels * VECTORS; v++) {
                sums[r][v] = floats_fma(one, w[v], sums[r][v]);
            }
        }
        at->w += at->w_stride;
    }
    UNROLL
    for (int t = 0; 3 * t < rows; t++) {
        at->x[t] += inputs;
        KEEP_POINTER(at->x[t]);
    }
}

/* `count` inputs, and the memory wanted next. */
ALWAYS_INLINE void add_chain(struct place *at, size_t count, const int rows, const int panels,
    floats sums[ROWS_MAX][VECTORS_MAX])
{
    NO_UNROLL
    for (; count >= STEP; count -= STEP) {
        UNROLL
        for (int p = 0; p < panels; p++) {
            for (size_t line = 0; line < at->ahead_step; line += 64) {
                PREFETCH_L1(at->ahead + (size_t)p * at->ahead_panel + line);
            }
        }
        at->ahead += at->ahead_step;
        size_t stride = at->x_stride;
        KEEP_POINTER(stride);
        UNROLL
        for (int r = 0; r < rows; r++) {
            const char *row = (const char *)at->x[r / 3] + (size_t)(r % 3) * stride;
            PREFETCH_L1(row + at->x_next);
        }
        add_inputs(at, STEP, rows, panels, sums);
    }
    NO_UNROLL
    for (; count > 0; count--) {
        add_inputs(at, 1, rows, panels, sums);
    }
}

ALWAYS_INLINE float *y_at(const struct tile_job *job, int row, int vector)
{
    return job->y + (size_t)row * job->y_stride + vector * LANES;
}

ALWAYS_INLINE void run_plain(const struct tile_job *whole_job, const int rows, const int panels)
{
    const struct tile_job job = *whole_job; /* a copy, which writing y cannot change */
    const size_t count = (size_t)job.count;
    const size_t chain = job.chain == 0 ? count : (size_t)job.chain;
    struct place at = place_of(&job, rows);
    for (size_t from = 0; from < count; from += chain) {
        const bool begins_at_y = job.chain == 0 && job.resume;
        const bool add_to_y = job.chain != 0 && (job.resume || from > 0);
        floats sums[ROWS_MAX][VECTORS_MAX];
        UNROLL
        for (int r = 0; r < rows; r++) {
            UNROLL
            for (int v = 0; v < panels * VECTORS; v++) {
                sums[r][v] = begins_at_y ? floats_load(y_at(&job, r, v)) : floats_zero();
            }
        }
        add_chain(&at, MIN(count - from, chain), rows, panels, sums);
        UNROLL
        for (int r = 0; r < rows; r++) {
            UNROLL
            for (int v = 0; v < panels * VECTORS; v++) {
                if (add_to_y) {
                    sums[r][v] += floats_load(y_at(&job, r, v));
                }
                floats_store(y_at(&job, r, v), sums[r][v]);
            }
        }
    }
}

/* ---- tiles of block formats ----------------------------------------------------------------- */

/* y += a sum(c x) + b sum(x) of chain `chain`. */
ALWAYS_INLINE void put_chain(const struct tile_job *job, bool shifted, const int rows,
    const int panels, size_t chain, floats sums[ROWS_MAX][VECTORS_MAX])
{
    floats a[VECTORS_MAX], b[VECTORS_MAX];
    UNROLL
    for (int v = 0; v < panels * VECTORS; v++) {
        const size_t at = (size_t)(v / VECTORS) * job->a_panel + chain * PANEL_OUTPUTS +
                          (size_t)(v % VECTORS * LANES);
        a[v] = floats_load(job->a + at);
        b[v] = shifted ? floats_load(job->b + at) : floats_zero();
    }
    float *y = job->y;
    const float *x_sum = shifted ? job->x_sums + chain : NULL;
    KEEP_POINTER(y);
    KEEP_POINTER(x_sum);
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int v = 0; v < panels * VECTORS; v++) {
            floats sum = floats_load(y + v * LANES);
            if (shifted) {
                sum = floats_fma(b[v], floats_all(*x_sum), sum);
            }
            floats_store(y + v * LANES, floats_fma(a[v], sums[r][v], sum));
        }
        y += job->y_stride;
        if (shifted) {
            x_sum += job->x_sums_stride;
        }
    }
}

/* All chains of a tile. y is read and written once a chain; its numbers wait in the L1 cache. */
ALWAYS_INLINE void run_blocks(
    const struct tile_job *whole_job, bool shifted, const int rows, const int panels)
{
    const struct tile_job job = *whole_job;
    const size_t chains = (size_t)(job.count / job.chain);
    struct place at = place_of(&job, rows);
    at.w_stride = PANEL_OUTPUTS; /* known to the compiler */
    if (!job.resume) {
        for (int r = 0; r < rows; r++) {
            memset(job.y + (size_t)r * job.y_stride, 0, panels * PANEL_OUTPUTS * sizeof(float));
        }
    }
    for (size_t chain = 0; chain < chains; chain++) {
        floats sums[ROWS_MAX][VECTORS_MAX];
        UNROLL
        for (int r = 0; r < rows; r++) {
            UNROLL
            for (int v = 0; v < panels * VECTORS; v++) {
                sums[r][v] = floats_zero();
            }
        }
        add_chain(&at, (size_t)job.chain, rows, panels, sums);
        put_chain(&job, shifted, rows, panels, chain, sums);
    }
}

/* ---- all sizes ------------------------------------------------------------------------------ */

/* Rows of a tile, and panels. */
#define SIX_ROWS(X, panels)                                                                        \
    X(1, panels) X(2, panels) X(3, panels) X(4, panels) X(5, panels) X(6, panels)
#if defined(KERNELS_AVX512)
#define TWELVE_ROWS(X, panels)                                                                     \
    SIX_ROWS(X, panels)                                                                            \
    X(7, panels) X(8, panels) X(9, panels) X(10, panels) X(11, panels) X(12, panels)
#define TILE_MAP(X) TWELVE_ROWS(X, 1) TWELVE_ROWS(X, 2) SIX_ROWS(X, 4)
#define BLOCK_MAP(X) TWELVE_ROWS(X, 1) TWELVE_ROWS(X, 2)
#else
#define TILE_MAP(X) SIX_ROWS(X, 1) X(1, 2) X(2, 2) X(3, 2) X(1, 4)
#define BLOCK_MAP(X) SIX_ROWS(X, 1)
#endif

#define X(rows, panels)                                                                            \
    static void plain_##rows##_##panels(const struct tile_job *job)                                \
    {                                                                                              \
        run_plain(job, rows, panels);                                                              \
    }
TILE_MAP(X)
#undef X

#define X(rows, panels)                                                                            \
    static void scaled_##rows##_##panels(const struct tile_job *job)                               \
    {                                                                                              \
        run_blocks(job, false, rows, panels);                                                      \
    }                                                                                              \
    static void shifted_##rows##_##panels(const struct tile_job *job)                              \
    {                                                                                              \
        run_blocks(job, true, rows, panels);                                                       \
    }
BLOCK_MAP(X)
#undef X

typedef void tile_fn(const struct tile_job *job);

static tile_fn *tile_of(const struct tile_job *job, int32_t rows, int32_t panels)
{
    static tile_fn *const plain[ROWS_MAX + 1][PANELS_MAX + 1] = {
#define X(rows, panels) [rows][panels] = plain_##rows##_##panels,
        TILE_MAP(X)
#undef X
    };
    static tile_fn *const of_blocks[ROWS_MAX + 1][PANELS_MAX + 1][2] = {
#define X(rows, panels) [rows][panels] = {scaled_##rows##_##panels, shifted_##rows##_##panels},
        BLOCK_MAP(X)
#undef X
    };
    return job->a == NULL ? plain[rows][panels] : of_blocks[rows][panels][job->b != NULL];
}

/* Full tiles; a rest of less than two is halved, since a tile of one row would starve. */
static int32_t rows_at_once(int32_t rows)
{
    return rows <= ROWS_MAX || rows >= 2 * ROWS_MAX ? MIN(rows, ROWS_MAX) : (rows + 1) / 2;
}

void ISA(tile)(const struct tile_job *job, int32_t rows, int32_t panels)
{
    /* Any address may be prefetched, but pointers are computed from real ones only. */
    const unsigned char *ahead = job->ahead_bytes > 0 ? job->ahead : (const void *)job->w;
    const float *after = job->x_next != NULL ? job->x_next : job->x;
    /* One copy for all tiles: a wide load of fields that were just stored one by one has to wait
     * until they have left the core. */
    struct tile_job part = *job;
    for (int32_t row = 0; row < rows;) {
        const int32_t tile_rows = rows_at_once(rows - row);
        const size_t ahead_bytes = job->ahead_bytes * (size_t)tile_rows / (size_t)rows;
        /* As many rows again, if there are, else the last so many; after the last, the next job's
         * first. */
        const int32_t row_next = MIN(row + tile_rows, rows - tile_rows);
        const float *next =
            row + tile_rows < rows ? job->x + (size_t)row_next * job->x_stride : after;
        for (int32_t panel = 0; panel < panels;) {
            int32_t tile_panels = MIN(panels - panel, PANELS_MAX);
            while (tile_of(job, tile_rows, tile_panels) == NULL) {
                tile_panels--;
            }
            part.x = job->x + (size_t)row * job->x_stride;
            part.x_next = next;
            part.w = job->w + (size_t)panel * job->w_panel;
            part.y = job->y + (size_t)row * job->y_stride + (size_t)panel * PANEL_OUTPUTS;
            part.x_sums = job->b == NULL ? NULL : job->x_sums + (size_t)row * job->x_sums_stride;
            part.ahead_bytes = ahead_bytes;
            part.ahead = ahead + (size_t)panel * job->ahead_panel;
            if (job->a != NULL) {
                part.a = job->a + (size_t)panel * job->a_panel;
            }
            if (job->b != NULL) {
                part.b = job->b + (size_t)panel * job->a_panel;
            }
            tile_of(job, tile_rows, tile_panels)(&part);
            panel += tile_panels;
        }
        ahead += ahead_bytes;
        row += tile_rows;
    }
}
