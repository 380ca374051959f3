/*
 * An arena: many small allocations of one request or one load, dropped whole. Blocks are chained;
 * arena_reset keeps the first block unless it is larger than an ordinary one. Not thread-safe: one
 * owner at a time. `bytes_max` bounds the sum of the blocks; past it allocation returns NULL like
 * any other failure.
 */
#ifndef ENGINE_BASE_ARENA_H
#define ENGINE_BASE_ARENA_H

#include <stdarg.h>
#include <stddef.h>
#include "engine/base/attr.h"
#include "engine/base/mem.h"

struct arena_block;

struct arena {
    struct arena_block *first, *current;
    enum mem_pool pool;
    size_t block_bytes; /* size of ordinary blocks */
    size_t bytes_max;   /* bound of the sum of all blocks */
    size_t bytes;       /* sum of all blocks now */
};

/* Takes no memory yet. block_bytes >= 256. */
void arena_init(struct arena *arena, enum mem_pool pool, size_t block_bytes, size_t bytes_max);
/* Zeroed, aligned to 16 bytes; NULL when the bound or the machine is exhausted. */
MUST_USE void *arena_alloc(struct arena *arena, size_t bytes);
MUST_USE void *arena_array(struct arena *arena, size_t count, size_t size);
/* NUL-terminated copy of n bytes. */
MUST_USE char *arena_copy(struct arena *arena, const char *bytes, size_t n);
MUST_USE char *arena_printf(struct arena *arena, const char *format, ...) PRINTF_LIKE(2, 3);
void arena_reset(struct arena *arena);
/* Frees all blocks; the arena may be used again. */
void arena_drop(struct arena *arena);

#endif
