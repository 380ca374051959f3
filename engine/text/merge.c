/*
 * A binary heap of candidate pairs that is never searched: an entry is stale, and skipped when it
 * surfaces, if the pair that now starts at its offset has another rank. If it has the same rank the
 * entry is as good as that pair's own, so no other identity is needed and an entry is one integer
 * whose order is the merge order.
 */
#include "engine/text/merge.h"

#include "engine/base/assert.h"
#include "engine/base/mem.h"

void merge_free(struct merger *merger)
{
    mem_free(merger->symbols);
    mem_free(merger->heap);
    *merger = (struct merger){0};
}

enum err merge_reserve(struct merger *merger, size_t bytes, struct err_info *info)
{
    ASSERT(bytes <= INT32_MAX);
    if (bytes <= merger->symbol_capacity) {
        return ERR_OK;
    }
    size_t capacity = MAX(bytes, MAX((size_t)256, merger->symbol_capacity + bytes / 2));
    merge_free(merger); /* nothing in it outlives one run */
    /* A run starts with at most n - 1 entries and each of its at most n - 1 merges takes one and
     * adds at most two. */
    merger->symbols = mem_array(MEM_REQUESTS, capacity, sizeof(*merger->symbols));
    merger->heap = mem_array(MEM_REQUESTS, 2 * capacity, sizeof(*merger->heap));
    if (merger->symbols == NULL || merger->heap == NULL) {
        merge_free(merger);
        return err_set(info, ERR_NO_MEMORY, NULL, "no memory to tokenize %zu bytes", bytes);
    }
    merger->symbol_capacity = capacity;
    merger->heap_capacity = 2 * capacity;
    return ERR_OK;
}

static void heap_push(struct merger *merger, uint64_t entry)
{
    ASSERT(merger->heap_count < merger->heap_capacity);
    size_t at = merger->heap_count++;
    while (at > 0 && merger->heap[(at - 1) / 2] > entry) {
        merger->heap[at] = merger->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    merger->heap[at] = entry;
}

static uint64_t heap_pop(struct merger *merger)
{
    uint64_t *heap = merger->heap;
    uint64_t top = heap[0];
    uint64_t last = heap[--merger->heap_count];
    size_t count = merger->heap_count;
    size_t at = 0;
    for (size_t child = 1; child < count; child = 2 * at + 1) {
        child += child + 1 < count && heap[child + 1] < heap[child];
        if (heap[child] >= last) {
            break;
        }
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    merger->pop_count++;
    return top;
}

/* Notes what joining the symbol at `left` with its right neighbour would give. */
static void consider(struct merger *merger, int32_t left, merge_rank_fn *rank, const void *context)
{
    struct merge_symbol *symbol = &merger->symbols[left];
    symbol->rank = MERGE_NONE;
    if (symbol->next >= 0) {
        symbol->rank = rank(context, merger, left, symbol->next, &symbol->merged);
    }
    if (symbol->rank != MERGE_NONE) {
        heap_push(merger, (uint64_t)symbol->rank << 32 | (uint32_t)left);
    }
}

void merge_run(struct merger *merger, int32_t head, merge_rank_fn *rank, const void *context)
{
    struct merge_symbol *symbols = merger->symbols;
    merger->heap_count = 0;
    for (int32_t at = head; at >= 0; at = symbols[at].next) {
        consider(merger, at, rank, context);
    }
    while (merger->heap_count > 0) {
        uint64_t entry = heap_pop(merger);
        int32_t at = (int32_t)(uint32_t)entry;
        struct merge_symbol *left = &symbols[at];
        if (left->rank != entry >> 32) {
            continue;
        }
        struct merge_symbol *right = &symbols[left->next];
        left->id = left->merged;
        left->next = right->next;
        right->rank = MERGE_NONE; /* it is gone; its entries are stale */
        if (left->next >= 0) {
            symbols[left->next].previous = at;
        }
        consider(merger, at, rank, context);
        if (left->previous >= 0) {
            consider(merger, left->previous, rank, context);
        }
    }
}
