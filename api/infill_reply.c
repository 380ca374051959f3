/*
 * Members of llama.cpp's infill reply as a table: name, writer. The whole reply is the table in
 * order; `response_fields` looks names up in it. A name "a/b" is member b of the group a, and is
 * then a root key spelled "a/b".
 */
#include "api/infill_reply.h"

#include <string.h>
#include "engine/base/assert.h"

/* What a member is written from. */
struct view {
    struct call *call;
    const struct job *job;
    int32_t index;
    bool stream;
    struct infill_fill fill;
    const struct plan_step *step; /* as it was asked for */
    const struct sampling *sampling;
    int64_t prompt, predicted; /* tokens */
    size_t shown;              /* bytes of the text that belong to the answer */
    bool cut;                  /* n_indent ended it */
    struct err_info *info;
};

typedef enum err member_fn(const struct view *view, struct json_out *out);

/* ---- the text ------------------------------------------------------------------------------ */

bool infill_reply_spaced(const struct infill_llama_notes *notes)
{
    const struct call_ids *space =
        notes->mode == INFILL_RERANK ? &notes->rerank.space : &notes->space;
    return space->count > 0;
}

size_t infill_reply_visible(
    const char *text, size_t bytes, int32_t n_indent, bool ended, bool *out_cut)
{
    *out_cut = false;
    if (n_indent == 0) {
        return bytes;
    }
    const char *end = text + bytes;
    for (const char *line = memchr(text, '\n', bytes); line != NULL;) {
        line++;
        const char *at = line;
        while (at < end && (*at == ' ' || *at == '\t')) {
            at++;
        }
        if (at == end) { /* no ink yet: the indent is not known */
            return ended ? bytes : (size_t)(line - text);
        }
        if (*at != '\n' && *at != '\r' && at - line < n_indent) {
            *out_cut = true;
            return (size_t)(line - text);
        }
        line = memchr(at, '\n', (size_t)(end - at));
    }
    return bytes;
}

static enum err write_index(const struct view *view, struct json_out *out)
{
    json_out_int(out, view->index);
    return ERR_OK;
}

static enum err write_content(const struct view *view, struct json_out *out)
{
    json_out_bytes(out, view->fill.text, view->stream ? 0 : view->shown);
    return ERR_OK;
}

static enum err write_tokens(const struct view *view, struct json_out *out)
{
    json_out_array(out);
    json_out_end(out);
    return ERR_OK;
}

static enum err write_stop(const struct view *view, struct json_out *out)
{
    json_out_bool(out, true);
    return ERR_OK;
}

static enum err write_model(const struct view *view, struct json_out *out)
{
    json_out_string(out, call_model_name(view->call));
    return ERR_OK;
}

static enum err write_id_slot(const struct view *view, struct json_out *out)
{
    json_out_int(out, 0); /* there are no slots to name */
    return ERR_OK;
}

static enum err write_predicted(const struct view *view, struct json_out *out)
{
    json_out_int(out, view->predicted);
    return ERR_OK;
}

static enum err write_evaluated(const struct view *view, struct json_out *out)
{
    json_out_int(out, view->prompt);
    return ERR_OK;
}

static enum err write_cached(const struct view *view, struct json_out *out)
{
    json_out_int(out, view->prompt + view->predicted);
    return ERR_OK;
}

static enum err write_truncated(const struct view *view, struct json_out *out)
{
    const struct infill_llama_notes *notes = view->call->state;
    json_out_bool(out, notes->truncated);
    return ERR_OK;
}

static enum err write_stop_type(const struct view *view, struct json_out *out)
{
    const char *word = view->cut                                 ? "limit"
                       : view->fill.finish == FINISH_EOS         ? "eos"
                       : view->fill.finish == FINISH_STOP_STRING ? "word"
                                                                 : "limit";
    json_out_string(out, word);
    return ERR_OK;
}

