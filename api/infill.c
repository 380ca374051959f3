/*
 * /infill: fills gaps in a text. Two body forms (infill.h) and three modes: hybrid (the text around
 * the gaps is bidirectional context, each gap decodes causally at its own place), fim (the text
 * rearranged around the vocabulary's fill-in-the-middle tokens, causal) and rerank (causal fills of
 * the text before a gap, judged by the text behind it).
 */
#include "api/infill_llama.h"
#include "api/llama.h"

static bool is_llama(const struct infill_request *request)
{
    return request->has_input_prefix || request->has_input_suffix;
}

/* ---- decode -------------------------------------------------------------------------------- */

static enum err check_form(const struct infill_request *request, struct err_info *info)
{
    bool gaps = request->has_text || request->has_segments;
    if (gaps && is_llama(request)) {
        return call_fail(info, ERR_INVALID, NULL,
            request->has_input_prefix ? "/input_prefix" : "/input_suffix",
            "a body has either input_prefix and input_suffix, or text or segments");
    }
    if (request->has_text && request->has_segments) {
        return call_fail(
            info, ERR_INVALID, NULL, "/segments", "text and segments exclude each other");
    }
    if (!gaps && !request->has_input_prefix) {
        return call_fail(info, ERR_INVALID, "required", "/input_prefix",
            "input_prefix and input_suffix, or text or segments, are required");
    }
    if (!gaps && !request->has_input_suffix) {
        return call_fail(info, ERR_INVALID, "required", "/input_suffix", "this field is required");
    }
    return ERR_OK;
}

/* A field the request was given that has no effect on it is named in the reply. */
struct no_effect {
    bool given;
    const char *name;
};

static enum err name_fields(
    struct call *call, const struct no_effect *fields, size_t count, struct err_info *info)
{
    enum err err = ERR_OK;
    for (size_t i = 0; err == ERR_OK && i < count; i++) {
        err = fields[i].given ? call_ignore(call, fields[i].name, info) : ERR_OK;
    }
    return err;
}

/* Those of the other form. */
static enum err name_ignored(struct call *call, struct err_info *info)
{
    const struct infill_request *request = call->request;
    const struct no_effect of_gaps[] = {
        {request->has_gap, "gap"},
        {request->has_max_tokens, "max_tokens"},
        {request->has_min_tokens, "min_tokens"},
        {request->has_reserve, "reserve"},
        {request->has_until, "until"},
        {request->has_spans, "spans"},
    };
    const struct no_effect of_llama[] = {
        {request->has_prompt, "prompt"},
        {request->has_input_extra, "input_extra"},
        {request->has_repo, "repo"},
        {request->has_filename, "filename"},
        {request->has_prompt_position, "prompt_position"},
        {request->llama.has_n_predict, "n_predict"},
        {request->llama.has_n_indent, "n_indent"},
        {request->llama.has_n_cmpl, "n_cmpl"},
        {request->llama.has_n_probs, "n_probs"},
        {request->llama.has_response_fields, "response_fields"},
        {request->llama.has_return_tokens, "return_tokens"},
    };
    return is_llama(request) ? name_fields(call, of_gaps, ARRAY_COUNT(of_gaps), info)
                             : name_fields(call, of_llama, ARRAY_COUNT(of_llama), info);
}

/* Those that only other modes know; the forms have named their own already. */
enum err infill_ignored_by(struct call *call, enum infill_mode mode, struct err_info *info)
{
    const struct infill_request *request = call->request;
    bool llama = is_llama(request);
    bool fim = mode == INFILL_FIM;
    const struct no_effect fields[] = {
        {!fim && request->has_fim_order, "fim_order"},
        {!fim && llama && request->has_prompt_position, "prompt_position"},
        {mode != INFILL_HYBRID && !llama && request->has_reserve, "reserve"},
        {mode != INFILL_RERANK && request->has_candidates, "candidates"},
    };
    if (request->n > 1 && (llama || mode != INFILL_HYBRID || call->stream)) {
        return call_fail(info, ERR_UNSUPPORTED_FIELD, NULL, "/n", "%s",
            llama          ? "is n_cmpl in this form"
            : call->stream ? "several replies are not streamed"
                           : "several replies are given in mode hybrid alone");
    }
    if (fim && request->has_heal && request->heal) {
        return call_fail(info, ERR_UNSUPPORTED_FIELD, NULL, "/heal",
            "mode fim, in which this request is served, moves no space: its models were trained "
            "on texts that are cut anywhere");
    }
    return name_fields(call, fields, ARRAY_COUNT(fields), info);
}

static enum err infill_decode(
    struct call *call, const char *body, size_t bytes, struct err_info *info)
{
    enum err err = call_decode(call, &schema_infill_request, body, bytes, info);
    if (err != ERR_OK) {
        return err;
    }
    const struct infill_request *request = call->request;
    call->stream = request->llama.stream;
    err = check_form(request, info);
    if (err == ERR_OK) {
        err = call_basics(call, &request->basics, info);
    }
    return err == ERR_OK ? name_ignored(call, info) : err;
}

/* ---- modes and sampling -------------------------------------------------------------------- */

/* The mode a request names; INFILL_MODE_COUNT for `auto`. */
static enum infill_mode named_mode(const struct infill_request *request)
{
    switch (request->mode) {
    case INFILL_REQUEST_MODE_HYBRID:
        return INFILL_HYBRID;
    case INFILL_REQUEST_MODE_FIM:
        return INFILL_FIM;
    case INFILL_REQUEST_MODE_RERANK:
        return INFILL_RERANK;
    case INFILL_REQUEST_MODE_GLM:
        return INFILL_GLM;
    case INFILL_REQUEST_MODE_AUTO:
        break;
    }
    return INFILL_MODE_COUNT;
}

