/*
 * The HTTP front: connections, framing, deadlines and the order of stopping, driven by one loop on
 * the thread that calls http_run. Names no type of the HTTP library beneath, so that another front
 * can take its place.
 *
 * A request's way through the hooks, all called on the loop thread:
 *
 *     head   its head passed the audit; set a reply to refuse it before its body is read
 *     body   its body is whole; set a reply, or leave it parked and call http_ready later
 *     fill   its stream has room for frames again
 *     drop   it needs no answer any more (peer gone, deadline, stop): give up the work for it
 *     end    it is over; write the log line, count it. Follows every head, exactly once.
 *
 * From other threads only http_wake and http_stop may be called.
 */
#ifndef SERVER_HTTP_H
#define SERVER_HTTP_H

#include <stdbool.h>
#include <stdint.h>
#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "server/histogram.h"
#include "server/request.h"

struct http;

enum drain_stage {
    DRAIN_NONE,
    DRAIN_DELAY,  /* not ready, but everything is served */
    DRAIN_REFUSE, /* no listener; requests of live connections are refused, running ones go on */
    DRAIN_CANCEL, /* running work is cancelled */
    DRAIN_DONE    /* the loop ends */
};

struct http_hooks {
    void *context;
    void (*head)(void *context, struct request *request, const struct head *head);
    void (*body)(void *context, struct request *request);
    void (*fill)(void *context, struct request *request);
    void (*drop)(void *context, struct request *request);
    void (*end)(void *context, struct request *request);
    void (*wake)(void *context); /* after http_wake, once per turn */
    void (*drain)(void *context, enum drain_stage stage);
    void (*tick)(void *context); /* every LIMIT_TICK_MS */
};

struct http_config {
    const char *host;
    int port; /* 0 = any */
    int connections_max;
    size_t body_bytes_max;
    int64_t drain_delay_ms, drain_timeout_ms;
    const struct clock *clock; /* NULL = the machine's */
};

/* Counters of the front, read by the loop thread at a scrape. */
struct http_stats {
    uint64_t connections; /* open now */
    uint64_t refused_full, refused_files;
    uint64_t malformed[AUDIT_REASON_COUNT];
    uint64_t body_bytes;    /* of unfinished bodies and those not parsed yet, in memory now */
    struct histogram turns; /* work of one turn of the loop, seconds */
};

/* Binds and listens. On success *out_port is the port in use. */
MUST_USE enum err http_open(const struct http_config *config, const struct http_hooks *hooks,
    struct http **out_http, int *out_port, struct err_info *info);
/* Runs until stopped and drained. SIGTERM and SIGINT, blocked in all threads, are taken here. */
void http_run(struct http *http);
void http_close(struct http *http); /* NULL allowed; after http_run has returned */

void http_wake(struct http *http);
/* As a signal would: the first call drains, a further one or `fast` skips the waiting. */
void http_stop(struct http *http, bool fast);

/* NULL when that request is over. */
struct request *http_find(struct http *http, uint32_t index, uint32_t generation);
/* The parked request's reply is set, or its stream got frames: let it move on. */
void http_ready(struct http *http, struct request *request);
/* Sets the moment at which the request is answered 504, whatever happens. */
void http_deadline(struct http *http, struct request *request, int64_t at_us);
/* The request will be answered by a stream: heartbeats from now on, the first of which commits it
 * (through `fill`, which then has to begin the reply). */
void http_expect_stream(struct http *http, struct request *request);
/* Bytes the stream may take now; 0 = full. */
size_t http_stream_room(const struct request *request);
/* Body bytes left the accounts (parsed or dropped). */
void http_body_parsed(struct http *http, size_t bytes);
const struct http_stats *http_stats(const struct http *http);
enum drain_stage http_drain_stage(const struct http *http);
int64_t http_now_us(const struct http *http);

#endif
