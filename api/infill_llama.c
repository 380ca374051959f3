/*
 * llama.cpp's form of /infill: one gap between input_prefix and input_suffix, n_cmpl answers.
 *
 * The mode is the one `auto` gives. Only FIM tokens tell a model where to stop, so in the other
 * modes an answer has at most 128 tokens when no budget is given. What surprises: n_indent is
 * obeyed by cutting what the model wrote, here, after the fact; the answer is the same.
 */
#include "api/infill.h"

#include <stdio.h>
#include <string.h>
#include "api/fim.h"
#include "api/infill_reply.h"
#include "api/sse.h"
#include "engine/base/utf8.h"

enum { FALLBACK_TOKENS = 128 };

/* ---- plan ---------------------------------------------------------------------------------- */

static struct bound_text or_empty(bool has, struct bound_text text)
{
    return has ? text : call_text("");
}

/* The prompt field continues the prefix, or, by request, begins the fill. */
static enum err read_texts(struct call *call, const struct infill_llama_notes *notes,
    struct fim_texts *out_texts, struct err_info *info)
{
    const struct infill_request *request = call->request;
    struct bound_text prompt = or_empty(request->has_prompt, request->prompt);
    bool after_mid = notes->mode == INFILL_FIM &&
                     request->prompt_position == INFILL_REQUEST_PROMPT_POSITION_AFTER_MID;
    const char *prefix = arena_printf(
        call->arena, "%s%s", request->input_prefix.bytes, after_mid ? "" : prompt.bytes);
    if (prefix == NULL) {
        return call_no_memory(info);
    }
    *out_texts = (struct fim_texts){.prefix = call_text(prefix),
        .suffix = request->input_suffix,
        .after_mid = after_mid ? prompt : call_text(""),
        .extra = request->input_extra.items,
        .extra_count = request->has_input_extra ? request->input_extra.count : 0,
        .repo = or_empty(request->has_repo, request->repo),
        .filename = or_empty(request->has_filename, request->filename)};
    return ERR_OK;
}

/* Where a gap needs no FIM tokens, an answer of no stated length is not as long as the context. */
static int64_t budget_of(const struct call *call, const struct infill_llama_notes *notes)
{
    const struct infill_request *request = call->request;
    bool bounded = request->n_predict < 0 && notes->mode != INFILL_FIM;
    return bounded ? FALLBACK_TOKENS : request->n_predict;
}

static enum err no_left(struct err_info *info)
{
    return call_fail(
        info, ERR_INVALID, NULL, "/input_prefix", "a gap needs text before it on this model");
}

/* Context around the gap for hybrid mode: BOS, extra files, prefix | suffix. */
static enum err hybrid_context(struct call *call, struct infill_llama_notes *notes,
    const struct fim_ids *ids, int32_t *out_left, struct err_info *info)
{
    bool bos = tokenizer_adds_bos(call->tokenizer);
    const struct call_ids parts[] = {ids->extra, ids->prefix, ids->suffix};
    int32_t left = (bos ? 1 : 0) + ids->extra.count + ids->prefix.count;
    notes->prompt.count = left + ids->suffix.count;
    if (left == 0) {
        return no_left(info);
    }
    enum err err =
        call_array(call, (size_t)notes->prompt.count, sizeof(int32_t), &notes->prompt.ids, info);
    if (err != ERR_OK) {
        return err;
    }
    int32_t *at = notes->prompt.ids;
    if (bos) {
        *at++ = tokenizer_special(call->tokenizer, TOKEN_BOS);
    }
    for (size_t i = 0; i < ARRAY_COUNT(parts); i++) {
        if (parts[i].count > 0) {
            memcpy(at, parts[i].ids, (size_t)parts[i].count * sizeof(int32_t));
            at += parts[i].count;
        }
    }
    *out_left = left;
    return ERR_OK;
}

