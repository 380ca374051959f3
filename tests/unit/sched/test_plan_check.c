/*
 * Goal: a plan that the checks let through cannot index outside the model or need memory later;
 * one that breaks a rule is refused with the name of the part that does.
 * Method: a table of small changes to a good plan: each is made alone, at the limit (accepted) and
 * one past it (refused with the stated code and place).
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>
#include "engine/plan_check.h"

enum { VOCAB = 100, CONTEXT = 64 };

static const struct plan_bounds bounds = {
    .vocab = VOCAB,
    .hidden = 32,
    .vector = 40,
    .context = CONTEXT,
    .position_max = 127,
    .piece_bytes_max = 8,
    .result_bytes = 1 << 20,
};

static int32_t tokens[CONTEXT + 1], positions[CONTEXT + 1], choice_token;
static struct plan_choice choices[LIMIT_CHOICES + 1];
static struct stop_string stops[LIMIT_STOPS + 1];
static int32_t stop_tokens[LIMIT_STOP_TOKENS + 1];
static struct logit_bias biases[LIMIT_LOGIT_BIAS + 1];
static struct plan_step steps[LIMIT_STEPS + 1];
static struct plan_item items[LIMIT_ITEMS + 1];
static struct plan plan;

static void good_plan(void)
{
    choice_token = 5;
    for (int32_t i = 0; i <= CONTEXT; i++) {
        tokens[i] = i;
        positions[i] = i;
    }
    for (int32_t i = 0; i <= LIMIT_CHOICES; i++) {
        choices[i] = (struct plan_choice){.tokens = &choice_token, .token_count = 1};
    }
    for (int32_t i = 0; i <= LIMIT_STOPS; i++) {
        stops[i] = (struct stop_string){.bytes = "x", .count = 1};
    }
    memset(stop_tokens, 0, sizeof stop_tokens);
    memset(biases, 0, sizeof biases);
    for (int32_t i = 0; i <= LIMIT_STEPS; i++) {
        steps[i] = (struct plan_step){.kind = STEP_DECODE, .read_row = -1, .position = -1};
    }
    steps[0].tokens_max = 8;
    for (int32_t i = 0; i <= LIMIT_ITEMS; i++) {
        items[i] = (struct plan_item){.tokens = tokens, .token_count = 8, .steps = steps};
        items[i].sampling = (struct sampling){.top_p = 1, .typical_p = 1, .repetition_penalty = 1};
    }
    items[0].step_count = 2;
    plan = (struct plan){.kind = KIND_GENERATE, .items = items, .item_count = 1};
}

static void force_step(int32_t count, int32_t id)
{
    steps[1] = (struct plan_step){
        .kind = STEP_FORCE, .read_row = -1, .position = -1, .tokens = tokens, .token_count = count};
    tokens[0] = id;
}

static void choose_step(int32_t count, int32_t id)
{
    choice_token = id;
    steps[1] = (struct plan_step){.kind = STEP_CHOOSE,
        .read_row = -1,
        .position = -1,
        .choices = choices,
        .choice_count = count};
}

/* Each change takes `past`: 0 = at the limit, 1 = one past it. */
static void items_count(int32_t past)
{
    plan.item_count = LIMIT_ITEMS + past;
    items[0].step_count = 0;
}
static void items_none(int32_t past)
{
    plan.item_count = 1 - past;
}
static void token_id(int32_t past)
{
    tokens[3] = VOCAB - 1 + past;
}
static void token_negative(int32_t past)
{
    tokens[3] = -past;
}
static void token_none(int32_t past)
{
    items[0].token_count = 1 - past;
    items[0].step_count = 0;
}
static void context_full(int32_t past)
{
    items[0].token_count = CONTEXT - 8 + past;
}
static void context_count(int32_t past)
{
    items[0].context_count = 8 + past;
}
static void position_value(int32_t past)
{
    items[0].positions = positions;
    positions[2] = 127 + past;
}
static void pool_from(int32_t past)
{
    items[0].pool_from = 7 + past;
}
static void dimensions(int32_t past)
{
    items[0].dimensions = 40 + past; /* of the vector, not of the rows */
}
static void step_count(int32_t past)
{
    items[0].step_count = LIMIT_STEPS + past;
}
static void read_row(int32_t past)
{
    steps[0].read_row = 7 + past;
}
static void read_row_negative(int32_t past)
{
    steps[0].read_row = -1 - past;
}
static void step_position(int32_t past)
{
    steps[0].position = 128 - 8 + past;
}
static void tokens_max_negative(int32_t past)
{
    steps[0].tokens_max = -past;
}
static void tokens_max_huge(int32_t past)
{
    steps[0].tokens_max = past ? INT32_MAX : 8;
}
static void top_logprobs(int32_t past)
{
    steps[0].top_logprobs = LIMIT_TOP_LOGPROBS + past;
}
static void stop_count(int32_t past)
{
    steps[0].stops = stops;
    steps[0].stop_count = LIMIT_STOPS + past;
}
static void stop_bytes(int32_t past)
{
    steps[0].stops = stops;
    steps[0].stop_count = 1;
    stops[0].count = LIMIT_STOP_BYTES + past;
}
static void indent(int32_t past)
{
    steps[0].indent_min = LIMIT_STOP_BYTES + past;
}
static void stop_empty(int32_t past)
{
    steps[0].stops = stops;
    steps[0].stop_count = 1;
    stops[0].count = 1 - past;
}
static void stop_ids(int32_t past)
{
    steps[0].stop_tokens = stop_tokens;
    steps[0].stop_token_count = LIMIT_STOP_TOKENS + past;
}
static void stop_id(int32_t past)
{
    steps[0].stop_tokens = stop_tokens;
    steps[0].stop_token_count = 1;
    stop_tokens[0] = VOCAB - 1 + past;
}
static void force_id(int32_t past)
{
    items[0].tokens = tokens + 1;
    force_step(3, VOCAB - 1 + past);
}
static void force_none(int32_t past)
{
    force_step(1 - past, 0);
}
static void choice_count(int32_t past)
{
    choose_step(LIMIT_CHOICES + past, 0);
}
static void choice_none(int32_t past)
{
    choose_step(1 - past, 0);
}
static void choice_id(int32_t past)
{
    choose_step(2, VOCAB - 1 + past);
}
static void bias_count(int32_t past)
{
    items[0].sampling.logit_bias = biases;
    items[0].sampling.logit_bias_count = LIMIT_LOGIT_BIAS + past;
}
static void bias_id(int32_t past)
{
    items[0].sampling.logit_bias = biases;
    items[0].sampling.logit_bias_count = 1;
    biases[0].token = VOCAB - 1 + past;
}
static void watch_id(int32_t past)
{
    static int32_t watched;
    watched = VOCAB - 1 + past;
    steps[0].watch = &watched;
}
static void temperature(int32_t past)
{
    items[0].sampling.temperature = past ? NAN : 10.0f;
}

