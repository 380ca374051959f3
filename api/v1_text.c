/*
 * The core of OpenAI's text routes; see v1_text.h.
 *
 * A stream keeps for each choice what is out and what is known of it (struct v1_sent). An event
 * makes more known, the end of the job makes all known, and show() sends the difference: so choices
 * that are told token by token, side by side or only when all is decided need no code of their own.
 *
 * What surprises: an event may carry log-probabilities of tokens before it and none of its own. A
 * token whose text is held back (it may begin a stop string, or ends inside a character) would
 * otherwise be told by its entry before it is told as text, or told though it never becomes text.
 */
#include "api/v1_text.h"

#include <stdio.h>
#include <time.h>
#include "api/chat.h"
#include "api/grammar.h"
#include "api/infill_llama.h"
#include "api/sse.h"
#include "engine/base/utf8.h"

/* ---- plan ---------------------------------------------------------------------------------- */

enum err v1_text_init(struct call *call, struct v1_text *text, struct err_info *info)
{
    enum err err = call_new_id(call, text->shape->id_prefix, &text->id, info);
    if (err == ERR_OK) {
        err = call_array(call, detokenizer_bound(call->tokenizer), 1, &text->scratch, info);
    }
    if (err == ERR_OK) {
        text->created = (int64_t)time(NULL);
        call->stream = text->options->stream;
        call->state = text;
    }
    return err;
}

enum err v1_text_expect(
    struct call *call, struct v1_text *text, size_t choices, struct err_info *info)
{
    return call->stream ? call_array(call, choices, sizeof(*text->sent), &text->sent, info)
                        : ERR_OK;
}

static enum err make_step(struct call *call, const struct v1_text *text,
    const struct v1_prompt *prompt, struct plan_step *step, struct err_info *info)
{
    const struct common_openai_text *options = text->options;
    int64_t room = call->model->context - prompt->ids.count;
    *step = (struct plan_step){.kind = STEP_DECODE,
        .read_row = -1,
        .position = -1,
        .tokens_max = (int32_t)(text->budget < 0 ? room : MIN(text->budget, room)),
        .tokens_min = options->min_tokens,
        .ban_end = options->ignore_eos,
        .stop_tokens = options->stop_token_ids.items,
        .stop_token_count = options->stop_token_ids.count,
        .top_logprobs = text->top_logprobs,
        .grammar = text->grammar};
    return call_stops(call, text->sampling->has_stop, &text->sampling->stop, step, info);
}

static enum err make_item(struct call *call, const struct v1_text *text,
    const struct v1_prompt *prompt, struct plan_item *item, struct err_info *info)
{
    struct plan_step *step = NULL;
    bool prefix = call->model->prompt_attention == ATTENTION_BIDIRECTIONAL;
    enum err err = call_array(call, 1, sizeof(*step), &step, info);
    if (err == ERR_OK) {
        err = make_step(call, text, prompt, step, info);
    }
    *item = (struct plan_item){.tokens = prompt->ids.ids,
        .token_count = prompt->ids.count,
        .context_count = prefix ? prompt->ids.count : 0,
        .prompt_top = text->prompt_logprobs ? text->top_logprobs : 0,
        .steps = step,
        .step_count = 1};
    return err;
}

static enum err read_sampling(struct call *call, const struct v1_text *text,
    struct sampling *out_sampling, struct err_info *info)
{
    const struct common_openai_text *options = text->options;
    enum err err = call_sampling(
        call, text->sampling, options->repetition_penalty, -1, "", out_sampling, info);
    if (err == ERR_OK && options->has_logit_bias) {
        err = call_biases(call, &options->logit_bias, out_sampling, info);
    }
    return err == ERR_OK ? call_check_ids(call, &options->stop_token_ids, "/stop_token_ids", info)
                         : err;
}

bool v1_text_constrained(const struct common_openai_text *options)
{
    return options->has_guided_choice || options->has_guided_regex ||
           (options->has_response_format &&
               options->response_format.type != COMMON_RESPONSE_FORMAT_TYPE_TEXT);
}

