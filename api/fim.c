/* Windows and layouts of fill-in-the-middle prompts; see fim.h. */
#include "api/fim.h"

#include <string.h>
#include "engine/base/assert.h"

enum {
    WINDOW_TOKENS = 2048,
    SPECIAL_TOKENS = 6 /* BOS, repository, file separator, PRE, SUF, MID */
};

int64_t fim_room(const struct call *call, int64_t budget)
{
    int64_t context = call->model->context;
    int64_t answer = budget < 0 ? context / 4 : MIN(budget, context / 4);
    return MAX(context - answer - SPECIAL_TOKENS, 0);
}

/* ---- windows ------------------------------------------------------------------------------- */

static void keep_end(struct call_ids *ids, int64_t count, bool *truncated)
{
    if (ids->count > count) {
        ids->ids += ids->count - count;
        ids->count = (int32_t)count;
        *truncated = true;
    }
}

static void keep_start(struct call_ids *ids, int64_t count, bool *truncated)
{
    if (ids->count > count) {
        ids->count = (int32_t)count;
        *truncated = true;
    }
}

/* Appends b to a. */
static enum err join(
    struct call *call, struct call_ids *a, const struct call_ids *b, struct err_info *info)
{
    struct call_ids sum = {.count = a->count + b->count};
    enum err err = call_array(call, (size_t)sum.count, sizeof(int32_t), &sum.ids, info);
    if (err != ERR_OK) {
        return err;
    }
    if (a->count > 0) {
        memcpy(sum.ids, a->ids, (size_t)a->count * sizeof(int32_t));
    }
    if (b->count > 0) {
        memcpy(sum.ids + a->count, b->ids, (size_t)b->count * sizeof(int32_t));
    }
    *a = sum;
    return ERR_OK;
}

static enum err join_id(struct call *call, struct call_ids *a, int32_t id, struct err_info *info)
{
    if (id < 0) {
        return ERR_OK;
    }
    const struct call_ids one = {&id, 1};
    return join(call, a, &one, info);
}

/* [file separator] name, line break, text. Without the token only the name tells files apart. */
static enum err file_ids(struct call *call, const struct bound_text *name,
    const struct bound_text *text, const char *where, struct call_ids *out_ids,
    struct err_info *info)
{
    struct call_ids ids = {0};
    struct call_ids body = {0};
    const char *joined = arena_printf(call->arena, "%s%s%s%s", name->bytes,
        name->count > 0 ? "\n" : "", text->bytes, text->count > 0 ? "\n" : "");
    if (joined == NULL) {
        return call_no_memory(info);
    }
    const struct bound_text whole = call_text(joined);
    enum err err = join_id(call, &ids, tokenizer_special(call->tokenizer, TOKEN_FIM_SEP), info);
    if (err == ERR_OK) {
        err = call_tokenize(call, &whole, TOKENIZE_CONTINUES, where, &body, info);
    }
    if (err == ERR_OK) {
        err = join(call, &ids, &body, info);
    }
    if (err == ERR_OK) {
        *out_ids = ids;
    }
    return err;
}

/* "<repo_name>R", with a line break where the family's spelling has one ("<|repo_name|>R\n"). */
static enum err repo_ids(
    struct call *call, const struct bound_text *repo, struct call_ids *ids, struct err_info *info)
{
    int32_t token = tokenizer_special(call->tokenizer, TOKEN_FIM_REP);
    if (token < 0 || repo->count == 0) {
        return ERR_OK;
    }
    bool line = strncmp(tokenizer_stored_piece(call->tokenizer, token), "<|", 2) == 0;
    const char *joined = arena_printf(call->arena, "%s%s", repo->bytes, line ? "\n" : "");
    if (joined == NULL) {
        return call_no_memory(info);
    }
    const struct bound_text text = call_text(joined);
    struct call_ids name = {0};
    enum err err = join_id(call, ids, token, info);
    if (err == ERR_OK) {
        err = call_tokenize(call, &text, TOKENIZE_CONTINUES, "/repo", &name, info);
    }
    return err == ERR_OK ? join(call, ids, &name, info) : err;
}

