/*
 * Goal: whether K/V were found, lost and computed again, or neither, no answer changes; what is
 * shared is computed once; nobody waits for ever for pages, and all of them come back.
 * Method: the real scheduler, reuse store, sequences and pages over the checking network of
 * fake_network.h. Plans that begin alike run alone without a store, then together in pools so small
 * that they preempt one another. The seed of a failing round is printed.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "engine/engine.h"
#include "tests/unit/sched/fake_host.h"
#include "tests/unit/sched/random_round.h"

enum { CONTEXT_PAGES = FAKE_CONTEXT / FAKE_PAGE_SLOTS };

static struct engine_stats stats_of(const struct fake_host *host)
{
    struct engine_stats stats = {0};
    scheduler_stats(host->scheduler, &stats);
    return stats;
}

/* At rest nobody holds a page but the store. */
static void assert_at_rest(const struct fake_host *host)
{
    struct engine_stats stats = stats_of(host);
    assert_int_equal(stats.pages_used, 0);
    assert_int_equal(stats.pages_shared, 0);
    assert_int_equal(stats.sequences_running, 0);
    assert_int_equal(stats.pages_free + stats.pages_kept, host->pages.count);
}

static void add_stats(struct engine_stats *sum, const struct fake_host *host)
{
    struct engine_stats stats = stats_of(host);
    sum->preemptions += stats.preemptions;
    for (int32_t k = 0; k < KIND_COUNT; k++) {
        sum->cached_tokens[k] += stats.cached_tokens[k];
    }
    for (int32_t s = 0; s < REUSE_STORES; s++) {
        sum->reuse_hits[s] += stats.reuse_hits[s];
        sum->reuse_misses[s] += stats.reuse_misses[s];
    }
}

static void round_together(uint64_t seed, struct engine_stats *sum)
{
    struct dice dice = {.seed = seed};
    struct fake_host plain, shared;
    fake_host_open_cache(&plain, 1, CONTEXT_PAGES, 256, 1, 0, FAKE_CONTEXT);
    int32_t pages = CONTEXT_PAGES + roll(&dice, CONTEXT_PAGES);
    fake_host_open_cache(&shared, 3 + roll(&dice, 12), pages, 8 + roll(&dice, 80),
        1 + roll(&dice, 3), roll(&dice, pages + 1), 1 + roll(&dice, 12));
    random_round(&plain, &shared, &dice, related_plan);
    assert_int_equal(stats_of(&plain).pages_kept, 0);
    assert_at_rest(&plain);
    assert_at_rest(&shared);
    add_stats(sum, &shared);
    fake_host_close(&plain);
    fake_host_close(&shared);
}

static void test_same_alone_and_sharing(void **state)
{
    (void)state;
    struct engine_stats sum = {0};
    for (uint64_t seed = 1; seed <= 60; seed++) {
        print_message("seed %llu\n", (unsigned long long)seed);
        round_together(seed, &sum);
    }
    print_message("%llu preemptions, %llu of %llu prefixes and %llu of %llu blocks found\n",
        (unsigned long long)sum.preemptions, (unsigned long long)sum.reuse_hits[REUSE_PREFIX],
        (unsigned long long)(sum.reuse_hits[REUSE_PREFIX] + sum.reuse_misses[REUSE_PREFIX]),
        (unsigned long long)sum.reuse_hits[REUSE_CONTEXT],
        (unsigned long long)(sum.reuse_hits[REUSE_CONTEXT] + sum.reuse_misses[REUSE_CONTEXT]));
    /* The rounds mean nothing unless all of this happened in them, often. */
    assert_true(sum.preemptions > 30);
    assert_true(sum.reuse_hits[REUSE_PREFIX] > 50 && sum.reuse_misses[REUSE_PREFIX] > 100);
    assert_true(sum.reuse_hits[REUSE_CONTEXT] > 30 && sum.reuse_misses[REUSE_CONTEXT] > 100);
}

/* ---- what is computed ---------------------------------------------------------------------- */

