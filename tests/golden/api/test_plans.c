/*
 * Goal: what the endpoints plan is, id by id, what the reference was computed from.
 * Method: bodies made of the cases of smollm2-reference are planned with the default model's
 * vocabulary; no engine runs. Then fill-in-the-middle prompts with vocabularies that have the
 * tokens for it. Texts are never printed; a failure names its case by number.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "api/endpoint.h"
#include "api/json_in.h"
#include "engine/base/assert.h"
#include "tests/golden/golden_data.h"
#include "tests/golden/text/text_golden.h"
#include "tests/skip.h"

struct rig {
    struct tokenizer *tokenizer;
    struct model_info model;
    struct api_limits limits;
    struct arena arena;
    struct call call;
};

/* False, after saying so, when the vocabulary is not there. */
static bool rig_open(struct rig *rig, const char *vocabulary)
{
    memset(rig, 0, sizeof(*rig));
    rig->tokenizer = text_golden_open(vocabulary);
    if (rig->tokenizer == NULL) {
        return false;
    }
    rig->model = (struct model_info){.name = "m",
        .context = 2048,
        .can_infill = true,
        .can_classify = true,
        .infill_modes = {INFILL_FIM, INFILL_HYBRID},
        .infill_mode_count = 2};
    rig->limits = (struct api_limits){.items_max = 100, .timeout_ms_max = 5000};
    arena_init(&rig->arena, MEM_REQUESTS, 4096, 1 << 26);
    return true;
}

static void rig_close(struct rig *rig)
{
    tokenizer_close(rig->tokenizer);
    arena_drop(&rig->arena);
}

/* Takes the body. */
static const struct plan *rig_plan(struct rig *rig, const struct endpoint *endpoint, json_t *body)
{
    struct err_info info = {0};
    char *text = json_dumps(body, 0);
    assert_non_null(text);
    json_decref(body);
    arena_reset(&rig->arena);
    rig->call = (struct call){.arena = &rig->arena,
        .model = &rig->model,
        .tokenizer = rig->tokenizer,
        .limits = &rig->limits};
    enum err err = endpoint->decode(&rig->call, text, strlen(text), &info);
    if (err == ERR_OK) {
        err = endpoint->plan(&rig->call, &info);
    }
    mem_free(text); /* json_in_init gave jansson our allocator */
    if (err != ERR_OK) {
        fail_msg("%s: %s", info.where, info.text);
    }
    return &rig->call.plan;
}

static json_t *lines_of(const char *name)
{
    char path[GOLDEN_PATH_BYTES];
    if (!golden_reference(name, path)) {
        printf("skipped: %s is not there\n", name);
        return NULL;
    }
    return golden_json_lines(path);
}

static void check_ids(
    const int32_t *got, int32_t count, const json_t *object, const char *key, size_t line)
{
    int32_t expected_count;
    int32_t *expected = golden_ints(object, key, &expected_count);
    if (count != expected_count || memcmp(got, expected, (size_t)count * sizeof(*expected)) != 0) {
        fail_msg("case %zu: %s differs", line, key);
    }
    free(expected);
}

/* ---- moderation ---------------------------------------------------------------------------- */

/* The ids that are fed before a value: head, forced lines, winners. */
static void check_fields(const struct plan_item *item, const json_t *fields, size_t line)
{
    int32_t fed[512];
    int32_t count = item->token_count;
    assert_true(count < 400);
    memcpy(fed, item->tokens, (size_t)count * sizeof(*fed));
    assert_int_equal(item->step_count, 2 * json_array_size(fields));
    for (size_t i = 0; i < json_array_size(fields); i++) {
        const json_t *field = json_array_get(fields, i);
        const struct plan_step *force = &item->steps[2 * i];
        const struct plan_step *choose = &item->steps[2 * i + 1];
        assert_int_equal(force->kind, STEP_FORCE);
        assert_int_equal(choose->kind, STEP_CHOOSE);
        memcpy(fed + count, force->tokens, (size_t)force->token_count * sizeof(*fed));
        count += force->token_count;
        check_ids(fed, count, field, "ids", line);
        int32_t firsts[4];
        assert_in_range(choose->choice_count, 2, 3);
        const char *value = json_string_value(golden_member(field, "value"));
        for (int32_t k = 0; k < choose->choice_count; k++) {
            const json_t *word = json_array_get(golden_member(field, "candidates"), (size_t)k);
            firsts[k] = choose->choices[k].tokens[0];
            if (strcmp(json_string_value(word), value) == 0) {
                int32_t tokens = choose->choices[k].token_count;
                memcpy(fed + count, choose->choices[k].tokens, (size_t)tokens * sizeof(*fed));
                count += tokens;
            }
        }
        check_ids(firsts, choose->choice_count, field, "first_ids", line);
    }
}

