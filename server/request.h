/*
 * One HTTP request as the application sees it, and the reply it will get. Lives inside its
 * connection, belongs to the loop thread, begins with the head and ends when the last byte is out
 * or the peer is gone. Work done elsewhere (server/task.h) names it by (index, generation) and
 * never by pointer: the request may be over before the work is.
 */
#ifndef SERVER_REQUEST_H
#define SERVER_REQUEST_H

#include <stdbool.h>
#include <stdint.h>
#include "api/routes.h"
#include "engine/base/buf.h"
#include "engine/types.h"
#include "server/audit.h"
#include "server/server_limits.h"

struct task;

/* How far a request got; the log's `phase` and the metric label of cancelled_total. */
#define PHASE_MAP(X)                                                                               \
    X(HEAD, "head")     /* the head is there, or not even that */                                  \
    X(BODY, "body")     /* bytes of the body are coming in */                                      \
    X(WORK, "work")     /* with a front worker: parsed, tokenised */                               \
    X(ENGINE, "engine") /* submitted */                                                            \
    X(STREAM, "stream") /* frames are going out */                                                 \
    X(REPLY, "reply")   /* the whole reply is going out */

enum phase {
#define X(name, word) PHASE_##name,
    PHASE_MAP(X)
#undef X
        PHASE_COUNT
};

/* Each request ends in exactly one of these. ORDER OUTCOME: metrics.c prints them in this order. */
#define OUTCOME_MAP(X)                                                                             \
    X(COMPLETED, "completed")                                                                      \
    X(CANCELLED, "cancelled") /* the client left */                                                \
    X(REJECTED, "rejected")   /* refused for what it asks or because there is no room */           \
    X(FAILED, "failed")       /* ours: a deadline, a stop, an error of the engine */

enum outcome {
#define X(name, word) OUTCOME_##name,
    OUTCOME_MAP(X)
#undef X
        OUTCOME_COUNT
};

struct reply {
    int status; /* 0 = none yet */
    const char *content_type;
    struct buf body;    /* whole replies */
    struct buf headers; /* pairs name NUL value NUL */
    bool close;         /* the connection ends with it */
    bool stream;        /* frames instead of a body */
};

/* Frames of a stream that the peer has not taken yet. */
struct stream {
    struct buf frames;
    size_t taken;   /* bytes of frames already given to the socket */
    bool ended;     /* no frame will follow */
    bool broken;    /* end without the closing chunk: the peer must see a failure */
    bool committed; /* the status line is out or on its way */
};

/* What the access log and the metrics want to know. */
struct request_usage {
    int64_t tokens_in, tokens_cached, tokens_out;
    int64_t queue_us, prompt_us, decode_us;
};

struct request {
    uint32_t index, generation;
    char id[LIMIT_REQUEST_ID_BYTES + 1];
    const struct endpoint_route *route; /* NULL = no such path */
    enum family family;                 /* dialect of its errors */
    enum method method;
    bool begun; /* the first handler call happened: exactly one end follows */
    bool version_10, chunked, expect;
    int64_t content_length; /* -1 = not stated */
    int64_t began_us;
    enum urgency urgency; /* X-Priority */
    uint64_t client;      /* who asks: a hash of the peer's address */
    enum phase phase;
    bool gone;           /* the peer left, or we gave the connection up */
    bool failed_by_us;   /* ended by a deadline or a stop, whatever the transport says */
    bool answered;       /* the whole reply was handed to the peer */
    struct buf body;     /* as received; moves to the task */
    size_t body_dropped; /* bytes read and thrown away after a refusal */
    struct reply reply;
    struct stream stream;
    struct task *task; /* what works for it now, NULL = nothing */
    uint64_t bytes_out;
    struct request_usage usage;
};

const char *phase_word(enum phase phase);
const char *outcome_word(enum outcome outcome);
/* From what happened, not from what the transport reports. */
enum outcome request_outcome(const struct request *request);

void request_init(struct request *request, uint32_t index);
/* Everything a request held is given back; its name (generation) is used up. */
void request_end(struct request *request);

/* Sets status, content type and the header fields that every reply has. The body is appended to
 * reply.body afterwards. */
void reply_begin(struct request *request, int status, const char *content_type);
void reply_header(struct request *request, const char *name, const char *value);
void reply_header_int(struct request *request, const char *name, int64_t value);
/* The error of `status` in the dialect of the route. `retry_after_s` 0 = no such field. */
void reply_error(struct request *request, int status, const char *text, int retry_after_s);
/* 413 with the limit and, when stated, the size. */
void reply_too_large(struct request *request, size_t bytes_max);
/* After the status line is out a failure can only be a frame: the route's error body, and then the
 * stream ends. */
void stream_error(struct request *request, int status, const char *text);
static inline size_t stream_waiting(const struct request *request)
{
    return request->stream.frames.count - request->stream.taken;
}
/* Status line, header fields and body as bytes, for the moments in which the HTTP library cannot
 * be asked (server/deadline.c). */
void reply_write(const struct request *request, struct buf *out);

#endif
