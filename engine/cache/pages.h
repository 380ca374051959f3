/*
 * A K/V page pool: a fixed number of equal pages, taken and reference-counted by sequences.
 *
 * The cache is a pool whose pages hold all layers. A pool of one layer serves sequences of which
 * nothing is ever looked at again: all their rows go through a layer before any goes on to the
 * next, so one layer's K/V at a time are enough.
 *
 * A page holds `page_slots` slots of every layer and every K/V head of one sequence, laid out as
 *     [layer][K/V head] { K: tiles of [head_dim][KV_TILE], V: [page_slots][head_dim] }
 * (struct kv_view in engine/kernels/kernels.h). One thread owns the pool: the engine thread.
 */
#ifndef ENGINE_CACHE_PAGES_H
#define ENGINE_CACHE_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "engine/base/err.h"
#include "engine/kernels/kernels.h"

struct pages {
    enum kv_type type;
    int32_t layers, heads_kv, head_dim, page_slots;
    size_t head_bytes, layer_bytes, page_bytes;
    int32_t count, free_count;
    int32_t *free_list;
    uint32_t *references; /* [count] */
    /* [count]: leading slots of the page that others may see besides who stored them. They are not
     * stored again while the page is held. */
    int32_t *sealed;
    unsigned char *data;
};

MUST_USE enum err pages_open(struct pages *pages, enum kv_type type, int32_t layers,
    int32_t heads_kv, int32_t head_dim, int32_t page_slots, int32_t count);
void pages_close(struct pages *pages);
size_t pages_page_bytes(
    enum kv_type type, int32_t layers, int32_t heads_kv, int32_t head_dim, int32_t page_slots);
/* Bytes of the pool's own lists beside the pages. */
size_t pages_index_bytes(int32_t count);
/* -1 when the pool is empty. The new page has one reference and holds stale bits. */
int32_t pages_take(struct pages *pages);
void pages_reference(struct pages *pages, int32_t page);
void pages_drop(struct pages *pages, int32_t page);
void pages_seal(struct pages *pages, int32_t page, int32_t slots);
unsigned char *pages_address(const struct pages *pages, int32_t page);
/* Where a layer begins in a page. */
static inline size_t pages_layer(const struct pages *pages, int32_t layer)
{
    return pages->layers == 1 ? 0 : (size_t)layer * pages->layer_bytes;
}
int32_t pages_shared(const struct pages *pages); /* pages with more than one reference */

/* One sequence's slots: pages in slot order and the position of every slot. Arrays are sized for
 * the context once, when the sequence pool is made. */
struct slots {
    struct pages *pages;
    int32_t *page_ids;         /* [page_max] */
    unsigned char **addresses; /* [page_max] */
    int32_t page_count, page_max;
    int32_t *positions; /* [page_max * page_slots] */
};

MUST_USE enum err slots_init(struct slots *slots, struct pages *pages, int32_t context);
/* Pages are taken from that pool from now on: none is held, and its pages are as long. */
void slots_use(struct slots *slots, struct pages *pages);
/* Drops what is held. */
void slots_free(struct slots *slots);
/* Bytes of one sequence's arrays. */
size_t slots_bytes(int32_t context, int32_t page_slots);
/* Pages for slots [0, count); false (and nothing changed) when the pool cannot give them. */
MUST_USE bool slots_hold(struct slots *slots, int32_t count);
/* Appends one more reference to a page somebody else filled. Its slots' positions are the caller's
 * to know. */
void slots_adopt(struct slots *slots, int32_t page);
/* Holds `page` instead of the page at `index`, whose slots have the same bits. */
void slots_replace(struct slots *slots, int32_t index, int32_t page);
/* The last page becomes a copy of its own, if others hold it too, so that slots can be stored into
 * it. False (and nothing changed) when the pool cannot give the copy. */
MUST_USE bool slots_own_last(struct slots *slots);
/* Drops the last page. */
void slots_drop_last(struct slots *slots);
/* Drops every page. */
void slots_release(struct slots *slots);

#endif