static enum err read_format(struct call *call, struct v1_text *text, struct err_info *info)
{
    const struct common_response_format *format = &text->options->response_format;
    if (format->type == COMMON_RESPONSE_FORMAT_TYPE_JSON_OBJECT) {
        return grammar_of_any_object(call, text->format_where, &text->grammar, info);
    }
    if (!format->has_json_schema) {
        return call_fail(
            info, ERR_INVALID, "required", text->schema_where, "json_schema comes with a schema");
    }
    return grammar_of_schema(
        call, &format->json_schema.schema, text->schema_where, &text->grammar, info);
}

/* The one form that is asked for, if any. */
static enum err read_grammar(struct call *call, struct v1_text *text, struct err_info *info)
{
    const struct common_openai_text *options = text->options;
    bool formatted = options->has_response_format &&
                     options->response_format.type != COMMON_RESPONSE_FORMAT_TYPE_TEXT;
    if (options->has_guided_choice + options->has_guided_regex + formatted > 1) {
        return call_fail(info, ERR_INVALID, NULL,
            options->has_guided_choice ? "/guided_choice" : "/guided_regex",
            "an answer has one form: of choice, expression and format give one");
    }
    if (options->has_guided_choice) {
        const struct bound_texts choices = {
            options->guided_choice.items, options->guided_choice.count};
        return grammar_of_choices(call, &choices, "/guided_choice", &text->grammar, info);
    }
    if (options->has_guided_regex) {
        return grammar_of_regex(
            call, &options->guided_regex, "/guided_regex", &text->grammar, info);
    }
    return formatted ? read_format(call, text, info) : ERR_OK;
}

enum err v1_text_plan(struct call *call, struct v1_text *text, struct err_info *info)
{
    int32_t n = text->options->n;
    struct plan_item *items = NULL;
    struct sampling sampling;
    if (!call->model->can_generate) {
        return call_fail(info, ERR_NOT_CAPABLE, NULL, NULL, "this model does not generate");
    }
    if (text->prompt_logprobs && call->model->prompt_attention == ATTENTION_BIDIRECTIONAL) {
        return call_fail(info, ERR_NOT_CAPABLE, NULL, "/echo",
            "prompts of this model see themselves both ways: nothing in them is predicted");
    }
    size_t count = (size_t)text->prompt_count * (size_t)n;
    enum err err = call_array(call, count, sizeof(*items), &items, info);
    if (err == ERR_OK) {
        err = v1_text_expect(call, text, count, info);
    }
    if (err == ERR_OK) {
        err = read_sampling(call, text, &sampling, info);
    }
    if (err == ERR_OK) {
        err = read_grammar(call, text, info);
    }
    for (int32_t p = 0; err == ERR_OK && p < text->prompt_count; p++) {
        struct plan_item item;
        err = make_item(call, text, &text->prompts[p], &item, info);
        for (int32_t k = 0; err == ERR_OK && k < n; k++) {
            item.sampling = sampling;
            item.sampling.sample_index = (uint32_t)k;
            item.prompt_logprobs = text->prompt_logprobs && k == 0; /* once a prompt is enough */
            items[p * n + k] = item;
        }
    }
    call->plan = (struct plan){.kind = KIND_GENERATE,
        .items = items,
        .item_count = (int32_t)count,
        .stream = call->stream,
        .cache_off = !text->sampling->cache_prompt};
    return err;
}

enum err v1_text_plan_chat(struct call *call, struct v1_text *text,
    const struct common_messages *messages, const char *where, struct err_info *info)
{
    text->prompt_count = 1;
    enum err err = call_array(call, 1, sizeof(*text->prompts), &text->prompts, info);
    if (err != ERR_OK) {
        return err;
    }
    struct v1_prompt *prompt = &text->prompts[0];
    prompt->text = call_text(""); /* offsets begin where the answer does */
    err = chat_ids(call, messages, true, where, &prompt->ids, info);
    if (err == ERR_OK) {
        err = call_check_prompt(call, prompt->ids.count, text->budget != 0, where, info);
    }
    return err == ERR_OK ? v1_text_plan(call, text, info) : err;
}

/* ---- answers ------------------------------------------------------------------------------- */

int32_t v1_text_choices(const struct v1_text *text, const struct job *job)
{
    return text->infill != NULL ? infill_llama_count(text->infill, job) : job->plan.item_count;
}

