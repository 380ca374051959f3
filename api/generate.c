/*
 * /generate and /generate_stream: a prompt, then tokens until it ends.
 *
 * What surprises: the last frame of a stream carries the whole text and its details, which are
 * complete only when the job is; so the frame of the last token waits for the end of the job.
 */
#include "api/call.h"

#include <stdlib.h>
#include <string.h>
#include "api/grammar.h"
#include "api/prompt.h"
#include "api/sse.h"
#include "engine/base/assert.h"
#include "engine/base/utf8.h"

struct generate_notes {
    const struct generate_request *request;
    struct call_ids prompt;
    bool shows_seed; /* a random number was used, or the client named one */
    bool has_last;
    struct token_event last; /* of a stream: kept for the closing frame */
};

/* ---- decode -------------------------------------------------------------------------------- */

static enum err generate_decode_as(
    struct call *call, const char *body, size_t bytes, bool stream, struct err_info *info)
{
    struct generate_notes *notes = NULL;
    enum err err = call_decode(call, &schema_generate_request, body, bytes, info);
    if (err != ERR_OK) {
        return err;
    }
    const struct generate_request *request = call->request;
    call->stream = stream || request->stream;
    if (call->stream && request->parameters.decoder_input_details) {
        return call_fail(info, ERR_INVALID, NULL, "/parameters/decoder_input_details",
            "prompt details are not part of a stream");
    }
    err = call_basics(call, &request->basics, info);
    if (err == ERR_OK) {
        err = call_array(call, 1, sizeof(*notes), &notes, info);
    }
    if (err == ERR_OK) {
        notes->request = request;
        call->state = notes;
    }
    return err;
}

static enum err generate_decode(
    struct call *call, const char *body, size_t bytes, struct err_info *info)
{
    return generate_decode_as(call, body, bytes, false, info);
}

static enum err generate_stream_decode(
    struct call *call, const char *body, size_t bytes, struct err_info *info)
{
    return generate_decode_as(call, body, bytes, true, info);
}

/* ---- plan ---------------------------------------------------------------------------------- */

/* The prompt's ids: BOS where the vocabulary wants one and the text does not spell it itself. An
 * EOS that the vocabulary would add does not belong before a continuation. */
static enum err read_prompt(struct call *call, struct generate_notes *notes, struct err_info *info)
{
    const struct generate_request_parameters *parameters = &notes->request->parameters;
    const struct prompt_part part = {notes->request->inputs, parameters->parse_special};
    struct call_ids *ids = &notes->prompt;
    enum err err = prompt_render(call, &part, 1, "/inputs", ids, info);
    if (err != ERR_OK) {
        return err;
    }
    if (ids->count == 0) {
        return call_fail(info, ERR_EMPTY, NULL, "/inputs", "the prompt is empty");
    }
    if (parameters->has_truncate && ids->count > parameters->truncate) {
        ids->ids += ids->count - parameters->truncate;
        ids->count = parameters->truncate;
    }
    return call_check_prompt(call, ids->count, true, "/inputs", info);
}

/* Greedy unless something asks for chance. */
static bool is_greedy(const struct generate_request_parameters *parameters)
{
    const struct common_sampling *sampling = &parameters->sampling;
    bool asks = parameters->do_sample || sampling->temperature != 1 || sampling->has_top_k ||
                sampling->has_top_p || sampling->has_typical_p;
    return !asks || sampling->temperature == 0;
}

static enum err read_grammar(struct call *call,
    const struct generate_request_parameters *parameters, const struct grammar **out_grammar,
    struct err_info *info)
{
    static const char where[] = "/parameters/grammar/value";
    const struct generate_request_parameters_grammar *grammar = &parameters->grammar;
    bool schema = grammar->type == GENERATE_REQUEST_PARAMETERS_GRAMMAR_TYPE_JSON;
    if (schema != (grammar->value.form == GENERATE_REQUEST_PARAMETERS_GRAMMAR_VALUE_SCHEMA)) {
        return call_fail(info, ERR_INVALID, NULL, where,
            "must be a string for an expression, an object for a schema");
    }
    return schema ? grammar_of_schema(call, &grammar->value.schema, where, out_grammar, info)
                  : grammar_of_regex(call, &grammar->value.regex, where, out_grammar, info);
}

static enum err make_step(struct call *call, const struct generate_notes *notes,
    struct plan_step *step, struct err_info *info)
{
    const struct generate_request_parameters *parameters = &notes->request->parameters;
    int64_t room = call->model->context - notes->prompt.count;
    bool details = parameters->details || call->stream;
    *step = (struct plan_step){.kind = STEP_DECODE,
        .read_row = -1,
        .position = -1,
        .tokens_max = (int32_t)MIN(parameters->max_new_tokens, room),
        .top_logprobs = details ? parameters->top_n_tokens : -1};
    enum err err =
        call_stops(call, parameters->sampling.has_stop, &parameters->sampling.stop, step, info);
    return err == ERR_OK && parameters->has_grammar
               ? read_grammar(call, parameters, &step->grammar, info)
               : err;
}