static enum err write_stopping_word(const struct view *view, struct json_out *out)
{
    const struct plan_step *step = view->step;
    int32_t stop = view->fill.stop_index;
    bool named = !view->cut && view->fill.finish == FINISH_STOP_STRING && stop >= 0;
    json_out_bytes(
        out, named ? step->stops[stop].bytes : "", named ? (size_t)step->stops[stop].count : 0);
    return ERR_OK;
}

static enum err write_has_new_line(const struct view *view, struct json_out *out)
{
    json_out_bool(out, view->shown > 0 && memchr(view->fill.text, '\n', view->shown) != NULL);
    return ERR_OK;
}

/* What was fed, as text, control tokens spelled out. */
static enum err write_prompt(const struct view *view, struct json_out *out)
{
    const struct infill_llama_notes *notes = view->call->state;
    struct buf text;
    buf_init(&text, MEM_REQUESTS, (size_t)64 << 20);
    call_detokenize(view->call, notes->prompt.ids, notes->prompt.count, true, &text);
    json_out_bytes(out, text.bytes != NULL ? text.bytes : "", text.failed ? 0 : text.count);
    bool failed = text.failed;
    buf_free(&text);
    return failed ? call_no_memory(view->info) : ERR_OK;
}

/* ---- generation_settings ------------------------------------------------------------------- */

#define SETTING_FLOAT(name, member)                                                                \
    static enum err write_##name(const struct view *view, struct json_out *out)                    \
    {                                                                                              \
        json_out_float(out, view->sampling->member);                                               \
        return ERR_OK;                                                                             \
    }
SETTING_FLOAT(temperature, temperature)
SETTING_FLOAT(top_p, top_p)
SETTING_FLOAT(min_p, min_p)
SETTING_FLOAT(typical_p, typical_p)
SETTING_FLOAT(repeat_penalty, repetition_penalty)
SETTING_FLOAT(presence_penalty, presence_penalty)
SETTING_FLOAT(frequency_penalty, frequency_penalty)

static enum err write_top_k(const struct view *view, struct json_out *out)
{
    json_out_int(out, view->sampling->top_k);
    return ERR_OK;
}

static enum err write_repeat_last_n(const struct view *view, struct json_out *out)
{
    json_out_int(out, view->sampling->penalty_last_n);
    return ERR_OK;
}

static enum err write_seed(const struct view *view, struct json_out *out)
{
    json_out_int(out, (int64_t)view->sampling->seed);
    return ERR_OK;
}

static enum err write_n_predict(const struct view *view, struct json_out *out)
{
    json_out_int(out, view->step->tokens_max);
    return ERR_OK;
}

static enum err write_stop_list(const struct view *view, struct json_out *out)
{
    const struct plan_step *step = view->step;
    json_out_array(out);
    for (int32_t i = 0; i < step->stop_count; i++) {
        json_out_bytes(out, step->stops[i].bytes, (size_t)step->stops[i].count);
    }
    json_out_end(out);
    return ERR_OK;
}

static enum err write_ignore_eos(const struct view *view, struct json_out *out)
{
    json_out_bool(out, view->step->ban_end);
    return ERR_OK;
}

static enum err write_stream(const struct view *view, struct json_out *out)
{
    json_out_bool(out, view->stream);
    return ERR_OK;
}

static enum err write_n_probs(const struct view *view, struct json_out *out)
{
    json_out_int(out, ((const struct infill_request *)view->call->request)->n_probs);
    return ERR_OK;
}

