/*
 * Members of llama.cpp's reply as a table: name, writer. The whole reply is the table in order;
 * `response_fields` looks names up in it. A name "a/b" is member b of the group a, and is then a
 * root key spelled "a/b".
 *
 * What surprises: in a stream the parts carry the probabilities of their tokens, so the last event,
 * which has everything else, has none.
 */
#include "api/llama_reply.h"

#include <string.h>
#include "api/sse.h"

/* What a member is written from. */
struct view {
    struct call *call;
    const struct job *job;
    const struct common_llama *options;
    int32_t index;
    bool stream;
    struct llama_answer answer;
    size_t shown; /* bytes of the text that belong to the answer */
    bool cut;     /* n_indent ended it */
    struct err_info *info;
};

typedef enum err member_fn(const struct view *view, struct json_out *out);

/* ---- the text ------------------------------------------------------------------------------ */

size_t llama_reply_visible(
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
    json_out_bytes(out, view->answer.fill.text, view->stream ? 0 : view->shown);
    return ERR_OK;
}

static void write_ids(struct json_out *out, const int32_t *ids, int32_t count)
{
    json_out_array(out);
    for (int32_t i = 0; i < count; i++) {
        json_out_int(out, ids[i]);
    }
    json_out_end(out);
}

static enum err write_tokens(const struct view *view, struct json_out *out)
{
    const struct infill_fill *fill = &view->answer.fill;
    bool wanted = view->options->return_tokens && !view->stream;
    write_ids(out, fill->tokens, wanted ? fill->token_count : 0);
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
    json_out_int(out, view->answer.predicted);
    return ERR_OK;
}

static enum err write_evaluated(const struct view *view, struct json_out *out)
{
    json_out_int(out, view->answer.prompt_count);
    return ERR_OK;
}

static enum err write_cached(const struct view *view, struct json_out *out)
{
    json_out_int(out, view->answer.prompt_count + view->answer.predicted);
    return ERR_OK;
}

static enum err write_truncated(const struct view *view, struct json_out *out)
{
    json_out_bool(out, view->answer.truncated);
    return ERR_OK;
}

/* The stop string that ended the answer; NULL when something else did. */
static const struct stop_string *stop_of(const struct view *view)
{
    const struct infill_fill *fill = &view->answer.fill;
    bool ended = !view->cut && fill->finish == FINISH_STOP_STRING && fill->stop_index >= 0;
    return ended ? &view->answer.step->stops[fill->stop_index] : NULL;
}

/* A text of a schema that is complete has come to its end, as if the model had said so. */
static enum err write_stop_type(const struct view *view, struct json_out *out)
{
    enum finish finish = view->answer.fill.finish;
    bool ended = !view->cut && (finish == FINISH_EOS || finish == FINISH_STOP_STRING);
    json_out_string(out, stop_of(view) != NULL ? "word" : ended ? "eos" : "limit");
    return ERR_OK;
}

static enum err write_stopping_word(const struct view *view, struct json_out *out)
{
    const struct stop_string *stop = stop_of(view);
    json_out_bytes(out, stop != NULL ? stop->bytes : "", stop != NULL ? (size_t)stop->count : 0);
    return ERR_OK;
}

static enum err write_has_new_line(const struct view *view, struct json_out *out)
{
    json_out_bool(
        out, view->shown > 0 && memchr(view->answer.fill.text, '\n', view->shown) != NULL);
    return ERR_OK;
}

/* What was fed, as text, control tokens spelled out. */
static enum err write_prompt(const struct view *view, struct json_out *out)
{
    const struct llama_answer *answer = &view->answer;
    struct buf text;
    buf_init(&text, MEM_REQUESTS, (size_t)64 << 20);
    call_detokenize(view->call, answer->prompt, answer->prompt_count, true, &text);
    json_out_bytes(out, text.bytes != NULL ? text.bytes : "", text.failed ? 0 : text.count);
    bool failed = text.failed;
    buf_free(&text);
    return failed ? call_no_memory(view->info) : ERR_OK;
}

/* ---- generation_settings ------------------------------------------------------------------- */

