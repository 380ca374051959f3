/*
 * See rerank.h. What surprises: a candidate is one token longer than a fill may be. The row
 * that would give that token says how likely the right begins behind the longest fill; the token
 * itself is dropped.
 */
#include "api/rerank.h"

#include <string.h>
#include "api/infill_reply.h"
#include "engine/base/assert.h"

/* ---- what stands around the gap ------------------------------------------------------------ */

static bool heals(const struct call *call)
{
    return ((const struct infill_request *)call->request)->heal;
}

enum err rerank_heal(
    struct call *call, struct bound_text *before, struct call_ids *out_space, struct err_info *info)
{
    const struct bound_text space = call_text(" ");
    *out_space = (struct call_ids){0};
    if (!heals(call) || before->count < 2 || before->bytes[before->count - 1] != ' ') {
        return ERR_OK;
    }
    before->count--;
    return call_tokenize(call, &space, TOKENIZE_CONTINUES, "", out_space, info);
}

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

/* Without a temperature all candidates would be the greedy one. */
static int32_t candidate_count(const struct call *call, const struct rerank_gap *gap)
{
    const struct infill_request *request = call->request;
    if (!is_judged(gap)) {
        return gap->answers;
    }
    return gap->sampling.temperature == 0 ? 1 : request->candidates;
}

static int32_t next_items(const struct call *call, const struct rerank_gap *gap)
{
    switch (gap->phase) {
    case RERANK_CANDIDATES:
        return candidate_count(call, gap);
    case RERANK_SCORES:
        return gap->fill_count;
    case RERANK_SETTLED:
        break;
    }
    return 0;
}

