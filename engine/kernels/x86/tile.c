/*
 * The inner product kernel, as register tiles of rows x 16-output panels.
 *
 * A tile is chosen so that at least eight independent accumulators hide the latency of FMA (4-5
 * cycles, two a cycle) while accumulators, weights and a broadcast fit the registers: 6 rows x 1
 * panel in the 16 of AVX2, 12 x 2 in the 32 of AVX-512. Two panels side by side also halve the
 * broadcasts, of which a core loads no more than it multiplies vectors. Every size is the same code
 * with other constants; all give the same bits.
 */
#include "engine/base/assert.h"
#include "engine/base/attr.h"
#include "engine/kernels/x86/lanes.h"
#include "engine/kernels/unroll.h"
#include "engine/kernels/x86/x86.h"

#if defined(KERNELS_AVX512)
enum { ROWS_MAX = 12 };
#else
enum { ROWS_MAX = 6 };
#endif

enum {
    VECTORS = PANEL_OUTPUTS / LANES, /* of a panel */
    PANELS_MAX = 4,
    BLOCK_PANELS_MAX = 2 / VECTORS, /* of block formats */
    PREFETCH_ROWS = 4,              /* smaller tiles serve attention and have no time to spare */
};

/* `count` inputs from `from` on: a piece of a longer sum that is added to y at its end (`add`), or
 * all of one that begins with what y holds (job->resume). */
ALWAYS_INLINE void run_chain(const struct tile_job *job, const int rows, const int panels,
    size_t from, size_t count, bool add, const char *ahead, size_t ahead_step)
{
    floats sums[ROWS_MAX][PANELS_MAX * VECTORS];
    const float *x[ROWS_MAX];
    UNROLL
    for (int r = 0; r < rows; r++) {
        x[r] = job->x + (size_t)r * job->x_stride + from;
        UNROLL
        for (int v = 0; v < panels * VECTORS; v++) {
            sums[r][v] = job->chain == 0 && job->resume
                             ? floats_load(job->y + (size_t)r * job->y_stride + v * LANES)
                             : floats_zero();
        }
    }
    const size_t w_stride = job->w_stride;
    const size_t w_panel = job->w_panel;
    const float *w = job->w + from * w_stride;
    for (size_t k = 0; k < count; k++) {
        if (rows >= PREFETCH_ROWS) {
            UNROLL
            for (int p = 0; p < panels; p++) {
                _mm_prefetch(ahead + (size_t)p * job->ahead_panel, _MM_HINT_T1);
            }
            ahead += ahead_step;
        }
        floats w_k[PANELS_MAX * VECTORS];
        UNROLL
        for (int v = 0; v < panels * VECTORS; v++) {
            w_k[v] = floats_load(w + (size_t)(v / VECTORS) * w_panel + v % VECTORS * LANES);
        }
        UNROLL
        for (int r = 0; r < rows; r++) {
            const floats one = floats_all(x[r][k]);
            UNROLL
            for (int v = 0; v < panels * VECTORS; v++) {
                sums[r][v] = floats_fma(one, w_k[v], sums[r][v]);
            }
        }
        w += w_stride;
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        float *y = job->y + (size_t)r * job->y_stride;
        UNROLL
        for (int v = 0; v < panels * VECTORS; v++) {
            if (add) {
                sums[r][v] += floats_load(y + v * LANES);
            }
            floats_store(y + v * LANES, sums[r][v]);
        }
    }
}

ALWAYS_INLINE void run_tile(const struct tile_job *job, const int rows, const int panels)
{
    const size_t count = (size_t)job->count;
    const size_t ahead_step = job->ahead_bytes / count;
    const size_t chain = job->chain == 0 ? count : (size_t)job->chain;
    for (size_t from = 0; from < count; from += chain) {
        const bool add = job->chain != 0 && (job->resume || from > 0);
        run_chain(job, rows, panels, from, MIN(count - from, chain), add,
            (const char *)job->ahead + from * ahead_step, ahead_step);
    }
}

/* ---- tiles of block formats ----------------------------------------------------------------- */

enum { STEP = 8 }; /* inputs a turn: so few turns a chain that their end is predicted */

