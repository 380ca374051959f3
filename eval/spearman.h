/*
 * Rank correlation: how far two lists agree about what is more and what is less.
 *
 * Equal values share the average of their ranks. Ranks are counted in halves, so that all sums are
 * whole numbers and the result depends on neither the order of the pairs nor their number.
 */
#ifndef EVAL_SPEARMAN_H
#define EVAL_SPEARMAN_H

#include <stddef.h>
#include "engine/base/err.h"

enum { SPEARMAN_VALUES_MAX = 1 << 20 }; /* sums of squared ranks then fit 64 bits */

/* a, b: [count] finite. Writes a number from -1 to 1; NaN where there is none, since all values of
 * one list are equal or there are fewer than two. ERR_NO_MEMORY is the only error. */
MUST_USE enum err spearman(const double *a, const double *b, size_t count, double *out_rho);

#endif
