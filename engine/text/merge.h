/*
 * The merge loop both kinds of BPE share: of all neighbours that may be joined, join the pair of
 * the lowest rank, the leftmost of equals, until none is left. O(n log n) for n symbols, so that a
 * word of a megabyte is no trap.
 *
 * Symbols sit at the byte offset where they start, linked to their neighbours; offsets inside a
 * symbol are unused. What joins, and with what rank, is the caller's function.
 */
#ifndef ENGINE_TEXT_MERGE_H
#define ENGINE_TEXT_MERGE_H

#include <stddef.h>
#include <stdint.h>
#include "engine/base/err.h"

#define MERGE_NONE UINT32_MAX /* rank of a pair that does not join */

struct merge_symbol {
    int32_t previous, next; /* offsets, -1 at the ends */
    int32_t id;             /* token so far; -1 = no token */
    int32_t merged;         /* token that joining with the next symbol gives */
    uint32_t rank;          /* of that pair, or MERGE_NONE */
};

struct merger {
    struct merge_symbol *symbols;
    uint64_t *heap; /* rank << 32 | offset of the left symbol */
    size_t symbol_capacity, heap_capacity;
    size_t heap_count;
    uint64_t pop_count; /* heap entries taken so far: what tests count as work */
};

/* Rank of joining the symbols at `left` and `right`, and the token it gives. */
typedef uint32_t merge_rank_fn(
    const void *context, const struct merger *merger, int32_t left, int32_t right, int32_t *out_id);

/* Zero a merger before its first use. */
void merge_free(struct merger *merger);
/* Room for the symbols of `bytes` bytes of text. */
MUST_USE enum err merge_reserve(struct merger *merger, size_t bytes, struct err_info *info);
/* Joins the symbols of the list that starts at `head`, which the caller filled in but for `merged`
 * and `rank`; merge_reserve covered them. */
void merge_run(struct merger *merger, int32_t head, merge_rank_fn *rank, const void *context);

#endif