static enum err generate_plan(struct call *call, struct err_info *info)
{
    struct generate_notes *notes = call->state;
    const struct generate_request_parameters *parameters = &notes->request->parameters;
    struct plan_item *item = NULL;
    struct plan_step *step = NULL;
    if (!call->model->can_generate) {
        return call_fail(info, ERR_NOT_CAPABLE, NULL, NULL, "this model does not generate");
    }
    enum err err = read_prompt(call, notes, info);
    if (err == ERR_OK) {
        err = call_array(call, 1, sizeof(*item), &item, info);
    }
    if (err == ERR_OK) {
        err = call_array(call, 1, sizeof(*step), &step, info);
    }
    if (err == ERR_OK) {
        err = make_step(call, notes, step, info);
    }
    if (err != ERR_OK) {
        return err;
    }
    bool prefix = call->model->prompt_attention == ATTENTION_BIDIRECTIONAL;
    *item = (struct plan_item){.tokens = notes->prompt.ids,
        .token_count = notes->prompt.count,
        .context_count = prefix ? notes->prompt.count : 0,
        .prompt_logprobs = parameters->decoder_input_details && !prefix,
        .steps = step,
        .step_count = 1};
    err = call_sampling(call, &parameters->sampling, parameters->repetition_penalty, -1,
        "/parameters", &item->sampling, info);
    if (is_greedy(parameters)) {
        item->sampling.temperature = 0;
    }
    notes->shows_seed = item->sampling.temperature > 0 || parameters->sampling.seed != -1;
    call->characters =
        (int64_t)utf8_length(notes->request->inputs.bytes, (size_t)notes->request->inputs.count);
    call->plan = (struct plan){.kind = KIND_GENERATE,
        .items = item,
        .item_count = 1,
        .stream = call->stream,
        .cache_off = !parameters->sampling.cache_prompt};
    return err;
}

/* ---- encode -------------------------------------------------------------------------------- */

static const char *finish_word(enum finish finish)
{
    switch (finish) {
    case FINISH_EOS:
        return "eos_token";
    case FINISH_STOP_STRING:
        return "stop_sequence";
    case FINISH_LENGTH:
    case FINISH_NONE:
    case FINISH_CANCELLED:
    case FINISH_TIMEOUT:
    case FINISH_ERROR:
        break;
    }
    return "length";
}

/* {"id":..., "text":..., "logprob":..., "special":...} */
static void write_token(struct json_out *out, const struct call *call, int32_t token,
    const char *text, int32_t bytes, const float *logprob)
{
    json_out_object(out);
    json_out_key(out, "id");
    json_out_int(out, token);
    json_out_key(out, "text");
    json_out_bytes(out, text, (size_t)bytes);
    json_out_key(out, "logprob");
    if (logprob != NULL) {
        json_out_float(out, *logprob);
    } else {
        json_out_null(out);
    }
    json_out_key(out, "special");
    json_out_bool(out, tokenizer_is_control(call->tokenizer, token));
    json_out_end(out);
}

/* A token by its own spelling: alternatives and prompt tokens were never released as text. */
static void write_piece(
    struct json_out *out, const struct call *call, int32_t token, const float *logprob)
{
    size_t bytes;
    const char *piece = tokenizer_piece(call->tokenizer, token, true, &bytes);
    write_token(out, call, token, piece, (int32_t)bytes, logprob);
}

static void write_prefill(
    struct json_out *out, const struct call *call, const struct item_result *result)
{
    const struct generate_notes *notes = call->state;
    json_out_key(out, "prefill");
    json_out_array(out);
    if (notes->request->parameters.decoder_input_details) {
        for (int32_t i = 0; i < notes->prompt.count; i++) {
            bool scored = i > 0 && result->prompt_logprobs != NULL;
            write_piece(
                out, call, notes->prompt.ids[i], scored ? &result->prompt_logprobs[i] : NULL);
        }
    }
    json_out_end(out);
}

static void write_top(struct json_out *out, const struct call *call, const struct step_result *step,
    int32_t index, int32_t wanted)
{
    int32_t count = MIN(wanted, tokenizer_vocab(call->tokenizer));
    json_out_array(out);
    for (int32_t k = 0; k < count; k++) {
        const struct token_logprob *top = &step->top[(size_t)index * (size_t)wanted + (size_t)k];
        write_piece(out, call, top->token, &top->logprob);
    }
    json_out_end(out);
}

