/*
 * Goal: /completion plans the prompts llama.cpp's documents describe, and tells of an answer what
 * is true of it.
 * Method: prompts read as text (plan_rig.h); replies and events of jobs that are written down here,
 * letter by letter.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/api/plan_rig.h"

enum { LETTERS_MAX = 32, ITEMS_MAX = 4 };

/* ---- prompts ------------------------------------------------------------------------------- */

static void test_prompts(void **state)
{
    (void)state;
    static const struct {
        const char *prompt;
        const char *items[3]; /* NULL = no more */
    } cases[] = {
        {"\"ab\"", {"{B}ab"}},
        {"\"\"", {"{B}"}},
        {"\"a</s>\"", {"{B}a</s>"}},
        {"[97,257]", {"a{E}"}},
        {"[97]", {"a"}},
        {"[\"ab\"]", {"{B}ab"}},
        {"[\"ab\",\"c\"]", {"{B}ab", "{B}c"}},
        {"[\"ab\",99,\"de\",102]", {"{B}abcdef"}}, /* one prompt, and one BOS */
        {"[97,\"bc\"]", {"abc"}},
        {"[256,\"bc\"]", {"{B}bc"}},
        {"[[97,98],[99]]", {"ab", "c"}},
        {"[\"a\",[98,\"c\"],[\"d\",101]]", {"{B}a", "bc", "{B}de"}},
        {"[[\"a\"]]", {"{B}a"}},
    };
    struct plan_rig rig;
    plan_rig_open(&rig, true, true); /* an EOS does not belong before a continuation */
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char body[128];
        (void)snprintf(body, sizeof(body), "{\"prompt\":%s}", cases[i].prompt);
        plan_rig_prompt(&rig, &endpoint_completion, body, cases[i].items[0]);
        int32_t count = 0;
        for (; count < 3 && cases[i].items[count] != NULL; count++) {
            plan_rig_item(&rig, count, cases[i].items[count]);
        }
        assert_int_equal(rig.call.plan.item_count, count);
    }
    plan_rig_prompt(&rig, &endpoint_completion,
        "{\"prompt\":[\"<s>a</s>\",98,\"<s>\"],\"parse_special\":true}", "{B}a{E}b{B}");
    plan_rig_close(&rig);
    plan_rig_open(&rig, false, false);
    plan_rig_prompt(&rig, &endpoint_completion, "{\"prompt\":[\"a\",98]}", "ab");
    plan_rig_refused(&rig, &endpoint_completion, "{\"prompt\":\"\"}", ERR_EMPTY, "/prompt");
    plan_rig_close(&rig);
}

static void test_refused_prompts(void **state)
{
    (void)state;
    static const struct {
        const char *prompt;
        enum err err;
        const char *where;
    } cases[] = {
        {"[]", ERR_EMPTY, "/prompt"},
        {"[\"a\",[]]", ERR_EMPTY, "/prompt/1"},
        {"[97,[98]]", ERR_INVALID, "/prompt/1"},
        {"[[97],98]", ERR_INVALID, "/prompt/0"},
        {"[97,9999]", ERR_INVALID, "/prompt/1"},
        {"[\"a\",[97,\"b\",9999]]", ERR_INVALID, "/prompt/1/2"},
        {"[97,-1]", ERR_INVALID, "/prompt/1"},
        {"[[[97]]]", ERR_INVALID, "/prompt/0/0"},
        {"{\"prompt_string\":\"a\"}", ERR_INVALID, "/prompt"},
    };
    struct plan_rig rig;
    char body[CONTEXT + 64];
    plan_rig_open(&rig, true, false);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        (void)snprintf(body, sizeof(body), "{\"prompt\":%s}", cases[i].prompt);
        plan_rig_refused(&rig, &endpoint_completion, body, cases[i].err, cases[i].where);
    }
    /* Room for one token behind the prompt, unless none is wanted. */
    (void)snprintf(body, sizeof(body), "{\"prompt\":\"%0*d\"}", CONTEXT - 2, 0);
    assert_int_equal(plan_rig_plan(&rig, &endpoint_completion, body), ERR_OK);
    (void)snprintf(body, sizeof(body), "{\"prompt\":\"%0*d\"}", CONTEXT - 1, 0);
    plan_rig_refused(&rig, &endpoint_completion, body, ERR_CONTEXT, "/prompt");
    (void)snprintf(body, sizeof(body), "{\"prompt\":\"%0*d\",\"n_predict\":0}", CONTEXT - 1, 0);
    assert_int_equal(plan_rig_plan(&rig, &endpoint_completion, body), ERR_OK);
    rig.limits.items_max = 4;
    assert_int_equal(
        plan_rig_plan(&rig, &endpoint_completion, "{\"prompt\":[\"a\",\"b\"],\"n_cmpl\":2}"),
        ERR_OK);
    plan_rig_refused(&rig, &endpoint_completion, "{\"prompt\":[\"a\",\"b\"],\"n_cmpl\":3}",
        ERR_LIMIT, "/prompt");
    rig.model.can_generate = false;
    plan_rig_refused(&rig, &endpoint_completion, "{\"prompt\":\"a\"}", ERR_NOT_CAPABLE, "");
    plan_rig_close(&rig);
}

