/*
 * See rerank.h. What surprises: a candidate is one token longer than a fill may be. The row
 * that would give that token says how likely the right begins behind the longest fill; the token
 * itself is dropped.
 */
#include "api/rerank.h"

#include <string.h>
#include "engine/base/assert.h"

/* ---- what stands around the gap ------------------------------------------------------------ */

struct call_ids rerank_filled(const struct rerank_gap *gap, int32_t index)
{
    const struct infill_fill *fill = &gap->fills[index];
    return (struct call_ids){fill->tokens - gap->left.count, gap->left.count + fill->token_count};
}

int64_t rerank_fixed(const struct rerank_gap *gap)
{
    return (int64_t)gap->left.count + gap->space.count + gap->right.count;
}

/* Whether there is anything to judge a fill by. */
static bool is_judged(const struct rerank_gap *gap)
{
    return gap->right.count > 0 && gap->step.tokens_max > 0;
}

/* ---- plans --------------------------------------------------------------------------------- */

static int32_t next_items(const struct rerank_gap *gap)
{
    switch (gap->phase) {
    case RERANK_GREEDY:
        return is_judged(gap) ? 1 : gap->answers;
    case RERANK_BRANCHES:
        return gap->branches.count;
    case RERANK_SCORES:
        return gap->fill_count;
    case RERANK_SETTLED:
        break;
    }
    return 0;
}

/* Alternatives that are asked of the greedy candidate. */
static int32_t greedy_tops(const struct call *call, const struct rerank_gap *gap)
{
    const struct infill_request *request = call->request;
    int32_t wanted = gap->step.top_logprobs;
    return request->candidates > 1 ? MAX(wanted, CHOICE_ALTERNATIVES) : wanted;
}

static void greedy_items(const struct call *call, const struct rerank_gap *gap,
    struct plan_step *step, struct plan_item *items)
{
    bool judged = is_judged(gap);
    *step = gap->step;
    if (judged) {
        step->tokens_max += 1;
        step->watch = gap->right.ids;
        step->top_logprobs = greedy_tops(call, gap);
    }
    for (int32_t k = 0; k < gap->item_count; k++) {
        items[k] = (struct plan_item){.tokens = gap->left.ids,
            .token_count = gap->left.count,
            .steps = step,
            .step_count = 1,
            .sampling = gap->sampling};
        items[k].sampling.sample_index = (uint32_t)k;
        if (judged) {
            items[k].sampling.temperature = 0;
        }
    }
}

/* What an item must begin with that goes on behind these tokens of a fill. */
static enum border border_behind_fill(
    const struct call *call, const struct rerank_gap *gap, const struct call_ids *fill)
{
    enum border border = gap->step.border;
    for (int32_t i = 0; i < fill->count; i++) {
        border = border_after(border, call->tokenizer, fill->ids[i]);
    }
    return border;
}

/* Left, then the greedy candidate up to the branch, then the branch's token. */
static enum err branch_items(struct call *call, const struct rerank_gap *gap,
    struct plan_step *steps, struct plan_item *items, struct err_info *info)
{
    enum err err = ERR_OK;
    for (int32_t k = 0; err == ERR_OK && k < gap->item_count; k++) {
        const struct choice_branch *branch = &gap->branches.list[k];
        int32_t own = branch->at + 1;
        int32_t token = branch->token;
        const struct call_ids begin = {gap->candidates[0].tokens.ids, branch->at};
        const struct call_ids other = {&token, 1};
        struct call_ids fill = {0}, prompt = {0};
        err = call_join(call, &begin, &other, &fill, info);
        if (err == ERR_OK) {
            err = call_join(call, &gap->left, &fill, &prompt, info);
        }
        steps[k] = gap->step;
        steps[k].border = border_behind_fill(call, gap, &fill);
        steps[k].tokens_max += 1 - own;
        steps[k].tokens_min = MAX(steps[k].tokens_min - own, 0);
        steps[k].watch = gap->right.ids;
        items[k] = (struct plan_item){.tokens = prompt.ids,
            .token_count = prompt.count,
            .steps = &steps[k],
            .step_count = 1,
            .sampling = gap->sampling};
        items[k].sampling.sample_index = (uint32_t)k + 1;
    }
    return err;
}

static void score_items(struct call *call, const struct rerank_gap *gap, struct plan_step *step,
    struct plan_item *items)
{
    *step = (struct plan_step){.kind = STEP_FORCE,
        .read_row = -1,
        .position = -1,
        .tokens = gap->right.ids,
        .token_count = gap->right.count};
    for (int32_t i = 0; i < gap->item_count; i++) {
        struct call_ids filled = rerank_filled(gap, i);
        items[i] = (struct plan_item){
            .tokens = filled.ids, .token_count = filled.count, .steps = step, .step_count = 1};
        call->before.prompt += gap->right.count; /* fed, and in no prompt */
    }
}