struct v1_tokens v1_text_answer(const struct v1_text *text, const struct job *job, int32_t index)
{
    if (text->withheld != NULL && text->withheld[index]) {
        return (struct v1_tokens){.text = "", .finish = FINISH_LENGTH, .withheld = true};
    }
    const struct step_result *step = &job->results[index].steps[0];
    struct infill_fill fill =
        text->infill != NULL ? infill_llama_fill(text->infill, job, index) : infill_fill_of(step);
    bool has_end = fill.finish == FINISH_EOS && !text->hides_end;
    int32_t probs = text->infill != NULL ? text->infill_request->llama.n_probs : text->top_logprobs;
    return (struct v1_tokens){.text = fill.text,
        .tokens = fill.tokens,
        .logprobs = fill.logprobs,
        .top = text->top_logprobs > 0 ? fill.top : NULL,
        .token_count = fill.token_count + (has_end ? 1 : 0),
        .top_stride = probs,
        .text_bytes = (int64_t)fill.text_bytes,
        .finish = fill.finish == FINISH_NONE ? FINISH_LENGTH : fill.finish,
        .has_end = has_end};
}

struct v1_tokens v1_text_prompt(const struct v1_text *text, const struct job *job, int32_t index)
{
    int32_t n = text->options->n;
    const struct v1_prompt *prompt = &text->prompts[index / n];
    const struct item_result *result = &job->results[index / n * n];
    return (struct v1_tokens){.tokens = prompt->ids.ids,
        .logprobs = result->prompt_logprobs,
        .top = text->top_logprobs > 0 ? result->prompt_top : NULL,
        .token_count = prompt->ids.count,
        .top_stride = text->top_logprobs,
        .text_bytes = prompt->text.count,
        .finish = FINISH_LENGTH,
        .is_prompt = true};
}

static const char *finish_word(const struct v1_tokens *answer)
{
    if (answer->withheld) {
        return "content_filter";
    }
    bool stopped = answer->finish == FINISH_EOS || answer->finish == FINISH_STOP_STRING;
    return stopped ? "stop" : "length";
}

/* ---- walks --------------------------------------------------------------------------------- */

struct v1_walk v1_walk_start(
    const struct call *call, const struct v1_text *text, int32_t prompt, bool of_prompt)
{
    const struct v1_prompt *before = &text->prompts[prompt];
    struct v1_walk walk = {.scratch = text->scratch};
    detokenizer_init(
        &walk.detokenizer, call->tokenizer, of_prompt && before->control_shown, !of_prompt);
    if (!of_prompt) {
        int64_t moved = text->infill != NULL && infill_llama_spaced(text->infill) ? 1 : 0;
        walk.bytes = -moved; /* the space that begins the answer is of the prompt's text */
        walk.characters =
            (int64_t)utf8_length(before->text.bytes, (size_t)before->text.count) - moved;
    }
    return walk;
}

bool v1_walk_next(struct v1_walk *walk, const struct call *call, const struct v1_tokens *tokens,
    struct v1_token *out_token)
{
    int32_t i = walk->index;
    if (i >= tokens->token_count) {
        return false;
    }
    struct v1_walk next = *walk;
    struct v1_token token = {.id = tokens->tokens[i], .offset = walk->characters};
    token.piece = tokenizer_piece(call->tokenizer, token.id, true, &token.bytes);
    if (!tokens->has_end || i + 1 < tokens->token_count) {
        size_t count = detokenizer_push(
            &next.detokenizer, token.id, next.scratch, detokenizer_bound(call->tokenizer));
        next.characters += (int64_t)utf8_length(next.scratch, count);
        next.bytes += (int64_t)count + next.detokenizer.held_count - walk->detokenizer.held_count;
    }
    if (tokens->finish == FINISH_NONE && next.bytes > tokens->text_bytes) {
        return false; /* its text is held back */
    }
    if (tokens->finish == FINISH_STOP_STRING) {
        if (walk->bytes >= tokens->text_bytes) {
            return false; /* of the stop string alone */
        }
        token.bytes = (size_t)MIN((int64_t)token.bytes, tokens->text_bytes - walk->bytes);
    }
    if (walk->detokenizer.first && token.bytes > 0 && token.piece[0] == ' ' &&
        next.bytes - walk->bytes + 1 == (int64_t)token.bytes) {
        token.piece++; /* the space SentencePiece puts before a text */
        token.bytes--;
    }
    bool known = tokens->logprobs != NULL && !(tokens->is_prompt && i == 0);
    token.logprob = known ? &tokens->logprobs[i] : NULL;
    token.top =
        known && tokens->top != NULL ? tokens->top + (size_t)i * (size_t)tokens->top_stride : NULL;
    next.index++;
    *walk = next;
    *out_token = token;
    return true;
}

