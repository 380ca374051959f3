/* Pooling in double; engine/blocks/pooling.h says why the order of rows is fixed. */
#include "engine/blocks/pooling.h"

#include <math.h>
#include <string.h>
#include "engine/base/assert.h"

/* Of the layer norm, as those who train such checkpoints compute it. */
static const double LAYER_NORM_EPS = 1e-5;

/* Weight of the row'th row; the sum of rows times weights is divided by weight_sum. */
static double weight_of(enum pooling pooling, int32_t row, int32_t rows)
{
    switch (pooling) {
    case POOLING_MEAN:
        return 1;
    case POOLING_CLS:
        return row == 0 ? 1 : 0;
    case POOLING_LAST:
    case POOLING_EOS: /* the plan has put the end token last */
        return row == rows - 1 ? 1 : 0;
    case POOLING_WEIGHTED_MEAN:
        return (double)row + 1;
    case POOLING_NONE:
        break;
    }
    ASSERT(false); /* pooling_begin refuses it */
    return 0;
}

static double weight_sum(enum pooling pooling, int32_t rows)
{
    if (pooling == POOLING_MEAN) {
        return rows;
    }
    return pooling == POOLING_WEIGHTED_MEAN ? (double)rows * ((double)rows + 1) / 2 : 1;
}

void pooling_begin(
    struct pool *pool, enum pooling pooling, int32_t hidden, int32_t rows, double *sum)
{
    ASSERT(pooling != POOLING_NONE);
    ASSERT(hidden > 0 && rows > 0);
    *pool = (struct pool){
        .pooling = pooling, .hidden = hidden, .rows_expected = rows, .sum = sum, .count = hidden};
    memset(sum, 0, (size_t)hidden * sizeof(*sum));
}

bool pooling_needs(enum pooling pooling, int32_t row, int32_t rows)
{
    return weight_of(pooling, row, rows) > 0;
}

void pooling_add(struct pool *pool, const float *hidden)
{
    ASSERT(pool->rows < pool->rows_expected);
    double weight = weight_of(pool->pooling, pool->rows, pool->rows_expected);
    if (weight > 0) { /* else 0 times infinity would be NaN */
        for (int32_t i = 0; i < pool->hidden; i++) {
            pool->sum[i] += weight * (double)hidden[i];
        }
    }
    pool->rows++;
}

void pooling_skip(struct pool *pool, int32_t rows)
{
    ASSERT(rows >= 0 && rows <= pool->rows_expected - pool->rows);
    for (int32_t row = pool->rows; row < pool->rows + rows; row++) {
        ASSERT(!pooling_needs(pool->pooling, row, pool->rows_expected));
    }
    pool->rows += rows;
}

void pooling_close(struct pool *pool)
{
    ASSERT(pool->rows == pool->rows_expected);
    const double divisor = weight_sum(pool->pooling, pool->rows);
    for (int32_t i = 0; i < pool->hidden; i++) {
        pool->sum[i] /= divisor;
    }
}

/* Zero vectors are not divided by their length. */
static double length_of(double sum_of_squares)
{
    double length = sqrt(sum_of_squares);
    return length > 0 ? length : 1;
}

/* Every float of the result is finite, or ERR_NON_FINITE. */
static enum err check_finite(const float *out, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        if (!isfinite(out[i])) {
            return ERR_NON_FINITE;
        }
    }
    return ERR_OK;
}

/* (x - mean) / deviation is the norm of x; without one, x itself. */
struct centre {
    double mean, deviation;
};

static struct centre centre_of(const struct pool *pool)
{
    struct centre centre = {.mean = 0, .deviation = 1};
    if (!pool->layer_norm) {
        return centre;
    }
    for (int32_t i = 0; i < pool->count; i++) {
        centre.mean += pool->sum[i];
    }
    centre.mean /= pool->count;
    double squares = 0;
    for (int32_t i = 0; i < pool->count; i++) {
        squares += (pool->sum[i] - centre.mean) * (pool->sum[i] - centre.mean);
    }
    centre.deviation = sqrt(squares / pool->count + LAYER_NORM_EPS);
    return centre;
}

enum err pooling_finish(const struct pool *pool, int32_t dimensions, bool normalize, float *out)
{
    ASSERT(dimensions >= 1 && dimensions <= pool->count);
    const struct centre centre = centre_of(pool);
    double length = 1;
    if (normalize) {
        double squares = 0;
        for (int32_t i = 0; i < dimensions; i++) {
            double value = (pool->sum[i] - centre.mean) / centre.deviation;
            squares += value * value;
        }
        length = length_of(squares);
    }
    for (int32_t i = 0; i < dimensions; i++) {
        out[i] = (float)((pool->sum[i] - centre.mean) / centre.deviation / length);
    }
    return check_finite(out, dimensions);
}

enum err pooling_row(const float *hidden, int32_t dimensions, bool normalize, float *out)
{
    ASSERT(dimensions >= 1);
    double length = 1;
    if (normalize) {
        double squares = 0;
        for (int32_t i = 0; i < dimensions; i++) {
            squares += (double)hidden[i] * (double)hidden[i];
        }
        length = length_of(squares);
    }
    for (int32_t i = 0; i < dimensions; i++) {
        out[i] = (float)((double)hidden[i] / length);
    }
    return check_finite(out, dimensions);
}
