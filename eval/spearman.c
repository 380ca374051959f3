/* See the header. */
#include "eval/spearman.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include "engine/base/assert.h"
#include "engine/base/mem.h"

struct placed {
    double value;
    size_t index;
};

static int compare(const void *left, const void *right)
{
    double a = ((const struct placed *)left)->value;
    double b = ((const struct placed *)right)->value;
    return (a > b) - (a < b);
}

/* Twice the rank of each value, less twice the mean of all ranks: from 1 - count to count - 1. */
static void rank(const double *values, size_t count, struct placed *sorted, int64_t *out_ranks)
{
    for (size_t i = 0; i < count; i++) {
        ASSERT(isfinite(values[i]));
        sorted[i] = (struct placed){values[i], i};
    }
    qsort(sorted, count, sizeof(*sorted), compare);
    for (size_t from = 0, to; from < count; from = to) {
        for (to = from + 1; to < count && sorted[to].value == sorted[from].value;) {
            to++;
        }
        for (size_t i = from; i < to; i++) { /* ranks from + 1 .. to */
            out_ranks[sorted[i].index] = (int64_t)(from + 1 + to) - (int64_t)(count + 1);
        }
    }
}

static double correlate(const int64_t *a, const int64_t *b, size_t count)
{
    int64_t products = 0, a_squares = 0, b_squares = 0;
    for (size_t i = 0; i < count; i++) {
        products += a[i] * b[i];
        a_squares += a[i] * a[i];
        b_squares += b[i] * b[i];
    }
    if (a_squares == 0 || b_squares == 0) {
        return NAN;
    }
    return (double)products / sqrt((double)a_squares * (double)b_squares);
}

enum err spearman(const double *a, const double *b, size_t count, double *out_rho)
{
    ASSERT(count <= SPEARMAN_VALUES_MAX);
    struct placed *sorted = mem_array(MEM_OTHER, count, sizeof(*sorted));
    int64_t *ranks = mem_array(MEM_OTHER, count, 2 * sizeof(*ranks));
    enum err err = ERR_NO_MEMORY;
    if (sorted != NULL && ranks != NULL) {
        rank(a, count, sorted, ranks);
        rank(b, count, sorted, ranks + count);
        *out_rho = correlate(ranks, ranks + count, count);
        err = ERR_OK;
    }
    mem_free(sorted);
    mem_free(ranks);
    return err;
}
