/*
 * The bounded ring. head counts elements taken and tail elements put, both running freely and
 * wrapping at 2^32; their difference is the fill, which is why capacity is a power of two.
 * `elements` is non-NULL exactly while the lock and the condition exist.
 */
#include "engine/base/ring.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "engine/base/assert.h"
#include "engine/base/mem.h"

/* The condition waits on the monotonic clock: a step of the wall clock must not wake or stall. */
static bool cond_init_monotonic(pthread_cond_t *cond)
{
    pthread_condattr_t attributes;
    if (pthread_condattr_init(&attributes) != 0) {
        return false;
    }
    bool good = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0 &&
                pthread_cond_init(cond, &attributes) == 0;
    (void)pthread_condattr_destroy(&attributes);
    return good;
}

enum err ring_init(struct ring *ring, uint32_t capacity, size_t element_bytes)
{
    ASSERT(capacity != 0 && (capacity & (capacity - 1)) == 0);
    ASSERT(element_bytes != 0);
    memset(ring, 0, sizeof *ring);
    unsigned char *elements = mem_array(MEM_JOBS, capacity, element_bytes);
    if (elements == NULL) {
        return ERR_NO_MEMORY;
    }
    if (pthread_mutex_init(&ring->lock, NULL) != 0) {
        mem_free(elements);
        return ERR_INTERNAL;
    }
    if (!cond_init_monotonic(&ring->filled)) {
        (void)pthread_mutex_destroy(&ring->lock);
        mem_free(elements);
        return ERR_INTERNAL;
    }
    ring->elements = elements;
    ring->element_bytes = element_bytes;
    ring->capacity = capacity;
    return ERR_OK;
}

void ring_free(struct ring *ring)
{
    if (ring == NULL || ring->elements == NULL) {
        return;
    }
    (void)pthread_cond_destroy(&ring->filled);
    (void)pthread_mutex_destroy(&ring->lock);
    mem_free(ring->elements);
    ring->elements = NULL;
}

static unsigned char *slot(struct ring *ring, uint32_t index)
{
    return ring->elements + (size_t)(index & (ring->capacity - 1)) * ring->element_bytes;
}

bool ring_push(struct ring *ring, const void *element)
{
    pthread_mutex_lock(&ring->lock);
    bool room = ring->tail - ring->head < ring->capacity;
    if (room) {
        memcpy(slot(ring, ring->tail), element, ring->element_bytes);
        ring->tail++;
        pthread_cond_signal(&ring->filled);
    }
    pthread_mutex_unlock(&ring->lock);
    return room;
}

/* With the lock held. */
static bool take(struct ring *ring, void *out_element)
{
    if (ring->tail == ring->head) {
        return false;
    }
    memcpy(out_element, slot(ring, ring->head), ring->element_bytes);
    ring->head++;
    return true;
}

bool ring_pop(struct ring *ring, void *out_element)
{
    pthread_mutex_lock(&ring->lock);
    bool taken = take(ring, out_element);
    pthread_mutex_unlock(&ring->lock);
    return taken;
}

static struct timespec deadline_after(int64_t timeout_ms)
{
    struct timespec at;
    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += (time_t)(timeout_ms / 1000);
    at.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    if (at.tv_nsec >= 1000000000) {
        at.tv_nsec -= 1000000000;
        at.tv_sec++;
    }
    return at;
}

bool ring_pop_wait(struct ring *ring, void *out_element, int64_t timeout_ms)
{
    struct timespec deadline = deadline_after(timeout_ms < 0 ? 0 : timeout_ms);
    bool expired = false;
    pthread_mutex_lock(&ring->lock);
    bool taken = take(ring, out_element);
    while (!taken && !ring->woken && !expired) {
        if (timeout_ms < 0) {
            pthread_cond_wait(&ring->filled, &ring->lock);
        } else {
            expired = pthread_cond_timedwait(&ring->filled, &ring->lock, &deadline) == ETIMEDOUT;
        }
        taken = take(ring, out_element);
    }
    if (!taken) {
        ring->woken = false;
    }
    pthread_mutex_unlock(&ring->lock);
    return taken;
}

void ring_wake(struct ring *ring)
{
    pthread_mutex_lock(&ring->lock);
    ring->woken = true;
    pthread_cond_signal(&ring->filled);
    pthread_mutex_unlock(&ring->lock);
}

uint32_t ring_count(struct ring *ring)
{
    pthread_mutex_lock(&ring->lock);
    uint32_t count = ring->tail - ring->head;
    pthread_mutex_unlock(&ring->lock);
    return count;
}
