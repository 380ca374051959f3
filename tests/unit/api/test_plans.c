/*
 * Goal: each request becomes the plan the documents describe.
 * Method: prompts read as text (plan_rig.h). Then every endpoint with each allocation made to fail.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/infill_llama.h"
#include "tests/unit/api/plan_rig.h"

/* ---- fim ----------------------------------------------------------------------------------- */

static void test_fim_layouts(void **state)
{
    (void)state;
    struct plan_rig rig;
    plan_rig_open(&rig, false, false);
    static const struct {
        const char *body, *prompt;
    } cases[] = {
        {"{\"input_prefix\":\"ab\",\"input_suffix\":\"cd\"}", "{P}ab{S}cd{M}"},
        {"{\"input_prefix\":\"\",\"input_suffix\":\"\"}", "{P}{S}{M}"},
        {"{\"input_prefix\":\"ab\",\"input_suffix\":\"cd\",\"fim_order\":\"spm\"}",
            "{P}{S}cd{M}ab"},
        {"{\"input_prefix\":\"ab\",\"input_suffix\":\"cd\",\"prompt\":\"xy\"}", "{P}abxy{S}cd{M}"},
        {"{\"input_prefix\":\"ab\",\"input_suffix\":\"cd\",\"prompt\":\"xy\","
         "\"prompt_position\":\"after_mid\"}",
            "{P}ab{S}cd{M}xy"},
        {"{\"input_prefix\":\"ab\",\"input_suffix\":\"cd\",\"prompt\":\"xy\",\"fim_order\":"
         "\"spm\",\"prompt_position\":\"after_mid\"}",
            "{P}{S}cd{M}abxy"},
        {"{\"input_prefix\":\"ab\",\"input_suffix\":\"cd\",\"repo\":\"r\",\"filename\":\"f\","
         "\"input_extra\":[{\"filename\":\"g\",\"text\":\"G\"},{\"text\":\"H\"}]}",
            "{R}r{F}g\nG\n{F}H\n{F}f\n{P}ab{S}cd{M}"},
        /* The client's text spells control tokens: they stay text. */
        {"{\"input_prefix\":\"<fim_suffix>\",\"input_suffix\":\"</s>\"}",
            "{P}<fim_suffix>{S}</s>{M}"},
        {"{\"text\":\"ab[gap]cd\"}", "{P}ab{S}cd{M}"},
        {"{\"text\":\"ab[gap]cd\",\"fim_order\":\"spm\"}", "{P}{S}cd{M}ab"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        plan_rig_prompt(&rig, &endpoint_infill, cases[i].body, cases[i].prompt);
        assert_int_equal(rig.call.plan.items[0].context_count, 0);
        assert_int_equal(rig.call.plan.items[0].steps[0].stop_token_count, 5);
    }
    plan_rig_close(&rig);
    plan_rig_open(&rig, true, false); /* one BOS, first */
    plan_rig_prompt(&rig, &endpoint_infill,
        "{\"input_prefix\":\"ab\",\"input_suffix\":\"cd\",\"repo\":\"r\"}", "{B}{R}r{P}ab{S}cd{M}");
    plan_rig_close(&rig);
}

static void test_fim_gaps(void **state)
{
    (void)state;
    struct plan_rig rig;
    plan_rig_open(&rig, false, false);
    assert_int_equal(plan_rig_plan(&rig, &endpoint_infill,
                         "{\"text\":\"ab[gap]cd[gap]ef\",\"spans\":\"independent\"}"),
        ERR_OK);
    assert_int_equal(rig.call.plan.item_count, 2);
    plan_rig_item(&rig, 0, "{P}ab{S}cd{M}"); /* up to the next gap */
    plan_rig_item(&rig, 1, "{P}abcd{S}ef{M}");
    /* Sequential ones begin a chain: test_fim.c. */
    assert_int_equal(
        plan_rig_plan(&rig, &endpoint_infill, "{\"text\":\"ab[gap]cd[gap]ef\"}"), ERR_OK);
    assert_int_equal(rig.call.plan.item_count, 1);
    plan_rig_close(&rig);
}

/* Room here: context 64 - answer - 6 specials. Far ends go, shares are kept. */
static void test_fim_window(void **state)
{
    (void)state;
    struct plan_rig rig;
    plan_rig_open(&rig, false, false);
    /* n_predict 2: room 56, prefix 42, suffix 14. */
    plan_rig_prompt(&rig, &endpoint_infill,
        "{\"n_predict\":2,"
        "\"input_prefix\":\"0123456789012345678901234567890123456789012345678901234567890123\","
        "\"input_suffix\":\"ABCDEFGHIJKLMNOPQRSTUVWXYZ\"}",
        "{P}234567890123456789012345678901234567890123{S}ABCDEFGHIJKLMN{M}");
    /* The suffix needs little: the rest is the prefix's. */
    plan_rig_prompt(&rig, &endpoint_infill,
        "{\"n_predict\":2,\"input_suffix\":\"ab\",\"input_prefix\":"
        "\"0123456789012345678901234567890123456789012345678901234567890123\"}",
        "{P}012345678901234567890123456789012345678901234567890123{S}ab{M}");
    /* And the other way round. */
    plan_rig_prompt(&rig, &endpoint_infill,
        "{\"n_predict\":2,\"input_prefix\":\"ab\",\"input_suffix\":"
        "\"0123456789012345678901234567890123456789012345678901234567890123\"}",
        "{P}ab{S}012345678901234567890123456789012345678901234567890123{M}");
    /* Extra files: the oldest goes whole, the next is cut at its front. 56 - 40 = 16 tokens. */
    plan_rig_prompt(&rig, &endpoint_infill,
        "{\"n_predict\":2,\"input_prefix\":\"0123456789012345678901234567890123456789\","
        "\"input_suffix\":\"\",\"input_extra\":[{\"text\":\"oldest\"},{\"text\":\"middle\"},"
        "{\"text\":\"newest one\"}]}",
        "dle\n{F}newest one\n{P}0123456789012345678901234567890123456789{S}{M}");
    const struct infill_llama_notes *notes = rig.call.state;
    assert_true(notes->truncated);
    /* No budget: a quarter of the context is kept for the answer, which then takes all there is. */
    plan_rig_prompt(
        &rig, &endpoint_infill, "{\"input_prefix\":\"ab\",\"input_suffix\":\"c\"}", "{P}ab{S}c{M}");
    assert_int_equal(rig.call.plan.items[0].steps[0].tokens_max, CONTEXT - 6);
    notes = rig.call.state;
    assert_false(notes->truncated);
    plan_rig_close(&rig);
}

/* ---- hybrid -------------------------------------------------------------------------------- */

static void check_positions(const struct plan_rig *rig, const int32_t *expected, int32_t count)
{
    const struct plan_item *item = &rig->call.plan.items[0];
    assert_int_equal(item->token_count, count);
    assert_int_equal(item->context_count, count);
    for (int32_t i = 0; i < count; i++) {
        assert_int_equal(item->positions[i], expected[i]);
    }
}

static void check_step(const struct plan_step *step, int32_t row, int32_t position, int32_t max)
{
    assert_int_equal(step->kind, STEP_DECODE);
    assert_int_equal(step->read_row, row);
    assert_int_equal(step->position, position);
    assert_int_equal(step->tokens_max, max);
}

static void test_hybrid_positions(void **state)
{
    (void)state;
    struct plan_rig rig;
    plan_rig_open(&rig, true, false);
    /* The example of the decision: BOS A B [gap of 3] C D. */
    plan_rig_prompt(&rig, &endpoint_infill,
        "{\"text\":\"AB[gap]CD\",\"max_tokens\":3,\"mode\":\"hybrid\"}", "{B}ABCD");
    check_positions(&rig, (const int32_t[]){0, 1, 2, 6, 7}, 5);
    check_step(&rig.call.plan.items[0].steps[0], 2, 3, 3);
    /* BOS is a left neighbour; a gap may end the text; reserve may be below the budget. */
    plan_rig_prompt(&rig, &endpoint_infill,
        "{\"segments\":[{\"gap\":{\"max_tokens\":4,\"reserve\":2}},{\"text\":\"x\"},{\"text\":"
        "\"y\"},"
        "{\"gap\":{\"max_tokens\":1}}],\"mode\":\"hybrid\"}",
        "{B}xy");
    check_positions(&rig, (const int32_t[]){0, 3, 4}, 3);
    check_step(&rig.call.plan.items[0].steps[0], 0, 1, 4);
    check_step(&rig.call.plan.items[0].steps[1], 2, 5, 1);
    assert_int_equal(rig.call.plan.item_count, 1);
    plan_rig_close(&rig);
}

/* A space before a gap is taken out of the context, and the gap's step begins with it. */
static void test_hybrid_heal(void **state)
{
    static const struct {
        const char *body, *prompt;
        bool spaced[2];
    } CASES[] = {
        {"\"text\":\"a [gap] b [gap]c\",\"mode\":\"hybrid\"", "a bc", {true, true}},
        {"\"text\":\"a  [gap]b [gap]\",\"mode\":\"hybrid\"", "a b", {true, true}},
        {"\"text\":\" [gap]b[gap]\",\"mode\":\"hybrid\"", " b", {false, false}},
        {"\"text\":\"a[gap] [gap]\",\"mode\":\"hybrid\"", "a ", {false, false}},
        {"\"text\":\"a\\n[gap]b\\t[gap]\",\"mode\":\"hybrid\"", "a\nb\t", {false, false}},
        {"\"text\":\"a [gap]b [gap]\",\"mode\":\"hybrid\",\"heal\":false", "a b ", {false, false}},
    };
    (void)state;
    struct plan_rig rig;
    plan_rig_open(&rig, false, false);
    for (size_t i = 0; i < ARRAY_COUNT(CASES); i++) {
        for (int independent = 0; independent < 2; independent++) {
            char body[160];
            (void)snprintf(body, sizeof(body), "{%s,\"max_tokens\":2%s}", CASES[i].body,
                independent ? ",\"spans\":\"independent\"" : "");
            plan_rig_prompt(&rig, &endpoint_infill, body, CASES[i].prompt);
            for (int k = 0; k < 2; k++) {
                const struct plan_item *item = &rig.call.plan.items[independent ? k : 0];
                const struct plan_step *step = &item->steps[independent ? 0 : k];
                assert_int_equal(step->border == BORDER_SPACE, CASES[i].spaced[k]);
            }
        }
    }
    plan_rig_prompt(&rig, &endpoint_infill,
        "{\"input_prefix\":\"a \",\"input_suffix\":\"b\",\"mode\":\"hybrid\"}", "ab");
    assert_int_equal(rig.call.plan.items[0].steps[0].border, BORDER_SPACE);
    plan_rig_refused(&rig, &endpoint_infill,
        "{\"text\":\"a [gap]b\",\"heal\":true,\"mode\":\"fim\"}", ERR_UNSUPPORTED_FIELD, "/heal");
    plan_rig_prompt(&rig, &endpoint_infill, /* editors' ids stay what they were */
        "{\"input_prefix\":\"a \",\"input_suffix\":\"b\",\"mode\":\"fim\"}", "{P}a {S}b{M}");
    assert_int_equal(rig.call.plan.items[0].steps[0].border, BORDER_FREE);
    plan_rig_close(&rig);
}

static void test_hybrid_options(void **state)
{
    (void)state;
    struct plan_rig rig;
    plan_rig_open(&rig, false, false);
    rig.model.infill_modes[0] = INFILL_HYBRID; /* then so is `auto` */
    rig.model.infill_mode_count = 1;
    assert_int_equal(
        plan_rig_plan(&rig, &endpoint_infill,
            "{\"segments\":[{\"text\":\"a\"},{\"gap\":{\"until\":\"length\",\"stop\":\".\"}},"
            "{\"text\":\"b\"},{\"gap\":{\"min_tokens\":1,\"stop\":[\"!\",\"?\"]}}],"
            "\"spans\":\"independent\",\"stop\":\"z\",\"max_tokens\":2}"),
        ERR_OK);
    assert_int_equal(rig.call.plan.item_count, 2);
    const struct plan_step *first = &rig.call.plan.items[0].steps[0];
    const struct plan_step *second = &rig.call.plan.items[1].steps[0];
    assert_true(first->ban_end);
    assert_int_equal(first->stop_count, 0);
    assert_false(second->ban_end);
    assert_int_equal(second->stop_count, 2);
    assert_int_equal(second->tokens_min, 1);
    assert_ptr_equal(rig.call.plan.items[0].tokens, rig.call.plan.items[1].tokens);
    assert_int_equal(rig.call.plan.items[1].sampling.sample_index, 1);
    assert_true(rig.call.plan.items[0].sampling.temperature == 0); /* greedy unless asked */
    assert_int_equal(
        plan_rig_plan(&rig, &endpoint_infill, "{\"text\":\"a[gap]\",\"temperature\":0.5}"), ERR_OK);
    assert_true(rig.call.plan.items[0].sampling.temperature == 0.5f);
    assert_int_equal(rig.call.plan.items[0].sampling.top_k, 40);
    /* n answers, of a gap an item each, or of all gaps. */
    plan_rig_prompt(&rig, &endpoint_infill,
        "{\"text\":\"a[gap]b[gap]\",\"n\":16,\"max_tokens\":1,\"spans\":\"independent\"}", "ab");
    assert_int_equal(rig.call.plan.item_count, 32);
    assert_ptr_equal(rig.call.plan.items[31].steps, rig.call.plan.items[1].steps);
    assert_int_equal(rig.call.plan.items[31].sampling.sample_index, 31);
    plan_rig_prompt(
        &rig, &endpoint_infill, "{\"text\":\"a[gap]b[gap]\",\"n\":2,\"max_tokens\":1}", "ab");
    assert_int_equal(rig.call.plan.item_count, 2);
    assert_ptr_equal(rig.call.plan.items[1].steps, rig.call.plan.items[0].steps);
    /* llama.cpp's form as one gap, with a bounded answer. */
    plan_rig_prompt(
        &rig, &endpoint_infill, "{\"input_prefix\":\"ab\",\"input_suffix\":\"c\"}", "abc");
    assert_int_equal(rig.call.plan.items[0].context_count, 3);
    check_step(&rig.call.plan.items[0].steps[0], 1, 2, CONTEXT - 3);
    plan_rig_refused(&rig, &endpoint_infill, "{\"input_prefix\":\"\",\"input_suffix\":\"c\"}",
        ERR_INVALID, "/input_prefix");
    rig.model.infill_mode_count = 0;
    plan_rig_refused(&rig, &endpoint_infill, "{\"input_prefix\":\"a\",\"input_suffix\":\"c\"}",
        ERR_NOT_CAPABLE, "/mode");
    plan_rig_close(&rig);
}

static void test_hybrid_budgets(void **state)
{
    (void)state;
    struct plan_rig rig;
    plan_rig_open(&rig, false, false);
    /* Three tokens of context leave 61: the first gap takes what it wants, the second the rest. */
    plan_rig_prompt(&rig, &endpoint_infill,
        "{\"text\":\"a[gap]bc[gap]\",\"max_tokens\":40,\"mode\":\"hybrid\"}", "abc");
    assert_int_equal(rig.call.plan.items[0].steps[0].tokens_max, 40);
    assert_int_equal(rig.call.plan.items[0].steps[1].tokens_max, 21);
    plan_rig_prompt(&rig, &endpoint_infill,
        "{\"text\":\"a[gap]\",\"max_tokens\":9223372036854775807,\"mode\":\"hybrid\"}", "a");
    assert_int_equal(rig.call.plan.items[0].steps[0].tokens_max, CONTEXT - 1);
    plan_rig_prompt(&rig, &endpoint_infill,
        "{\"text\":\"a[gap]b\",\"max_tokens\":0,\"mode\":\"hybrid\"}", "ab");
    check_positions(&rig, (const int32_t[]){0, 1}, 2);
    plan_rig_refused(&rig, &endpoint_infill,
        "{\"text\":\"a[gap]b[gap]c\",\"max_tokens\":62,\"mode\":\"hybrid\"}", ERR_CONTEXT, "/text");
    plan_rig_close(&rig);
}

static void test_logit_bias(void **state)
{
    (void)state;
    struct plan_rig rig;
    plan_rig_open(&rig, false, false);
    assert_int_equal(plan_rig_plan(&rig, &endpoint_infill,
                         "{\"text\":\"a[gap]\",\"logit_bias\":[[65,1.5],[\"BC\",false]]}"),
        ERR_OK);
    const struct sampling *sampling = &rig.call.plan.items[0].sampling;
    assert_int_equal(sampling->logit_bias_count, 3);
    assert_int_equal(sampling->logit_bias[0].token, 65);
    assert_int_equal(sampling->logit_bias[2].token, 'C');
    assert_true(sampling->logit_bias[1].bias < -1e30f);
    assert_int_equal(
        plan_rig_plan(&rig, &endpoint_infill, "{\"text\":\"a[gap]\",\"logit_bias\":{\"7\":-2}}"),
        ERR_OK);
    assert_int_equal(rig.call.plan.items[0].sampling.logit_bias[0].token, 7);
    static const char *const bad[] = {"{\"266\":1}", "{\"-1\":1}", "{\"1x\":1}", "{\"\":1}"};
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        char body[128];
        (void)snprintf(body, sizeof(body), "{\"text\":\"a[gap]\",\"logit_bias\":%s}", bad[i]);
        plan_rig_refused(&rig, &endpoint_infill, body, ERR_INVALID, "/logit_bias");
    }
    plan_rig_refused(&rig, &endpoint_infill, "{\"text\":\"a[gap]\",\"logit_bias\":[[1,true]]}",
        ERR_INVALID, "/logit_bias/0/1");
    plan_rig_refused(&rig, &endpoint_infill,
        "{\"text\":\"a[gap]\",\"samplers\":[\"top_k\",\"top_k\"]}", ERR_INVALID, "/samplers/1");
    plan_rig_close(&rig);
}

