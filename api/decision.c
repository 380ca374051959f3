/* Decisions by reading or by forcing; see decision.h. */
#include "api/decision.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "engine/base/assert.h"

enum err decision_list_init(struct call *call, struct decision_list *list, struct err_info *info)
{
    list->item_count = 0;
    return call_array(call, LIMIT_ITEMS, sizeof(*list->items), &list->items, info);
}

enum err decision_codes(
    struct call *call, int32_t count, const char ***out_codes, struct err_info *info)
{
    const char **codes = NULL;
    ASSERT(count <= 26 + 26 * 26);
    enum err err = call_array(call, (size_t)count, sizeof(*codes), &codes, info);
    for (int32_t i = 0; err == ERR_OK && i < count; i++) {
        char high = (char)('A' + (i - 26) / 26);
        codes[i] = i < 26 ? arena_printf(call->arena, " %c", 'A' + i)
                          : arena_printf(call->arena, " %c%c", high, 'A' + (i - 26) % 26);
        err = codes[i] != NULL ? ERR_OK : call_no_memory(info);
    }
    if (err == ERR_OK) {
        *out_codes = codes;
    }
    return err;
}

/* ---- adding -------------------------------------------------------------------------------- */

static enum err add_item(struct call *call, struct decision_list *list, const struct call_ids *ids,
    const struct plan_step *steps, int32_t step_count, const char *where, struct err_info *info)
{
    int64_t tokens = ids->count;
    for (int32_t i = 0; i < step_count; i++) {
        int32_t longest = steps[i].token_count;
        for (int32_t k = 0; k < steps[i].choice_count; k++) {
            longest = MAX(longest, steps[i].choices[k].token_count);
        }
        tokens += longest;
    }
    if (list->item_count == LIMIT_ITEMS) {
        return call_fail(info, ERR_LIMIT, "too_many_inputs", where,
            "the request asks more than %d questions", LIMIT_ITEMS);
    }
    list->items[list->item_count++] = (struct plan_item){
        .tokens = ids->ids, .token_count = ids->count, .steps = steps, .step_count = step_count};
    return call_check_context(call, tokens, where, info);
}

/* One item an option: the line and the whole option are forced, a line break ends the option so
 * that "A" is not the beginning of "AA". */
static enum err add_forced(struct call *call, struct decision_list *list,
    const struct call_ids *ids, const char *line, const char *const *options, int32_t count,
    const char *where, struct err_info *info)
{
    struct plan_step *steps = NULL;
    struct bound_text line_text = call_text(line);
    struct call_ids line_ids;
    enum err err = call_array(call, (size_t)count * 2, sizeof(*steps), &steps, info);
    if (err == ERR_OK) {
        err = call_tokenize(call, &line_text, TOKENIZE_CONTINUES, where, &line_ids, info);
    }
    for (int32_t i = 0; err == ERR_OK && i < count; i++) {
        const char *option = arena_printf(call->arena, "%s\n", options[i]);
        if (option == NULL) {
            return call_no_memory(info);
        }
        struct bound_text text = call_text(option);
        struct call_ids option_ids;
        err = call_tokenize(call, &text, TOKENIZE_CONTINUES, where, &option_ids, info);
        if (err == ERR_OK) {
            steps[2 * i] = (struct plan_step){.kind = STEP_FORCE,
                .read_row = -1,
                .position = -1,
                .tokens = line_ids.ids,
                .token_count = line_ids.count,
                .top_logprobs = -1};
            steps[2 * i + 1] = (struct plan_step){.kind = STEP_FORCE,
                .read_row = -1,
                .position = -1,
                .tokens = option_ids.ids,
                .token_count = option_ids.count};
            err = add_item(call, list, ids, &steps[2 * i], 2, where, info);
        }
    }
    return err;
}

enum err decision_add(struct call *call, struct decision_list *list,
    const struct prompt_part *parts, int32_t part_count, const char *line,
    const char *const *options, int32_t option_count, const char *where,
    struct decision *out_decision, struct err_info *info)
{
    struct call_ids ids;
    struct plan_step *steps = NULL;
    struct decision decision = {.first_item = list->item_count, .option_count = option_count};
    enum err err = prompt_render(call, parts, part_count, where, &ids, info);
    if (err == ERR_OK) {
        err = call_array(call, 2, sizeof(*steps), &steps, info);
    }
    if (err != ERR_OK) {
        return err;
    }
    err = prompt_line(call, line, options, option_count, steps, info);
    if (err == ERR_OK) {
        err = add_item(call, list, &ids, steps, 2, where, info);
    } else if (err == ERR_NOT_CAPABLE) { /* not told apart by one token */
        decision.forced = true;
        err = add_forced(call, list, &ids, line, options, option_count, where, info);
    }
    if (err == ERR_OK) {
        *out_decision = decision;
    }
    return err;
}

/* ---- reading ------------------------------------------------------------------------------- */

static void read_forced(
    const struct job *job, const struct decision *decision, struct decision_result *result)
{
    double best = -INFINITY;
    for (int32_t pass = 0; pass < 2; pass++) { /* find the best, then sum relative to it */
        double sum = 0;
        for (int32_t i = 0; i < decision->option_count; i++) {
            const struct step_result *step = &job->results[decision->first_item + i].steps[1];
            double score = 0;
            for (int32_t k = 0; k < step->token_count; k++) {
                score += (double)step->logprobs[k];
            }
            if (pass == 0 && score > best) {
                best = score;
                result->choice = i;
            }
            double share = exp(score - best);
            result->probabilities[i] = (float)share;
            sum += share;
        }
        for (int32_t i = 0; pass == 1 && i < decision->option_count; i++) {
            result->probabilities[i] = (float)((double)result->probabilities[i] / sum);
        }
    }
    result->confidence = (float)exp(best);
}

enum err decision_read(struct call *call, const struct job *job, const struct decision *decision,
    struct decision_result *out_result, struct err_info *info)
{
    struct decision_result result = {0};
    size_t count = (size_t)decision->option_count;
    enum err err = call_array(call, count, sizeof(float), &result.probabilities, info);
    if (err != ERR_OK) {
        return err;
    }
    if (decision->forced) {
        read_forced(job, decision, &result);
    } else {
        const struct step_result *step = &job->results[decision->first_item].steps[1];
        memcpy(result.probabilities, step->probabilities, count * sizeof(float));
        result.choice = step->choice;
        result.confidence = step->confidence;
    }
    *out_result = result;
    return ERR_OK;
}
