/*
 * Goal: an engine of a network without a head makes the same vectors whoever shares the pass,
 * and refuses what needs logits.
 * Method: random plans of vectors, each alone on one thread; then all of them released at once on
 * other engines over the same weights. Answers are compared bit for bit.
 *
 * usage: test_encoder MODEL
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include "engine/engine.h"
#include "tests/unit/sched/random_plan.h"

enum { JOBS = 24 };

static const char *model_path;
static struct random_plan plans[JOBS];
static struct job *alone[JOBS];
static struct engine *alone_engine;

static struct engine *open_engine(struct engine_config config)
{
    struct engine *engine;
    struct err_info info = {0};
    config.model_path = model_path;
    config.jobs = JOBS + 1;
    if (engine_open(&config, &engine, &info) != ERR_OK) {
        fail_msg("%s: %s", info.where, info.text);
    }
    return engine;
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
    alone_engine = open_engine((struct engine_config){.threads = 1});
    struct dice dice = {.seed = 7};
    for (int32_t i = 0; i < JOBS; i++) {
        do {
            random_plan(&plans[i], &dice, engine_model(alone_engine)->vocab);
        } while (plans[i].plan.kind != KIND_EMBED);
        alone[i] = submit(alone_engine, &plans[i].plan);
        engine_wait(alone_engine, alone[i]);
        assert_int_equal(alone[i]->err, ERR_OK);
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (int32_t i = 0; i < JOBS; i++) {
        engine_release(alone_engine, alone[i]);
    }
    engine_close(alone_engine);
    return 0;
}

static void compare(struct engine_config config)
{
    config.start_paused = true;
    struct engine *engine = open_engine(config);
    struct job *jobs[JOBS];
    for (int32_t i = 0; i < JOBS; i++) {
        jobs[i] = submit(engine, &plans[i].plan);
    }
    engine_resume(engine);
    for (int32_t i = 0; i < JOBS; i++) {
        engine_wait(engine, jobs[i]);
        assert_same_results(alone[i], jobs[i]);
        engine_release(engine, jobs[i]);
    }
    engine_close(engine);
}

static void test_together(void **state)
{
    (void)state;
    compare((struct engine_config){.threads = 1, .sequences = 64});
    compare((struct engine_config){.threads = 3, .sequences = 64});
}

/* Steps so small that texts run unit by unit. */
static void test_small_steps(void **state)
{
    (void)state;
    compare((struct engine_config){.threads = 2, .sequences = 7, .step_rows = 24, .step_us = 1});
}

static void test_what_it_can(void **state)
{
    (void)state;
    const struct model_info *about = engine_model(alone_engine);
    assert_true(about->can_embed && about->embeds_only);
    assert_false(about->can_generate || about->can_infill || about->can_classify);
    assert_int_equal(about->embed_attention, ATTENTION_BIDIRECTIONAL);
}

static void test_no_logits(void **state)
{
    (void)state;
    static const int32_t tokens[] = {3, 4, 5};
    const struct plan_step step = {.kind = STEP_FORCE,
        .read_row = -1,
        .position = -1,
        .tokens = tokens,
        .token_count = 1,
        .top_logprobs = -1};
    struct plan_item items[] = {
        {.tokens = tokens, .token_count = 3, .steps = &step, .step_count = 1},
        {.tokens = tokens, .token_count = 3, .prompt_logprobs = true},
    };
    for (int32_t i = 0; i < 2; i++) {
        struct job *job;
        struct err_info info = {0};
        assert_int_equal(engine_acquire(alone_engine, &job), ERR_OK);
        job->plan = (struct plan){.kind = KIND_GENERATE, .items = &items[i], .item_count = 1};
        assert_int_equal(engine_submit(alone_engine, job, &info), ERR_NOT_CAPABLE);
        assert_string_equal(info.where, "items[0].steps");
        engine_release(alone_engine, job);
    }
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        (void)fprintf(stderr, "usage: %s MODEL\n", argv[0]);
        return 2;
    }
    model_path = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_together),
        cmocka_unit_test(test_small_steps),
        cmocka_unit_test(test_what_it_can),
        cmocka_unit_test(test_no_logits),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