static void candidate_items(const struct call *call, const struct rerank_gap *gap,
    struct plan_step *step, struct plan_item *items)
{
    const struct infill_request *request = call->request;
    bool judged = is_judged(gap);
    bool greedy = !judged && !request->sampling.has_temperature;
    *step = gap->step;
    step->tokens_max += judged ? 1 : 0;
    step->watch = judged ? gap->right.ids : NULL;
    for (int32_t k = 0; k < gap->item_count; k++) {
        items[k] = (struct plan_item){.tokens = gap->left.ids,
            .token_count = gap->left.count,
            .steps = step,
            .step_count = 1,
            .sampling = gap->sampling};
        items[k].sampling.sample_index = (uint32_t)k;
        if (greedy || (judged && k == 0)) {
            items[k].sampling.temperature = 0;
        }
    }
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

enum err rerank_plan(
    struct call *call, struct rerank_gap *gaps, int32_t count, struct err_info *info)
{
    struct plan_item *items = NULL;
    struct plan_step *steps = NULL;
    int32_t item_count = 0;
    for (int32_t i = 0; i < count; i++) {
        gaps[i].item_from = item_count;
        gaps[i].item_count = next_items(call, &gaps[i]);
        item_count += gaps[i].item_count;
    }
    ASSERT(item_count > 0);
    enum err err = call_array(call, (size_t)item_count, sizeof(*items), &items, info);
    if (err == ERR_OK) {
        err = call_array(call, (size_t)count, sizeof(*steps), &steps, info);
    }
    for (int32_t i = 0; err == ERR_OK && i < count; i++) {
        if (gaps[i].phase == RERANK_CANDIDATES) {
            candidate_items(call, &gaps[i], &steps[i], items + gaps[i].item_from);
        } else if (gaps[i].phase == RERANK_SCORES) {
            score_items(call, &gaps[i], &steps[i], items + gaps[i].item_from);
        }
    }
    call->plan = (struct plan){.kind = KIND_INFILL, .items = items, .item_count = item_count};
    return err;
}

/* ---- candidates ---------------------------------------------------------------------------- */

/* The text of the first `count` tokens in the arena; ends[n] = its bytes after n of them, -1 where
 * a character is not whole. */
static enum err spell(struct call *call, const int32_t *tokens, int32_t count, int32_t *ends,
    struct bound_text *out_text, struct err_info *info)
{
    struct detokenizer detokenizer;
    struct buf text;
    size_t bound = detokenizer_bound(call->tokenizer);
    buf_init(&text, MEM_REQUESTS, (size_t)64 << 20);
    detokenizer_init(&detokenizer, call->tokenizer, false, true);
    ends[0] = 0;
    for (int32_t i = 0; i < count; i++) {
        char *room = buf_reserve(&text, bound);
        if (room == NULL) {
            break;
        }
        buf_took(&text, detokenizer_push(&detokenizer, tokens[i], room, bound));
        ends[i + 1] = detokenizer.held_count == 0 ? (int32_t)text.count : -1;
    }
    if (count > 0 && ends[count] < 0) {
        ends[count] = (int32_t)text.count; /* the whole text: what is not whole is dropped */
    }
    char *copy =
        text.failed ? NULL : arena_copy(call->arena, text.count > 0 ? text.bytes : "", text.count);
    *out_text = (struct bound_text){copy, (int32_t)text.count};
    buf_free(&text);
    return copy != NULL ? ERR_OK : call_no_memory(info);
}

/* Bytes of a candidate's text that a fill may have: up to a stop string, or to a line that
 * n_indent ends. A stop string that only the dropped token completes is not in the text. */
static int32_t text_limit(const struct rerank_gap *gap, const struct step_result *step,
    const struct bound_text *text, int32_t shift)
{
    bool stopped = step->finish == FINISH_STOP_STRING && step->token_count <= gap->step.tokens_max;
    int32_t bytes = MAX(stopped ? MIN(step->text_bytes, text->count) : text->count, shift);
    bool cut;
    size_t visible = infill_reply_visible(
        text->bytes + shift, (size_t)(bytes - shift), gap->n_indent, true, &cut);
    return shift + (int32_t)visible;
}

/* A finished candidate as what may be chosen from. */
static enum err view_candidate(struct call *call, const struct rerank_gap *gap,
    const struct step_result *step, struct choice_candidate *out, struct err_info *info)
{
    int32_t *ends = NULL;
    struct bound_text text = {0};
    int32_t count = MIN(infill_text_tokens(step), gap->step.tokens_max);
    enum err err = call_array(call, (size_t)count + 1, sizeof(*ends), &ends, info);
    if (err == ERR_OK) {
        err = spell(call, step->tokens, count, ends, &text, info);
    }
    if (err != ERR_OK) {
        return err;
    }
    *out = (struct choice_candidate){.text = text.bytes,
        .ends = ends,
        .firsts = step->watched,
        .from = gap->whole ? gap->step.tokens_max : MAX(gap->step.tokens_min, 1),
        .to = MIN(count, step->token_count - 1)};
    int32_t shift = gap->space.count > 0 ? 1 : 0;
    if (shift > 0 && (text.count == 0 || text.bytes[0] != ' ')) {
        out->to = -1;
        return ERR_OK;
    }
    int32_t limit = text_limit(gap, step, &text, shift);
    for (int32_t n = 1; n <= count; n++) {
        if (ends[n] > limit || (ends[n] <= shift && !gap->whole)) {
            ends[n] = -1;
        }
    }
    return ERR_OK;
}

/* No candidate has a cut: the greedy one as far as it is whole, which may be no token at all. */
static struct choice_cut longest_cut(const struct choice_candidate *greedy)
{
    int32_t n = MAX(greedy->to, 0);
    while (n > 0 && greedy->ends[n] < 0) {
        n--;
    }
    return (struct choice_cut){0, n};
}

/* `count` tokens of a candidate, copied, behind the left (rerank_filled). */
static enum err copy_fill(struct call *call, struct rerank_gap *gap, int32_t index,
    const struct step_result *step, int32_t count, struct err_info *info)
{
    struct infill_fill *fill = &gap->fills[index];
    const struct call_ids cut = {step->tokens, count};
    struct call_ids prompt;
    float *logprobs = NULL;
    struct token_logprob *top = NULL;
    size_t tops = (size_t)MAX(gap->step.top_logprobs, 0) * (size_t)count;
    enum err err = call_join(call, &gap->left, &cut, &prompt, info);
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
    *fill = (struct infill_fill){.tokens = prompt.ids + gap->left.count,
        .logprobs = logprobs,
        .token_count = count,
        .top = top,
        .finish = step->finish,
        .stop_index = step->stop_index};
    return ERR_OK;
}

/* Candidates shall be made again behind the space that none of them began with. */
static enum err unheal(struct call *call, struct rerank_gap *gap, struct err_info *info)
{
    enum err err = call_join(call, &gap->left, &gap->space, &gap->left, info);
    gap->space.count = 0;
    return err;
}

static enum err take_cut(struct call *call, struct rerank_gap *gap, const struct job *job,
    const struct choice_candidate *candidates, const struct choice_cut *cut, bool chosen,
    struct err_info *info)
{
    const struct step_result *step = &job->results[gap->item_from + cut->candidate].steps[0];
    struct infill_fill *fill = &gap->fills[gap->fill_count];
    int32_t shift = gap->space.count > 0 ? 1 : 0;
    enum err err = copy_fill(call, gap, gap->fill_count, step, cut->token_count, info);
    if (err != ERR_OK) {
        return err;
    }
    int32_t bytes = cut->token_count > 0 ? candidates[cut->candidate].ends[cut->token_count] : 0;
    fill->text = candidates[cut->candidate].text + shift;
    fill->text_bytes = (size_t)(bytes - shift);
    if (chosen || step->finish == FINISH_LENGTH) {
        fill->finish = cut->token_count == gap->step.tokens_max ? FINISH_LENGTH : FINISH_EOS;
    }
    gap->fill_count++;
    return ERR_OK;
}

static enum err take_candidates(
    struct call *call, struct rerank_gap *gap, const struct job *job, struct err_info *info)
{
    struct choice_candidate *candidates = NULL;
    struct choice_cut cuts[CHOICE_KEPT];
    enum err err =
        call_array(call, (size_t)gap->item_count, sizeof(*candidates), &candidates, info);
    for (int32_t k = 0; err == ERR_OK && k < gap->item_count; k++) {
        const struct step_result *step = &job->results[gap->item_from + k].steps[0];
        err = view_candidate(call, gap, step, &candidates[k], info);
    }
    if (err != ERR_OK) {
        return err;
    }
    int32_t kept = choice_keep(candidates, gap->item_count, cuts);
    bool chosen = kept > 0;
    if (!chosen && gap->space.count > 0) {
        return unheal(call, gap, info);
    }
    if (!chosen) {
        cuts[kept++] = longest_cut(&candidates[0]);
    }
    for (int32_t i = 0; err == ERR_OK && i < kept; i++) {
        err = take_cut(call, gap, job, candidates, &cuts[i], chosen, info);
    }
    gap->phase = RERANK_SCORES;
    return err;
}

/* ---- plain generation ---------------------------------------------------------------------- */

static enum err take_plain(
    struct call *call, struct rerank_gap *gap, const struct job *job, struct err_info *info)
{
    size_t shift = gap->space.count > 0 ? 1 : 0;
    enum err err = ERR_OK;
    for (int32_t k = 0; k < gap->item_count && shift > 0; k++) {
        const struct step_result *step = &job->results[gap->item_from + k].steps[0];
        if (gap->step.tokens_max > 0 && (step->text_bytes == 0 || step->text[0] != ' ')) {
            return unheal(call, gap, info);
        }
    }
    for (int32_t k = 0; err == ERR_OK && k < gap->item_count; k++) {
        const struct step_result *step = &job->results[gap->item_from + k].steps[0];
        struct infill_fill *fill = &gap->fills[k];
        err = copy_fill(call, gap, k, step, infill_text_tokens(step), info);
        size_t bytes = (size_t)step->text_bytes - MIN(shift, (size_t)step->text_bytes);
        if (err == ERR_OK) {
            fill->text = arena_copy(call->arena, bytes > 0 ? step->text + shift : "", bytes);
            fill->text_bytes = bytes;
            fill->score = choice_score(NULL, 0, fill->logprobs, fill->token_count);
            err = fill->text != NULL ? ERR_OK : call_no_memory(info);
        }
    }
    gap->fill_count = gap->item_count;
    gap->phase = RERANK_SETTLED;
    return err;
}

/* ---- scores -------------------------------------------------------------------------------- */

/* Best first; equals stay in the order of their first scores. */
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

enum err rerank_take(struct call *call, struct rerank_gap *gaps, int32_t count,
    const struct job *job, bool *out_settled, struct err_info *info)
{
    enum err err = ERR_OK;
    bool settled = true;
    for (int32_t i = 0; err == ERR_OK && i < count; i++) {
        if (gaps[i].phase == RERANK_SCORES) {
            take_scores(&gaps[i], job);
        } else if (gaps[i].phase == RERANK_CANDIDATES) {
            err = is_judged(&gaps[i]) ? take_candidates(call, &gaps[i], job, info)
                                      : take_plain(call, &gaps[i], job, info);
        }
        settled = settled && gaps[i].phase == RERANK_SETTLED;
    }
    *out_settled = settled;
    return err;
}
