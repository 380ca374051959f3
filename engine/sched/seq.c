/*
 * The step program of one sequence (see seq.h). The decision that surprises: a token that ends a
 * gap is not fed at once. It waits in slots [stored, slot_count) until a later step needs a row
 * after it, so the last token of the last gap costs no forward pass, and a gap that begins from a
 * saved row can sample before the gap to its left is even complete in the cache.
 */
#include "engine/sched/seq.h"

#include <math.h>
#include <string.h>
#include "engine/base/assert.h"
#include "engine/plan_check.h"
#include "engine/sample/labels.h"

static const char NOT_FINITE[] = "the vector holds a number that is not finite";

static const struct plan_step *current_step(const struct seq *seq)
{
    return &seq->item->steps[seq->step];
}

static struct step_result *current_result(const struct seq *seq)
{
    return &seq->result->steps[seq->step];
}

void seq_fail(struct seq *seq, enum err err, const char *text)
{
    if (seq->err == ERR_OK) {
        seq->err = err;
        (void)err_set(&seq->result->info, err, NULL, "%s", text);
        seq->result->err = err;
    }
}

void seq_start(struct seq *seq, struct job *job, int32_t item_index, const struct seq_tools *tools)
{
    const struct plan_item *item = &job->plan.items[item_index];
    seq->job = job;
    seq->item = item;
    seq->result = &job->results[item_index];
    seq->item_index = item_index;
    seq->stack = stack_of(&tools->stacks, job->plan.kind, item->context_count);
    seq->slot_count = item->token_count;
    seq->slots_max = plan_item_slots(item);
    seq->stored = seq->taken = seq->cached = 0;
    seq->reread = item->step_count + 1;
    seq->paused = false;
    seq->park = NULL;
    seq->chosen = false;
    seq->err = ERR_OK;
    seq->step = seq->step_tokens = seq->saved_index = 0;
    seq->step_open = seq->hidden_ready = seq->vector_due = false;
    seq->saved = seq->result->saved_hidden;
    memcpy(seq->tokens, item->tokens, (size_t)item->token_count * sizeof *seq->tokens);
    for (int32_t i = 0; i < item->token_count; i++) {
        seq->slots.positions[i] = item->positions != NULL ? item->positions[i] : i;
    }
    if (item->pooling != POOLING_NONE) {
        pooling_begin(&seq->pool, item->pooling, tools->hidden, item->token_count - item->pool_from,
            seq->pool_sum);
        seq->pool.layer_norm = tools->vector_norm;
    }
}

/* Appends a token to the slot list. Its position: the step's own for a first token that has one,
 * else one after the newest slot's. */
static void append(struct seq *seq, int32_t token, bool first_of_step)
{
    const struct plan_step *step = current_step(seq);
    int32_t slot = seq->slot_count;
    int32_t position = seq->slots.positions[slot - 1] + 1;
    if (first_of_step && step->position >= 0) {
        position = step->position;
    }
    seq->tokens[slot] = token;
    seq->slots.positions[slot] = position;
    seq->slot_count++;
    seq->hidden_ready = false;
}

static void close_step(struct seq *seq)
{
    seq->saved_index += current_step(seq)->read_row >= 0;
    seq->step++;
    seq->step_tokens = 0;
    seq->step_open = false;
}

static void open_step(struct seq *seq, const struct seq_tools *tools)
{
    const struct plan_step *step = current_step(seq);
    seq->step_open = true;
    seq->step_slot = seq->slot_count;
    if (step->kind == STEP_DECODE) {
        detokenizer_init(&seq->detokenizer, tools->tokenizer, step->special_text, true);
        stop_init(&seq->stop, step->stops, step->stop_count, step->indent_min);
        ending_init(&seq->ending, step->sentence, step->behind);
        seq->border = step->border;
        seq->text_bytes = 0;
        if (step->grammar != NULL) {
            mask_state_begin(&seq->mask, step->grammar);
        }
    }
}

