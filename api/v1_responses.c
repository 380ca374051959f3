/*
 * /v1/responses: one answer in OpenAI's newer shape. Nothing is stored, so what refers to earlier
 * answers is refused; a client sends the chat whole.
 *
 * What surprises: a stream tells everything twice, an addition and an end for each layer (response,
 * item, part), with the whole response in the first events and the last. Log-probabilities come
 * once, with their text.
 */
#include "api/v1_text.h"

#include "api/chat.h"
#include "api/sse.h"

struct responses_notes {
    struct v1_text text; /* first: call->state is read as either */
    const char *item_id;
    int64_t sequence; /* of events */
};

/* ---- decode -------------------------------------------------------------------------------- */

static const struct v1_shape SHAPE;

static enum err v1_responses_decode(
    struct call *call, const char *body, size_t bytes, struct err_info *info)
{
    struct responses_notes *notes = NULL;
    struct common_openai_text *options = NULL;
    enum err err = call_decode_with(
        call, &schema_v1_responses_request, body, bytes, sizeof(*notes), &notes, info);
    if (err == ERR_OK) {
        err = call_array(call, 1, sizeof(*options), &options, info);
    }
    if (err == ERR_OK) {
        err = call_new_id(call, "msg_", &notes->item_id, info);
    }
    if (err != ERR_OK) {
        return err;
    }
    const struct v1_responses_request *request = call->request;
    bool logprobs = request->include.count > 0;
    *options =
        (struct common_openai_text){.n = 1, .stream = request->stream, .repetition_penalty = 1};
    if (request->has_text && request->text.has_format) {
        const struct v1_responses_request_text_format *format = &request->text.format;
        options->has_response_format = true;
        options->response_format = (struct common_response_format){
            .type = (enum common_response_format_type)format->type, /* the same three words */
            .has_json_schema = format->has_schema,
            .json_schema = {.schema = format->schema}};
    }
    notes->text = (struct v1_text){.shape = &SHAPE,
        .options = options,
        .format_where = "/text/format",
        .schema_where = "/text/format/schema",
        .sampling = &request->sampling,
        .budget = request->has_max_output_tokens ? request->max_output_tokens : -1,
        .top_logprobs = logprobs ? request->top_logprobs : -1,
        .opens = true,
        .hides_end = true};
    if (request->top_logprobs > 0 && !logprobs) {
        return call_fail(info, ERR_INVALID, NULL, "/top_logprobs",
            "alternatives go with include: message.output_text.logprobs");
    }
    err = call_basics(call, &request->basics, info);
    return err == ERR_OK ? v1_text_init(call, &notes->text, info) : err;
}

/* ---- plan ---------------------------------------------------------------------------------- */

static struct common_message text_message(
    enum common_message_role role, const struct bound_text *text)
{
    return (struct common_message){
        .role = role, .content = {.form = COMMON_MESSAGE_CONTENT_TEXT, .text = *text}};
}

/* A message of this route as one of a chat. */
static enum err read_message(struct call *call, const struct v1_responses_request_message *given,
    struct common_message *out_message, struct err_info *info)
{
    static const enum common_message_role roles[] = {
        [V1_RESPONSES_REQUEST_MESSAGE_ROLE_SYSTEM] = COMMON_MESSAGE_ROLE_SYSTEM,
        [V1_RESPONSES_REQUEST_MESSAGE_ROLE_DEVELOPER] = COMMON_MESSAGE_ROLE_DEVELOPER,
        [V1_RESPONSES_REQUEST_MESSAGE_ROLE_USER] = COMMON_MESSAGE_ROLE_USER,
        [V1_RESPONSES_REQUEST_MESSAGE_ROLE_ASSISTANT] = COMMON_MESSAGE_ROLE_ASSISTANT,
    };
    if (given->content.form == V1_RESPONSES_REQUEST_MESSAGE_CONTENT_TEXT) {
        *out_message = text_message(roles[given->role], &given->content.text);
        return ERR_OK;
    }
    struct common_text_part *parts = NULL;
    int32_t count = given->content.parts.count;
    enum err err = call_array(call, (size_t)count, sizeof(*parts), &parts, info);
    for (int32_t i = 0; err == ERR_OK && i < count; i++) {
        parts[i].text = given->content.parts.items[i].text;
    }
    *out_message = (struct common_message){.role = roles[given->role],
        .content = {.form = COMMON_MESSAGE_CONTENT_PARTS, .parts = {parts, count}}};
    return err;
}

