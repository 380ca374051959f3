/* The machine's monotonic clock, and the dispatch to a test's own. */
#include "engine/base/clock.h"

#include <stddef.h>
#include <time.h>

#include "engine/base/assert.h"

int64_t clock_now_us(const struct clock *clock)
{
    if (clock != NULL) {
        return clock->now_us(clock->context);
    }
    struct timespec now;
    int status = clock_gettime(CLOCK_MONOTONIC, &now);
    ASSERT(status == 0);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}
