/*
 * Plans of the gap form in mode fim: each gap is a prompt of its own, the text before it and the
 * text up to the next gap. Independent gaps are items of one job, sequential ones a chain, in
 * which the text of the fills is tokenized together with what stands around them.
 */
#include "api/infill_gaps.h"

#include <string.h>

/* ---- prompts ------------------------------------------------------------------------------- */

static enum err gap_prompt(struct call *call, const struct gaps_notes *notes, int32_t k,
    struct call_ids *out_prompt, struct err_info *info)
{
    struct bound_text before;
    struct fim_ids ids = {0};
    struct call_ids prompt = {0};
    const char *where = infill_gaps_where(call);
    enum err err = infill_gaps_before(call, notes, k, &before, info);
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
        err =
            call_check_context(call, prompt.count + infill_gaps_need(&notes->gaps[k]), where, info);
    }
    if (err == ERR_OK) {
        *out_prompt = prompt;
    }
    return err;
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
    infill_gaps_set_budget(gap, call->model->context - prompt->count);
    *step = infill_step(-1, -1, (int32_t)gap->tokens_max);
    step->stop_tokens = notes->fim.stops.ids;
    step->stop_token_count = notes->fim.stops.count;
    *item = (struct plan_item){.tokens = prompt->ids,
        .token_count = prompt->count,
        .steps = step,
        .step_count = 1,
        .sampling = notes->sampling};
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

static enum err prepare(struct call *call, struct gaps_notes *notes, struct err_info *info)
{
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
    return err == ERR_OK ? infill_gaps_check_length(call, notes, info) : err;
}

enum err infill_gaps_fim_plan(struct call *call, struct gaps_notes *notes, struct err_info *info)
{
    struct call_ids *prompts = NULL;
    int64_t fixed[LIMIT_GAPS] = {0};
    enum err err = prepare(call, notes, info);
    if (err == ERR_OK) {
        err = call_array(call, (size_t)notes->gap_count, sizeof(*prompts), &prompts, info);
    }
    for (int32_t i = 0; err == ERR_OK && i < notes->gap_count; i++) {
        err = gap_prompt(call, notes, i, &prompts[i], info);
    }
    for (int32_t i = 0; err == ERR_OK && i < notes->gap_count; i++) {
        fixed[i] = prompts[i].count;
    }
    if (err == ERR_OK && notes->chain) {
        err = infill_gaps_fit_chain(call, notes, fixed, info);
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
    struct infill_fill fill = infill_fill_of(step);
    size_t count = (size_t)fill.token_count;
    float *logprobs = NULL;
    enum err err = call_array(call, count, sizeof(*logprobs), &logprobs, info);
    if (err == ERR_OK) {
        fill.text = arena_copy(call->arena, count > 0 ? step->text : "", fill.text_bytes);
        err = fill.text != NULL ? ERR_OK : call_no_memory(info);
    }
    if (err != ERR_OK) {
        return err;
    }
    if (count > 0) {
        memcpy(logprobs, step->logprobs, count * sizeof(*logprobs));
    }
    fill.logprobs = logprobs;
    fill.tokens = NULL; /* sent, when anybody wanted them */
    notes->fills[notes->current] = fill;
    return ERR_OK;
}

enum err infill_gaps_fim_more(
    struct call *call, const struct job *job, bool *out_more, struct err_info *info)
{
    struct gaps_notes *notes = call->state;
    struct call_ids prompt;
    if (notes->current + 1 == notes->gap_count) {
        return ERR_OK;
    }
    enum err err = keep_fill(call, notes, &job->results[0].steps[0], info);
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