static enum err gap_items(struct call *call, const struct rerank_gap *gap, struct plan_step *steps,
    struct plan_item *items, struct err_info *info)
{
    switch (gap->phase) {
    case RERANK_GREEDY:
        greedy_items(call, gap, steps, items);
        break;
    case RERANK_BRANCHES:
        return branch_items(call, gap, steps, items, info);
    case RERANK_SCORES:
        score_items(call, gap, steps, items);
        break;
    case RERANK_SETTLED:
        break;
    }
    return ERR_OK;
}

enum err rerank_plan(
    struct call *call, struct rerank_gap *gaps, int32_t count, struct err_info *info)
{
    struct plan_item *items = NULL;
    struct plan_step *steps = NULL;
    int32_t item_count = 0;
    for (int32_t i = 0; i < count; i++) {
        gaps[i].item_from = item_count;
        gaps[i].item_count = next_items(&gaps[i]);
        item_count += gaps[i].item_count;
    }
    ASSERT(item_count > 0);
    enum err err = call_array(call, (size_t)item_count, sizeof(*items), &items, info);
    if (err == ERR_OK) {
        err = call_array(call, (size_t)item_count, sizeof(*steps), &steps, info);
    }
    for (int32_t i = 0; err == ERR_OK && i < count; i++) {
        int32_t from = gaps[i].item_from;
        err = gap_items(call, &gaps[i], steps + from, items + from, info);
    }
    call->plan = (struct plan){.kind = KIND_INFILL, .items = items, .item_count = item_count};
    return err;
}

/* ---- candidates ---------------------------------------------------------------------------- */

static struct rerank_rules rules_of(const struct rerank_gap *gap)
{
    return (struct rerank_rules){
        .step = &gap->step, .whole = gap->whole, .n_indent = gap->n_indent};
}

/* `count` tokens of a candidate, behind the left (rerank_filled). */
static enum err take_cut(struct call *call, struct rerank_gap *gap, const struct choice_cut *cut,
    bool chosen, struct err_info *info)
{
    const struct rerank_candidate *candidate = &gap->candidates[cut->candidate];
    const struct call_ids tokens = {candidate->tokens.ids, cut->token_count};
    struct call_ids prompt;
    int32_t bytes = cut->token_count > 0 ? candidate->view.ends[cut->token_count] : 0;
    enum finish finish = candidate->finish;
    enum err err = call_join(call, &gap->left, &tokens, &prompt, info);
    if (err != ERR_OK) {
        return err;
    }
    if (gap->step.sentence) { /* the one cut there is */
        finish = candidate->ending.end >= 0 ? FINISH_EOS : finish;
    } else if (chosen || finish == FINISH_LENGTH) {
        finish = cut->token_count == gap->step.tokens_max ? FINISH_LENGTH : FINISH_EOS;
    }
    gap->fills[gap->fill_count++] = (struct infill_fill){.text = candidate->text.bytes,
        .text_bytes = (size_t)bytes,
        .tokens = prompt.ids + gap->left.count,
        .logprobs = candidate->view.logprobs,
        .token_count = cut->token_count,
        .top = candidate->top,
        .finish = finish,
        .stop_index = candidate->stop_index};
    return ERR_OK;
}

/* As far as the greedy candidate came. A fill of no token does not begin with the space, which is
 * the left's again. */
static enum err take_longest(struct call *call, struct rerank_gap *gap, struct err_info *info)
{
    struct choice_cut cut = rerank_candidate_longest(&gap->candidates[0]);
    enum err err = ERR_OK;
    if (cut.token_count == 0) {
        err = call_join(call, &gap->left, &gap->space, &gap->left, info);
    }
    return err == ERR_OK ? take_cut(call, gap, &cut, false, info) : err;
}

static enum err choose(struct call *call, struct rerank_gap *gap, struct err_info *info)
{
    struct choice_candidate views[CHOICE_BRANCHES_MAX + 1];
    struct choice_cut cuts[CHOICE_SCORED_MAX];
    for (int32_t k = 0; k < gap->candidate_count; k++) {
        views[k] = gap->candidates[k].view;
    }
    int32_t wanted = MAX(gap->answers, CHOICE_SCORED);
    int32_t kept = choice_keep(views, gap->candidate_count, wanted, cuts);
    enum err err = kept == 0 ? take_longest(call, gap, info) : ERR_OK;
    for (int32_t i = 0; err == ERR_OK && i < kept; i++) {
        err = take_cut(call, gap, &cuts[i], true, info);
    }
    gap->phase = RERANK_SCORES;
    return err;
}

static enum err take_greedy(
    struct call *call, struct rerank_gap *gap, const struct job *job, struct err_info *info)
{
    const struct infill_request *request = call->request;
    const struct step_result *result = &job->results[gap->item_from].steps[0];
    const struct rerank_rules rules = rules_of(gap);
    int32_t tops = greedy_tops(call, gap);
    enum err err = call_array(
        call, (size_t)request->candidates, sizeof(*gap->candidates), &gap->candidates, info);
    if (err == ERR_OK) {
        err = rerank_candidate_read(
            call, &rules, result, tops, NULL, NULL, &gap->candidates[0], info);
    }
    if (err != ERR_OK) {
        return err;
    }
    gap->candidate_count = 1;
    gap->branches = (struct choice_branches){.count_max = (int32_t)request->candidates - 1};
    if (gap->branches.count_max > 0 && result->finish != FINISH_TIMEOUT) {
        rerank_candidate_branches(
            call, &rules, &gap->candidates[0], result, tops, &gap->sampling, &gap->branches);
    }
    if (gap->branches.count > 0) {
        gap->phase = RERANK_BRANCHES;
        return ERR_OK;
    }
    return choose(call, gap, info);
}

