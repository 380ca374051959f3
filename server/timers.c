/*
 * A binary heap with back pointers. timers_run takes one timer out at a time and looks at the top
 * again, because a callback may cancel the very timer that would have come next.
 */
#include "server/timers.h"

#include "engine/base/assert.h"
#include "engine/base/mem.h"

enum err timers_init(struct timers *timers, size_t capacity)
{
    struct timer **heap = mem_array(MEM_OTHER, capacity, sizeof(struct timer *));
    if (heap == NULL) {
        return ERR_NO_MEMORY;
    }
    *timers = (struct timers){.heap = heap, .capacity = capacity};
    return ERR_OK;
}

void timers_free(struct timers *timers)
{
    mem_free(timers->heap);
    *timers = (struct timers){0};
}

void timer_init(struct timer *timer, void (*expire)(void *owner), void *owner)
{
    *timer = (struct timer){.expire = expire, .owner = owner};
}

static void put(struct timers *timers, size_t index, struct timer *timer)
{
    timers->heap[index] = timer;
    timer->place = index + 1;
}

static void sift_up(struct timers *timers, size_t index, struct timer *timer)
{
    while (index > 0) {
        size_t parent = (index - 1) / 2;
        if (timers->heap[parent]->at_us <= timer->at_us) {
            break;
        }
        put(timers, index, timers->heap[parent]);
        index = parent;
    }
    put(timers, index, timer);
}

static void sift_down(struct timers *timers, size_t index, struct timer *timer)
{
    for (;;) {
        size_t child = 2 * index + 1;
        if (child >= timers->count) {
            break;
        }
        if (child + 1 < timers->count &&
            timers->heap[child + 1]->at_us < timers->heap[child]->at_us) {
            child++;
        }
        if (timer->at_us <= timers->heap[child]->at_us) {
            break;
        }
        put(timers, index, timers->heap[child]);
        index = child;
    }
    put(timers, index, timer);
}

void timers_set(struct timers *timers, struct timer *timer, int64_t at_us)
{
    timers_cancel(timers, timer);
    ASSERT(timers->count < timers->capacity);
    timer->at_us = at_us;
    timers->count++;
    sift_up(timers, timers->count - 1, timer);
}

void timers_cancel(struct timers *timers, struct timer *timer)
{
    if (timer->place == 0) {
        return;
    }
    size_t index = timer->place - 1;
    timer->place = 0;
    timers->count--;
    struct timer *last = timers->heap[timers->count];
    if (last == timer) {
        return;
    }
    if (index > 0 && last->at_us < timers->heap[(index - 1) / 2]->at_us) {
        sift_up(timers, index, last);
    } else {
        sift_down(timers, index, last);
    }
}

int64_t timers_next_us(const struct timers *timers)
{
    return timers->count == 0 ? -1 : timers->heap[0]->at_us;
}

void timers_run(struct timers *timers, int64_t now_us)
{
    while (timers->count > 0 && timers->heap[0]->at_us <= now_us) {
        struct timer *timer = timers->heap[0];
        timers_cancel(timers, timer);
        timer->expire(timer->owner);
    }
}