/* A FORCE step whose scores nobody wants, or whose first score is taken: append its tokens. */
static void append_forced(struct seq *seq)
{
    const struct plan_step *step = current_step(seq);
    struct step_result *result = current_result(seq);
    seq->step_slot = seq->slot_count;
    for (int32_t i = 0; i < step->token_count; i++) {
        append(seq, step->tokens[i], i == 0);
        result->tokens[i] = step->tokens[i];
    }
    result->token_count = step->token_count;
    result->finish = FINISH_LENGTH;
    seq->step_tokens = step->token_count;
}

/* Whether the rows behind a scored FORCE are all computed (its last row predicts nothing). */
static bool force_scored(const struct seq *seq)
{
    return seq->stored >= seq->step_slot + current_step(seq)->token_count - 1;
}

/* Whether the number the current step needs first is at hand. */
static enum seq_need need_logits(const struct seq *seq)
{
    if (seq->step_tokens == 0 && current_step(seq)->read_row >= 0) {
        return SEQ_LOGITS; /* from the saved row: nothing has to be fed */
    }
    return seq->hidden_ready ? SEQ_LOGITS : SEQ_ROWS;
}

bool seq_blocked(const struct seq *seq)
{
    return seq->job->blocked;
}

int32_t seq_prompt_end(const struct seq *seq)
{
    return MAX(seq_prompt_count(seq), seq->taken);
}

enum seq_need seq_next(struct seq *seq, const struct seq_tools *tools)
{
    if (seq->err != ERR_OK) {
        return SEQ_DONE;
    }
    int32_t index = seq->reread;
    if (seq->stored < seq_prompt_end(seq) || seq_reread(seq, &index) >= 0) {
        return SEQ_ROWS;
    }
    while (seq->step < seq->item->step_count) {
        const struct plan_step *step = current_step(seq);
        if (!seq->step_open) {
            open_step(seq, tools);
        }
        if (step->kind == STEP_FORCE && seq->step_tokens == 0 && step->top_logprobs < 0) {
            append_forced(seq);
            close_step(seq);
        } else if (step->kind == STEP_FORCE && seq->step_tokens > 0) {
            if (!force_scored(seq)) {
                return SEQ_ROWS;
            }
            close_step(seq);
        } else if (step->kind == STEP_DECODE && step->tokens_max == 0) {
            current_result(seq)->finish = FINISH_LENGTH;
            close_step(seq);
        } else if (step->kind == STEP_DECODE && seq_blocked(seq)) {
            return SEQ_WAITS;
        } else {
            return need_logits(seq);
        }
    }
    return SEQ_DONE;
}

const float *seq_logits_row(const struct seq *seq, const struct seq_tools *tools)
{
    const struct plan_step *step = current_step(seq);
    if (seq->step_tokens == 0 && step->read_row >= 0) {
        return seq->saved + (size_t)seq->saved_index * (size_t)tools->hidden;
    }
    ASSERT(seq->hidden_ready);
    return seq->hidden;
}

/* ---- consuming logits ---------------------------------------------------------------------- */

static bool is_end(const struct seq *seq, const struct seq_tools *tools, int32_t token)
{
    const struct plan_step *step = current_step(seq);
    for (int32_t i = 0; i < tools->end_count; i++) {
        if (tools->ends[i] == token) {
            return true;
        }
    }
    for (int32_t i = 0; i < step->stop_token_count; i++) {
        if (step->stop_tokens[i] == token) {
            return true;
        }
    }
    return false;
}

/* Whether a text of a grammar has come to an end that nothing can follow. */
static bool grammar_done(const struct seq *seq)
{
    return current_step(seq)->grammar != NULL && seq->mask.now.count == 0;
}

