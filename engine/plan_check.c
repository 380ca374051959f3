/*
 * Checks and sizes a plan (see plan_check.h). The surprising decision: results get their final
 * size here, on the submitter's thread, from what the plan *may* produce. The engine thread then
 * never allocates, and the bound on memory is known before any work is done.
 */
#include "engine/plan_check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "engine/base/checked.h"
#include "engine/sample/grammar.h"

static enum err bad(struct err_info *info, enum err code, int32_t item, int32_t step,
    const char *field, const char *text)
{
    char where[ERR_WHERE_BYTES];
    if (step < 0) {
        (void)snprintf(where, sizeof where, "items[%d].%s", item, field);
    } else {
        (void)snprintf(where, sizeof where, "items[%d].steps[%d].%s", item, step, field);
    }
    return err_set(info, code, where, "%s", text);
}

static bool ids_in_range(const int32_t *ids, int32_t count, int32_t vocab)
{
    for (int32_t i = 0; i < count; i++) {
        if (ids[i] < 0 || ids[i] >= vocab) {
            return false;
        }
    }
    return true;
}

/* Tokens a step may append. 64-bit: a hostile count must not wrap before it is judged. */
static int64_t step_tokens(const struct plan_step *step)
{
    switch (step->kind) {
    case STEP_FORCE:
        return step->token_count;
    case STEP_CHOOSE: {
        int64_t longest = 0;
        for (int32_t i = 0; i < step->choice_count; i++) {
            longest = MAX(longest, step->choices[i].token_count);
        }
        return longest;
    }
    case STEP_DECODE:
        return step->tokens_max;
    }
    return 0;
}

int32_t plan_item_slots(const struct plan_item *item)
{
    int64_t slots = item->token_count;
    for (int32_t i = 0; i < item->step_count; i++) {
        slots += step_tokens(&item->steps[i]);
    }
    return slots > INT32_MAX ? INT32_MAX : (int32_t)slots;
}

int32_t plan_item_saved(const struct plan_item *item)
{
    int32_t count = 0;
    for (int32_t i = 0; i < item->step_count; i++) {
        count += item->steps[i].read_row >= 0;
    }
    return count;
}

bool plan_item_vectors(const struct plan_item *item)
{
    return item->step_count == 0 && !item->prompt_logprobs;
}

bool plan_item_one_shot(const struct plan_item *item)
{
    return plan_item_vectors(item) && item->context_count == item->token_count;
}

static enum err check_choices(const struct plan_step *step, const struct plan_bounds *bounds,
    int32_t item, int32_t s, struct err_info *info)
{
    if (step->choice_count < 1 || step->choice_count > LIMIT_CHOICES) {
        return bad(info, ERR_LIMIT, item, s, "choices", "must hold 1 to 255 choices");
    }
    for (int32_t i = 0; i < step->choice_count; i++) {
        const struct plan_choice *choice = &step->choices[i];
        if (choice->token_count < 1 || choice->token_count > bounds->context ||
            !ids_in_range(choice->tokens, choice->token_count, bounds->vocab)) {
            return bad(info, ERR_INVALID, item, s, "choices", "a choice needs ids of the model");
        }
    }
    return ERR_OK;
}

