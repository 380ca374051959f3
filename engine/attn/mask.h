/*
 * The mask rule. Keys are stored in slot order: context first, in position order, then span tokens
 * in the order they are decoded. Then one rule covers every mode:
 *
 *     a query at slot q sees the first max(context_count, q + 1) slots
 *
 * causal: context_count = 0; bidirectional: n; prefix-LM: the prefix; infill: all text around the
 * gaps. (Magnet, arXiv 2501.08648; GLM, arXiv 2103.10360; UniLM, arXiv 1905.03197.)
 *
 * A window layer adds a reach: a distance in *positions* to the left and to the right. With
 * in-place gaps a windowed span row sees a piece of the context and a piece of the spans: at most
 * two intervals of slots.
 */
#ifndef ENGINE_ATTN_MASK_H
#define ENGINE_ATTN_MASK_H

#include <stdbool.h>
#include <stdint.h>

/* No window. */
enum { REACH_ALL = INT32_MAX };

/* Half-open interval of slots. */
struct slot_interval {
    int32_t from, to;
};

/* How many leading slots the query at slot q sees. */
static inline int32_t mask_visible(int32_t context_count, int32_t q)
{
    return context_count > q + 1 ? context_count : q + 1;
}

/* Intervals of slots seen by the query at slot q (0, 1 or 2 of them, ascending, disjoint), given
 * the position of every slot [>= mask_visible] and the reach. Positions ascend within the context
 * and within the spans. Returns the count. The query's own slot is always within. */
int32_t mask_intervals(int32_t context_count, int32_t q, const int32_t *positions,
    int32_t reach_left, int32_t reach_right, struct slot_interval out[2]);

#endif
