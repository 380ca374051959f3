/*
 * The program's own allocator front: every allocation of ours goes through it, so that memory can
 * be counted by pool, sealed after start, and made to fail on purpose in tests.
 *
 * After mem_seal() the engine thread and the compute workers must not allocate: a call from a
 * thread that has declared itself sealed is a failed assertion. Any thread may call; counters are
 * atomic. Blocks of 2 MiB and more are aligned to 2 MiB and advised to huge pages.
 */
#ifndef ENGINE_BASE_MEM_H
#define ENGINE_BASE_MEM_H

#include <stddef.h>
#include <stdint.h>
#include "engine/base/attr.h"

/* What memory is for, as /metrics memory_bytes{pool=...} shows it. */
#define MEM_POOL_MAP(X)                                                                            \
    X(WEIGHTS, "weights")                                                                          \
    X(CACHE, "cache")                                                                              \
    X(SCRATCH, "scratch")                                                                          \
    X(JOBS, "jobs")                                                                                \
    X(TOKENIZER, "tokenizer")                                                                      \
    X(REQUESTS, "requests")                                                                        \
    X(OTHER, "other")

enum mem_pool {
#define X(name, word) MEM_##name,
    MEM_POOL_MAP(X)
#undef X
        MEM_POOL_COUNT
};

const char *mem_pool_word(enum mem_pool pool);

/* Zeroed memory aligned to 64 bytes (2 MiB for large blocks), or NULL. bytes may be 0: still a
 * unique pointer. Freed with mem_free. */
MUST_USE void *mem_alloc(enum mem_pool pool, size_t bytes);
/* Zeroed array; NULL too when count * size overflows. */
MUST_USE void *mem_array(enum mem_pool pool, size_t count, size_t size);
/* Grows a block; the new part is zeroed; on failure NULL and the old block is intact. */
MUST_USE void *mem_grow(enum mem_pool pool, void *block, size_t bytes);
/* NULL is allowed. */
void mem_free(void *block);

/* Bytes of a pool in use now. */
uint64_t mem_bytes(enum mem_pool pool);

/* Declares that the calling thread must not allocate or free from now on (or may again). */
void mem_seal_thread(int sealed);

/* Tests: makes the nth allocation from now (1 = the next) fail, and all later ones when
 * `forever`; 0 switches it off. */
void mem_fail_after(uint64_t nth, int forever);

#endif
