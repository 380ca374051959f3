/*
 * See rerank_candidate.h. What surprises: stop strings are looked for once more. The engine sees
 * only what an item wrote itself, and a stop string may begin before that.
 */
#include "api/rerank_candidate.h"

#include <math.h>
#include <string.h>
#include "engine/base/assert.h"

/* ---- tokens -------------------------------------------------------------------------------- */

/* Arrays of a candidate while they are filled. */
struct parts {
    int32_t *tokens, *ends;
    float *logprobs, *firsts;
    struct token_logprob *top;
    int32_t count, own; /* tokens; those of the greedy candidate and the branch */
};

static enum err make_parts(struct call *call, const struct rerank_rules *rules,
    const struct step_result *result, const struct choice_branch *branch, struct parts *parts,
    struct err_info *info)
{
    int32_t own = branch != NULL ? branch->at + 1 : 0;
    int32_t count = MIN(own + infill_text_tokens(result), rules->step->tokens_max);
    size_t tops = (size_t)MAX(rules->step->top_logprobs, 0) * ((size_t)count + 1);
    *parts = (struct parts){.count = count, .own = own};
    enum err err = call_array(call, (size_t)count, sizeof(*parts->tokens), &parts->tokens, info);
    if (err == ERR_OK) {
        err = call_array(call, (size_t)count + 1, sizeof(*parts->ends), &parts->ends, info);
    }
    if (err == ERR_OK) {
        err = call_array(call, (size_t)count, sizeof(*parts->logprobs), &parts->logprobs, info);
    }
    if (err == ERR_OK) {
        err = call_array(call, (size_t)count + 1, sizeof(*parts->firsts), &parts->firsts, info);
    }
    if (err == ERR_OK) {
        err = call_array(call, tops, sizeof(*parts->top), &parts->top, info);
    }
    return err;
}

static void take_begin(struct parts *parts, int32_t tops, const struct rerank_candidate *greedy,
    const struct choice_branch *branch)
{
    size_t at = (size_t)branch->at;
    ASSERT(branch->at < parts->count);
    if (at > 0) {
        memcpy(parts->tokens, greedy->tokens.ids, at * sizeof(*parts->tokens));
        memcpy(parts->logprobs, greedy->view.logprobs, at * sizeof(*parts->logprobs));
    }
    parts->tokens[at] = branch->token;
    parts->logprobs[at] = branch->logprob;
    if (tops > 0) { /* the branch's own alternatives are those of the token it stands for */
        memcpy(parts->top, greedy->top, (at + 1) * (size_t)tops * sizeof(*parts->top));
    }
}

/* What is known of every row: also of the one that ended the text, or would have gone on. */
static void take_written(
    struct parts *parts, const struct step_result *result, int32_t tops, int32_t tops_wanted)
{
    for (int32_t i = 0; i < result->token_count && parts->own + i <= parts->count; i++) {
        int32_t at = parts->own + i;
        if (at < parts->count) {
            parts->tokens[at] = result->tokens[i];
            parts->logprobs[at] = result->logprobs[i];
        }
        parts->firsts[at] = result->watched[i];
        if (tops_wanted > 0) {
            memcpy(parts->top + (size_t)at * (size_t)tops_wanted,
                result->top + (size_t)i * (size_t)tops, (size_t)tops_wanted * sizeof(*parts->top));
        }
    }
}

/* ---- text ---------------------------------------------------------------------------------- */

/* Where the text first holds the string, -1 = nowhere. */
static int32_t find(const char *text, int32_t bytes, const struct stop_string *part)
{
    for (int32_t at = 0; at + part->count <= bytes; at++) {
        if (memcmp(text + at, part->bytes, (size_t)part->count) == 0) {
            return at;
        }
    }
    return -1;
}

/* Bytes before the stop string that ends first, of several the longest, from byte `from` on. */
static int32_t shown_bytes(
    const struct plan_step *step, const char *text, int32_t bytes, int32_t from)
{
    int32_t end = bytes, shown = bytes;
    for (int32_t i = 0; i < step->stop_count; i++) {
        const struct stop_string *stop = &step->stops[i];
        int32_t at = find(text + from, bytes - from, stop);
        if (at >= 0 && (from + at + stop->count < end ||
                           (from + at + stop->count == end && from + at < shown))) {
            shown = from + at;
            end = shown + stop->count;
        }
    }
    return shown;
}