#define SETTING_FLOAT(name, member)                                                                \
    static enum err write_##name(const struct view *view, struct json_out *out)                    \
    {                                                                                              \
        json_out_float(out, view->answer.sampling->member);                                        \
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
    json_out_int(out, view->answer.sampling->top_k);
    return ERR_OK;
}

static enum err write_repeat_last_n(const struct view *view, struct json_out *out)
{
    json_out_int(out, view->answer.sampling->penalty_last_n);
    return ERR_OK;
}

static enum err write_seed(const struct view *view, struct json_out *out)
{
    json_out_int(out, (int64_t)view->answer.sampling->seed);
    return ERR_OK;
}

static enum err write_n_predict(const struct view *view, struct json_out *out)
{
    json_out_int(out, view->answer.step->tokens_max);
    return ERR_OK;
}

static enum err write_stop_list(const struct view *view, struct json_out *out)
{
    const struct plan_step *step = view->answer.step;
    json_out_array(out);
    for (int32_t i = 0; i < step->stop_count; i++) {
        json_out_bytes(out, step->stops[i].bytes, (size_t)step->stops[i].count);
    }
    json_out_end(out);
    return ERR_OK;
}

static enum err write_ignore_eos(const struct view *view, struct json_out *out)
{
    json_out_bool(out, view->answer.step->ban_end);
    return ERR_OK;
}

static enum err write_stream(const struct view *view, struct json_out *out)
{
    json_out_bool(out, view->stream);
    return ERR_OK;
}

