/* See plan_rig.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/api/plan_rig.h"

static const struct special {
    const char *piece, *shown;
} SPECIALS[] = {{"<s>", "{B}"}, {"</s>", "{E}"}, {"<fim_prefix>", "{P}"}, {"<fim_suffix>", "{S}"},
    {"<fim_middle>", "{M}"}, {"<repo_name>", "{R}"}, {"<file_sep>", "{F}"}, {"<|user|>", "{U}"}};

void plan_rig_open(struct plan_rig *rig, bool adds_bos, bool adds_eos)
{
    struct text_rig *text = calloc(1, sizeof(*text));
    assert_non_null(text);
    text_rig_bpe(text, "gpt-2");
    for (size_t i = 0; i < ARRAY_COUNT(SPECIALS); i++) {
        assert_int_equal(text_rig_add(text, SPECIALS[i].piece, RIG_CONTROL, 0), FIRST_SPECIAL + i);
    }
    (void)text_rig_merge(text, "n o", "no");           /* tells "no" from "n/a" */
    (void)text_rig_merge(text, "\u0120 Q", "\u0120Q"); /* TOKEN_SPACED */
    text_rig_u32(text, "tokenizer.ggml.bos_token_id", FIRST_SPECIAL);
    text_rig_u32(text, "tokenizer.ggml.eos_token_id", TOKEN_END);
    text_rig_bool(text, "tokenizer.ggml.add_bos_token", adds_bos);
    text_rig_bool(text, "tokenizer.ggml.add_eos_token", adds_eos);
    memset(rig, 0, sizeof(*rig));
    rig->tokenizer = text_rig_open(text);
    free(text);
    rig->model = (struct model_info){.name = "m",
        .hidden = 8,
        .vector = 8,
        .context = CONTEXT,
        .embed_attention = ATTENTION_BIDIRECTIONAL,
        .embed_pooling = POOLING_MEAN,
        .can_generate = true,
        .can_embed = true,
        .can_infill = true,
        .can_classify = true,
        .infill_modes = {INFILL_FIM, INFILL_HYBRID, INFILL_RERANK},
        .infill_mode_count = 3};
    rig->limits =
        (struct api_limits){.items_max = 100, .embed_tokens_max = 1000, .timeout_ms_max = 5000};
    arena_init(&rig->arena, MEM_REQUESTS, 4096, 1 << 24);
}

void plan_rig_close(struct plan_rig *rig)
{
    tokenizer_close(rig->tokenizer);
    arena_drop(&rig->arena);
}

enum err plan_rig_plan(struct plan_rig *rig, const struct endpoint *endpoint, const char *body)
{
    arena_reset(&rig->arena);
    memset(&rig->info, 0, sizeof(rig->info));
    rig->call = (struct call){.arena = &rig->arena,
        .model = &rig->model,
        .tokenizer = rig->tokenizer,
        .chat_template = rig->chat_template,
        .limits = &rig->limits};
    enum err err = endpoint->decode(&rig->call, body, strlen(body), &rig->info);
    return err != ERR_OK ? err : endpoint->plan(&rig->call, &rig->info);
}

void plan_rig_show(const struct plan_rig *rig, const int32_t *ids, int32_t count, char *out)
{
    for (int32_t i = 0; i < count; i++) {
        size_t bytes;
        const char *piece = tokenizer_piece(rig->tokenizer, ids[i], true, &bytes);
        bool special = ids[i] >= FIRST_SPECIAL && ids[i] < TOKEN_NO;
        const char *shown = special ? SPECIALS[ids[i] - FIRST_SPECIAL].shown : NULL;
        out += shown != NULL ? sprintf(out, "%s", shown) : sprintf(out, "%.*s", (int)bytes, piece);
    }
    *out = '\0';
}

void plan_rig_item(const struct plan_rig *rig, int32_t item, const char *expected)
{
    char text[4096];
    const struct plan_item *planned = &rig->call.plan.items[item];
    plan_rig_show(rig, planned->tokens, planned->token_count, text);
    assert_string_equal(text, expected);
}

void plan_rig_prompt(
    struct plan_rig *rig, const struct endpoint *endpoint, const char *body, const char *expected)
{
    if (plan_rig_plan(rig, endpoint, body) != ERR_OK) {
        fail_msg("%s: %s: %s", body, rig->info.where, rig->info.text);
    }
    plan_rig_item(rig, 0, expected);
}

void plan_rig_refused(struct plan_rig *rig, const struct endpoint *endpoint, const char *body,
    enum err err, const char *where)
{
    assert_int_equal(plan_rig_plan(rig, endpoint, body), err);
    assert_string_equal(rig->info.where, where);
}

/* A list of `count` inputs, each `text`. */
char *plan_rig_inputs(int32_t count, const char *text)
{
    char *body = malloc((size_t)count * (strlen(text) + 4) + 64);
    assert_non_null(body);
    char *at = stpcpy(body, "{\"inputs\":[");
    for (int32_t i = 0; i < count; i++) {
        at += sprintf(at, "%s\"%s\"", i > 0 ? "," : "", text);
    }
    (void)stpcpy(at, "]}");
    return body;
}