/* ---- embed --------------------------------------------------------------------------------- */

static void test_embed_ends(void **state)
{
    (void)state;
    struct plan_rig rig;
    plan_rig_open(&rig, true, true);
    plan_rig_prompt(&rig, &endpoint_embed, "{\"inputs\":\"ab\"}", "{B}ab{E}");
    assert_int_equal(rig.call.plan.items[0].context_count, 4);
    plan_rig_prompt(&rig, &endpoint_embed, "{\"inputs\":\"ab\",\"pooling\":\"eos\"}", "{B}ab{E}");
    plan_rig_prompt(&rig, &endpoint_embed, "{\"inputs\":[97,98]}", "ab"); /* ids as they are */
    plan_rig_prompt(&rig, &endpoint_embed, "{\"inputs\":\"a<s>\"}", "{B}a<s>{E}");
    plan_rig_close(&rig);
    plan_rig_open(&rig, false, false);
    plan_rig_prompt(&rig, &endpoint_embed, "{\"inputs\":\"ab\",\"pooling\":\"eos\"}", "ab{E}");
    assert_int_equal(rig.call.plan.items[0].pooling, POOLING_EOS);
    plan_rig_prompt(&rig, &endpoint_embed, "{\"inputs\":\"ab\",\"attention\":\"causal\"}", "ab");
    assert_int_equal(rig.call.plan.items[0].context_count, 0);
    plan_rig_prompt(&rig, &endpoint_embed_all, "{\"inputs\":\"ab\"}", "ab");
    assert_true(rig.call.plan.items[0].token_vectors);
    assert_int_equal(rig.call.plan.items[0].pooling, POOLING_NONE);
    plan_rig_close(&rig);
}

