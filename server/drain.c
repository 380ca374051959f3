/*
 * The order of stopping. Each stage waits for its condition or its time:
 *
 *     signal    DRAIN_DELAY    not ready, everything is served: load balancers notice
 *     delay     DRAIN_REFUSE   listener closed, idle connections shut, new requests get 503
 *     timeout   DRAIN_CANCEL   running work is cancelled: streams get an error frame, others 503
 *     no request left, or LIMIT_DRAIN_END_MS: every connection is shut down and resumed
 *     no connection left: DRAIN_DONE
 *
 * A second signal goes to DRAIN_CANCEL at once. The HTTP library is stopped only when it has no
 * connection: stopping it with a suspended one is undefined.
 */
#include "server/http_mhd.h"

#include "engine/base/log.h"

static bool is_open(const struct conn *conn)
{
    return conn->fd >= 0 && !conn->dead;
}

static void set_timer(struct http *http, int64_t at_us)
{
    timers_set(&http->timers, &http->drain_timer, at_us);
}

static void enter(struct http *http, enum drain_stage stage)
{
    http->stage = stage;
    http->hooks.drain(http->hooks.context, stage);
}

static void close_idle(struct http *http)
{
    for (int i = 0; i < http->conns_count; i++) {
        struct conn *conn = &http->conns[i];
        if (is_open(conn) && !conn->request.begun && !conn->request_line) {
            conn_shutdown(conn);
        }
    }
}

static void cancel_request(struct http *http, struct conn *conn)
{
    struct request *request = &conn->request;
    if (request->phase == PHASE_REPLY || request->reply.status != 0) {
        if (!request->reply.stream || request->stream.ended) {
            return; /* its answer is on the way */
        }
    }
    request->failed_by_us = true;
    http->hooks.drop(http->hooks.context, request);
    if (request->stream.committed) {
        stream_error(request, 503, "the server is stopping");
        http_ready(http, request);
        return;
    }
    reply_error(request, 503, "the server is stopping", 1);
    request->reply.stream = false;
    if (request->phase <= PHASE_BODY) {
        conn_answer_raw(conn);
    } else {
        http_ready(http, request);
    }
}

static void enter_cancel(struct http *http)
{
    listener_close(http);
    enter(http, DRAIN_CANCEL);
    close_idle(http);
    for (int i = 0; i < http->conns_count; i++) {
        struct conn *conn = &http->conns[i];
        if (is_open(conn) && conn->request.begun) {
            cancel_request(http, conn);
        }
    }
    set_timer(http, http_now_us(http) + LIMIT_DRAIN_END_MS * INT64_C(1000));
}

static void shut_all(struct http *http)
{
    for (int i = 0; i < http->conns_count; i++) {
        if (http->conns[i].fd >= 0 && !http->conns[i].dead) {
            conn_shutdown(&http->conns[i]);
        }
    }
}

static void drain_expired(void *owner)
{
    struct http *http = owner;
    if (http->stage == DRAIN_DELAY) {
        listener_close(http);
        enter(http, DRAIN_REFUSE);
        close_idle(http);
        set_timer(http, http->drain_began_us + http->config.drain_timeout_ms * 1000);
    } else if (http->stage == DRAIN_REFUSE) {
        log_text(LOG_WARN, "http", "drain timeout: cancelling %d requests", http->open_requests);
        enter_cancel(http);
    } else if (http->stage == DRAIN_CANCEL) {
        shut_all(http);
    }
}

void drain_init(struct http *http)
{
    timer_init(&http->drain_timer, drain_expired, http);
}

static void take_wish(struct http *http)
{
    int wanted = atomic_load(&http->stop_wanted);
    if (wanted == http->stop_seen) {
        return;
    }
    http->stop_seen = wanted;
    if (wanted == 2 && http->stage < DRAIN_CANCEL) {
        enter_cancel(http);
    } else if (http->stage == DRAIN_NONE) {
        http->drain_began_us = http_now_us(http);
        enter(http, DRAIN_DELAY);
        set_timer(http, http->drain_began_us + http->config.drain_delay_ms * 1000);
    }
}

void drain_poll(struct http *http)
{
    take_wish(http);
    if (http->stage < DRAIN_REFUSE) {
        return;
    }
    if (http->open_requests == 0) {
        shut_all(http);
        if (http->stats.connections == 0) {
            timers_cancel(&http->timers, &http->drain_timer);
            enter(http, DRAIN_DONE);
        }
    }
}
