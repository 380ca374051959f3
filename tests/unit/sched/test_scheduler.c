/*
 * Goal: whatever runs beside it, in whatever pieces, a plan gets the answer it gets alone; every
 * job ends exactly once; nothing leaks.
 * Method: the real scheduler, sequences, pages and samplers over the hash network of fake_host.h.
 * Random plans of all four kinds run alone, then all together under small pools and budgets, with
 * cancels and deadlines. The seed of a failing round is printed.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "engine/engine.h"
#include "tests/unit/sched/fake_host.h"
#include "tests/unit/sched/random_round.h"

/* One round: ROUND_JOBS plans alone on a roomy scheduler, then together on a cramped one. */
static void round_alone_and_together(uint64_t seed)
{
    struct dice dice = {.seed = seed};
    struct fake_host roomy, cramped;
    fake_host_open(&roomy, 4, 64, 256, 1);
    fake_host_open(&cramped, 2 + roll(&dice, 10), 16 + roll(&dice, 32), 8 + roll(&dice, 80),
        1 + roll(&dice, 3));
    random_round(&roomy, &cramped, &dice, random_plan);
    assert_int_equal(cramped.done_count, ROUND_JOBS);
    fake_host_close(&roomy);
    fake_host_close(&cramped);
}

static void test_same_alone_and_together(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        print_message("seed %llu\n", (unsigned long long)seed);
        round_alone_and_together(seed);
    }
}

/* Cancels at random moments: the others' answers stay, each job ends once, pages return. */
static void round_cancels(uint64_t seed)
{
    struct dice dice = {.seed = seed};
    struct random_plan *plans = calloc(ROUND_JOBS, sizeof *plans);
    struct job *jobs[ROUND_JOBS];
    struct fake_host host;
    fake_host_open(&host, 6, 40, 48, 1);
    for (int32_t i = 0; i < ROUND_JOBS; i++) {
        random_plan(&plans[i], &dice, FAKE_VOCAB);
        jobs[i] = fake_job(&host);
        jobs[i]->plan = plans[i].plan;
        fake_job_submit(&host, jobs[i]);
    }
    int32_t steps = 0, cancels = 0;
    while (scheduler_busy(host.scheduler)) {
        if (roll(&dice, 2) == 0) {
            struct job *victim = jobs[roll(&dice, ROUND_JOBS)];
            cancels += !atomic_load(&victim->done) && !atomic_load(&victim->cancelled);
            job_cancel(victim);
        }
        (void)scheduler_step(host.scheduler);
        assert_in_range(steps++, 0, 20000);
    }
    int32_t cancelled = 0;
    for (int32_t i = 0; i < ROUND_JOBS; i++) {
        assert_true(atomic_load(&jobs[i]->done));
        cancelled += jobs[i]->err == ERR_CANCELLED;
    }
    assert_int_equal(cancelled, cancels);
    struct engine_stats stats = {0};
    scheduler_stats(host.scheduler, &stats);
    uint64_t ended = 0;
    for (int32_t k = 0; k < KIND_COUNT; k++) {
        ended += stats.completed[k] + stats.cancelled[k] + stats.failed[k];
    }
    assert_int_equal(ended, ROUND_JOBS);
    assert_int_equal(stats.sequences_running, 0);
    for (int32_t i = 0; i < ROUND_JOBS; i++) {
        fake_job_free(jobs[i]);
    }
    fake_host_close(&host);
    free(plans);
}

static void test_cancels(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        print_message("seed %llu\n", (unsigned long long)seed);
        round_cancels(seed);
    }
}

static struct job *simple_job(struct fake_host *host, struct random_plan *p, enum kind kind,
    int32_t prompt, int32_t tokens_max)
{
    memset(p, 0, sizeof *p);
    for (int32_t i = 0; i < PLAN_TOKENS; i++) {
        p->tokens[i] = 10 + i;
    }
    p->items[0] = (struct plan_item){.tokens = p->tokens,
        .token_count = prompt,
        .context_count = kind == KIND_EMBED ? prompt : 0,
        .pooling = kind == KIND_EMBED ? POOLING_MEAN : POOLING_NONE,
        .steps = p->steps,
        .step_count = kind == KIND_EMBED ? 0 : 1,
        .sampling = {.top_p = 1, .typical_p = 1, .repetition_penalty = 1}};
    p->steps[0] = (struct plan_step){.kind = STEP_DECODE,
        .read_row = -1,
        .position = -1,
        .tokens_max = tokens_max,
        .ban_end = true};
    p->plan = (struct plan){.kind = kind, .items = p->items, .item_count = 1};
    struct job *job = fake_job(host);
    job->plan = p->plan;
    return job;
}