static void test_embed_prompts(void **state)
{
    (void)state;
    struct plan_rig rig;
    plan_rig_open(&rig, true, false);
    rig.model.prompt_count = 1;
    (void)snprintf(rig.model.prompts[0].name, sizeof(rig.model.prompts[0].name), "query");
    (void)snprintf(
        rig.model.prompts[0].text, sizeof(rig.model.prompts[0].text), "<|user|>q: {text}!</s>");
    plan_rig_prompt(&rig, &endpoint_embed, "{\"inputs\":\"a</s>\",\"prompt_name\":\"query\"}",
        "{B}{U}q: a</s>!{E}");
    assert_int_equal(rig.call.plan.items[0].pool_from, 0);
    rig.model.pool_skip_instruction = true;
    plan_rig_prompt(
        &rig, &endpoint_embed, "{\"inputs\":\"ab\",\"prompt_name\":\"query\"}", "{B}{U}q: ab!{E}");
    assert_int_equal(rig.call.plan.items[0].pool_from, 5);
    plan_rig_prompt(
        &rig, &endpoint_embed, "{\"inputs\":\"ab\",\"instruction\":\"find:\"}", "{B}find: ab");
    assert_int_equal(rig.call.plan.items[0].pool_from, 7);
    plan_rig_prompt(&rig, &endpoint_embed, "{\"inputs\":\"ab\"}", "{B}ab");
    assert_int_equal(rig.call.plan.items[0].pool_from, 0);
    plan_rig_refused(&rig, &endpoint_embed, "{\"inputs\":\"a\",\"prompt_name\":\"other\"}",
        ERR_LIMIT, "/prompt_name");
    assert_non_null(strstr(rig.info.text, "query"));
    plan_rig_refused(&rig, &endpoint_embed,
        "{\"inputs\":\"a\",\"prompt_name\":\"query\",\"instruction\":\"x\"}", ERR_INVALID,
        "/prompt_name");
    plan_rig_refused(&rig, &endpoint_embed, "{\"inputs\":[1],\"instruction\":\"x\"}", ERR_INVALID,
        "/instruction");
    plan_rig_close(&rig);
}

