/*
 * The reuse store: pages that finished or running sequences leave behind, found again by what
 * their slots hold. One tree of pages serves all tasks; a page's parent is the page of the slots
 * before it.
 *
 *     (root) -- [ page: 32 tokens ] -- [ page: 32 tokens ] -- [ page: 9 tokens ]
 *            \                       \ [ page: 32 tokens ] -- ...
 *             [ page of another prompt or context block ]
 *
 * A causal slot's K/V follow from the tokens and positions up to it, so any common beginning can be
 * taken. The K/V of a context block follow from the whole block: it is taken whole or not at all.
 * Nothing is hashed: tokens and positions are compared, so a wrong hit cannot happen.
 *
 * A sequence whose last page was shared up to some slot gets a copy of it: nobody stores into a
 * page that others hold. A running sequence may let the store keep the page it still appends to:
 * the store then knows the slots that were complete and nobody looks at those behind them.
 *
 * Pages go in order of last use, ends of branches first; a page that a sequence holds stays. Owned
 * by the engine thread, like the pool.
 */
#ifndef ENGINE_CACHE_REUSE_H
#define ENGINE_CACHE_REUSE_H

#include "engine/cache/pages.h"
#include "engine/engine_limits.h"

/* Beginnings are shared only between sequences with the same key. */
struct reuse_key {
    /* Keeps one tenant's texts from speeding up another's; zeros to its end. */
    char salt[LIMIT_SALT_BYTES];
    int32_t context_count; /* leading slots that all see each other; 0 = causal */
    int32_t stack;         /* of adapters that the K/V were computed with; 0 = none */
};

/* What slots hold: tokens[i] at positions[i]. */
struct slot_list {
    const int32_t *tokens, *positions; /* [count] */
    int32_t count;
};

struct reuse_node;

struct reuse {
    struct pages *pages;
    int32_t capacity;         /* pages it may keep; 0 = it keeps nothing */
    int32_t count;            /* pages it keeps now */
    int32_t roots;            /* first page without a parent; -1 = none */
    int32_t newest, oldest;   /* ends of the list in order of use; -1 = none */
    struct reuse_node *nodes; /* [pages->count], by page */
    int32_t *tokens;          /* [pages->count][page_slots] */
    int32_t *positions;       /* [pages->count][page_slots] */
};

/* Opens over a pool that outlives it. */
MUST_USE enum err reuse_open(struct reuse *reuse, struct pages *pages, int32_t capacity);
/* Drops every page it keeps. NULL and half-opened allowed. */
void reuse_close(struct reuse *reuse);
/* Bytes reuse_open allocates for a pool of that many pages. */
size_t reuse_bytes(int32_t page_count, int32_t page_slots, int32_t capacity);

bool reuse_same_key(const struct reuse_key *a, const struct reuse_key *b);
/* How many leading slots of the list are kept; all of a context block or none. */
int32_t reuse_find(
    const struct reuse *reuse, const struct reuse_key *key, const struct slot_list *list);
/* `slots`, which hold nothing, get the leading slots of the list that are kept. Returns how many,
 * which is fewer than reuse_find says when no page is left for the copy of a shared one. */
int32_t reuse_take(struct reuse *reuse, const struct reuse_key *key, const struct slot_list *list,
    struct slots *slots);
/* Keeps the pages of the list, all stored in `slots`. Full pages that are kept already take the
 * place of the sequence's own. */
void reuse_keep(struct reuse *reuse, const struct reuse_key *key, const struct slot_list *list,
    struct slots *slots);
/* Gives back at least one page that only the store holds; false when there is none. */
MUST_USE bool reuse_evict(struct reuse *reuse);
/* Gives back what is above the capacity and held by nobody else. */
void reuse_trim(struct reuse *reuse);
/* Pages that only the store holds. */
int32_t reuse_idle(const struct reuse *reuse);
bool reuse_keeps(const struct reuse *reuse, int32_t page);

#endif