void v1_write_logprob(struct json_out *out, float logprob)
{
    json_out_float(out, MAX(logprob, -9999.0f));
}

/* The members token, logprob, bytes. A token that is no whole text is one in its bytes alone. */
static void write_token(struct json_out *out, const char *piece, size_t bytes, float logprob)
{
    json_out_key(out, "token");
    json_out_bytes(out, piece, bytes);
    json_out_key(out, "logprob");
    v1_write_logprob(out, logprob);
    json_out_key(out, "bytes");
    json_out_array(out);
    for (size_t i = 0; i < bytes; i++) {
        json_out_int(out, (unsigned char)piece[i]);
    }
    json_out_end(out);
}

static void write_entry(struct json_out *out, const struct call *call, const struct v1_token *token)
{
    const struct v1_text *text = call->state;
    int32_t count = MIN(text->top_logprobs, tokenizer_vocab(call->tokenizer));
    json_out_object(out);
    write_token(out, token->piece, token->bytes, *token->logprob);
    json_out_key(out, "top_logprobs");
    json_out_array(out);
    for (int32_t i = 0; token->top != NULL && i < count; i++) {
        size_t bytes;
        const char *piece = tokenizer_piece(call->tokenizer, token->top[i].token, true, &bytes);
        json_out_object(out);
        write_token(out, piece, bytes, token->top[i].logprob);
        json_out_end(out);
    }
    json_out_end(out);
    json_out_end(out);
}

void v1_write_entries(struct json_out *out, const struct call *call, const struct v1_tokens *tokens,
    struct v1_walk *walk)
{
    struct v1_token token;
    json_out_array(out);
    while (v1_walk_next(walk, call, tokens, &token)) {
        write_entry(out, call, &token);
    }
    json_out_end(out);
}

/* ---- replies ------------------------------------------------------------------------------- */

/* A prompt counts once, however many answers it has. */
struct call_usage v1_text_usage(
    const struct call *call, const struct v1_text *text, const struct job *job)
{
    struct call_usage all = call_usage(call, job);
    struct call_usage usage = {0};
    for (int32_t p = 0; text->infill == NULL && p < text->prompt_count; p++) {
        const struct item_result *result = &job->results[p * text->options->n];
        usage.prompt += result->prompt_tokens;
        usage.cached += result->cached_tokens;
    }
    usage.generated = all.generated;
    if (text->infill != NULL) {
        usage.prompt = text->infill->prompt.count;
        usage.cached = MIN(all.cached, usage.prompt);
    }
    if (text->infill != NULL && text->infill->mode == INFILL_RERANK) {
        usage.generated = 0;
        for (int32_t i = 0; i < v1_text_choices(text, job); i++) {
            usage.generated += infill_llama_fill(text->infill, job, i).token_count;
        }
    }
    return usage;
}

/* Differs where answers may: another program, other weights, other arithmetic. */
static uint64_t fingerprint(const struct model_info *model)
{
    char text[512];
    int bytes =
        snprintf(text, sizeof(text), "%s %s %s %s %llu %llu %d", MAGNETD_VERSION, model->name,
            model->architecture, model->weights_type, (unsigned long long)model->parameters,
            (unsigned long long)model->file_bytes, model->int8_activations);
    uint64_t hash = 0xcbf29ce484222325; /* FNV-1a */
    for (int i = 0; i < bytes; i++) {
        hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3;
    }
    return hash >> 24;
}