static void test_moderation(void **state)
{
    struct rig rig;
    json_t *lines = lines_of("smollm2-reference/wildguard.jsonl");
    (void)state;
    if (lines == NULL || !rig_open(&rig, "")) {
        skip_test();
    }
    assert_true(json_array_size(lines) > 0);
    for (size_t i = 0; i < json_array_size(lines); i++) {
        const json_t *line = json_array_get(lines, i);
        json_t *body = json_pack("{s:O}", "prompt", golden_member(line, "prompt"));
        json_t *response = golden_member(line, "response");
        if (json_is_string(response)) {
            json_object_set(body, "response", response);
        }
        const struct plan *plan = rig_plan(&rig, &endpoint_classify, body);
        assert_int_equal(plan->item_count, 1);
        assert_int_equal(plan->items[0].context_count, 0);
        check_ids(plan->items[0].tokens, plan->items[0].token_count, line, "head_ids", i);
        check_fields(&plan->items[0], golden_member(line, "fields"), i);
    }
    json_decref(lines);
    rig_close(&rig);
}

/* ---- hybrid infill ------------------------------------------------------------------------- */

static json_t *segments_of(const json_t *line)
{
    json_t *segments = json_array();
    json_t *parts = golden_member(line, "parts");
    json_t *gaps = golden_member(line, "gaps");
    for (size_t i = 0; i < json_array_size(parts); i++) {
        json_array_append_new(segments, json_pack("{s:O}", "text", json_array_get(parts, i)));
        if (i < json_array_size(gaps)) {
            json_array_append_new(segments, json_pack("{s:O}", "gap", json_array_get(gaps, i)));
        }
    }
    return segments;
}

/* Each gap is read from the row left of its hole in the positions, and begins at the hole. */
static void check_step(const struct plan_item *item, const struct plan_step *step,
    const json_t *gap, int32_t hole, size_t line)
{
    int32_t row = -1;
    for (int32_t i = 0, holes = 0; i + 1 < item->token_count && row < 0; i++) {
        holes += item->positions[i + 1] != item->positions[i] + 1;
        row = holes == hole + 1 ? i : -1;
    }
    if (row < 0) {
        row = item->token_count - 1; /* a gap at the end leaves no hole */
    }
    if (step->kind != STEP_DECODE || step->read_row != row ||
        step->position != item->positions[row] + 1 ||
        step->tokens_max != golden_int(gap, "max_tokens")) {
        fail_msg("case %zu: the step of gap %d differs", line, hole);
    }
    assert_true(step->ban_end);
    assert_true(row + 1 == item->token_count ||
                item->positions[row + 1] - step->position == golden_int(gap, "reserve"));
}

static void check_hybrid(struct rig *rig, const json_t *line, bool independent, size_t index)
{
    const json_t *gaps = golden_member(line, "gaps");
    int32_t gap_count = (int32_t)json_array_size(gaps);
    const struct plan *plan = rig_plan(rig, &endpoint_infill,
        json_pack("{s:o,s:s,s:s,s:s}", "segments", segments_of(line), "mode", "hybrid", "until",
            "length", "spans", independent ? "independent" : "sequential"));
    assert_int_equal(plan->item_count, independent ? gap_count : 1);
    for (int32_t i = 0; i < plan->item_count; i++) {
        const struct plan_item *item = &plan->items[i];
        check_ids(item->tokens, item->token_count, line, "context_ids", index);
        check_ids(item->positions, item->token_count, line, "positions", index);
        assert_int_equal(item->context_count, golden_int(line, "context_count"));
        assert_int_equal(item->step_count, independent ? 1 : gap_count);
        assert_true(item->sampling.temperature == 0);
        for (int32_t k = 0; k < item->step_count; k++) {
            int32_t gap = independent ? i : k;
            check_step(item, &item->steps[k], json_array_get(gaps, (size_t)gap), gap, index);
        }
    }
}

