/*
 * The replies of /embed and /embed_all, and the pieces of those that other routes write.
 *
 * What surprises: with on_error "report" the plan has fewer items than the request has inputs;
 * input_of leads from one to the other.
 */
#include "api/embed.h"
#include "api/vector_out.h"

void embed_write_vector(
    struct json_out *out, const struct embed_notes *notes, const struct item_result *result)
{
    if (notes->token_vectors) {
        json_out_array(out);
        for (int32_t token = 0; token < result->vector_rows; token++) {
            const int32_t row = MAX(token + notes->token_offset, 0);
            json_out_floats(out, result->vector + (size_t)row * (size_t)result->vector_dim,
                (size_t)result->vector_dim);
        }
        json_out_end(out);
        return;
    }
    vector_out(out, notes->request->encoding_format, result->vector, (size_t)result->vector_dim);
}

void embed_write_usage(struct json_out *out, const struct call *call, const struct job *job)
{
    struct call_usage usage = call_usage(call, job);
    json_out_object(out);
    json_out_key(out, "prompt_tokens");
    json_out_int(out, usage.prompt);
    json_out_key(out, "total_tokens");
    json_out_int(out, usage.prompt);
    json_out_end(out);
}

enum err embed_job_error(const struct call *call, const struct job *job, struct err_info *info)
{
    const struct embed_notes *notes = call->state;
    const enum common_inputs_form form = notes->request->inputs.form;
    const enum err err = call_job_error(job, NULL, info);
    if (err == ERR_OK || job->err != ERR_OK || form == COMMON_INPUTS_TEXT ||
        form == COMMON_INPUTS_IDS) {
        return err;
    }
    int32_t failed = 0;
    while (job->results[failed].err == ERR_OK) {
        failed++;
    }
    embed_name_input(notes, notes->input_of[failed], info->where, sizeof(info->where));
    return err;
}

/* With on_error "report": an error only when nothing succeeded. */
static enum err check_job(const struct call *call, const struct job *job, struct err_info *info)
{
    const struct embed_notes *notes = call->state;
    if (job->err == ERR_OK && notes->request->on_error == EMBED_REQUEST_ON_ERROR_REPORT) {
        for (int32_t i = 0; i < job->plan.item_count; i++) {
            if (job->results[i].err == ERR_OK) {
                return ERR_OK;
            }
        }
    }
    return embed_job_error(call, job, info);
}

/* The vectors in the order of the inputs; null for those that failed. */
static void write_vectors(
    struct json_out *out, const struct embed_notes *notes, const struct job *job)
{
    json_out_array(out);
    for (int32_t input = 0, item = 0; input < notes->input_count; input++) {
        const bool planned = item < job->plan.item_count && notes->input_of[item] == input;
        if (planned && job->results[item].err == ERR_OK) {
            embed_write_vector(out, notes, &job->results[item]);
        } else {
            json_out_null(out);
        }
        item += planned ? 1 : 0;
    }
    json_out_end(out);
}

static void write_failure(
    struct json_out *out, int32_t index, const char *code, const char *message)
{
    json_out_object(out);
    json_out_key(out, "index");
    json_out_int(out, index);
    json_out_key(out, "code");
    json_out_string(out, code);
    json_out_key(out, "message");
    json_out_string(out, message);
    json_out_end(out);
}

/* What never became an item and what failed as one, in the order of the inputs. */
static void write_failures(
    struct json_out *out, const struct embed_notes *notes, const struct job *job)
{
    int32_t refused = 0;
    json_out_array(out);
    for (int32_t item = 0; item <= job->plan.item_count; item++) {
        const bool last = item == job->plan.item_count;
        const int32_t before = last ? notes->input_count : notes->input_of[item];
        for (; refused < notes->failure_count && notes->failures[refused].index < before;
             refused++) {
            const struct embed_failure *failure = &notes->failures[refused];
            write_failure(out, failure->index, failure->code, failure->message);
        }
        const struct item_result *result = last ? NULL : &job->results[item];
        if (result != NULL && result->err != ERR_OK) {
            const char *word = result->info.word;
            write_failure(
                out, before, word[0] != '\0' ? word : err_word(result->err), result->info.text);
        }
    }
    json_out_end(out);
}

static void write_details(struct json_out *out, const struct call *call,
    const struct embed_notes *notes, const struct job *job)
{
    json_out_key(out, "truncated");
    json_out_array(out);
    for (int32_t i = 0; i < notes->input_count; i++) {
        if (notes->truncated[i]) {
            json_out_int(out, i);
        }
    }
    json_out_end(out);
    json_out_key(out, "usage");
    embed_write_usage(out, call, job);
    if (notes->request->on_error == EMBED_REQUEST_ON_ERROR_REPORT) {
        json_out_key(out, "errors");
        write_failures(out, notes, job);
    }
}

enum err embed_encode(
    struct call *call, const struct job *job, struct buf *out, struct err_info *info)
{
    const struct embed_notes *notes = call->state;
    const bool details =
        notes->request->details || notes->request->on_error == EMBED_REQUEST_ON_ERROR_REPORT;
    enum err err = check_job(call, job, info);
    if (err != ERR_OK) {
        return err;
    }
    struct json_out json;
    json_out_init(&json, out);
    if (details) {
        json_out_object(&json);
        json_out_key(&json, "model");
        json_out_string(&json, call_model_name(call));
        json_out_key(&json, "embeddings");
    }
    write_vectors(&json, notes, job);
    if (details) {
        write_details(&json, call, notes, job);
        json_out_end(&json);
    }
    return call_written(&json, info);
}
