/*
 * Members of llama.cpp's reply by number, so that `response_fields` can look names up. The whole
 * reply is all of them in order. A name "a/b" is member b of the group a, and is then a root key
 * spelled "a/b".
 */
#include "api/llama_answer.h"

#include <string.h>
#include "api/bind.h"
#include "api/llama.h"

/* ORDER MEMBER: as the names below. */
enum member {
    MEMBER_INDEX,
    MEMBER_CONTENT,
    MEMBER_TOKENS,
    MEMBER_STOP,
    MEMBER_MODEL,
    MEMBER_ID_SLOT,
    MEMBER_PREDICTED,
    MEMBER_EVALUATED,
    MEMBER_CACHED,
    MEMBER_TRUNCATED,
    MEMBER_STOP_TYPE,
    MEMBER_STOPPING_WORD,
    MEMBER_HAS_NEW_LINE,
    MEMBER_PROMPT,
    MEMBER_PROBABILITIES,
    MEMBER_SETTINGS,
    MEMBER_TIMINGS,
    MEMBER_COUNT
};
static const char *const MEMBER_NAMES[] = {"index", "content", "tokens", "stop", "model", "id_slot",
    "tokens_predicted", "tokens_evaluated", "tokens_cached", "truncated", "stop_type",
    "stopping_word", "has_new_line", "prompt", "completion_probabilities", "generation_settings",
    "timings"};
_Static_assert(ARRAY_COUNT(MEMBER_NAMES) == MEMBER_COUNT, "a name each");

/* Of the group generation_settings; ORDER SETTING. */
enum setting {
    SETTING_TEMPERATURE,
    SETTING_TOP_K,
    SETTING_TOP_P,
    SETTING_MIN_P,
    SETTING_TYPICAL_P,
    SETTING_REPEAT_PENALTY,
    SETTING_REPEAT_LAST_N,
    SETTING_PRESENCE_PENALTY,
    SETTING_FREQUENCY_PENALTY,
    SETTING_SEED,
    SETTING_N_PREDICT,
    SETTING_STOP,
    SETTING_IGNORE_EOS,
    SETTING_STREAM,
    SETTING_N_PROBS,
    SETTING_COUNT
};
static const char *const SETTING_NAMES[] = {"temperature", "top_k", "top_p", "min_p", "typical_p",
    "repeat_penalty", "repeat_last_n", "presence_penalty", "frequency_penalty", "seed", "n_predict",
    "stop", "ignore_eos", "stream", "n_probs"};
_Static_assert(ARRAY_COUNT(SETTING_NAMES) == SETTING_COUNT, "a name each");

/* ---- generation_settings ------------------------------------------------------------------- */

static void write_stops(struct json_out *out, const struct plan_step *step)
{
    json_out_array(out);
    for (int32_t i = 0; i < step->stop_count; i++) {
        json_out_bytes(out, step->stops[i].bytes, (size_t)step->stops[i].count);
    }
    json_out_end(out);
}

static void write_setting(struct json_out *out, const struct llama_view *view, enum setting setting)
{
    const struct sampling *sampling = view->answer.sampling;
    const struct plan_step *step = view->answer.step;
    switch (setting) {
    case SETTING_TEMPERATURE:
        json_out_float(out, sampling->temperature);
        break;
    case SETTING_TOP_K:
        json_out_int(out, sampling->top_k);
        break;
    case SETTING_TOP_P:
        json_out_float(out, sampling->top_p);
        break;
    case SETTING_MIN_P:
        json_out_float(out, sampling->min_p);
        break;
    case SETTING_TYPICAL_P:
        json_out_float(out, sampling->typical_p);
        break;
    case SETTING_REPEAT_PENALTY:
        json_out_float(out, sampling->repetition_penalty);
        break;
    case SETTING_REPEAT_LAST_N:
        json_out_int(out, sampling->penalty_last_n);
        break;
    case SETTING_PRESENCE_PENALTY:
        json_out_float(out, sampling->presence_penalty);
        break;
    case SETTING_FREQUENCY_PENALTY:
        json_out_float(out, sampling->frequency_penalty);
        break;
    case SETTING_SEED:
        json_out_int(out, (int64_t)sampling->seed);
        break;
    case SETTING_N_PREDICT:
        json_out_int(out, step->tokens_max);
        break;
    case SETTING_STOP:
        write_stops(out, step);
        break;
    case SETTING_IGNORE_EOS:
        json_out_bool(out, step->ban_end);
        break;
    case SETTING_STREAM:
        json_out_bool(out, view->stream);
        break;
    case SETTING_N_PROBS:
        json_out_int(out, view->options->n_probs);
        break;
    case SETTING_COUNT:
        break;
    }
}

static void write_settings(struct json_out *out, const struct llama_view *view)
{
    json_out_object(out);
    for (enum setting i = 0; i < SETTING_COUNT; i++) {
        json_out_key(out, SETTING_NAMES[i]);
        write_setting(out, view, i);
    }
    json_out_end(out);
}