/* Whole files from the newest backwards while they fit; the first that does not is cut at its
 * front. */
static enum err extra_window(struct call *call, const struct fim_texts *texts, int64_t room,
    struct fim_ids *ids, struct err_info *info)
{
    struct call_ids *files = NULL;
    enum err err = call_array(call, (size_t)texts->extra_count, sizeof(*files), &files, info);
    for (int32_t i = 0; err == ERR_OK && i < texts->extra_count; i++) {
        const struct infill_request_input_extra_item *extra = &texts->extra[i];
        const struct bound_text name = extra->has_filename ? extra->filename : call_text("");
        err = file_ids(call, &name, &extra->text, "/input_extra", &files[i], info);
    }
    int32_t first = texts->extra_count;
    while (err == ERR_OK && first > 0 && room > 0) {
        first--;
        keep_end(&files[first], room, &ids->truncated);
        room -= files[first].count;
    }
    ids->truncated |= first > 0;
    for (int32_t i = first; err == ERR_OK && i < texts->extra_count; i++) {
        err = join(call, &ids->extra, &files[i], info);
    }
    return err;
}

enum err fim_window(struct call *call, const struct fim_texts *texts, int64_t room,
    struct fim_ids *out_ids, struct err_info *info)
{
    struct fim_ids ids = {0};
    struct call_ids head = {0}, name = {0};
    enum err err = call_tokenize(call, &texts->prefix, 0, "/input_prefix", &ids.prefix, info);
    if (err == ERR_OK) {
        err = call_tokenize(
            call, &texts->suffix, TOKENIZE_CONTINUES, "/input_suffix", &ids.suffix, info);
    }
    if (err == ERR_OK) {
        err = call_tokenize(
            call, &texts->after_mid, TOKENIZE_CONTINUES, "/prompt", &ids.after_mid, info);
    }
    if (err == ERR_OK) {
        err = repo_ids(call, &texts->repo, &head, info);
    }
    if (err == ERR_OK && texts->filename.count > 0) {
        const struct bound_text nothing = call_text("");
        err = file_ids(call, &texts->filename, &nothing, "/filename", &name, info);
    }
    if (err != ERR_OK) {
        return err;
    }
    room = MAX(room - ids.after_mid.count - head.count - name.count, 0);
    int64_t window = MIN(room, WINDOW_TOKENS);
    int64_t prefix_share = MAX(window - window / 4, window - ids.suffix.count);
    int64_t suffix_share = MAX(window / 4, window - ids.prefix.count);
    keep_end(&ids.prefix, prefix_share, &ids.truncated);
    keep_start(&ids.suffix, suffix_share, &ids.truncated);
    err = extra_window(call, texts, room - ids.prefix.count - ids.suffix.count, &ids, info);
    if (err == ERR_OK) { /* the repository first, then the extra files, then this file's name */
        err = join(call, &head, &ids.extra, info);
    }
    if (err == ERR_OK) {
        err = join(call, &head, &name, info);
    }
    if (err == ERR_OK) {
        ids.extra = head;
        *out_ids = ids;
    }
    return err;
}

/* ---- layout -------------------------------------------------------------------------------- */

/* Families that know one order only, told by the spelling of their suffix token. The others write
 * prefix first unless asked. */
static const struct {
    const char *suffix_token;
    enum fim_layout layout;
} ONE_ORDER[] = {
    {"[SUFFIX]", FIM_LAYOUT_CODESTRAL}, {"<[fim-suffix]>", FIM_LAYOUT_SEED},
    {"<\uFF5Cfim\u2581hole\uFF5C>", FIM_LAYOUT_PSM}, /* DeepSeek-Coder: the hole is in its place */
};