static void test_poisoned_row_fails_alone(void **state)
{
    (void)state;
    struct fake_host host;
    fake_host_open(&host, 4, 64, 64, 1);
    struct random_plan plans[2];
    struct job *bad = simple_job(&host, &plans[0], KIND_GENERATE, 5, 4);
    struct job *good = simple_job(&host, &plans[1], KIND_GENERATE, 6, 4);
    plans[0].tokens[2] = host.network.poison_token = 299;
    fake_job_submit(&host, bad);
    fake_job_submit(&host, good);
    fake_host_run(&host, 50);
    assert_int_equal(bad->err, ERR_NON_FINITE);
    assert_int_equal(good->err, ERR_OK);
    assert_int_equal(good->results[0].generated_tokens, 4);
    fake_job_free(bad);
    fake_job_free(good);
    fake_host_close(&host);
}

/* The same for a block that runs unit by unit: a pass over later units starts without the failure
 * of an earlier one, so the scheduler has to remember it. */
static void test_poisoned_block_in_slices_fails(void **state)
{
    (void)state;
    struct fake_host host;
    fake_host_open(&host, 4, 64, 64, 1);
    struct random_plan plan;
    struct job *job = simple_job(&host, &plan, KIND_EMBED, 120, 0);
    plan.tokens[70] = host.network.poison_token = 299;
    fake_job_submit(&host, job);
    fake_host_run(&host, 50);
    assert_int_equal(job->err, ERR_NON_FINITE);
    fake_job_free(job);
    fake_host_close(&host);
}

static void test_deadline_ends_job(void **state)
{
    (void)state;
    struct fake_host host;
    fake_host_open(&host, 4, 64, 64, 1);
    struct random_plan plan;
    struct job *job = simple_job(&host, &plan, KIND_GENERATE, 5, 100);
    job->plan.deadline_us = 10 * host.step_us;
    fake_job_submit(&host, job);
    fake_host_run(&host, 20);
    assert_int_equal(job->err, ERR_DEADLINE);
    assert_in_range(job->results[0].generated_tokens, 5, 12);
    fake_job_free(job);
    fake_host_close(&host);
}

/* One sequence only: the second job waits behind a long first one and is given up in the queue. A
 * job that started in time is not touched, however long it takes. */
static void test_job_that_waits_too_long_ends(void **state)
{
    (void)state;
    struct fake_host host;
    fake_host_open(&host, 1, 64, 64, 1);
    struct random_plan plans[2];
    struct job *first = simple_job(&host, &plans[0], KIND_GENERATE, 5, 40);
    struct job *second = simple_job(&host, &plans[1], KIND_GENERATE, 5, 40);
    first->plan.start_by_us = second->plan.start_by_us = 10 * host.step_us;
    fake_job_submit(&host, first);
    fake_job_submit(&host, second);
    fake_host_run(&host, 100);
    assert_int_equal(first->err, ERR_OK);
    assert_int_equal(first->results[0].generated_tokens, 40);
    assert_int_equal(second->err, ERR_DEADLINE);
    assert_int_equal(second->times.started, 0);
    fake_job_free(first);
    fake_job_free(second);
    fake_host_close(&host);
}

