/* Monotonic time behind a seam that tests can fake. A NULL clock is the machine's. */
#ifndef ENGINE_BASE_CLOCK_H
#define ENGINE_BASE_CLOCK_H

#include <stdint.h>

struct clock {
    int64_t (*now_us)(void *context); /* microseconds, monotonic */
    void *context;
};

int64_t clock_now_us(const struct clock *clock);

#endif
