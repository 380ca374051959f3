/* One pass for block maxima, a heap over them for the threshold, one pass over the few blocks that
 * reach it; shortlist.h says why that finds every token that can rank among the first k. */
#include "engine/sample/shortlist.h"

#include <math.h>
#include <stdbool.h>
#include "engine/base/assert.h"
#include "engine/base/attr.h"

enum { LANES = 4 };

_Static_assert(SHORTLIST_BLOCK % LANES == 0, "a block is whole lanes");

/* Lanes side by side, so that the compiler may use vectors without reordering anything. */
static float best_of_block(const float *logits)
{
    float best[LANES] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
    for (int32_t i = 0; i < SHORTLIST_BLOCK; i += LANES) {
        for (int32_t lane = 0; lane < LANES; lane++) {
            float logit = logits[i + lane];
            best[lane] = logit > best[lane] ? logit : best[lane];
        }
    }
    return MAX(MAX(best[0], best[1]), MAX(best[2], best[3]));
}

void shortlist_scan(const float *logits, int32_t vocab, float *best)
{
    int32_t whole = vocab / SHORTLIST_BLOCK;
    for (int32_t block = 0; block < whole; block++) {
        best[block] = best_of_block(logits + (size_t)block * SHORTLIST_BLOCK);
    }
    if (whole < shortlist_blocks(vocab)) {
        best[whole] = -INFINITY;
        for (int32_t id = whole * SHORTLIST_BLOCK; id < vocab; id++) {
            best[whole] = logits[id] > best[whole] ? logits[id] : best[whole];
        }
    }
}

float shortlist_threshold(const float *best, int32_t blocks, int32_t k, struct rank *heap)
{
    ASSERT(k >= 1 && k <= blocks);
    for (int32_t block = 0; block < blocks; block++) {
        heap[block] = (struct rank){-(double)best[block], block};
    }
    candidates_heap(heap, blocks);
    for (int32_t left = blocks; left > blocks - k + 1; left--) {
        candidates_heap_pop(heap, left);
    }
    return best[heap[0].index];
}

void shortlist_gather(struct candidates *candidates, const float *logits, int32_t vocab,
    const float *best, float threshold, const uint8_t *banned)
{
    candidates->count = 0;
    for (int32_t block = 0; block < shortlist_blocks(vocab); block++) {
        if (!(best[block] >= threshold)) {
            continue;
        }
        bool all = best[block] == INFINITY;
        int32_t from = block * SHORTLIST_BLOCK;
        for (int32_t id = from; id < MIN(from + SHORTLIST_BLOCK, vocab); id++) {
            if (all || logits[id] >= threshold) {
                candidates_add(candidates, logits, id, banned);
            }
        }
    }
}
