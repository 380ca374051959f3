/* See the header. */
#include "tests/unit/sched/random_round.h"

#include <stdlib.h>

static struct job *submit(struct fake_host *host, const struct random_plan *plan)
{
    struct job *job = fake_job(host);
    job->plan = plan->plan;
    fake_job_submit(host, job);
    return job;
}

void random_round(
    struct fake_host *alone, struct fake_host *together, struct dice *dice, round_plan_fn *make)
{
    struct random_plan *plans = calloc(ROUND_JOBS, sizeof *plans);
    struct job *one[ROUND_JOBS], *same[ROUND_JOBS];
    for (int32_t i = 0; i < ROUND_JOBS; i++) {
        make(&plans[i], dice, FAKE_VOCAB);
        one[i] = submit(alone, &plans[i]);
        fake_host_run(alone, 2000);
        same[i] = submit(together, &plans[i]);
        if (roll(dice, 3) == 0 && scheduler_busy(together->scheduler)) {
            (void)scheduler_step(together->scheduler);
        }
    }
    fake_host_run(together, 20000);
    for (int32_t i = 0; i < ROUND_JOBS; i++) {
        assert_same_results(one[i], same[i]);
        fake_job_free(one[i]);
        fake_job_free(same[i]);
    }
    free(plans);
}
