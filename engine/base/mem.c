/*
 * One block is one calloc or aligned_alloc of the C library with a 64-byte header in front of the
 * payload:
 *
 *     raw ... | header (64) | payload (bytes) | slack ...
 *                           ^ aligned to 64 or to 2 MiB
 *
 * Large blocks come from calloc with room to align by hand, so that fresh pages of the system are
 * not written a second time, only to clear them. The slack behind a payload is poisoned under
 * AddressSanitizer.
 *
 * The counters and the test's failure switch are the process's, not an engine's: like the heap
 * they describe, they exist once. Together with the log they are the exception to "no mutable
 * globals".
 */
#include "engine/base/mem.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "engine/base/assert.h"
#include "engine/base/checked.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) && !defined(__SANITIZE_ADDRESS__)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, bytes) ((void)(address), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(address, bytes) ((void)(address), (void)(bytes))
#endif

enum {
    SMALL_ALIGNMENT = 64,
    LARGE_BYTES = 2 << 20, /* size and alignment of a huge page on x86-64 and arm64 */
};

static const uint64_t HEADER_MAGIC = UINT64_C(0x6d61676e65746421);

struct header {
    uint64_t magic;
    void *raw;       /* what the C library gave */
    size_t bytes;    /* of the payload, as asked for */
    size_t poisoned; /* slack behind the payload */
    enum mem_pool pool;
    char pad[SMALL_ALIGNMENT - 2 * sizeof(uint64_t) - 2 * sizeof(size_t) - sizeof(enum mem_pool)];
};
_Static_assert(sizeof(struct header) == SMALL_ALIGNMENT, "the payload follows the header");

static const char *const pool_words[MEM_POOL_COUNT] = {
#define X(name, word) [MEM_##name] = word,
    MEM_POOL_MAP(X)
#undef X
};

static _Atomic uint64_t pool_bytes[MEM_POOL_COUNT];
static _Atomic uint64_t fail_countdown;
static _Atomic int fail_forever;
static _Thread_local int thread_sealed;

const char *mem_pool_word(enum mem_pool pool)
{
    ASSERT((int)pool >= 0 && pool < MEM_POOL_COUNT);
    return pool_words[pool];
}

void mem_fail_after(uint64_t nth, int forever)
{
    atomic_store(&fail_forever, forever);
    atomic_store(&fail_countdown, nth);
}

/* Counts one allocation down; true when this is the one that has to fail. */
static bool must_fail(void)
{
    uint64_t left = atomic_load_explicit(&fail_countdown, memory_order_relaxed);
    while (left != 0) {
        uint64_t next = left > 1 ? left - 1 : (atomic_load(&fail_forever) != 0 ? 1 : 0);
        if (atomic_compare_exchange_weak(&fail_countdown, &left, next)) {
            return left == 1;
        }
    }
    return false;
}

static struct header *header_of(void *block)
{
    struct header *header = (struct header *)block - 1;
    ASSERT(header->magic == HEADER_MAGIC);
    return header;
}

/* Small: the raw block ends where the payload ends, so a sanitizer sees the first byte past it. */
static struct header *take_small(size_t bytes)
{
    void *raw = NULL;
    if (posix_memalign(&raw, SMALL_ALIGNMENT, sizeof(struct header) + bytes) != 0) {
        return NULL;
    }
    memset(raw, 0, sizeof(struct header) + bytes);
    struct header *header = raw;
    header->raw = raw;
    return header;
}

static struct header *take_large(size_t bytes)
{
    size_t raw_bytes;
    if (!checked_add(bytes, sizeof(struct header) + LARGE_BYTES, &raw_bytes)) {
        return NULL;
    }
    char *raw = calloc(1, raw_bytes);
    if (raw == NULL) {
        return NULL;
    }
    uintptr_t first = (uintptr_t)raw + sizeof(struct header);
    size_t skip = (LARGE_BYTES - first % LARGE_BYTES) % LARGE_BYTES;
    char *payload = raw + sizeof(struct header) + skip;
    struct header *header = (struct header *)(void *)payload - 1;
    header->raw = raw;
    header->poisoned = (size_t)(raw + raw_bytes - (payload + bytes));
    ASAN_POISON_MEMORY_REGION(payload + bytes, header->poisoned);
    /* Only advice: without it the program is slower, not wrong. */
    (void)madvise(payload, bytes & ~(size_t)(LARGE_BYTES - 1), MADV_HUGEPAGE);
    return header;
}

void *mem_alloc(enum mem_pool pool, size_t bytes)
{
    ASSERT((int)pool >= 0 && pool < MEM_POOL_COUNT);
    ASSERT(!thread_sealed);
    if (must_fail()) {
        return NULL;
    }
    struct header *header = bytes < LARGE_BYTES ? take_small(bytes) : take_large(bytes);
    if (header == NULL) {
        return NULL;
    }
    header->magic = HEADER_MAGIC;
    header->bytes = bytes;
    header->pool = pool;
    atomic_fetch_add_explicit(&pool_bytes[pool], bytes, memory_order_relaxed);
    return header + 1;
}

void *mem_array(enum mem_pool pool, size_t count, size_t size)
{
    size_t bytes;
    if (!checked_mul(count, size, &bytes)) {
        return NULL;
    }
    return mem_alloc(pool, bytes);
}

void *mem_grow(enum mem_pool pool, void *block, size_t bytes)
{
    if (block == NULL) {
        return mem_alloc(pool, bytes);
    }
    struct header *header = header_of(block);
    ASSERT(header->pool == pool);
    ASSERT(bytes >= header->bytes);
    void *grown = mem_alloc(pool, bytes);
    if (grown != NULL) {
        memcpy(grown, block, header->bytes);
        mem_free(block);
    }
    return grown;
}

void mem_free(void *block)
{
    if (block == NULL) {
        return;
    }
    ASSERT(!thread_sealed);
    struct header *header = header_of(block);
    atomic_fetch_sub_explicit(&pool_bytes[header->pool], header->bytes, memory_order_relaxed);
    ASAN_UNPOISON_MEMORY_REGION((char *)block + header->bytes, header->poisoned);
    header->magic = 0; /* a second free is a failed assertion, not a corrupted heap */
    free(header->raw);
}

uint64_t mem_bytes(enum mem_pool pool)
{
    ASSERT((int)pool >= 0 && pool < MEM_POOL_COUNT);
    return atomic_load_explicit(&pool_bytes[pool], memory_order_relaxed);
}

void mem_seal_thread(int sealed)
{
    thread_sealed = sealed;
}
