/*
 * /v1/completions: prompts continued in OpenAI's older shape, or a gap filled before a suffix.
 *
 * What surprises: a suffix makes this route an /infill request of the editors' form, planned by the
 * very code of /infill, so that both build the same ids; only the reply is written here.
 */
#include "api/v1_text.h"

#include <stdio.h>
#include <string.h>
#include "api/infill_llama.h"
#include "api/prompt.h"
#include "engine/base/assert.h"
#include "engine/base/utf8.h"

/* A token that is no whole text has a few bytes; of a longer one the first are shown. */
enum { DEFAULT_TOKENS = 16, SPELLED_BYTES = 140 };

/* ---- log-probabilities --------------------------------------------------------------------- */

/* The columns of the older shape: lists of one length beside each other. */
enum column { COLUMN_TOKENS, COLUMN_LOGPROBS, COLUMN_TOP, COLUMN_OFFSETS, COLUMN_COUNT };

/* A token as a string: bytes that are no whole text are spelled out, as OpenAI does. */
static size_t spell(const char *piece, size_t bytes, char *out, size_t capacity)
{
    size_t count = (size_t)snprintf(out, capacity, "bytes:");
    for (size_t i = 0; i < bytes && count + 5 <= capacity; i++) {
        count +=
            (size_t)snprintf(out + count, capacity - count, "\\x%02x", (unsigned char)piece[i]);
    }
    return count;
}

static void write_token_text(struct json_out *out, const char *piece, size_t bytes, bool key)
{
    char spelled[SPELLED_BYTES];
    bool whole = utf8_valid(piece, bytes);
    size_t count = whole ? bytes : spell(piece, bytes, spelled, sizeof(spelled));
    if (key) {
        json_out_key_bytes(out, whole ? piece : spelled, count);
    } else {
        json_out_bytes(out, whole ? piece : spelled, count);
    }
}

/* Two tokens may be spelled alike; a key comes once, for the likelier one. */
static bool spelled_before(const struct call *call, const struct token_logprob *top, int32_t index)
{
    size_t bytes;
    const char *piece = tokenizer_piece(call->tokenizer, top[index].token, true, &bytes);
    for (int32_t i = 0; i < index; i++) {
        size_t other_bytes;
        const char *other = tokenizer_piece(call->tokenizer, top[i].token, true, &other_bytes);
        if (bytes == other_bytes && memcmp(piece, other, bytes) == 0) {
            return true;
        }
    }
    return false;
}

static void write_top(struct json_out *out, const struct call *call, const struct v1_token *token)
{
    const struct v1_text *text = call->state;
    int32_t count = MIN(text->top_logprobs, tokenizer_vocab(call->tokenizer));
    if (token->top == NULL) {
        json_out_null(out);
        return;
    }
    json_out_object(out);
    for (int32_t i = 0; i < count; i++) {
        if (!spelled_before(call, token->top, i)) {
            size_t bytes;
            const char *piece = tokenizer_piece(call->tokenizer, token->top[i].token, true, &bytes);
            write_token_text(out, piece, bytes, true);
            v1_write_logprob(out, token->top[i].logprob);
        }
    }
    json_out_end(out);
}

static void write_entry(
    struct json_out *out, const struct call *call, enum column column, const struct v1_token *token)
{
    switch (column) {
    case COLUMN_TOKENS:
        write_token_text(out, token->piece, token->bytes, false);
        break;
    case COLUMN_LOGPROBS:
        if (token->logprob != NULL) {
            v1_write_logprob(out, *token->logprob);
        } else {
            json_out_null(out);
        }
        break;
    case COLUMN_TOP:
        write_top(out, call, token);
        break;
    case COLUMN_OFFSETS:
        json_out_int(out, token->offset);
        break;
    case COLUMN_COUNT:
        break;
    }
}

/* Tokens of one source after another, those of the prompt first when it is shown. */
struct source {
    const struct v1_tokens *tokens;
    struct v1_walk *walk;
};

static void write_logprobs(
    struct json_out *out, const struct call *call, const struct source *sources, int32_t count)
{
    static const char *const keys[COLUMN_COUNT] = {
        "tokens", "token_logprobs", "top_logprobs", "text_offset"};
    const struct v1_text *text = call->state;
    json_out_object(out);
    for (enum column column = 0; column < COLUMN_COUNT; column++) {
        json_out_key(out, keys[column]);
        if (column == COLUMN_TOP && text->top_logprobs == 0) {
            json_out_null(out);
            continue;
        }
        json_out_array(out);
        for (int32_t i = 0; i < count; i++) {
            struct v1_walk walk = *sources[i].walk;
            struct v1_token token;
            while (v1_walk_next(&walk, call, sources[i].tokens, &token)) {
                write_entry(out, call, column, &token);
            }
            if (column + 1 == COLUMN_COUNT) {
                *sources[i].walk = walk;
            }
        }
        json_out_end(out);
    }
    json_out_end(out);
}

