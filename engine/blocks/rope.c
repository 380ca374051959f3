/* The angle tables of rotary positions; engine/blocks/rope.h says why they are in digits. */
#include "engine/blocks/rope.h"

#include <math.h>
#include <stddef.h>
#include "engine/base/assert.h"
#include "engine/base/mem.h"

static size_t digit_row(const struct rope_table *table, int32_t digit, int32_t value)
{
    return ((size_t)digit * ROPE_DIGIT_VALUES + (size_t)value) * (size_t)table->pairs * 2;
}

uint64_t rope_bytes(int32_t pairs)
{
    return (uint64_t)ROPE_DIGITS * ROPE_DIGIT_VALUES * (uint64_t)pairs * 2 * sizeof(double);
}

enum err rope_open(
    struct rope_table *table, int32_t pairs, double base, double factor, const float *divisors)
{
    ASSERT(pairs > 0);
    ASSERT(base > 0 && factor > 0);
    *table = (struct rope_table){.pairs = pairs};
    table->digits = mem_alloc(MEM_WEIGHTS, rope_bytes(pairs));
    if (table->digits == NULL) {
        return ERR_NO_MEMORY;
    }
    for (int32_t digit = 0; digit < ROPE_DIGITS; digit++) {
        for (int32_t value = 0; value < ROPE_DIGIT_VALUES; value++) {
            double position = ldexp(value, digit * ROPE_DIGIT_BITS);
            double *out = table->digits + digit_row(table, digit, value);
            for (int32_t i = 0; i < pairs; i++) {
                double frequency = pow(base, -(double)i / pairs) / factor;
                if (divisors != NULL) {
                    frequency /= (double)divisors[i];
                }
                double *angle = out + 2 * (size_t)i;
                angle[0] = cos(position * frequency);
                angle[1] = sin(position * frequency);
            }
        }
    }
    return ERR_OK;
}

void rope_close(struct rope_table *table)
{
    mem_free(table->digits);
    *table = (struct rope_table){0};
}

void rope_angles(const struct rope_table *table, int32_t position, float *out)
{
    ASSERT(position >= 0 && position < ROPE_POSITIONS);
    const double *low = table->digits + digit_row(table, 0, position % ROPE_DIGIT_VALUES);
    const double *middle =
        table->digits + digit_row(table, 1, (position >> ROPE_DIGIT_BITS) % ROPE_DIGIT_VALUES);
    const double *high = table->digits + digit_row(table, 2, position >> (2 * ROPE_DIGIT_BITS));
    for (int32_t i = 0; i < table->pairs; i++) {
        const double *a = low + 2 * (size_t)i;
        const double *b = middle + 2 * (size_t)i;
        const double *c = high + 2 * (size_t)i;
        double cosine = a[0] * b[0] - a[1] * b[1];
        double sine = a[1] * b[0] + a[0] * b[1];
        float *angle = out + 2 * (size_t)i;
        angle[0] = (float)(cosine * c[0] - sine * c[1]);
        angle[1] = (float)(sine * c[0] + cosine * c[1]);
    }
}