static enum err read_chat(
    struct call *call, struct common_messages *out_messages, struct err_info *info)
{
    const struct v1_responses_request *request = call->request;
    struct common_message *messages = NULL;
    bool list = request->input.form == V1_RESPONSES_REQUEST_INPUT_MESSAGES;
    int32_t given = list ? request->input.messages.count : 1;
    int32_t count = 0;
    enum err err = call_array(call, (size_t)given + 1, sizeof(*messages), &messages, info);
    if (err != ERR_OK) {
        return err;
    }
    if (request->has_instructions) {
        messages[count++] = text_message(COMMON_MESSAGE_ROLE_SYSTEM, &request->instructions);
    }
    if (!list) {
        messages[count++] = text_message(COMMON_MESSAGE_ROLE_USER, &request->input.text);
    }
    for (int32_t i = 0; list && err == ERR_OK && i < given; i++) {
        err = read_message(call, &request->input.messages.items[i], &messages[count++], info);
    }
    *out_messages = (struct common_messages){messages, count};
    return err;
}

static enum err v1_responses_plan(struct call *call, struct err_info *info)
{
    struct v1_text *text = call->state;
    struct common_messages messages;
    enum err err = read_chat(call, &messages, info);
    return err == ERR_OK ? v1_text_plan_chat(call, text, &messages, "/input", info) : err;
}

enum err endpoint_v1_responses_input_tokens(
    struct call *call, const char *body, size_t bytes, struct buf *out, struct err_info *info)
{
    struct common_messages messages;
    enum err err = v1_responses_decode(call, body, bytes, info);
    if (err == ERR_OK) {
        err = read_chat(call, &messages, info);
    }
    return err == ERR_OK ? chat_count(call, &messages, "/input", out, info) : err;
}

/* ---- the response -------------------------------------------------------------------------- */

enum state { IN_PROGRESS, COMPLETED, INCOMPLETE };

static const char *const STATES[] = {"in_progress", "completed", "incomplete"};

/* What is known of the answer: nothing yet, or all of it. */
struct answer {
    enum state state;
    const char *bytes;
    struct v1_tokens tokens;
};

static struct answer answer_of(const struct call *call, const struct job *job)
{
    struct answer answer;
    answer.tokens = v1_text_answer(call->state, job, 0);
    answer.bytes = answer.tokens.text;
    bool ended = answer.tokens.finish == FINISH_EOS || answer.tokens.finish == FINISH_STOP_STRING;
    answer.state = ended ? COMPLETED : INCOMPLETE;
    return answer;
}

static void member(struct json_out *out, const char *key, const char *text)
{
    json_out_key(out, key);
    json_out_string(out, text); /* NULL is null */
}

/* Of a whole reply. In a stream they came with their text, and are too many to say four times. */
static void write_entries(
    struct json_out *out, const struct call *call, const struct v1_tokens *tokens)
{
    const struct v1_text *text = call->state;
    struct v1_walk walk = v1_walk_start(call, text, 0, false);
    static const struct v1_tokens none = {0};
    bool wanted = text->top_logprobs >= 0 && !call->stream;
    v1_write_entries(out, call, wanted ? tokens : &none, &walk);
}

static void write_part(struct json_out *out, const struct call *call, const struct answer *answer)
{
    json_out_object(out);
    member(out, "type", "output_text");
    json_out_key(out, "text");
    json_out_bytes(out, answer->bytes, (size_t)answer->tokens.text_bytes);
    json_out_key(out, "annotations");
    json_out_array(out);
    json_out_end(out);
    json_out_key(out, "logprobs");
    write_entries(out, call, &answer->tokens);
    json_out_end(out);
}

static void write_item(struct json_out *out, const struct call *call, const struct answer *answer)
{
    const struct responses_notes *notes = call->state;
    json_out_object(out);
    member(out, "type", "message");
    member(out, "id", notes->item_id);
    member(out, "status", STATES[answer->state]);
    member(out, "role", "assistant");
    json_out_key(out, "content");
    json_out_array(out);
    if (answer->state != IN_PROGRESS) {
        write_part(out, call, answer);
    }
    json_out_end(out);
    json_out_end(out);
}