static enum err check_decode(const struct plan_step *step, const struct plan_bounds *bounds,
    int32_t item, int32_t s, struct err_info *info)
{
    if (step->tokens_max < 0 || step->tokens_min < 0) {
        return bad(info, ERR_INVALID, item, s, "tokens_max", "must not be negative");
    }
    if (step->top_logprobs < -1 || step->top_logprobs > LIMIT_TOP_LOGPROBS) {
        return bad(info, ERR_LIMIT, item, s, "top_logprobs", "is out of range");
    }
    if (step->stop_count < 0 || step->stop_count > LIMIT_STOPS) {
        return bad(info, ERR_LIMIT, item, s, "stops", "must hold at most 16 strings");
    }
    for (int32_t i = 0; i < step->stop_count; i++) {
        if (step->stops[i].count < 1 || step->stops[i].count > LIMIT_STOP_BYTES) {
            return bad(info, ERR_LIMIT, item, s, "stops", "a string must hold 1 to 256 bytes");
        }
    }
    if (step->indent_min < 0 || step->indent_min > LIMIT_STOP_BYTES) {
        return bad(info, ERR_LIMIT, item, s, "indent_min", "must be 0 to 256");
    }
    if (step->stop_token_count < 0 || step->stop_token_count > LIMIT_STOP_TOKENS ||
        !ids_in_range(step->stop_tokens, step->stop_token_count, bounds->vocab)) {
        return bad(
            info, ERR_LIMIT, item, s, "stop_tokens", "must hold at most 16 ids of the model");
    }
    if (step->grammar != NULL && (step->border != BORDER_FREE || !grammar_valid(step->grammar))) {
        return bad(
            info, ERR_INVALID, item, s, "grammar", "has states out of range, or a space before it");
    }
    if (step->watch != NULL && !ids_in_range(step->watch, 1, bounds->vocab)) {
        return bad(info, ERR_INVALID, item, s, "watch", "must be an id of the model");
    }
    return ERR_OK;
}

static enum err check_step(const struct plan_item *item, const struct plan_bounds *bounds,
    int32_t i, int32_t s, struct err_info *info)
{
    const struct plan_step *step = &item->steps[s];
    if (step->read_row < -1 || step->read_row >= item->token_count) {
        return bad(info, ERR_INVALID, i, s, "read_row", "is not a row of the prompt");
    }
    if (step->position < -1 ||
        step->position + step_tokens(step) > (int64_t)bounds->position_max + 1) {
        return bad(info, ERR_CONTEXT, i, s, "position", "is past the model's positions");
    }
    switch (step->kind) {
    case STEP_FORCE:
        if (step->token_count < 1 || step->token_count > bounds->context ||
            !ids_in_range(step->tokens, step->token_count, bounds->vocab)) {
            return bad(info, ERR_INVALID, i, s, "tokens", "must be ids of the model");
        }
        return ERR_OK;
    case STEP_CHOOSE:
        return check_choices(step, bounds, i, s, info);
    case STEP_DECODE:
        return check_decode(step, bounds, i, s, info);
    }
    return bad(info, ERR_INVALID, i, s, "kind", "is unknown");
}

static bool sampling_valid(const struct sampling *sampling, int32_t vocab)
{
    bool finite = isfinite(sampling->temperature) && isfinite(sampling->top_p) &&
                  isfinite(sampling->min_p) && isfinite(sampling->typical_p) &&
                  isfinite(sampling->repetition_penalty) && isfinite(sampling->presence_penalty) &&
                  isfinite(sampling->frequency_penalty);
    if (!finite || sampling->temperature < 0 || sampling->repetition_penalty <= 0 ||
        sampling->logit_bias_count < 0 || sampling->logit_bias_count > LIMIT_LOGIT_BIAS ||
        sampling->sampler_count < 0 || sampling->sampler_count > SAMPLER_KIND_COUNT) {
        return false;
    }
    for (int32_t i = 0; i < sampling->logit_bias_count; i++) {
        const struct logit_bias *bias = &sampling->logit_bias[i];
        if (bias->token < 0 || bias->token >= vocab || isnan(bias->bias) ||
            bias->bias == INFINITY) {
            return false;
        }
    }
    return true;
}

static bool positions_valid(const struct plan_item *item, int32_t position_max)
{
    for (int32_t i = 0; item->positions != NULL && i < item->token_count; i++) {
        if (item->positions[i] < 0 || item->positions[i] > position_max) {
            return false;
        }
    }
    return true;
}

static bool decodes(const struct plan_item *item)
{
    for (int32_t s = 0; s < item->step_count; s++) {
        if (item->steps[s].kind == STEP_DECODE) {
            return true;
        }
    }
    return false;
}

