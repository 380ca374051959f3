/*
 * /similarity and /rerank: how near texts are to one text, by the cosine of their vectors. The one
 * text and the others are the inputs of one embedding; /similarity gives the numbers in order,
 * /rerank the texts best first, in the shape of whichever of `texts` and `documents` it was given.
 *
 * What surprises: nothing here is a cross-encoder, so no score is a probability. /rerank's lies in
 * 0...1, as its clients expect, because (1 + cosine) / 2 does.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "api/embed.h"

/* ---- decode -------------------------------------------------------------------------------- */

/* What is compared, and where it stands in the body. */
struct comparison {
    struct bound_text one;
    struct bound_texts others;
    const char *one_at, *others_at;
};

/* *settings has all but the inputs; becomes the request of the embedding. */
static enum err keep(struct call *call, const struct comparison *compared,
    struct embed_request *settings, const struct embed_request *of_one, struct err_info *info)
{
    if (compared->others.count == 0) {
        return call_fail(
            info, ERR_EMPTY, NULL, compared->others_at, "there is no text to compare with");
    }
    struct bound_text *texts;
    const size_t others = (size_t)compared->others.count;
    enum err err = call_array(call, others + 1, sizeof(*texts), &texts, info);
    if (err != ERR_OK) {
        return err;
    }
    texts[0] = compared->one;
    memcpy(texts + 1, compared->others.items, others * sizeof(*texts));
    settings->inputs = (struct common_inputs){
        .form = COMMON_INPUTS_TEXTS, .texts = {texts, compared->others.count + 1}};
    settings->normalize = true;
    err = embed_keep(call, settings, false, compared->others_at, info);
    if (err == ERR_OK) {
        struct embed_notes *notes = call->state;
        notes->first_at = compared->one_at;
        notes->first = of_one;
    }
    return err;
}

static enum err similarity_decode(
    struct call *call, const char *body, size_t bytes, struct err_info *info)
{
    struct embed_request *settings;
    enum err err = call_decode_with(
        call, &schema_similarity_request, body, bytes, sizeof(*settings), &settings, info);
    if (err != ERR_OK) {
        return err;
    }
    const struct similarity_request *given = call->request;
    *settings = (struct embed_request){.basics = given->basics,
        .truncate = given->parameters.truncate,
        .truncation_direction = given->parameters.truncation_direction,
        .prompt_name = given->parameters.prompt_name,
        .has_prompt_name = given->parameters.has_prompt_name};
    const struct comparison compared = {.one = given->inputs.source_sentence,
        .others = given->inputs.sentences,
        .one_at = "/inputs/source_sentence",
        .others_at = "/inputs/sentences"};
    return keep(call, &compared, settings, settings, info);
}

/* The first of these names that is a prompt of the model, if any. */
static void choose_prompt(
    const struct call *call, const char *const *names, size_t count, struct embed_request *settings)
{
    for (size_t i = 0; i < count && !settings->has_prompt_name; i++) {
        for (int32_t k = 0; k < call->model->prompt_count; k++) {
            if (strcmp(call->model->prompts[k].name, names[i]) == 0) {
                settings->prompt_name = call_text(names[i]);
                settings->has_prompt_name = true;
            }
        }
    }
}

/* The texts of whichever list was given. */
static enum err read_texts(struct call *call, const struct rerank_request *given,
    struct comparison *compared, struct err_info *info)
{
    if (given->has_texts == given->has_documents) {
        return call_fail(info, ERR_INVALID, given->has_texts ? NULL : "required", "/texts",
            "exactly one of texts and documents is wanted");
    }
    if (given->has_texts) {
        compared->others = given->texts;
        return ERR_OK;
    }
    const int32_t count = given->documents.count;
    struct bound_text *texts;
    compared->others_at = "/documents";
    enum err err = call_array(call, (size_t)count, sizeof(*texts), &texts, info);
    if (err != ERR_OK) {
        return err;
    }
    for (int32_t i = 0; i < count; i++) {
        const struct rerank_request_documents_item *document = &given->documents.items[i];
        texts[i] = document->form == RERANK_REQUEST_DOCUMENTS_ITEM_TEXT ? document->text
                                                                        : document->object.text;
    }
    compared->others = (struct bound_texts){texts, count};
    return ERR_OK;
}

static enum err rerank_decode(
    struct call *call, const char *body, size_t bytes, struct err_info *info)
{
    static const char *const query_names[] = {"query", "search_query", "web_search_query"};
    static const char *const text_names[] = {"document", "passage", "search_document"};
    struct embed_request *settings; /* of the texts, then of the query */
    enum err err = call_decode(call, &schema_rerank_request, body, bytes, info);
    if (err == ERR_OK) {
        err = call_array(call, 2, sizeof(*settings), &settings, info);
    }
    if (err != ERR_OK) {
        return err;
    }
    const struct rerank_request *given = call->request;
    struct comparison compared = {.one = given->query, .one_at = "/query", .others_at = "/texts"};
    err = read_texts(call, given, &compared, info);
    if (err != ERR_OK) {
        return err;
    }
    settings[0] = (struct embed_request){.basics = given->basics,
        .truncate = given->truncate,
        .truncation_direction = given->truncation_direction};
    settings[1] = settings[0];
    choose_prompt(call, text_names, ARRAY_COUNT(text_names), &settings[0]);
    choose_prompt(call, query_names, ARRAY_COUNT(query_names), &settings[1]);
    return keep(call, &compared, &settings[0], &settings[1], info);
}

