/*
 * The tree of kept pages (see reuse.h). A page is kept in one place at most, so the tree's nodes
 * are an array beside the pool, indexed by page, and need no allocation.
 *
 * Two invariants carry the code:
 *   - Using a page uses the pages before it too, and later: in order of use a page always comes
 *     before those below it. A sequence that holds a page holds every page above. So the first page
 *     from the old end that only the store holds has nothing below it.
 *   - No two causal pages beside each other hold the same slots, nor is one a beginning of the
 *     other. (Context blocks may begin alike: what follows tells them apart.)
 */
#include "engine/cache/reuse.h"

#include <string.h>
#include "engine/base/assert.h"
#include "engine/base/mem.h"

enum { NONE = -1 };

struct reuse_node {
    bool kept;
    int32_t parent, child;  /* first child; the others follow by `next` */
    int32_t next, previous; /* beside it */
    int32_t newer, older;   /* in order of use */
    int32_t count;          /* slots known, the first of the page */
    int32_t depth;          /* pages above */
    struct reuse_key key;
};

size_t reuse_bytes(int32_t page_count, int32_t page_slots, int32_t capacity)
{
    if (capacity == 0) {
        return 0;
    }
    return (size_t)page_count *
           (sizeof(struct reuse_node) + 2 * (size_t)page_slots * sizeof(int32_t));
}

enum err reuse_open(struct reuse *reuse, struct pages *pages, int32_t capacity)
{
    ASSERT(capacity >= 0 && capacity <= pages->count);
    *reuse = (struct reuse){
        .pages = pages, .capacity = capacity, .roots = NONE, .newest = NONE, .oldest = NONE};
    if (capacity == 0) {
        return ERR_OK;
    }
    size_t count = (size_t)pages->count, page_slots = (size_t)pages->page_slots;
    reuse->nodes = mem_array(MEM_CACHE, count, sizeof *reuse->nodes);
    reuse->tokens = mem_array(MEM_CACHE, count, page_slots * sizeof(int32_t));
    reuse->positions = mem_array(MEM_CACHE, count, page_slots * sizeof(int32_t));
    if (reuse->nodes == NULL || reuse->tokens == NULL || reuse->positions == NULL) {
        reuse_close(reuse);
        return ERR_NO_MEMORY;
    }
    return ERR_OK;
}

/* ---- the tree ------------------------------------------------------------------------------ */

static int32_t *first_child(struct reuse *reuse, int32_t parent)
{
    return parent == NONE ? &reuse->roots : &reuse->nodes[parent].child;
}

static int32_t children_of(const struct reuse *reuse, int32_t parent)
{
    return parent == NONE ? reuse->roots : reuse->nodes[parent].child;
}

bool reuse_same_key(const struct reuse_key *a, const struct reuse_key *b)
{
    return memcmp(a->salt, b->salt, sizeof a->salt) == 0 && a->context_count == b->context_count &&
           a->stack == b->stack;
}

/* Slots of the list from `from` on that agree with the page's. */
static int32_t common(
    const struct reuse *reuse, int32_t page, const struct slot_list *list, int32_t from)
{
    size_t at = (size_t)page * (size_t)reuse->pages->page_slots;
    const int32_t *tokens = reuse->tokens + at, *positions = reuse->positions + at;
    int32_t limit = MIN(reuse->nodes[page].count, list->count - from);
    int32_t count = 0;
    while (count < limit && tokens[count] == list->tokens[from + count] &&
           positions[count] == list->positions[from + count]) {
        count++;
    }
    return count;
}

/* The child with the most slots in common, of which there is at least one. */
static int32_t best_child(
    const struct reuse *reuse, int32_t parent, const struct slot_list *list, int32_t from)
{
    int32_t best = NONE, best_count = 0;
    for (int32_t page = children_of(reuse, parent); page != NONE; page = reuse->nodes[page].next) {
        int32_t count = common(reuse, page, list, from);
        if (count > best_count) {
            best = page;
            best_count = count;
        }
    }
    return best;
}

/* Slots in common from the root page `page` down; with `slots` their pages are taken on the way. */
static int32_t walk(
    const struct reuse *reuse, int32_t page, const struct slot_list *list, struct slots *slots)
{
    int32_t total = 0;
    while (page != NONE) {
        int32_t count = common(reuse, page, list, total);
        if (count > 0 && slots != NULL) {
            slots_adopt(slots, page);
        }
        total += count;
        if (count < reuse->pages->page_slots || total == list->count) {
            break;
        }
        page = best_child(reuse, page, list, total);
    }
    return total;
}