/* ---- options ------------------------------------------------------------------------------- */

static void test_options(void **state)
{
    (void)state;
    struct plan_rig rig;
    plan_rig_open(&rig, true, false);
    plan_rig_prompt(&rig, &endpoint_completion, "{\"prompt\":\"a\",\"stream\":true}", "{B}a");
    const struct plan *plan = &rig.call.plan;
    const struct plan_step *step = &plan->items[0].steps[0];
    const struct sampling *sampling = &plan->items[0].sampling;
    assert_true(plan->stream);
    assert_true(plan->predict_line);
    assert_false(plan->cache_off);
    assert_int_equal(step->tokens_max, CONTEXT - 2);
    assert_int_equal(step->top_logprobs, -1);
    assert_true(sampling->temperature == 0.8f);
    assert_int_equal(sampling->top_k, 40);
    assert_true(sampling->min_p == 0.05f);
    assert_int_equal(sampling->penalty_last_n, 64);
    plan_rig_prompt(&rig, &endpoint_completion,
        "{\"prompt\":[\"a\",\"b\"],\"stream\":true,\"n_cmpl\":2,\"n_predict\":3,\"n_probs\":2,"
        "\"ignore_eos\":true,\"stop\":[\"x\",\"y\"],\"logit_bias\":[[\"cd\",false]],"
        "\"cache_prompt\":false,\"t_max_predict_ms\":7,\"json_schema\":{\"type\":\"boolean\"}}",
        "{B}a");
    plan = &rig.call.plan;
    step = &plan->items[3].steps[0];
    assert_int_equal(plan->item_count, 4);
    plan_rig_item(&rig, 1, "{B}a");
    plan_rig_item(&rig, 2, "{B}b");
    assert_true(plan->stream);
    assert_true(plan->cache_off);
    assert_int_equal(plan->predict_us, 7000);
    assert_int_equal(plan->items[3].sampling.sample_index, 1);
    assert_int_equal(plan->items[3].sampling.logit_bias_count, 2);
    assert_int_equal(step->tokens_max, 3);
    assert_int_equal(step->top_logprobs, 2);
    assert_int_equal(step->stop_count, 2);
    assert_true(step->ban_end);
    assert_non_null(step->grammar);
    plan_rig_close(&rig);
}