static void write_envelope(
    struct json_out *out, const struct call *call, const struct v1_text *text, const char *object)
{
    char print[16];
    (void)snprintf(
        print, sizeof(print), "fp_%010llx", (unsigned long long)fingerprint(call->model));
    json_out_key(out, "id");
    json_out_string(out, text->id);
    json_out_key(out, "object");
    json_out_string(out, object);
    json_out_key(out, "created");
    json_out_int(out, text->created);
    json_out_key(out, "model");
    json_out_string(out, call_model_name(call));
    json_out_key(out, "system_fingerprint");
    json_out_string(out, print);
}

enum err v1_text_encode(
    struct call *call, const struct job *job, struct buf *out, struct err_info *info)
{
    const struct v1_text *text = call->state;
    enum err err = call_job_error(job, NULL, info);
    if (err != ERR_OK) {
        return err;
    }
    struct json_out json;
    struct call_usage usage = v1_text_usage(call, text, job);
    json_out_init(&json, out);
    json_out_object(&json);
    write_envelope(&json, call, text, text->shape->object);
    json_out_key(&json, "choices");
    json_out_array(&json);
    for (int32_t i = 0; i < v1_text_choices(text, job); i++) {
        struct v1_tokens tokens = v1_text_answer(text, job, i);
        struct v1_walk walk = v1_walk_start(call, text, i / text->options->n, false);
        const struct v1_choice choice = {.index = i,
            .bytes = tokens.text,
            .count = (size_t)tokens.text_bytes,
            .tokens = &tokens,
            .walk = &walk,
            .finish = finish_word(&tokens)};
        text->shape->choice(&json, call, job, &choice);
    }
    json_out_end(&json);
    json_out_key(&json, "usage");
    call_write_usage(&json, &usage);
    if (text->verdicts) {
        text->shape->more(&json, call);
    }
    json_out_end(&json);
    return call_written(&json, info);
}

/* ---- streams ------------------------------------------------------------------------------- */

/* An event with one choice; without one, with the usage or with the shape's last members. */
static enum err write_event(const struct call *call, const struct job *job, enum v1_part part,
    const struct v1_choice *choice, const struct call_usage *usage, struct buf *out)
{
    const struct v1_text *text = call->state;
    struct json_out json;
    struct err_info unused;
    if (text->shape->event != NULL) {
        return text->shape->event(call, job, part, choice, out);
    }
    sse_begin(&json, out);
    json_out_object(&json);
    write_envelope(&json, call, text, text->shape->chunk_object);
    json_out_key(&json, "choices");
    json_out_array(&json);
    if (choice != NULL) {
        text->shape->delta(&json, call, job, part, choice);
    }
    json_out_end(&json);
    if (text->options->stream_options.include_usage) {
        json_out_key(&json, "usage");
        if (usage != NULL) {
            call_write_usage(&json, usage);
        } else {
            json_out_null(&json);
        }
    }
    if (choice == NULL && usage == NULL) {
        text->shape->more(&json, call);
    }
    json_out_end(&json);
    enum err err = call_written(&json, &unused);
    sse_end(&json);
    return err;
}

/* The opening of a choice, and where its entries begin. */
static enum err open_choice(
    struct call *call, const struct job *job, int32_t index, struct buf *out)
{
    const struct v1_text *text = call->state;
    struct v1_sent *sent = &text->sent[index];
    int32_t prompt = index / text->options->n;
    struct v1_walk walk = v1_walk_start(call, text, prompt, true);
    struct v1_tokens tokens = {0};
    const struct v1_choice choice = {.index = index,
        .bytes = text->prompts[prompt].text.bytes,
        .count = (size_t)text->prompts[prompt].text.count,
        .tokens = &tokens,
        .walk = &walk};
    sent->begun = true;
    sent->walk = v1_walk_start(call, text, prompt, false);
    if (!text->opens) {
        return ERR_OK;
    }
    if (text->prompt_logprobs) {
        tokens = v1_text_prompt(text, job, index);
    }
    return write_event(call, job, V1_OPENING, &choice, NULL, out);
}