static enum err check_item(const struct plan_item *item, const struct plan_bounds *bounds,
    int32_t i, struct err_info *info)
{
    if (item->token_count < 1) {
        return bad(info, ERR_EMPTY, i, -1, "tokens", "must hold at least one token");
    }
    if (item->step_count < 0 || item->step_count > LIMIT_STEPS) {
        return bad(info, ERR_LIMIT, i, -1, "steps", "are more than the engine takes");
    }
    if (item->token_count <= bounds->context &&
        !ids_in_range(item->tokens, item->token_count, bounds->vocab)) {
        return bad(info, ERR_INVALID, i, -1, "tokens", "must be ids of the model");
    }
    if (bounds->embeds_only && (item->step_count > 0 || item->prompt_logprobs)) {
        return bad(info, ERR_NOT_CAPABLE, i, -1, "steps", "need logits, which the model has not");
    }
    int32_t slots = plan_item_slots(item);
    if (slots > bounds->context) {
        (void)bad(info, ERR_CONTEXT, i, -1, "tokens", "do not fit the context");
        if (info != NULL) {
            info->have = slots;
            info->limit = bounds->context;
        }
        return ERR_CONTEXT;
    }
    if (item->context_count < 0 || item->context_count > item->token_count) {
        return bad(info, ERR_INVALID, i, -1, "context_count", "is not a length within the prompt");
    }
    if (!positions_valid(item, bounds->position_max)) {
        return bad(info, ERR_CONTEXT, i, -1, "positions", "are past the model's positions");
    }
    if (item->pool_from < 0 || item->pool_from >= item->token_count || item->dimensions < 0 ||
        item->dimensions > bounds->vector) {
        return bad(info, ERR_INVALID, i, -1, "pooling", "reads outside the prompt or the width");
    }
    if (item->prompt_top < 0 || item->prompt_top > LIMIT_TOP_LOGPROBS) {
        return bad(info, ERR_LIMIT, i, -1, "prompt_top", "is out of range");
    }
    if (decodes(item) && !sampling_valid(&item->sampling, bounds->vocab)) {
        return bad(info, ERR_INVALID, i, -1, "sampling", "has a value out of range");
    }
    for (int32_t s = 0; s < item->step_count; s++) {
        enum err err = check_step(item, bounds, i, s, info);
        if (err != ERR_OK) {
            return err;
        }
    }
    return ERR_OK;
}

enum err plan_check(
    const struct plan *plan, const struct plan_bounds *bounds, struct err_info *info)
{
    if (plan->item_count < 1 || plan->item_count > LIMIT_ITEMS) {
        return err_set(info, ERR_LIMIT, "items", "a plan holds 1 to %d items", LIMIT_ITEMS);
    }
    if ((unsigned)plan->kind >= KIND_COUNT) {
        return err_set(info, ERR_INVALID, "kind", "is unknown");
    }
    for (int32_t i = 0; i < plan->item_count; i++) {
        enum err err = check_item(&plan->items[i], bounds, i, info);
        if (err != ERR_OK) {
            return err;
        }
    }
    return ERR_OK;
}

/* ---- results ------------------------------------------------------------------------------- */

static bool size_step(struct arena *arena, const struct plan_step *step,
    const struct plan_bounds *bounds, struct step_result *result)
{
    result->choice = -1;
    result->stop_index = -1;
    if (step->kind == STEP_CHOOSE) {
        result->probabilities = arena_array(arena, (size_t)step->choice_count, sizeof(float));
        return result->probabilities != NULL;
    }
    size_t tokens = (size_t)step_tokens(step);
    result->tokens = arena_array(arena, tokens, sizeof(int32_t));
    result->logprobs = arena_array(arena, tokens, sizeof(float));
    if (result->tokens == NULL || result->logprobs == NULL) {
        return false;
    }
    if (step->kind == STEP_FORCE) {
        return true;
    }
    size_t text_bytes;
    if (!checked_mul(tokens, (size_t)bounds->piece_bytes_max, &text_bytes) ||
        !checked_add(text_bytes, LIMIT_STOP_BYTES + 16, &text_bytes)) {
        return false;
    }
    result->text = arena_alloc(arena, text_bytes);
    result->text_ends = arena_array(arena, tokens, sizeof(int32_t));
    if (step->top_logprobs > 0) {
        result->top =
            arena_array(arena, tokens * (size_t)step->top_logprobs, sizeof(struct token_logprob));
    }
    if (step->watch != NULL) {
        result->watched = arena_array(arena, tokens, sizeof(float));
    }
    return result->text != NULL && result->text_ends != NULL &&
           (step->top_logprobs <= 0 || result->top != NULL) &&
           (step->watch == NULL || result->watched != NULL);
}