/* Tokens of an answer behind so many others. */
static int32_t fit_budget(
    const struct call *call, const struct infill_llama_notes *notes, int64_t others)
{
    int64_t room = call->model->context - others;
    int64_t budget = budget_of(call, notes);
    return (int32_t)MAX(budget < 0 ? room : MIN(budget, room), 0);
}

/* Positions with the gap held open. */
static enum err hybrid_item(struct call *call, const struct infill_llama_notes *notes, int32_t left,
    struct plan_item *item, struct plan_step *step, struct err_info *info)
{
    int32_t *positions = NULL;
    enum err err =
        call_array(call, (size_t)notes->prompt.count, sizeof(*positions), &positions, info);
    if (err != ERR_OK) {
        return err;
    }
    *step = infill_step(left - 1, left, fit_budget(call, notes, notes->prompt.count));
    step->spaced = notes->space.count > 0;
    for (int32_t i = 0; i < notes->prompt.count; i++) {
        positions[i] = i < left ? i : i + step->tokens_max;
    }
    item->positions = positions;
    item->context_count = notes->prompt.count;
    return ERR_OK;
}

static enum err fim_item(struct call *call, const struct infill_llama_notes *notes,
    struct plan_step *step, struct err_info *info)
{
    int32_t *stops = NULL;
    enum err err = call_array(call, LIMIT_STOP_TOKENS, sizeof(*stops), &stops, info);
    if (err == ERR_OK) {
        *step = infill_step(-1, -1, fit_budget(call, notes, notes->prompt.count));
        step->stop_token_count = fim_stop_tokens(call->tokenizer, stops);
        step->stop_tokens = stops;
    }
    return err;
}

static enum err set_options(struct call *call, const struct infill_llama_notes *notes,
    struct plan_step *step, struct sampling *sampling, struct err_info *info)
{
    const struct infill_request *request = call->request;
    step->ban_end = request->ignore_eos;
    enum err err =
        call_stops(call, request->sampling.has_stop, &request->sampling.stop, step, info);
    return err == ERR_OK ? infill_sampling(call, notes->mode, sampling, info) : err;
}

static enum err make_items(
    struct call *call, struct infill_llama_notes *notes, int32_t left, struct err_info *info)
{
    const struct infill_request *request = call->request;
    struct plan_item first = {.tokens = notes->prompt.ids, .token_count = notes->prompt.count};
    struct plan_item *items = NULL;
    struct plan_step *step = NULL;
    enum err err = call_array(call, (size_t)request->n_cmpl, sizeof(*items), &items, info);
    if (err == ERR_OK) {
        err = call_array(call, 1, sizeof(*step), &step, info);
    }
    if (err == ERR_OK) {
        err = notes->mode == INFILL_FIM ? fim_item(call, notes, step, info)
                                        : hybrid_item(call, notes, left, &first, step, info);
    }
    if (err == ERR_OK) {
        step->top_logprobs = request->n_probs > 0 ? request->n_probs : -1;
        err = set_options(call, notes, step, &first.sampling, info);
    }
    first.steps = step;
    first.step_count = 1;
    for (int32_t i = 0; err == ERR_OK && i < request->n_cmpl; i++) {
        items[i] = first;
        items[i].sampling.sample_index = (uint32_t)i;
    }
    call->plan = (struct plan){.kind = KIND_INFILL, .items = items, .item_count = request->n_cmpl};
    return err;
}

/* ---- rerank -------------------------------------------------------------------------------- */