/* What is known and not out; nothing when that is neither text nor an entry. */
static enum err write_part(struct call *call, const struct job *job, int32_t index, struct buf *out)
{
    const struct v1_text *text = call->state;
    struct v1_sent *sent = &text->sent[index];
    const struct v1_tokens *known = &sent->known;
    struct v1_walk peek = sent->walk;
    struct v1_token unused;
    bool more = known->text_bytes > sent->text_bytes;
    if (!more && (text->top_logprobs < 0 || !v1_walk_next(&peek, call, known, &unused))) {
        return ERR_OK;
    }
    const struct v1_choice choice = {.index = index,
        .bytes = more ? known->text + sent->text_bytes : "",
        .count = (size_t)(known->text_bytes - sent->text_bytes),
        .tokens = known,
        .walk = &sent->walk};
    sent->text_bytes = known->text_bytes;
    return write_event(call, job, V1_PART, &choice, NULL, out);
}

static enum err end_choice(struct call *call, const struct job *job, int32_t index, struct buf *out)
{
    const struct v1_text *text = call->state;
    struct v1_sent *sent = &text->sent[index];
    const struct v1_tokens none = {0};
    const struct v1_choice choice = {.index = index,
        .bytes = "",
        .tokens = &none,
        .walk = &sent->walk,
        .finish = finish_word(&sent->known)};
    sent->ended = true;
    return write_event(call, job, V1_END, &choice, NULL, out);
}

/* All that is known of a choice and not out. */
static enum err show(
    struct call *call, const struct job *job, int32_t index, bool may_end, struct buf *out)
{
    const struct v1_text *text = call->state;
    const struct v1_sent *sent = &text->sent[index];
    enum err err = sent->begun ? ERR_OK : open_choice(call, job, index, out);
    if (err == ERR_OK) {
        err = write_part(call, job, index, out);
    }
    bool ends = may_end && sent->known.finish != FINISH_NONE && !sent->ended;
    return err == ERR_OK && ends ? end_choice(call, job, index, out) : err;
}

static struct v1_tokens known_by(
    const struct v1_text *text, const struct job *job, const struct token_event *event)
{
    const struct step_result *step = &job->results[event->item].steps[0];
    bool ended = event->last && event->finish == FINISH_EOS;
    return (struct v1_tokens){.text = step->text,
        .tokens = step->tokens,
        .logprobs = step->logprobs,
        .top = text->top_logprobs > 0 ? step->top : NULL,
        .token_count = event->index + (ended && text->hides_end ? 0 : 1),
        .top_stride = text->top_logprobs,
        .text_bytes = (int64_t)event->text_from + event->text_bytes,
        .finish = event->last ? event->finish : FINISH_NONE,
        .has_end = ended && !text->hides_end};
}

/* Beside a running engine: of the results only what was written before the event may be read. The
 * prompt's log-probabilities are those of its first answer; the others wait until that has begun,
 * for their next event or the end of the job. Frames of a route's own that end an answer tell of
 * the whole job, and wait for it. */
enum err v1_text_frame(
    struct call *call, const struct job *job, const struct token_event *event, struct buf *out)
{
    const struct v1_text *text = call->state;
    int32_t first = event->item - event->item % text->options->n;
    text->sent[event->item].known = known_by(text, job, event);
    bool waits = text->prompt_logprobs && text->sent[first].known.tokens == NULL;
    return waits ? ERR_OK : show(call, job, event->item, text->shape->event == NULL, out);
}

/* One choice a call: what is left of it to send, all of it if it was decided only now. */
enum err v1_text_frame_end(struct call *call, const struct job *job, struct buf *out)
{
    struct v1_text *text = call->state;
    call->frames_left = text->settled < v1_text_choices(text, job);
    if (call->frames_left) {
        int32_t index = text->settled++;
        text->sent[index].known = v1_text_answer(text, job, index);
        return show(call, job, index, true, out);
    }
    enum err err = text->verdicts ? write_event(call, job, V1_END, NULL, NULL, out) : ERR_OK;
    if (err == ERR_OK && text->options->stream_options.include_usage) {
        struct call_usage usage = v1_text_usage(call, text, job);
        err = write_event(call, job, V1_END, NULL, &usage, out);
    }
    if (err == ERR_OK) {
        sse_done(out);
        err = out->failed ? ERR_NO_MEMORY : ERR_OK;
    }
    return err;
}