/* What llama.cpp documents and this server has not: neutral values pass, others name the field. */
static void test_fields_not_built(void **state)
{
    (void)state;
    static const struct {
        const char *name, *neutral, *other;
    } cases[] = {
        {"grammar", "\"\"", "\"root ::= x\""},
        {"mirostat", "0", "2"},
        {"dynatemp_range", "0.0", "0.5"},
        {"dry_multiplier", "0.0", "0.8"},
        {"xtc_probability", "0", "0.1"},
        {"min_keep", "1", "2"},
        {"post_sampling_probs", "false", "true"},
        {"lora", "[]", "[{\"id\":0}]"},
    };
    struct plan_rig rig;
    plan_rig_open(&rig, true, false);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char body[128], where[32];
        (void)snprintf(
            body, sizeof(body), "{\"prompt\":\"a\",\"%s\":%s}", cases[i].name, cases[i].neutral);
        assert_int_equal(plan_rig_plan(&rig, &endpoint_completion, body), ERR_OK);
        assert_null(rig.call.ignored_fields);
        (void)snprintf(
            body, sizeof(body), "{\"prompt\":\"a\",\"%s\":%s}", cases[i].name, cases[i].other);
        (void)snprintf(where, sizeof(where), "/%s", cases[i].name);
        plan_rig_refused(&rig, &endpoint_completion, body, ERR_UNSUPPORTED_FIELD, where);
    }
    plan_rig_close(&rig);
}

/* ---- replies ------------------------------------------------------------------------------- */

/* What an item came to. */
struct said {
    const char *letters; /* at -0.5 each; 'z' at -2 would have been the other choice */
    enum finish finish;
    int32_t stop_index;
};

struct reply_rig {
    struct plan_rig plan;
    struct job job;
    struct item_result results[ITEMS_MAX];
    struct step_result steps[ITEMS_MAX];
    int32_t tokens[ITEMS_MAX][LETTERS_MAX];
    float logprobs[ITEMS_MAX][LETTERS_MAX];
    struct token_logprob top[ITEMS_MAX][2 * LETTERS_MAX];
};

/* Plans the body; then the job that did so, an end token behind the letters of FINISH_EOS. */
static void run(struct reply_rig *rig, const char *body, const struct said *said)
{
    assert_int_equal(plan_rig_plan(&rig->plan, &endpoint_completion, body), ERR_OK);
    rig->job = (struct job){.plan = rig->plan.call.plan, .results = rig->results};
    for (int32_t i = 0; i < rig->job.plan.item_count; i++) {
        int32_t count = (int32_t)strlen(said[i].letters), end = said[i].finish == FINISH_EOS;
        for (int32_t k = 0; k < count + end; k++) {
            int32_t token = k < count ? said[i].letters[k] : TOKEN_END;
            rig->tokens[i][k] = token;
            rig->logprobs[i][k] = -0.5f;
            rig->top[i][2 * k] = (struct token_logprob){token, -0.5f};
            rig->top[i][2 * k + 1] = (struct token_logprob){'z', -2};
        }
        rig->steps[i] = (struct step_result){.finish = said[i].finish,
            .stop_index = said[i].stop_index,
            .tokens = rig->tokens[i],
            .logprobs = rig->logprobs[i],
            .token_count = count + end,
            .top = rig->top[i],
            .text = (char *)(uintptr_t)said[i].letters,
            .text_bytes = count};
        rig->results[i] =
            (struct item_result){.steps = &rig->steps[i], .generated_tokens = count + end};
    }
}

/* The text holds each part; one that begins with '!' is not to be there. */
static void check_parts(struct buf *text, const char *const *parts)
{
    *buf_reserve(text, 1) = '\0';
    for (; *parts != NULL; parts++) {
        bool absent = **parts == '!';
        if ((strstr(text->bytes, *parts + (absent ? 1 : 0)) == NULL) != absent) {
            fail_msg("%s: %s", *parts, text->bytes);
        }
    }
    buf_free(text);
}

static void check_reply(struct reply_rig *rig, const char *const *parts)
{
    struct buf out;
    buf_init(&out, MEM_REQUESTS, 1 << 20);
    struct call *call = &rig->plan.call;
    assert_int_equal(endpoint_completion.encode(call, &rig->job, &out, &rig->plan.info), ERR_OK);
    check_parts(&out, parts);
}
#define REPLY(rig, ...) check_reply(rig, (const char *const[]){__VA_ARGS__, NULL})
#define SAID(...)                                                                                  \
    (const struct said[])                                                                          \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

