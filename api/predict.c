/*
 * /predict: moderation verdicts in the shape of text-embeddings-inference, whose labels are the
 * model's own and so not in the request.
 *
 * What surprises: a list of two strings is one pair, a prompt and its response, as it is there;
 * several prompts are a list of lists. `truncate` is refused: the verdict would be about a text
 * that nobody sent.
 */
#include "api/classify.h"

#include <stdio.h>
#include "api/moderation.h"

static enum err predict_decode(
    struct call *call, const char *body, size_t bytes, struct err_info *info)
{
    enum err err = call_decode(call, &schema_predict_request, body, bytes, info);
    if (err != ERR_OK) {
        return err;
    }
    return call_basics(call, &((const struct predict_request *)call->request)->basics, info);
}

/* ---- plan ---------------------------------------------------------------------------------- */

static bool is_batch(const struct predict_request *request)
{
    return request->inputs.form == PREDICT_REQUEST_INPUTS_BATCH;
}

/* At least 1: an empty list is no pair, and was refused. */
static int32_t case_count(const struct predict_request *request)
{
    return is_batch(request) ? request->inputs.batch.count : 1;
}

static struct moderation_case read_case(const struct predict_request *request, int32_t index)
{
    const struct predict_request_inputs *inputs = &request->inputs;
    if (inputs->form == PREDICT_REQUEST_INPUTS_TEXT) {
        return (struct moderation_case){inputs->text, call_text(""), "/inputs"};
    }
    const struct bound_texts *pair =
        is_batch(request) ? &inputs->batch.items[index] : &inputs->pair;
    struct moderation_case read = {
        pair->items[0], pair->count > 1 ? pair->items[1] : call_text(""), "/inputs/0"};
    if (is_batch(request)) {
        (void)snprintf(read.where, sizeof(read.where), "/inputs/%d/0", index);
    }
    return read;
}

static enum err predict_plan(struct call *call, struct err_info *info)
{
    const struct predict_request *request = call->request;
    int32_t count = case_count(request);
    struct moderation_case *cases = NULL;
    if (!call->model->can_classify) {
        return call_fail(info, ERR_NOT_CAPABLE, NULL, NULL, "this model does not classify");
    }
    if (count > call->limits->items_max) {
        return call_fail(info, ERR_LIMIT, "too_many_inputs", "/inputs",
            "%d inputs are more than %d", count, call->limits->items_max);
    }
    enum err err = call_array(call, (size_t)count, sizeof(*cases), &cases, info);
    if (err != ERR_OK) {
        return err;
    }
    for (int32_t i = 0; i < count; i++) {
        cases[i] = read_case(request, i);
    }
    return moderation_plan(call, cases, count, info);
}

/* ---- encode -------------------------------------------------------------------------------- */

static enum err predict_encode(
    struct call *call, const struct job *job, struct buf *out, struct err_info *info)
{
    const struct predict_request *request = call->request;
    struct json_out json;
    enum err err = call_job_error(job, is_batch(request) ? "/inputs" : NULL, info);
    if (err != ERR_OK) {
        return err;
    }
    json_out_init(&json, out);
    if (is_batch(request)) {
        json_out_array(&json);
    }
    for (int32_t i = 0; i < case_count(request); i++) {
        struct bound_text labels[MODERATION_LABELS_MAX];
        float probabilities[MODERATION_LABELS_MAX];
        bool has_response = read_case(request, i).response.count > 0;
        int32_t count = moderation_labels(&job->results[i], has_response, labels, probabilities);
        classify_write_ranked(&json, labels, probabilities, count, request->raw_scores);
    }
    if (is_batch(request)) {
        json_out_end(&json);
    }
    return call_written(&json, info);
}

const struct endpoint endpoint_predict = {.name = "predict",
    .kind = KIND_CLASSIFY,
    .family = FAMILY_TEI,
    .decode = predict_decode,
    .plan = predict_plan,
    .encode = predict_encode};
