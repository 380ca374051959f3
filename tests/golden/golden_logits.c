/* See golden_logits.h. Everything in double and straight from the definitions. */
#include "tests/golden/golden_logits.h"

#include <math.h>

double golden_distance(const float *logits, const float *reference, int32_t count)
{
    double distance = 0;
    for (int32_t i = 0; i < count; i++) {
        double d = fabs((double)logits[i] - (double)reference[i]);
        if (!(d <= distance)) {
            distance = isfinite(d) ? d : INFINITY;
        }
    }
    return distance;
}

static double log_sum_exp(const float *logits, int32_t count)
{
    double best = -INFINITY, sum = 0;
    for (int32_t i = 0; i < count; i++) {
        best = fmax(best, (double)logits[i]);
    }
    for (int32_t i = 0; i < count; i++) {
        sum += exp((double)logits[i] - best);
    }
    return best + log(sum);
}

double golden_logprob(const float *logits, int32_t count, int32_t token)
{
    return (double)logits[token] - log_sum_exp(logits, count);
}

double golden_divergence(const float *reference, const float *logits, int32_t count)
{
    double base = log_sum_exp(reference, count), other = log_sum_exp(logits, count);
    double divergence = 0;
    for (int32_t i = 0; i < count; i++) {
        double p = (double)reference[i] - base;
        divergence += exp(p) * (p - ((double)logits[i] - other));
    }
    return divergence;
}

static bool is_banned(int32_t token, const int32_t *banned, int32_t banned_count)
{
    for (int32_t i = 0; i < banned_count; i++) {
        if (banned[i] == token) {
            return true;
        }
    }
    return false;
}

struct golden_choice golden_greedy(
    const float *logits, int32_t count, const int32_t *banned, int32_t banned_count)
{
    struct golden_choice choice = {-1, INFINITY};
    double best = -INFINITY;
    for (int32_t i = 0; i < count; i++) {
        double logit = (double)logits[i];
        if (is_banned(i, banned, banned_count)) {
            continue;
        }
        if (logit > best) {
            choice = (struct golden_choice){i, logit - best};
            best = logit;
        } else {
            choice.gap = fmin(choice.gap, best - logit);
        }
    }
    return choice;
}