/* ---- shape --------------------------------------------------------------------------------- */

static bool echoes(const struct call *call)
{
    return ((const struct v1_completions_request *)call->request)->echo;
}

static void write_choice_head(struct json_out *out, const struct v1_choice *choice)
{
    json_out_object(out);
    json_out_key(out, "index");
    json_out_int(out, choice->index);
    json_out_key(out, "text");
}

static void write_choice_tail(struct json_out *out, const struct v1_choice *choice)
{
    json_out_key(out, "finish_reason");
    json_out_string(out, choice->finish); /* NULL gives null */
    json_out_end(out);
}

static void write_choice(struct json_out *out, const struct call *call, const struct job *job,
    const struct v1_choice *choice)
{
    const struct v1_text *text = call->state;
    int32_t prompt = choice->index / text->options->n;
    const struct bound_text before = text->prompts[prompt].text;
    struct v1_walk walk = v1_walk_start(call, text, prompt, true);
    write_choice_head(out, choice);
    call_write_joined(out, (struct bound_text){before.bytes, echoes(call) ? before.count : 0},
        (struct bound_text){choice->bytes, (int32_t)choice->count});
    json_out_key(out, "logprobs");
    if (text->prompt_logprobs) {
        struct v1_tokens tokens = v1_text_prompt(text, job, choice->index);
        const struct source sources[] = {{&tokens, &walk}, {choice->tokens, choice->walk}};
        write_logprobs(out, call, sources, 2);
    } else if (text->top_logprobs >= 0) {
        const struct source source = {choice->tokens, choice->walk};
        write_logprobs(out, call, &source, 1);
    } else {
        json_out_null(out);
    }
    write_choice_tail(out, choice);
}

static void write_delta(struct json_out *out, const struct call *call, const struct job *job,
    enum v1_part part, const struct v1_choice *choice)
{
    const struct v1_text *text = call->state;
    const struct source source = {choice->tokens, choice->walk};
    (void)job;
    write_choice_head(out, choice);
    json_out_bytes(out, choice->bytes, choice->count);
    json_out_key(out, "logprobs");
    if (text->top_logprobs >= 0 && part != V1_END) {
        write_logprobs(out, call, &source, 1);
    } else {
        json_out_null(out);
    }
    write_choice_tail(out, choice);
}

static const struct v1_shape SHAPE = {.id_prefix = "cmpl-",
    .object = "text_completion",
    .chunk_object = "text_completion",
    .choice = write_choice,
    .delta = write_delta};

/* ---- decode -------------------------------------------------------------------------------- */

static bool has_suffix(const struct v1_completions_request *request)
{
    return request->has_suffix && request->suffix.count > 0;
}

/* What a gap cannot have. */
static enum err check_suffix(const struct v1_completions_request *request, struct err_info *info)
{
    const struct {
        bool given;
        const char *where;
    } without[] = {
        {request->has_prompt && request->prompt.form != COMMON_INPUTS_TEXT, "/suffix"},
        {request->parse_special, "/parse_special"},
        {request->echo && request->has_logprobs, "/echo"},
        {request->openai_text.stop_token_ids.count > 0, "/stop_token_ids"},
        {request->openai_text.min_tokens > 0, "/min_tokens"},
        {v1_text_constrained(&request->openai_text), "/suffix"},
    };
    for (size_t i = 0; has_suffix(request) && i < ARRAY_COUNT(without); i++) {
        if (without[i].given) {
            return call_fail(info, ERR_INVALID, NULL, without[i].where,
                "a suffix goes with one text as prompt, and not with this");
        }
    }
    return ERR_OK;
}

static enum err v1_completions_decode(
    struct call *call, const char *body, size_t bytes, struct err_info *info)
{
    struct v1_text *text = NULL;
    enum err err = call_decode_with(
        call, &schema_v1_completions_request, body, bytes, sizeof(*text), &text, info);
    if (err != ERR_OK) {
        return err;
    }
    const struct v1_completions_request *request = call->request;
    const struct common_openai_text *options = &request->openai_text;
    *text = (struct v1_text){.shape = &SHAPE,
        .options = options,
        .format_where = "/response_format",
        .schema_where = "/response_format/json_schema/schema",
        .sampling = &request->sampling,
        .budget = options->has_max_completion_tokens ? options->max_completion_tokens
                  : options->has_max_tokens          ? options->max_tokens
                                                     : DEFAULT_TOKENS,
        .top_logprobs = request->has_logprobs ? request->logprobs : -1,
        .prompt_logprobs = request->echo && request->has_logprobs,
        .opens = request->echo};
    err = check_suffix(request, info);
    if (err == ERR_OK) {
        err = call_basics(call, &request->basics, info);
    }
    return err == ERR_OK ? v1_text_init(call, text, info) : err;
}