enum err fim_layout(const struct call *call, enum fim_layout *out_layout, struct err_info *info)
{
    const struct infill_request *request = call->request;
    bool spm = request->has_fim_order && request->fim_order == INFILL_REQUEST_FIM_ORDER_SPM;
    int32_t suffix = tokenizer_special(call->tokenizer, TOKEN_FIM_SUF);
    ASSERT(suffix >= 0); /* else the model has no mode fim */
    const char *piece = tokenizer_stored_piece(call->tokenizer, suffix);
    for (size_t i = 0; i < ARRAY_COUNT(ONE_ORDER); i++) {
        if (strcmp(piece, ONE_ORDER[i].suffix_token) == 0) {
            bool fits = spm == (ONE_ORDER[i].layout != FIM_LAYOUT_PSM);
            if (request->has_fim_order && !fits) {
                return call_fail(info, ERR_NOT_CAPABLE, NULL, "/fim_order",
                    "this model was not trained in this order");
            }
            *out_layout = ONE_ORDER[i].layout;
            return ERR_OK;
        }
    }
    *out_layout = spm ? FIM_LAYOUT_SPM : FIM_LAYOUT_PSM;
    return ERR_OK;
}

struct layout_part {
    int32_t id; /* -1 = only the ids below */
    const struct call_ids *ids;
};

enum err fim_prompt(struct call *call, const struct fim_ids *ids, enum fim_layout layout,
    struct call_ids *out_prompt, struct err_info *info)
{
    const struct tokenizer *tokenizer = call->tokenizer;
    int32_t bos = tokenizer_adds_bos(tokenizer) ? tokenizer_special(tokenizer, TOKEN_BOS) : -1;
    int32_t pre = tokenizer_special(tokenizer, TOKEN_FIM_PRE);
    int32_t suf = tokenizer_special(tokenizer, TOKEN_FIM_SUF);
    int32_t mid = tokenizer_special(tokenizer, TOKEN_FIM_MID);
    const struct call_ids none = {0};
    const struct layout_part layouts[][3] = {
        [FIM_LAYOUT_PSM] = {{pre, &ids->prefix}, {suf, &ids->suffix}, {mid, &none}},
        [FIM_LAYOUT_SPM] = {{pre, &none}, {suf, &ids->suffix}, {mid, &ids->prefix}},
        [FIM_LAYOUT_SEED] = {{suf, &ids->suffix}, {pre, &ids->prefix}, {mid, &none}},
        [FIM_LAYOUT_CODESTRAL] = {{suf, &ids->suffix}, {pre, &ids->prefix}, {-1, &none}},
    };
    struct call_ids prompt = {0};
    enum err err = join_id(call, &prompt, bos, info);
    if (err == ERR_OK) {
        err = join(call, &prompt, &ids->extra, info);
    }
    for (int32_t i = 0; err == ERR_OK && i < 3; i++) {
        err = join_id(call, &prompt, layouts[layout][i].id, info);
        if (err == ERR_OK) {
            err = join(call, &prompt, layouts[layout][i].ids, info);
        }
    }
    if (err == ERR_OK) {
        err = join(call, &prompt, &ids->after_mid, info);
    }
    if (err == ERR_OK) {
        *out_prompt = prompt;
    }
    return err;
}

int32_t fim_stop_tokens(const struct tokenizer *tokenizer, int32_t out[LIMIT_STOP_TOKENS])
{
    static const enum token_special kinds[] = {
        TOKEN_FIM_PRE, TOKEN_FIM_SUF, TOKEN_FIM_MID, TOKEN_FIM_PAD, TOKEN_FIM_REP, TOKEN_FIM_SEP};
    /* CodeLlama's twice: its vocabulary stores it behind a U+2581. Files rarely name them. */
    static const char *const ends[] = {
        "<EOT>", "\u2581<EOT>", "<|endoftext|>", "<\uFF5Cend\u2581of\u2581sentence\uFF5C>"};
    _Static_assert(ARRAY_COUNT(kinds) + ARRAY_COUNT(ends) <= LIMIT_STOP_TOKENS, "they fit");
    int32_t count = 0;
    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++) {
        int32_t token = tokenizer_special(tokenizer, kinds[i]);
        if (token >= 0) {
            out[count++] = token;
        }
    }
    for (size_t i = 0; i < ARRAY_COUNT(ends); i++) {
        int32_t token = tokenizer_find(tokenizer, ends[i], strlen(ends[i]));
        if (token >= 0 && tokenizer_is_control(tokenizer, token)) {
            out[count++] = token;
        }
    }
    return count;
}