static void set_text(char *out, size_t bytes, const char *text)
{
    assert_true((size_t)snprintf(out, bytes, "%s", text) < bytes);
}

/* The profile's form for an instruction, its default prompt, and texts that stand twice. */
static void test_embed_forms(void **state)
{
    (void)state;
    struct plan_rig rig;
    plan_rig_open(&rig, true, false);
    struct model_info *model = &rig.model;
    const struct plan_item *item = NULL;
    model->prompt_count = 2;
    set_text(model->prompts[0].name, sizeof(model->prompts[0].name), "plain");
    set_text(model->prompts[0].text, sizeof(model->prompts[0].text), "<|user|>{text}");
    set_text(model->prompts[1].name, sizeof(model->prompts[1].name), "echo");
    set_text(model->prompts[1].text, sizeof(model->prompts[1].text), "1{x} {text} 2 {text}</s>");
    set_text(model->default_prompt, sizeof(model->default_prompt), "plain");
    set_text(
        model->instruction, sizeof(model->instruction), "<|user|>{instruction}\n{text}!{text}</s>");
    /* Without a word about prompts the default; an empty instruction is a word. */
    plan_rig_prompt(&rig, &endpoint_embed, "{\"inputs\":\"ab\"}", "{B}{U}ab");
    plan_rig_prompt(&rig, &endpoint_embed_all, "{\"inputs\":\"ab\"}", "{B}{U}ab");
    plan_rig_prompt(&rig, &endpoint_embed, "{\"inputs\":\"ab\",\"instruction\":\"\"}", "{B}ab");
    plan_rig_prompt(&rig, &endpoint_embed, "{\"inputs\":[97,98]}", "ab");
    item = rig.call.plan.items;
    assert_int_equal(item->pool_from, 0);
    /* Of two copies the second is pooled, with the end that follows it, whatever the profile says
     * of instructions. */
    plan_rig_prompt(&rig, &endpoint_embed, "{\"inputs\":\"ab\",\"prompt_name\":\"echo\"}",
        "{B}1{x} ab 2 ab{E}");
    assert_int_equal(rig.call.plan.items[0].pool_from, 11);
    plan_rig_prompt(&rig, &endpoint_embed, "{\"inputs\":\"ab\",\"instruction\":\"<|user|>{text}\"}",
        "{B}{U}<|user|>{text}\nab!ab{E}");
    assert_int_equal(rig.call.plan.items[0].pool_from, 20);
    /* An end that the template spells is not put twice. */
    plan_rig_prompt(&rig, &endpoint_embed,
        "{\"inputs\":\"ab\",\"prompt_name\":\"echo\",\"pooling\":\"eos\"}", "{B}1{x} ab 2 ab{E}");
    assert_int_equal(rig.call.plan.items[0].pool_from, 11);
    plan_rig_close(&rig);
}