/* ---- plan: prompts ------------------------------------------------------------------------- */

/* An absent or empty prompt is the start of a text. */
static enum err start_of_text(
    struct call *call, const char *where, struct v1_prompt *prompt, struct err_info *info)
{
    int32_t bos = tokenizer_special(call->tokenizer, TOKEN_BOS);
    if (bos < 0) {
        return call_fail(info, ERR_EMPTY, NULL, where,
            "the prompt is empty, and this vocabulary has no token that begins a text");
    }
    prompt->ids.count = 1;
    enum err err = call_array(call, 1, sizeof(int32_t), &prompt->ids.ids, info);
    if (err == ERR_OK) {
        prompt->ids.ids[0] = bos;
    }
    return err;
}

/* Ids as text, control tokens spelled out: what `echo` shows of them. */
static enum err show_ids(struct call *call, struct v1_prompt *prompt, struct err_info *info)
{
    struct buf text;
    char *copy = NULL;
    buf_init(&text, MEM_REQUESTS, (size_t)64 << 20);
    call_detokenize(call, prompt->ids.ids, prompt->ids.count, true, &text);
    if (!text.failed) {
        copy = arena_copy(call->arena, text.count > 0 ? text.bytes : "", text.count);
    }
    prompt->control_shown = true;
    prompt->text = (struct bound_text){copy, (int32_t)text.count};
    buf_free(&text);
    return copy != NULL ? ERR_OK : call_no_memory(info);
}

static enum err read_text(struct call *call, const struct bound_text *text, const char *where,
    struct v1_prompt *prompt, struct err_info *info)
{
    const struct v1_completions_request *request = call->request;
    const struct prompt_part part = {*text, request->parse_special};
    call->characters += (int64_t)utf8_length(text->bytes, (size_t)text->count);
    prompt->text = *text;
    enum err err = text->count > 0 ? prompt_render(call, &part, 1, where, &prompt->ids, info)
                                   : start_of_text(call, where, prompt, info);
    if (err == ERR_OK && prompt->ids.count == 0) {
        err = call_fail(info, ERR_EMPTY, NULL, where, "the prompt has no tokens");
    }
    return err == ERR_OK && request->parse_special ? show_ids(call, prompt, info) : err;
}

static enum err read_ids(struct call *call, const struct bound_ints *ids, const char *where,
    struct v1_prompt *prompt, struct err_info *info)
{
    if (ids->count == 0) {
        return call_fail(info, ERR_EMPTY, NULL, where, "the prompt has no tokens");
    }
    prompt->ids.count = ids->count;
    enum err err = call_check_ids(call, ids, where, info);
    if (err == ERR_OK) {
        err = call_array(call, (size_t)ids->count, sizeof(int32_t), &prompt->ids.ids, info);
    }
    if (err != ERR_OK) {
        return err;
    }
    memcpy(prompt->ids.ids, ids->items, (size_t)ids->count * sizeof(int32_t));
    return show_ids(call, prompt, info);
}

static enum err read_prompt(struct call *call, const struct v1_text *text, int32_t index,
    struct v1_prompt *prompt, struct err_info *info)
{
    const struct v1_completions_request *request = call->request;
    const struct common_inputs *given = &request->prompt;
    static const struct bound_text none = {"", 0};
    char where[32];
    enum err err = ERR_INTERNAL;
    bool list = request->has_prompt &&
                (given->form == COMMON_INPUTS_TEXTS || given->form == COMMON_INPUTS_ID_LISTS);
    (void)snprintf(where, sizeof(where), list ? "/prompt/%d" : "/prompt", index);
    if (!request->has_prompt) {
        err = read_text(call, &none, where, prompt, info);
    } else if (given->form == COMMON_INPUTS_TEXT || given->form == COMMON_INPUTS_TEXTS) {
        err =
            read_text(call, list ? &given->texts.items[index] : &given->text, where, prompt, info);
    } else {
        err =
            read_ids(call, list ? &given->id_lists.items[index] : &given->ids, where, prompt, info);
    }
    return err == ERR_OK
               ? call_check_prompt(call, prompt->ids.count, text->budget != 0, where, info)
               : err;
}

static int32_t prompt_count(const struct v1_completions_request *request)
{
    const struct common_inputs *given = &request->prompt;
    if (request->has_prompt && given->form == COMMON_INPUTS_TEXTS) {
        return given->texts.count;
    }
    return request->has_prompt && given->form == COMMON_INPUTS_ID_LISTS ? given->id_lists.count : 1;
}

