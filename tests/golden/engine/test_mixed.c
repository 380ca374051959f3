/*
 * Goal: in one engine, requests of all four kinds share forward passes, and no answer depends on
 * who shared them, on the number of threads, on the size of a step, on keys and values that were
 * found instead of computed, or on how often a sequence was put back and computed again.
 * Method: random plans, many of which begin alike, run one at a time on one thread of an engine
 * that reuses nothing; then all of them are queued behind a start gate and released at once on
 * other engines over the same weights. Answers are compared bit for bit, and counters must show
 * that what the test is about happened: kinds that shared steps, tokens found, sequences preempted.
 *
 * With adapters, which lie on some of the rows, the answers of /generate and /classify are also
 * those of an engine that has none.
 *
 * usage: test_mixed MODEL JOBS [int8] [ADAPTER...], int8: with 8-bit activations; exits 77 when the
 * model is absent.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "engine/cache/pages.h"
#include "engine/engine.h"
#include "tests/unit/sched/random_plan.h"

enum { JOBS_MAX = 256, CONTEXT = 256 };

static const char *model_path;
static int32_t job_count;
static bool int8_activations;
static char **adapters;
static int32_t adapter_count;
static struct random_plan *plans;
static struct job *alone[JOBS_MAX];
static struct engine *alone_engine;

static struct engine *open_plain(struct engine_config config)
{
    struct engine *engine;
    struct err_info info = {0};
    config.model_path = model_path;
    config.context = CONTEXT;
    config.jobs = JOBS_MAX;
    config.int8_activations = int8_activations;
    if (engine_open(&config, &engine, &info) != ERR_OK) {
        fail_msg("%s: %s", info.where, info.text);
    }
    return engine;
}

static struct engine *open_engine(struct engine_config config)
{
    config.adapter_count = adapter_count;
    for (int32_t i = 0; i < adapter_count; i++) {
        config.adapters[i] = adapters[i];
    }
    return open_plain(config);
}

static struct job *submit(struct engine *engine, const struct plan *plan)
{
    struct job *job;
    struct err_info info = {0};
    assert_int_equal(engine_acquire(engine, &job), ERR_OK);
    job->plan = *plan;
    if (engine_submit(engine, job, &info) != ERR_OK) {
        fail_msg("%s: %s", info.where, info.text);
    }
    return job;
}

static int setup(void **state)
{
    (void)state;
    alone_engine = open_engine(
        (struct engine_config){.threads = 1, .reuse_percent = -1, .reserve_tokens = CONTEXT});
    int32_t vocab = engine_model(alone_engine)->vocab;
    plans = calloc((size_t)job_count, sizeof *plans);
    struct dice dice = {.seed = 2026};
    for (int32_t i = 0; i < job_count; i++) {
        related_plan(&plans[i], &dice, vocab);
        alone[i] = submit(alone_engine, &plans[i].plan);
        engine_wait(alone_engine, alone[i]);
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (int32_t i = 0; i < job_count; i++) {
        engine_release(alone_engine, alone[i]);
    }
    engine_close(alone_engine);
    free(plans);
    return 0;
}

static void assert_counts(struct engine *engine, uint64_t expected)
{
    struct engine_stats stats;
    engine_stats(engine, &stats);
    uint64_t shared = 0, completed = 0, in_flight = 0;
    for (int32_t k = 0; k < KIND_COUNT; k++) {
        completed += stats.completed[k];
        in_flight += stats.in_flight[k];
        shared += k >= 1 ? stats.step_kinds[k + 1] : 0;
    }
    assert_true(shared > 0);
    assert_int_equal(completed, expected);
    assert_int_equal(in_flight, 0);
    assert_int_equal(stats.pages_used, 0);
    assert_int_equal(stats.sequences_running, 0);
    print_message("steps with 1..4 kinds: %llu %llu %llu %llu\n",
        (unsigned long long)stats.step_kinds[1], (unsigned long long)stats.step_kinds[2],
        (unsigned long long)stats.step_kinds[3], (unsigned long long)stats.step_kinds[4]);
}

/* All plans at once; returns what the engine counted. */
static struct engine_stats compare(struct engine_config config)
{
    config.start_paused = true;
    struct engine *engine = open_engine(config);
    struct job *jobs[JOBS_MAX];
    struct engine_stats stats;
    for (int32_t i = 0; i < job_count; i++) {
        jobs[i] = submit(engine, &plans[i].plan);
    }
    engine_resume(engine);
    for (int32_t i = 0; i < job_count; i++) {
        engine_wait(engine, jobs[i]);
        assert_same_results(alone[i], jobs[i]);
        engine_release(engine, jobs[i]);
    }
    assert_counts(engine, (uint64_t)job_count);
    engine_stats(engine, &stats);
    engine_close(engine);
    return stats;
}

