/*
 * Rotary positions (RoFormer, arXiv 2104.09864): the table of angles and its cosines.
 *
 * A row's position is written in base 128, and its rotation is the product of one rotation a digit:
 * three small tables of doubles serve every position up to 2^21, so that nothing grows with the
 * context and reserved gaps may run past it. The product is rounded to float once; its error in
 * double, below 1e-15, hides under that rounding.
 */
#ifndef ENGINE_BLOCKS_ROPE_H
#define ENGINE_BLOCKS_ROPE_H

#include <stdint.h>
#include "engine/base/err.h"

enum {
    ROPE_DIGITS = 3,
    ROPE_DIGIT_BITS = 7,
    ROPE_DIGIT_VALUES = 1 << ROPE_DIGIT_BITS,
    ROPE_POSITIONS = 1 << (ROPE_DIGITS * ROPE_DIGIT_BITS),
};

struct rope_table {
    int32_t pairs;  /* rotary_dim / 2 */
    double *digits; /* [ROPE_DIGITS][ROPE_DIGIT_VALUES][pairs][2]: cosine, sine */
};

/* Frequency of pair i: base^(-2i / (2 pairs)) / factor / divisors[i]; divisors may be NULL. */
MUST_USE enum err rope_open(
    struct rope_table *table, int32_t pairs, double base, double factor, const float *divisors);
void rope_close(struct rope_table *table);
uint64_t rope_bytes(int32_t pairs);
/* out: [pairs][2] cosine and sine of position * frequency. */
void rope_angles(const struct rope_table *table, int32_t position, float *out);

#endif
