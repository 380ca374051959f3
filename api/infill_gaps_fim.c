/*
 * Plans of the gap form in mode fim: each gap is a prompt of its own, the text before it and the
 * text up to the next gap. Independent gaps are items of one job, and none sees another's fill.
 * Sequential ones are a chain of jobs: gap k is planned when the fills before it are known, and
 * their text is tokenized together with what stands around it.
 *
 * What surprises: the budgets of a chain are all cut before its first job, so that a long first
 * fill cannot leave a later gap without room.
 */
#include "api/infill_gaps.h"

#include <string.h>

/* ---- prompts ------------------------------------------------------------------------------- */

/* Text before gap k with the fills known by now. */
static enum err text_before(struct call *call, const struct gaps_notes *notes, int32_t k,
    struct bound_text *out_text, struct err_info *info)
{
    struct buf text;
    buf_init(&text, MEM_REQUESTS, (size_t)8 << 20);
    for (int32_t i = 0; i <= k; i++) {
        buf_append(&text, notes->texts[i].bytes, (size_t)notes->texts[i].count);
        if (notes->chain && i < notes->current) {
            buf_append(&text, notes->fills[i].text, (size_t)notes->fills[i].text_bytes);
        }
    }
    char *copy =
        text.failed ? NULL : arena_copy(call->arena, text.count > 0 ? text.bytes : "", text.count);
    *out_text = (struct bound_text){copy, (int32_t)text.count};
    buf_free(&text);
    return copy != NULL ? ERR_OK : call_no_memory(info);
}

/* One token of room is needed, unless the gap only warms the cache. */
static int64_t need_of(const struct gap *gap)
{
    return gap->tokens_max > 0 ? 1 : 0;
}

static enum err gap_prompt(struct call *call, const struct gaps_notes *notes, int32_t k,
    struct call_ids *out_prompt, struct err_info *info)
{
    struct bound_text before;
    struct fim_ids ids = {0};
    struct call_ids prompt = {0};
    const char *where = infill_gaps_where(call);
    enum err err = text_before(call, notes, k, &before, info);
    if (err == ERR_OK) {
        err = call_tokenize(call, &before, 0, where, &ids.prefix, info);
    }
    if (err == ERR_OK) {
        err =
            call_tokenize(call, &notes->texts[k + 1], TOKENIZE_CONTINUES, where, &ids.suffix, info);
    }
    if (err == ERR_OK) {
        err = fim_prompt(call, &ids, notes->fim.layout, &prompt, info);
    }
    if (err == ERR_OK) {
        err = call_check_context(call, prompt.count + need_of(&notes->gaps[k]), where, info);
    }
    if (err == ERR_OK) {
        *out_prompt = prompt;
    }
    return err;
}

/* A text far too long is refused before it is tokenized once for every gap. */
static enum err check_length(
    struct call *call, const struct gaps_notes *notes, struct err_info *info)
{
    int64_t tokens = 0;
    for (int32_t i = 0; i <= notes->gap_count; i++) {
        struct call_ids ids;
        enum err err = call_tokenize(call, &notes->texts[i], i > 0 ? TOKENIZE_CONTINUES : 0,
            infill_gaps_where(call), &ids, info);
        if (err != ERR_OK) {
            return err;
        }
        tokens += i < notes->gap_count ? ids.count : 0;
    }
    return tokens > (int64_t)call->model->context * 2
               ? call_check_context(call, tokens, infill_gaps_where(call), info)
               : ERR_OK;
}

/* ---- budgets ------------------------------------------------------------------------------- */

static void set_budget(struct gap *gap, int64_t room)
{
    gap->tokens_max = MIN(gap->tokens_max, room);
    gap->tokens_min = (int32_t)MIN(gap->tokens_min, gap->tokens_max);
}

/* A later prompt holds the fills before it: each gap gets what it wants as far as all later ones
 * still get a token each. */
static enum err fit_chain(struct call *call, struct gaps_notes *notes,
    const struct call_ids *prompts, struct err_info *info)
{
    int64_t given = 0;
    for (int32_t i = 0; i < notes->gap_count; i++) {
        struct gap *gap = &notes->gaps[i];
        int64_t room = INT64_MAX;
        int64_t later = 0; /* what the gaps behind this one need */
        for (int32_t k = i; k < notes->gap_count; k++) {
            later += k > i ? need_of(&notes->gaps[k]) : 0;
            room = MIN(room, call->model->context - prompts[k].count - given - later);
        }
        if (room < need_of(gap)) {
            return call_check_context(
                call, call->model->context - room + need_of(gap), infill_gaps_where(call), info);
        }
        set_budget(gap, room);
        given += gap->tokens_max;
    }
    return ERR_OK;
}

/* ---- plans --------------------------------------------------------------------------------- */