static void test_replies(void **state)
{
    (void)state;
    struct reply_rig *rig = calloc(1, sizeof(*rig));
    assert_non_null(rig);
    plan_rig_open(&rig->plan, true, false);
    run(rig, "{\"prompt\":\"ab\",\"n_predict\":2}", SAID({"cd", FINISH_LENGTH, -1}));
    REPLY(rig, "{\"index\":0,\"content\":\"cd\",\"tokens\":[],\"stop\":true,\"model\":\"m\"",
        "\"tokens_predicted\":2,\"tokens_evaluated\":3,\"tokens_cached\":5,\"truncated\":false",
        "\"stop_type\":\"limit\",\"stopping_word\":\"\",\"has_new_line\":false",
        "\"prompt\":\"<s>ab\"", "!completion_probabilities");
    run(rig, "{\"prompt\":\"ab\",\"return_tokens\":true,\"n_probs\":2}",
        SAID({"c\n", FINISH_EOS, -1}));
    REPLY(rig, "\"tokens\":[99,10]", "\"tokens_predicted\":3", "\"stop_type\":\"eos\"",
        "\"has_new_line\":true",
        "\"completion_probabilities\":[{\"id\":99,\"token\":\"c\",\"bytes\":[99],\"logprob\":-0.5,"
        "\"top_logprobs\":[{\"id\":99,",
        "{\"id\":122,\"token\":\"z\",\"bytes\":[122],\"logprob\":-2.0}]}");
    run(rig, "{\"prompt\":\"ab\",\"stop\":[\"x\",\"yy\"]}", SAID({"c", FINISH_STOP_STRING, 1}));
    REPLY(rig, "\"stop_type\":\"word\",\"stopping_word\":\"yy\"");
    /* A text that a schema has completed. */
    run(rig, "{\"prompt\":\"ab\"}", SAID({"1", FINISH_STOP_STRING, -1}));
    REPLY(rig, "\"stop_type\":\"eos\",\"stopping_word\":\"\"");
    /* The end of the context cuts what the request did not. */
    run(rig, "{\"prompt\":[\"0123456789012345678901234567890123456789012345678901234567890\"]}",
        SAID({"cd", FINISH_LENGTH, -1}));
    REPLY(rig, "\"truncated\":true", "\"stop_type\":\"limit\"");
    run(rig,
        "{\"prompt\":\"0123456789012345678901234567890123456789012345678901234567890\","
        "\"n_predict\":2}",
        SAID({"cd", FINISH_LENGTH, -1}));
    REPLY(rig, "\"truncated\":false");
    run(rig, "{\"prompt\":[\"a\",\"b\"],\"n_predict\":1}",
        SAID({"c", FINISH_LENGTH, -1}, {"d", FINISH_LENGTH, -1}));
    REPLY(rig, "[{\"index\":0,\"content\":\"c\"", "{\"index\":1,\"content\":\"d\"",
        "\"prompt\":\"<s>b\"");
    run(rig, "{\"prompt\":\"a\",\"response_fields\":[\"content\",\"generation_settings/top_k\"]}",
        SAID({"c", FINISH_EOS, -1}));
    REPLY(rig, "{\"content\":\"c\",\"generation_settings/top_k\":40}");
    plan_rig_close(&rig->plan);
    free(rig);
}

/* ---- events -------------------------------------------------------------------------------- */

