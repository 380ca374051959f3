/* See the header; nothing here touches the compute queue, so a busy engine cannot delay a probe. */
#include "server/health.h"

#include "server/request.h"
#include "server/server_limits.h"

void health_loaded(struct health *health, bool works)
{
    if (health->state == HEALTH_LOADING) {
        health->state = works ? HEALTH_READY : HEALTH_FAILED;
    }
}

void health_draining(struct health *health)
{
    health->state = HEALTH_DRAINING;
}

bool health_stalled(const struct engine_stats *stats, int64_t now_us)
{
    return stats->work_waiting && now_us - stats->last_step_us > LIMIT_STALL_MS * INT64_C(1000);
}

void health_answer_live(struct request *request)
{
    reply_begin(request, 200, "application/json");
    buf_text(&request->reply.body, "{\"status\":\"ok\"}");
}

void health_answer(
    const struct health *health, struct engine *engine, int64_t now_us, struct request *request)
{
    switch (health->state) {
    case HEALTH_LOADING:
        reply_error(request, 503, "Loading model", 1);
        return;
    case HEALTH_DRAINING:
        reply_error(request, 503, "Draining", 1);
        return;
    case HEALTH_FAILED:
        reply_error(request, 503, "Model failed", 1);
        return;
    case HEALTH_READY:
        break;
    }
    struct engine_stats stats;
    engine_stats(engine, &stats);
    if (health_stalled(&stats, now_us)) {
        reply_error(request, 503, "Engine stalled", 1);
        return;
    }
    health_answer_live(request);
}