/* A plan on tokens base, base + 1, ...: decodes tokens_max each in `items` items. */
static struct job *make_job(struct fake_host *host, struct random_plan *p, enum kind kind,
    int32_t base, int32_t prompt, int32_t tokens_max, int32_t items)
{
    memset(p, 0, sizeof *p);
    for (int32_t i = 0; i < PLAN_TOKENS; i++) {
        p->tokens[i] = base + i;
    }
    for (int32_t i = 0; i < items; i++) {
        p->steps[i] = (struct plan_step){.kind = STEP_DECODE,
            .read_row = kind == KIND_INFILL ? 7 + i : -1,
            .position = -1,
            .tokens_max = tokens_max,
            .ban_end = true};
        p->items[i] = (struct plan_item){.tokens = p->tokens,
            .token_count = prompt,
            .context_count = kind == KIND_INFILL ? prompt : 0,
            .steps = &p->steps[i],
            .step_count = 1,
            .sampling = {.top_p = 1,
                .typical_p = 1,
                .repetition_penalty = 1,
                .temperature = 1,
                .sample_index = (uint32_t)i}};
    }
    p->plan = (struct plan){.kind = kind, .items = p->items, .item_count = items};
    struct job *job = fake_job(host);
    job->plan = p->plan;
    return job;
}

static uint64_t rows_of(const struct fake_host *host)
{
    struct engine_stats stats = stats_of(host);
    uint64_t rows = 0;
    for (int32_t k = 0; k < KIND_COUNT; k++) {
        rows += stats.step_rows[k];
    }
    return rows;
}

/* Runs the job to its end; returns the rows that took. */
static uint64_t run_job(struct fake_host *host, struct job *job)
{
    uint64_t before = rows_of(host);
    fake_job_submit(host, job);
    fake_host_run(host, 2000);
    assert_int_equal(job->err, ERR_OK);
    return rows_of(host) - before;
}

/* Samples of one prompt: the prompt once, then its last row and the decodes of each. */
static void test_samples_share_their_prompt(void **state)
{
    (void)state;
    struct fake_host host;
    struct random_plan plan;
    fake_host_open(&host, 4, 64, 64, 1);
    struct job *job = make_job(&host, &plan, KIND_GENERATE, 10, 100, 5, 3);
    assert_int_equal(run_job(&host, job), 100 + 2 + 3 * 4);
    assert_int_equal(job->results[0].cached_tokens, 0);
    assert_int_equal(job->results[1].cached_tokens, 99);
    assert_int_equal(job->results[2].cached_tokens, 99);
    assert_at_rest(&host);
    fake_job_free(job);
    fake_host_close(&host);
}

/* Gaps of one context: the block once, then one row for each gap that did not come with it. */
static void test_gaps_share_their_context(void **state)
{
    (void)state;
    struct fake_host host;
    struct random_plan plan;
    fake_host_open(&host, 4, 64, 64, 1);
    struct job *job = make_job(&host, &plan, KIND_INFILL, 10, 60, 5, 3);
    assert_int_equal(run_job(&host, job), 60 + 2 + 3 * 4);
    assert_int_equal(job->results[2].cached_tokens, 59);
    fake_job_free(job);
    /* The same gap again; then a block that is longer by one token shares nothing. */
    job = make_job(&host, &plan, KIND_INFILL, 10, 60, 5, 1);
    assert_int_equal(run_job(&host, job), 1 + 4);
    fake_job_free(job);
    job = make_job(&host, &plan, KIND_INFILL, 10, 61, 5, 1);
    assert_int_equal(run_job(&host, job), 61 + 4);
    assert_int_equal(job->results[0].cached_tokens, 0);
    fake_job_free(job);
    struct engine_stats stats = stats_of(&host);
    assert_int_equal(stats.reuse_hits[REUSE_CONTEXT], 3);
    assert_int_equal(stats.reuse_misses[REUSE_CONTEXT], 2);
    fake_host_close(&host);
}

/* A dialogue's next turn begins with its first and the answer to that; only what follows runs. */
static void test_next_turn_finds_the_answer(void **state)
{
    (void)state;
    struct fake_host host;
    struct random_plan plans[2];
    fake_host_open(&host, 4, 64, 64, 1);
    struct job *first = make_job(&host, &plans[0], KIND_GENERATE, 10, 40, 30, 1);
    assert_int_equal(run_job(&host, first), 40 + 29);
    struct job *second = make_job(&host, &plans[1], KIND_CLASSIFY, 10, 90, 3, 1);
    memcpy(plans[1].tokens + 40, first->results[0].steps[0].tokens, 30 * sizeof(int32_t));
    assert_int_equal(run_job(&host, second), 90 - 69 + 2); /* the 30th token was never fed */
    assert_int_equal(second->results[0].cached_tokens, 69);
    assert_int_equal(stats_of(&host).cached_tokens[KIND_CLASSIFY], 69);
    fake_job_free(first);
    fake_job_free(second);
    fake_host_close(&host);
}

