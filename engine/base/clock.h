/* Time behind a seam that tests can fake. A NULL clock is the machine's monotonic one. */
#ifndef ENGINE_BASE_CLOCK_H
#define ENGINE_BASE_CLOCK_H

#include <stdint.h>

struct clock {
    int64_t (*now_us)(void *context); /* microseconds, monotonic */
    void *context;
};

int64_t clock_now_us(const struct clock *clock);
/* A clock's now_us: what the calling thread has computed. What else the machine does is no part. */
int64_t clock_thread_us(void *context);

#endif