static const struct {
    const char *name;
    void (*change)(int32_t past);
    enum err err;
    const char *where;
} cases[] = {
    {"items", items_count, ERR_LIMIT, "items"},
    {"no items", items_none, ERR_LIMIT, "items"},
    {"token id", token_id, ERR_INVALID, "items[0].tokens"},
    {"negative token", token_negative, ERR_INVALID, "items[0].tokens"},
    {"no tokens", token_none, ERR_EMPTY, "items[0].tokens"},
    {"context", context_full, ERR_CONTEXT, "items[0].tokens"},
    {"context_count", context_count, ERR_INVALID, "items[0].context_count"},
    {"position", position_value, ERR_CONTEXT, "items[0].positions"},
    {"pool_from", pool_from, ERR_INVALID, "items[0].pooling"},
    {"dimensions", dimensions, ERR_INVALID, "items[0].pooling"},
    {"steps", step_count, ERR_LIMIT, "items[0].steps"},
    {"read_row", read_row, ERR_INVALID, "items[0].steps[0].read_row"},
    {"negative read_row", read_row_negative, ERR_INVALID, "items[0].steps[0].read_row"},
    {"step position", step_position, ERR_CONTEXT, "items[0].steps[0].position"},
    {"negative budget", tokens_max_negative, ERR_INVALID, "items[0].steps[0].tokens_max"},
    {"huge budget", tokens_max_huge, ERR_CONTEXT, "items[0].tokens"},
    {"top_logprobs", top_logprobs, ERR_LIMIT, "items[0].steps[0].top_logprobs"},
    {"stops", stop_count, ERR_LIMIT, "items[0].steps[0].stops"},
    {"stop bytes", stop_bytes, ERR_LIMIT, "items[0].steps[0].stops"},
    {"indent", indent, ERR_LIMIT, "items[0].steps[0].indent_min"},
    {"empty stop", stop_empty, ERR_LIMIT, "items[0].steps[0].stops"},
    {"stop tokens", stop_ids, ERR_LIMIT, "items[0].steps[0].stop_tokens"},
    {"stop token id", stop_id, ERR_LIMIT, "items[0].steps[0].stop_tokens"},
    {"watched id", watch_id, ERR_INVALID, "items[0].steps[0].watch"},
    {"forced id", force_id, ERR_INVALID, "items[0].steps[1].tokens"},
    {"nothing forced", force_none, ERR_INVALID, "items[0].steps[1].tokens"},
    {"choices", choice_count, ERR_LIMIT, "items[0].steps[1].choices"},
    {"no choices", choice_none, ERR_LIMIT, "items[0].steps[1].choices"},
    {"choice id", choice_id, ERR_INVALID, "items[0].steps[1].choices"},
    {"biases", bias_count, ERR_INVALID, "items[0].sampling"},
    {"bias id", bias_id, ERR_INVALID, "items[0].sampling"},
    {"temperature", temperature, ERR_INVALID, "items[0].sampling"},
};