/* Who opts out neither finds nor leaves anything; another salt is another store. */
static void test_salt_and_opting_out(void **state)
{
    (void)state;
    struct fake_host host;
    struct random_plan plan;
    const struct {
        bool off;
        char salt;
        int32_t cached;
    } cases[] = {{true, 0, 0}, {false, 0, 0}, {true, 0, 0}, {false, 7, 0}, {false, 0, 49},
        {false, 7, 49}, {false, 8, 0}};
    fake_host_open(&host, 4, 64, 64, 1);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct job *job = make_job(&host, &plan, KIND_GENERATE, 10, 50, 2, 1);
        job->plan.cache_off = cases[i].off;
        job->plan.cache_salt[0] = cases[i].salt;
        (void)run_job(&host, job);
        assert_int_equal(job->results[0].cached_tokens, cases[i].cached);
        fake_job_free(job);
    }
    fake_host_close(&host);
}

/* A plan over a block of 50 slots, or over as many causal ones. */
static struct job *make_block_job(
    struct fake_host *host, struct random_plan *plan, enum kind kind, bool block)
{
    struct job *job = make_job(host, plan, kind, 10, 50, 2, 1);
    plan->items[0].context_count = block ? 50 : 0;
    return job;
}

/* K/V that were computed with other adapters are other K/V: the same text finds what its own stack
 * left, and nothing else. */
static void test_stacks_share_nothing(void **state)
{
    (void)state;
    struct fake_host host;
    struct random_plan plan;
    const struct {
        enum kind kind;
        bool block, cached; /* a block of /generate has a stack, one of /infill another */
    } cases[] = {{KIND_GENERATE, true, false}, {KIND_INFILL, true, false},
        {KIND_GENERATE, false, false}, {KIND_INFILL, true, true}, {KIND_GENERATE, true, true},
        {KIND_CLASSIFY, false, true}};
    fake_host_open(&host, 4, 64, 64, 1);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct job *job = make_block_job(&host, &plan, cases[i].kind, cases[i].block);
        (void)run_job(&host, job);
        assert_true((job->results[0].cached_tokens > 0) == cases[i].cached);
        fake_job_free(job);
    }
    fake_host_close(&host);
}

/* Nor does a job wait for a block that another stack is computing. */
static void test_stacks_do_not_wait_for_each_other(void **state)
{
    (void)state;
    for (int same = 0; same < 2; same++) {
        struct fake_host host;
        struct random_plan plans[2];
        struct job *jobs[2];
        fake_host_open(&host, 4, 64, 64, 1);
        for (int i = 0; i < 2; i++) {
            enum kind kind = i == 0 || same != 0 ? KIND_INFILL : KIND_GENERATE;
            jobs[i] = make_block_job(&host, &plans[i], kind, true);
            fake_job_submit(&host, jobs[i]);
        }
        fake_host_run(&host, 100);
        assert_true((jobs[1]->results[0].cached_tokens > 0) == (same != 0));
        fake_job_free(jobs[0]);
        fake_job_free(jobs[1]);
        fake_host_close(&host);
    }
}

/* Rows that something is read from are always computed: with prompt log-probabilities all, with
 * the mean all that are pooled. Vectors may use a prompt that others left, and leave none. */
static void test_rows_that_are_read_are_computed(void **state)
{
    (void)state;
    struct fake_host host;
    struct random_plan plan;
    fake_host_open(&host, 4, 64, 64, 1);
    struct job *job = make_job(&host, &plan, KIND_GENERATE, 10, 50, 2, 1);
    (void)run_job(&host, job);
    fake_job_free(job);
    job = make_job(&host, &plan, KIND_GENERATE, 10, 50, 2, 1);
    plan.items[0].prompt_logprobs = true;
    assert_int_equal(run_job(&host, job), 50 + 1);
    fake_job_free(job);
    const struct {
        enum pooling pooling;
        int32_t from, rows;
    } cases[] = {{POOLING_MEAN, 0, 60}, {POOLING_MEAN, 20, 40}, {POOLING_LAST, 0, 10}};
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        job = make_job(&host, &plan, KIND_EMBED, 10, 60, 0, 1);
        plan.items[0].step_count = 0;
        plan.items[0].pooling = cases[i].pooling;
        plan.items[0].pool_from = cases[i].from;
        assert_int_equal(run_job(&host, job), cases[i].rows);
        fake_job_free(job);
    }
    fake_host_close(&host);
}

/* ---- too little memory --------------------------------------------------------------------- */

enum { STREAMS = 8, STREAM_TOKENS = FAKE_CONTEXT - 6 };