/* The text of all tokens in the arena, and its ending. ends[n] = its bytes after n of them, -1 if
 * a character is not whole. *out_shown: bytes before a stop string behind tokens_min. */
static enum err spell(struct call *call, const struct plan_step *step, const struct parts *parts,
    struct rerank_candidate *out, int32_t *out_shown, struct err_info *info)
{
    struct ending ending;
    struct detokenizer detokenizer;
    struct buf text;
    size_t bound = detokenizer_bound(call->tokenizer), from = 0;
    buf_init(&text, MEM_REQUESTS, (size_t)64 << 20);
    detokenizer_init(&detokenizer, call->tokenizer, false, true);
    ending_init(&ending, step->sentence, step->behind);
    for (int32_t i = 0; i < parts->count; i++) {
        char *room = buf_reserve(&text, bound);
        if (room == NULL) {
            break;
        }
        size_t bytes = detokenizer_push(&detokenizer, parts->tokens[i], room, bound);
        if (i == 0 && step->border == BORDER_SPACE) {
            ASSERT(bytes > 0 && room[0] == ' ');
            memmove(room, room + 1, --bytes);
        }
        buf_took(&text, bytes);
        parts->ends[i + 1] = detokenizer.held_count == 0 ? (int32_t)text.count : -1;
        from = i < step->tokens_min ? text.count : from;
        if (i + 1 < step->tokens_min) {
            ending_skip(&ending, (int32_t)text.count);
        }
    }
    if (parts->count > 0 && parts->ends[parts->count] < 0) {
        parts->ends[parts->count] = (int32_t)text.count; /* what is not whole is dropped */
    }
    const char *copy =
        text.failed ? NULL : arena_copy(call->arena, text.count > 0 ? text.bytes : "", text.count);
    int32_t count = (int32_t)text.count;
    buf_free(&text);
    if (copy == NULL) {
        return call_no_memory(info);
    }
    *out_shown = shown_bytes(step, copy, count, (int32_t)from);
    ending_scan(&ending, copy, *out_shown);
    out->text = (struct bound_text){copy, count};
    out->ending = ending;
    return ERR_OK;
}

/* Bytes up to the first line behind the first that is indented by fewer than n_indent columns. The
 * engine stops there too, but takes the line in which a branch begins for the first. */
static int32_t indented_bytes(const char *text, int32_t bytes, int32_t n_indent)
{
    const char *end = text + bytes;
    for (const char *line = memchr(text, '\n', (size_t)bytes); line != NULL;) {
        const char *at = ++line;
        while (at < end && (*at == ' ' || *at == '\t')) {
            at++;
        }
        if (at < end && *at != '\n' && *at != '\r' && at - line < n_indent) {
            return (int32_t)(line - text);
        }
        line = memchr(at, '\n', (size_t)(end - at));
    }
    return bytes;
}

/* ---- candidates ---------------------------------------------------------------------------- */

/* No cut where the text may not end. */
static void bar_ends(const struct rerank_rules *rules, const struct bound_text *text, int32_t shown,
    struct parts *parts)
{
    struct ending ending;
    int32_t limit = indented_bytes(text->bytes, shown, rules->n_indent);
    ending_init(&ending, false, rules->step->behind);
    for (int32_t n = 1; n <= parts->count; n++) {
        int32_t end = parts->ends[n];
        int32_t bare = end > 0 ? ending_shown(&ending, text->bytes, end) : end;
        bool good = rules->whole || (bare > 0 && bare == end);
        parts->ends[n] = good && end <= limit ? bare : -1;
    }
}

/* A sentence has one cut, which is where it ends: behind the first token that reaches its end, or
 * as far as the text comes. */
static void cut_sentence(struct rerank_candidate *candidate, int32_t *ends)
{
    struct choice_candidate *view = &candidate->view;
    int32_t end = ending_shown(&candidate->ending, candidate->text.bytes, candidate->text.count);
    int32_t n = view->to;
    while (n > view->from && ends[n] < 0) {
        n--;
    }
    while (n > view->from && ends[n - 1] >= end) {
        n--;
    }
    if (view->to >= view->from) {
        ends[n] = MIN(ends[n], end);
        view->from = view->to = n;
    }
}

