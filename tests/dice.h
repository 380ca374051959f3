/* Seeded random choices for tests: the same seed gives the same choices on every machine. */
#ifndef TESTS_DICE_H
#define TESTS_DICE_H

#include "engine/base/rng.h"

struct dice {
    uint64_t seed, count;
};

/* 0..sides-1 */
static inline int32_t roll(struct dice *dice, int32_t sides)
{
    return (int32_t)(rng_uniform(dice->seed, 7, dice->count++) * sides);
}

#endif