/* Eight sequences that each come to fill all pages there are. */
static void run_streams(int32_t reuse_pages, int32_t reserve, struct engine_stats *out_stats)
{
    struct fake_host host;
    struct random_plan plans[STREAMS];
    struct job *jobs[STREAMS];
    int32_t alone[STREAMS][STREAM_TOKENS];
    fake_host_open_cache(&host, 1, CONTEXT_PAGES, 64, 1, 0, FAKE_CONTEXT);
    for (int32_t i = 0; i < STREAMS; i++) {
        jobs[i] = make_job(&host, &plans[i], KIND_GENERATE, 10 + i, 6, STREAM_TOKENS, 1);
        (void)run_job(&host, jobs[i]);
        memcpy(alone[i], jobs[i]->results[0].steps[0].tokens, sizeof alone[i]);
        fake_job_free(jobs[i]);
    }
    fake_host_close(&host);
    fake_host_open_cache(&host, STREAMS, CONTEXT_PAGES, 64, 1, reuse_pages, reserve);
    for (int32_t i = 0; i < STREAMS; i++) {
        jobs[i] = make_job(&host, &plans[i], KIND_GENERATE, 10 + i, 6, STREAM_TOKENS, 1);
        fake_job_submit(&host, jobs[i]);
    }
    fake_host_run(&host, 4 * STREAMS * STREAM_TOKENS);
    for (int32_t i = 0; i < STREAMS; i++) {
        assert_int_equal(jobs[i]->results[0].generated_tokens, STREAM_TOKENS);
        assert_memory_equal(jobs[i]->results[0].steps[0].tokens, alone[i], sizeof alone[i]);
        fake_job_free(jobs[i]);
    }
    assert_at_rest(&host);
    *out_stats = stats_of(&host);
    fake_host_close(&host);
}

static void test_exhaustion_preempts_and_all_finish(void **state)
{
    (void)state;
    struct engine_stats stats;
    run_streams(0, 1, &stats);
    assert_in_range(stats.preemptions, STREAMS / 2, 100 * STREAMS);
    assert_int_equal(stats.pages_kept, 0);
    run_streams(CONTEXT_PAGES, 16, &stats);
    assert_in_range(stats.preemptions, STREAMS / 2, 100 * STREAMS);
    assert_true(stats.pages_kept > 0);
}

static struct job *make_vector(
    struct fake_host *host, struct random_plan *plan, int32_t tokens, bool causal)
{
    struct job *job = make_job(host, plan, KIND_EMBED, 30 + tokens, tokens, 0, 1);
    plan->items[0].step_count = 0;
    plan->items[0].context_count = causal ? 0 : tokens;
    plan->items[0].pooling = POOLING_MEAN;
    return job;
}

/* Texts that only become vectors take no page: while a stream holds all there are, short ones run
 * in one pass, a long one that sees itself both ways in slices, and nobody is preempted. A causal
 * one that does not fit a step is not among them. */
static void test_vectors_need_no_pages(void **state)
{
    (void)state;
    static const struct {
        int32_t tokens;
        bool causal, done;
    } cases[] = {{20, false, true}, {PLAN_TOKENS, false, true}, {10, true, true},
        {PLAN_TOKENS, true, false}};
    struct fake_host plain, host;
    struct random_plan stream, plans[ARRAY_COUNT(cases)];
    struct job *alone[ARRAY_COUNT(cases)], *jobs[ARRAY_COUNT(cases)];
    fake_host_open_cache(&plain, 1, CONTEXT_PAGES, 256, 1, 0, FAKE_CONTEXT);
    fake_host_open_cache(&host, 8, CONTEXT_PAGES, PLAN_TOKENS - 10, 1, 0, FAKE_CONTEXT);
    struct job *all = make_job(&host, &stream, KIND_GENERATE, 10, 6, STREAM_TOKENS, 1);
    fake_job_submit(&host, all);
    assert_true(scheduler_step(host.scheduler));
    assert_int_equal(stats_of(&host).pages_free, 0);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        alone[i] = make_vector(&plain, &plans[i], cases[i].tokens, cases[i].causal);
        (void)run_job(&plain, alone[i]);
        jobs[i] = make_vector(&host, &plans[i], cases[i].tokens, cases[i].causal);
        fake_job_submit(&host, jobs[i]);
    }
    for (int32_t i = 0; i < STREAM_TOKENS / 2; i++) {
        assert_true(scheduler_step(host.scheduler));
    }
    assert_false(atomic_load(&all->done));
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        assert_int_equal(atomic_load(&jobs[i]->done), cases[i].done);
    }
    fake_host_run(&host, 2000);
    assert_int_equal(stats_of(&host).preemptions, 0);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        assert_same_results(alone[i], jobs[i]);
        fake_job_free(alone[i]);
        fake_job_free(jobs[i]);
    }
    fake_job_free(all);
    assert_at_rest(&host);
    fake_host_close(&plain);
    fake_host_close(&host);
}