/* A stream whose client does not read pauses; the neighbour goes on; reading resumes it. */
static void test_full_event_ring_pauses_only_its_stream(void **state)
{
    (void)state;
    struct fake_host host;
    fake_host_open(&host, 4, 64, 64, 1);
    struct random_plan plans[2];
    struct job *slow = simple_job(&host, &plans[0], KIND_GENERATE, 5, 40);
    struct job *other = simple_job(&host, &plans[1], KIND_GENERATE, 5, 40);
    slow->plan.stream = true;
    fake_job_submit(&host, slow);
    fake_job_submit(&host, other);
    while (scheduler_step(host.scheduler)) {
    }
    assert_true(atomic_load(&other->done));
    assert_false(atomic_load(&slow->done));
    assert_int_equal(slow->results[0].generated_tokens, slow->events.capacity);
    struct token_event event;
    int32_t events = 0;
    while (!atomic_load(&slow->done)) {
        while (ring_pop(&slow->events, &event)) {
            assert_int_equal(event.index, events++);
        }
        (void)scheduler_step(host.scheduler);
    }
    while (ring_pop(&slow->events, &event)) {
        assert_int_equal(event.index, events++);
    }
    assert_int_equal(events, 40);
    assert_true(event.last);
    assert_memory_equal(
        slow->results[0].steps[0].tokens, other->results[0].steps[0].tokens, 40 * sizeof(int32_t));
    fake_job_free(slow);
    fake_job_free(other);
    fake_host_close(&host);
}

/* The events of one stream's items, each item's in order and as its results have them; those of
 * all items so far, and how often the next one was of another item. */
struct heard {
    int32_t events[3], changes, item;
    bool ended[3];
};

static void hear(struct job *job, struct heard *heard)
{
    struct token_event event;
    while (ring_pop(&job->events, &event)) {
        const struct step_result *step = &job->results[event.item].steps[0];
        assert_false(heard->ended[event.item]);
        assert_int_equal(event.index, heard->events[event.item]++);
        assert_int_equal(event.token, step->tokens[event.index]);
        heard->ended[event.item] = event.last;
        heard->changes += event.item != heard->item;
        heard->item = event.item;
    }
}

/* Several items of one stream: their events come side by side, all of them wait for a client that
 * does not read, and each says in the end what it says unheard. */
static void test_items_of_a_stream_wait_together(void **state)
{
    (void)state;
    enum { ITEMS = 3, TOKENS = 30 };
    for (int32_t threads = 1; threads <= 2; threads++) {
        struct fake_host host;
        fake_host_open(&host, 4, 64, 64, threads);
        struct random_plan plans[2];
        struct job *jobs[2];
        for (int32_t k = 0; k < 2; k++) {
            jobs[k] = simple_job(&host, &plans[k], KIND_GENERATE, 5, TOKENS);
            plans[k].items[0].sampling.temperature = 1;
            for (int32_t i = 1; i < ITEMS; i++) {
                plans[k].items[i] = plans[k].items[0];
                plans[k].items[i].sampling.sample_index = (uint32_t)i;
            }
            jobs[k]->plan.item_count = ITEMS;
            jobs[k]->plan.stream = k == 0;
        }
        struct job *stream = jobs[0];
        fake_job_submit(&host, stream);
        while (scheduler_step(host.scheduler)) {
        }
        uint32_t waiting = ring_count(&stream->events);
        assert_in_range(waiting, stream->events.capacity - ITEMS + 1, stream->events.capacity);
        fake_job_submit(&host, jobs[1]);
        while (scheduler_step(host.scheduler)) {
        }
        assert_true(atomic_load(&jobs[1]->done));
        struct heard heard = {.item = -1};
        while (!atomic_load(&stream->done)) {
            hear(stream, &heard);
            (void)scheduler_step(host.scheduler);
        }
        hear(stream, &heard);
        assert_true(heard.changes > TOKENS);
        for (int32_t i = 0; i < ITEMS; i++) {
            const struct step_result *step = &stream->results[i].steps[0];
            assert_true(heard.ended[i]);
            assert_int_equal(heard.events[i], step->token_count);
            assert_int_equal(step->token_count, jobs[1]->results[i].steps[0].token_count);
            assert_memory_equal(step->tokens, jobs[1]->results[i].steps[0].tokens,
                (size_t)step->token_count * sizeof(int32_t));
        }
        fake_job_free(stream);
        fake_job_free(jobs[1]);
        fake_host_close(&host);
    }
}