/* ---- encode -------------------------------------------------------------------------------- */

/* Of vectors of length 1, whose product may be a rounding error outside -1...1. */
static double cosine(const struct item_result *a, const struct item_result *b)
{
    double sum = 0;
    for (int32_t i = 0; i < a->vector_dim; i++) {
        sum += (double)a->vector[i] * (double)b->vector[i];
    }
    return fmax(-1, fmin(1, sum));
}

static enum err similarity_encode(
    struct call *call, const struct job *job, struct buf *out, struct err_info *info)
{
    enum err err = embed_job_error(call, job, info);
    if (err != ERR_OK) {
        return err;
    }
    struct json_out json;
    json_out_init(&json, out);
    json_out_array(&json);
    for (int32_t i = 1; i < job->plan.item_count; i++) {
        json_out_float(&json, (float)cosine(&job->results[0], &job->results[i]));
    }
    json_out_end(&json);
    return call_written(&json, info);
}

struct ranked {
    int32_t index; /* of the text */
    double score;
};

/* Best first; of equals the one that was given first. */
static int compare_ranked(const void *a, const void *b)
{
    const struct ranked *one = a, *other = b;
    if (one->score != other->score) {
        return one->score > other->score ? -1 : 1;
    }
    return one->index < other->index ? -1 : 1;
}

static void write_results(
    struct json_out *json, const struct call *call, const struct ranked *ranked, int32_t count)
{
    const struct rerank_request *given = call->request;
    const struct embed_notes *notes = call->state;
    const bool documents = given->has_documents;
    json_out_array(json);
    for (int32_t i = 0; i < count; i++) {
        const struct bound_text *text = &notes->request->inputs.texts.items[ranked[i].index + 1];
        json_out_object(json);
        json_out_key(json, "index");
        json_out_int(json, ranked[i].index);
        if (documents && given->return_documents) {
            json_out_key(json, "document");
            json_out_object(json);
        }
        if (documents ? given->return_documents : given->return_text) {
            json_out_key(json, "text");
            json_out_bytes(json, text->bytes, (size_t)text->count);
        }
        if (documents && given->return_documents) {
            json_out_end(json);
        }
        json_out_key(json, documents ? "relevance_score" : "score");
        json_out_float(json, (float)ranked[i].score);
        json_out_end(json);
    }
    json_out_end(json);
}

static void write_rerank(struct json_out *json, const struct call *call, const struct job *job,
    const struct ranked *ranked, int32_t count)
{
    const struct rerank_request *given = call->request;
    if (!given->has_documents) {
        write_results(json, call, ranked, count);
        return;
    }
    json_out_object(json);
    json_out_key(json, "object");
    json_out_string(json, "list");
    json_out_key(json, "model");
    json_out_string(json, call_model_name(call));
    json_out_key(json, "results");
    write_results(json, call, ranked, count);
    json_out_key(json, "usage");
    embed_write_usage(json, call, job);
    json_out_end(json);
}

static enum err rerank_encode(
    struct call *call, const struct job *job, struct buf *out, struct err_info *info)
{
    const struct rerank_request *given = call->request;
    const int32_t count = job->plan.item_count - 1;
    struct ranked *ranked;
    enum err err = embed_job_error(call, job, info);
    if (err == ERR_OK) {
        err = call_array(call, (size_t)count, sizeof(*ranked), &ranked, info);
    }
    if (err != ERR_OK) {
        return err;
    }
    for (int32_t i = 0; i < count; i++) {
        const double raw = cosine(&job->results[0], &job->results[i + 1]);
        ranked[i] = (struct ranked){i, given->raw_scores ? raw : (1 + raw) / 2};
    }
    qsort(ranked, (size_t)count, sizeof(*ranked), compare_ranked);
    struct json_out json;
    json_out_init(&json, out);
    write_rerank(&json, call, job, ranked, given->has_top_n ? MIN(given->top_n, count) : count);
    return call_written(&json, info);
}

const struct endpoint endpoint_similarity = {.name = "similarity",
    .kind = KIND_EMBED,
    .family = FAMILY_TEI,
    .decode = similarity_decode,
    .plan = embed_plan,
    .encode = similarity_encode};

const struct endpoint endpoint_rerank = {.name = "rerank",
    .kind = KIND_EMBED,
    .family = FAMILY_TEI,
    .decode = rerank_decode,
    .plan = embed_plan,
    .encode = rerank_encode};

const struct endpoint endpoint_v1_rerank = {.name = "v1_rerank",
    .kind = KIND_EMBED,
    .family = FAMILY_OPENAI,
    .decode = rerank_decode,
    .plan = embed_plan,
    .encode = rerank_encode};
