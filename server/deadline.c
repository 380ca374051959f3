/*
 * What happens when time is up. Each connection has three timers: `phase` for the phase it is in,
 * `total` for the request as a whole, `silent` for the heartbeat of a stream.
 *
 * Until its body is complete nothing has been sent for a request, so the answer to a peer that is
 * too slow is written straight to the socket, which is then shut down: the library, in the middle
 * of parsing, could not be asked.
 */
#include "server/http_mhd.h"

#include <string.h>
#include <sys/socket.h>
#include "api/sse.h"
#include "server/loop.h"

static void arm(struct conn *conn, struct timer *timer, int64_t ms)
{
    timers_set(&conn->http->timers, timer, http_now_us(conn->http) + ms * 1000);
}

static int64_t transfer_ms(int64_t bytes)
{
    return bytes * 1000 / LIMIT_SLOWEST_RATE;
}

void conn_answer_raw(struct conn *conn)
{
    struct http *http = conn->http;
    struct request *request = &conn->request;
    buf_clear(&http->raw);
    reply_write(request, &http->raw);
    if (!http->raw.failed) {
        (void)send(conn->fd, http->raw.bytes, http->raw.count, MSG_NOSIGNAL | MSG_DONTWAIT);
        request->bytes_out = http->raw.count;
        request->answered = true;
    }
    if (!request->begun) {
        /* The library knows of no request yet, so its end is not announced by it. */
        request->began_us = http_now_us(http);
        http->hooks.end(http->hooks.context, request);
        request_end(request);
        deadline_none(conn);
    }
    conn_shutdown(conn);
}

static void slow_peer(struct conn *conn)
{
    reply_error(&conn->request, 408, "the request did not arrive in time", 0);
    conn_answer_raw(conn);
}

static void phase_expired(void *owner)
{
    struct conn *conn = owner;
    struct request *request = &conn->request;
    if (conn->dropping) {
        conn_answer_raw(conn); /* the refusal; the peer had its time to send the rest */
    } else if (request->begun && request->phase == PHASE_BODY) {
        slow_peer(conn);
    } else if (request->begun) {
        conn_gone(conn); /* a reply or frame that the peer does not take */
    } else if (conn->request_line || conn->requests == 0) {
        slow_peer(conn);
    } else {
        conn_shutdown(conn); /* idle */
    }
}

static void total_expired(void *owner)
{
    struct conn *conn = owner;
    struct http *http = conn->http;
    struct request *request = &conn->request;
    bool answered = request->reply.status != 0 && !request->reply.stream;
    if (!request->begun || conn->dead || answered || request->stream.ended) {
        return;
    }
    request->failed_by_us = true;
    http->hooks.drop(http->hooks.context, request);
    if (request->stream.committed) {
        stream_error(request, 504, "the deadline of the request has passed");
    } else {
        reply_error(request, 504, "the deadline of the request has passed", 0);
        request->reply.stream = false;
    }
    if (request->phase == PHASE_BODY) {
        conn_answer_raw(conn);
    } else {
        http_ready(http, request);
    }
}

/* A stream that has nothing to say yet says so: proxies give up on silent connections. Before the
 * first frame this commits the status line. */
static void silence_expired(void *owner)
{
    struct conn *conn = owner;
    struct request *request = &conn->request;
    if (!request->begun || conn->dead || request->stream.ended) {
        return;
    }
    if (stream_waiting(request) == 0) {
        sse_ping(&request->stream.frames);
        if (!request->stream.committed) {
            conn->http->hooks.fill(conn->http->hooks.context, request);
        }
        if (request->reply.status != 0) {
            http_ready(conn->http, request);
        }
    }
    deadline_silent(conn);
}

void deadline_init(struct conn *conn)
{
    timer_init(&conn->phase, phase_expired, conn);
    timer_init(&conn->total, total_expired, conn);
    timer_init(&conn->silent, silence_expired, conn);
}

void deadline_head(struct conn *conn)
{
    arm(conn, &conn->phase, LIMIT_HEAD_MS);
}

void deadline_idle(struct conn *conn)
{
    arm(conn, &conn->phase, LIMIT_IDLE_MS);
}

void deadline_body(struct conn *conn)
{
    int64_t bytes = conn->request.content_length;
    if (bytes < 0) {
        bytes = conn->request.chunked ? (int64_t)conn->http->config.body_bytes_max : 0;
    }
    arm(conn, &conn->phase, MIN(LIMIT_BODY_MS + transfer_ms(bytes), LIMIT_BODY_MS_MAX));
    arm(conn, &conn->total, LIMIT_TOTAL_MS);
}

void deadline_dropping(struct conn *conn)
{
    arm(conn, &conn->phase, LIMIT_DROP_MS);
    timers_cancel(&conn->http->timers, &conn->total);
}

void deadline_parked(struct conn *conn)
{
    timers_cancel(&conn->http->timers, &conn->phase);
}

void deadline_reply(struct conn *conn, size_t bytes)
{
    timers_cancel(&conn->http->timers, &conn->silent);
    timers_cancel(&conn->http->timers, &conn->total);
    arm(conn, &conn->phase, LIMIT_REPLY_MS + transfer_ms((int64_t)bytes));
}

void deadline_send(struct conn *conn)
{
    arm(conn, &conn->phase, LIMIT_SEND_MS);
}

void deadline_sent(struct conn *conn)
{
    timers_cancel(&conn->http->timers, &conn->phase);
}

void deadline_silent(struct conn *conn)
{
    arm(conn, &conn->silent, LIMIT_PING_MS);
}

void deadline_none(struct conn *conn)
{
    timers_cancel(&conn->http->timers, &conn->phase);
    timers_cancel(&conn->http->timers, &conn->total);
    timers_cancel(&conn->http->timers, &conn->silent);
}