static enum err plan_rerank(struct call *call, struct infill_llama_notes *notes,
    const struct fim_ids *ids, struct err_info *info)
{
    const struct infill_request *request = call->request;
    struct rerank_gap *gap = &notes->rerank;
    int32_t bos_id = tokenizer_special(call->tokenizer, TOKEN_BOS);
    const struct call_ids bos = {&bos_id, tokenizer_adds_bos(call->tokenizer) ? 1 : 0};
    gap->n_indent = request->n_indent;
    gap->space = notes->space;
    if (request->n_predict != 0) {
        gap->right = (struct call_ids){ids->suffix.ids, MIN(ids->suffix.count, RERANK_RIGHT)};
    }
    enum err err = call_join(call, &bos, &ids->extra, &gap->left, info);
    if (err == ERR_OK) {
        err = call_join(call, &gap->left, &ids->prefix, &gap->left, info);
    }
    if (err == ERR_OK && gap->left.count == 0) {
        err = no_left(info);
    }
    if (err != ERR_OK) {
        return err;
    }
    notes->prompt = gap->left;
    gap->answers = request->n_cmpl;
    gap->step = infill_step(-1, -1, fit_budget(call, notes, rerank_fixed(gap)));
    gap->step.top_logprobs = request->n_probs;
    call->asks_more = true;
    err = set_options(call, notes, &gap->step, &gap->sampling, info);
    return err == ERR_OK ? rerank_plan(call, gap, 1, info) : err;
}

enum err infill_llama_more(
    struct call *call, const struct job *job, bool *out_more, struct err_info *info)
{
    struct infill_llama_notes *notes = call->state;
    bool settled = false;
    enum err err = rerank_take(call, &notes->rerank, 1, job, &settled, info);
    if (err == ERR_OK && !settled) {
        call_add_job(call, job);
        err = rerank_plan(call, &notes->rerank, 1, info);
        *out_more = err == ERR_OK;
    }
    return err;
}

/* ---- plan ---------------------------------------------------------------------------------- */

static enum err plan_around(struct call *call, struct infill_llama_notes *notes,
    const struct fim_ids *ids, struct err_info *info)
{
    int32_t left = 0;
    enum fim_layout layout;
    enum err err = ERR_OK;
    if (notes->mode == INFILL_HYBRID) {
        err = hybrid_context(call, notes, ids, &left, info);
    } else {
        err = fim_layout(call, &layout, info);
        if (err == ERR_OK) {
            err = fim_prompt(call, ids, layout, &notes->prompt, info);
        }
    }
    if (err == ERR_OK) {
        err = call_check_context(call, notes->prompt.count, "/prompt", info);
    }
    return err == ERR_OK ? make_items(call, notes, left, info) : err;
}

static enum err plan_mode(
    struct call *call, struct infill_llama_notes *notes, struct err_info *info)
{
    struct fim_texts texts;
    struct fim_ids ids = {0};
    enum err err = read_texts(call, notes, &texts, info);
    if (err == ERR_OK && notes->mode != INFILL_FIM && budget_of(call, notes) > 0) {
        err = infill_heal(call, &texts.prefix, &notes->space, info);
    }
    if (err == ERR_OK) {
        err = fim_window(call, &texts, fim_room(call, budget_of(call, notes)), &ids, info);
    }
    if (err != ERR_OK) {
        return err;
    }
    notes->truncated = ids.truncated;
    return notes->mode == INFILL_RERANK ? plan_rerank(call, notes, &ids, info)
                                        : plan_around(call, notes, &ids, info);
}

enum err infill_llama_plan(struct call *call, struct err_info *info)
{
    const struct infill_request *request = call->request;
    struct infill_llama_notes *notes = NULL;
    enum err err = call_array(call, 1, sizeof(*notes), &notes, info);
    if (err == ERR_OK) {
        err = infill_mode(call, &notes->mode, info);
    }
    if (err == ERR_OK) {
        err = infill_ignored_by(call, notes->mode, info);
    }
    if (err == ERR_OK) {
        notes->answers = request->n_cmpl;
        err = plan_mode(call, notes, info);
    }
    if (err != ERR_OK) {
        return err;
    }
    call->state = notes;
    call->plan.stream = request->stream && request->n_cmpl == 1 && notes->mode != INFILL_RERANK;
    call->characters =
        (int64_t)utf8_length(request->input_prefix.bytes, (size_t)request->input_prefix.count) +
        (int64_t)utf8_length(request->input_suffix.bytes, (size_t)request->input_suffix.count) +
        (int64_t)utf8_length(request->prompt.bytes, (size_t)request->prompt.count);
    return ERR_OK;
}

