/*
 * One vector from the final hidden rows of a sequence. Rows are added in slot order, as many at a
 * time as the scheduler happens to run, and summed in double in that order: how a prompt was cut
 * into pieces leaves no trace in the bits.
 *
 * What becomes of the sum, in this order: the pooled vector (pooling_close); what a dense head
 * makes of it, if the checkpoint has one (model_dense); a layer norm without weights, if its
 * profile says so; the front of it; length 1.
 */
#ifndef ENGINE_BLOCKS_POOLING_H
#define ENGINE_BLOCKS_POOLING_H

#include <stdbool.h>
#include <stdint.h>
#include "engine/base/err.h"
#include "engine/types.h"

struct pool {
    enum pooling pooling;
    int32_t hidden;
    int32_t rows_expected, rows; /* that take part, and how many of them were added */
    double *sum;                 /* [hidden], or [count] if that is more; the caller's */
    int32_t count;               /* numbers of the vector: hidden, or what a dense head sets */
    bool layer_norm;             /* of the whole vector, before it is cut; begins as false */
};

/* `rows` >= 1 rows will take part; `sum` is cleared. */
void pooling_begin(
    struct pool *pool, enum pooling pooling, int32_t hidden, int32_t rows, double *sum);
/* Whether the row'th of `rows` rows has any weight: others need not be read, but are counted with
 * pooling_skip. */
bool pooling_needs(enum pooling pooling, int32_t row, int32_t rows);
/* Adds the next row, [hidden]. */
void pooling_add(struct pool *pool, const float *hidden);
/* Passes over the next `rows` rows, none of which is needed. */
void pooling_skip(struct pool *pool, int32_t rows);
/* After the last row: sum is the pooled vector. A dense head may then replace it, and count. */
void pooling_close(struct pool *pool);
/* Of a closed pool: out [dimensions], cut from the front of the vector and then, if wanted, divided
 * by its Euclidean length (a vector of zeros stays as it is). dimensions is 1..count.
 * ERR_NON_FINITE when a number is not finite; out then has no meaning. */
MUST_USE enum err pooling_finish(
    const struct pool *pool, int32_t dimensions, bool normalize, float *out);
/* The same for one row that is its own vector. */
MUST_USE enum err pooling_row(const float *hidden, int32_t dimensions, bool normalize, float *out);

#endif