static void write_tokens(
    struct json_out *out, const struct call *call, const struct step_result *step)
{
    const struct generate_notes *notes = call->state;
    int32_t wanted = notes->request->parameters.top_n_tokens;
    json_out_key(out, "tokens");
    json_out_array(out);
    for (int32_t i = 0; i < step->token_count; i++) {
        int32_t from = i > 0 ? step->text_ends[i - 1] : 0;
        write_token(out, call, step->tokens[i], step->text + from, step->text_ends[i] - from,
            &step->logprobs[i]);
    }
    json_out_end(out);
    if (wanted > 0) {
        json_out_key(out, "top_tokens");
        json_out_array(out);
        for (int32_t i = 0; i < step->token_count; i++) {
            write_top(out, call, step, i, wanted);
        }
        json_out_end(out);
    }
}

static void write_details(
    struct json_out *out, const struct call *call, const struct job *job, bool lists)
{
    const struct generate_notes *notes = call->state;
    const struct step_result *step = &job->results[0].steps[0];
    json_out_object(out);
    json_out_key(out, "finish_reason");
    json_out_string(out, finish_word(step->finish));
    json_out_key(out, "generated_tokens");
    json_out_int(out, step->token_count);
    json_out_key(out, "seed");
    if (notes->shows_seed) {
        json_out_int(out, (int64_t)call->plan.items[0].sampling.seed);
    } else {
        json_out_null(out);
    }
    if (lists) {
        write_prefill(out, call, &job->results[0]);
        write_tokens(out, call, step);
    }
    json_out_end(out);
}

static void write_text(struct json_out *out, const struct call *call, const struct job *job)
{
    const struct generate_notes *notes = call->state;
    const struct step_result *step = &job->results[0].steps[0];
    if (!notes->request->parameters.return_full_text) {
        json_out_bytes(out, step->text, (size_t)step->text_bytes);
        return;
    }
    call_write_joined(
        out, notes->request->inputs, (struct bound_text){step->text, step->text_bytes});
}

static enum err generate_encode(
    struct call *call, const struct job *job, struct buf *out, struct err_info *info)
{
    const struct generate_notes *notes = call->state;
    enum err err = call_job_error(job, NULL, info);
    if (err != ERR_OK) {
        return err;
    }
    struct json_out json;
    json_out_init(&json, out);
    json_out_object(&json);
    json_out_key(&json, "generated_text");
    write_text(&json, call, job);
    if (notes->request->parameters.details) {
        json_out_key(&json, "details");
        write_details(&json, call, job, true);
    }
    json_out_end(&json);
    return call_written(&json, info);
}

/* ---- stream -------------------------------------------------------------------------------- */

/* Beside a running engine: of the result only what was written before the event may be read. */
static enum err write_frame(struct call *call, const struct job *job,
    const struct token_event *event, bool last, struct buf *out)
{
    const struct generate_notes *notes = call->state;
    const struct step_result *step = &job->results[0].steps[0];
    struct json_out json;
    sse_begin(&json, out);
    json_out_object(&json);
    json_out_key(&json, "index");
    json_out_int(&json, event != NULL ? event->index + 1 : 0);
    json_out_key(&json, "token");
    if (event != NULL) {
        write_token(&json, call, event->token, step->text + event->text_from, event->text_bytes,
            &event->logprob);
    } else {
        json_out_null(&json);
    }
    int32_t wanted = notes->request->parameters.top_n_tokens;
    if (event != NULL && wanted > 0) {
        json_out_key(&json, "top_tokens");
        write_top(&json, call, step, event->index, wanted);
    }
    json_out_key(&json, "generated_text");
    if (last) {
        write_text(&json, call, job);
    } else {
        json_out_null(&json);
    }
    json_out_key(&json, "details");
    if (last) {
        write_details(&json, call, job, false);
    } else {
        json_out_null(&json);
    }
    json_out_end(&json);
    struct err_info unused;
    enum err err = call_written(&json, &unused);
    sse_end(&json);
    return err;
}

static enum err generate_frame(
    struct call *call, const struct job *job, const struct token_event *event, struct buf *out)
{
    struct generate_notes *notes = call->state;
    if (event->last) {
        notes->last = *event;
        notes->has_last = true;
        return ERR_OK;
    }
    return write_frame(call, job, event, false, out);
}

static enum err generate_frame_end(struct call *call, const struct job *job, struct buf *out)
{
    const struct generate_notes *notes = call->state;
    return write_frame(call, job, notes->has_last ? &notes->last : NULL, true, out);
}

const struct endpoint endpoint_generate = {.name = "generate",
    .kind = KIND_GENERATE,
    .family = FAMILY_TEI,
    .decode = generate_decode,
    .plan = generate_plan,
    .encode = generate_encode,
    .frame = generate_frame,
    .frame_end = generate_frame_end};

const struct endpoint endpoint_generate_stream = {.name = "generate_stream",
    .kind = KIND_GENERATE,
    .family = FAMILY_TEI,
    .decode = generate_stream_decode,
    .plan = generate_plan,
    .encode = generate_encode,
    .frame = generate_frame,
    .frame_end = generate_frame_end};