/* Whoever holds all it may need from the start is never preempted. */
static void test_strict_reserve_never_preempts(void **state)
{
    (void)state;
    struct engine_stats stats;
    run_streams(CONTEXT_PAGES, FAKE_CONTEXT, &stats);
    assert_int_equal(stats.preemptions, 0);
}

/* A stream whose client does not read holds no page that another wants. */
static void test_blocked_stream_gives_way(void **state)
{
    (void)state;
    struct fake_host host;
    struct random_plan plans[2];
    fake_host_open_cache(&host, 2, CONTEXT_PAGES, 64, 1, 0, FAKE_CONTEXT);
    struct job *slow = make_job(&host, &plans[0], KIND_GENERATE, 10, 6, STREAM_TOKENS, 1);
    struct job *other = make_job(&host, &plans[1], KIND_GENERATE, 30, 6, STREAM_TOKENS, 1);
    slow->plan.stream = true;
    fake_job_submit(&host, slow);
    while (scheduler_step(host.scheduler)) {
    }
    assert_int_equal(stats_of(&host).pages_free, 0);
    fake_job_submit(&host, other);
    while (scheduler_step(host.scheduler)) {
    }
    assert_true(atomic_load(&other->done));
    assert_int_equal(stats_of(&host).preemptions, 1);
    struct token_event event;
    int32_t events = 0;
    while (!atomic_load(&slow->done)) {
        while (ring_pop(&slow->events, &event)) {
            assert_int_equal(event.index, events++);
        }
        (void)scheduler_step(host.scheduler);
    }
    assert_int_equal(slow->results[0].generated_tokens, STREAM_TOKENS);
    fake_job_free(slow);
    fake_job_free(other);
    fake_host_close(&host);
}

/* Cancelling whoever others wait for, or who is preempted, ends only that one. */
static void test_cancel_of_a_leader_and_of_a_paused(void **state)
{
    (void)state;
    struct fake_host host;
    struct random_plan plans[3];
    struct job *jobs[3];
    fake_host_open_cache(&host, 3, CONTEXT_PAGES, 16, 1, CONTEXT_PAGES, 1);
    for (int32_t i = 0; i < 3; i++) {
        jobs[i] = make_job(&host, &plans[i], KIND_GENERATE, 10, 100, 100, 1);
        fake_job_submit(&host, jobs[i]);
    }
    (void)scheduler_step(host.scheduler);
    assert_int_equal(stats_of(&host).sequences_running, 1); /* the others wait for its prompt */
    job_cancel(jobs[0]);
    while (stats_of(&host).preemptions == 0) {
        assert_true(scheduler_step(host.scheduler));
    }
    assert_int_equal(jobs[0]->err, ERR_CANCELLED);
    job_cancel(jobs[2]); /* the younger one was preempted */
    fake_host_run(&host, 2000);
    assert_int_equal(jobs[1]->err, ERR_OK);
    assert_int_equal(jobs[1]->results[0].generated_tokens, 100);
    assert_int_equal(jobs[2]->err, ERR_CANCELLED);
    assert_at_rest(&host);
    for (int32_t i = 0; i < 3; i++) {
        fake_job_free(jobs[i]);
    }
    fake_host_close(&host);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_alone_and_sharing),
        cmocka_unit_test(test_samples_share_their_prompt),
        cmocka_unit_test(test_gaps_share_their_context),
        cmocka_unit_test(test_next_turn_finds_the_answer),
        cmocka_unit_test(test_salt_and_opting_out),
        cmocka_unit_test(test_stacks_share_nothing),
        cmocka_unit_test(test_stacks_do_not_wait_for_each_other),
        cmocka_unit_test(test_rows_that_are_read_are_computed),
        cmocka_unit_test(test_exhaustion_preempts_and_all_finish),
        cmocka_unit_test(test_vectors_need_no_pages),
        cmocka_unit_test(test_strict_reserve_never_preempts),
        cmocka_unit_test(test_blocked_stream_gives_way),
        cmocka_unit_test(test_cancel_of_a_leader_and_of_a_paused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