/* ---- replies ------------------------------------------------------------------------------- */

enum err infill_llama_encode(
    struct call *call, const struct job *job, struct json_out *out, struct err_info *info)
{
    const struct infill_llama_notes *notes = call->state;
    enum err err = ERR_OK;
    bool list = notes->answers > 1;
    if (list) {
        json_out_array(out);
    }
    for (int32_t i = 0; err == ERR_OK && i < infill_reply_count(notes, job); i++) {
        err = infill_reply_write(call, job, i, false, out, info);
    }
    if (err == ERR_OK && list) {
        json_out_end(out);
    }
    return err;
}

/* A part of answer `index` with the token it came with, if it did. */
static void write_chunk(const struct infill_llama_notes *notes, int32_t index, const char *text,
    size_t bytes, const struct token_event *event, int32_t predicted, struct buf *out)
{
    struct json_out json;
    sse_begin(&json, out);
    json_out_object(&json);
    json_out_key(&json, "index");
    json_out_int(&json, index);
    json_out_key(&json, "content");
    json_out_bytes(&json, text, bytes);
    json_out_key(&json, "tokens");
    json_out_array(&json);
    if (event != NULL) {
        json_out_int(&json, event->token);
    }
    json_out_end(&json);
    json_out_key(&json, "stop");
    json_out_bool(&json, false);
    json_out_key(&json, "tokens_predicted");
    json_out_int(&json, predicted);
    json_out_key(&json, "tokens_evaluated");
    json_out_int(&json, notes->prompt.count);
    json_out_end(&json);
    sse_end(&json);
}

enum err infill_llama_frame(
    struct call *call, const struct job *job, const struct token_event *event, struct buf *out)
{
    struct infill_llama_notes *notes = call->state;
    const struct infill_request *request = call->request;
    const char *text = job->results[event->item].steps[event->step].text;
    bool ended = event->last;
    size_t released = (size_t)event->text_from + (size_t)event->text_bytes;
    bool cut;
    size_t shown = infill_reply_visible(text, released, request->n_indent, ended, &cut);
    bool is_end = ended && event->finish == FINISH_EOS;
    if (shown > notes->sent || (!is_end && !notes->cut)) {
        size_t from = MIN(notes->sent, shown);
        int32_t predicted = is_end ? job->results[event->item].generated_tokens : event->index + 1;
        write_chunk(
            notes, event->item, text + from, shown - from, is_end ? NULL : event, predicted, out);
        notes->sent = shown;
    }
    notes->cut = cut;
    return out->failed ? ERR_NO_MEMORY : ERR_OK;
}

enum err infill_llama_frame_end(struct call *call, const struct job *job, struct buf *out)
{
    const struct infill_llama_notes *notes = call->state;
    const struct infill_request *request = call->request;
    enum err err = ERR_OK;
    for (int32_t i = 0; err == ERR_OK && i < infill_reply_count(notes, job); i++) {
        if (notes->mode == INFILL_RERANK || notes->answers > 1) { /* comes whole */
            struct infill_fill fill = infill_reply_fill(notes, job, i);
            bool cut;
            size_t shown =
                infill_reply_visible(fill.text, fill.text_bytes, request->n_indent, true, &cut);
            int32_t predicted =
                notes->mode == INFILL_RERANK ? fill.token_count : job->results[i].generated_tokens;
            write_chunk(notes, i, fill.text, shown, NULL, predicted, out);
        }
        struct json_out json;
        struct err_info unused;
        sse_begin(&json, out);
        err = infill_reply_write(call, job, i, true, &json, &unused);
        if (err == ERR_OK) {
            err = call_written(&json, &unused);
            sse_end(&json);
        }
    }
    return err;
}
