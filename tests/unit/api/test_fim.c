/*
 * Goal: every family's fill-in-the-middle tokens are found and laid out as its models were trained,
 * what a family does not know is refused, and sequential gaps are filled one after the other.
 * Method: vocabularies of bytes and one family's tokens under their real spellings; expected
 * prompts are written as words and turned into ids. Jobs of a chain are filled in by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/infill_gaps.h"
#include "tests/unit/text/text_rig.h"

enum { PIECES_MAX = 8, CONTEXT = 64 };

struct rig {
    struct tokenizer *tokenizer;
    struct model_info model;
    struct api_limits limits;
    struct arena arena;
    struct call call;
    struct err_info info;
};

static void rig_open(
    struct rig *rig, bool spm, bool adds_bos, const char *const *pieces, int32_t count)
{
    struct text_rig *text = calloc(1, sizeof(*text));
    assert_non_null(text);
    if (spm) {
        text_rig_spm(text, true);
    } else {
        text_rig_bpe(text, "gpt-2");
        text_rig_u32(text, "tokenizer.ggml.bos_token_id", 256);
        text_rig_u32(text, "tokenizer.ggml.eos_token_id", 257);
        (void)text_rig_add(text, "<s>", RIG_CONTROL, 0);
        (void)text_rig_add(text, "</s>", RIG_CONTROL, 0);
    }
    for (int32_t i = 0; i < count && pieces[i] != NULL; i++) {
        (void)text_rig_add(text, pieces[i], RIG_CONTROL, 0);
    }
    text_rig_bool(text, "tokenizer.ggml.add_bos_token", adds_bos);
    memset(rig, 0, sizeof(*rig));
    rig->tokenizer = text_rig_open(text);
    free(text);
    rig->model = (struct model_info){.name = "m",
        .context = CONTEXT,
        .can_infill = true,
        .infill_modes = {INFILL_FIM},
        .infill_mode_count = 1};
    rig->limits = (struct api_limits){.items_max = 100, .timeout_ms_max = 5000};
    arena_init(&rig->arena, MEM_REQUESTS, 4096, 1 << 24);
}

static void rig_close(struct rig *rig)
{
    tokenizer_close(rig->tokenizer);
    arena_drop(&rig->arena);
}

static enum err rig_plan(struct rig *rig, const char *body)
{
    arena_reset(&rig->arena);
    memset(&rig->info, 0, sizeof(rig->info));
    rig->call = (struct call){.arena = &rig->arena,
        .model = &rig->model,
        .tokenizer = rig->tokenizer,
        .limits = &rig->limits};
    enum err err = endpoint_infill.decode(&rig->call, body, strlen(body), &rig->info);
    return err != ERR_OK ? err : endpoint_infill.plan(&rig->call, &rig->info);
}

/* ---- families ------------------------------------------------------------------------------ */

/* Words of a layout: a token's spelling, or 'text' (it follows other text), or "text" (it begins a
 * prefix, so that SentencePiece gives it its leading space). */
static void expect(const struct rig *rig, const char *layout, struct token_list *ids)
{
    struct err_info info = {0};
    char word[64];
    int used;
    for (const char *at = layout; sscanf(at, "%63s%n", word, &used) == 1; at += used) {
        size_t bytes = strlen(word);
        if (word[0] == '\'' || word[0] == '"') {
            unsigned flags = word[0] == '\'' ? TOKENIZE_CONTINUES : 0;
            for (char *c = word; *c != '\0'; c++) {
                *c = *c == '~' ? '\n' : *c;
            }
            assert_int_equal(
                tokenizer_encode(rig->tokenizer, word + 1, bytes - 2, flags, ids, &info), ERR_OK);
        } else {
            int32_t id = tokenizer_find(rig->tokenizer, word, bytes);
            assert_true(id >= 0);
            assert_int_equal(token_list_add(ids, id, &info), ERR_OK);
        }
    }
}

