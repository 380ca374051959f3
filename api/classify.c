/*
 * /classify: verdicts about texts. The form is told by the one key present of prompt, items, labels
 * and questions; the first two are moderation. Nothing is sampled: every answer is read from
 * logits.
 */
#include "api/classify.h"

#include <stdio.h>
#include "api/moderation.h"

enum form { FORM_PROMPT, FORM_ITEMS, FORM_LABELS, FORM_QUESTIONS, FORM_COUNT };

static enum form form_of(const struct classify_request *request)
{
    return request->has_prompt   ? FORM_PROMPT
           : request->has_items  ? FORM_ITEMS
           : request->has_labels ? FORM_LABELS
                                 : FORM_QUESTIONS;
}

/* ---- decode -------------------------------------------------------------------------------- */

static enum err check_form(const struct classify_request *request, struct err_info *info)
{
    static const char *const places[FORM_COUNT] = {"/prompt", "/items", "/labels", "/questions"};
    const bool present[FORM_COUNT] = {
        request->has_prompt, request->has_items, request->has_labels, request->has_questions};
    const char *where = NULL;
    int32_t count = 0;
    for (int32_t i = 0; i < FORM_COUNT; i++) {
        if (present[i]) {
            where = places[i];
            count++;
        }
    }
    if (count != 1) {
        return call_fail(info, ERR_INVALID, NULL, where,
            "exactly one of prompt, items, labels and questions is needed");
    }
    if (request->has_response && !request->has_prompt) {
        return call_fail(info, ERR_INVALID, NULL, "/response", "a response needs its prompt");
    }
    if (request->has_inputs && request->has_input) {
        return call_fail(info, ERR_INVALID, NULL, "/inputs", "inputs and input exclude each other");
    }
    return ERR_OK;
}

static enum err classify_decode(
    struct call *call, const char *body, size_t bytes, struct err_info *info)
{
    enum err err = call_decode(call, &schema_classify_request, body, bytes, info);
    if (err != ERR_OK) {
        return err;
    }
    const struct classify_request *request = call->request;
    err = check_form(request, info);
    return err != ERR_OK ? err : call_basics(call, &request->basics, info);
}

static struct classify_request_input input_of(const struct v1_decisions_request_input *given)
{
    if (given->form == V1_DECISIONS_REQUEST_INPUT_TEXT) {
        return (struct classify_request_input){
            .form = CLASSIFY_REQUEST_INPUT_TEXT, .text = given->text};
    }
    return (struct classify_request_input){
        .form = CLASSIFY_REQUEST_INPUT_MESSAGES, .messages = given->messages};
}

/* /v1/decisions: the questions of /classify, which this route has alone. */
static enum err v1_decisions_decode(
    struct call *call, const char *body, size_t bytes, struct err_info *info)
{
    struct classify_request *request;
    enum err err = call_decode_with(
        call, &schema_v1_decisions_request, body, bytes, sizeof(*request), &request, info);
    if (err != ERR_OK) {
        return err;
    }
    const struct v1_decisions_request *given = call->request;
    *request = (struct classify_request){.basics = given->basics,
        .input = input_of(&given->input),
        .has_input = true,
        .questions = given->questions,
        .has_questions = true};
    call->request = request;
    return call_basics(call, &request->basics, info);
}

/* ---- moderation ---------------------------------------------------------------------------- */

static enum err plan_moderation(
    struct call *call, const struct classify_request *request, struct err_info *info)
{
    bool one = request->has_prompt;
    int32_t count = one ? 1 : request->items.count;
    struct moderation_case *cases = NULL;
    if (count > call->limits->items_max) {
        return call_fail(info, ERR_LIMIT, "too_many_inputs", "/items", "%d items are more than %d",
            count, call->limits->items_max);
    }
    enum err err = call_array(call, (size_t)count, sizeof(*cases), &cases, info);
    if (err != ERR_OK) {
        return err;
    }
    for (int32_t i = 0; i < count; i++) {
        cases[i] =
            one ? (struct moderation_case){request->prompt, request->response, "/prompt", false}
                : (struct moderation_case){
                      request->items.items[i].prompt, request->items.items[i].response, "", false};
        if (!one) {
            (void)snprintf(cases[i].where, sizeof(cases[i].where), "/items/%d/prompt", i);
        }
    }
    return moderation_plan(call, cases, count, info);
}

static void write_moderation(struct json_out *out, const struct call *call,
    const struct classify_request *request, const struct job *job)
{
    json_out_object(out);
    json_out_key(out, "model");
    json_out_string(out, call_model_name(call));
    if (request->has_prompt) {
        moderation_write(out, &job->results[0], request->response.count > 0);
    } else {
        json_out_key(out, "items");
        json_out_array(out);
        for (int32_t i = 0; i < request->items.count; i++) {
            json_out_object(out);
            moderation_write(out, &job->results[i], request->items.items[i].response.count > 0);
            json_out_end(out);
        }
        json_out_end(out);
    }
    json_out_key(out, "usage");
    call_write_input_usage(out, call, job, false);
    json_out_end(out);
}

/* ---- the endpoint -------------------------------------------------------------------------- */

static enum err classify_plan(struct call *call, struct err_info *info)
{
    const struct classify_request *request = call->request;
    if (!call->model->can_classify) {
        return call_fail(info, ERR_NOT_CAPABLE, NULL, NULL, "this model does not classify");
    }
    switch (form_of(request)) {
    case FORM_PROMPT:
    case FORM_ITEMS:
        return plan_moderation(call, request, info);
    case FORM_LABELS:
        return classify_labels_plan(call, info);
    case FORM_QUESTIONS:
    case FORM_COUNT:
        break;
    }
    return classify_questions_plan(call, info);
}

static enum err classify_encode(
    struct call *call, const struct job *job, struct buf *out, struct err_info *info)
{
    const struct classify_request *request = call->request;
    enum form form = form_of(request);
    enum err err = form == FORM_LABELS
                       ? classify_labels_job_error(call, job, info)
                       : call_job_error(job, form == FORM_ITEMS ? "/items" : NULL, info);
    if (err != ERR_OK) {
        return err;
    }
    struct json_out json;
    json_out_init(&json, out);
    if (form == FORM_LABELS) {
        err = classify_labels_encode(call, job, &json, info);
    } else if (form == FORM_QUESTIONS) {
        err = classify_questions_encode(call, job, &json, info);
    } else {
        write_moderation(&json, call, request, job);
    }
    return err != ERR_OK ? err : call_written(&json, info);
}

const struct endpoint endpoint_classify = {.name = "classify",
    .kind = KIND_CLASSIFY,
    .family = FAMILY_TEI,
    .decode = classify_decode,
    .plan = classify_plan,
    .encode = classify_encode};

const struct endpoint endpoint_v1_decisions = {.name = "v1_decisions",
    .kind = KIND_CLASSIFY,
    .family = FAMILY_OPENAI,
    .decode = v1_decisions_decode,
    .plan = classify_plan,
    .encode = classify_encode};