enum err llama_answer_write_defaults(struct json_out *out, struct err_info *info)
{
    static const char nothing[] = "{\"prompt\":\"\"}";
    struct bound bound;
    struct arena arena;
    arena_init(&arena, MEM_REQUESTS, 4096, (size_t)1 << 20);
    enum err err = bind_request(
        &arena, &schema_completion_request, nothing, sizeof(nothing) - 1, &bound, info);
    if (err == ERR_OK) {
        const struct completion_request *request = bound.request;
        struct call call = {.arena = &arena};
        struct sampling sampling = {0};
        struct plan_step step = {.tokens_max = (int32_t)request->llama.n_predict};
        err = llama_sampling(&call, &request->sampling, &request->llama, &sampling, info);
        if (err == ERR_OK) {
            err = llama_step(&call, &request->sampling, &request->llama, &step, info);
        }
        if (err == ERR_OK) {
            sampling.seed = (uint64_t)request->sampling.seed;
            const struct llama_view view = {.options = &request->llama,
                .stream = request->llama.stream,
                .answer = {.step = &step, .sampling = &sampling}};
            write_settings(out, &view);
        }
    }
    arena_drop(&arena);
    return err;
}

/* ---- completion_probabilities -------------------------------------------------------------- */

static void write_probability(
    struct json_out *out, const struct call *call, int32_t token, float logprob)
{
    size_t bytes;
    const char *piece = tokenizer_piece(call->tokenizer, token, true, &bytes);
    json_out_key(out, "id");
    json_out_int(out, token);
    json_out_key(out, "token");
    json_out_bytes(out, piece, bytes);
    json_out_key(out, "bytes");
    json_out_array(out);
    for (size_t i = 0; i < bytes; i++) {
        json_out_int(out, (unsigned char)piece[i]);
    }
    json_out_end(out);
    json_out_key(out, "logprob");
    json_out_float(out, MAX(logprob, -3.4028235e38f)); /* minus infinity */
}

void llama_answer_write_entries(struct json_out *out, const struct call *call,
    const struct llama_tokens *tokens, int32_t wanted)
{
    int32_t tops = MIN(wanted, tokenizer_vocab(call->tokenizer));
    json_out_array(out);
    for (int32_t i = 0; i < tokens->count; i++) {
        const struct token_logprob *top = tokens->top + (size_t)i * (size_t)wanted;
        json_out_object(out);
        write_probability(out, call, tokens->ids[i], tokens->logprobs[i]);
        json_out_key(out, "top_logprobs");
        json_out_array(out);
        for (int32_t k = 0; k < tops; k++) {
            json_out_object(out);
            write_probability(out, call, top[k].token, top[k].logprob);
            json_out_end(out);
        }
        json_out_end(out);
        json_out_end(out);
    }
    json_out_end(out);
}

struct llama_tokens llama_answer_tokens(const struct infill_fill *fill)
{
    return (struct llama_tokens){fill->tokens, fill->logprobs, fill->top, fill->token_count};
}

/* ---- members ------------------------------------------------------------------------------- */

void llama_answer_write_ids(struct json_out *out, const int32_t *ids, int32_t count)
{
    json_out_array(out);
    for (int32_t i = 0; i < count; i++) {
        json_out_int(out, ids[i]);
    }
    json_out_end(out);
}

/* The stop string that ended the answer; NULL when something else did. */
static const struct stop_string *stop_of(const struct llama_answer *answer)
{
    const struct infill_fill *fill = &answer->fill;
    bool ended = fill->finish == FINISH_STOP_STRING && fill->stop_index >= 0;
    return ended ? &answer->step->stops[fill->stop_index] : NULL;
}

/* A text of a schema that is complete has come to its end, as if the model had said so. */
static const char *stop_type(const struct llama_answer *answer)
{
    enum finish finish = answer->fill.finish;
    bool ended = finish == FINISH_EOS || finish == FINISH_STOP_STRING;
    return stop_of(answer) != NULL ? "word" : ended ? "eos" : "limit";
}

static bool has_new_line(const struct infill_fill *fill)
{
    return fill->text_bytes > 0 && memchr(fill->text, '\n', fill->text_bytes) != NULL;
}

/* What was fed, as text, control tokens spelled out. */
static void write_prompt(struct json_out *out, const struct llama_view *view)
{
    struct buf text;
    buf_init(&text, MEM_REQUESTS, (size_t)64 << 20);
    call_detokenize(view->call, view->answer.prompt, view->answer.prompt_count, true, &text);
    json_out_bytes(out, text.bytes != NULL ? text.bytes : "", text.count);
    out->buf->failed = out->buf->failed || text.failed; /* no memory is told once, at the end */
    buf_free(&text);
}