static void check_layout(struct rig *rig, const char *family, const char *body, const char *layout)
{
    struct token_list ids;
    token_list_init(&ids, 1 << 10);
    if (layout == NULL) {
        assert_int_equal(rig_plan(rig, body), ERR_NOT_CAPABLE);
        assert_string_equal(rig->info.where, "/fim_order");
        return;
    }
    expect(rig, layout, &ids);
    if (rig_plan(rig, body) != ERR_OK) {
        fail_msg("%s: %s: %s", family, rig->info.where, rig->info.text);
    }
    const struct plan_item *item = &rig->call.plan.items[0];
    if (item->token_count != ids.count ||
        memcmp(item->tokens, ids.ids, (size_t)ids.count * sizeof(int32_t)) != 0) {
        fail_msg("%s: %s: other ids", family, layout);
    }
    token_list_free(&ids);
}

#define DEEPSEEK(word) "<\uFF5Cfim\u2581" word "\uFF5C>"
static const char DEEPSEEK_END[] = "<\uFF5Cend\u2581of\u2581sentence\uFF5C>";

static const struct fim_family {
    const char *name;
    bool spm;
    const char *pieces[PIECES_MAX];
    const char *psm, *suffix_first, *usual; /* NULL = refused */
    const char *with_files;
    int32_t stops;
} FAMILIES[] = {
    {"StarCoder2", false,
        {"<fim_prefix>", "<fim_middle>", "<fim_suffix>", "<fim_pad>", "<repo_name>", "<file_sep>",
            "<|endoftext|>"},
        "<fim_prefix> \"ab\" <fim_suffix> 'cd' <fim_middle>",
        "<fim_prefix> <fim_suffix> 'cd' <fim_middle> \"ab\"",
        "<fim_prefix> \"ab\" <fim_suffix> 'cd' <fim_middle>",
        "<repo_name> 'r' <file_sep> 'g~G~' <file_sep> 'f~' "
        "<fim_prefix> \"ab\" <fim_suffix> 'cd' <fim_middle>",
        7},
    {"SantaCoder", false, {"<fim-prefix>", "<fim-middle>", "<fim-suffix>", "<fim-pad>"},
        "<fim-prefix> \"ab\" <fim-suffix> 'cd' <fim-middle>",
        "<fim-prefix> <fim-suffix> 'cd' <fim-middle> \"ab\"",
        "<fim-prefix> \"ab\" <fim-suffix> 'cd' <fim-middle>",
        "'g~G~' 'f~' <fim-prefix> \"ab\" <fim-suffix> 'cd' <fim-middle>", 4},
    {"CodeLlama", true, {"\u2581<PRE>", "\u2581<MID>", "\u2581<SUF>", "\u2581<EOT>"},
        "\u2581<PRE> \"ab\" \u2581<SUF> 'cd' \u2581<MID>",
        "\u2581<PRE> \u2581<SUF> 'cd' \u2581<MID> \"ab\"",
        "\u2581<PRE> \"ab\" \u2581<SUF> 'cd' \u2581<MID>", NULL, 4},
    {"Qwen2.5-Coder", false,
        {"<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>", "<|repo_name|>",
            "<|file_sep|>", "<|endoftext|>"},
        "<|fim_prefix|> \"ab\" <|fim_suffix|> 'cd' <|fim_middle|>",
        "<|fim_prefix|> <|fim_suffix|> 'cd' <|fim_middle|> \"ab\"",
        "<|fim_prefix|> \"ab\" <|fim_suffix|> 'cd' <|fim_middle|>",
        "<|repo_name|> 'r~' <|file_sep|> 'g~G~' <|file_sep|> 'f~' "
        "<|fim_prefix|> \"ab\" <|fim_suffix|> 'cd' <|fim_middle|>",
        7},
    {"DeepSeek-Coder", false, {DEEPSEEK("hole"), DEEPSEEK("begin"), DEEPSEEK("end"), DEEPSEEK_END},
        DEEPSEEK("begin") " \"ab\" " DEEPSEEK("hole") " 'cd' " DEEPSEEK("end"), NULL,
        DEEPSEEK("begin") " \"ab\" " DEEPSEEK("hole") " 'cd' " DEEPSEEK("end"), NULL, 4},
    {"CodeGemma", true,
        {"<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|file_separator|>"},
        "<|fim_prefix|> \"ab\" <|fim_suffix|> 'cd' <|fim_middle|>",
        "<|fim_prefix|> <|fim_suffix|> 'cd' <|fim_middle|> \"ab\"",
        "<|fim_prefix|> \"ab\" <|fim_suffix|> 'cd' <|fim_middle|>",
        "<|file_separator|> 'g~G~' <|file_separator|> 'f~' "
        "<|fim_prefix|> \"ab\" <|fim_suffix|> 'cd' <|fim_middle|>",
        4},
    {"Codestral", true, {"[SUFFIX]", "[PREFIX]"}, NULL, "[SUFFIX] 'cd' [PREFIX] \"ab\"",
        "[SUFFIX] 'cd' [PREFIX] \"ab\"", NULL, 2},
    {"Seed-Coder", false, {"<[fim-suffix]>", "<[fim-prefix]>", "<[fim-middle]>"}, NULL,
        "<[fim-suffix]> 'cd' <[fim-prefix]> \"ab\" <[fim-middle]>",
        "<[fim-suffix]> 'cd' <[fim-prefix]> \"ab\" <[fim-middle]>", NULL, 3},
};