/* The root page with the most slots of the list below it. */
static int32_t best_root(const struct reuse *reuse, const struct reuse_key *key,
    const struct slot_list *list, int32_t *out_count)
{
    int32_t best = NONE;
    *out_count = 0;
    if (list->count < key->context_count) {
        return NONE;
    }
    for (int32_t page = reuse->roots; page != NONE; page = reuse->nodes[page].next) {
        if (!reuse_same_key(&reuse->nodes[page].key, key)) {
            continue;
        }
        int32_t count = walk(reuse, page, list, NULL);
        if (count > *out_count && count >= key->context_count) {
            best = page;
            *out_count = count;
        }
    }
    return best;
}

/* ---- order of use -------------------------------------------------------------------------- */

static void list_remove(struct reuse *reuse, int32_t page)
{
    struct reuse_node *nodes = reuse->nodes;
    struct reuse_node *node = &nodes[page];
    *(node->newer == NONE ? &reuse->newest : &nodes[node->newer].older) = node->older;
    *(node->older == NONE ? &reuse->oldest : &nodes[node->older].newer) = node->newer;
}

static void list_add(struct reuse *reuse, int32_t page)
{
    struct reuse_node *node = &reuse->nodes[page];
    node->newer = NONE;
    node->older = reuse->newest;
    *(reuse->newest == NONE ? &reuse->oldest : &reuse->nodes[reuse->newest].newer) = page;
    reuse->newest = page;
}

/* The page was used, and then all pages above it. */
static void use(struct reuse *reuse, int32_t page)
{
    for (; page != NONE; page = reuse->nodes[page].parent) {
        list_remove(reuse, page);
        list_add(reuse, page);
    }
}

/* ---- adding and removing ------------------------------------------------------------------- */

static void insert(struct reuse *reuse, const struct reuse_key *key, int32_t parent, int32_t page,
    const struct slot_list *list, int32_t from)
{
    int32_t page_slots = reuse->pages->page_slots;
    struct reuse_node *node = &reuse->nodes[page];
    ASSERT(!node->kept);
    int32_t *first = first_child(reuse, parent);
    *node = (struct reuse_node){
        .kept = true,
        .parent = parent,
        .child = NONE,
        .next = *first,
        .previous = NONE,
        .count = MIN(page_slots, list->count - from),
        .depth = from / page_slots,
        .key = *key,
    };
    if (*first != NONE) {
        reuse->nodes[*first].previous = page;
    }
    *first = page;
    list_add(reuse, page);
    size_t at = (size_t)page * (size_t)page_slots;
    for (int32_t i = 0; i < node->count; i++) {
        reuse->tokens[at + (size_t)i] = list->tokens[from + i];
        reuse->positions[at + (size_t)i] = list->positions[from + i];
    }
    pages_reference(reuse->pages, page);
    pages_seal(reuse->pages, page, node->count);
    reuse->count++;
}

static void remove_page(struct reuse *reuse, int32_t page)
{
    struct reuse_node *node = &reuse->nodes[page];
    ASSERT(node->kept && node->child == NONE);
    if (node->previous == NONE) {
        *first_child(reuse, node->parent) = node->next;
    } else {
        reuse->nodes[node->previous].next = node->next;
    }
    if (node->next != NONE) {
        reuse->nodes[node->next].previous = node->previous;
    }
    list_remove(reuse, page);
    node->kept = false;
    reuse->count--;
    pages_drop(reuse->pages, page);
}

static bool idle(const struct reuse *reuse, int32_t page)
{
    return reuse->nodes[page].kept && reuse->pages->references[page] == 1;
}

bool reuse_evict(struct reuse *reuse)
{
    int32_t page = reuse->oldest;
    while (page != NONE && !idle(reuse, page)) {
        page = reuse->nodes[page].newer;
    }
    if (page == NONE) {
        return false;
    }
    /* A context block that lost a page is of no use: the pages before it go too. */
    for (bool broken = true; broken;) {
        const struct reuse_node node = reuse->nodes[page];
        broken = node.depth * reuse->pages->page_slots < node.key.context_count;
        remove_page(reuse, page);
        page = node.parent;
        broken = broken && page != NONE && idle(reuse, page) && reuse->nodes[page].child == NONE;
    }
    return true;
}

void reuse_trim(struct reuse *reuse)
{
    while (reuse->count > reuse->capacity && reuse_evict(reuse)) {
    }
}

int32_t reuse_idle(const struct reuse *reuse)
{
    int32_t count = 0;
    for (int32_t page = 0; reuse->count > 0 && page < reuse->pages->count; page++) {
        count += idle(reuse, page);
    }
    return count;
}

