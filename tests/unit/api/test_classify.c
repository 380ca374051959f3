/*
 * Goal: /classify asks what the documents say and reads the answers: the moderation template,
 * labels by letter codes in two orders, a whole code where one token does not tell codes apart.
 * Method: prompts read as text (plan_rig.h); finished jobs are filled in by hand.
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

static void test_moderation(void **state)
{
    (void)state;
    struct plan_rig rig;
    plan_rig_open(&rig, true, false);
    rig.model.context = 1000;
    assert_int_equal(
        plan_rig_plan(&rig, &endpoint_classify, "{\"prompt\":\"<|user|>p\",\"response\":\"r\"}"),
        ERR_OK);
    char text[4096];
    const struct plan_item *item = &rig.call.plan.items[0];
    plan_rig_show(&rig, item->tokens, item->token_count, text);
    /* The template's control token is one, the client's spelling of it is not. */
    assert_memory_equal(text, "{B}{U}\n[INST] You are", 21);
    assert_non_null(strstr(text, "Human user:\n<|user|>p\n\nAI assistant:\nr\n\n---\n\n"));
    assert_int_equal(item->step_count, 6);
    for (int32_t i = 0; i < 3; i++) {
        assert_int_equal(item->steps[2 * i].kind, STEP_FORCE);
        assert_int_equal(item->steps[2 * i].top_logprobs, -1);
        assert_int_equal(item->steps[2 * i + 1].kind, STEP_CHOOSE);
        assert_int_equal(item->steps[2 * i + 1].choice_count, i == 0 ? 2 : 3);
    }
    /* In this vocabulary the space is shared, so it is forced and the letters are told apart. */
    plan_rig_show(&rig, item->steps[2].tokens, item->steps[2].token_count, text);
    assert_string_equal(text, "\nResponse refusal: ");
    assert_int_equal(item->steps[1].choices[0].tokens[0], 'y');
    assert_int_equal(item->steps[1].choices[1].tokens[0], TOKEN_NO);
    plan_rig_close(&rig);
}

/* A list of texts is one pair, a list of lists several cases. */
static void test_predict(void **state)
{
    (void)state;
    static const struct {
        const char *inputs;
        const char *parts[2]; /* of each case */
    } cases[] = {
        {"\"p\"", {"Human user:\np\n\nAI assistant:\n\n\n---"}},
        {"[\"p\"]", {"Human user:\np\n\nAI assistant:\n\n\n---"}},
        {"[\"p\",\"r\"]", {"Human user:\np\n\nAI assistant:\nr\n\n---"}},
        {"[[\"p\",\"r\"],[\"q\"]]", {"Human user:\np\n\nAI assistant:\nr\n\n---",
                                        "Human user:\nq\n\nAI assistant:\n\n\n---"}},
    };
    static const struct {
        const char *fields;
        enum err err;
        const char *where;
    } refused[] = {
        {"\"inputs\":[]", ERR_INVALID, "/inputs"},
        {"\"inputs\":[[]]", ERR_INVALID, "/inputs/0"},
        {"\"inputs\":[[\"a\"],[\"b\",\"c\",\"d\"]]", ERR_INVALID, "/inputs/1"},
        {"\"inputs\":[\"a\",\"b\",\"c\"]", ERR_INVALID, "/inputs"},
        {"\"inputs\":[\" \",\"b\"]", ERR_EMPTY, "/inputs/0"},
        {"\"inputs\":\" \"", ERR_EMPTY, "/inputs"},
        {"\"inputs\":[[\"a\"],[\" \"]]", ERR_EMPTY, "/inputs/1/0"},
        {"\"inputs\":[[\"a\"],[\"a\"],[\"a\"]]", ERR_LIMIT, "/inputs"},
        {"\"inputs\":\"a\",\"truncate\":true", ERR_UNSUPPORTED_FIELD, "/truncate"},
    };
    struct plan_rig rig;
    char body[128], text[4096];
    plan_rig_open(&rig, true, false);
    rig.model.context = 1000;
    rig.limits.items_max = 2;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        (void)snprintf(body, sizeof(body), "{\"inputs\":%s}", cases[i].inputs);
        assert_int_equal(plan_rig_plan(&rig, &endpoint_predict, body), ERR_OK);
        int32_t count = cases[i].parts[1] != NULL ? 2 : 1;
        assert_int_equal(rig.call.plan.item_count, count);
        for (int32_t k = 0; k < count; k++) {
            const struct plan_item *item = &rig.call.plan.items[k];
            plan_rig_show(&rig, item->tokens, item->token_count, text);
            assert_non_null(strstr(text, cases[i].parts[k]));
        }
    }
    for (size_t i = 0; i < ARRAY_COUNT(refused); i++) {
        (void)snprintf(body, sizeof(body), "{%s}", refused[i].fields);
        plan_rig_refused(&rig, &endpoint_predict, body, refused[i].err, refused[i].where);
    }
    rig.model.can_classify = false;
    plan_rig_refused(&rig, &endpoint_predict, "{\"inputs\":\"a\"}", ERR_NOT_CAPABLE, "");
    plan_rig_close(&rig);
}

