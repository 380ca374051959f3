/*
 * Goal: /similarity and /rerank compare one text with the others, and name what is wrong by its
 * place in their own bodies.
 * Method: plans read as text (plan_rig.h); then replies to vectors whose cosines are plain to see.
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

static void test_plans(void **state)
{
    (void)state;
    struct plan_rig rig;
    plan_rig_open(&rig, true, false);
    plan_rig_prompt(&rig, &endpoint_similarity,
        "{\"inputs\":{\"source_sentence\":\"ab\",\"sentences\":[\"c\",\"d\"]}}", "{B}ab");
    plan_rig_item(&rig, 1, "{B}c");
    plan_rig_item(&rig, 2, "{B}d");
    assert_int_equal(rig.call.plan.item_count, 3);
    assert_true(rig.call.plan.items[0].normalize);
    plan_rig_prompt(&rig, &endpoint_rerank, "{\"query\":\"ab\",\"texts\":[\"c\"]}", "{B}ab");
    plan_rig_item(&rig, 1, "{B}c");
    plan_rig_prompt(&rig, &endpoint_v1_rerank,
        "{\"query\":\"ab\",\"documents\":[\"c\",{\"text\":\"d\",\"id\":1}]}", "{B}ab");
    plan_rig_item(&rig, 2, "{B}d");
    plan_rig_close(&rig);
}

/* The query's prompt and the texts', by the names that models give them. */
static void test_prompts(void **state)
{
    (void)state;
    struct plan_rig rig;
    plan_rig_open(&rig, false, false);
    static const struct {
        const char *name, *text;
    } prompts[] = {{"search_query", "q:{text}"}, {"other", "o:{text}"}, {"passage", "p:{text}"}};
    for (size_t i = 0; i < ARRAY_COUNT(prompts); i++) {
        (void)strcpy(rig.model.prompts[i].name, prompts[i].name);
        (void)strcpy(rig.model.prompts[i].text, prompts[i].text);
    }
    rig.model.prompt_count = 3;
    plan_rig_prompt(&rig, &endpoint_rerank, "{\"query\":\"ab\",\"texts\":[\"c\"]}", "q:ab");
    plan_rig_item(&rig, 1, "p:c");
    rig.model.prompt_count = 2; /* the texts have none */
    plan_rig_prompt(&rig, &endpoint_rerank, "{\"query\":\"ab\",\"texts\":[\"c\"]}", "q:ab");
    plan_rig_item(&rig, 1, "c");
    static const char both[] = "{\"inputs\":{\"source_sentence\":\"ab\",\"sentences\":[\"c\"]},"
                               "\"parameters\":{\"prompt_name\":\"other\"}}";
    plan_rig_prompt(&rig, &endpoint_similarity, both, "o:ab");
    plan_rig_item(&rig, 1, "o:c");
    plan_rig_close(&rig);
}

static void test_places(void **state)
{
    (void)state;
    static const struct {
        const struct endpoint *endpoint;
        const char *body;
        enum err err;
        const char *where;
    } cases[] = {
        {&endpoint_similarity, "{\"inputs\":{\"source_sentence\":\" \",\"sentences\":[\"a\"]}}",
            ERR_EMPTY, "/inputs/source_sentence"},
        {&endpoint_similarity,
            "{\"inputs\":{\"source_sentence\":\"a\",\"sentences\":[\"a\",\"\"]}}", ERR_EMPTY,
            "/inputs/sentences/1"},
        {&endpoint_similarity, "{\"inputs\":{\"source_sentence\":\"a\",\"sentences\":[]}}",
            ERR_EMPTY, "/inputs/sentences"},
        {&endpoint_rerank, "{\"query\":\"\",\"texts\":[\"a\"]}", ERR_EMPTY, "/query"},
        {&endpoint_rerank, "{\"query\":\"a\",\"texts\":[\"\"]}", ERR_EMPTY, "/texts/0"},
        {&endpoint_rerank, "{\"query\":\"a\",\"texts\":[]}", ERR_EMPTY, "/texts"},
        {&endpoint_rerank, "{\"query\":\"a\",\"documents\":[\"b\",{\"text\":\"\"}]}", ERR_EMPTY,
            "/documents/1"},
        {&endpoint_rerank, "{\"query\":\"a\",\"documents\":[]}", ERR_EMPTY, "/documents"},
        {&endpoint_rerank, "{\"query\":\"a\"}", ERR_INVALID, "/texts"},
        {&endpoint_rerank, "{\"query\":\"a\",\"texts\":[\"b\"],\"documents\":[\"b\"]}", ERR_INVALID,
            "/texts"},
        {&endpoint_rerank, "{\"query\":\"a\",\"texts\":[\"b\"],\"top_n\":0}", ERR_INVALID,
            "/top_n"},
        {&endpoint_rerank, "{\"query\":\"a\",\"texts\":[\"b\",\"c\"]}", ERR_OK, ""},
        {&endpoint_rerank, "{\"query\":\"a\",\"texts\":[\"b\",\"c\",\"d\"]}", ERR_LIMIT, "/texts"},
    };
    struct plan_rig rig;
    plan_rig_open(&rig, true, false);
    rig.limits.items_max = 3; /* the query is one of them */
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        plan_rig_refused(&rig, cases[i].endpoint, cases[i].body, cases[i].err, cases[i].where);
    }
    char body[256]; /* one past the context */
    (void)snprintf(body, sizeof(body),
        "{\"query\":\"a\",\"documents\":[\"b\",\"%0*d\"],\"truncate\":false}", CONTEXT, 0);
    plan_rig_refused(&rig, &endpoint_rerank, body, ERR_CONTEXT, "/documents/1");
    (void)snprintf(body, sizeof(body), "{\"query\":\"%0*d\",\"documents\":[\"b\"]}", CONTEXT, 0);
    assert_int_equal(plan_rig_plan(&rig, &endpoint_rerank, body), ERR_OK);
    assert_string_equal(rig.call.truncated_inputs, "0");
    plan_rig_close(&rig);
}

