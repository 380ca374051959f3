/*
 * Random plans of all four kinds, and the comparison of their answers bit by bit. Shared by the
 * scheduler's test over a fake network and the engine's over real ones.
 */
#ifndef TESTS_UNIT_SCHED_RANDOM_PLAN_H
#define TESTS_UNIT_SCHED_RANDOM_PLAN_H

#include "engine/job.h"
#include "tests/dice.h"

enum { PLAN_TOKENS = 128, PLAN_STEPS = 6 };

/* A plan and everything it points to. */
struct random_plan {
    struct plan plan;
    struct plan_item items[3];
    struct plan_step steps[PLAN_STEPS];
    struct plan_choice choices[3];
    int32_t tokens[PLAN_TOKENS];
    int32_t forced[16];
    struct stop_string stop;
};

/* A plan that is valid for a vocabulary of that size (at least 300) and a context of 256. */
void random_plan(struct random_plan *p, struct dice *dice, int32_t vocab);
/* A plan that often begins like others, or is one of them again: of a few families, with several
 * items on one prompt, a token changed, other gaps. */
void related_plan(struct random_plan *p, struct dice *dice, int32_t vocab);
/* Fails the test unless both jobs completed with the same bits. */
void assert_same_results(const struct job *a, const struct job *b);

#endif
