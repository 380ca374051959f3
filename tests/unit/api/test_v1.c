/*
 * Goal: requests of OpenAI's routes become the plans the documents describe.
 * Method: prompts read as text (plan_rig.h).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/template/chat_template.h"
#include "tests/unit/api/plan_rig.h"

/* ---- v1/embeddings ------------------------------------------------------------------------- */

static void test_v1_embeddings(void **state)
{
    (void)state;
    struct plan_rig rig;
    plan_rig_open(&rig, true, false);
    plan_rig_prompt(&rig, &endpoint_v1_embeddings, "{\"input\":\"ab\"}", "{B}ab");
    const struct plan_item *item = &rig.call.plan.items[0];
    assert_true(item->normalize);
    assert_int_equal(item->pooling, POOLING_MEAN);
    assert_int_equal(item->dimensions, 0);
    plan_rig_prompt(
        &rig, &endpoint_v1_embeddings, "{\"input\":[[97,98],[99]],\"dimensions\":3}", "ab");
    plan_rig_item(&rig, 1, "c");
    assert_int_equal(rig.call.plan.items[1].dimensions, 3);
    /* One past the context: an error, or cut when the request says so. */
    char body[256];
    (void)snprintf(body, sizeof(body), "{\"input\":[\"a\",\"%0*d\"]}", CONTEXT, 0);
    plan_rig_refused(&rig, &endpoint_v1_embeddings, body, ERR_CONTEXT, "/input/1");
    (void)snprintf(body, sizeof(body), "{\"input\":[\"%0*d\"],\"truncate\":true}", CONTEXT, 0);
    assert_int_equal(plan_rig_plan(&rig, &endpoint_v1_embeddings, body), ERR_OK);
    assert_int_equal(rig.call.plan.items[0].token_count, CONTEXT);
    rig.limits.embed_ids_refused = true;
    plan_rig_refused(&rig, &endpoint_v1_embeddings, "{\"input\":[97]}", ERR_INVALID, "/input");
    plan_rig_refused(&rig, &endpoint_embed, "{\"inputs\":[[97]]}", ERR_INVALID, "/inputs");
    plan_rig_prompt(&rig, &endpoint_v1_embeddings, "{\"input\":\"ab\"}", "{B}ab");
    plan_rig_close(&rig);
}

/* ---- v1/completions ------------------------------------------------------------------------ */

static void test_v1_completions(void **state)
{
    (void)state;
    struct plan_rig rig;
    const struct endpoint *endpoint = &endpoint_v1_completions;
    plan_rig_open(&rig, true, false);
    plan_rig_prompt(&rig, endpoint, "{\"prompt\":\"ab\"}", "{B}ab");
    const struct plan_step *step = &rig.call.plan.items[0].steps[0];
    assert_int_equal(step->tokens_max, 16);
    assert_int_equal(step->top_logprobs, -1);
    assert_true(rig.call.plan.items[0].sampling.temperature == 1);
    plan_rig_prompt(&rig, endpoint, "{\"prompt\":\"a</s>\"}", "{B}a</s>");
    plan_rig_prompt(&rig, endpoint, "{\"prompt\":\"a</s>\",\"parse_special\":true}", "{B}a{E}");
    plan_rig_prompt(&rig, endpoint, "{}", "{B}");
    plan_rig_prompt(&rig, endpoint, "{\"prompt\":\"\"}", "{B}");
    plan_rig_prompt(&rig, endpoint, "{\"prompt\":[97,257]}", "a{E}"); /* verbatim */
    plan_rig_prompt(&rig, endpoint,
        "{\"prompt\":[\"ab\",\"c\"],\"n\":2,\"logprobs\":3,\"echo\":true,\"min_tokens\":1,"
        "\"max_tokens\":1000,\"ignore_eos\":true,\"stop_token_ids\":[97],\"stop\":\"x\"}",
        "{B}ab");
    assert_int_equal(rig.call.plan.item_count, 4);
    plan_rig_item(&rig, 1, "{B}ab");
    plan_rig_item(&rig, 2, "{B}c");
    step = &rig.call.plan.items[3].steps[0];
    assert_int_equal(step->tokens_max, CONTEXT - 2); /* the room */
    assert_int_equal(step->tokens_min, 1);
    assert_int_equal(step->stop_count, 1);
    assert_int_equal(step->stop_token_count, 1);
    assert_int_equal(step->top_logprobs, 3);
    assert_true(step->ban_end);
    assert_int_equal(rig.call.plan.items[3].sampling.sample_index, 1);
    assert_true(rig.call.plan.items[2].prompt_logprobs);
    assert_int_equal(rig.call.plan.items[2].prompt_top, 3);
    assert_false(rig.call.plan.items[3].prompt_logprobs); /* its prompt is scored already */
    assert_false(rig.call.plan.stream);
    plan_rig_prompt(&rig, endpoint, "{\"prompt\":\"a\",\"stream\":true}", "{B}a");
    assert_true(rig.call.plan.stream);
    plan_rig_close(&rig);
}