/* All four kinds released together share a step, and the histogram says so. */
static void test_kinds_share_a_step(void **state)
{
    (void)state;
    struct fake_host host;
    fake_host_open(&host, 8, 64, 128, 1);
    struct random_plan plans[KIND_COUNT];
    struct job *jobs[KIND_COUNT];
    for (int32_t k = 0; k < KIND_COUNT; k++) {
        jobs[k] = simple_job(&host, &plans[k], (enum kind)k, 6, 3);
        fake_job_submit(&host, jobs[k]);
    }
    fake_host_run(&host, 50);
    struct engine_stats stats = {0};
    scheduler_stats(host.scheduler, &stats);
    assert_true(stats.step_kinds[KIND_COUNT] >= 1);
    for (int32_t k = 0; k < KIND_COUNT; k++) {
        assert_int_equal(stats.completed[k], 1);
        fake_job_free(jobs[k]);
    }
    fake_host_close(&host);
}

/* Decodes run in every step while a long prompt comes in beside them in small pieces. */
static void test_long_prompt_does_not_hold_up_a_stream(void **state)
{
    (void)state;
    struct fake_host host;
    fake_host_open(&host, 4, 64, 128, 1);
    struct random_plan plans[2];
    struct job *stream = simple_job(&host, &plans[0], KIND_GENERATE, 4, 60);
    struct job *prompt = simple_job(&host, &plans[1], KIND_EMBED, 120, 0);
    fake_job_submit(&host, stream);
    (void)scheduler_step(host.scheduler);
    fake_job_submit(&host, prompt);
    int32_t before = stream->results[0].generated_tokens, steps = 0;
    while (!atomic_load(&prompt->done)) {
        (void)scheduler_step(host.scheduler);
        steps++;
    }
    assert_true(steps >= 4); /* 120 rows, 16 a step beside a decode */
    assert_int_equal(stream->results[0].generated_tokens - before, steps);
    fake_host_run(&host, 100);
    fake_job_free(stream);
    fake_job_free(prompt);
    fake_host_close(&host);
}

/* What a DECODE notes of a watched token is what scoring that token after each prefix gives. */
static void test_watched_token_is_scored(void **state)
{
    (void)state;
    enum { PROMPT = 20, DECODED = 6 };
    struct fake_host host;
    struct random_plan decode, score;
    int32_t watched = 77;
    fake_host_open(&host, 4, 64, 128, 1);
    struct job *job = simple_job(&host, &decode, KIND_GENERATE, PROMPT, DECODED);
    decode.steps[0].watch = &watched;
    decode.items[0].sampling.temperature = 1;
    fake_job_submit(&host, job);
    fake_host_run(&host, 100);
    const struct step_result *step = &job->results[0].steps[0];
    assert_in_range(step->token_count, 2, DECODED);
    for (int32_t k = 0; k < step->token_count; k++) {
        struct job *scoring = simple_job(&host, &score, KIND_GENERATE, PROMPT, DECODED);
        memcpy(score.tokens, decode.tokens, PROMPT * sizeof *score.tokens);
        memcpy(score.tokens + PROMPT, step->tokens, (size_t)k * sizeof *score.tokens);
        score.items[0].token_count = PROMPT + k;
        score.steps[0] = (struct plan_step){.kind = STEP_FORCE,
            .read_row = -1,
            .position = -1,
            .tokens = &watched,
            .token_count = 1};
        fake_job_submit(&host, scoring);
        fake_host_run(&host, 100);
        assert_memory_equal(
            scoring->results[0].steps[0].logprobs, &step->watched[k], sizeof(float));
        fake_job_free(scoring);
    }
    fake_job_free(job);
    fake_host_close(&host);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_alone_and_together),
        cmocka_unit_test(test_cancels),
        cmocka_unit_test(test_poisoned_row_fails_alone),
        cmocka_unit_test(test_poisoned_block_in_slices_fails),
        cmocka_unit_test(test_deadline_ends_job),
        cmocka_unit_test(test_job_that_waits_too_long_ends),
        cmocka_unit_test(test_full_event_ring_pauses_only_its_stream),
        cmocka_unit_test(test_items_of_a_stream_wait_together),
        cmocka_unit_test(test_kinds_share_a_step),
        cmocka_unit_test(test_long_prompt_does_not_hold_up_a_stream),
        cmocka_unit_test(test_watched_token_is_scored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