static int32_t end_tokens(
    const struct seq *seq, const struct seq_tools *tools, int32_t ends[SEQ_BANNED_MAX])
{
    const struct plan_step *step = current_step(seq);
    int32_t count = 0;
    for (int32_t i = 0; i < tools->end_count; i++) {
        ends[count++] = tools->ends[i];
    }
    for (int32_t i = 0; i < step->stop_token_count; i++) {
        ends[count++] = step->stop_tokens[i];
    }
    return count;
}

/* Tokens that may not be sampled now: ends, while the text may not end. */
static int32_t banned_tokens(
    const struct seq *seq, const struct seq_tools *tools, int32_t banned[SEQ_BANNED_MAX])
{
    const struct plan_step *step = current_step(seq);
    bool unfinished = step->grammar != NULL && !seq->mask.now.accepts;
    bool held_off = step->ban_end || unfinished || seq->step_tokens < step->tokens_min;
    return held_off ? end_tokens(seq, tools, banned) : 0;
}

/* What a token must be for the text to begin as it should. */
struct beginning {
    enum border border;
    const struct tokenizer *tokenizer;
};

static bool begins_well(const void *context, int32_t token)
{
    const struct beginning *beginning = context;
    return border_allows(beginning->border, beginning->tokenizer, token);
}

/* Text of a sampled token through the detokenizer and the stop matcher into the step's text. A
 * NULL stop list before tokens_min keeps stop strings from ending the step too early. */
static void release_text(struct seq *seq, int32_t token)
{
    const struct plan_step *step = current_step(seq);
    char *text = current_result(seq)->text;
    /* The piece is written behind the room that stop_push may still release before it. */
    char *piece = text + seq->text_bytes + seq->stop.held_count;
    size_t bytes = detokenizer_push(
        &seq->detokenizer, token, piece, detokenizer_bound(seq->detokenizer.tokenizer));
    if (step->border == BORDER_SPACE && seq->step_tokens == 1) {
        ASSERT(bytes > 0 && piece[0] == ' ');
        memmove(piece, piece + 1, --bytes);
    }
    if (seq->step_tokens < step->tokens_min) {
        seq->text_bytes += (int32_t)bytes;
        ending_skip(&seq->ending, seq->text_bytes);
        return;
    }
    char copy[LIMIT_STOP_BYTES * 4];
    size_t from = 0;
    while (from < bytes) {
        size_t part = MIN(bytes - from, sizeof copy);
        memcpy(copy, piece + from, part);
        seq->text_bytes += (int32_t)stop_push(&seq->stop, copy, part, text + seq->text_bytes);
        from += part;
    }
}

/* The step ends without a stop string: what was held back is text after all. */
static void release_rest(struct seq *seq)
{
    char *text = current_result(seq)->text;
    char rest[8];
    size_t bytes = detokenizer_end(&seq->detokenizer, false, rest, sizeof rest);
    seq->text_bytes += (int32_t)stop_push(&seq->stop, rest, bytes, text + seq->text_bytes);
    if (seq->stop.matched < 0) {
        seq->text_bytes += (int32_t)stop_end(&seq->stop, text + seq->text_bytes);
    }
}

static void push_event(struct seq *seq, const struct seq_tools *tools, int32_t token,
    int32_t text_from, enum finish finish)
{
    if (!seq->job->plan.stream) {
        return;
    }
    const struct step_result *result = current_result(seq);
    struct token_event event = {
        .item = seq->item_index,
        .step = seq->step,
        .index = seq->step_tokens - 1,
        .token = token,
        .logprob = result->logprobs[seq->step_tokens - 1],
        .special = tokenizer_is_control(tools->tokenizer, token),
        .last = finish != FINISH_NONE,
        .finish = finish,
        .text_from = text_from,
        .text_bytes = result->text_bytes - text_from,
    };
    bool pushed = ring_push(&seq->job->events, &event);
    ASSERT(pushed); /* else the job was blocked, and seq_next returned SEQ_WAITS */
}

