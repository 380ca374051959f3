/*
 * A trie over the bytes of pieces: for models that look for every piece at a place of the text, or
 * for the longest. Edges lie in one hash table from (node, byte) to node, which takes 20 bytes a
 * node or so and no order of building.
 */
#ifndef ENGINE_TEXT_TRIE_H
#define ENGINE_TEXT_TRIE_H

#include <stddef.h>
#include <stdint.h>
#include "engine/base/err.h"

enum {
    TRIE_ROOT = 0,
    TRIE_NODES_MAX = 1 << 24, /* the largest vocabularies have a million */
};

struct trie_edge {
    uint32_t node; /* UINT32_MAX: empty */
    uint32_t byte_and_child;
};

struct trie {
    struct trie_edge *edges;
    int32_t *ids; /* of the piece that ends at a node, -1 for none */
    size_t edge_mask;
    uint64_t multiplier; /* of the hash, odd */
    uint32_t shift;      /* its top bits that count */
    uint32_t node_count, node_capacity;
};

MUST_USE enum err trie_init(struct trie *trie);
void trie_free(struct trie *trie); /* zeroed and half-built ones are allowed */
size_t trie_memory(const struct trie *trie);
/* Of equal pieces the last is found. ERR_LIMIT past TRIE_NODES_MAX; then as after ERR_NO_MEMORY the
 * trie can only be freed. */
MUST_USE enum err trie_add(struct trie *trie, const char *bytes, size_t count, int32_t id);
/* The node behind `node` along a byte, -1 when no piece goes there. */
int32_t trie_next(const struct trie *trie, int32_t node, unsigned char byte);

#endif