/* I6: the ids of /infill. */
static void test_v1_completions_suffix(void **state)
{
    (void)state;
    struct plan_rig rig;
    const struct endpoint *endpoint = &endpoint_v1_completions;
    plan_rig_open(&rig, true, false);
    plan_rig_prompt(&rig, endpoint,
        "{\"prompt\":\"ab\",\"suffix\":\"cd\",\"n\":2,\"max_tokens\":3,\"logit_bias\":{\"97\":1}}",
        "{B}{P}ab{S}cd{M}");
    assert_int_equal(rig.call.plan.item_count, 2);
    assert_int_equal(rig.call.plan.items[0].steps[0].tokens_max, 3);
    assert_int_equal(rig.call.plan.items[0].steps[0].stop_token_count, 5);
    assert_int_equal(rig.call.plan.items[0].sampling.logit_bias_count, 1);
    assert_int_equal(rig.call.plan.items[0].sampling.top_k, 0); /* this route's defaults */
    plan_rig_prompt(&rig, endpoint, "{\"suffix\":\"cd\"}", "{B}{P}{S}cd{M}");
    plan_rig_prompt(&rig, endpoint, "{\"prompt\":\"ab\",\"suffix\":\"\"}", "{B}ab");
    plan_rig_refused(
        &rig, endpoint, "{\"prompt\":[\"ab\"],\"suffix\":\"cd\"}", ERR_INVALID, "/suffix");
    rig.model.infill_mode_count = 0;
    plan_rig_refused(
        &rig, endpoint, "{\"prompt\":\"ab\",\"suffix\":\"cd\"}", ERR_NOT_CAPABLE, "/suffix");
    plan_rig_close(&rig);
    plan_rig_open(&rig, false, false);
    rig.model.infill_mode_count = 1;
    rig.model.infill_modes[0] = INFILL_HYBRID; /* nothing stands before the gap */
    plan_rig_refused(&rig, endpoint, "{\"suffix\":\"cd\"}", ERR_INVALID, "/prompt");
    plan_rig_close(&rig);
}

/* ---- v1/chat/completions ------------------------------------------------------------------- */

static const char TEMPLATE[] =
    "{% for m in messages %}<|user|>{{ m.role[0] }}:{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}<|user|>{% endif %}";

static void test_v1_chat(void **state)
{
    (void)state;
    struct plan_rig rig;
    struct chat_template *template = NULL;
    const struct chat_tokens tokens = {.bos = "<s>", .eos = "</s>"};
    const struct endpoint *endpoint = &endpoint_v1_chat;
    plan_rig_open(&rig, true, false);
    plan_rig_refused(&rig, endpoint, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}",
        ERR_NOT_CAPABLE, "/messages");
    assert_int_equal(
        chat_template_open(TEMPLATE, strlen(TEMPLATE), &tokens, &template, &rig.info), ERR_OK);
    rig.chat_template = template;
    plan_rig_prompt(
        &rig, endpoint, "{\"messages\":[{\"role\":\"user\",\"content\":\"ab\"}]}", "{B}{U}u:ab{U}");
    const struct plan_item *item = &rig.call.plan.items[0];
    assert_int_equal(item->steps[0].tokens_max, CONTEXT - item->token_count); /* the room */
    assert_int_equal(item->steps[0].top_logprobs, -1);
    /* The default, said aloud. */
    plan_rig_prompt(&rig, endpoint,
        "{\"messages\":[{\"role\":\"user\",\"content\":\"ab\"}],\"top_logprobs\":0}",
        "{B}{U}u:ab{U}");
    assert_int_equal(rig.call.plan.items[0].steps[0].top_logprobs, -1);
    /* What a message spells stays text; parts are one text. */
    plan_rig_prompt(&rig, endpoint,
        "{\"messages\":[{\"role\":\"system\",\"content\":\"</s>\"},"
        "{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"<|user|>\"}]}],"
        "\"n\":2,\"logprobs\":true,\"max_completion_tokens\":3,\"max_tokens\":9}",
        "{B}{U}s:</s>{U}a:<|user|>{U}");
    assert_int_equal(rig.call.plan.item_count, 2);
    assert_int_equal(rig.call.plan.items[1].steps[0].tokens_max, 3);
    assert_int_equal(rig.call.plan.items[1].steps[0].top_logprobs, 0);
    plan_rig_refused(&rig, endpoint,
        "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"top_logprobs\":1}", ERR_INVALID,
        "/top_logprobs");
    /* BOS, two marks and "u:" leave 59; one more is the answer's. */
    for (int32_t extra = 0; extra < 2; extra++) {
        char body[256];
        (void)snprintf(body, sizeof(body),
            "{\"messages\":[{\"role\":\"user\",\"content\":\"%0*d\"}]}", CONTEXT - 6 + extra, 0);
        enum err err = plan_rig_plan(&rig, endpoint, body);
        assert_int_equal(err, extra == 0 ? ERR_OK : ERR_CONTEXT);
    }
    assert_string_equal(rig.info.where, "/messages");
    chat_template_close(template);
    plan_rig_close(&rig);
}

