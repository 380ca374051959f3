/*
 * The inner product kernel, as register tiles of up to 6 rows x 16 outputs: 24 accumulators, four
 * vectors of weights and a broadcast fit the 32 registers. Every number of rows is the same code
 * with another constant; all give the same bits.
 */
#include <arm_neon.h>
#include "engine/base/assert.h"
#include "engine/base/attr.h"
#include "engine/kernels/arm/lanes_neon.h"
#include "engine/kernels/arm/neon.h"
#include "engine/kernels/unroll.h"

enum {
    ROWS_MAX = 6,
    VECTORS = PANEL_OUTPUTS / LANES,
};

/* Ends chain `chain` of one row: what y becomes, given its sum. */
ALWAYS_INLINE float32x4_t finish_chain(const struct tile_job *job, size_t row, size_t chain, int v,
    float32x4_t before, float32x4_t sum)
{
    if (job->chain == 0) {
        return sum;
    }
    if (job->a == NULL) {
        return vaddq_f32(before, sum);
    }
    const size_t at = chain * PANEL_OUTPUTS + (size_t)v * LANES;
    if (job->b != NULL) {
        const float x_sum = job->x_sums[row * job->x_sums_stride + chain];
        before = vfmaq_n_f32(before, vld1q_f32(job->b + at), x_sum);
    }
    return vfmaq_f32(before, vld1q_f32(job->a + at), sum);
}

/* Inputs [from, to), one chain. y is read and written once a chain; it waits in the L1 cache. */
ALWAYS_INLINE void run_chain(
    const struct tile_job *job, const int rows, size_t chain, size_t from, size_t to)
{
    const bool goes_on = job->resume || from > 0;
    float32x4_t sums[ROWS_MAX][VECTORS];
    const float *x[ROWS_MAX];
    UNROLL
    for (int r = 0; r < rows; r++) {
        x[r] = job->x + (size_t)r * job->x_stride;
        const float *y = job->y + (size_t)r * job->y_stride;
        UNROLL
        for (int v = 0; v < VECTORS; v++) {
            sums[r][v] = job->chain == 0 && goes_on ? vld1q_f32(y + v * LANES) : vdupq_n_f32(0);
        }
    }
    for (size_t k = from; k < to; k++) {
        const float *at = job->w + k * job->w_stride;
        float32x4_t w[VECTORS];
        UNROLL
        for (int v = 0; v < VECTORS; v++) {
            w[v] = vld1q_f32(at + v * LANES);
        }
        UNROLL
        for (int r = 0; r < rows; r++) {
            UNROLL
            for (int v = 0; v < VECTORS; v++) {
                sums[r][v] = vfmaq_n_f32(sums[r][v], w[v], x[r][k]);
            }
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        float *y = job->y + (size_t)r * job->y_stride;
        UNROLL
        for (int v = 0; v < VECTORS; v++) {
            const float32x4_t before = goes_on ? vld1q_f32(y + v * LANES) : vdupq_n_f32(0);
            vst1q_f32(y + v * LANES, finish_chain(job, (size_t)r, chain, v, before, sums[r][v]));
        }
    }
}

ALWAYS_INLINE void run(const struct tile_job *whole_job, const int rows)
{
    const struct tile_job job = *whole_job; /* a copy, which writing y cannot change */
    const size_t count = (size_t)job.count;
    const size_t length = job.chain == 0 ? count : (size_t)job.chain;
    for (size_t from = 0, chain = 0; from < count; from += length, chain++) {
        run_chain(&job, rows, chain, from, MIN(count, from + length));
    }
}

#define TILE_MAP(X) X(1) X(2) X(3) X(4) X(5) X(6)

#define X(rows)                                                                                    \
    static void tile_##rows(const struct tile_job *job)                                            \
    {                                                                                              \
        run(job, rows);                                                                            \
    }
TILE_MAP(X)
#undef X

/* Six rows at a time; a rest of 7 to 11 is halved, since a tile of one row would starve. */
static int32_t rows_at_once(int32_t rows)
{
    return rows <= ROWS_MAX || rows >= 2 * ROWS_MAX ? MIN(rows, ROWS_MAX) : (rows + 1) / 2;
}

void tile_neon(const struct tile_job *job, int32_t rows)
{
    static void (*const tiles[ROWS_MAX + 1])(const struct tile_job *job) = {
#define X(rows) [rows] = tile_##rows,
        TILE_MAP(X)
#undef X
    };
    ASSERT(job->count >= 1);
    struct tile_job part = *job;
    for (int32_t row = 0; row < rows;) {
        const int32_t taken = rows_at_once(rows - row);
        tiles[taken](&part);
        row += taken;
        part.x += (size_t)taken * job->x_stride;
        part.y += (size_t)taken * job->y_stride;
        part.x_sums = job->b == NULL ? NULL : part.x_sums + (size_t)taken * job->x_sums_stride;
    }
}