/* "A" and "AA" begin with the same token here, so they cannot be read from one row. */
static void test_labels_are_forced_when_not_told_apart(void **state)
{
    (void)state;
    struct plan_rig rig;
    plan_rig_open(&rig, false, false);
    rig.model.context = 4000;
    char body[1024] = "{\"inputs\":\"x\",\"labels\":[\"l0\"";
    for (int i = 1; i < 30; i++) {
        size_t count = strlen(body);
        (void)snprintf(body + count, sizeof(body) - count, ",\"l%d\"", i);
    }
    (void)strcat(body, "]}");
    assert_int_equal(plan_rig_plan(&rig, &endpoint_classify, body), ERR_OK);
    assert_int_equal(rig.call.plan.item_count, 60); /* one item a label and order */
    char text[64];
    const struct plan_step *step = &rig.call.plan.items[27].steps[1];
    assert_int_equal(step->kind, STEP_FORCE);
    assert_int_equal(step->top_logprobs, 0);
    plan_rig_show(&rig, step->tokens, step->token_count, text);
    assert_string_equal(text, " AB\n");
    assert_int_equal(
        plan_rig_plan(&rig, &endpoint_classify, "{\"inputs\":\"x\",\"labels\":[\"p\",\"q\"]}"),
        ERR_OK);
    assert_int_equal(rig.call.plan.item_count, 2);
    plan_rig_close(&rig);
}

/* Letter codes, the labels sorted and in reverse, in whatever order they are given. */
static void test_labels_are_asked_in_two_orders(void **state)
{
    (void)state;
    static const char *const bodies[] = {
        "{\"inputs\":\"x\",\"labels\":[\"unsure\",\"unsafe\",\"B\"]}",
        "{\"inputs\":\"x\",\"labels\":[\"B\",\"unsafe\",\"unsure\"]}",
    };
    struct plan_rig rig;
    plan_rig_open(&rig, false, false);
    rig.model.context = 1000;
    for (size_t i = 0; i < ARRAY_COUNT(bodies); i++) {
        char text[64];
        plan_rig_prompt(&rig, &endpoint_classify, bodies[i],
            "Which label fits the text best?\n\nLabels:\nA. B\nB. unsafe\nC. unsure\n\nText: x\n");
        plan_rig_item(&rig, 1,
            "Which label fits the text best?\n\nLabels:\nA. unsure\nB. unsafe\nC. B\n\nText: x\n");
        const struct plan_item *item = &rig.call.plan.items[0];
        plan_rig_show(&rig, item->steps[0].tokens, item->steps[0].token_count, text);
        assert_string_equal(text, "\nLabel: ");
        assert_int_equal(item->steps[1].choice_count, 3);
        assert_int_equal(item->steps[1].choices[2].tokens[0], 'C');
    }
    plan_rig_close(&rig);
}

/* One past the limit counts questions, not the orders they are asked in. */
static void test_labels_limit(void **state)
{
    (void)state;
    struct plan_rig rig;
    plan_rig_open(&rig, false, false);
    rig.model.context = 1000;
    for (int32_t extra = 0; extra <= 1; extra++) {
        char *inputs = plan_rig_inputs(100 + extra, "a");
        char *body = malloc(strlen(inputs) + 32);
        assert_non_null(body);
        (void)sprintf(body, "%.*s,\"labels\":[\"p\",\"q\"]}", (int)strlen(inputs) - 1, inputs);
        assert_int_equal(
            plan_rig_plan(&rig, &endpoint_classify, body), extra == 0 ? ERR_OK : ERR_LIMIT);
        free(inputs);
        free(body);
    }
    plan_rig_close(&rig);
}

