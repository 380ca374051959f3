/*
 * Owns one pick: processors, chain, draw. Penalties live here because they look at the history; the
 * filters, which look at the candidates alone, are in candidates.c.
 *
 * Marks in the tables of penalties are taken back by walking the history again, so that a pick
 * costs what its history is long and never clears the vocabulary.
 */
#include "engine/sample/sampler.h"

#include <math.h>
#include <string.h>
#include "engine/base/assert.h"
#include "engine/base/mem.h"
#include "engine/base/rng.h"
#include "engine/sample/candidates.h"
#include "engine/sample/draw.h"
#include "engine/sample/shortlist.h"

struct sample_scratch {
    int32_t vocab;
    struct candidates candidates;
    int32_t *generated; /* [vocab] times generated; all 0 between picks */
    float *block_best;  /* [shortlist_blocks(vocab)] */
    double *masses;     /* [draw_blocks(vocab)] */
    uint8_t *banned;    /* [vocab] all 0 between picks */
    uint8_t *repeated;  /* [vocab] within the repetition window; all 0 between picks */
};

/* ---- scratch ---- */

uint64_t sample_scratch_bytes(int32_t vocab)
{
    return sizeof(struct sample_scratch) +
           (uint64_t)vocab * (sizeof(struct candidate) + sizeof(struct rank) + sizeof(int32_t) +
                                 sizeof(uint8_t)) +
           (uint64_t)shortlist_blocks(vocab) * sizeof(float) +
           (uint64_t)draw_blocks(vocab) * sizeof(double);
}

enum err sample_scratch_open(int32_t vocab, struct sample_scratch **out_scratch)
{
    ASSERT(vocab >= 1);
    struct sample_scratch *scratch = mem_alloc(MEM_SCRATCH, sizeof(*scratch));
    if (scratch == NULL) {
        return ERR_NO_MEMORY;
    }
    size_t count = (size_t)vocab;
    scratch->vocab = vocab;
    scratch->candidates.entries = mem_array(MEM_SCRATCH, count, sizeof(struct candidate));
    scratch->candidates.heap = mem_array(MEM_SCRATCH, count, sizeof(struct rank));
    scratch->generated = mem_array(MEM_SCRATCH, count, sizeof(int32_t));
    scratch->banned = mem_array(MEM_SCRATCH, count, sizeof(uint8_t));
    scratch->repeated = mem_array(MEM_SCRATCH, count, sizeof(uint8_t));
    scratch->block_best = mem_array(MEM_SCRATCH, (size_t)shortlist_blocks(vocab), sizeof(float));
    scratch->masses = mem_array(MEM_SCRATCH, (size_t)draw_blocks(vocab), sizeof(double));
    if (scratch->masses == NULL || scratch->candidates.entries == NULL ||
        scratch->candidates.heap == NULL || scratch->generated == NULL || scratch->banned == NULL ||
        scratch->repeated == NULL || scratch->block_best == NULL) {
        sample_scratch_close(scratch);
        return ERR_NO_MEMORY;
    }
    *out_scratch = scratch;
    return ERR_OK;
}

void sample_scratch_close(struct sample_scratch *scratch)
{
    if (scratch == NULL) {
        return;
    }
    mem_free(scratch->candidates.entries);
    mem_free(scratch->candidates.heap);
    mem_free(scratch->generated);
    mem_free(scratch->banned);
    mem_free(scratch->repeated);
    mem_free(scratch->block_best);
    mem_free(scratch->masses);
    mem_free(scratch);
}

/* ---- processors ---- */

/* A bias of -INFINITY is a ban by another name. */
static void mark_banned(
    struct sample_scratch *scratch, const struct sample_request *request, uint8_t mark)
{
    const struct sampling *sampling = request->sampling;
    for (int32_t i = 0; i < sampling->logit_bias_count; i++) {
        const struct logit_bias *bias = &sampling->logit_bias[i];
        ASSERT(bias->token >= 0 && bias->token < scratch->vocab);
        if (bias->bias == -INFINITY) {
            scratch->banned[bias->token] = mark;
        }
    }
    for (int32_t i = 0; i < request->banned_count; i++) {
        ASSERT(request->banned[i] >= 0 && request->banned[i] < scratch->vocab);
        scratch->banned[request->banned[i]] = mark;
    }
}