/* The plan's time for a step is over: from its first token on, and whole lines if it says so. */
static bool predict_over(const struct seq *seq)
{
    const struct plan *plan = &seq->job->plan;
    if (plan->predict_us == 0 || seq->now_us - seq->first_us < plan->predict_us) {
        return false;
    }
    return !plan->predict_line ||
           memchr(current_result(seq)->text, '\n', (size_t)seq->text_bytes) != NULL;
}

static enum finish finish_of(const struct seq *seq, bool end)
{
    const struct plan_step *step = current_step(seq);
    if (end) {
        return FINISH_EOS;
    }
    if (seq->stop.matched >= 0 || grammar_done(seq)) {
        return FINISH_STOP_STRING;
    }
    if (seq->step_tokens >= step->tokens_max || seq->stop.outdented) {
        return FINISH_LENGTH;
    }
    return predict_over(seq) ? FINISH_TIMEOUT : FINISH_NONE;
}

/* The text of a token, if it has any of the step's: an end token has none, nor has one that begins
 * behind the end of the sentence. */
static bool take_text(struct seq *seq, const struct seq_tools *tools, int32_t token)
{
    const struct plan_step *step = current_step(seq);
    int32_t before = seq->text_bytes + seq->stop.held_count;
    if (is_end(seq, tools, token)) {
        return false;
    }
    release_text(seq, token);
    seq->border = border_after(seq->border, tools->tokenizer, token);
    ending_scan(&seq->ending, current_result(seq)->text, seq->text_bytes);
    if (step->grammar != NULL) {
        mask_state_take(&seq->mask, tools->masks, step->grammar, token);
    }
    return seq->ending.end < 0 || before < seq->ending.end;
}

/* Books a sampled token: text, event, slot, and the end of the step. */
static void take_token(struct seq *seq, const struct seq_tools *tools, int32_t token)
{
    struct step_result *result = current_result(seq);
    bool first = seq->step_tokens == 0;
    int32_t text_from = first ? 0 : result->text_bytes;
    seq->first_us = first ? seq->now_us : seq->first_us;
    result->tokens[seq->step_tokens] = token;
    seq->step_tokens++;
    result->token_count = seq->step_tokens;
    seq->result->generated_tokens++;
    bool end = !take_text(seq, tools, token);
    enum finish finish = finish_of(seq, end);
    if (finish != FINISH_NONE && seq->stop.matched < 0) {
        release_rest(seq);
        ending_scan(&seq->ending, result->text, seq->text_bytes);
        if (finish != FINISH_EOS && seq->stop.matched >= 0) {
            finish = FINISH_STOP_STRING;
        }
    }
    result->text_bytes = ending_shown(&seq->ending, result->text, seq->text_bytes);
    result->text_ends[seq->step_tokens - 1] = result->text_bytes;
    result->stop_index = seq->stop.matched;
    result->finish = finish;
    push_event(seq, tools, token, text_from, finish);
    if (!end) {
        append(seq, token, first);
    }
    if (finish != FINISH_NONE) {
        close_step(seq);
    }
}

/* What the step wants to know of the logits that `token` was sampled from. */
static void record_logprobs(
    struct seq *seq, const struct seq_tools *tools, const float *logits, double lse, int32_t token)
{
    const struct plan_step *step = current_step(seq);
    struct step_result *result = current_result(seq);
    size_t at = (size_t)seq->step_tokens;
    if (step->top_logprobs >= 0) {
        result->logprobs[at] = sample_logprob(logits, token, lse);
    }
    if (step->top_logprobs > 0) {
        (void)sample_top(logits, tools->vocab, lse, step->top_logprobs,
            result->top + at * (size_t)step->top_logprobs);
    }
    if (step->watch != NULL) {
        result->watched[at] = sample_logprob(logits, *step->watch, lse);
    }
}

/* The token of a step with a grammar. The greatest of all logits, where it fits, is the greatest of
 * those that fit, so a greedy pick mostly needs no mask. */