static void write_count(struct json_out *out, const char *group, const char *key, int64_t count)
{
    json_out_key(out, group);
    json_out_object(out);
    json_out_key(out, key);
    json_out_int(out, count);
    json_out_end(out);
}

static void write_usage(struct json_out *out, const struct call *call, const struct job *job)
{
    struct call_usage usage = v1_text_usage(call, call->state, job);
    json_out_object(out);
    json_out_key(out, "input_tokens");
    json_out_int(out, usage.prompt);
    write_count(out, "input_tokens_details", "cached_tokens", usage.cached);
    json_out_key(out, "output_tokens");
    json_out_int(out, usage.generated);
    write_count(out, "output_tokens_details", "reasoning_tokens", 0);
    json_out_key(out, "total_tokens");
    json_out_int(out, usage.prompt + usage.generated);
    json_out_end(out);
}

static const char *format_word(const struct common_openai_text *options)
{
    static const char *const words[] = {[COMMON_RESPONSE_FORMAT_TYPE_TEXT] = "text",
        [COMMON_RESPONSE_FORMAT_TYPE_JSON_OBJECT] = "json_object",
        [COMMON_RESPONSE_FORMAT_TYPE_JSON_SCHEMA] = "json_schema"};
    return options->has_response_format ? words[options->response_format.type] : words[0];
}

/* What the request said, as it was understood. */
static void write_settings(struct json_out *out, const struct call *call)
{
    const struct v1_responses_request *request = call->request;
    const struct v1_text *text = call->state;
    member(out, "instructions", request->has_instructions ? request->instructions.bytes : NULL);
    json_out_key(out, "max_output_tokens");
    if (request->has_max_output_tokens) {
        json_out_int(out, request->max_output_tokens);
    } else {
        json_out_null(out);
    }
    json_out_key(out, "parallel_tool_calls");
    json_out_bool(out, false);
    member(out, "previous_response_id", NULL);
    json_out_key(out, "store");
    json_out_bool(out, false);
    json_out_key(out, "temperature");
    json_out_double(out, request->sampling.temperature);
    json_out_key(out, "top_p");
    json_out_double(out, request->sampling.top_p);
    json_out_key(out, "text");
    json_out_object(out);
    json_out_key(out, "format");
    json_out_object(out);
    member(out, "type", format_word(text->options));
    json_out_end(out);
    json_out_end(out);
    member(out, "tool_choice", "none");
    json_out_key(out, "tools");
    json_out_array(out);
    json_out_end(out);
    member(out, "truncation", "disabled");
    json_out_key(out, "metadata");
    json_out_object(out);
    json_out_end(out);
}

static void write_response(struct json_out *out, const struct call *call, const struct job *job,
    const struct answer *answer)
{
    const struct v1_text *text = call->state;
    json_out_object(out);
    member(out, "id", text->id);
    member(out, "object", "response");
    json_out_key(out, "created_at");
    json_out_int(out, text->created);
    member(out, "status", STATES[answer->state]);
    member(out, "error", NULL);
    json_out_key(out, "incomplete_details");
    if (answer->state == INCOMPLETE) {
        json_out_object(out);
        member(out, "reason", "max_output_tokens");
        json_out_end(out);
    } else {
        json_out_null(out);
    }
    member(out, "model", call_model_name(call));
    json_out_key(out, "output");
    json_out_array(out);
    if (answer->state != IN_PROGRESS) {
        write_item(out, call, answer);
    }
    json_out_end(out);
    write_settings(out, call);
    json_out_key(out, "usage");
    if (answer->state != IN_PROGRESS) {
        write_usage(out, call, job);
    } else {
        json_out_null(out);
    }
    json_out_end(out);
}

static enum err v1_responses_encode(
    struct call *call, const struct job *job, struct buf *out, struct err_info *info)
{
    enum err err = call_job_error(job, NULL, info);
    if (err != ERR_OK) {
        return err;
    }
    struct json_out json;
    struct answer answer = answer_of(call, job);
    json_out_init(&json, out);
    write_response(&json, call, job, &answer);
    return call_written(&json, info);
}

/* ---- events -------------------------------------------------------------------------------- */

static void begin(struct json_out *out, struct buf *buf, const struct call *call, const char *type)
{
    struct responses_notes *notes = call->state;
    sse_begin(out, buf);
    json_out_object(out);
    member(out, "type", type);
    json_out_key(out, "sequence_number");
    json_out_int(out, notes->sequence++);
}