static void test_limits(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct err_info info = {0};
        good_plan();
        cases[i].change(0);
        if (plan_check(&plan, &bounds, &info) != ERR_OK) {
            fail_msg("%s at the limit: %s %s", cases[i].name, info.where, info.text);
        }
        good_plan();
        cases[i].change(1);
        enum err err = plan_check(&plan, &bounds, &info);
        if (err != cases[i].err || strcmp(info.where, cases[i].where) != 0) {
            fail_msg("%s past the limit: %s at %s", cases[i].name, err_word(err), info.where);
        }
    }
}

static void test_context_error_has_both_counts(void **state)
{
    (void)state;
    struct err_info info = {0};
    good_plan();
    items[0].token_count = CONTEXT - 3;
    assert_int_equal(plan_check(&plan, &bounds, &info), ERR_CONTEXT);
    assert_int_equal(info.have, CONTEXT + 5);
    assert_int_equal(info.limit, CONTEXT);
}

static void test_results_are_bounded(void **state)
{
    (void)state;
    struct err_info info = {0};
    static struct job job;
    good_plan();
    job.plan = plan;
    assert_int_equal(plan_size_results(&job, &bounds, &info), ERR_OK);
    /* The smallest bound that holds the results is found by trying; one byte less is refused. */
    struct plan_bounds tight = bounds;
    size_t low = 0, high = job.results_arena.bytes;
    while (high - low > 1) {
        tight.result_bytes = (low + high) / 2;
        if (plan_size_results(&job, &tight, &info) == ERR_OK) {
            high = tight.result_bytes;
        } else {
            low = tight.result_bytes;
        }
    }
    assert_in_range(high, 8 * 8, 4096);
    tight.result_bytes = high;
    assert_int_equal(plan_size_results(&job, &tight, &info), ERR_OK);
    tight.result_bytes = low;
    assert_int_equal(plan_size_results(&job, &tight, &info), ERR_LIMIT);
    assert_null(job.results);
    arena_drop(&job.results_arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_context_error_has_both_counts),
        cmocka_unit_test(test_results_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
