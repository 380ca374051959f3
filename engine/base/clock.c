/* The machine's clocks, and the dispatch to a test's own. */
#include "engine/base/clock.h"

#include <stddef.h>
#include <time.h>

#include "engine/base/assert.h"

static int64_t read_us(clockid_t id)
{
    struct timespec now;
    int status = clock_gettime(id, &now);
    ASSERT(status == 0);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t clock_now_us(const struct clock *clock)
{
    if (clock != NULL) {
        return clock->now_us(clock->context);
    }
    return read_us(CLOCK_MONOTONIC);
}

int64_t clock_thread_us(void *context)
{
    (void)context;
    return read_us(CLOCK_THREAD_CPUTIME_ID);
}
