/*
 * From logits to a token: logit processors and the sampler chain of one sequence.
 *
 * The chain runs in the order the request gives (default: penalties, top_k, typical_p, top_p,
 * min_p, temperature). Random numbers are counter-based: token t of sample s is
 * f(seed, s, t), so preemption and batching change nothing. Ties are broken by the lower id.
 * top_p: Holtzman et al., arXiv 1904.09751; typical_p: Meister et al., arXiv 2202.00666; min_p:
 * Nguyen et al., arXiv 2407.01082; repetition penalty: Keskar et al., arXiv 1909.05858.
 */
#ifndef ENGINE_SAMPLE_SAMPLER_H
#define ENGINE_SAMPLE_SAMPLER_H

#include "engine/base/err.h"
#include "engine/kernels/kernels.h"
#include "engine/types.h"

/* Scratch shared by all sequences of one engine thread. */
struct sample_scratch;
MUST_USE enum err sample_scratch_open(int32_t vocab, struct sample_scratch **out_scratch);
void sample_scratch_close(struct sample_scratch *scratch);
uint64_t sample_scratch_bytes(int32_t vocab);

struct sample_request {
    const struct sampling *sampling;
    const int32_t *banned; /* tokens that cannot be sampled now (ends before tokens_min, ...) */
    int32_t banned_count;
    const int32_t *history; /* tokens before this one, oldest first: prompt and generated; the
                               caller passes all, the sampler looks back penalty_last_n */
    int32_t history_count;
    int32_t generated_count; /* of history's end; presence and frequency count these alone */
    uint64_t token_index;    /* counter of the random stream */
};

/* Picks a token from `logits` [vocab], which stay unchanged. ERR_NON_FINITE when no finite logit
 * is left. */
MUST_USE enum err sampler_pick(struct sample_scratch *scratch, const struct kernels *kernels,
    const struct sample_request *request, const float *logits, int32_t vocab, int32_t *out_token);

/* log softmax(logits)[token] given kernels->log_sum_exp. */
float sample_logprob(const float *logits, int32_t token, double log_sum_exp);
/* The k most probable tokens, best first, ties by lower id. Returns how many were written. */
int32_t sample_top(struct sample_scratch *scratch, const float *logits, int32_t vocab,
    double log_sum_exp, int32_t k, struct token_logprob *out);

#endif