static enum err pick_within(struct seq *seq, const struct seq_tools *tools,
    struct sample_scratch *scratch, struct mask_walk *walk, struct sample_request *request,
    const float *logits, int32_t *out_token)
{
    const struct grammar *grammar = current_step(seq)->grammar;
    const struct kernels *kernels = tools->kernels;
    if (request->sampling->temperature == 0) {
        int32_t token;
        enum err err = sampler_pick(scratch, kernels, request, logits, tools->vocab, &token);
        if (err == ERR_OK && (is_end(seq, tools, token) ||
                                 mask_state_allows(&seq->mask, tools->masks, grammar, token))) {
            *out_token = token;
            return ERR_OK;
        }
    }
    int32_t ends[SEQ_BANNED_MAX];
    request->allowed = mask_state_get(&seq->mask, tools->masks, grammar, walk);
    request->exempt = ends;
    request->exempt_count = end_tokens(seq, tools, ends);
    return request->allowed != NULL
               ? sampler_pick(scratch, kernels, request, logits, tools->vocab, out_token)
               : ERR_LIMIT;
}

static const char *pick_problem(enum err err)
{
    return err == ERR_LIMIT ? "the form of the output can go on in more than 256 ways at once"
           : err == ERR_UNSATISFIABLE
               ? "no token may come next: the form of the output or the space before a gap, "
                 "logit_bias, stop tokens and min_tokens or ignore_eos together exclude all"
               : "no finite logit is left to sample from";
}

static void consume_decode(struct seq *seq, const struct seq_tools *tools,
    struct sample_scratch *scratch, struct mask_walk *walk, const float *logits)
{
    const struct plan_step *step = current_step(seq);
    int32_t banned[SEQ_BANNED_MAX];
    struct sample_request request = {
        .sampling = &seq->item->sampling,
        .banned = banned,
        .banned_count = banned_tokens(seq, tools, banned),
        .history = seq->tokens,
        .history_count = seq->slot_count,
        .generated_count = seq->slot_count - seq_prompt_count(seq),
        .token_index = (uint64_t)seq->result->generated_tokens,
    };
    const struct beginning beginning = {seq->border, tools->tokenizer};
    if (seq->border != BORDER_FREE) {
        request.allows_context = &beginning;
        request.allows = begins_well;
    }
    int32_t token;
    enum err err =
        step->grammar != NULL
            ? pick_within(seq, tools, scratch, walk, &request, logits, &token)
            : sampler_pick(scratch, tools->kernels, &request, logits, tools->vocab, &token);
    if (err != ERR_OK) {
        seq_fail(seq, err, pick_problem(err));
        return;
    }
    if (step->top_logprobs >= 0 || step->watch != NULL) {
        double lse = tools->kernels->log_sum_exp(logits, tools->vocab);
        record_logprobs(seq, tools, logits, lse, token);
    }
    take_token(seq, tools, token);
}

static void consume_choice(struct seq *seq, const struct seq_tools *tools, const float *logits)
{
    const struct plan_step *step = current_step(seq);
    struct step_result *result = current_result(seq);
    double lse = tools->kernels->log_sum_exp(logits, tools->vocab);
    enum err err = labels_read(logits, lse, step->choices, step->choice_count,
        result->probabilities, &result->choice, &result->confidence);
    if (err != ERR_OK) {
        seq_fail(seq, err, "a candidate's logit is not finite");
        return;
    }
    result->finish = FINISH_LENGTH;
    const struct plan_choice *winner = &step->choices[result->choice];
    for (int32_t i = 0; i < winner->token_count; i++) {
        append(seq, winner->tokens[i], i == 0);
    }
    close_step(seq);
}

