/*
 * The tokens that can be among the k greatest logits, found in one scan of the vocabulary.
 *
 * The vocabulary is cut into blocks; the scan takes the greatest logit of each, which compilers
 * turn into vector code. The k-th greatest of these maxima is at most the k-th greatest logit, so
 * every token that ranks among the k is at least that; only blocks whose maximum is are looked at
 * again. What is found is a superset of the k, mostly smaller than 2 k.
 */
#ifndef ENGINE_SAMPLE_SHORTLIST_H
#define ENGINE_SAMPLE_SHORTLIST_H

#include "engine/sample/candidates.h"

enum { SHORTLIST_BLOCK = 16 };

/* Blocks of a vocabulary: floats that `best` must hold. */
static inline int32_t shortlist_blocks(int32_t vocab)
{
    return (vocab + SHORTLIST_BLOCK - 1) / SHORTLIST_BLOCK;
}

/* best[block] = its greatest logit; a NaN counts as -INFINITY. */
void shortlist_scan(const float *logits, int32_t vocab, float *best);
/* The k-th greatest of the maxima, 1 <= k <= blocks; `heap` [blocks] is overwritten. */
float shortlist_threshold(const float *best, int32_t blocks, int32_t k, struct rank *heap);
/* Candidates = the tokens of `logits` that are at least the threshold, and all of the blocks whose
 * best is INFINITY, in ascending id, without those that can never be picked. */
void shortlist_gather(struct candidates *candidates, const float *logits, int32_t vocab,
    const float *best, float threshold, const uint8_t *banned);

#endif
