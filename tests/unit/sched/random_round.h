/* Random plans, each alone on one scheduler and all together on another: the same bits. */
#ifndef TESTS_UNIT_SCHED_RANDOM_ROUND_H
#define TESTS_UNIT_SCHED_RANDOM_ROUND_H

#include "tests/unit/sched/fake_host.h"
#include "tests/unit/sched/random_plan.h"

enum { ROUND_JOBS = 24 };

typedef void round_plan_fn(struct random_plan *p, struct dice *dice, int32_t vocab);

/* ROUND_JOBS plans of `make`; on `together` they arrive spread over its steps. Fails the test
 * unless each has the same results on both hosts, which are at rest afterwards. */
void random_round(
    struct fake_host *alone, struct fake_host *together, struct dice *dice, round_plan_fn *make);

#endif