static void check_family(struct rig *rig, const struct fim_family *family, const char *bos)
{
    char layout[512];
    const char *const orders[] = {family->usual, family->psm, family->suffix_first};
    static const char *const fields[] = {"", ",\"fim_order\":\"psm\"", ",\"fim_order\":\"spm\""};
    for (size_t i = 0; i < ARRAY_COUNT(orders); i++) {
        char gaps[128], llama[160];
        (void)snprintf(gaps, sizeof(gaps), "{\"text\":\"ab[gap]cd\"%s}", fields[i]);
        (void)snprintf(
            llama, sizeof(llama), "{\"input_prefix\":\"ab\",\"input_suffix\":\"cd\"%s}", fields[i]);
        (void)snprintf(layout, sizeof(layout), "%s %s", bos, orders[i] != NULL ? orders[i] : "");
        check_layout(rig, family->name, gaps, orders[i] != NULL ? layout : NULL);
        check_layout(rig, family->name, llama, orders[i] != NULL ? layout : NULL);
    }
    if (family->with_files != NULL) {
        (void)snprintf(layout, sizeof(layout), "%s %s", bos, family->with_files);
        check_layout(rig, family->name,
            "{\"input_prefix\":\"ab\",\"input_suffix\":\"cd\",\"repo\":\"r\",\"filename\":\"f\","
            "\"input_extra\":[{\"filename\":\"g\",\"text\":\"G\"}]}",
            layout);
    }
}

static void test_families(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(FAMILIES); i++) {
        const struct fim_family *family = &FAMILIES[i];
        for (int bos = 0; bos < 2; bos++) {
            struct rig rig;
            rig_open(&rig, family->spm, bos != 0, family->pieces, PIECES_MAX);
            if (bos != 0 || !family->spm) {
                check_family(&rig, family, bos != 0 ? "<s>" : "");
            }
            int32_t stops[LIMIT_STOP_TOKENS];
            int32_t count = fim_stop_tokens(rig.tokenizer, stops);
            assert_int_equal(count, family->stops);
            for (int32_t k = 0; k < count; k++) { /* none is ever part of a fill's text */
                assert_true(tokenizer_is_control(rig.tokenizer, stops[k]));
            }
            rig_close(&rig);
        }
    }
}

/* ---- chains -------------------------------------------------------------------------------- */

static const char *const STAR[] = {"<fim_prefix>", "<fim_middle>", "<fim_suffix>"};
static const char THREE_GAPS[] = "{\"text\":\"ab[gap]cd[gap]ef[gap]gh\",\"max_tokens\":3%s}";

