/* See the header; nothing here touches the compute queue, so a busy engine cannot delay a probe. */
#include "server/health.h"

#include <stdio.h>
#include "engine/base/log.h"
#include "server/request.h"

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

bool health_stalled(const struct health *health, const struct engine_stats *stats, int64_t now_us)
{
    return stats->work_waiting && now_us - stats->last_step_us > health->stall_us;
}

static void log_stall(const struct engine_stats *stats, int64_t now_us)
{
    static const char *const activities[ACTIVITY_COUNT] = {
#define X(name, word) word,
        ACTIVITY_MAP(X)
#undef X
    };
    static const char *const kinds[KIND_COUNT] = {
#define X(name, word) " " word,
        KIND_MAP(X)
#undef X
    };
    const struct engine_activity *now = &stats->activity;
    char words[64] = "";
    size_t used = 0;
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        if ((now->kinds >> kind & 1) != 0) {
            used += (size_t)snprintf(words + used, sizeof(words) - used, "%s", kinds[kind]);
        }
    }
    log_text(LOG_ERROR, "engine",
        "no step has ended for %lld ms; at %s, %d rows of:%s; %u sequences run, %u jobs wait",
        (long long)(now_us - stats->last_step_us) / 1000, activities[now->what], now->rows, words,
        stats->sequences_running, stats->queue_depth);
}

void health_watch(struct health *health, struct engine *engine, int64_t now_us)
{
    struct engine_stats stats;
    engine_stats(engine, &stats);
    bool stalled = health_stalled(health, &stats, now_us);
    if (stalled && !health->stalled) {
        log_stall(&stats, now_us);
    } else if (!stalled && health->stalled) {
        log_text(LOG_INFO, "engine", "steps end again");
    }
    health->stalled = stalled;
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
    if (health_stalled(health, &stats, now_us)) {
        reply_error(request, 503, "Engine stalled", 1);
        return;
    }
    health_answer_live(request);
}
