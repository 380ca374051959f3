/*
 * The same plan once more, alone: one sequence, pages for a whole context, passes as large as they
 * come, no deadline and no stream. What it says is what the crowded scheduler has to say, bit for
 * bit.
 */
#include <stdio.h>
#include <string.h>
#include "tests/sim/sim.h"

/* ---- comparison ---------------------------------------------------------------------------- */

/* Where the answers differ. */
struct difference {
    const struct sim *sim;
    const struct sim_job *sim_job;
    int32_t item, step;
    bool whole; /* else what the job has is a beginning of what it gets alone */
};

static void same(const struct difference *at, const char *field, bool is_same)
{
    if (!is_same) {
        sim_fail(at->sim, "result", "job %d items[%d].steps[%d].%s differs from the answer alone",
            at->sim_job->number, at->item, at->step, field);
    }
}

static bool same_bytes(const void *a, const void *b, size_t count, size_t size)
{
    return count == 0 || memcmp(a, b, count * size) == 0;
}

static void compare_step(const struct difference *at, const struct plan_step *step,
    const struct step_result *alone, const struct step_result *got)
{
    if (at->whole || got->finish != FINISH_NONE) {
        same(at, "finish", alone->finish == got->finish);
        same(at, "choice", alone->choice == got->choice);
        same(at, "token_count", alone->token_count == got->token_count);
        same(at, "text_bytes", alone->text_bytes == got->text_bytes);
        same(at, "stop_index", alone->stop_index == got->stop_index);
        same(at, "confidence", memcmp(&alone->confidence, &got->confidence, sizeof(float)) == 0);
    }
    if (step->kind == STEP_CHOOSE) {
        size_t count = got->finish == FINISH_NONE ? 0 : (size_t)step->choice_count;
        same(at, "probabilities",
            same_bytes(alone->probabilities, got->probabilities, count, sizeof(float)));
        return;
    }
    size_t tokens = (size_t)got->token_count;
    same(at, "token_count", got->token_count <= alone->token_count);
    same(at, "tokens", same_bytes(alone->tokens, got->tokens, tokens, sizeof(int32_t)));
    if (step->kind == STEP_DECODE || at->whole) { /* a FORCE has its scores when it is through */
        same(at, "logprobs", same_bytes(alone->logprobs, got->logprobs, tokens, sizeof(float)));
    }
    if (step->kind == STEP_DECODE) {
        same(at, "text", same_bytes(alone->text, got->text, (size_t)got->text_bytes, 1));
        same(
            at, "text_ends", same_bytes(alone->text_ends, got->text_ends, tokens, sizeof(int32_t)));
    }
    if (step->kind == STEP_DECODE && step->top_logprobs > 0) {
        same(at, "top",
            same_bytes(alone->top, got->top, tokens * (size_t)step->top_logprobs,
                sizeof(struct token_logprob)));
    }
    if (step->kind == STEP_DECODE && step->watch != NULL) {
        same(at, "watched", same_bytes(alone->watched, got->watched, tokens, sizeof(float)));
    }
}

static void compare_item(
    struct difference *at, const struct item_result *alone, const struct item_result *got)
{
    const struct plan_item *item = &at->sim_job->job.plan.items[at->item];
    if (at->whole) {
        size_t numbers = (size_t)alone->vector_rows * (size_t)alone->vector_dim;
        same(at, "err", alone->err == got->err);
        if (alone->err == ERR_OK) {
            same(at, "vector", same_bytes(alone->vector, got->vector, numbers, sizeof(float)));
        }
        if (alone->err == ERR_OK && item->prompt_logprobs) {
            same(at, "prompt_logprobs",
                same_bytes(alone->prompt_logprobs, got->prompt_logprobs, (size_t)item->token_count,
                    sizeof(float)));
        }
    }
    for (at->step = 0; at->step < item->step_count; at->step++) {
        compare_step(at, &item->steps[at->step], &alone->steps[at->step], &got->steps[at->step]);
    }
}

/* ---- the run alone ------------------------------------------------------------------------- */

struct alone {
    struct fake_network network;
    struct pages pages;
    bool done;
};

static void forward(void *context, struct batch *batch, int32_t unit_from, int32_t unit_to)
{
    struct alone *alone = context;
    fake_network_forward(&alone->network, batch, unit_from, unit_to);
}

static void logits(void *context, const float *const *hidden, int32_t count, float *out)
{
    (void)context;
    fake_network_logits(hidden, count, out);
}

static int64_t now_us(void *context)
{
    (void)context;
    return 1;
}

static void done(void *context, struct job *job)
{
    (void)job;
    struct alone *alone = context;
    alone->done = true;
}

static void progress(void *context, struct job *job)
{
    (void)context;
    (void)job;
}

static void run_alone(const struct sim *sim, struct job *job)
{
    struct alone alone = {.network = {.poison_token = sim->network.poison_token}};
    struct scheduler *scheduler = NULL;
    struct sched_config config = sim->config;
    config.pages = &alone.pages;
    config.sequences = config.jobs = 1;
    config.step_rows = config.context;
    config.reuse_pages = 0;
    struct sched_host host = {.context = &alone,
        .units = FAKE_UNITS,
        .forward = forward,
        .logits = logits,
        .now_us = now_us,
        .done = done,
        .progress = progress};
    if (fake_network_pages(&alone.pages, WORK_CONTEXT / FAKE_PAGE_SLOTS) != ERR_OK ||
        scheduler_open(&config, &host, &scheduler) != ERR_OK) {
        sim_fail(sim, "alone", "no memory");
    }
    scheduler_add(scheduler, job);
    while (!alone.done) {
        if (!scheduler_step(scheduler) && !alone.done) {
            sim_fail(sim, "alone", "a job alone does not end");
        }
    }
    if (alone.network.broken[0] != '\0') {
        sim_fail(sim, "alone", "%s", alone.network.broken);
    }
    scheduler_close(scheduler);
    pages_close(&alone.pages);
}

void alone_compare(const struct sim *sim, const struct sim_job *sim_job)
{
    const struct job *got = &sim_job->job;
    struct job job = {.plan = got->plan};
    job.plan.stream = false;
    job.plan.deadline_us = job.plan.start_by_us = 0;
    sim_size_results(sim, &job);
    run_alone(sim, &job);
    bool ended_early = got->err == ERR_CANCELLED || got->err == ERR_DEADLINE;
    struct difference at = {.sim = sim, .sim_job = sim_job, .whole = !ended_early};
    at.step = -1;
    same(&at, "err of the job", ended_early || job.err == got->err);
    for (at.item = 0; at.item < job.plan.item_count; at.item++) {
        at.step = -1;
        compare_item(&at, &job.results[at.item], &got->results[at.item]);
    }
    arena_drop(&job.results_arena);
}