enum err infill_mode(const struct call *call, enum infill_mode *out_mode, struct err_info *info)
{
    const struct model_info *model = call->model;
    enum infill_mode named = named_mode(call->request);
    for (int32_t i = 0; model->can_infill && i < model->infill_mode_count; i++) {
        if (named == INFILL_MODE_COUNT || named == model->infill_modes[i]) {
            *out_mode = model->infill_modes[i];
            return ERR_OK;
        }
    }
    return call_fail(
        info, ERR_NOT_CAPABLE, NULL, "/mode", "this model does not fill gaps in this mode");
}

enum err infill_sampling(
    struct call *call, enum infill_mode mode, struct sampling *out_sampling, struct err_info *info)
{
    const struct infill_request *request = call->request;
    enum err err = llama_sampling(call, &request->sampling, &request->llama, out_sampling, info);
    if (err == ERR_OK && mode != INFILL_FIM && !request->sampling.has_temperature) {
        out_sampling->temperature = 0;
    }
    if (err == ERR_OK && mode == INFILL_RERANK && !request->sampling.has_seed) {
        out_sampling->seed = 0; /* the same request gives the same answer */
    }
    return err;
}

enum err infill_heal(
    struct call *call, struct bound_text *before, struct call_ids *out_space, struct err_info *info)
{
    const struct infill_request *request = call->request;
    const struct bound_text space = call_text(" ");
    struct call_ids ids;
    size_t bytes = 0;
    *out_space = (struct call_ids){0};
    if (!request->heal || before->count < 2 || before->bytes[before->count - 1] != ' ') {
        return ERR_OK;
    }
    enum err err = call_tokenize(call, &space, TOKENIZE_CONTINUES, "", &ids, info);
    if (err == ERR_OK && ids.count == 1) {
        const char *piece = tokenizer_piece(call->tokenizer, ids.ids[0], false, &bytes);
        if (bytes == 1 && piece[0] == ' ') {
            *out_space = ids;
            before->count--;
        }
    }
    return err;
}

struct plan_step infill_step(int32_t read_row, int32_t position, int32_t tokens_max)
{
    return (struct plan_step){
        .kind = STEP_DECODE, .read_row = read_row, .position = position, .tokens_max = tokens_max};
}

int32_t infill_text_tokens(const struct step_result *step)
{
    return step->token_count - (step->finish == FINISH_EOS && step->token_count > 0 ? 1 : 0);
}

struct infill_fill infill_fill_of(const struct step_result *step)
{
    return (struct infill_fill){.text = step->text,
        .text_bytes = (size_t)step->text_bytes,
        .tokens = step->tokens,
        .logprobs = step->logprobs,
        .token_count = infill_text_tokens(step),
        .top = step->top,
        .finish = step->finish,
        .stop_index = step->stop_index};
}

/* ---- the endpoint -------------------------------------------------------------------------- */

/* What the request says of every plan made for it. The editors' form wants whole lines. */
static void complete_plan(struct call *call)
{
    const struct infill_request *request = call->request;
    llama_plan(call, &request->sampling, &request->llama, is_llama(request));
}

static struct llama_reply *reply_of(const struct call *call)
{
    return &((struct infill_llama_notes *)call->state)->reply;
}

static enum err infill_plan(struct call *call, struct err_info *info)
{
    enum err err =
        is_llama(call->request) ? infill_llama_plan(call, info) : infill_gaps_plan(call, info);
    complete_plan(call);
    return err;
}

static enum err infill_more(
    struct call *call, const struct job *job, bool *out_more, struct err_info *info)
{
    struct err_info failure;
    if (call_job_error(job, NULL, &failure) != ERR_OK) {
        return ERR_OK; /* the end of the request tells */
    }
    enum err err = is_llama(call->request) ? infill_llama_more(call, job, out_more, info)
                                           : infill_gaps_more(call, job, out_more, info);
    complete_plan(call);
    return err;
}

static enum err infill_encode(
    struct call *call, const struct job *job, struct buf *out, struct err_info *info)
{
    struct json_out json;
    enum err err = call_job_error(job, NULL, info);
    if (err != ERR_OK) {
        return err;
    }
    json_out_init(&json, out);
    if (is_llama(call->request)) {
        llama_reply_encode(call, reply_of(call), job, &json);
    } else {
        err = infill_gaps_encode(call, job, &json, info);
    }
    return err != ERR_OK ? err : call_written(&json, info);
}

static enum err infill_frame(
    struct call *call, const struct job *job, const struct token_event *event, struct buf *out)
{
    return is_llama(call->request) ? llama_reply_frame(call, reply_of(call), job, event, out)
                                   : infill_gaps_frame(call, job, event, out);
}

static enum err infill_frame_more(struct call *call, const struct job *job, struct buf *out)
{
    return is_llama(call->request) ? ERR_OK : infill_gaps_frame_more(call, job, out);
}

static enum err infill_frame_end(struct call *call, const struct job *job, struct buf *out)
{
    return is_llama(call->request) ? llama_reply_frame_end(call, reply_of(call), job, out)
                                   : infill_gaps_frame_end(call, job, out);
}

const struct endpoint endpoint_infill = {.name = "infill",
    .kind = KIND_INFILL,
    .family = FAMILY_LLAMA,
    .decode = infill_decode,
    .plan = infill_plan,
    .more = infill_more,
    .encode = infill_encode,
    .frame = infill_frame,
    .frame_more = infill_frame_more,
    .frame_end = infill_frame_end};