/* Tokens that the mask leaves out are banned until unmark_masked. */
static void mark_masked(
    struct sample_scratch *scratch, const struct sample_request *request, int32_t vocab)
{
    if (request->allowed == NULL) {
        return;
    }
    for (int32_t id = 0; id < vocab; id++) {
        scratch->banned[id] = (request->allowed[id / 64] >> (id % 64) & 1) == 0;
    }
    for (int32_t i = 0; i < request->exempt_count; i++) {
        scratch->banned[request->exempt[i]] = 0;
    }
}

static void unmark_masked(
    struct sample_scratch *scratch, const struct sample_request *request, int32_t vocab)
{
    if (request->allowed != NULL) {
        memset(scratch->banned, 0, (size_t)vocab);
    }
}

/* The candidate of a token, NULL if it is none. */
static struct candidate *entry_of(struct candidates *candidates, int32_t token)
{
    int32_t from = 0, to = candidates->count;
    while (from < to) {
        int32_t middle = from + (to - from) / 2;
        if (candidates->entries[middle].id < token) {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    bool found = from < candidates->count && candidates->entries[from].id == token;
    return found ? &candidates->entries[from] : NULL;
}

static void apply_bias(struct candidates *candidates, const struct sampling *sampling)
{
    for (int32_t i = 0; i < sampling->logit_bias_count; i++) {
        struct candidate *entry = entry_of(candidates, sampling->logit_bias[i].token);
        if (entry != NULL) {
            entry->logit += sampling->logit_bias[i].bias;
        }
    }
}

static bool penalties_on(const struct sampling *sampling)
{
    return (sampling->repetition_penalty != 1 && sampling->penalty_last_n != 0) ||
           sampling->presence_penalty != 0 || sampling->frequency_penalty != 0;
}

/* First history entry of the repetition window. */
static int32_t window_from(const struct sample_request *request)
{
    int32_t last_n = request->sampling->penalty_last_n;
    return last_n < 0 ? 0 : MAX(request->history_count - last_n, 0);
}

/* First history entry that a penalty looks at. */
static int32_t marks_from(const struct sample_request *request)
{
    return MIN(window_from(request), request->history_count - request->generated_count);
}

static void mark_history(struct sample_scratch *scratch, const struct sample_request *request)
{
    int32_t generated_from = request->history_count - request->generated_count;
    int32_t from = window_from(request);
    for (int32_t i = marks_from(request); i < request->history_count; i++) {
        int32_t token = request->history[i];
        ASSERT(token >= 0 && token < scratch->vocab);
        scratch->repeated[token] |= i >= from;
        scratch->generated[token] += i >= generated_from;
    }
}

static void unmark_history(struct sample_scratch *scratch, const struct sample_request *request)
{
    for (int32_t i = marks_from(request); i < request->history_count; i++) {
        scratch->repeated[request->history[i]] = 0;
        scratch->generated[request->history[i]] = 0;
    }
}

static void apply_penalties(struct sample_scratch *scratch, const struct sample_request *request)
{
    const struct sampling *sampling = request->sampling;
    if (!penalties_on(sampling)) {
        return;
    }
    ASSERT(sampling->repetition_penalty > 0);
    ASSERT(request->generated_count >= 0);
    ASSERT(request->generated_count <= request->history_count);
    double repetition = sampling->repetition_penalty;
    mark_history(scratch, request);
    for (int32_t i = 0; i < scratch->candidates.count; i++) {
        struct candidate *entry = &scratch->candidates.entries[i];
        if (scratch->repeated[entry->id]) {
            entry->logit = entry->logit > 0 ? entry->logit / repetition : entry->logit * repetition;
        }
        int32_t times = scratch->generated[entry->id];
        if (times > 0) {
            entry->logit -=
                (double)sampling->presence_penalty + (double)sampling->frequency_penalty * times;
        }
    }
    unmark_history(scratch, request);
}

/* ---- the chain ---- */

static const enum sampler_kind default_chain[SAMPLER_KIND_COUNT] = {SAMPLER_PENALTIES,
    SAMPLER_TOP_K, SAMPLER_TYPICAL_P, SAMPLER_TOP_P, SAMPLER_MIN_P, SAMPLER_TEMPERATURE};

static int32_t chain_of(const struct sampling *sampling, const enum sampler_kind **out_chain)
{
    if (sampling->sampler_count == 0 && !sampling->no_samplers) {
        *out_chain = default_chain;
        return SAMPLER_KIND_COUNT;
    }
    ASSERT(sampling->sampler_count <= SAMPLER_KIND_COUNT);
    *out_chain = sampling->samplers;
    return sampling->sampler_count;
}

static void run_stage(
    struct sample_scratch *scratch, const struct sample_request *request, enum sampler_kind stage)
{
    struct candidates *candidates = &scratch->candidates;
    const struct sampling *sampling = request->sampling;
    switch (stage) {
    case SAMPLER_PENALTIES:
        apply_penalties(scratch, request);
        break;
    case SAMPLER_TOP_K:
        candidates_top_k(candidates, sampling->top_k);
        break;
    case SAMPLER_TYPICAL_P:
        candidates_typical_p(candidates, sampling->typical_p);
        break;
    case SAMPLER_TOP_P:
        candidates_top_p(candidates, sampling->top_p);
        break;
    case SAMPLER_MIN_P:
        candidates_min_p(candidates, sampling->min_p);
        break;
    case SAMPLER_TEMPERATURE:
        candidates_temperature(candidates, sampling->temperature);
        break;
    case SAMPLER_KIND_COUNT:
        ASSERT(stage != SAMPLER_KIND_COUNT);
        break;
    }
}

/* Greedy picks run the penalties of the chain and no filter (sampler.h). */
static bool stage_runs(const struct sampling *sampling, enum sampler_kind stage)
{
    return sampling->temperature > 0 || stage == SAMPLER_PENALTIES;
}

/* True when the pick is the argmax of the logits as they are: the common case, worth a kernel. */
static bool plain_greedy(const struct sample_request *request)
{
    const struct sampling *sampling = request->sampling;
    return sampling->temperature == 0 && sampling->logit_bias_count == 0 &&
           request->banned_count == 0 && request->allows == NULL && request->allowed == NULL &&
           !penalties_on(sampling);
}

/* True when any token may be drawn, by the softmax of the logits as they are. */
static bool plain_draw(const struct sample_request *request)
{
    const struct sampling *sampling = request->sampling;
    return request->allows == NULL && sampling->temperature == 1 &&
           sampling->logit_bias_count == 0 && !penalties_on(sampling) && sampling->top_k <= 0 &&
           sampling->typical_p >= 1 && sampling->top_p >= 1 && sampling->min_p <= 0;
}

/* ---- gathering ---- */

/* How many of the best tokens can be picked at all: 1 when greedy, k when no filter comes before
 * top_k; 0 = any token. */
static int32_t best_wanted(const struct sampling *sampling)
{
    if (sampling->temperature == 0) {
        return 1;
    }
    const enum sampler_kind *chain;
    int32_t stages = chain_of(sampling, &chain);
    int32_t stage = 0;
    while (stage < stages && chain[stage] == SAMPLER_PENALTIES) {
        stage++;
    }
    return stage < stages && chain[stage] == SAMPLER_TOP_K ? MAX(sampling->top_k, 0) : 0;
}

/* Tokens whose logit is not the model's alone; those of the history are counted as often as they
 * occur. */
static int64_t changed_count(const struct sample_request *request)
{
    int64_t count = request->sampling->logit_bias_count + request->banned_count;
    return penalties_on(request->sampling) ? count + request->history_count - marks_from(request)
                                           : count;
}

/* Whole blocks of the tokens whose logit changes join the candidates: they may rank higher then. */
static void force_changed(struct sample_scratch *scratch, const struct sample_request *request)
{
    const struct sampling *sampling = request->sampling;
    for (int32_t i = 0; i < sampling->logit_bias_count; i++) {
        scratch->block_best[sampling->logit_bias[i].token / SHORTLIST_BLOCK] = INFINITY;
    }
    if (penalties_on(sampling)) {
        for (int32_t i = marks_from(request); i < request->history_count; i++) {
            scratch->block_best[request->history[i] / SHORTLIST_BLOCK] = INFINITY;
        }
    }
}

/* The tokens that can be picked, with bias and bans applied. Where only the k best can, those that
 * rank among the first k plus as many as change, and these, are enough: whatever a changed token
 * falls to, k others are left. */
static void gather(struct sample_scratch *scratch, const struct sample_request *request,
    const float *logits, int32_t vocab)
{
    struct candidates *candidates = &scratch->candidates;
    int32_t blocks = shortlist_blocks(vocab);
    int32_t k = best_wanted(request->sampling);
    int64_t needed = k + changed_count(request);
    mark_masked(scratch, request, vocab);
    mark_banned(scratch, request, 1);
    bool whole = request->allows != NULL || request->allowed != NULL;
    if (k > 0 && needed <= blocks && !whole) {
        shortlist_scan(logits, vocab, scratch->block_best);
        float threshold =
            shortlist_threshold(scratch->block_best, blocks, (int32_t)needed, candidates->heap);
        force_changed(scratch, request);
        shortlist_gather(
            candidates, logits, vocab, scratch->block_best, threshold, scratch->banned);
    } else {
        candidates->count = 0;
        for (int32_t id = 0; id < vocab; id++) {
            if (request->allows == NULL || request->allows(request->allows_context, id)) {
                candidates_add(candidates, logits, id, scratch->banned);
            }
        }
    }
    mark_banned(scratch, request, 0);
    unmark_masked(scratch, request, vocab);
    apply_bias(candidates, request->sampling);
}

enum err sampler_pick(struct sample_scratch *scratch, const struct kernels *kernels,
    const struct sample_request *request, const float *logits, int32_t vocab, int32_t *out_token)
{
    ASSERT(vocab >= 1);
    ASSERT(vocab <= scratch->vocab);
    const struct sampling *sampling = request->sampling;
    ASSERT(sampling->temperature >= 0);
    if (plain_greedy(request)) {
        int32_t best = kernels->argmax(logits, vocab);
        if (!isfinite(logits[best])) {
            return ERR_NON_FINITE;
        }
        *out_token = best;
        return ERR_OK;
    }
    double u = rng_uniform(sampling->seed, sampling->sample_index, request->token_index);
    if (plain_draw(request)) {
        mark_masked(scratch, request, vocab);
        mark_banned(scratch, request, 1);
        bool drawn =
            draw_token(kernels, logits, vocab, scratch->banned, u, scratch->masses, out_token);
        mark_banned(scratch, request, 0);
        unmark_masked(scratch, request, vocab);
        if (drawn) {
            return ERR_OK;
        }
    }
    struct candidates *candidates = &scratch->candidates;
    gather(scratch, request, logits, vocab);
    if (candidates->count == 0) {
        return ERR_UNSATISFIABLE;
    }
    if (!isfinite(candidates->entries[candidates_best(candidates)].logit)) {
        return ERR_NON_FINITE;
    }
    const enum sampler_kind *chain;
    int32_t stages = chain_of(sampling, &chain);
    for (int32_t i = 0; i < stages; i++) {
        if (stage_runs(sampling, chain[i])) {
            run_stage(scratch, request, chain[i]);
        }
    }
    int32_t index =
        sampling->temperature > 0 ? candidates_draw(candidates, u) : candidates_best(candidates);
    *out_token = candidates->entries[index].id;
    return ERR_OK;
}

/* ---- log-probabilities ---- */

float sample_logprob(const float *logits, int32_t token, double log_sum_exp)
{
    return (float)((double)logits[token] - log_sum_exp);
}

int32_t sample_top(
    const float *logits, int32_t vocab, double log_sum_exp, int32_t k, struct token_logprob *out)
{
    ASSERT(k >= 0);
    ASSERT(k <= LIMIT_TOP_LOGPROBS);
    float best[LIMIT_TOP_LOGPROBS]; /* logits of out, descending */
    int32_t count = 0;
    for (int32_t id = 0; id < vocab; id++) {
        float logit = logits[id];
        if (!(logit > -INFINITY) || (count == k && (k == 0 || logit <= best[k - 1]))) {
            continue;
        }
        int32_t place = count < k ? count++ : k - 1;
        for (; place > 0 && logit > best[place - 1]; place--) {
            best[place] = best[place - 1];
            out[place] = out[place - 1];
        }
        best[place] = logit;
        out[place] =
            (struct token_logprob){.token = id, .logprob = sample_logprob(logits, id, log_sum_exp)};
    }
    return count;
}
