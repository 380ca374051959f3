/*
 * From logits to a token: logit processors and the sampler chain of one sequence.
 *
 * 1. Processors on the whole vocabulary, always: logit_bias is added, then banned tokens fall out.
 * 2. The chain, in the order the request gives (default: penalties, top_k, typical_p, top_p, min_p,
 *    temperature). Every stage works on the tokens the stages before it left; probabilities are the
 *    softmax over those tokens alone:
 *      penalties    repetition r: each token among the last penalty_last_n of the history, prompt
 *                   included, once: logit / r if it is positive, else logit * r (Keskar et al.,
 *                   arXiv 1909.05858). Then, over generated tokens alone and all of them:
 *                   logit -= presence + frequency * count (OpenAI's definition).
 *      top_k        the k greatest logits
 *      typical_p    the shortest list, ordered by |-log p - entropy|, whose mass reaches typical_p
 *                   (Meister et al., arXiv 2202.00666)
 *      top_p        the shortest list of most probable tokens whose mass reaches top_p (Holtzman et
 *                   al., arXiv 1904.09751)
 *      min_p        p >= min_p * p_max (Nguyen et al., arXiv 2407.01082)
 *      temperature  logit / temperature
 *    At least one token is always left. Ties are broken by the lower id everywhere.
 * 3. The draw: u = rng_uniform(seed, sample_index, token_index), and the first token in ascending
 *    id whose cumulative mass exceeds u. Token t of sample s is f(logits, seed, s, t): preemption
 *    and batching change nothing.
 *
 * temperature = 0 is greedy whatever the chain says: no filter runs, only the processors and, if
 * the chain has them, the penalties; then the greatest logit.
 */
#ifndef ENGINE_SAMPLE_SAMPLER_H
#define ENGINE_SAMPLE_SAMPLER_H

#include "engine/base/err.h"
#include "engine/kernels/kernels.h"
#include "engine/types.h"

/* Scratch shared by all sequences of one engine thread; 54 bytes a token of the vocabulary. */
struct sample_scratch;
MUST_USE enum err sample_scratch_open(int32_t vocab, struct sample_scratch **out_scratch);
void sample_scratch_close(struct sample_scratch *scratch);
uint64_t sample_scratch_bytes(int32_t vocab);

struct sample_request {
    const struct sampling *sampling;
    const int32_t *banned; /* tokens that cannot be sampled now (ends before tokens_min, ...) */
    int32_t banned_count;
    /* Which tokens can be sampled now at all; NULL = all. Asked of each token of the vocabulary. */
    bool (*allows)(const void *context, int32_t token);
    const void *allows_context;
    /* One bit a token: the others cannot be sampled, but for those of `exempt`, which can unless
     * they are banned. NULL = all can. */
    const uint64_t *allowed;
    const int32_t *exempt;
    int32_t exempt_count;
    const int32_t *history; /* tokens before this one, oldest first: prompt and generated; the
                               caller passes all, the sampler looks back penalty_last_n */
    int32_t history_count;
    int32_t generated_count; /* of history's end; presence and frequency count these alone */
    uint64_t token_index;    /* counter of the random stream */
};

/* Picks a token from `logits` [vocab], which stay unchanged. Nothing is allocated; time is
 * O(vocab + history), and O(n log n) in the n tokens that top_k, top_p or typical_p keep; where
 * only the best k can be picked (greedy, or top_k before other filters) the vocabulary is scanned
 * once, in vectors, and the chain sees a short list (shortlist.h). Token
 * ids of the request are below vocab and bias is finite or -INFINITY, both already checked. A NaN
 * is never picked; ERR_NON_FINITE when the greatest logit is infinite, ERR_UNSATISFIABLE when no
 * token is left. */
MUST_USE enum err sampler_pick(struct sample_scratch *scratch, const struct kernels *kernels,
    const struct sample_request *request, const float *logits, int32_t vocab, int32_t *out_token);

/* log softmax(logits)[token] given kernels->log_sum_exp. */
float sample_logprob(const float *logits, int32_t token, double log_sum_exp);
/* The k <= LIMIT_TOP_LOGPROBS most probable tokens, best first, ties by lower id; NaN and -INFINITY
 * are left out. Returns how many were written. */
int32_t sample_top(
    const float *logits, int32_t vocab, double log_sum_exp, int32_t k, struct token_logprob *out);

#endif