static void test_embed_truncation(void **state)
{
    (void)state;
    static const char digits[] = "0123456789012345678901234567890123456789012345678901234567890123";
    struct plan_rig rig;
    char body[256];
    plan_rig_open(&rig, true, true);
    (void)snprintf(body, sizeof(body), "{\"inputs\":[\"x\",\"%sabc\"]}", digits);
    assert_int_equal(plan_rig_plan(&rig, &endpoint_embed, body), ERR_OK);
    plan_rig_item(&rig, 1, "{B}01234567890123456789012345678901234567890123456789012345678901{E}");
    assert_string_equal(rig.call.truncated_inputs, "1");
    (void)snprintf(body, sizeof(body),
        "{\"inputs\":[\"x\",\"%sabc\"],\"truncation_direction\":\"lEFT\"}", digits);
    assert_int_equal(plan_rig_plan(&rig, &endpoint_embed, body), ERR_OK);
    plan_rig_item(&rig, 1, "{B}56789012345678901234567890123456789012345678901234567890123abc{E}");
    (void)snprintf(body, sizeof(body), "{\"inputs\":[\"x\",\"%s\"],\"truncate\":false}", digits);
    plan_rig_refused(&rig, &endpoint_embed, body, ERR_CONTEXT, "/inputs/1");
    assert_int_equal(rig.info.have, 66);
    assert_int_equal(rig.info.limit, CONTEXT);
    rig.limits.embed_tokens_max = 100000;
    char *many = plan_rig_inputs(70, digits);
    assert_int_equal(plan_rig_plan(&rig, &endpoint_embed, many), ERR_OK);
    assert_int_equal(rig.call.truncated_count, 70);
    assert_string_equal(strstr(rig.call.truncated_inputs, "62"), "62,63,+6");
    free(many);
    plan_rig_close(&rig);
}

