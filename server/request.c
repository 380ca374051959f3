/*
 * Replies are prepared here and sent elsewhere. Header fields are kept as NUL-separated pairs in
 * one bounded buffer: there are at most a dozen, and nothing needs to look one up.
 */
#include "server/request.h"

#include <stdio.h>
#include <string.h>
#include "api/error_map.h"

const char *phase_word(enum phase phase)
{
    static const char *const words[PHASE_COUNT] = {
#define X(name, word) word,
        PHASE_MAP(X)
#undef X
    };
    return words[phase];
}

const char *outcome_word(enum outcome outcome)
{
    static const char *const words[OUTCOME_COUNT] = {
#define X(name, word) word,
        OUTCOME_MAP(X)
#undef X
    };
    return words[outcome];
}

enum outcome request_outcome(const struct request *request)
{
    if (request->failed_by_us) {
        return OUTCOME_FAILED;
    }
    if (request->gone || !request->answered) {
        return OUTCOME_CANCELLED;
    }
    if (request->reply.status < 400) {
        return OUTCOME_COMPLETED;
    }
    /* 424 is the engine's failure on TEI routes, 501 a request the model cannot serve. */
    int status = request->reply.status;
    bool rejected = (status < 500 && status != 424) || status == 501 || status == 503;
    return rejected ? OUTCOME_REJECTED : OUTCOME_FAILED;
}

static void prepare(struct request *request)
{
    buf_init(&request->body, MEM_REQUESTS, 0);
    buf_init(&request->reply.body, MEM_REQUESTS, LIMIT_REPLY_BYTES);
    buf_init(&request->reply.headers, MEM_REQUESTS, LIMIT_REPLY_HEADERS_BYTES);
    buf_init(&request->stream.frames, MEM_REQUESTS, LIMIT_REPLY_BYTES);
    request->content_length = -1;
    request->family = FAMILY_LLAMA; /* until the route is known */
}

void request_init(struct request *request, uint32_t index)
{
    *request = (struct request){.index = index};
    prepare(request);
}

void request_end(struct request *request)
{
    uint32_t index = request->index, generation = request->generation + 1;
    buf_free(&request->body);
    buf_free(&request->reply.body);
    buf_free(&request->reply.headers);
    buf_free(&request->stream.frames);
    *request = (struct request){.index = index, .generation = generation};
    prepare(request);
}

void reply_begin(struct request *request, int status, const char *content_type)
{
    request->reply.status = status;
    request->reply.content_type = content_type;
    buf_clear(&request->reply.body);
    buf_clear(&request->reply.headers);
    if (request->id[0] != '\0') {
        reply_header(request, "X-Request-Id", request->id);
    }
}

void reply_header(struct request *request, const char *name, const char *value)
{
    struct buf *headers = &request->reply.headers;
    /* All or nothing: a field cut in half would shift every pair behind it. */
    size_t bytes = strlen(name) + strlen(value) + 2;
    if (headers->count + bytes > LIMIT_REPLY_HEADERS_BYTES) {
        return;
    }
    buf_append(headers, name, strlen(name) + 1);
    buf_append(headers, value, strlen(value) + 1);
}

void reply_header_int(struct request *request, const char *name, int64_t value)
{
    char text[24];
    snprintf(text, sizeof(text), "%lld", (long long)value);
    reply_header(request, name, text);
}

void reply_error(struct request *request, int status, const char *text, int retry_after_s)
{
    reply_begin(request, status, "application/json");
    if (retry_after_s > 0) {
        reply_header_int(request, "Retry-After", retry_after_s);
    }
    error_body_http(status, text, NULL, request->family, &request->reply.body);
}

void reply_too_large(struct request *request, size_t bytes_max)
{
    char text[128];
    if (request->content_length >= 0) {
        snprintf(text, sizeof(text), "the body has %lld bytes, the limit is %zu",
            (long long)request->content_length, bytes_max);
    } else {
        snprintf(text, sizeof(text), "the body is larger than the limit of %zu bytes", bytes_max);
    }
    reply_error(request, 413, text, 0);
}

void stream_error(struct request *request, int status, const char *text)
{
    struct buf *frames = &request->stream.frames;
    buf_text(frames, "data: ");
    error_body_http(status, text, NULL, request->family, frames);
    buf_text(frames, "\n\n");
    request->stream.ended = true;
}

static const char *reason_phrase(int status)
{
    switch (status) {
    case 408:
        return "Request Timeout";
    case 413:
        return "Content Too Large";
    case 429:
        return "Too Many Requests";
    case 503:
        return "Service Unavailable";
    case 504:
        return "Gateway Timeout";
    default:
        return "Error";
    }
}

void reply_write(const struct request *request, struct buf *out)
{
    const struct reply *reply = &request->reply;
    buf_printf(out, "HTTP/1.1 %d %s\r\nConnection: close\r\nContent-Type: %s\r\n", reply->status,
        reason_phrase(reply->status), reply->content_type);
    for (size_t at = 0; at < reply->headers.count;) {
        const char *name = reply->headers.bytes + at;
        size_t name_bytes = strlen(name);
        const char *value = name + name_bytes + 1;
        size_t value_bytes = strlen(value);
        buf_append(out, name, name_bytes);
        buf_append(out, ": ", 2);
        buf_append(out, value, value_bytes);
        buf_append(out, "\r\n", 2);
        at += name_bytes + value_bytes + 2;
    }
    buf_printf(out, "Content-Length: %zu\r\n\r\n", reply->body.count);
    if (request->method != METHOD_HEAD) {
        buf_append(out, reply->body.bytes, reply->body.count);
    }
}
