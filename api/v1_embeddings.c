/*
 * /v1/embeddings: /embed in OpenAI's shape. Too long is an error unless the request allows a cut,
 * and vectors always have length 1, since that is what clients of this route compute with.
 */
#include "api/embed.h"

static enum err v1_embeddings_decode(
    struct call *call, const char *body, size_t bytes, struct err_info *info)
{
    struct embed_request *request;
    enum err err = call_decode_with(
        call, &schema_v1_embeddings_request, body, bytes, sizeof(*request), &request, info);
    if (err != ERR_OK) {
        return err;
    }
    const struct v1_embeddings_request *given = call->request;
    *request = (struct embed_request){.basics = given->basics,
        .inputs = given->input,
        .normalize = true,
        .truncate = given->truncate,
        .truncation_direction = given->truncation_direction,
        .dimensions = given->dimensions,
        .has_dimensions = given->has_dimensions,
        .prompt_name = given->prompt_name,
        .has_prompt_name = given->has_prompt_name,
        .instruction = given->instruction,
        .has_instruction = given->has_instruction,
        .encoding_format = given->encoding_format};
    call->request = request;
    return embed_keep(call, request, false, "/input", info);
}

static enum err v1_embeddings_encode(
    struct call *call, const struct job *job, struct buf *out, struct err_info *info)
{
    enum err err = embed_job_error(call, job, info);
    if (err != ERR_OK) {
        return err;
    }
    struct json_out json;
    json_out_init(&json, out);
    json_out_object(&json);
    json_out_key(&json, "object");
    json_out_string(&json, "list");
    json_out_key(&json, "model");
    json_out_string(&json, call_model_name(call));
    json_out_key(&json, "data");
    json_out_array(&json);
    for (int32_t i = 0; i < job->plan.item_count; i++) {
        json_out_object(&json);
        json_out_key(&json, "object");
        json_out_string(&json, "embedding");
        json_out_key(&json, "index");
        json_out_int(&json, i);
        json_out_key(&json, "embedding");
        embed_write_vector(&json, call->state, &job->results[i]);
        json_out_end(&json);
    }
    json_out_end(&json);
    json_out_key(&json, "usage");
    embed_write_usage(&json, call, job);
    json_out_end(&json);
    return call_written(&json, info);
}

const struct endpoint endpoint_v1_embeddings = {.name = "v1_embeddings",
    .kind = KIND_EMBED,
    .family = FAMILY_OPENAI,
    .decode = v1_embeddings_decode,
    .plan = embed_plan,
    .encode = v1_embeddings_encode};