static void test_embed_limits(void **state)
{
    (void)state;
    struct plan_rig rig;
    plan_rig_open(&rig, false, false);
    for (int32_t extra = 0; extra <= 1; extra++) {
        char *body = plan_rig_inputs(100 + extra, "a");
        enum err err = plan_rig_plan(&rig, &endpoint_embed, body);
        assert_int_equal(err, extra == 0 ? ERR_OK : ERR_LIMIT);
        free(body);
        body = plan_rig_inputs(50, extra == 0 ? "12345678901234567890" : "123456789012345678901");
        err = plan_rig_plan(&rig, &endpoint_embed, body);
        assert_int_equal(err, extra == 0 ? ERR_OK : ERR_LIMIT);
        free(body);
    }
    assert_int_equal(
        plan_rig_plan(&rig, &endpoint_embed, "{\"inputs\":\"a\",\"dimensions\":8}"), ERR_OK);
    plan_rig_refused(
        &rig, &endpoint_embed, "{\"inputs\":\"a\",\"dimensions\":9}", ERR_LIMIT, "/dimensions");
    plan_rig_close(&rig);
}

/* ---- generate ------------------------------------------------------------------------------ */

static void test_generate(void **state)
{
    (void)state;
    struct plan_rig rig;
    plan_rig_open(&rig, true, true);
    plan_rig_prompt(
        &rig, &endpoint_generate, "{\"inputs\":\"ab\"}", "{B}ab"); /* no EOS before it */
    assert_int_equal(rig.call.plan.items[0].steps[0].tokens_max, CONTEXT - 3);
    assert_true(rig.call.plan.items[0].sampling.temperature == 0);
    plan_rig_prompt(&rig, &endpoint_generate,
        "{\"inputs\":\"<s>a\",\"parameters\":{\"parse_special\":true}}", "{B}a");
    plan_rig_prompt(&rig, &endpoint_generate, "{\"inputs\":\"<s>a\"}", "{B}<s>a");
    plan_rig_prompt(
        &rig, &endpoint_generate, "{\"inputs\":\"abcdef\",\"parameters\":{\"truncate\":3}}", "def");
    static const char *const sampled[] = {"\"do_sample\":true", "\"temperature\":0.5",
        "\"top_k\":5", "\"top_p\":0.5", "\"typical_p\":0.5"};
    for (size_t i = 0; i < ARRAY_COUNT(sampled); i++) {
        char body[128];
        (void)snprintf(body, sizeof(body), "{\"inputs\":\"a\",\"parameters\":{%s}}", sampled[i]);
        assert_int_equal(plan_rig_plan(&rig, &endpoint_generate, body), ERR_OK);
        assert_true(rig.call.plan.items[0].sampling.temperature > 0);
    }
    assert_int_equal(
        plan_rig_plan(&rig, &endpoint_generate,
            "{\"inputs\":\"a\",\"parameters\":{\"do_sample\":true,\"temperature\":0}}"),
        ERR_OK);
    assert_true(rig.call.plan.items[0].sampling.temperature == 0);
    assert_int_equal(plan_rig_plan(&rig, &endpoint_generate_stream,
                         "{\"inputs\":\"a\",\"timeout_ms\":9000,\"no_such\":1}"),
        ERR_OK);
    assert_true(rig.call.stream);
    assert_true(rig.call.plan.stream);
    assert_int_equal(rig.call.timeout_ms, 5000); /* the server's cap */
    assert_string_equal(rig.call.ignored_fields, "no_such");
    plan_rig_close(&rig);
}