/* Answers the call's plan as the engine would. */
struct answer {
    struct job job;
    struct item_result item;
    struct step_result step;
    float logprobs[8];
    int32_t tokens[8];
    char text[16];
};

static void answer(struct answer *answer, const struct rig *rig, const char *text)
{
    memset(answer, 0, sizeof(*answer));
    (void)snprintf(answer->text, sizeof(answer->text), "%s", text);
    answer->job.plan = rig->call.plan;
    answer->job.results = &answer->item;
    answer->job.times = (struct job_times){.started = 1000, .prompt_done = 3000, .finished = 8000};
    answer->item.steps = &answer->step;
    answer->item.prompt_tokens = rig->call.plan.items[0].token_count;
    answer->item.generated_tokens = (int32_t)strlen(text);
    answer->step = (struct step_result){.finish = FINISH_LENGTH,
        .tokens = answer->tokens,
        .logprobs = answer->logprobs,
        .token_count = (int32_t)strlen(text),
        .text = answer->text,
        .text_bytes = (int32_t)strlen(text)};
    for (int32_t i = 0; i < answer->step.token_count; i++) {
        answer->logprobs[i] = -0.5f;
        answer->tokens[i] = text[i];
    }
}

static void check_prompt(const struct rig *rig, const char *layout)
{
    struct token_list ids;
    token_list_init(&ids, 1 << 10);
    expect(rig, layout, &ids);
    assert_int_equal(rig->call.plan.item_count, 1);
    assert_int_equal(rig->call.plan.items[0].token_count, ids.count);
    assert_memory_equal(
        rig->call.plan.items[0].tokens, ids.ids, (size_t)ids.count * sizeof(int32_t));
    token_list_free(&ids);
}

static bool ask_more(struct rig *rig, struct answer *answer)
{
    bool more = false;
    assert_int_equal(endpoint_infill.more(&rig->call, &answer->job, &more, &rig->info), ERR_OK);
    memset(answer->text, '#', sizeof(answer->text)); /* the job's results are gone now */
    return more;
}

static void check_reply(struct rig *rig, struct answer *last)
{
    static const char *const parts[] = {"{\"text\":\"abXYcdZefgh\",\"gaps\":[",
        "{\"index\":0,\"id\":null,\"text\":\"XY\",\"start\":2,\"end\":4,\"tokens\":2,"
        "\"finish_reason\":\"length\",\"logprob\":-1.0}",
        "{\"index\":1,\"id\":null,\"text\":\"Z\",\"start\":6,\"end\":7,\"tokens\":1,"
        "\"finish_reason\":\"length\",\"logprob\":-0.5}",
        "{\"index\":2,\"id\":null,\"text\":\"\",\"start\":9,\"end\":9,\"tokens\":0,",
        "\"mode\":\"fim\",\"spans\":\"sequential\"",
        /* 7 + 11 + 14 tokens of prompts, each prompt 2 ms and each fill 5 ms */
        "\"usage\":{\"prompt_tokens\":32,\"completion_tokens\":3,\"total_tokens\":35",
        "\"prompt_n\":32,\"prompt_ms\":6.0,", "\"predicted_n\":3,\"predicted_ms\":15.0,"};
    struct buf reply;
    buf_init(&reply, MEM_REQUESTS, 1 << 16);
    assert_int_equal(endpoint_infill.encode(&rig->call, &last->job, &reply, &rig->info), ERR_OK);
    for (size_t i = 0; i < ARRAY_COUNT(parts); i++) {
        if (strstr(reply.bytes, parts[i]) == NULL) {
            fail_msg("no %s in %s", parts[i], reply.bytes);
        }
    }
    buf_free(&reply);
}