static enum err write_timings(const struct view *view, struct json_out *out)
{
    call_write_timings(out, view->call, view->job);
    return ERR_OK;
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

static enum err write_probabilities(const struct view *view, struct json_out *out)
{
    const struct infill_fill *fill = &view->fill;
    int32_t wanted = view->step->top_logprobs;
    int32_t tops = MIN(wanted, tokenizer_vocab(view->call->tokenizer));
    json_out_array(out);
    for (int32_t i = 0; wanted > 0 && i < fill->token_count; i++) {
        json_out_object(out);
        write_probability(out, view->call, fill->tokens[i], fill->logprobs[i]);
        json_out_key(out, "top_logprobs");
        json_out_array(out);
        for (int32_t k = 0; k < tops; k++) {
            const struct token_logprob *top = &fill->top[(size_t)i * (size_t)wanted + (size_t)k];
            json_out_object(out);
            write_probability(out, view->call, top->token, top->logprob);
            json_out_end(out);
        }
        json_out_end(out);
        json_out_end(out);
    }
    json_out_end(out);
    return ERR_OK;
}

/* ---- the table ----------------------------------------------------------------------------- */

struct member {
    const char *name;
    member_fn *write; /* NULL = a group */
    const struct member *members;
    int32_t member_count;
};

static const struct member SETTINGS[] = {
    {.name = "temperature", .write = write_temperature},
    {.name = "top_k", .write = write_top_k},
    {.name = "top_p", .write = write_top_p},
    {.name = "min_p", .write = write_min_p},
    {.name = "typical_p", .write = write_typical_p},
    {.name = "repeat_penalty", .write = write_repeat_penalty},
    {.name = "repeat_last_n", .write = write_repeat_last_n},
    {.name = "presence_penalty", .write = write_presence_penalty},
    {.name = "frequency_penalty", .write = write_frequency_penalty},
    {.name = "seed", .write = write_seed},
    {.name = "n_predict", .write = write_n_predict},
    {.name = "stop", .write = write_stop_list},
    {.name = "ignore_eos", .write = write_ignore_eos},
    {.name = "stream", .write = write_stream},
    {.name = "n_probs", .write = write_n_probs},
};

static const char PROBABILITIES[] = "completion_probabilities";
static const char TIMINGS[] = "timings";

static const struct member MEMBERS[] = {
    {.name = "index", .write = write_index},
    {.name = "content", .write = write_content},
    {.name = "tokens", .write = write_tokens},
    {.name = "stop", .write = write_stop},
    {.name = "model", .write = write_model},
    {.name = "id_slot", .write = write_id_slot},
    {.name = "tokens_predicted", .write = write_predicted},
    {.name = "tokens_evaluated", .write = write_evaluated},
    {.name = "tokens_cached", .write = write_cached},
    {.name = "truncated", .write = write_truncated},
    {.name = "stop_type", .write = write_stop_type},
    {.name = "stopping_word", .write = write_stopping_word},
    {.name = "has_new_line", .write = write_has_new_line},
    {.name = "prompt", .write = write_prompt},
    {.name = PROBABILITIES, .write = write_probabilities},
    {.name = "generation_settings", .members = SETTINGS, .member_count = ARRAY_COUNT(SETTINGS)},
    {.name = TIMINGS, .write = write_timings},
};

/* ---- writing ------------------------------------------------------------------------------- */

static enum err write_member(
    const struct view *view, const struct member *member, struct json_out *out)
{
    if (member->write != NULL) {
        return member->write(view, out);
    }
    enum err err = ERR_OK;
    json_out_object(out);
    for (int32_t i = 0; err == ERR_OK && i < member->member_count; i++) {
        json_out_key(out, member->members[i].name);
        err = member->members[i].write(view, out);
    }
    if (err == ERR_OK) {
        json_out_end(out);
    }
    return err;
}

static const struct member *find_member(
    const struct member *members, int32_t count, const char *name, size_t bytes)
{
    for (int32_t i = 0; i < count; i++) {
        if (strlen(members[i].name) == bytes && memcmp(members[i].name, name, bytes) == 0) {
            return &members[i];
        }
    }
    return NULL;
}

/* "a" or "a/b"; NULL for a name the reply does not have. */
static const struct member *find_field(const struct bound_text *name)
{
    const char *slash = strchr(name->bytes, '/');
    size_t head = slash != NULL ? (size_t)(slash - name->bytes) : (size_t)name->count;
    const struct member *member =
        find_member(MEMBERS, (int32_t)ARRAY_COUNT(MEMBERS), name->bytes, head);
    if (member == NULL || slash == NULL) {
        return member;
    }
    return find_member(member->members, member->member_count, slash + 1, strlen(slash + 1));
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

/* Members of `timings` are shared with the other form and so have no rows of their own. */
static int32_t find_timing(const char *name)
{
    size_t group = strlen(TIMINGS);
    for (int32_t i = 0; i < CALL_TIMINGS; i++) {
        if (strncmp(name, TIMINGS, group) == 0 && name[group] == '/' &&
            strcmp(name + group + 1, call_timing_name(i)) == 0) {
            return i;
        }
    }
    return -1;
}

static enum err write_fields(
    const struct view *view, const struct bound_texts *fields, struct json_out *out)
{
    enum err err = ERR_OK;
    for (int32_t i = 0; err == ERR_OK && i < fields->count; i++) {
        const char *name = fields->items[i].bytes;
        const struct member *member = find_field(&fields->items[i]);
        int32_t timing = find_timing(name);
        if (named_before(fields, i) || (member == NULL && timing < 0)) {
            continue;
        }
        json_out_key(out, name);
        if (timing >= 0) {
            call_write_timing(out, view->call, view->job, timing);
        } else {
            err = write_member(view, member, out);
        }
    }
    return err;
}

static enum err write_all(const struct view *view, bool probabilities, struct json_out *out)
{
    enum err err = ERR_OK;
    for (size_t i = 0; err == ERR_OK && i < ARRAY_COUNT(MEMBERS); i++) {
        if (MEMBERS[i].name != PROBABILITIES || probabilities) {
            json_out_key(out, MEMBERS[i].name);
            err = write_member(view, &MEMBERS[i], out);
        }
    }
    return err;
}

int32_t infill_reply_count(const struct infill_llama_notes *notes, const struct job *job)
{
    const int32_t wanted = notes->answers;
    return notes->mode == INFILL_RERANK ? MIN(notes->rerank.fill_count, wanted)
                                        : job->plan.item_count;
}

struct infill_fill infill_reply_fill(
    const struct infill_llama_notes *notes, const struct job *job, int32_t index)
{
    return notes->mode == INFILL_RERANK ? notes->rerank.fills[index]
                                        : infill_fill_of(&job->results[index].steps[0]);
}

/* In mode rerank an answer is one of the ranked fills, and no item of the last job. */
static void set_answer(struct view *view, const struct infill_llama_notes *notes)
{
    view->fill = infill_reply_fill(notes, view->job, view->index);
    view->prompt = notes->prompt.count;
    if (notes->mode == INFILL_RERANK) {
        view->step = &notes->rerank.step;
        view->sampling = &notes->rerank.sampling;
        view->predicted = view->fill.token_count;
    } else {
        view->step = &view->job->plan.items[view->index].steps[0];
        view->sampling = &view->job->plan.items[view->index].sampling;
        view->predicted = view->job->results[view->index].generated_tokens;
    }
}

enum err infill_reply_write(struct call *call, const struct job *job, int32_t index, bool stream,
    struct json_out *out, struct err_info *info)
{
    const struct infill_request *request = call->request;
    struct view view = {.call = call, .job = job, .index = index, .stream = stream, .info = info};
    set_answer(&view, call->state);
    view.shown = infill_reply_visible(
        view.fill.text, view.fill.text_bytes, request->n_indent, true, &view.cut);
    json_out_object(out);
    enum err err = request->has_response_fields
                       ? write_fields(&view, &request->response_fields, out)
                       : write_all(&view, request->n_probs > 0, out);
    if (err == ERR_OK) {
        json_out_end(out);
    }
    return err;
}