void seq_consume(struct seq *seq, const struct seq_tools *tools, struct sample_scratch *scratch,
    struct mask_walk *walk, const float *logits)
{
    if (!tools->kernels->all_finite(logits, tools->vocab)) {
        seq_fail(seq, ERR_NON_FINITE, "a logit is not finite");
        return;
    }
    const struct plan_step *step = current_step(seq);
    switch (step->kind) {
    case STEP_FORCE: {
        double lse = tools->kernels->log_sum_exp(logits, tools->vocab);
        current_result(seq)->logprobs[0] = sample_logprob(logits, step->tokens[0], lse);
        append_forced(seq);
        break;
    }
    case STEP_CHOOSE:
        consume_choice(seq, tools, logits);
        break;
    case STEP_DECODE:
        consume_decode(seq, tools, scratch, walk, logits);
        break;
    }
}

/* ---- rows ---------------------------------------------------------------------------------- */

/* Whether the pooled vector needs prompt row `slot`. */
static bool pools_slot(const struct plan_item *item, int32_t slot)
{
    return item->pooling != POOLING_NONE && slot >= item->pool_from &&
           pooling_needs(
               item->pooling, slot - item->pool_from, item->token_count - item->pool_from);
}

bool seq_scores_slot(const struct seq *seq, int32_t slot)
{
    int32_t prompt = seq_prompt_count(seq);
    if (slot + 1 < prompt) {
        return seq->item->prompt_logprobs;
    }
    if (seq->step >= seq->item->step_count || seq->step_tokens == 0) {
        return false;
    }
    const struct plan_step *step = current_step(seq);
    return step->kind == STEP_FORCE && slot >= seq->step_slot &&
           slot + 1 < seq->step_slot + step->token_count;
}

bool seq_reads_slot(const struct seq *seq, int32_t slot)
{
    const struct plan_item *item = seq->item;
    if (slot < seq->taken) {
        return false;
    }
    if (slot < item->token_count) {
        if (item->token_vectors || pools_slot(item, slot)) {
            return true;
        }
        for (int32_t s = 0; s < item->step_count; s++) {
            if (item->steps[s].read_row == slot) {
                return true;
            }
        }
    }
    bool newest = slot == seq->slot_count - 1 && item->step_count > 0;
    return newest || seq_scores_slot(seq, slot);
}

void seq_take_hidden(
    struct seq *seq, const struct seq_tools *tools, int32_t slot, const float *hidden)
{
    const struct plan_item *item = seq->item;
    size_t bytes = (size_t)tools->hidden * sizeof(float);
    if (slot < item->token_count) {
        if (item->token_vectors) {
            memcpy(seq->result->vector + (size_t)slot * (size_t)tools->hidden, hidden, bytes);
        } else if (pools_slot(item, slot)) {
            pooling_skip(&seq->pool, slot - item->pool_from - seq->pool.rows);
            pooling_add(&seq->pool, hidden);
        }
        for (int32_t s = 0, saved = 0; s < item->step_count; s++) {
            if (item->steps[s].read_row == slot) {
                memcpy(seq->saved + (size_t)saved * (size_t)tools->hidden, hidden, bytes);
            }
            saved += item->steps[s].read_row >= 0;
        }
    }
    if (slot == seq->slot_count - 1) {
        memcpy(seq->hidden, hidden, bytes);
        seq->hidden_ready = true;
    }
}

void seq_take_score(
    struct seq *seq, const struct seq_tools *tools, int32_t slot, const float *logits)
{
    if (!tools->kernels->all_finite(logits, tools->vocab)) {
        seq_fail(seq, ERR_NON_FINITE, "a logit is not finite");
        return;
    }
    double lse = tools->kernels->log_sum_exp(logits, tools->vocab);
    float logprob = sample_logprob(logits, seq->tokens[slot + 1], lse);
    if (slot + 1 < seq_prompt_count(seq)) {
        int32_t top = seq->item->prompt_top;
        seq->result->prompt_logprobs[slot + 1] = logprob;
        if (top > 0) {
            (void)sample_top(logits, tools->vocab, lse, top,
                seq->result->prompt_top + (size_t)(slot + 1) * (size_t)top);
        }
    } else {
        current_result(seq)->logprobs[slot + 1 - seq->step_slot] = logprob;
    }
}