/* ---- v1/responses -------------------------------------------------------------------------- */

static void test_v1_responses(void **state)
{
    (void)state;
    struct plan_rig rig;
    struct chat_template *template = NULL;
    const struct chat_tokens tokens = {.bos = "<s>", .eos = "</s>"};
    const struct endpoint *endpoint = &endpoint_v1_responses;
    plan_rig_open(&rig, true, false);
    assert_int_equal(
        chat_template_open(TEMPLATE, strlen(TEMPLATE), &tokens, &template, &rig.info), ERR_OK);
    rig.chat_template = template;
    plan_rig_prompt(&rig, endpoint, "{\"input\":\"ab\"}", "{B}{U}u:ab{U}");
    plan_rig_prompt(&rig, endpoint,
        "{\"instructions\":\"i\",\"input\":[{\"role\":\"assistant\",\"content\":\"</s>\"},"
        "{\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"c\"}]}],"
        "\"max_output_tokens\":3,\"stream\":true}",
        "{B}{U}s:i{U}a:</s>{U}u:c{U}");
    assert_int_equal(rig.call.plan.items[0].steps[0].tokens_max, 3);
    assert_true(rig.call.plan.stream);
    plan_rig_refused(
        &rig, endpoint, "{\"input\":\"a\",\"top_logprobs\":1}", ERR_INVALID, "/top_logprobs");
    chat_template_close(template);
    plan_rig_close(&rig);
}

/* Each allocation fails once. */
static void test_allocation_failures(void **state)
{
    (void)state;
    struct plan_rig rig;
    struct chat_template *template = NULL;
    const struct chat_tokens tokens = {.bos = "<s>", .eos = "</s>"};
    static const struct {
        const struct endpoint *endpoint;
        const char *body;
    } cases[] = {
        {&endpoint_v1_chat,
            "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"stop\":\"x\"}"},
        {&endpoint_v1_responses,
            "{\"instructions\":\"i\",\"input\":[{\"role\":\"user\",\"content\":["
            "{\"type\":\"input_text\",\"text\":\"c\"}]}]}"},
    };
    plan_rig_open(&rig, true, false);
    assert_int_equal(
        chat_template_open(TEMPLATE, strlen(TEMPLATE), &tokens, &template, &rig.info), ERR_OK);
    rig.chat_template = template;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        enum err err = ERR_NO_MEMORY;
        int32_t failures = 0;
        for (uint64_t nth = 1; err != ERR_OK; nth++) {
            arena_drop(&rig.arena);
            arena_init(&rig.arena, MEM_REQUESTS, 256, 1 << 24);
            mem_fail_after(nth, (int)(nth % 2));
            err = plan_rig_plan(&rig, cases[i].endpoint, cases[i].body);
            mem_fail_after(0, 0);
            /* A template without memory says that it takes more than it may. */
            if (err != ERR_OK && err != ERR_NO_MEMORY && err != ERR_LIMIT) {
                fail_msg("%s, allocation %d: %s", cases[i].body, (int)nth, rig.info.text);
            }
            failures += err != ERR_OK;
        }
        assert_true(failures > 5);
    }
    chat_template_close(template);
    plan_rig_close(&rig);
    assert_int_equal(mem_bytes(MEM_REQUESTS), 0);
}

int main(void)
{
    json_in_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_v1_embeddings),
        cmocka_unit_test(test_v1_completions),
        cmocka_unit_test(test_v1_completions_suffix),
        cmocka_unit_test(test_v1_chat),
        cmocka_unit_test(test_v1_responses),
        cmocka_unit_test(test_allocation_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
