/*
 * What the simulator's clients ask for: random plans of all four kinds, of every shape a plan can
 * have. Prompts begin with one of a few templates, so that requests share prefixes, and some are
 * the same as others from start to end.
 */
#ifndef TESTS_SIM_WORK_H
#define TESTS_SIM_WORK_H

#include "engine/types.h"
#include "tests/dice.h"

enum {
    WORK_CONTEXT = 256, /* most slots of an item */
    WORK_ITEMS = 24,
    WORK_ANSWERS = 4, /* of one prompt at most; events of a stream have room for one of each */
    WORK_STEPS = 8,
    WORK_CHOICES = 3,
};

/* A plan and everything it points to. Not to be copied. */
struct work {
    struct plan plan;
    struct plan_item items[WORK_ITEMS];
    struct plan_step steps[WORK_STEPS];
    struct plan_choice choices[WORK_CHOICES];
    int32_t tokens[WORK_CONTEXT + WORK_ITEMS], positions[WORK_CONTEXT];
    int32_t forced[16];
    struct stop_string stop;
};

/* Fits a context of `context` slots (64 to WORK_CONTEXT). With poison >= 0 a prompt may hold that
 * token; else none does. */
void work_random(struct work *work, struct dice *dice, int32_t context, int32_t poison);

#endif
