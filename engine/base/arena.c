/*
 * The arena: a chain of blocks, the newest one filled from the front. Memory of a reset block was
 * used before, so each allocation is cleared when it is handed out, not when the block is taken.
 */
#include "engine/base/arena.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/assert.h"
#include "engine/base/checked.h"

enum { ARENA_ALIGNMENT = 16 };

struct arena_block {
    struct arena_block *next;
    size_t bytes; /* of the whole block, this header included */
    size_t used;  /* likewise */
};

#define HEADER_BYTES                                                                               \
    ((sizeof(struct arena_block) + ARENA_ALIGNMENT - 1) / ARENA_ALIGNMENT * ARENA_ALIGNMENT)

void arena_init(struct arena *arena, enum mem_pool pool, size_t block_bytes, size_t bytes_max)
{
    ASSERT(block_bytes >= 256);
    *arena = (struct arena){.pool = pool, .block_bytes = block_bytes, .bytes_max = bytes_max};
}

/* Takes a block with room for `bytes`: an ordinary one where that fits, else a larger one, or a
 * smaller one when the bound leaves no more than that. A larger one is full at once, so the block
 * in use stays in use. */
static struct arena_block *take_block(struct arena *arena, size_t bytes)
{
    size_t need;
    if (!checked_add(bytes, HEADER_BYTES, &need)) {
        return NULL;
    }
    size_t left = arena->bytes_max - arena->bytes;
    if (need > left) {
        return NULL;
    }
    size_t size = MAX(need, MIN(arena->block_bytes, left));
    struct arena_block *block = mem_alloc(arena->pool, size);
    if (block == NULL) {
        return NULL;
    }
    block->bytes = size;
    block->used = HEADER_BYTES;
    if (arena->current == NULL) {
        arena->first = arena->current = block;
    } else {
        block->next = arena->current->next;
        arena->current->next = block;
        arena->current = size > arena->block_bytes ? arena->current : block;
    }
    arena->bytes += size;
    return block;
}

void *arena_alloc(struct arena *arena, size_t bytes)
{
    size_t rounded;
    if (!checked_align(MAX(bytes, 1), ARENA_ALIGNMENT, &rounded)) {
        return NULL;
    }
    struct arena_block *block = arena->current;
    if (block == NULL || rounded > block->bytes - block->used) {
        block = take_block(arena, rounded);
        if (block == NULL) {
            return NULL;
        }
    }
    char *taken = (char *)block + block->used;
    block->used += rounded;
    memset(taken, 0, rounded);
    return taken;
}

void *arena_array(struct arena *arena, size_t count, size_t size)
{
    size_t bytes;
    if (!checked_mul(count, size, &bytes)) {
        return NULL;
    }
    return arena_alloc(arena, bytes);
}

char *arena_copy(struct arena *arena, const char *bytes, size_t n)
{
    size_t with_nul;
    if (!checked_add(n, 1, &with_nul)) {
        return NULL;
    }
    char *copy = arena_alloc(arena, with_nul);
    if (copy != NULL && n != 0) {
        memcpy(copy, bytes, n);
    }
    return copy;
}

char *arena_printf(struct arena *arena, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int count = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = count < 0 ? NULL : arena_alloc(arena, (size_t)count + 1);
    if (text != NULL) {
        (void)vsnprintf(text, (size_t)count + 1, format, again);
    }
    va_end(again);
    return text;
}

static void free_chain(struct arena_block *block)
{
    while (block != NULL) {
        struct arena_block *next = block->next;
        mem_free(block);
        block = next;
    }
}

void arena_reset(struct arena *arena)
{
    struct arena_block *first = arena->first;
    if (first == NULL || first->bytes > arena->block_bytes) {
        arena_drop(arena);
        return;
    }
    free_chain(first->next);
    first->next = NULL;
    first->used = HEADER_BYTES;
    arena->current = first;
    arena->bytes = first->bytes;
}

void arena_drop(struct arena *arena)
{
    free_chain(arena->first);
    arena->first = NULL;
    arena->current = NULL;
    arena->bytes = 0;
}
