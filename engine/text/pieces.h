/*
 * Byte strings by number and numbers by byte string: the two directions of a vocabulary.
 *
 * Strings are appended once in order of their numbers; only those that pieces_index chooses can be
 * found. Each is followed by a NUL in memory that is not part of it, so that it can be handed out
 * as a C string; a string may hold NULs of its own.
 */
#ifndef ENGINE_TEXT_PIECES_H
#define ENGINE_TEXT_PIECES_H

#include <stddef.h>
#include <stdint.h>
#include "engine/base/attr.h"
#include "engine/base/err.h"

struct piece_slot {
    uint32_t tag; /* upper half of the hash: most unequal strings are told apart without a look */
    int32_t id;   /* -1 = empty */
};

struct pieces {
    char *bytes;
    uint32_t *starts; /* [count_max + 1]; piece i and its NUL lie in [starts[i], starts[i + 1]) */
    struct piece_slot *slots;
    size_t slot_mask;
    uint64_t multiplier; /* of the hash, odd */
    size_t bytes_max;
    int32_t count, count_max;
    uint32_t longest; /* bytes of the longest piece that can be found */
};

/* Room for `count_max` strings of `bytes_max` bytes together, NULs not counted. */
MUST_USE enum err pieces_init(struct pieces *pieces, int32_t count_max, size_t bytes_max);
void pieces_free(struct pieces *pieces); /* zeroed and half-built ones are allowed */
/* Gives the string the next number. */
void pieces_append(struct pieces *pieces, const char *bytes, size_t count);
/* Makes findable the strings whose kinds[number] is `kind`, or all when kinds is NULL; of equal
 * strings the last is found. Once, when all are appended. */
void pieces_index(struct pieces *pieces, const uint8_t *kinds, uint8_t kind);
const char *pieces_get(const struct pieces *pieces, int32_t id, size_t *out_count);
/* -1 when there is none. */
int32_t pieces_find(const struct pieces *pieces, const char *bytes, size_t count);
/* The same in two steps, for callers that look up many strings at once: a large table does not fit
 * the cache, and after pieces_prepare its slot is on the way. */
uint64_t pieces_prepare(const struct pieces *pieces, const char *bytes, size_t count);
int32_t pieces_find_prepared(
    const struct pieces *pieces, uint64_t hash, const char *bytes, size_t count);
size_t pieces_memory(const struct pieces *pieces);

#endif