static enum err write_n_probs(const struct view *view, struct json_out *out)
{
    json_out_int(out, view->options->n_probs);
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

/* Tokens of an answer, or the one an event is about. */
struct tokens {
    const int32_t *ids;              /* [count] */
    const float *logprobs;           /* [count] */
    const struct token_logprob *top; /* [count * wanted] */
    int32_t count;
};

static void write_entries(
    struct json_out *out, const struct call *call, const struct tokens *tokens, int32_t wanted)
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

static struct tokens tokens_of(const struct infill_fill *fill)
{
    return (struct tokens){fill->tokens, fill->logprobs, fill->top, fill->token_count};
}

static enum err write_probabilities(const struct view *view, struct json_out *out)
{
    const struct tokens none = {0};
    const struct tokens tokens = tokens_of(&view->answer.fill);
    write_entries(
        out, view->call, view->options->n_probs > 0 ? &tokens : &none, view->options->n_probs);
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

/* ---- replies ------------------------------------------------------------------------------- */

void llama_reply_item(const struct job *job, int32_t index, struct llama_answer *out_answer)
{
    const struct plan_item *item = &job->plan.items[index];
    *out_answer = (struct llama_answer){.prompt = item->tokens,
        .prompt_count = item->token_count,
        .fill = infill_fill_of(&job->results[index].steps[0]),
        .step = &item->steps[0],
        .sampling = &item->sampling,
        .predicted = job->results[index].generated_tokens};
}

/* `stream`: the last event of an answer. */
static struct view view_of(struct call *call, const struct llama_reply *reply,
    const struct job *job, int32_t index, bool stream, struct err_info *info)
{
    struct view view = {.call = call,
        .job = job,
        .options = reply->options,
        .index = index,
        .stream = stream,
        .info = info};
    reply->answer(call, job, index, &view.answer);
    view.shown = llama_reply_visible(view.answer.fill.text, view.answer.fill.text_bytes,
        reply->options->n_indent, true, &view.cut);
    return view;
}

static enum err write_answer(const struct view *view, struct json_out *out)
{
    const struct common_llama *options = view->options;
    json_out_object(out);
    enum err err = options->has_response_fields
                       ? write_fields(view, &options->response_fields, out)
                       : write_all(view, options->n_probs > 0 && !view->stream, out);
    if (err == ERR_OK) {
        json_out_end(out);
    }
    return err;
}

enum err llama_reply_encode(struct call *call, const struct llama_reply *reply,
    const struct job *job, struct json_out *out, struct err_info *info)
{
    enum err err = ERR_OK;
    if (reply->list) {
        json_out_array(out);
    }
    for (int32_t i = 0; err == ERR_OK && i < reply->count(call, job); i++) {
        const struct view view = view_of(call, reply, job, i, false, info);
        err = write_answer(&view, out);
    }
    if (err == ERR_OK && reply->list) {
        json_out_end(out);
    }
    return err;
}

/* ---- events -------------------------------------------------------------------------------- */

/* A part of an answer with the tokens it came with. */
struct part {
    int32_t index;
    const char *text;
    size_t bytes;
    struct tokens tokens;
    int64_t predicted, evaluated; /* tokens so far */
};

static enum err write_part(const struct call *call, const struct llama_reply *reply,
    const struct part *part, struct buf *out)
{
    struct json_out json;
    struct err_info unused;
    sse_begin(&json, out);
    json_out_object(&json);
    json_out_key(&json, "index");
    json_out_int(&json, part->index);
    json_out_key(&json, "content");
    json_out_bytes(&json, part->text, part->bytes);
    json_out_key(&json, "tokens");
    write_ids(&json, part->tokens.ids, part->tokens.count);
    json_out_key(&json, "stop");
    json_out_bool(&json, false);
    json_out_key(&json, "tokens_predicted");
    json_out_int(&json, part->predicted);
    json_out_key(&json, "tokens_evaluated");
    json_out_int(&json, part->evaluated);
    if (reply->options->n_probs > 0) {
        json_out_key(&json, "completion_probabilities");
        write_entries(&json, call, &part->tokens, reply->options->n_probs);
    }
    json_out_end(&json);
    enum err err = call_written(&json, &unused);
    sse_end(&json);
    return err;
}

enum err llama_reply_stream(struct call *call, struct llama_reply *reply, struct err_info *info)
{
    call->plan.stream = true;
    return call_array(
        call, (size_t)call->plan.item_count, sizeof(*reply->sent), &reply->sent, info);
}

/* Beside a running engine: of the result only what was written before the event may be read. */
enum err llama_reply_frame(struct call *call, struct llama_reply *reply, const struct job *job,
    const struct token_event *event, struct buf *out)
{
    const struct step_result *step = &job->results[event->item].steps[event->step];
    struct llama_sent *sent = &reply->sent[event->item];
    size_t wanted = (size_t)reply->options->n_probs;
    bool is_end = event->last && event->finish == FINISH_EOS; /* its token is none of the answer */
    bool cut;
    size_t shown =
        llama_reply_visible(step->text, (size_t)event->text_from + (size_t)event->text_bytes,
            reply->options->n_indent, event->last, &cut);
    enum err err = ERR_OK;
    if (shown > sent->bytes || (!is_end && !sent->cut)) {
        size_t from = MIN(sent->bytes, shown);
        const struct part part = {.index = event->item,
            .text = step->text + from,
            .bytes = shown - from,
            .tokens = {&event->token, &event->logprob,
                wanted > 0 ? step->top + (size_t)event->index * wanted : NULL, is_end ? 0 : 1},
            .predicted = event->index + 1,
            .evaluated = job->plan.items[event->item].token_count};
        err = write_part(call, reply, &part, out);
        sent->bytes = shown;
    }
    sent->cut = cut;
    return err;
}

enum err llama_reply_frame_end(
    struct call *call, struct llama_reply *reply, const struct job *job, struct buf *out)
{
    struct json_out json;
    struct err_info unused;
    int32_t index = reply->ended++;
    const struct view view = view_of(call, reply, job, index, true, &unused);
    const struct llama_answer *answer = &view.answer;
    const struct part whole = {index, answer->fill.text, view.shown, tokens_of(&answer->fill),
        answer->predicted, answer->prompt_count};
    enum err err = reply->sent == NULL ? write_part(call, reply, &whole, out) : ERR_OK;
    sse_begin(&json, out);
    if (err == ERR_OK) {
        err = write_answer(&view, &json);
    }
    if (err == ERR_OK) {
        err = call_written(&json, &unused);
        sse_end(&json);
    }
    call->frames_left = reply->ended < reply->count(call, job);
    return err;
}