/* ---- reading labels ------------------------------------------------------------------------ */

/* Answers a plan of decisions as the engine would: each item's second step is filled by `fill`. */
struct label_job {
    struct job job;
    struct item_result items[60];
    struct step_result steps[60][2];
    float numbers[60][2];
};

static struct label_job *answer_labels(const struct plan_rig *rig)
{
    struct label_job *answered = calloc(1, sizeof(*answered));
    assert_non_null(answered);
    assert_in_range(rig->call.plan.item_count, 1, ARRAY_COUNT(answered->items));
    answered->job.plan = rig->call.plan;
    answered->job.results = answered->items;
    for (int32_t i = 0; i < rig->call.plan.item_count; i++) {
        answered->items[i].steps = answered->steps[i];
        answered->steps[i][1].probabilities = answered->numbers[i];
        answered->steps[i][1].logprobs = answered->numbers[i];
        answered->steps[i][1].token_count = 1;
    }
    return answered;
}

/* The label that the reply names first, and its score. */
static void check_best_label(
    struct plan_rig *rig, struct label_job *answered, const char *label, double score)
{
    struct buf reply;
    char name[16];
    double got;
    buf_init(&reply, MEM_REQUESTS, 1 << 16);
    assert_int_equal(
        endpoint_classify.encode(&rig->call, &answered->job, &reply, &rig->info), ERR_OK);
    assert_int_equal(sscanf(reply.bytes, "[{\"score\":%lf,\"label\":\"%15[^\"]", &got, name), 2);
    assert_string_equal(name, label);
    assert_true(got > score - 1e-6 && got < score + 1e-6);
    buf_free(&reply);
    free(answered);
}

static void test_labels_are_read(void **state)
{
    (void)state;
    struct plan_rig rig;
    plan_rig_open(&rig, false, false);
    rig.model.context = 4000;
    /* A 0.9 for p, then A 0.6 for q: sqrt(0.9 * 0.4) against sqrt(0.1 * 0.6). */
    assert_int_equal(
        plan_rig_plan(&rig, &endpoint_classify, "{\"inputs\":\"x\",\"labels\":[\"q\",\"p\"]}"),
        ERR_OK);
    struct label_job *answered = answer_labels(&rig);
    memcpy(answered->numbers[0], (const float[]){0.9f, 0.1f}, sizeof(answered->numbers[0]));
    memcpy(answered->numbers[1], (const float[]){0.6f, 0.4f}, sizeof(answered->numbers[1]));
    check_best_label(&rig, answered, "p", 0.710102);
    /* Certain in both orders, of the same code: nothing is known, and nothing infinite. */
    answered = answer_labels(&rig);
    answered->numbers[0][0] = answered->numbers[1][0] = 1;
    check_best_label(&rig, answered, "q", 0.5);
    /* Forced: label 7 of 27 has log-probability -1 in both orders, the others -5. */
    char body[1024] = "{\"inputs\":\"x\",\"labels\":[\"l26\"";
    for (int i = 25; i >= 0; i--) {
        size_t count = strlen(body);
        (void)snprintf(body + count, sizeof(body) - count, ",\"l%02d\"", i);
    }
    (void)strcat(body, "]}");
    assert_int_equal(plan_rig_plan(&rig, &endpoint_classify, body), ERR_OK);
    answered = answer_labels(&rig);
    for (int32_t i = 0; i < 2 * 27; i++) {
        answered->numbers[i][0] = i == 7 || i == 27 + 26 - 7 ? -1 : -5;
    }
    check_best_label(&rig, answered, "l07", 0.677412);
    plan_rig_close(&rig);
}

int main(void)
{
    json_in_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_moderation),
        cmocka_unit_test(test_predict),
        cmocka_unit_test(test_labels_are_forced_when_not_told_apart),
        cmocka_unit_test(test_labels_are_asked_in_two_orders),
        cmocka_unit_test(test_labels_limit),
        cmocka_unit_test(test_labels_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