/* ---- replies ------------------------------------------------------------------------------- */

/* The query, and texts behind it, across it, against it and like the first. */
static float VECTORS[5][2] = {{1, 0}, {0.6f, 0.8f}, {0, 1}, {-1, 0}, {0.6f, 0.8f}};
#define TEXTS "[\"a\",\"b\",\"c\",\"d\"]"

static enum err answer(struct plan_rig *rig, const struct endpoint *endpoint, const char *body,
    int32_t failing, char *out_reply, size_t bytes)
{
    struct item_result results[5] = {0};
    struct job job = {.results = results};
    struct buf reply;
    if (plan_rig_plan(rig, endpoint, body) != ERR_OK) {
        fail_msg("%s: %s", body, rig->info.text);
    }
    job.plan = rig->call.plan;
    assert_int_equal(job.plan.item_count, ARRAY_COUNT(VECTORS));
    for (int32_t i = 0; i < job.plan.item_count; i++) {
        results[i] = (struct item_result){.err = i == failing ? ERR_NON_FINITE : ERR_OK,
            .vector = VECTORS[i],
            .vector_rows = 1,
            .vector_dim = 2,
            .prompt_tokens = 1};
    }
    buf_init(&reply, MEM_REQUESTS, 4096);
    const enum err err = endpoint->encode(&rig->call, &job, &reply, &rig->info);
    (void)snprintf(out_reply, bytes, "%.*s", (int)reply.count, err == ERR_OK ? reply.bytes : "");
    buf_free(&reply);
    return err;
}

static void test_replies(void **state)
{
    (void)state;
    static const struct {
        const struct endpoint *endpoint;
        const char *body, *reply;
    } cases[] = {
        {&endpoint_similarity, "{\"inputs\":{\"source_sentence\":\"q\",\"sentences\":" TEXTS "}}",
            "[0.6,0.0,-1.0,0.6]"},
        {&endpoint_rerank, "{\"query\":\"q\",\"texts\":" TEXTS "}",
            "[{\"index\":0,\"score\":0.8},{\"index\":3,\"score\":0.8},{\"index\":1,\"score\":0.5},"
            "{\"index\":2,\"score\":0.0}]"},
        {&endpoint_rerank,
            "{\"query\":\"q\",\"texts\":" TEXTS ",\"raw_scores\":true,\"return_text\":true,"
            "\"return_documents\":true,\"top_n\":9}",
            "[{\"index\":0,\"text\":\"a\",\"score\":0.6},{\"index\":3,\"text\":\"d\",\"score\":0.6}"
            ","
            "{\"index\":1,\"text\":\"b\",\"score\":0.0},{\"index\":2,\"text\":\"c\",\"score\":-1.0}"
            "]"},
        {&endpoint_v1_rerank,
            "{\"query\":\"q\",\"documents\":" TEXTS ",\"top_n\":1,\"return_documents\":true}",
            "{\"object\":\"list\",\"model\":\"m\",\"results\":[{\"index\":0,\"document\":{\"text\":"
            "\"a\"},\"relevance_score\":0.8}],\"usage\":{\"prompt_tokens\":5,\"total_tokens\":5}}"},
        {&endpoint_rerank,
            "{\"query\":\"q\",\"documents\":" TEXTS ",\"top_n\":2,\"return_text\":true}",
            "{\"object\":\"list\",\"model\":\"m\",\"results\":[{\"index\":0,\"relevance_score\":0.8"
            "},{\"index\":3,\"relevance_score\":0.8}],\"usage\":{\"prompt_tokens\":5,"
            "\"total_tokens\":5}}"},
    };
    struct plan_rig rig;
    char reply[1024];
    plan_rig_open(&rig, false, false);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        assert_int_equal(
            answer(&rig, cases[i].endpoint, cases[i].body, -1, reply, sizeof(reply)), ERR_OK);
        assert_string_equal(reply, cases[i].reply);
    }
    static const char body[] = "{\"query\":\"q\",\"texts\":" TEXTS "}";
    assert_int_equal(answer(&rig, &endpoint_rerank, body, 0, reply, sizeof(reply)), ERR_NON_FINITE);
    assert_string_equal(rig.info.where, "/query");
    assert_int_equal(answer(&rig, &endpoint_rerank, body, 4, reply, sizeof(reply)), ERR_NON_FINITE);
    assert_string_equal(rig.info.where, "/texts/3");
    plan_rig_close(&rig);
}

int main(void)
{
    json_in_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plans),
        cmocka_unit_test(test_prompts),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_replies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
