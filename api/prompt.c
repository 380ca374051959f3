/* Rendering of templates; see prompt.h. */
#include "api/prompt.h"

#include <string.h>

/* BOS in front, unless the text spells it itself. */
static enum err take_ids(struct call *call, const struct token_list *list, struct call_ids *out_ids,
    struct err_info *info)
{
    int32_t bos = tokenizer_special(call->tokenizer, TOKEN_BOS);
    bool add = tokenizer_adds_bos(call->tokenizer) && !(list->count > 0 && list->ids[0] == bos);
    struct call_ids ids = {.count = list->count + (add ? 1 : 0)};
    enum err err = call_array(call, (size_t)ids.count, sizeof(int32_t), &ids.ids, info);
    if (err != ERR_OK) {
        return err;
    }
    if (add) {
        ids.ids[0] = bos;
    }
    if (list->count > 0) {
        memcpy(ids.ids + (add ? 1 : 0), list->ids, (size_t)list->count * sizeof(int32_t));
    }
    *out_ids = ids;
    return ERR_OK;
}

enum err prompt_encode(struct call *call, const char *text, size_t bytes, const uint8_t *foreign,
    const char *where, struct call_ids *out_ids, struct err_info *info)
{
    struct token_list list;
    token_list_init(&list, LIMIT_CONTEXT * 8); /* more tokens than bytes: a space may be three */
    enum err err = tokenizer_encode_marked(
        call->tokenizer, text, bytes, foreign, TOKENIZE_SPECIAL, &list, info);
    if (err == ERR_OK) {
        err = take_ids(call, &list, out_ids, info);
    } else if (err == ERR_TOKENIZER || err == ERR_LIMIT) {
        (void)call_fail(info, err, NULL, where, "the text could not be turned into tokens");
    }
    token_list_free(&list);
    return err;
}

enum err prompt_render(struct call *call, const struct prompt_part *parts, int32_t count,
    const char *where, struct call_ids *out_ids, struct err_info *info)
{
    size_t bytes = 0;
    for (int32_t i = 0; i < count; i++) {
        bytes += (size_t)parts[i].text.count;
    }
    char *text = arena_alloc(call->arena, bytes + 1);
    uint8_t *foreign = arena_alloc(call->arena, bytes + 1);
    if (text == NULL || foreign == NULL) {
        return call_no_memory(info);
    }
    size_t at = 0;
    for (int32_t i = 0; i < count; i++) {
        size_t part = (size_t)parts[i].text.count;
        if (part > 0) {
            memcpy(text + at, parts[i].text.bytes, part);
            memset(foreign + at, parts[i].trusted ? 0 : 1, part);
        }
        at += part;
    }
    return prompt_encode(call, text, bytes, foreign, where, out_ids, info);
}

/* ---- answers ------------------------------------------------------------------------------- */

/* Tokens all answers begin with. */
static int32_t shared_prefix(const struct call_ids *answers, int32_t count)
{
    int32_t shared = 0;
    for (;; shared++) {
        for (int32_t i = 0; i < count; i++) {
            if (shared >= answers[i].count || answers[i].ids[shared] != answers[0].ids[shared]) {
                return shared;
            }
        }
    }
}

static enum err check_distinct(
    const struct plan_choice *choices, int32_t count, struct err_info *info)
{
    for (int32_t i = 0; i < count; i++) {
        bool clash = choices[i].token_count == 0;
        for (int32_t k = 0; k < i && !clash; k++) {
            clash = choices[k].tokens[0] == choices[i].tokens[0];
        }
        if (clash) {
            return call_fail(info, ERR_NOT_CAPABLE, NULL, NULL,
                "this vocabulary does not tell the answers apart by one token");
        }
    }
    return ERR_OK;
}

static enum err tokenize_answers(struct call *call, const char *line, const char *const *values,
    int32_t count, struct call_ids *answers, struct err_info *info)
{
    for (int32_t i = 0; i < count; i++) {
        const char *text = arena_printf(call->arena, "%s%s", line, values[i]);
        if (text == NULL) {
            return call_no_memory(info);
        }
        struct bound_text bound = call_text(text);
        enum err err = call_tokenize(call, &bound, TOKENIZE_CONTINUES, "", &answers[i], info);
        if (err != ERR_OK) {
            return err;
        }
    }
    return ERR_OK;
}

enum err prompt_line(struct call *call, const char *line, const char *const *values,
    int32_t value_count, struct plan_step *steps, struct err_info *info)
{
    struct call_ids *answers;
    struct plan_choice *choices;
    enum err err = call_array(call, (size_t)value_count, sizeof(*answers), &answers, info);
    if (err == ERR_OK) {
        err = call_array(call, (size_t)value_count, sizeof(*choices), &choices, info);
    }
    if (err == ERR_OK) {
        err = tokenize_answers(call, line, values, value_count, answers, info);
    }
    if (err != ERR_OK) {
        return err;
    }
    int32_t shared = shared_prefix(answers, value_count);
    for (int32_t i = 0; i < value_count; i++) {
        choices[i] = (struct plan_choice){answers[i].ids + shared, answers[i].count - shared};
    }
    err = check_distinct(choices, value_count, info);
    if (err == ERR_OK && shared == 0) {
        err = call_fail(info, ERR_NOT_CAPABLE, NULL, NULL, "the answers share no beginning");
    }
    if (err != ERR_OK) {
        return err;
    }
    steps[0] = (struct plan_step){.kind = STEP_FORCE,
        .read_row = -1,
        .position = -1,
        .tokens = answers[0].ids,
        .token_count = shared,
        .top_logprobs = -1};
    steps[1] = (struct plan_step){.kind = STEP_CHOOSE,
        .read_row = -1,
        .position = -1,
        .choices = choices,
        .choice_count = value_count};
    return ERR_OK;
}