static void test_chain(void **state)
{
    (void)state;
    struct rig rig;
    struct answer first, second, last;
    char body[160];
    rig_open(&rig, false, false, STAR, 3);
    (void)snprintf(body, sizeof(body), THREE_GAPS, ",\"temperature\":0.5,\"seed\":7");
    assert_int_equal(rig_plan(&rig, body), ERR_OK);
    assert_true(rig.call.asks_more);
    check_prompt(&rig, "<fim_prefix> 'ab' <fim_suffix> 'cd' <fim_middle>");
    answer(&first, &rig, "XY");
    assert_true(ask_more(&rig, &first));
    check_prompt(&rig, "<fim_prefix> 'abXYcd' <fim_suffix> 'ef' <fim_middle>");
    /* Another random stream than the first gap's, from the same seed. */
    assert_int_equal(rig.call.plan.items[0].sampling.seed, 7);
    assert_int_equal(rig.call.plan.items[0].sampling.sample_index, 1);
    assert_int_equal(rig.call.plan.items[0].steps[0].stop_token_count, 3);
    answer(&second, &rig, "Z");
    assert_true(ask_more(&rig, &second));
    check_prompt(&rig, "<fim_prefix> 'abXYcdZef' <fim_suffix> 'gh' <fim_middle>");
    answer(&last, &rig, "");
    assert_false(ask_more(&rig, &last));
    check_reply(&rig, &last);
    rig_close(&rig);
}

static void test_chain_of_a_stream(void **state)
{
    (void)state;
    struct rig rig;
    struct answer one;
    struct buf frames;
    char body[160];
    static const char *const fills[] = {"X", "Y", "Z"};
    rig_open(&rig, false, false, STAR, 3);
    (void)snprintf(body, sizeof(body), THREE_GAPS, ",\"stream\":true");
    buf_init(&frames, MEM_REQUESTS, 1 << 16);
    assert_int_equal(rig_plan(&rig, body), ERR_OK);
    bool more = true;
    for (int32_t gap = 0; gap < 3; gap++) {
        char expected[160];
        assert_true(more);
        assert_true(rig.call.plan.stream);
        answer(&one, &rig, fills[gap]);
        const struct token_event event = {
            .token = fills[gap][0], .text_bytes = 1, .last = true, .finish = FINISH_LENGTH};
        buf_clear(&frames);
        assert_int_equal(endpoint_infill.frame(&rig.call, &one.job, &event, &frames), ERR_OK);
        (void)snprintf(expected, sizeof(expected),
            "data: {\"gap\":%d,\"text\":\"%s\",\"tokens\":[%d]}\n\n"
            "data: {\"gap\":%d,\"finish_reason\":\"length\"}\n\n",
            gap, fills[gap], fills[gap][0], gap);
        assert_string_equal(frames.bytes, expected);
        if (gap < 2) {
            more = ask_more(&rig, &one);
        }
    }
    buf_clear(&frames);
    assert_int_equal(endpoint_infill.frame_end(&rig.call, &one.job, &frames), ERR_OK);
    static const char beginning[] = "data: {\"text\":\"abXcdYefZgh\",";
    assert_int_equal(strncmp(frames.bytes, beginning, strlen(beginning)), 0);
    assert_null(strstr(frames.bytes + 6, "data: ")); /* one frame: the gaps were sent before */
    buf_free(&frames);
    rig_close(&rig);
}

/* Independent gaps and a single one are no chain. */
static void test_no_chain(void **state)
{
    (void)state;
    struct rig rig;
    char body[160];
    rig_open(&rig, false, false, STAR, 3);
    (void)snprintf(body, sizeof(body), THREE_GAPS, ",\"spans\":\"independent\"");
    assert_int_equal(rig_plan(&rig, body), ERR_OK);
    assert_false(rig.call.asks_more);
    assert_int_equal(rig.call.plan.item_count, 3);
    assert_int_equal(rig.call.plan.items[2].token_count, 3 + 8);
    assert_int_equal(rig_plan(&rig, "{\"text\":\"ab[gap]cd\"}"), ERR_OK);
    assert_false(rig.call.asks_more);
    rig_close(&rig);
}