bool reuse_keeps(const struct reuse *reuse, int32_t page)
{
    return reuse->capacity > 0 && reuse->nodes[page].kept;
}

void reuse_close(struct reuse *reuse)
{
    if (reuse == NULL) {
        return;
    }
    while (reuse->count > 0) { /* the oldest has nothing below it, whoever holds it */
        remove_page(reuse, reuse->oldest);
    }
    mem_free(reuse->nodes);
    mem_free(reuse->tokens);
    mem_free(reuse->positions);
    *reuse = (struct reuse){0};
}

/* ---- finding and keeping ------------------------------------------------------------------- */

int32_t reuse_find(
    const struct reuse *reuse, const struct reuse_key *key, const struct slot_list *list)
{
    int32_t count = 0;
    if (reuse->count > 0) {
        (void)best_root(reuse, key, list, &count);
    }
    return count;
}

int32_t reuse_take(struct reuse *reuse, const struct reuse_key *key, const struct slot_list *list,
    struct slots *slots)
{
    int32_t count = 0, page_slots = reuse->pages->page_slots;
    ASSERT(slots->page_count == 0 && slots->pages == reuse->pages);
    int32_t root = reuse->count > 0 ? best_root(reuse, key, list, &count) : NONE;
    if (root == NONE) {
        return 0;
    }
    (void)walk(reuse, root, list, slots);
    use(reuse, slots->page_ids[slots->page_count - 1]);
    if (count % page_slots == 0) {
        return count;
    }
    while (!slots_own_last(slots)) {
        if (!reuse_evict(reuse)) {
            slots_drop_last(slots);
            count -= count % page_slots;
            break;
        }
    }
    if (count < key->context_count) {
        slots_release(slots);
        return 0;
    }
    return count;
}

/* The page below `parent` that knows slots [from, to) of the list. */
static int32_t find_same(const struct reuse *reuse, const struct reuse_key *key, int32_t parent,
    const struct slot_list *list, int32_t from, int32_t to)
{
    for (int32_t page = children_of(reuse, parent); page != NONE; page = reuse->nodes[page].next) {
        if (common(reuse, page, list, from) < to - from) {
            continue;
        }
        if (parent != NONE || (reuse_same_key(&reuse->nodes[page].key, key) &&
                                  walk(reuse, page, list, NULL) >= key->context_count)) {
            return page;
        }
    }
    return NONE;
}

/* A page below `parent` that knows only a beginning of slots [from, to) has become needless. */
static void remove_shorter(struct reuse *reuse, const struct reuse_key *key, int32_t parent,
    const struct slot_list *list, int32_t from, int32_t to)
{
    int32_t next;
    for (int32_t page = children_of(reuse, parent); page != NONE; page = next) {
        const struct reuse_node *node = &reuse->nodes[page];
        next = node->next;
        if (node->count < to - from && reuse_same_key(&node->key, key) &&
            common(reuse, page, list, from) == node->count) {
            remove_page(reuse, page);
        }
    }
}

void reuse_keep(struct reuse *reuse, const struct reuse_key *key, const struct slot_list *list,
    struct slots *slots)
{
    int32_t page_slots = reuse->pages->page_slots;
    if (reuse->capacity == 0 || list->count == 0 || list->count < key->context_count) {
        return;
    }
    int32_t index = 0, parent = NONE; /* the sequence's leading pages that are kept in full */
    while (index < slots->page_count && reuse->nodes[slots->page_ids[index]].kept &&
           reuse->nodes[slots->page_ids[index]].count == page_slots) {
        parent = slots->page_ids[index++];
    }
    int32_t from = index * page_slots;
    if (from < list->count && reuse->nodes[slots->page_ids[index]].kept) {
        if (reuse->nodes[slots->page_ids[index]].count >= list->count - from) {
            use(reuse, slots->page_ids[index]);
            return;
        }
        remove_page(reuse, slots->page_ids[index]); /* it has grown since */
    }
    for (; from < list->count; index++, from += page_slots) {
        int32_t to = MIN(from + page_slots, list->count);
        int32_t same = find_same(reuse, key, parent, list, from, to);
        if (same == NONE) {
            remove_shorter(reuse, key, parent, list, from, to);
            insert(reuse, key, parent, slots->page_ids[index], list, from);
            parent = slots->page_ids[index];
        } else {
            if (to - from == page_slots) {
                slots_replace(slots, index, same);
            }
            parent = same;
        }
    }
    use(reuse, parent);
    reuse_trim(reuse);
}
