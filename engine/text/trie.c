/*
 * See trie.h. Open addressing with linear probing, at most half full; grows by doubling. The
 * multiplier of the hash is drawn by lot for each trie: against one that is known, a file of 130 kB
 * could choose its bytes so that all edges want the same place, and took seconds to read.
 */
#include "engine/text/trie.h"

#include <string.h>

#include "engine/base/assert.h"
#include "engine/base/mem.h"
#include "engine/base/rng.h"

enum { FIRST_EDGES = 1 << 10 };

static size_t home_of(const struct trie *trie, uint32_t node, unsigned char byte)
{
    return (size_t)((((uint64_t)node << 8 | byte) * trie->multiplier) >> trie->shift);
}

/* The edge, or the empty slot where it belongs. */
static struct trie_edge *edge_of(const struct trie *trie, uint32_t node, unsigned char byte)
{
    size_t at = home_of(trie, node, byte);
    while (trie->edges[at].node != UINT32_MAX &&
           (trie->edges[at].node != node || (trie->edges[at].byte_and_child & 0xFF) != byte)) {
        at = (at + 1) & trie->edge_mask;
    }
    return &trie->edges[at];
}

static enum err grow_edges(struct trie *trie, size_t count)
{
    struct trie_edge *old = trie->edges;
    size_t old_count = old == NULL ? 0 : trie->edge_mask + 1;
    struct trie_edge *edges = mem_array(MEM_TOKENIZER, count, sizeof(*edges));
    if (edges == NULL) {
        return ERR_NO_MEMORY;
    }
    memset(edges, 0xFF, count * sizeof(*edges));
    trie->edges = edges;
    trie->edge_mask = count - 1;
    trie->shift = 64 - (uint32_t)__builtin_ctzll(count);
    for (size_t i = 0; i < old_count; i++) {
        if (old[i].node != UINT32_MAX) {
            *edge_of(trie, old[i].node, (unsigned char)old[i].byte_and_child) = old[i];
        }
    }
    mem_free(old);
    return ERR_OK;
}

static enum err add_node(struct trie *trie)
{
    if (trie->node_count >= TRIE_NODES_MAX) {
        return ERR_LIMIT;
    }
    if (trie->node_count == trie->node_capacity) {
        uint32_t capacity = MAX((uint32_t)FIRST_EDGES, trie->node_capacity * 2);
        int32_t *ids = mem_grow(MEM_TOKENIZER, trie->ids, capacity * sizeof(*ids));
        if (ids == NULL) {
            return ERR_NO_MEMORY;
        }
        trie->ids = ids;
        trie->node_capacity = capacity;
    }
    trie->ids[trie->node_count++] = -1;
    return ERR_OK;
}

enum err trie_init(struct trie *trie)
{
    memset(trie, 0, sizeof(*trie));
    trie->multiplier = rng_entropy() | 1;
    enum err err = grow_edges(trie, FIRST_EDGES);
    if (err != ERR_OK || (err = add_node(trie)) != ERR_OK) {
        trie_free(trie);
    }
    return err;
}

void trie_free(struct trie *trie)
{
    mem_free(trie->edges);
    mem_free(trie->ids);
    memset(trie, 0, sizeof(*trie));
}

size_t trie_memory(const struct trie *trie)
{
    if (trie->edges == NULL) {
        return 0;
    }
    return (trie->edge_mask + 1) * sizeof(*trie->edges) + trie->node_capacity * sizeof(*trie->ids);
}

enum err trie_add(struct trie *trie, const char *bytes, size_t count, int32_t id)
{
    uint32_t node = TRIE_ROOT;
    for (size_t i = 0; i < count; i++) {
        unsigned char byte = (unsigned char)bytes[i];
        struct trie_edge *edge = edge_of(trie, node, byte);
        if (edge->node == UINT32_MAX) {
            enum err err = add_node(trie);
            if (err == ERR_OK && trie->node_count * (size_t)2 > trie->edge_mask) {
                err = grow_edges(trie, 2 * (trie->edge_mask + 1));
            }
            if (err != ERR_OK) {
                return err;
            }
            edge = edge_of(trie, node, byte);
            *edge = (struct trie_edge){node, (trie->node_count - 1) << 8 | byte};
        }
        node = edge->byte_and_child >> 8;
    }
    trie->ids[node] = id;
    return ERR_OK;
}

int32_t trie_next(const struct trie *trie, int32_t node, unsigned char byte)
{
    const struct trie_edge *edge = edge_of(trie, (uint32_t)node, byte);
    return edge->node == UINT32_MAX ? -1 : (int32_t)(edge->byte_and_child >> 8);
}
