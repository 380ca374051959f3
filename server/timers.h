/*
 * One heap of deadlines on the monotonic clock. A timer is embedded in what it belongs to and
 * knows its place in the heap, so arming again and cancelling cost O(log n) and never leave a
 * stale entry behind: no event of a timer can reach an object that was given up. Loop thread only.
 */
#ifndef SERVER_TIMERS_H
#define SERVER_TIMERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "engine/base/err.h"

struct timer {
    int64_t at_us;
    size_t place; /* 1 + index in the heap; 0 = not armed */
    void (*expire)(void *owner);
    void *owner;
};

struct timers {
    struct timer **heap; /* [capacity], smallest at_us first */
    size_t count, capacity;
};

/* `capacity` = the number of timers that exist. */
MUST_USE enum err timers_init(struct timers *timers, size_t capacity);
void timers_free(struct timers *timers);
void timer_init(struct timer *timer, void (*expire)(void *owner), void *owner);
/* Arms or moves. */
void timers_set(struct timers *timers, struct timer *timer, int64_t at_us);
void timers_cancel(struct timers *timers, struct timer *timer);
static inline bool timer_armed(const struct timer *timer)
{
    return timer->place != 0;
}
/* -1 when none is armed. */
int64_t timers_next_us(const struct timers *timers);
/* Takes out and calls every timer that is due. A callback may arm and cancel any timer. */
void timers_run(struct timers *timers, int64_t now_us);

#endif
