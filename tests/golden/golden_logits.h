/* Comparing rows of logits with a reference: what the golden tests of real models share. */
#ifndef TESTS_GOLDEN_GOLDEN_LOGITS_H
#define TESTS_GOLDEN_GOLDEN_LOGITS_H

#include <stdbool.h>
#include <stdint.h>

/* Largest absolute difference; INFINITY when a number is not finite. */
double golden_distance(const float *logits, const float *reference, int32_t count);
/* log softmax(logits)[token] in double. */
double golden_logprob(const float *logits, int32_t count, int32_t token);
/* KL(reference || logits) of the two softmaxes, in nats. */
double golden_divergence(const float *reference, const float *logits, int32_t count);

/* The greedy choice of a row, ties to the lower id, and by how much it beats the runner-up.
 * Tokens of banned [banned_count] are left out. */
struct golden_choice {
    int32_t token;
    double gap;
};
struct golden_choice golden_greedy(
    const float *logits, int32_t count, const int32_t *banned, int32_t banned_count);

#endif