/* ---- fields without effect ----------------------------------------------------------------- */

static void test_fields_without_effect(void **state)
{
    (void)state;
    static const struct {
        const char *fields, *ignored; /* NULL = none */
    } cases[] = {
        {"\"text\":\"a[gap]b\"", NULL},
        {"\"text\":\"a[gap]b\",\"cache_prompt\":false,\"id_slot\":3", NULL},
        {"\"text\":\"a[gap]b\",\"candidates\":4", "candidates"},
        {"\"input_prefix\":\"a\",\"input_suffix\":\"b\",\"candidates\":4,\"t_max_predict_ms\":9",
            "candidates"},
        {"\"text\":\"a[gap]b\",\"n_predict\":4,\"repo\":\"r\",\"what\":1", "what,repo,n_predict"},
        {"\"input_prefix\":\"a\",\"input_suffix\":\"b\",\"max_tokens\":4,\"gap\":\"x\"",
            "gap,max_tokens"},
        {"\"text\":\"a[gap]b\",\"fim_order\":\"spm\",\"mode\":\"fim\"", NULL},
        {"\"text\":\"a[gap]b\",\"fim_order\":\"spm\",\"mode\":\"hybrid\"", "fim_order"},
        {"\"text\":\"a[gap]b\",\"reserve\":2,\"mode\":\"hybrid\"", NULL},
        {"\"text\":\"a[gap]b\",\"reserve\":2,\"mode\":\"fim\"", "reserve"},
        {"\"input_prefix\":\"a\",\"input_suffix\":\"b\",\"reserve\":2,\"mode\":\"fim\"", "reserve"},
        {"\"input_prefix\":\"a\",\"input_suffix\":\"b\",\"prompt_position\":\"after_mid\","
         "\"mode\":\"hybrid\"",
            "prompt_position"},
    };
    struct plan_rig rig;
    plan_rig_open(&rig, true, false);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char body[256];
        (void)snprintf(body, sizeof(body), "{%s}", cases[i].fields);
        assert_int_equal(plan_rig_plan(&rig, &endpoint_infill, body), ERR_OK);
        if (cases[i].ignored == NULL) {
            assert_null(rig.call.ignored_fields);
        } else {
            assert_non_null(rig.call.ignored_fields);
            assert_string_equal(rig.call.ignored_fields, cases[i].ignored);
        }
    }
    plan_rig_close(&rig);
}

static void test_time_to_predict(void **state)
{
    (void)state;
    static const struct {
        const char *fields;
        int64_t us;
        bool line;
    } cases[] = {
        {"\"text\":\"a[gap]b\"", 0, false},
        {"\"text\":\"a[gap]b\",\"t_max_predict_ms\":0", 0, false},
        {"\"text\":\"a[gap]b\",\"t_max_predict_ms\":9", 9000, false},
        {"\"input_prefix\":\"a\",\"input_suffix\":\"b\",\"t_max_predict_ms\":-1", 0, true},
        {"\"input_prefix\":\"a\",\"input_suffix\":\"b\",\"t_max_predict_ms\":1", 1000, true},
    };
    struct plan_rig rig;
    plan_rig_open(&rig, true, false);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char body[256];
        (void)snprintf(body, sizeof(body), "{%s}", cases[i].fields);
        assert_int_equal(plan_rig_plan(&rig, &endpoint_infill, body), ERR_OK);
        assert_int_equal(rig.call.plan.predict_us, cases[i].us);
        assert_int_equal(rig.call.plan.predict_line, cases[i].line);
    }
    plan_rig_close(&rig);
}

