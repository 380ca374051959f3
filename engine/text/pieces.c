/*
 * Open addressing with linear probing over a table at most half full. The hash eats eight bytes at
 * a time: pieces are short and looked up once or twice per merge, which makes this the hottest loop
 * of SentencePiece encoding. Its multiplier is drawn by lot, as that of trie.c and for its reason.
 */
#include "engine/text/pieces.h"

#include <string.h>

#include "engine/base/assert.h"
#include "engine/base/checked.h"
#include "engine/base/mem.h"
#include "engine/base/rng.h"

static uint64_t mix(uint64_t hash, uint64_t word, uint64_t multiplier)
{
    hash = (hash ^ word) * multiplier;
    return hash ^ (hash >> 29);
}

static uint64_t hash_bytes(const struct pieces *pieces, const char *bytes, size_t count)
{
    const uint64_t multiplier = pieces->multiplier;
    uint64_t hash = count;
    uint64_t word;
    for (; count >= sizeof(word); bytes += sizeof(word), count -= sizeof(word)) {
        memcpy(&word, bytes, sizeof(word));
        hash = mix(hash, word, multiplier);
    }
    word = 0;
    memcpy(&word, bytes, count);
    return mix(mix(hash, word, multiplier), 0, multiplier);
}

static uint32_t tag_of(uint64_t hash)
{
    return (uint32_t)(hash >> 32);
}

enum err pieces_init(struct pieces *pieces, int32_t count_max, size_t bytes_max)
{
    ASSERT(count_max >= 0);
    memset(pieces, 0, sizeof(*pieces));
    size_t total;
    if (!checked_add(bytes_max, (size_t)count_max, &total) || total > UINT32_MAX) {
        return ERR_LIMIT;
    }
    size_t slot_count = 16;
    while (slot_count < 2 * (size_t)count_max) {
        slot_count *= 2;
    }
    pieces->bytes = mem_alloc(MEM_TOKENIZER, total);
    pieces->starts = mem_array(MEM_TOKENIZER, (size_t)count_max + 1, sizeof(uint32_t));
    pieces->slots = mem_array(MEM_TOKENIZER, slot_count, sizeof(struct piece_slot));
    if (pieces->bytes == NULL || pieces->starts == NULL || pieces->slots == NULL) {
        pieces_free(pieces);
        return ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < slot_count; i++) {
        pieces->slots[i].id = -1;
    }
    pieces->slot_mask = slot_count - 1;
    pieces->multiplier = rng_entropy() | 1;
    pieces->bytes_max = total;
    pieces->count_max = count_max;
    return ERR_OK;
}

void pieces_free(struct pieces *pieces)
{
    mem_free(pieces->bytes);
    mem_free(pieces->starts);
    mem_free(pieces->slots);
    memset(pieces, 0, sizeof(*pieces));
}

void pieces_append(struct pieces *pieces, const char *bytes, size_t count)
{
    ASSERT(pieces->count < pieces->count_max);
    uint32_t start = pieces->starts[pieces->count];
    ASSERT(count < pieces->bytes_max - start);
    memcpy(pieces->bytes + start, bytes, count);
    pieces->bytes[start + count] = '\0';
    pieces->count++;
    pieces->starts[pieces->count] = start + (uint32_t)count + 1;
}

const char *pieces_get(const struct pieces *pieces, int32_t id, size_t *out_count)
{
    ASSERT(id >= 0 && id < pieces->count);
    uint32_t start = pieces->starts[id];
    *out_count = pieces->starts[id + 1] - start - 1;
    return pieces->bytes + start;
}

/* The slot that holds the string of this hash, or the empty one where it belongs. */
static struct piece_slot *slot_of(
    const struct pieces *pieces, uint64_t hash, const char *bytes, size_t count)
{
    for (size_t at = hash & pieces->slot_mask;; at = (at + 1) & pieces->slot_mask) {
        struct piece_slot *slot = &pieces->slots[at];
        if (slot->id < 0) {
            return slot;
        }
        if (slot->tag == tag_of(hash)) {
            size_t held_count;
            const char *held = pieces_get(pieces, slot->id, &held_count);
            if (held_count == count && memcmp(held, bytes, count) == 0) {
                return slot;
            }
        }
    }
}

void pieces_index(struct pieces *pieces, const uint8_t *kinds, uint8_t kind)
{
    enum { AHEAD = 16 }; /* strings prepared before they are put in */
    uint64_t hashes[AHEAD];
    for (int32_t coming = 0; coming < pieces->count + AHEAD; coming++) {
        size_t count;
        int32_t id = coming - AHEAD;
        if (id >= 0 && (kinds == NULL || kinds[id] == kind)) {
            const char *bytes = pieces_get(pieces, id, &count);
            uint64_t hash = hashes[id % AHEAD];
            struct piece_slot *slot = slot_of(pieces, hash, bytes, count);
            *slot = (struct piece_slot){.tag = tag_of(hash), .id = id};
            pieces->longest = MAX(pieces->longest, (uint32_t)count);
        }
        if (coming < pieces->count) {
            const char *bytes = pieces_get(pieces, coming, &count);
            hashes[coming % AHEAD] = pieces_prepare(pieces, bytes, count);
        }
    }
}

uint64_t pieces_prepare(const struct pieces *pieces, const char *bytes, size_t count)
{
    uint64_t hash = hash_bytes(pieces, bytes, count);
    __builtin_prefetch(&pieces->slots[hash & pieces->slot_mask]);
    return hash;
}

int32_t pieces_find_prepared(
    const struct pieces *pieces, uint64_t hash, const char *bytes, size_t count)
{
    return count > pieces->longest ? -1 : slot_of(pieces, hash, bytes, count)->id;
}

int32_t pieces_find(const struct pieces *pieces, const char *bytes, size_t count)
{
    if (count > pieces->longest) {
        return -1; /* without hashing it */
    }
    return slot_of(pieces, hash_bytes(pieces, bytes, count), bytes, count)->id;
}

size_t pieces_memory(const struct pieces *pieces)
{
    return pieces->bytes_max + ((size_t)pieces->count_max + 1) * sizeof(uint32_t) +
           (pieces->slot_mask + 1) * sizeof(struct piece_slot);
}
