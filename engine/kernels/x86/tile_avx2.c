/*
 * The inner product kernel, as register tiles of rows x 16-output panels.
 *
 * A tile is chosen so that at least eight independent accumulators hide the latency of FMA (4-5
 * cycles, two a cycle) while accumulators, weights and a broadcast fit 16 registers. Every size is
 * the same code with other constants; all give the same bits.
 */
#include <immintrin.h>
#include "engine/base/assert.h"
#include "engine/base/attr.h"
#include "engine/kernels/x86/avx2.h"
#include "engine/kernels/x86/unroll.h"

enum {
    ROWS_MAX = 6,
    VECTORS = 2,       /* of a panel */
    PREFETCH_ROWS = 4, /* smaller tiles serve attention and have no time to spare */
};

/* `count` inputs from `from` on: a piece of a longer sum that is added to y at its end (`add`), or
 * all of one that begins with what y holds (job->resume). */
ALWAYS_INLINE void run_chain(const struct tile_job *job, const int rows, const int panels,
    size_t from, size_t count, bool add, const char *ahead, size_t ahead_step)
{
    __m256 sums[ROWS_MAX][4 * VECTORS];
    const float *x[ROWS_MAX];
    UNROLL
    for (int r = 0; r < rows; r++) {
        x[r] = job->x + (size_t)r * job->x_stride + from;
        UNROLL
        for (int v = 0; v < panels * VECTORS; v++) {
            sums[r][v] = job->chain == 0 && job->resume
                             ? _mm256_loadu_ps(job->y + (size_t)r * job->y_stride + 8 * v)
                             : _mm256_setzero_ps();
        }
    }
    const size_t w_stride = job->w_stride;
    const size_t w_panel = job->w_panel;
    const float *w = job->w + from * w_stride;
    for (size_t k = 0; k < count; k++) {
        if (rows >= PREFETCH_ROWS) {
            _mm_prefetch(ahead, _MM_HINT_T1);
            ahead += ahead_step;
        }
        UNROLL
        for (int p = 0; p < panels; p++) {
            const __m256 w0 = _mm256_loadu_ps(w + (size_t)p * w_panel);
            const __m256 w1 = _mm256_loadu_ps(w + (size_t)p * w_panel + 8);
            UNROLL
            for (int r = 0; r < rows; r++) {
                const __m256 one = _mm256_broadcast_ss(x[r] + k);
                sums[r][2 * p] = _mm256_fmadd_ps(one, w0, sums[r][2 * p]);
                sums[r][2 * p + 1] = _mm256_fmadd_ps(one, w1, sums[r][2 * p + 1]);
            }
        }
        w += w_stride;
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        float *y = job->y + (size_t)r * job->y_stride;
        UNROLL
        for (int v = 0; v < panels * VECTORS; v++) {
            const __m256 sum =
                add ? _mm256_add_ps(_mm256_loadu_ps(y + 8 * v), sums[r][v]) : sums[r][v];
            _mm256_storeu_ps(y + 8 * v, sum);
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

/* STEP inputs from `at` on. */
ALWAYS_INLINE void add_step(const float *w, const float *const x[ROWS_MAX], size_t at,
    const int rows, __m256 sums[ROWS_MAX][VECTORS])
{
    UNROLL
    for (int k = 0; k < STEP; k++) {
        const __m256 w0 = _mm256_load_ps(w + (at + (size_t)k) * PANEL_OUTPUTS);
        const __m256 w1 = _mm256_load_ps(w + (at + (size_t)k) * PANEL_OUTPUTS + 8);
        UNROLL
        for (int r = 0; r < rows; r++) {
            const __m256 one = _mm256_broadcast_ss(x[r] + at + k);
            sums[r][0] = _mm256_fmadd_ps(one, w0, sums[r][0]);
            sums[r][1] = _mm256_fmadd_ps(one, w1, sums[r][1]);
        }
    }
}

/* All chains of a tile. y is read and written once a chain; its numbers wait in the L1 cache. */
ALWAYS_INLINE void run_blocks(const struct tile_job *whole_job, bool shifted, const int rows)
{
    const struct tile_job job = *whole_job; /* a copy, which writing y cannot change */
    const size_t chains = (size_t)(job.count / job.chain);
    const size_t ahead_step = job.ahead_bytes * STEP / (size_t)job.count;
    const char *ahead = (const char *)job.ahead;
    const float *x[ROWS_MAX];
    size_t at = 0;
    UNROLL
    for (int r = 0; r < rows; r++) {
        x[r] = job.x + (size_t)r * job.x_stride;
    }
    if (!job.resume) {
        UNROLL
        for (int r = 0; r < rows; r++) {
            _mm256_storeu_ps(job.y + (size_t)r * job.y_stride, _mm256_setzero_ps());
            _mm256_storeu_ps(job.y + (size_t)r * job.y_stride + 8, _mm256_setzero_ps());
        }
    }
    for (size_t chain = 0; chain < chains; chain++) {
        __m256 sums[ROWS_MAX][VECTORS];
        UNROLL
        for (int r = 0; r < rows; r++) {
            sums[r][0] = _mm256_setzero_ps();
            sums[r][1] = _mm256_setzero_ps();
        }
        NO_UNROLL
        for (int32_t k = 0; k < job.chain; k += STEP) {
            for (size_t line = 0; line < ahead_step; line += 64) {
                _mm_prefetch(ahead + line, _MM_HINT_T1);
            }
            ahead += ahead_step;
            add_step(job.w, x, at, rows, sums);
            at += STEP;
        }
        const float *a = job.a + chain * PANEL_OUTPUTS;
        UNROLL
        for (int v = 0; v < VECTORS; v++) {
            const __m256 a_v = _mm256_load_ps(a + 8 * v);
            UNROLL
            for (int r = 0; r < rows; r++) {
                float *y = job.y + (size_t)r * job.y_stride + 8 * v;
                __m256 sum = _mm256_loadu_ps(y);
                if (shifted) {
                    const float *x_sum = job.x_sums + (size_t)r * job.x_sums_stride + chain;
                    const float *b = job.b + chain * PANEL_OUTPUTS + 8 * v;
                    sum = _mm256_fmadd_ps(_mm256_load_ps(b), _mm256_broadcast_ss(x_sum), sum);
                }
                _mm256_storeu_ps(y, _mm256_fmadd_ps(a_v, sums[r][v], sum));
            }
        }
    }
}

/* rows, panels */
#define TILE_MAP(X) X(1, 1) X(1, 2) X(1, 4) X(2, 1) X(2, 2) X(3, 1) X(3, 2) X(4, 1) X(5, 1) X(6, 1)

#define X(rows, panels)                                                                            \
    static void plain_##rows##_##panels(const struct tile_job *job)                                \
    {                                                                                              \
        run_tile(job, rows, panels);                                                               \
    }
TILE_MAP(X)
#undef X

/* rows; of one panel */
#define BLOCK_MAP(X) X(1) X(2) X(3) X(4) X(5) X(6)

#define X(rows)                                                                                    \
    static void scaled_##rows(const struct tile_job *job)                                          \
    {                                                                                              \
        run_blocks(job, false, rows);                                                              \
    }                                                                                              \
    static void shifted_##rows(const struct tile_job *job)                                         \
    {                                                                                              \
        run_blocks(job, true, rows);                                                               \
    }
BLOCK_MAP(X)
#undef X

typedef void tile_fn(const struct tile_job *job);

static tile_fn *tile_of(const struct tile_job *job, int32_t rows, int32_t panels)
{
    static tile_fn *const plain[ROWS_MAX + 1][5] = {
#define X(rows, panels) [rows][panels] = plain_##rows##_##panels,
        TILE_MAP(X)
#undef X
    };
    static tile_fn *const of_blocks[ROWS_MAX + 1][2] = {
#define X(rows) [rows] = {scaled_##rows, shifted_##rows},
        BLOCK_MAP(X)
#undef X
    };
    return job->a == NULL ? plain[rows][panels] : of_blocks[rows][job->b != NULL];
}

/* The most panels a tile of `rows` rows takes. */
static int32_t panels_at_once(int32_t rows, int32_t panels)
{
    if (rows == 1) {
        return panels >= 4 ? 4 : MIN(panels, 2);
    }
    return rows <= 3 ? MIN(panels, 2) : 1;
}

/* Six rows at a time; a rest of 7 to 11 is halved, since a tile of one row would starve. */
static int32_t rows_at_once(int32_t rows)
{
    return rows <= ROWS_MAX || rows >= 2 * ROWS_MAX ? MIN(rows, ROWS_MAX) : (rows + 1) / 2;
}

void tile_avx2(const struct tile_job *job, int32_t rows, int32_t panels)
{
    ASSERT(job->a == NULL || panels == 1);
    /* Any address may be prefetched, but pointers are computed from real ones only. */
    const unsigned char *ahead = job->ahead_bytes > 0 ? job->ahead : (const void *)job->w;
    for (int32_t row = 0; row < rows;) {
        const int32_t tile_rows = rows_at_once(rows - row);
        for (int32_t panel = 0; panel < panels;) {
            const int32_t tile_panels = panels_at_once(tile_rows, panels - panel);
            struct tile_job part = *job;
            part.x += (size_t)row * job->x_stride;
            part.w += (size_t)panel * job->w_panel;
            part.y += (size_t)row * job->y_stride + (size_t)panel * PANEL_OUTPUTS;
            part.x_sums = job->b == NULL ? NULL : job->x_sums + (size_t)row * job->x_sums_stride;
            part.ahead_bytes = job->ahead_bytes * (size_t)tile_rows / (size_t)rows;
            part.ahead = ahead;
            tile_of(job, tile_rows, tile_panels)(&part);
            ahead += part.ahead_bytes;
            panel += tile_panels;
        }
        row += tile_rows;
    }
}