void seq_rows_stored(struct seq *seq, const struct seq_tools *tools, int32_t stored)
{
    int32_t prompt = seq_prompt_count(seq);
    bool prompt_completed = seq->taken < prompt && stored >= prompt;
    seq->stored = stored;
    seq->taken = MAX(seq->taken, stored);
    if (!prompt_completed || seq->result->vector == NULL) {
        return;
    }
    struct item_result *result = seq->result;
    enum err err = ERR_OK;
    if (seq->item->token_vectors) {
        size_t count = (size_t)result->vector_rows * (size_t)tools->hidden;
        for (size_t from = 0; from < count && err == ERR_OK; from += (size_t)tools->hidden) {
            err = tools->kernels->all_finite(result->vector + from, tools->hidden) ? ERR_OK
                                                                                   : ERR_NON_FINITE;
        }
    } else {
        pooling_skip(&seq->pool, seq->pool.rows_expected - seq->pool.rows);
        pooling_close(&seq->pool);
        seq->vector_due = true;
    }
    if (err != ERR_OK) {
        seq_fail(seq, err, NOT_FINITE);
    }
}

void seq_finish_vector(struct seq *seq, const struct seq_tools *tools)
{
    struct item_result *result = seq->result;
    seq->pool.count = tools->vector;
    enum err err =
        pooling_finish(&seq->pool, result->vector_dim, seq->item->normalize, result->vector);
    if (err != ERR_OK) {
        seq_fail(seq, err, NOT_FINITE);
    }
}

/* ---- K/V that come and go ------------------------------------------------------------------ */

int32_t seq_reuse_limit(const struct seq *seq)
{
    const struct plan_item *item = seq->item;
    int32_t block = item->context_count, last = item->token_count - 1;
    if (item->prompt_logprobs || item->token_vectors ||
        (block > 0 && item->pooling != POOLING_NONE)) {
        return 0;
    }
    int32_t limit = block == item->token_count ? block : last;
    for (int32_t s = 0; s < item->step_count; s++) {
        int32_t row = item->steps[s].read_row;
        limit = row >= block ? MIN(limit, row) : limit;
    }
    for (int32_t slot = 0; item->pooling != POOLING_NONE && slot < limit; slot++) {
        if (pools_slot(item, slot)) {
            return slot;
        }
    }
    return limit;
}

/* Vectors are asked for in bulk and once: their pages would only push out those of others. */
bool seq_shares(const struct seq *seq)
{
    return seq->item->step_count > 0 && seq->item->pooling == POOLING_NONE;
}

void seq_attach(struct seq *seq, int32_t stored)
{
    ASSERT(seq->stored == 0 && stored <= seq_prompt_end(seq));
    if (stored > seq->taken) {
        seq->cached = stored;
        seq->reread = 0;
        seq->taken = stored;
    }
    seq->stored = stored;
}

void seq_detach(struct seq *seq)
{
    seq->stored = 0;
}

/* Row that step `index` reads; behind the steps: the prompt's last row, if a step may read that for
 * want of a row of its own. */
static int32_t reread_row(const struct seq *seq, int32_t index)
{
    const struct plan_item *item = seq->item;
    if (index < item->step_count) {
        return item->steps[index].read_row;
    }
    return plan_item_saved(item) < item->step_count ? item->token_count - 1 : -1;
}

int32_t seq_reread(const struct seq *seq, int32_t *index)
{
    while (seq->stored >= seq->item->context_count && *index <= seq->item->step_count) {
        int32_t row = reread_row(seq, (*index)++);
        if (row >= 0 && row < seq->cached) {
            return row;
        }
    }
    return -1;
}