static enum err gap_item(struct call *call, const struct gaps_notes *notes, int32_t k,
    const struct call_ids *prompt, struct plan_item *item, struct err_info *info)
{
    struct gap *gap = &notes->gaps[k];
    struct plan_step *step = NULL;
    enum err err = call_array(call, 1, sizeof(*step), &step, info);
    if (err != ERR_OK) {
        return err;
    }
    set_budget(gap, call->model->context - prompt->count);
    *step = infill_step(-1, -1, (int32_t)gap->tokens_max);
    step->stop_tokens = notes->fim.stops.ids;
    step->stop_token_count = notes->fim.stops.count;
    *item = (struct plan_item){.tokens = prompt->ids,
        .token_count = prompt->count,
        .steps = step,
        .step_count = 1,
        .sampling = notes->fim.sampling};
    item->sampling.sample_index = (uint32_t)k;
    return infill_gaps_step(call, gap, step, info);
}

/* Gaps first..first + count - 1. */
static enum err plan_gaps(struct call *call, const struct gaps_notes *notes, int32_t first,
    int32_t count, const struct call_ids *prompts, struct err_info *info)
{
    struct plan_item *items = NULL;
    enum err err = call_array(call, (size_t)count, sizeof(*items), &items, info);
    for (int32_t i = 0; err == ERR_OK && i < count; i++) {
        err = gap_item(call, notes, first + i, &prompts[i], &items[i], info);
    }
    call->plan = (struct plan){.kind = KIND_INFILL, .items = items, .item_count = count};
    return err;
}

static enum err prepare(struct call *call, struct gaps_notes *notes,
    const struct sampling *sampling, struct err_info *info)
{
    notes->fim.sampling = *sampling;
    notes->chain = notes->gap_count > 1 && !notes->independent;
    notes->independent = !notes->chain;
    call->asks_more = notes->chain;
    enum err err = fim_layout(call, &notes->fim.layout, info);
    if (err == ERR_OK) {
        err =
            call_array(call, (size_t)notes->gap_count, sizeof(*notes->fills), &notes->fills, info);
    }
    if (err == ERR_OK) {
        err = call_array(call, LIMIT_STOP_TOKENS, sizeof(int32_t), &notes->fim.stops.ids, info);
    }
    if (err == ERR_OK) {
        notes->fim.stops.count = fim_stop_tokens(call->tokenizer, notes->fim.stops.ids);
    }
    return err == ERR_OK ? check_length(call, notes, info) : err;
}

enum err infill_gaps_fim_plan(struct call *call, struct gaps_notes *notes,
    const struct sampling *sampling, struct err_info *info)
{
    struct call_ids *prompts = NULL;
    enum err err = prepare(call, notes, sampling, info);
    if (err == ERR_OK) {
        err = call_array(call, (size_t)notes->gap_count, sizeof(*prompts), &prompts, info);
    }
    for (int32_t i = 0; err == ERR_OK && i < notes->gap_count; i++) {
        err = gap_prompt(call, notes, i, &prompts[i], info);
    }
    if (err == ERR_OK && notes->chain) {
        err = fit_chain(call, notes, prompts, info);
    }
    return err == ERR_OK
               ? plan_gaps(call, notes, 0, notes->chain ? 1 : notes->gap_count, prompts, info)
               : err;
}

/* ---- the next gap of a chain --------------------------------------------------------------- */

/* What prompts and replies want of a fill; the job's own results go when it is renewed. */
static enum err keep_fill(struct call *call, struct gaps_notes *notes,
    const struct step_result *step, struct err_info *info)
{
    struct step_result *fill = &notes->fills[notes->current];
    size_t count = (size_t)step->token_count;
    *fill = (struct step_result){.finish = step->finish,
        .token_count = step->token_count,
        .text_bytes = step->text_bytes,
        .stop_index = step->stop_index};
    enum err err = call_array(call, count, sizeof(float), &fill->logprobs, info);
    if (err == ERR_OK) {
        fill->text = arena_copy(call->arena, count > 0 ? step->text : "", (size_t)step->text_bytes);
        err = fill->text != NULL ? ERR_OK : call_no_memory(info);
    }
    if (err == ERR_OK && count > 0) {
        memcpy(fill->logprobs, step->logprobs, count * sizeof(float));
    }
    return err;
}

enum err infill_gaps_more(
    struct call *call, const struct job *job, bool *out_more, struct err_info *info)
{
    struct gaps_notes *notes = call->state;
    const struct item_result *result = &job->results[0];
    struct call_ids prompt;
    if (notes->current + 1 == notes->gap_count || result->err != ERR_OK) {
        return ERR_OK;
    }
    enum err err = keep_fill(call, notes, &result->steps[0], info);
    if (err == ERR_OK) {
        call_add_job(call, job);
        notes->current++;
        err = gap_prompt(call, notes, notes->current, &prompt, info);
    }
    if (err == ERR_OK) {
        bool stream = call->plan.stream;
        err = plan_gaps(call, notes, notes->current, 1, &prompt, info);
        call->plan.stream = stream;
    }
    *out_more = err == ERR_OK;
    return err;
}
