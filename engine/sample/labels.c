/* Owns the reading of labels: two softmaxes over one row, one over the candidates, one over all. */
#include "engine/sample/labels.h"

#include <math.h>
#include "engine/base/assert.h"

enum err labels_read(const float *logits, double log_sum_exp, const struct plan_choice *choices,
    int32_t choice_count, float *probabilities, int32_t *out_choice, float *out_confidence)
{
    ASSERT(choice_count >= 1);
    if (!isfinite(log_sum_exp)) {
        return ERR_NON_FINITE; /* a logit outside the candidates was not finite */
    }
    int32_t best = 0;
    for (int32_t i = 0; i < choice_count; i++) {
        float logit = logits[choices[i].tokens[0]];
        if (!isfinite(logit)) {
            return ERR_NON_FINITE;
        }
        if (logit > logits[choices[best].tokens[0]]) {
            best = i;
        }
    }
    double top = logits[choices[best].tokens[0]];
    double sum = 0;
    for (int32_t i = 0; i < choice_count; i++) {
        sum += exp((double)logits[choices[i].tokens[0]] - top);
    }
    for (int32_t i = 0; i < choice_count; i++) {
        probabilities[i] = (float)(exp((double)logits[choices[i].tokens[0]] - top) / sum);
    }
    *out_choice = best;
    /* log_sum_exp is rounded: the share of a token that has it all may come out an ulp above 1. */
    *out_confidence = (float)fmin(exp(top - log_sum_exp), 1.0);
    return ERR_OK;
}