static void begin_in_item(
    struct json_out *out, struct buf *buf, const struct call *call, const char *type)
{
    const struct responses_notes *notes = call->state;
    begin(out, buf, call, type);
    member(out, "item_id", notes->item_id);
    json_out_key(out, "output_index");
    json_out_int(out, 0);
    json_out_key(out, "content_index");
    json_out_int(out, 0);
}

static enum err end(struct json_out *out)
{
    struct err_info unused;
    json_out_end(out);
    enum err err = call_written(out, &unused);
    sse_end(out);
    return err;
}

static enum err response_event(const struct call *call, const struct job *job,
    const struct answer *answer, const char *type, struct buf *out)
{
    struct json_out json;
    begin(&json, out, call, type);
    json_out_key(&json, "response");
    write_response(&json, call, job, answer);
    return end(&json);
}

static enum err item_event(
    const struct call *call, const struct answer *answer, const char *type, struct buf *out)
{
    struct json_out json;
    begin(&json, out, call, type);
    json_out_key(&json, "output_index");
    json_out_int(&json, 0);
    json_out_key(&json, "item");
    write_item(&json, call, answer);
    return end(&json);
}

static enum err part_event(
    const struct call *call, const struct answer *answer, const char *type, struct buf *out)
{
    struct json_out json;
    begin_in_item(&json, out, call, type);
    json_out_key(&json, "part");
    write_part(&json, call, answer);
    return end(&json);
}

static enum err delta_event(
    const struct call *call, const struct v1_choice *choice, struct buf *out)
{
    const struct v1_text *text = call->state;
    static const struct v1_tokens none = {0};
    struct json_out json;
    begin_in_item(&json, out, call, "response.output_text.delta");
    json_out_key(&json, "delta");
    json_out_bytes(&json, choice->bytes, choice->count);
    json_out_key(&json, "logprobs");
    v1_write_entries(&json, call, text->top_logprobs >= 0 ? choice->tokens : &none, choice->walk);
    return end(&json);
}

static enum err done_event(const struct call *call, const struct answer *answer, struct buf *out)
{
    struct json_out json;
    begin_in_item(&json, out, call, "response.output_text.done");
    json_out_key(&json, "text");
    json_out_bytes(&json, answer->bytes, (size_t)answer->tokens.text_bytes);
    json_out_key(&json, "logprobs");
    write_entries(&json, call, &answer->tokens);
    return end(&json);
}

static enum err opening(const struct call *call, const struct job *job, struct buf *out)
{
    const struct answer none = {.state = IN_PROGRESS, .bytes = ""};
    enum err err = response_event(call, job, &none, "response.created", out);
    if (err == ERR_OK) {
        err = response_event(call, job, &none, "response.in_progress", out);
    }
    if (err == ERR_OK) {
        err = item_event(call, &none, "response.output_item.added", out);
    }
    return err == ERR_OK ? part_event(call, &none, "response.content_part.added", out) : err;
}

static enum err ending(const struct call *call, const struct job *job, struct buf *out)
{
    const struct answer answer = answer_of(call, job);
    bool completed = answer.state == COMPLETED;
    enum err err = done_event(call, &answer, out);
    if (err == ERR_OK) {
        err = part_event(call, &answer, "response.content_part.done", out);
    }
    if (err == ERR_OK) {
        err = item_event(call, &answer, "response.output_item.done", out);
    }
    return err == ERR_OK ? response_event(call, job, &answer,
                               completed ? "response.completed" : "response.incomplete", out)
                         : err;
}

static enum err event(const struct call *call, const struct job *job, enum v1_part part,
    const struct v1_choice *choice, struct buf *out)
{
    switch (part) {
    case V1_OPENING:
        return opening(call, job, out);
    case V1_PART:
        return delta_event(call, choice, out);
    case V1_END:
        break;
    }
    return ending(call, job, out);
}

static const struct v1_shape SHAPE = {.id_prefix = "resp_", .event = event};

const struct endpoint endpoint_v1_responses = {.name = "v1_responses",
    .kind = KIND_GENERATE,
    .family = FAMILY_OPENAI,
    .decode = v1_responses_decode,
    .plan = v1_responses_plan,
    .encode = v1_responses_encode,
    .frame = v1_text_frame,
    .frame_end = v1_text_frame_end};
