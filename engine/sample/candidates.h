/*
 * The tokens one pick still chooses from, and the filters that shrink them.
 *
 * Invariant: entries stay in ascending id, through every filter. So a sum over them has one order,
 * "ties by the lower id" is "by the lower index", and the draw needs no sorting. A filter that
 * thinks in ranks finds the last token it keeps by popping a heap (a heap is built in O(n), each
 * pop is O(log n), nothing is sorted that is not kept) and then drops, in place, what ranks behind.
 */
#ifndef ENGINE_SAMPLE_CANDIDATES_H
#define ENGINE_SAMPLE_CANDIDATES_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

struct candidate {
    double logit;
    double weight; /* exp(logit - greatest logit); valid after candidates_weigh */
    double key;    /* rank of the filter at work: smaller is kept first */
    int32_t id;
};

struct rank {
    double key;
    int32_t index; /* into entries */
};

struct candidates {
    struct candidate *entries; /* [capacity], finite logits, ascending id */
    struct rank *heap;         /* [capacity] */
    int32_t count;
};

/* Appends a token, if it can be picked at all; ids ascend. */
static inline void candidates_add(
    struct candidates *candidates, const float *logits, int32_t id, const uint8_t *banned)
{
    if (logits[id] > -INFINITY && banned[id] == 0) { /* false for NaN too */
        candidates->entries[candidates->count++] =
            (struct candidate){.logit = logits[id], .id = id};
    }
}

/* A heap of ranks: the root is the one with the smallest key, of equals with the smallest index.
 * candidates_heap_pop takes the root of `count` >= 1 off; count - 1 are left. */
void candidates_heap(struct rank *heap, int32_t count);
void candidates_heap_pop(struct rank *heap, int32_t count);

/* Greatest logit (count >= 1): the first index among equals. */
int32_t candidates_best(const struct candidates *candidates);
/* Fills the weights and returns their sum. */
double candidates_weigh(struct candidates *candidates);

/* The filters of sampler.h; each leaves at least one candidate. */
void candidates_top_k(struct candidates *candidates, int32_t k);
void candidates_typical_p(struct candidates *candidates, double p);
void candidates_top_p(struct candidates *candidates, double p);
void candidates_min_p(struct candidates *candidates, double p);
void candidates_temperature(struct candidates *candidates, double temperature);

/* The index drawn by u in [0, 1): the first whose cumulative weight exceeds u times the sum. */
int32_t candidates_draw(struct candidates *candidates, double u);

#endif