/* ---- memory -------------------------------------------------------------------------------- */

static void test_allocation_failures(void **state)
{
    (void)state;
    static const struct {
        const struct endpoint *endpoint;
        const char *body;
    } cases[] = {
        {&endpoint_embed, "{\"inputs\":[\"a\",\"b\"],\"instruction\":\"i\",\"what\":1}"},
        {&endpoint_v1_embeddings, "{\"input\":[\"a\",\"b\"],\"dimensions\":4}"},
        {&endpoint_embed, "{\"inputs\":[\"a\",\"\",\"b\"],\"on_error\":\"report\"}"},
        {&endpoint_similarity, "{\"inputs\":{\"source_sentence\":\"a\",\"sentences\":[\"b\"]}}"},
        {&endpoint_rerank, "{\"query\":\"a\",\"documents\":[\"b\",{\"text\":\"c\"}]}"},
        {&endpoint_v1_completions,
            "{\"prompt\":[\"a\",\"b\"],\"stop\":\"x\",\"n\":2,\"logit_bias\":{\"97\":1}}"},
        {&endpoint_v1_completions, "{\"prompt\":[[97],[98]],\"echo\":true,\"logprobs\":1}"},
        {&endpoint_v1_completions, "{\"prompt\":\"a\",\"suffix\":\"b\"}"},
        {&endpoint_completion,
            "{\"prompt\":[\"a\",[97,\"b\"]],\"stop\":\"x\",\"logit_bias\":[[\"x\",1]]}"},
        {&endpoint_v1_decisions,
            "{\"input\":\"x\",\"questions\":[{\"type\":\"predicate\",\"instructions\":\"i\"}]}"},
        {&endpoint_v1_moderations, "{\"input\":[{\"type\":\"text\",\"text\":\"x\"}],\"model\":"
                                   "\"omni-moderation-latest\"}"},
        {&endpoint_infill, "{\"text\":\"a[gap]b\",\"stop\":[\"x\"],\"mode\":\"hybrid\"}"},
        {&endpoint_infill,
            "{\"input_prefix\":\"a\",\"input_suffix\":\"b\",\"repo\":\"r\",\"filename\":\"f\","
            "\"input_extra\":[{\"text\":\"e\"}],\"logit_bias\":[[\"x\",1]]}"},
        {&endpoint_generate, "{\"inputs\":\"a\",\"parameters\":{\"stop\":\"x\"}}"},
        {&endpoint_classify, "{\"inputs\":\"x\",\"labels\":[\"p\",\"q\"]}"},
        {&endpoint_predict, "{\"inputs\":[[\"x\"],[\"y\",\"z\"]]}"},
        {&endpoint_classify,
            "{\"input\":\"x\",\"questions\":[{\"type\":\"predicate\",\"instructions\":\"i\"},"
            "{\"type\":\"choice\",\"instructions\":\"i\",\"choices\":[{\"value\":\"a\"}]}]}"},
    };
    struct plan_rig rig;
    plan_rig_open(&rig, true, true);
    rig.model.context = 1000;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        enum err err = ERR_NO_MEMORY;
        int32_t failures = 0;
        for (uint64_t nth = 1; err != ERR_OK; nth++) {
            arena_drop(&rig.arena);
            arena_init(&rig.arena, MEM_REQUESTS, 256, 1 << 24);
            mem_fail_after(nth, (int)(nth % 2));
            err = plan_rig_plan(&rig, cases[i].endpoint, cases[i].body);
            mem_fail_after(0, 0);
            if (err != ERR_OK && err != ERR_NO_MEMORY) {
                fail_msg("%s, allocation %d: %s", cases[i].body, (int)nth, rig.info.text);
            }
            failures += err == ERR_NO_MEMORY;
        }
        assert_true(failures > 5);
    }
    plan_rig_close(&rig);
    assert_int_equal(mem_bytes(MEM_REQUESTS), 0);
}

int main(void)
{
    json_in_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fim_layouts),
        cmocka_unit_test(test_fim_gaps),
        cmocka_unit_test(test_fim_window),
        cmocka_unit_test(test_hybrid_positions),
        cmocka_unit_test(test_hybrid_heal),
        cmocka_unit_test(test_hybrid_options),
        cmocka_unit_test(test_hybrid_budgets),
        cmocka_unit_test(test_logit_bias),
        cmocka_unit_test(test_embed_ends),
        cmocka_unit_test(test_embed_prompts),
        cmocka_unit_test(test_embed_forms),
        cmocka_unit_test(test_embed_truncation),
        cmocka_unit_test(test_embed_limits),
        cmocka_unit_test(test_generate),
        cmocka_unit_test(test_fields_without_effect),
        cmocka_unit_test(test_time_to_predict),
        cmocka_unit_test(test_allocation_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