static enum err plan_prompts(struct call *call, struct v1_text *text, struct err_info *info)
{
    const struct v1_completions_request *request = call->request;
    text->prompt_count = prompt_count(request);
    if (text->prompt_count == 0) {
        return call_fail(info, ERR_EMPTY, NULL, "/prompt", "the list of prompts is empty");
    }
    int64_t answers = (int64_t)text->prompt_count * text->options->n;
    if (answers > call->limits->items_max) {
        return call_fail(info, ERR_LIMIT, "too_many_inputs", "/prompt",
            "%lld answers are more than %d", (long long)answers, call->limits->items_max);
    }
    enum err err =
        call_array(call, (size_t)text->prompt_count, sizeof(*text->prompts), &text->prompts, info);
    for (int32_t i = 0; err == ERR_OK && i < text->prompt_count; i++) {
        err = read_prompt(call, text, i, &text->prompts[i], info);
    }
    return err == ERR_OK ? v1_text_plan(call, text, info) : err;
}

/* ---- plan: a suffix ------------------------------------------------------------------------ */

static enum err make_infill(struct call *call, struct v1_text *text, struct err_info *info)
{
    const struct v1_completions_request *request = call->request;
    const struct common_openai_text *options = &request->openai_text;
    struct infill_request *infill = NULL;
    enum err err = call_array(call, 1, sizeof(*infill), &infill, info);
    if (err == ERR_OK) {
        err = call_array(call, 1, sizeof(*text->prompts), &text->prompts, info);
    }
    if (err == ERR_OK) {
        err = v1_text_expect(call, text, (size_t)options->n, info);
    }
    if (err != ERR_OK) {
        return err;
    }
    *infill = *(const struct infill_request *)schema_infill_request.defaults;
    infill->sampling = request->sampling;
    infill->input_prefix = request->has_prompt ? request->prompt.text : call_text("");
    infill->input_suffix = request->suffix;
    infill->llama.n_predict = text->budget;
    infill->llama.n_cmpl = options->n;
    infill->llama.n_probs = text->top_logprobs < 0 ? 0 : MAX(text->top_logprobs, 1);
    infill->llama.ignore_eos = options->ignore_eos;
    infill->llama.stream = options->stream;
    infill->llama.repeat_penalty = options->repetition_penalty;
    infill->llama.repeat_last_n = -1;
    infill->llama.has_logit_bias = options->has_logit_bias;
    infill->llama.logit_bias.form = COMMON_LLAMA_LOGIT_BIAS_MAP;
    infill->llama.logit_bias.map = options->logit_bias;
    text->infill_request = infill;
    text->hides_end = true; /* as /infill does */
    text->prompt_count = 1;
    text->prompts[0].text = infill->input_prefix;
    return ERR_OK;
}

/* Places in the /infill request, in our own body. */
static void rename_place(struct err_info *info)
{
    static const char *const names[][2] = {
        {"/input_prefix", "/prompt"}, {"/input_suffix", "/suffix"}, {"/mode", "/suffix"}};
    for (size_t i = 0; info != NULL && i < ARRAY_COUNT(names); i++) {
        if (strcmp(info->where, names[i][0]) == 0) {
            (void)snprintf(info->where, sizeof(info->where), "%s", names[i][1]);
        }
    }
}

/* /infill's code finds its own request and notes in the call. */
static enum err as_infill(
    struct call *call, const struct job *job, bool *out_more, struct err_info *info)
{
    struct v1_text *text = call->state;
    void *request = call->request;
    call->request = text->infill_request;
    call->state = text->infill;
    enum err err =
        job == NULL ? infill_llama_plan(call, info) : infill_llama_more(call, job, out_more, info);
    text->infill = call->state;
    call->request = request;
    call->state = text;
    call->plan.cache_off = !text->sampling->cache_prompt;
    if (err != ERR_OK) {
        rename_place(info);
    }
    return err;
}

static enum err v1_completions_plan(struct call *call, struct err_info *info)
{
    struct v1_text *text = call->state;
    if (!has_suffix(call->request)) {
        return plan_prompts(call, text, info);
    }
    enum err err = make_infill(call, text, info);
    return err == ERR_OK ? as_infill(call, NULL, NULL, info) : err;
}

static enum err v1_completions_more(
    struct call *call, const struct job *job, bool *out_more, struct err_info *info)
{
    struct err_info failure;
    if (call_job_error(job, NULL, &failure) != ERR_OK) {
        return ERR_OK; /* the end of the request tells */
    }
    return as_infill(call, job, out_more, info);
}

const struct endpoint endpoint_v1_completions = {.name = "v1_completions",
    .kind = KIND_GENERATE,
    .family = FAMILY_OPENAI,
    .decode = v1_completions_decode,
    .plan = v1_completions_plan,
    .more = v1_completions_more,
    .encode = v1_text_encode,
    .frame = v1_text_frame,
    .frame_end = v1_text_frame_end};
