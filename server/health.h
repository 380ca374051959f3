/*
 * The life cycle as probes see it. Alive is not ready: /live answers 200 as long as the process
 * does; /ready and /health only after the first real forward pass, not while stopping, and not
 * while the engine has work and ends no step.
 */
#ifndef SERVER_HEALTH_H
#define SERVER_HEALTH_H

#include <stdbool.h>
#include <stdint.h>
#include "engine/engine.h"

struct request;

enum health_state { HEALTH_LOADING, HEALTH_READY, HEALTH_DRAINING, HEALTH_FAILED };

/* Loop thread only. */
struct health {
    enum health_state state;
    int64_t stall_us;
    bool stalled; /* as last logged */
};

static inline enum health_state health_state(const struct health *health)
{
    return health->state;
}
/* The first forward pass has ended. A stop that came earlier stays. */
void health_loaded(struct health *health, bool works);
void health_draining(struct health *health);
/* Work waits and no step has ended for stall_us. */
bool health_stalled(const struct health *health, const struct engine_stats *stats, int64_t now_us);
/* The watchdog: logs when the engine stalls, with what it is at, and when it goes on. */
void health_watch(struct health *health, struct engine *engine, int64_t now_us);
/* 200 {"status":"ok"} or 503 with the reason. engine may be NULL. */
void health_answer(
    const struct health *health, struct engine *engine, int64_t now_us, struct request *request);
void health_answer_live(struct request *request);

#endif