static void write_member(struct json_out *out, const struct llama_view *view, enum member member)
{
    const struct llama_answer *answer = &view->answer;
    const struct infill_fill *fill = &answer->fill;
    const struct stop_string *stop = stop_of(answer);
    const struct llama_tokens tokens =
        view->options->n_probs > 0 ? llama_answer_tokens(fill) : (struct llama_tokens){0};
    bool returns_tokens = view->options->return_tokens && !view->stream;
    switch (member) {
    case MEMBER_INDEX:
        json_out_int(out, view->index);
        break;
    case MEMBER_CONTENT:
        json_out_bytes(out, fill->text, view->stream ? 0 : fill->text_bytes);
        break;
    case MEMBER_TOKENS:
        llama_answer_write_ids(out, fill->tokens, returns_tokens ? fill->token_count : 0);
        break;
    case MEMBER_STOP:
        json_out_bool(out, true);
        break;
    case MEMBER_MODEL:
        json_out_string(out, call_model_name(view->call));
        break;
    case MEMBER_ID_SLOT:
        json_out_int(out, 0); /* there are no slots to name */
        break;
    case MEMBER_PREDICTED:
        json_out_int(out, answer->predicted);
        break;
    case MEMBER_EVALUATED:
        json_out_int(out, answer->prompt_count);
        break;
    case MEMBER_CACHED:
        json_out_int(out, answer->prompt_count + answer->predicted);
        break;
    case MEMBER_TRUNCATED:
        json_out_bool(out, answer->truncated);
        break;
    case MEMBER_STOP_TYPE:
        json_out_string(out, stop_type(answer));
        break;
    case MEMBER_STOPPING_WORD:
        json_out_bytes(
            out, stop != NULL ? stop->bytes : "", stop != NULL ? (size_t)stop->count : 0);
        break;
    case MEMBER_HAS_NEW_LINE:
        json_out_bool(out, has_new_line(fill));
        break;
    case MEMBER_PROMPT:
        write_prompt(out, view);
        break;
    case MEMBER_PROBABILITIES:
        llama_answer_write_entries(out, view->call, &tokens, view->options->n_probs);
        break;
    case MEMBER_SETTINGS:
        write_settings(out, view);
        break;
    case MEMBER_TIMINGS:
        call_write_timings(out, view->call, view->job);
        break;
    case MEMBER_COUNT:
        break;
    }
}

/* ---- choosing ------------------------------------------------------------------------------ */

static const char *member_name(int32_t index)
{
    return MEMBER_NAMES[index];
}

static const char *setting_name(int32_t index)
{
    return SETTING_NAMES[index];
}

/* The number of a name, -1 = there is none. */
static int32_t find(
    const char *name, size_t bytes, const char *(*name_of)(int32_t index), int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        if (strlen(name_of(i)) == bytes && memcmp(name_of(i), name, bytes) == 0) {
            return i;
        }
    }
    return -1;
}

/* "a" or "a/b" as key and value; a name the reply does not have is dropped. */
static void write_field(struct json_out *out, const struct llama_view *view, const char *name)
{
    const char *slash = strchr(name, '/');
    size_t head = slash != NULL ? (size_t)(slash - name) : strlen(name);
    int32_t member = find(name, head, member_name, MEMBER_COUNT), inner = -1;
    if (slash != NULL && member == MEMBER_SETTINGS) {
        inner = find(slash + 1, strlen(slash + 1), setting_name, SETTING_COUNT);
    } else if (slash != NULL && member == MEMBER_TIMINGS) {
        inner = find(slash + 1, strlen(slash + 1), call_timing_name, CALL_TIMINGS);
    }
    if (member < 0 || (slash != NULL && inner < 0)) {
        return;
    }
    json_out_key(out, name);
    if (slash == NULL) {
        write_member(out, view, (enum member)member);
    } else if (member == MEMBER_SETTINGS) {
        write_setting(out, view, (enum setting)inner);
    } else {
        call_write_timing(out, view->call, view->job, inner);
    }
}

static bool named_before(const struct bound_texts *fields, int32_t index)
{
    for (int32_t i = 0; i < index; i++) {
        if (strcmp(fields->items[i].bytes, fields->items[index].bytes) == 0) {
            return true;
        }
    }
    return false;
}

static void write_chosen(
    struct json_out *out, const struct llama_view *view, const struct bound_texts *fields)
{
    for (int32_t i = 0; i < fields->count; i++) {
        if (!named_before(fields, i)) {
            write_field(out, view, fields->items[i].bytes);
        }
    }
}

static void write_all(struct json_out *out, const struct llama_view *view)
{
    bool probabilities = view->options->n_probs > 0 && !view->stream;
    for (enum member i = 0; i < MEMBER_COUNT; i++) {
        if (i != MEMBER_PROBABILITIES || probabilities) {
            json_out_key(out, MEMBER_NAMES[i]);
            write_member(out, view, i);
        }
    }
}

void llama_answer_write(struct json_out *out, const struct llama_view *view)
{
    json_out_object(out);
    if (view->options->has_response_fields) {
        write_chosen(out, view, &view->options->response_fields);
    } else {
        write_all(out, view);
    }
    json_out_end(out);
}