/* STEP inputs; w and x point at the first. */
ALWAYS_INLINE void add_step(const float *w, size_t w_panel, const float *const x[ROWS_MAX],
    size_t at, const int rows, const int vectors, floats sums[ROWS_MAX][2])
{
    UNROLL
    for (int k = 0; k < STEP; k++) {
        floats w_k[2];
        UNROLL
        for (int v = 0; v < vectors; v++) {
            w_k[v] = floats_load(w + (size_t)(v / VECTORS) * w_panel + v % VECTORS * LANES +
                                 (at + (size_t)k) * PANEL_OUTPUTS);
        }
        UNROLL
        for (int r = 0; r < rows; r++) {
            const floats one = floats_all(x[r][at + (size_t)k]);
            UNROLL
            for (int v = 0; v < vectors; v++) {
                sums[r][v] = floats_fma(one, w_k[v], sums[r][v]);
            }
        }
    }
}

/* y += a sum(c x) + b sum(x) of chain `chain`. */
ALWAYS_INLINE void put_chain(const struct tile_job *job, bool shifted, const int rows,
    const int vectors, size_t chain, floats sums[ROWS_MAX][2])
{
    UNROLL
    for (int v = 0; v < vectors; v++) {
        const size_t at = (size_t)(v / VECTORS) * job->a_panel + chain * PANEL_OUTPUTS +
                          (size_t)(v % VECTORS * LANES);
        const floats a = floats_load(job->a + at);
        UNROLL
        for (int r = 0; r < rows; r++) {
            float *y = job->y + (size_t)r * job->y_stride + v * LANES;
            floats sum = floats_load(y);
            if (shifted) {
                const float *x_sum = job->x_sums + (size_t)r * job->x_sums_stride + chain;
                sum = floats_fma(floats_load(job->b + at), floats_all(*x_sum), sum);
            }
            floats_store(y, floats_fma(a, sums[r][v], sum));
        }
    }
}

/* All chains of a tile. y is read and written once a chain; its numbers wait in the L1 cache. */
ALWAYS_INLINE void run_blocks(
    const struct tile_job *whole_job, bool shifted, const int rows, const int panels)
{
    const struct tile_job job = *whole_job; /* a copy, which writing y cannot change */
    const int vectors = panels * VECTORS;
    const size_t chains = (size_t)(job.count / job.chain);
    const size_t ahead_step = job.ahead_bytes * STEP / (size_t)job.count;
    const char *ahead = (const char *)job.ahead;
    const float *x[ROWS_MAX];
    size_t at = 0;
    UNROLL
    for (int r = 0; r < rows; r++) {
        x[r] = job.x + (size_t)r * job.x_stride;
        if (!job.resume) {
            for (int v = 0; v < vectors; v++) {
                floats_store(job.y + (size_t)r * job.y_stride + v * LANES, floats_zero());
            }
        }
    }
    for (size_t chain = 0; chain < chains; chain++) {
        floats sums[ROWS_MAX][2];
        UNROLL
        for (int r = 0; r < rows; r++) {
            sums[r][0] = floats_zero();
            sums[r][1] = floats_zero();
        }
        NO_UNROLL
        for (int32_t k = 0; k < job.chain; k += STEP) {
            for (int p = 0; p < panels; p++) {
                for (size_t line = 0; line < ahead_step; line += 64) {
                    _mm_prefetch(ahead + (size_t)p * job.ahead_panel + line, _MM_HINT_T1);
                }
            }
            ahead += ahead_step;
            add_step(job.w, job.w_panel, x, at, rows, vectors, sums);
            at += STEP;
        }
        put_chain(&job, shifted, rows, vectors, chain, sums);
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
        run_tile(job, rows, panels);                                                               \
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
    for (int32_t row = 0; row < rows;) {
        const int32_t tile_rows = rows_at_once(rows - row);
        const size_t ahead_bytes = job->ahead_bytes * (size_t)tile_rows / (size_t)rows;
        for (int32_t panel = 0; panel < panels;) {
            int32_t tile_panels = MIN(panels - panel, PANELS_MAX);
            while (tile_of(job, tile_rows, tile_panels) == NULL) {
                tile_panels--;
            }
            struct tile_job part = *job;
            part.x += (size_t)row * job->x_stride;
            part.w += (size_t)panel * job->w_panel;
            part.y += (size_t)row * job->y_stride + (size_t)panel * PANEL_OUTPUTS;
            part.x_sums = job->b == NULL ? NULL : job->x_sums + (size_t)row * job->x_sums_stride;
            part.ahead_bytes = ahead_bytes;
            part.ahead = ahead + (size_t)panel * job->ahead_panel;
            if (job->a != NULL) {
                part.a += (size_t)panel * job->a_panel;
            }
            if (job->b != NULL) {
                part.b += (size_t)panel * job->a_panel;
            }
            tile_of(job, tile_rows, tile_panels)(&part);
            panel += tile_panels;
        }
        ahead += ahead_bytes;
        row += tile_rows;
    }
}