static void test_events(void **state)
{
    (void)state;
    struct reply_rig *rig = calloc(1, sizeof(*rig));
    struct buf out;
    assert_non_null(rig);
    plan_rig_open(&rig->plan, true, false);
    run(rig, "{\"prompt\":\"a\",\"stream\":true,\"n_probs\":2}", SAID({"cd", FINISH_EOS, -1}));
    buf_init(&out, MEM_REQUESTS, 1 << 20);
    for (int32_t i = 0; i < 3; i++) {
        const struct token_event event = {.index = i,
            .token = rig->tokens[0][i],
            .logprob = -0.5f,
            .last = i == 2,
            .finish = i == 2 ? FINISH_EOS : FINISH_NONE,
            .text_from = MIN(i, 2),
            .text_bytes = i < 2};
        assert_int_equal(
            endpoint_completion.frame(&rig->plan.call, &rig->job, &event, &out), ERR_OK);
    }
    assert_int_equal(endpoint_completion.frame_end(&rig->plan.call, &rig->job, &out), ERR_OK);
    check_parts(&out,
        (const char *const[]){"data: {\"index\":0,\"content\":\"c\",\"tokens\":[99],\"stop\":false,"
                              "\"tokens_predicted\":1,\"tokens_evaluated\":2,"
                              "\"completion_probabilities\":[{\"id\":99,",
            "data: {\"index\":0,\"content\":\"d\",\"tokens\":[100],\"stop\":false,"
            "\"tokens_predicted\":2,",
            "\"id\":100,\"token\":\"d\",\"bytes\":[100],\"logprob\":-0.5,\"top_logprobs\":[",
            "data: {\"index\":0,\"content\":\"\",\"tokens\":[],\"stop\":true,\"model\"",
            "!\"stop\":true,\"model\":\"m\",\"completion_probabilities\"", "!\"tokens\":[257]",
            NULL});
    plan_rig_close(&rig->plan);
    free(rig);
}

/* Tokens of two answers as they come; then the end of each, one a call. */
static void test_events_of_two(void **state)
{
    (void)state;
    struct reply_rig *rig = calloc(1, sizeof(*rig));
    struct buf out;
    assert_non_null(rig);
    plan_rig_open(&rig->plan, true, false);
    run(rig, "{\"prompt\":\"a\",\"stream\":true,\"n_cmpl\":2}",
        SAID({"ce", FINISH_LENGTH, -1}, {"df", FINISH_LENGTH, -1}));
    buf_init(&out, MEM_REQUESTS, 1 << 20);
    for (int32_t i = 0; i < 4; i++) {
        const struct token_event event = {.item = (i + 1) % 2,
            .index = i / 2,
            .token = rig->tokens[(i + 1) % 2][i / 2],
            .last = i >= 2,
            .finish = i >= 2 ? FINISH_LENGTH : FINISH_NONE,
            .text_from = i / 2,
            .text_bytes = 1};
        assert_int_equal(
            endpoint_completion.frame(&rig->plan.call, &rig->job, &event, &out), ERR_OK);
    }
    for (int32_t i = 0; i < 2; i++) {
        assert_int_equal(endpoint_completion.frame_end(&rig->plan.call, &rig->job, &out), ERR_OK);
        assert_int_equal(rig->plan.call.frames_left, i == 0);
    }
    check_parts(
        &out, (const char *const[]){
                  "data: {\"index\":1,\"content\":\"d\",\"tokens\":[100],\"stop\":false,",
                  "data: {\"index\":0,\"content\":\"c\",\"tokens\":[99],\"stop\":false,"
                  "\"tokens_predicted\":1,",
                  "data: {\"index\":1,\"content\":\"f\",\"tokens\":[102],\"stop\":false,"
                  "\"tokens_predicted\":2,",
                  "data: {\"index\":0,\"content\":\"e\",",
                  "data: {\"index\":0,\"content\":\"\",\"tokens\":[],\"stop\":true,",
                  "data: {\"index\":1,\"content\":\"\",\"tokens\":[],\"stop\":true,", NULL});
    plan_rig_close(&rig->plan);
    free(rig);
}

int main(void)
{
    json_in_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prompts),
        cmocka_unit_test(test_refused_prompts),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_fields_not_built),
        cmocka_unit_test(test_replies),
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_events_of_two),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