static uint64_t cached_tokens(const struct engine_stats *stats)
{
    uint64_t count = 0;
    for (int32_t k = 0; k < KIND_COUNT; k++) {
        count += stats->cached_tokens[k];
    }
    return count;
}

static void test_full_batch(void **state)
{
    (void)state;
    struct engine_stats stats = compare((struct engine_config){.threads = 1, .sequences = 64});
    assert_true(cached_tokens(&stats) > 0);
    stats = compare((struct engine_config){.threads = 1, .sequences = 64, .reuse_percent = -1});
    assert_int_equal(cached_tokens(&stats), 0);
    assert_int_equal(stats.pages_kept, 0);
}

static void test_threads(void **state)
{
    (void)state;
    (void)compare((struct engine_config){.threads = 3, .sequences = 64});
}

/* Steps so small that context blocks run unit by unit and prompts come in crumbs. */
static void test_small_steps(void **state)
{
    (void)state;
    (void)compare(
        (struct engine_config){.threads = 2, .sequences = 7, .step_rows = 24, .step_us = 1});
}

/* One bulk request more than may wait is refused; others still get in. */
static void test_bulk_has_a_bound_of_its_own(void **state)
{
    (void)state;
    struct engine *engine = open_engine(
        (struct engine_config){.threads = 1, .jobs = 8, .jobs_bulk = 2, .start_paused = true});
    struct job *jobs[4], *refused;
    struct err_info info = {0};
    for (int32_t i = 0; i < 2; i++) {
        struct plan bulk = plans[i].plan;
        bulk.urgency = URGENCY_BULK;
        jobs[i] = submit(engine, &bulk);
    }
    assert_int_equal(engine_acquire(engine, &refused), ERR_OK);
    refused->plan = plans[2].plan;
    refused->plan.urgency = URGENCY_BULK;
    assert_int_equal(engine_submit(engine, refused, &info), ERR_BUSY);
    engine_release(engine, refused);
    jobs[2] = submit(engine, &plans[2].plan);
    engine_resume(engine);
    for (int32_t i = 0; i < 3; i++) {
        engine_wait(engine, jobs[i]);
        assert_same_results(alone[i], jobs[i]);
        engine_release(engine, jobs[i]);
    }
    struct engine_stats stats;
    engine_stats(engine, &stats);
    uint64_t received = 0, completed = 0, rejected = 0;
    for (int32_t k = 0; k < KIND_COUNT; k++) {
        received += stats.received[k];
        completed += stats.completed[k];
        rejected += stats.rejected[k];
    }
    assert_int_equal(received, 4);
    assert_int_equal(completed, 3);
    assert_int_equal(rejected, 1);
    assert_int_equal(stats.queue_depth, 0);
    assert_int_equal(stats.accepted[CLASS_BULK], 2);
    engine_close(engine);
}

