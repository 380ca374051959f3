/*
 * Goal: a second sampler that is nothing but its definition, to hold the real one against.
 * Method: every stage sorts the whole vocabulary and walks it; no cleverness, no reuse of engine
 * code but the random numbers.
 */
#ifndef TESTS_UNIT_SAMPLE_SAMPLE_REFERENCE_H
#define TESTS_UNIT_SAMPLE_SAMPLE_REFERENCE_H

#include "engine/sample/sampler.h"

enum { REFERENCE_VOCAB_MAX = 512 };

/* The probability of every token after processors and chain: [vocab]. Greedy picks have a 1. */
void reference_probabilities(
    const struct sample_request *request, const float *logits, int32_t vocab, double *out);
/* The token that u picks from those. */
int32_t reference_pick(const double *probabilities, int32_t vocab, double u);

#endif
