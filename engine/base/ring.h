/*
 * Bounded rings between threads. Elements are copied; capacity is a power of two fixed at init.
 *
 * struct ring: many producers, one consumer (a mutex guards the indices: crossings are few, per
 * request and per token, so a lock of tens of nanoseconds is not worth a cleverer structure).
 * ring_push never blocks: a full ring is an ordinary answer. ring_pop_wait sleeps until an element,
 * ring_wake or the deadline comes.
 */
#ifndef ENGINE_BASE_RING_H
#define ENGINE_BASE_RING_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "engine/base/attr.h"
#include "engine/base/err.h"

struct ring {
    pthread_mutex_t lock;
    pthread_cond_t filled;
    unsigned char *elements;
    size_t element_bytes;
    uint32_t capacity; /* power of two */
    uint32_t head, tail;
    bool woken;
};

MUST_USE enum err ring_init(struct ring *ring, uint32_t capacity, size_t element_bytes);
/* NULL and half-built rings are allowed. No thread may use the ring any more. */
void ring_free(struct ring *ring);
/* False when full. */
MUST_USE bool ring_push(struct ring *ring, const void *element);
/* False when empty. */
MUST_USE bool ring_pop(struct ring *ring, void *out_element);
/* Waits at most timeout_ms (-1 = no bound). False when woken or timed out with nothing there. */
MUST_USE bool ring_pop_wait(struct ring *ring, void *out_element, int64_t timeout_ms);
/* Makes one current or future ring_pop_wait that finds no element return. */
void ring_wake(struct ring *ring);
uint32_t ring_count(struct ring *ring);

#endif