/* A failed item ends the chain; the reply says what failed. */
static void test_chain_ends_with_a_failure(void **state)
{
    (void)state;
    struct rig rig;
    struct answer one;
    char body[160];
    rig_open(&rig, false, false, STAR, 3);
    (void)snprintf(body, sizeof(body), THREE_GAPS, "");
    assert_int_equal(rig_plan(&rig, body), ERR_OK);
    answer(&one, &rig, "X");
    one.item.err = ERR_NON_FINITE;
    assert_false(ask_more(&rig, &one));
    struct buf reply;
    buf_init(&reply, MEM_REQUESTS, 1 << 16);
    assert_int_equal(
        endpoint_infill.encode(&rig.call, &one.job, &reply, &rig.info), ERR_NON_FINITE);
    buf_free(&reply);
    rig_close(&rig);
}

/* Prompts of 3 specials and 3, 5, 7 letters before the fills; 64 tokens of context. */
static void test_chain_budgets(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig, false, false, STAR, 3);
    static const struct {
        const char *gaps;
        int32_t first, second, third;
    } cases[] = {
        {"\"max_tokens\":10", 10, 10, 10},
        {"\"max_tokens\":60", 52, 1, 1}, /* 64 - 3 - 7 = 54 for all three */
        {"\"max_tokens\":30", 30, 23, 1},
        {"\"max_tokens\":0", 0, 0, 0},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char body[160];
        (void)snprintf(
            body, sizeof(body), "{\"text\":\"ab[gap]c[gap]de[gap]fg\",%s}", cases[i].gaps);
        assert_int_equal(rig_plan(&rig, body), ERR_OK);
        const struct gaps_notes *notes = rig.call.state;
        assert_int_equal(rig.call.plan.items[0].steps[0].tokens_max, cases[i].first);
        assert_int_equal(notes->gaps[0].tokens_max, cases[i].first);
        assert_int_equal(notes->gaps[1].tokens_max, cases[i].second);
        assert_int_equal(notes->gaps[2].tokens_max, cases[i].third);
    }
    static const char too_long[] =
        "{\"text\":\"0123456789012345678901234567890123456789[gap]0123456789[gap]0123456\"}";
    assert_int_equal(rig_plan(&rig, too_long), ERR_OK); /* 60 and two tokens */
    assert_int_equal(
        rig_plan(&rig, "{\"text\":\"0123456789012345678901234567890123456789[gap]0123456789"
                       "[gap]0123456789\"}"),
        ERR_CONTEXT);
    assert_string_equal(rig.info.where, "/text");
    rig_close(&rig);
}

static void test_allocation_failures(void **state)
{
    (void)state;
    struct rig rig;
    struct answer one;
    char body[160];
    rig_open(&rig, false, false, STAR, 3);
    (void)snprintf(body, sizeof(body), THREE_GAPS, "");
    enum err err = ERR_NO_MEMORY;
    int32_t failures = 0;
    for (uint64_t nth = 1; err != ERR_OK; nth++) {
        bool more = false;
        arena_drop(&rig.arena);
        arena_init(&rig.arena, MEM_REQUESTS, 256, 1 << 24);
        assert_int_equal(rig_plan(&rig, body), ERR_OK);
        answer(&one, &rig, "X");
        mem_fail_after(nth, 0);
        err = endpoint_infill.more(&rig.call, &one.job, &more, &rig.info);
        mem_fail_after(0, 0);
        assert_true(err == ERR_OK || err == ERR_NO_MEMORY);
        assert_int_equal(more, err == ERR_OK);
        failures += err != ERR_OK;
    }
    assert_true(failures > 3);
    rig_close(&rig);
    assert_int_equal(mem_bytes(MEM_REQUESTS), 0);
}

int main(void)
{
    json_in_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_families),
        cmocka_unit_test(test_chain),
        cmocka_unit_test(test_chain_of_a_stream),
        cmocka_unit_test(test_no_chain),
        cmocka_unit_test(test_chain_ends_with_a_failure),
        cmocka_unit_test(test_chain_budgets),
        cmocka_unit_test(test_allocation_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
