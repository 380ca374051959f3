/*
 * /v1/chat/completions: a chat through the model's own template, continued, in OpenAI's shape.
 *
 * What surprises: an answer's end token has no entry among the log-probabilities here, as it has on
 * /v1/completions: entries of this route add up to the content.
 */
#include "api/chat.h"
#include "api/chat_moderation.h"

/* ---- shape --------------------------------------------------------------------------------- */

static void write_logprobs(
    struct json_out *out, const struct call *call, const struct v1_choice *choice, bool wanted)
{
    json_out_key(out, "logprobs");
    if (!wanted) {
        json_out_null(out);
        return;
    }
    json_out_object(out);
    json_out_key(out, "content");
    v1_write_entries(out, call, choice->tokens, choice->walk);
    json_out_end(out);
}

static void write_choice_end(struct json_out *out, const struct v1_choice *choice)
{
    json_out_key(out, "finish_reason");
    json_out_string(out, choice->finish); /* NULL gives null */
    json_out_end(out);
}

static void write_choice(struct json_out *out, const struct call *call, const struct job *job,
    const struct v1_choice *choice)
{
    const struct v1_text *text = call->state;
    (void)job;
    json_out_object(out);
    json_out_key(out, "index");
    json_out_int(out, choice->index);
    json_out_key(out, "message");
    json_out_object(out);
    json_out_key(out, "role");
    json_out_string(out, "assistant");
    json_out_key(out, "content");
    json_out_bytes(out, choice->bytes, choice->count);
    json_out_key(out, "refusal");
    json_out_null(out);
    json_out_end(out);
    write_logprobs(out, call, choice, text->top_logprobs >= 0);
    write_choice_end(out, choice);
}

static void write_delta(struct json_out *out, const struct call *call, const struct job *job,
    enum v1_part part, const struct v1_choice *choice)
{
    const struct v1_text *text = call->state;
    (void)job;
    json_out_object(out);
    json_out_key(out, "index");
    json_out_int(out, choice->index);
    json_out_key(out, "delta");
    json_out_object(out);
    if (part == V1_OPENING) {
        json_out_key(out, "role");
        json_out_string(out, "assistant");
    }
    if (part != V1_END) {
        json_out_key(out, "content");
        json_out_bytes(out, choice->bytes, part == V1_OPENING ? 0 : choice->count);
    }
    json_out_end(out);
    write_logprobs(out, call, choice, part == V1_PART && text->top_logprobs >= 0);
    write_choice_end(out, choice);
}

static const struct v1_shape SHAPE = {.id_prefix = "chatcmpl-",
    .object = "chat.completion",
    .chunk_object = "chat.completion.chunk",
    .choice = write_choice,
    .delta = write_delta,
    .more = chat_moderation_write};

/* ---- the endpoint -------------------------------------------------------------------------- */

static enum err v1_chat_decode(
    struct call *call, const char *body, size_t bytes, struct err_info *info)
{
    struct chat_notes *notes = NULL;
    enum err err = call_decode_with(
        call, &schema_v1_chat_completions_request, body, bytes, sizeof(*notes), &notes, info);
    if (err != ERR_OK) {
        return err;
    }
    const struct v1_chat_completions_request *request = call->request;
    const struct common_openai_text *options = &request->openai_text;
    notes->text = (struct v1_text){.shape = &SHAPE,
        .options = options,
        .format_where = "/response_format",
        .schema_where = "/response_format/json_schema/schema",
        .sampling = &request->sampling,
        .budget = options->has_max_completion_tokens ? options->max_completion_tokens
                  : options->has_max_tokens          ? options->max_tokens
                                                     : -1,
        .top_logprobs = request->logprobs ? request->top_logprobs : -1,
        .opens = true,
        .hides_end = true};
    if (request->top_logprobs > 0 && !request->logprobs) {
        return call_fail(
            info, ERR_INVALID, NULL, "/top_logprobs", "alternatives go with logprobs: true");
    }
    err = call_basics(call, &request->basics, info);
    return err == ERR_OK ? v1_text_init(call, &notes->text, info) : err;
}

static enum err v1_chat_plan(struct call *call, struct err_info *info)
{
    const struct v1_chat_completions_request *request = call->request;
    enum err err = v1_text_plan_chat(call, call->state, &request->messages, "/messages", info);
    return err == ERR_OK && request->has_moderation ? chat_moderation_plan(call, info) : err;
}

/* The job of the answers: of a moderated chat, others came after it. */
static const struct job *answers_of(const struct call *call, const struct job *job)
{
    const struct chat_notes *notes = call->state;
    return notes->kept != NULL ? notes->kept : job;
}

static enum err v1_chat_encode(
    struct call *call, const struct job *job, struct buf *out, struct err_info *info)
{
    return v1_text_encode(call, answers_of(call, job), out, info);
}

static enum err v1_chat_frame_end(struct call *call, const struct job *job, struct buf *out)
{
    return v1_text_frame_end(call, answers_of(call, job), out);
}

enum err endpoint_v1_chat_input_tokens(
    struct call *call, const char *body, size_t bytes, struct buf *out, struct err_info *info)
{
    enum err err = v1_chat_decode(call, body, bytes, info);
    if (err != ERR_OK) {
        return err;
    }
    const struct v1_chat_completions_request *request = call->request;
    return chat_count(call, &request->messages, "/messages", out, info);
}

const struct endpoint endpoint_v1_chat = {.name = "v1_chat",
    .kind = KIND_GENERATE,
    .family = FAMILY_OPENAI,
    .decode = v1_chat_decode,
    .plan = v1_chat_plan,
    .more = chat_moderation_more,
    .encode = v1_chat_encode,
    .frame = v1_text_frame,
    .frame_end = v1_chat_frame_end};