static enum err take_branches(
    struct call *call, struct rerank_gap *gap, const struct job *job, struct err_info *info)
{
    const struct rerank_rules rules = rules_of(gap);
    for (int32_t k = 0; k < gap->item_count; k++) {
        const struct step_result *result = &job->results[gap->item_from + k].steps[0];
        enum err err =
            rerank_candidate_read(call, &rules, result, gap->step.top_logprobs, &gap->candidates[0],
                &gap->branches.list[k], &gap->candidates[gap->candidate_count], info);
        if (err != ERR_OK) {
            return err;
        }
        gap->candidate_count++;
    }
    return choose(call, gap, info);
}

/* ---- plain generation ---------------------------------------------------------------------- */

/* What an item wrote, copied, behind the left (rerank_filled). */
static enum err copy_plain(struct call *call, struct rerank_gap *gap, int32_t index,
    const struct step_result *step, struct err_info *info)
{
    int32_t count = infill_text_tokens(step);
    const struct call_ids written = {step->tokens, count};
    struct call_ids prompt;
    float *logprobs = NULL;
    struct token_logprob *top = NULL;
    size_t bytes = (size_t)step->text_bytes;
    size_t tops = (size_t)MAX(gap->step.top_logprobs, 0) * (size_t)count;
    const char *text = arena_copy(call->arena, bytes > 0 ? step->text : "", bytes);
    enum err err = text != NULL ? ERR_OK : call_no_memory(info);
    if (err == ERR_OK) {
        err = call_join(call, &gap->left, &written, &prompt, info);
    }
    if (err == ERR_OK) {
        err = call_array(call, (size_t)count, sizeof(*logprobs), &logprobs, info);
    }
    if (err == ERR_OK) {
        err = call_array(call, tops, sizeof(*top), &top, info);
    }
    if (err != ERR_OK) {
        return err;
    }
    if (count > 0) {
        memcpy(logprobs, step->logprobs, (size_t)count * sizeof(*logprobs));
    }
    if (tops > 0) {
        memcpy(top, step->top, tops * sizeof(*top));
    }
    gap->fills[index] = (struct infill_fill){.text = text,
        .text_bytes = bytes,
        .tokens = prompt.ids + gap->left.count,
        .logprobs = logprobs,
        .token_count = count,
        .top = top,
        .finish = step->finish,
        .stop_index = step->stop_index,
        .score = choice_score(NULL, 0, logprobs, count)};
    return ERR_OK;
}

static enum err take_plain(
    struct call *call, struct rerank_gap *gap, const struct job *job, struct err_info *info)
{
    enum err err = ERR_OK;
    for (int32_t k = 0; err == ERR_OK && k < gap->item_count; k++) {
        err = copy_plain(call, gap, k, &job->results[gap->item_from + k].steps[0], info);
    }
    gap->fill_count = gap->item_count;
    gap->phase = RERANK_SETTLED;
    return err;
}

/* ---- scores -------------------------------------------------------------------------------- */

/* Best first; equals stay in the order they were kept in. */
static void take_scores(struct rerank_gap *gap, const struct job *job)
{
    for (int32_t i = 0; i < gap->fill_count; i++) {
        const struct step_result *step = &job->results[gap->item_from + i].steps[0];
        struct infill_fill fill = gap->fills[i];
        fill.score =
            choice_score(step->logprobs, gap->right.count, fill.logprobs, fill.token_count);
        int32_t at = i;
        for (; at > 0 && gap->fills[at - 1].score < fill.score; at--) {
            gap->fills[at] = gap->fills[at - 1];
        }
        gap->fills[at] = fill;
    }
    gap->phase = RERANK_SETTLED;
}

static enum err take_gap(
    struct call *call, struct rerank_gap *gap, const struct job *job, struct err_info *info)
{
    switch (gap->phase) {
    case RERANK_GREEDY:
        return is_judged(gap) ? take_greedy(call, gap, job, info)
                              : take_plain(call, gap, job, info);
    case RERANK_BRANCHES:
        return take_branches(call, gap, job, info);
    case RERANK_SCORES:
        take_scores(gap, job);
        break;
    case RERANK_SETTLED:
        break;
    }
    return ERR_OK;
}

enum err rerank_take(struct call *call, struct rerank_gap *gaps, int32_t count,
    const struct job *job, bool *out_settled, struct err_info *info)
{
    enum err err = ERR_OK;
    bool settled = true;
    for (int32_t i = 0; err == ERR_OK && i < count; i++) {
        err = take_gap(call, &gaps[i], job, info);
        settled = settled && gaps[i].phase == RERANK_SETTLED;
    }
    *out_settled = settled;
    return err;
}