/* One after the other, twice: the second time every prompt that may be reused is there. */
static void test_warm(void **state)
{
    (void)state;
    struct engine *engine = open_engine((struct engine_config){.threads = 2});
    struct engine_stats stats;
    uint64_t cached[2];
    for (int32_t round = 0; round < 2; round++) {
        for (int32_t i = 0; i < job_count; i++) {
            struct job *job = submit(engine, &plans[i].plan);
            engine_wait(engine, job);
            assert_same_results(alone[i], job);
            engine_release(engine, job);
        }
        engine_stats(engine, &stats);
        cached[round] = cached_tokens(&stats);
    }
    assert_true(cached[0] > 0 && cached[1] - cached[0] > cached[0]);
    assert_true(stats.reuse_hits[REUSE_PREFIX] > 0 && stats.reuse_hits[REUSE_CONTEXT] > 0);
    engine_close(engine);
}

/* Pages for one context and a half, and sequences that start with hardly more than their prompt. */
static void test_preempted(void **state)
{
    (void)state;
    const struct model_info *about = engine_model(alone_engine);
    int32_t page_slots = engine_memory(alone_engine)->page_slots;
    uint64_t page =
        pages_page_bytes(KV_F16, about->layers, about->heads_kv, about->head_dim, page_slots);
    struct engine_config config = {.threads = 2,
        .sequences = 16,
        .cache_bytes = page * (uint64_t)(CONTEXT * 3 / 2 / page_slots),
        .reserve_tokens = 1};
    struct engine_stats stats = compare(config);
    assert_true(stats.preemptions > 0);
    config.reuse_percent = -1;
    stats = compare(config);
    assert_true(stats.preemptions > 0);
    assert_int_equal(cached_tokens(&stats), 0);
}

/* Whether what came of an item's block is another vector or other fills. */
static bool differs(
    const struct plan_item *item, const struct item_result *a, const struct item_result *b)
{
    bool any = a->vector != NULL && item->context_count > 0 &&
               memcmp(a->vector, b->vector, (size_t)a->vector_dim * sizeof(float)) != 0;
    for (int32_t s = 0; s < item->step_count; s++) {
        any |= a->steps[s].token_count != b->steps[s].token_count ||
               memcmp(a->steps[s].tokens, b->steps[s].tokens,
                   (size_t)a->steps[s].token_count * sizeof(int32_t)) != 0;
    }
    return any;
}

/* Rows without adapters have the bits of a model without; and those with have others. */
static void test_modes_without_adapters(void **state)
{
    (void)state;
    struct engine *engine = open_plain((struct engine_config){.threads = 2});
    int32_t equal = 0, other = 0;
    for (int32_t i = 0; i < job_count; i++) {
        struct job *job = submit(engine, &plans[i].plan);
        engine_wait(engine, job);
        bool bare = plans[i].plan.kind == KIND_GENERATE || plans[i].plan.kind == KIND_CLASSIFY;
        if (bare) {
            assert_same_results(alone[i], job);
            equal++;
        }
        for (int32_t k = 0; !bare && k < plans[i].plan.item_count; k++) {
            other += differs(&plans[i].items[k], &alone[i]->results[k], &job->results[k]);
        }
        engine_release(engine, job);
    }
    print_message("%d jobs as without adapters, %d items not\n", equal, other);
    assert_true(equal > 0);
    assert_true((other > 0) == (adapter_count > 0));
    engine_close(engine);
}

int main(int argc, char **argv)
{
    if (argc < 3 || access(argv[1], R_OK) != 0) {
        (void)printf("SKIP: the model is not there\n");
        return 77;
    }
    model_path = argv[1];
    job_count = (int32_t)strtol(argv[2], NULL, 10);
    int8_activations = argc > 3 && strcmp(argv[3], "int8") == 0;
    adapters = argv + 3 + int8_activations;
    adapter_count = argc - 3 - int8_activations;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full_batch),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_small_steps),
        cmocka_unit_test(test_bulk_has_a_bound_of_its_own),
        cmocka_unit_test(test_warm),
        cmocka_unit_test(test_preempted),
        cmocka_unit_test(test_modes_without_adapters),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