static bool size_item(struct arena *arena, const struct plan_item *item,
    const struct plan_bounds *bounds, struct item_result *result)
{
    result->prompt_tokens = item->token_count;
    if (item->pooling != POOLING_NONE || item->token_vectors) {
        result->vector_rows = item->token_vectors ? item->token_count : 1;
        const int32_t most = item->token_vectors ? bounds->hidden : bounds->vector;
        result->vector_dim = item->token_vectors || item->dimensions == 0 ? most : item->dimensions;
        result->vector =
            arena_array(arena, (size_t)result->vector_rows * (size_t)most, sizeof(float));
        if (result->vector == NULL) {
            return false;
        }
    }
    if (item->prompt_logprobs) {
        size_t tops = (size_t)item->token_count * (size_t)item->prompt_top;
        result->prompt_logprobs = arena_array(arena, (size_t)item->token_count, sizeof(float));
        result->prompt_top = arena_array(arena, tops, sizeof(struct token_logprob));
        if (result->prompt_logprobs == NULL || result->prompt_top == NULL) {
            return false;
        }
    }
    result->steps =
        arena_array(arena, (size_t)MAX(item->step_count, 1), sizeof(struct step_result));
    if (result->steps == NULL) {
        return false;
    }
    size_t saved = (size_t)plan_item_saved(item) * (size_t)bounds->hidden;
    result->saved_hidden = arena_array(arena, saved, sizeof(float));
    if (result->saved_hidden == NULL) {
        return false;
    }
    for (int32_t s = 0; s < item->step_count; s++) {
        if (!size_step(arena, &item->steps[s], bounds, &result->steps[s])) {
            return false;
        }
    }
    return true;
}

enum err plan_size_results(struct job *job, const struct plan_bounds *bounds, struct err_info *info)
{
    struct arena *arena = &job->results_arena;
    arena_drop(arena);
    arena_init(arena, MEM_JOBS, 4096, bounds->result_bytes);
    size_t count = (size_t)job->plan.item_count;
    job->results = arena_array(arena, count, sizeof(struct item_result));
    bool fits = job->results != NULL;
    for (size_t i = 0; fits && i < count; i++) {
        fits = size_item(arena, &job->plan.items[i], bounds, &job->results[i]);
    }
    if (!fits) {
        arena_drop(arena);
        job->results = NULL;
        return err_set(info, ERR_LIMIT, "items",
            "the results of this request could pass %zu bytes or the memory there is",
            bounds->result_bytes);
    }
    return ERR_OK;
}

enum service_class plan_class(const struct plan *plan)
{
    static const enum service_class of_kind[KIND_COUNT] = {
        [KIND_EMBED] = CLASS_EMBED,
        [KIND_INFILL] = CLASS_INTERACTIVE,
        [KIND_GENERATE] = CLASS_GENERATE,
        [KIND_CLASSIFY] = CLASS_CLASSIFY,
    };
    if (plan->urgency == URGENCY_INTERACTIVE) {
        return CLASS_INTERACTIVE;
    }
    bool many = plan->kind == KIND_EMBED && plan->item_count > LIMIT_BULK_INPUTS;
    if (plan->urgency == URGENCY_BULK || many) {
        return CLASS_BULK;
    }
    return of_kind[plan->kind];
}
