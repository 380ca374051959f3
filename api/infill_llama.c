/*
 * llama.cpp's form of /infill: one gap between input_prefix and input_suffix, n_cmpl answers.
 *
 * The mode is the one `auto` gives. Only FIM tokens tell a model where to stop, so in the other
 * modes an answer has at most 128 tokens when no budget is given.
 */
#include "api/infill_llama.h"

#include <string.h>
#include "api/fim.h"
#include "api/llama.h"
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
    bool bounded = request->llama.n_predict < 0 && notes->mode != INFILL_FIM;
    return bounded ? FALLBACK_TOKENS : request->llama.n_predict;
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
    step->border = infill_border(&notes->space);
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
    enum err err = llama_step(call, &request->sampling, &request->llama, step, info);
    return err == ERR_OK ? infill_sampling(call, notes->mode, sampling, info) : err;
}

static enum err make_items(
    struct call *call, struct infill_llama_notes *notes, int32_t left, struct err_info *info)
{
    const struct infill_request *request = call->request;
    struct plan_item first = {.tokens = notes->prompt.ids, .token_count = notes->prompt.count};
    struct plan_item *items = NULL;
    struct plan_step *step = NULL;
    enum err err = call_array(call, (size_t)request->llama.n_cmpl, sizeof(*items), &items, info);
    if (err == ERR_OK) {
        err = call_array(call, 1, sizeof(*step), &step, info);
    }
    if (err == ERR_OK) {
        err = notes->mode == INFILL_FIM ? fim_item(call, notes, step, info)
                                        : hybrid_item(call, notes, left, &first, step, info);
    }
    if (err == ERR_OK) {
        err = set_options(call, notes, step, &first.sampling, info);
    }
    first.steps = step;
    first.step_count = 1;
    for (int32_t i = 0; err == ERR_OK && i < request->llama.n_cmpl; i++) {
        items[i] = first;
        items[i].sampling.sample_index = (uint32_t)i;
    }
    call->plan =
        (struct plan){.kind = KIND_INFILL, .items = items, .item_count = request->llama.n_cmpl};
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
    gap->n_indent = request->llama.n_indent;
    gap->space = notes->space;
    if (request->llama.n_predict != 0) {
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
    gap->answers = request->llama.n_cmpl;
    gap->step = infill_step(-1, -1, fit_budget(call, notes, rerank_fixed(gap)));
    call->asks_more = true;
    gap->step.border = infill_border(&notes->space);
    err = set_options(call, notes, &gap->step, &gap->sampling, info);
    gap->step.top_logprobs = request->llama.n_probs;
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

/* ---- answers ------------------------------------------------------------------------------- */

int32_t infill_llama_count(const struct infill_llama_notes *notes, const struct job *job)
{
    return notes->mode == INFILL_RERANK
               ? MIN(notes->rerank.fill_count, notes->reply.options->n_cmpl)
               : job->plan.item_count;
}

struct infill_fill infill_llama_fill(
    const struct infill_llama_notes *notes, const struct job *job, int32_t index)
{
    return notes->mode == INFILL_RERANK ? notes->rerank.fills[index]
                                        : infill_fill_of(&job->results[index].steps[0]);
}

bool infill_llama_spaced(const struct infill_llama_notes *notes)
{
    return notes->space.count > 0;
}

static int32_t count_answers(const struct call *call, const struct job *job)
{
    return infill_llama_count(call->state, job);
}

/* In mode rerank an answer is one of the ranked fills, and no item of the last job. */
static void read_answer(
    const struct call *call, const struct job *job, int32_t index, struct llama_answer *out_answer)
{
    const struct infill_llama_notes *notes = call->state;
    if (notes->mode == INFILL_RERANK) {
        *out_answer = (struct llama_answer){.prompt = notes->prompt.ids,
            .prompt_count = notes->prompt.count,
            .fill = notes->rerank.fills[index],
            .step = &notes->rerank.step,
            .sampling = &notes->rerank.sampling,
            .predicted = notes->rerank.fills[index].token_count};
    } else {
        llama_reply_item(job, index, out_answer);
    }
    out_answer->truncated = notes->truncated;
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
        notes->reply = (struct llama_reply){.options = &request->llama,
            .list = request->llama.n_cmpl > 1,
            .whole = notes->mode == INFILL_RERANK,
            .count = count_answers,
            .answer = read_answer};
        err = plan_mode(call, notes, info);
    }
    if (err != ERR_OK) {
        return err;
    }
    call->state = notes;
    call->plan.stream = request->llama.stream && !notes->reply.whole;
    call->characters =
        (int64_t)utf8_length(request->input_prefix.bytes, (size_t)request->input_prefix.count) +
        (int64_t)utf8_length(request->input_suffix.bytes, (size_t)request->input_suffix.count) +
        (int64_t)utf8_length(request->prompt.bytes, (size_t)request->prompt.count);
    return ERR_OK;
}
