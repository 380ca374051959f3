/*
 * /v1/moderations: verdicts about prompts in OpenAI's shape.
 *
 * What surprises: the 13 categories are always there, since its clients read them by name, but none
 * is ever true: the template asks whether a text is harmful and not in which way. What is known is
 * `probability`, and `flagged` follows from it.
 */
#include "api/moderation.h"

#include <stdio.h>

/* ---- decode -------------------------------------------------------------------------------- */

static enum err v1_moderations_decode(
    struct call *call, const char *body, size_t bytes, struct err_info *info)
{
    enum err err = call_decode(call, &schema_v1_moderations_request, body, bytes, info);
    if (err != ERR_OK) {
        return err;
    }
    struct v1_moderations_request *request = call->request;
    if (moderation_is_alias(&request->basics.model)) {
        request->basics.model = call_text("");
    }
    return call_basics(call, &request->basics, info);
}

/* ---- plan ---------------------------------------------------------------------------------- */

/* The parts of one message are one case. */
static enum err join_parts(
    struct call *call, struct moderation_case *out_case, struct err_info *info)
{
    const struct v1_moderations_request *request = call->request;
    int32_t count = request->input.parts.count;
    struct bound_text *texts = NULL;
    enum err err = call_array(call, (size_t)count, sizeof(*texts), &texts, info);
    for (int32_t i = 0; err == ERR_OK && i < count; i++) {
        const struct v1_moderations_request_input_parts_item *part = &request->input.parts.items[i];
        texts[i] = part->text;
        if (!part->has_text) {
            char where[ERR_WHERE_BYTES];
            (void)snprintf(where, sizeof(where), "/input/%d/text", i);
            err = call_fail(info, ERR_INVALID, "required", where, "a part needs its text");
        }
    }
    *out_case = (struct moderation_case){.response = call_text(""), .where = "/input"};
    return err == ERR_OK ? moderation_join(call, texts, count, &out_case->prompt, info) : err;
}

static enum err read_cases(
    struct call *call, struct moderation_case *cases, int32_t count, struct err_info *info)
{
    const struct v1_moderations_request *request = call->request;
    if (request->input.form == V1_MODERATIONS_REQUEST_INPUT_PARTS) {
        return join_parts(call, &cases[0], info);
    }
    bool list = request->input.form == V1_MODERATIONS_REQUEST_INPUT_TEXTS;
    for (int32_t i = 0; i < count; i++) {
        cases[i] = (struct moderation_case){
            .prompt = list ? request->input.texts.items[i] : request->input.text,
            .response = call_text(""),
            .where = "/input"};
        if (list) {
            (void)snprintf(cases[i].where, sizeof(cases[i].where), "/input/%d", i);
        }
    }
    return ERR_OK;
}

static enum err v1_moderations_plan(struct call *call, struct err_info *info)
{
    const struct v1_moderations_request *request = call->request;
    struct moderation_case *cases = NULL;
    bool list = request->input.form == V1_MODERATIONS_REQUEST_INPUT_TEXTS;
    int32_t count = list ? request->input.texts.count : 1;
    if (!call->model->can_classify) {
        return call_fail(info, ERR_NOT_CAPABLE, NULL, NULL, "this model does not classify");
    }
    if (count == 0) {
        return call_fail(info, ERR_EMPTY, NULL, "/input", "the list of inputs is empty");
    }
    if (count > call->limits->items_max) {
        return call_fail(info, ERR_LIMIT, "too_many_inputs", "/input", "%d inputs are more than %d",
            count, call->limits->items_max);
    }
    enum err err = call_array(call, (size_t)count, sizeof(*cases), &cases, info);
    if (err == ERR_OK) {
        err = read_cases(call, cases, count, info);
    }
    return err == ERR_OK ? moderation_plan(call, cases, count, info) : err;
}

/* ---- encode -------------------------------------------------------------------------------- */

static enum err v1_moderations_encode(
    struct call *call, const struct job *job, struct buf *out, struct err_info *info)
{
    const struct v1_moderations_request *request = call->request;
    bool list = request->input.form == V1_MODERATIONS_REQUEST_INPUT_TEXTS;
    const char *id = NULL;
    enum err err = call_job_error(job, list ? "/input" : NULL, info);
    if (err == ERR_OK) {
        err = call_new_id(call, "modr-", &id, info);
    }
    if (err != ERR_OK) {
        return err;
    }
    struct json_out json;
    json_out_init(&json, out);
    json_out_object(&json);
    json_out_key(&json, "id");
    json_out_string(&json, id);
    json_out_key(&json, "model");
    json_out_string(&json, call_model_name(call));
    json_out_key(&json, "results");
    json_out_array(&json);
    for (int32_t i = 0; i < job->plan.item_count; i++) {
        json_out_object(&json);
        moderation_write_verdict(&json, call, moderation_harmful(&job->results[i]));
        json_out_end(&json);
    }
    json_out_end(&json);
    json_out_end(&json);
    return call_written(&json, info);
}

const struct endpoint endpoint_v1_moderations = {.name = "v1_moderations",
    .kind = KIND_CLASSIFY,
    .family = FAMILY_OPENAI,
    .decode = v1_moderations_decode,
    .plan = v1_moderations_plan,
    .encode = v1_moderations_encode};
