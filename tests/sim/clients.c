/*
 * The clients of a simulated run: requests arrive in bursts or drop by drop, read their streams
 * quickly or slowly, go away at any moment, and look at what they got.
 */
#include <stdlib.h>
#include "engine/plan_check.h"
#include "tests/sim/sim.h"

void sim_size_results(const struct sim *sim, struct job *job)
{
    struct plan_bounds bounds = {.vocab = FAKE_VOCAB,
        .hidden = FAKE_HIDDEN,
        .vector = FAKE_HIDDEN,
        .context = sim->config.context,
        .position_max = 4 * WORK_CONTEXT,
        .piece_bytes_max = (int32_t)detokenizer_bound(sim->tokenizer),
        .result_bytes = 16 << 20};
    struct err_info info = {0};
    if (plan_check(&job->plan, &bounds, &info) != ERR_OK ||
        plan_size_results(job, &bounds, &info) != ERR_OK) {
        sim_fail(sim, "plan", "%s: %s", info.where, info.text);
    }
}

static void arrive(struct sim *sim)
{
    struct sim_job *sim_job = calloc(1, sizeof *sim_job);
    if (sim_job == NULL || ring_init(&sim_job->job.events, 4U << roll(&sim->dice, 3),
                               sizeof(struct token_event)) != ERR_OK) {
        sim_fail(sim, "memory", "none is left");
    }
    int32_t poison = sim->seed % 4 == 0 ? sim->network.poison_token : -1;
    work_random(&sim_job->work, &sim->dice, sim->config.context, poison);
    struct job *job = &sim_job->job;
    job->plan = sim_job->work.plan;
    job->user = sim_job;
    job->times.submitted = sim->now_us;
    sim_job->number = sim->arrived++;
    sim_job->reader = roll(&sim->dice, 3) == 0 && sim->fault != FAULT_STARVED ? 1 : 8;
    if (roll(&sim->dice, 8) == 0) {
        job->plan.deadline_us = sim->now_us + sim->slowness * roll(&sim->dice, 60000);
    }
    if (roll(&sim->dice, 8) == 0) {
        job->plan.start_by_us = sim->now_us + sim->slowness * roll(&sim->dice, 20000);
    }
    sim_size_results(sim, job);
    sim_trace(sim, "job %d arrives: kind %d, %d items, %d tokens, %d of them context%s",
        sim_job->number, (int)job->plan.kind, job->plan.item_count, job->plan.items[0].token_count,
        job->plan.items[0].context_count, job->plan.stream ? ", a stream" : "");
    sim->received[job->plan.kind]++;
    sim->jobs[sim->job_count++] = sim_job;
    scheduler_add(sim->scheduler, job);
    sim->next_arrival_us += roll(&sim->dice, (int32_t)sim->arrival_gap_us + 1);
}

void clients_arrive(struct sim *sim)
{
    if (sim->job_count == 0 && sim->arrived < sim->arrivals) {
        sim->now_us = MAX(sim->now_us, sim->next_arrival_us);
    }
    while (sim->arrived < sim->arrivals && sim->now_us >= sim->next_arrival_us &&
           sim->job_count < sim->config.jobs) {
        arrive(sim);
    }
}

/* Each event continues the one before of its item and says what the results say. */
static void take_events(struct sim *sim, struct sim_job *sim_job)
{
    struct token_event event;
    while (ring_pop(&sim_job->job.events, &event)) {
        struct sim_heard *heard = &sim_job->heard[event.item];
        const struct step_result *step = &sim_job->job.results[event.item].steps[event.step];
        int32_t text_from = event.index == 0 ? 0 : step->text_ends[event.index - 1];
        bool follows = event.step == heard->step ? !heard->last_seen || event.index == 0
                                                 : event.step > heard->step;
        if (!follows || event.index >= step->token_count ||
            event.token != step->tokens[event.index] || event.text_from != text_from ||
            event.text_from + event.text_bytes != step->text_ends[event.index] ||
            event.last != (event.finish != FINISH_NONE) ||
            (event.last && event.index != step->token_count - 1)) {
            sim_fail(sim, "events",
                "job %d: event %d of step %d of item %d does not fit the results", sim_job->number,
                event.index, event.step, event.item);
        }
        heard->events++;
        heard->step = event.step;
        heard->last_seen = event.last;
    }
}

void clients_act(struct sim *sim)
{
    for (int32_t i = 0; i < sim->job_count; i++) {
        struct sim_job *sim_job = sim->jobs[i];
        if (roll(&sim->dice, 8) < sim_job->reader) {
            take_events(sim, sim_job);
        }
    }
    if (sim->seed % 3 == 0 && sim->job_count > 0 && roll(&sim->dice, 12) == 0) {
        struct sim_job *victim = sim->jobs[roll(&sim->dice, sim->job_count)];
        sim_trace(sim, "job %d is cancelled", victim->number);
        job_cancel(&victim->job);
    }
}

/* Jobs that this step has to end, whatever else it does. */
void clients_mark_ends(struct sim *sim)
{
    for (int32_t i = 0; i < sim->job_count; i++) {
        struct job *job = &sim->jobs[i]->job;
        bool late = job->plan.deadline_us != 0 && sim->now_us >= job->plan.deadline_us;
        bool waited = job->plan.start_by_us != 0 && sim->now_us >= job->plan.start_by_us &&
                      job->times.started == 0;
        sim->jobs[i]->must_end = atomic_load(&job->cancelled) || late || waited;
    }
}

/* A job has ended: why, what its client got, and whether the answer is right. */
static void check_end(struct sim *sim, struct sim_job *sim_job)
{
    struct job *job = &sim_job->job;
    bool may = job->err == ERR_OK || job->err == ERR_NON_FINITE ||
               (job->err == ERR_CANCELLED && atomic_load(&job->cancelled)) ||
               (job->err == ERR_DEADLINE && sim_job->must_end && !atomic_load(&job->cancelled));
    if (!may) {
        sim_fail(sim, "result", "job %d ended as %s", sim_job->number, err_word(job->err));
    }
    take_events(sim, sim_job);
    for (int32_t i = 0; job->plan.stream && i < job->plan.item_count; i++) {
        if (sim_job->heard[i].events != job->results[i].generated_tokens) {
            sim_fail(sim, "events", "job %d, item %d: %d events for %d tokens", sim_job->number, i,
                sim_job->heard[i].events, job->results[i].generated_tokens);
        }
    }
    alone_compare(sim, sim_job);
}

void clients_leave(struct sim *sim)
{
    int32_t kept = 0;
    for (int32_t i = 0; i < sim->job_count; i++) {
        struct sim_job *sim_job = sim->jobs[i];
        if (sim_job->ended == 0) {
            sim->jobs[kept++] = sim_job;
            continue;
        }
        check_end(sim, sim_job);
        ring_free(&sim_job->job.events);
        arena_drop(&sim_job->job.results_arena);
        free(sim_job);
    }
    sim->job_count = kept;
}
