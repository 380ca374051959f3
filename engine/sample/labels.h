/* Forced-label scoring: probabilities of a few candidates' first tokens from one row's logits. */
#ifndef ENGINE_SAMPLE_LABELS_H
#define ENGINE_SAMPLE_LABELS_H

#include "engine/types.h"

/* probabilities[i] = softmax over the candidates' first tokens; *out_choice is the argmax (the
 * first among equals); *out_confidence = exp(logit - log_sum_exp) of the winner, its share of the
 * whole vocabulary. Computed in double. ERR_NON_FINITE, and nothing written, when a candidate's
 * logit or log_sum_exp is not finite. */
MUST_USE enum err labels_read(const float *logits, double log_sum_exp,
    const struct plan_choice *choices, int32_t choice_count, float *probabilities,
    int32_t *out_choice, float *out_confidence);

#endif