enum err rerank_candidate_read(struct call *call, const struct rerank_rules *rules,
    const struct step_result *result, int32_t tops, const struct rerank_candidate *greedy,
    const struct choice_branch *branch, struct rerank_candidate *out, struct err_info *info)
{
    struct parts parts;
    int32_t shown = 0, wanted = rules->step->top_logprobs;
    enum err err = make_parts(call, rules, result, branch, &parts, info);
    if (err != ERR_OK) {
        return err;
    }
    if (branch != NULL) {
        take_begin(&parts, wanted, greedy, branch);
    }
    take_written(&parts, result, tops, wanted);
    *out = (struct rerank_candidate){.tokens = {parts.tokens, parts.count},
        .top = parts.top,
        .finish = result->finish,
        .stop_index = result->stop_index};
    err = spell(call, rules->step, &parts, out, &shown, info);
    if (err != ERR_OK) {
        return err;
    }
    int32_t from = MAX(MAX(rules->step->tokens_min, 1), parts.own);
    bar_ends(rules, &out->text, shown, &parts);
    out->view = (struct choice_candidate){.text = out->text.bytes,
        .ends = parts.ends,
        .logprobs = parts.logprobs,
        .firsts = parts.firsts,
        .from = rules->whole ? rules->step->tokens_max : from,
        .to = MIN(parts.count, parts.own + result->token_count - 1)};
    if (rules->step->sentence) {
        cut_sentence(out, parts.ends);
    }
    return ERR_OK;
}

struct choice_cut rerank_candidate_longest(const struct rerank_candidate *greedy)
{
    int32_t n = MAX(greedy->view.to, 0);
    while (n > 0 && greedy->view.ends[n] < 0) {
        n--;
    }
    return (struct choice_cut){0, n};
}

/* ---- branches ------------------------------------------------------------------------------ */

static double bias_of(const struct sampling *sampling, int32_t token)
{
    double bias = 0;
    for (int32_t i = 0; i < sampling->logit_bias_count; i++) {
        bias += sampling->logit_bias[i].token == token ? (double)sampling->logit_bias[i].bias : 0;
    }
    return bias;
}

/* Whether the sentence of the greedy candidate's first tokens would be over before this piece. */
static bool is_behind_sentence(
    const struct rerank_candidate *greedy, int32_t at, const char *piece, size_t bytes)
{
    struct ending ending = greedy->ending;
    if (at == 0 || greedy->view.ends[at] != greedy->text.count) {
        return false;
    }
    ending.at = 0;
    ending_scan(&ending, piece, (int32_t)bytes);
    return ending.end >= 0;
}

/* Whether a candidate that goes on with the token behind `at` others could have a cut there. */
static bool is_useful(const struct call *call, const struct rerank_rules *rules,
    const struct rerank_candidate *greedy, int32_t at, int32_t token)
{
    const struct plan_step *step = rules->step;
    size_t bytes;
    const char *piece = tokenizer_piece(call->tokenizer, token, false, &bytes);
    if (bytes == 0 || is_behind_sentence(greedy, at, piece, bytes)) {
        return false;
    }
    for (int32_t i = 0; i < step->stop_count && at >= step->tokens_min; i++) {
        if (find(piece, (int32_t)bytes, &step->stops[i]) >= 0) {
            return false;
        }
    }
    return true;
}

void rerank_candidate_branches(const struct call *call, const struct rerank_rules *rules,
    const struct rerank_candidate *greedy, const struct step_result *result, int32_t tops,
    const struct sampling *sampling, struct choice_branches *branches)
{
    int32_t last = MIN(rerank_candidate_longest(greedy).token_count, rules->step->tokens_max - 1);
    int32_t alternatives = MIN(MIN(tops, CHOICE_ALTERNATIVES), tokenizer_vocab(call->tokenizer));
    double before = 0;
    enum border border = rules->step->border;
    for (int32_t at = 0; at <= last && at < result->token_count; at++) {
        const struct token_logprob *top = result->top + (size_t)at * (size_t)tops;
        for (int32_t k = 0; k < alternatives; k++) {
            if (k > 0 && top[k].logprob > top[k - 1].logprob) {
                break; /* fewer tokens than that have a finite logit: the rest is zeros */
            }
            const struct choice_branch branch = {at, top[k].token, top[k].logprob,
                before + (double)top[k].logprob + bias_of(sampling, top[k].token)};
            if (branch.token != result->tokens[at] && isfinite(branch.total) &&
                border_allows(border, call->tokenizer, branch.token) &&
                is_useful(call, rules, greedy, at, branch.token)) {
                choice_offer(branches, &branch);
            }
        }
        border = border_after(border, call->tokenizer, result->tokens[at]);
        before += (double)result->logprobs[at];
    }
}