static void test_hybrid_infill(void **state)
{
    struct rig rig;
    json_t *lines = lines_of("smollm2-reference/infill_hybrid.jsonl");
    (void)state;
    if (lines == NULL || !rig_open(&rig, "")) {
        skip_test();
    }
    assert_true(json_array_size(lines) > 0);
    for (size_t i = 0; i < json_array_size(lines); i++) {
        check_hybrid(&rig, json_array_get(lines, i), false, i);
        check_hybrid(&rig, json_array_get(lines, i), true, i);
    }
    json_decref(lines);
    rig_close(&rig);
}

/* ---- fill-in-the-middle -------------------------------------------------------------------- */

enum { PREFIX = 151659, MIDDLE, SUFFIX, PAD, REPO, FILE_SEP }; /* models.md 5 */

/* Against ids that the reference tokenizer gives for the pieces: "int a = " is 396 264 284 220,
 * ";\n" 280, "r\n" 81 198, "f\n" 69 198. */
static void test_qwen_layout(void **state)
{
    struct rig rig;
    (void)state;
    if (!rig_open(&rig, "llama-vocabs/made/ggml-vocab-qwen2.gguf")) {
        skip_test();
    }
    static const int32_t psm[] = {
        REPO, 81, 198, FILE_SEP, 69, 198, PREFIX, 396, 264, 284, 220, SUFFIX, 280, MIDDLE};
    static const int32_t spm[] = {PREFIX, SUFFIX, 280, MIDDLE, 396, 264, 284, 220};
    const struct plan *plan = rig_plan(&rig, &endpoint_infill,
        json_pack("{s:s,s:s,s:s,s:s}", "input_prefix", "int a = ", "input_suffix", ";\n", "repo",
            "r", "filename", "f"));
    assert_int_equal(plan->items[0].token_count, ARRAY_COUNT(psm));
    assert_memory_equal(plan->items[0].tokens, psm, sizeof(psm));
    assert_int_equal(plan->items[0].steps[0].stop_token_count, 7); /* and <|endoftext|> */
    plan = rig_plan(&rig, &endpoint_infill,
        json_pack("{s:s,s:s,s:s}", "input_prefix", "int a = ", "input_suffix", ";\n", "fim_order",
            "spm"));
    assert_int_equal(plan->items[0].token_count, ARRAY_COUNT(spm));
    assert_memory_equal(plan->items[0].tokens, spm, sizeof(spm));
    rig_close(&rig);
}

/* CodeLlama's suffix rule: U+263A and the suffix are encoded together, the first two ids dropped.
 * On its vocabulary (Llama 2's) that equals encoding the suffix as text that continues. */
static void test_codellama_suffix(void **state)
{
    static const char *const suffixes[] = {
        "}\n", "\n    return 1;\n", " x", "  x", "x", "\t", "\u00e9", "\u263a", "1"};
    struct rig rig;
    struct err_info info = {0};
    (void)state;
    if (!rig_open(&rig, "llama-vocabs/models/ggml-vocab-llama-spm.gguf")) {
        skip_test();
    }
    for (size_t i = 0; i < ARRAY_COUNT(suffixes); i++) {
        struct token_list marked, plain;
        char text[64];
        token_list_init(&marked, 100);
        token_list_init(&plain, 100);
        (void)snprintf(text, sizeof(text), "\u263a%s", suffixes[i]);
        assert_int_equal(
            tokenizer_encode(rig.tokenizer, text, strlen(text), 0, &marked, &info), ERR_OK);
        assert_int_equal(tokenizer_encode(rig.tokenizer, suffixes[i], strlen(suffixes[i]),
                             TOKENIZE_CONTINUES, &plain, &info),
            ERR_OK);
        assert_int_equal(marked.count, plain.count + 2);
        assert_memory_equal(marked.ids + 2, plain.ids, (size_t)plain.count * sizeof(*plain.ids));
        token_list_free(&marked);
        token_list_free(&plain);
    }
    rig_close(&rig);
}

int main(void)
{
    json_in_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_moderation),
        cmocka_unit_test(test_hybrid_infill),
        cmocka_unit_test(test_qwen_layout),
        cmocka_unit_test(test_codellama_suffix),
    };
    return skip_status(
        cmocka_run_group_tests(tests, NULL, NULL), (int)(sizeof tests / sizeof tests[0]));
}
