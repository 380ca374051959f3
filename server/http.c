/*
 * The HTTP library's callbacks: a request's head, body and reply. libmicrohttpd parses, frames and
 * writes; everything else (socket, deadlines, parking, stopping) is ours, see server/http_mhd.h.
 *
 * The surprising part is who may do what when. A reply can be queued only inside on_access, so a
 * parked request is resumed and answered in the call that follows. Suspending is possible only in
 * on_access and in the content reader; resuming only on this thread, followed by front_run.
 */
#include "server/http_mhd.h"

#include <inttypes.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include "engine/base/assert.h"
#include "engine/base/log.h"
#include "engine/base/rng.h"
#include "server/stream.h"

static void free_block(void *block)
{
    mem_free(block);
}

static void add_headers(struct MHD_Response *response, const struct reply *reply)
{
    for (size_t at = 0; at < reply->headers.count;) {
        const char *name = reply->headers.bytes + at;
        const char *value = name + strlen(name) + 1;
        (void)MHD_add_response_header(response, name, value);
        at += strlen(name) + strlen(value) + 2;
    }
    (void)MHD_add_response_header(response, "Content-Type", reply->content_type);
    if (reply->close) {
        (void)MHD_add_response_header(response, "Connection", "close");
    }
    if (reply->stream) {
        (void)MHD_add_response_header(response, "Cache-Control", "no-cache");
        (void)MHD_add_response_header(response, "X-Accel-Buffering", "no");
    }
}

/* The body moves into the response, which frees it when the last byte is out. */
static struct MHD_Response *whole_response(struct buf *body)
{
    if (body->bytes == NULL) {
        static char nothing[1];
        return MHD_create_response_from_buffer(0, nothing, MHD_RESPMEM_PERSISTENT);
    }
    struct MHD_Response *response =
        MHD_create_response_from_buffer_with_free_callback(body->count, body->bytes, free_block);
    if (response != NULL) {
        buf_init(body, body->pool, body->bytes_max);
    }
    return response;
}

static enum MHD_Result queue_reply(struct conn *conn)
{
    struct request *request = &conn->request;
    struct reply *reply = &request->reply;
    size_t bytes = reply->body.count;
    if (reply->body.failed) {
        reply_error(request, 503, "the reply does not fit into memory", 1);
        bytes = reply->body.count;
    }
    if (conn->http->stage >= DRAIN_REFUSE || conn->requests >= LIMIT_CONNECTION_REQUESTS) {
        reply->close = true;
    }
    struct MHD_Response *response =
        reply->stream ? stream_response(conn) : whole_response(&reply->body);
    if (response == NULL) {
        return MHD_NO;
    }
    add_headers(response, reply);
    enum MHD_Result result = MHD_queue_response(conn->mhd, (unsigned)reply->status, response);
    MHD_destroy_response(response);
    request->stream.committed = true;
    if (reply->stream) {
        request->phase = PHASE_STREAM;
        deadline_send(conn);
        deadline_silent(conn);
    } else {
        conn_unwatch(conn);
        request->phase = PHASE_REPLY;
        request->bytes_out = bytes;
        deadline_reply(conn, bytes);
    }
    return result;
}

/* ---- the head ---- */

static enum MHD_Result take_field(void *context, enum MHD_ValueKind kind, const char *name,
    size_t name_bytes, const char *value, size_t value_bytes)
{
    (void)kind;
    audit_field(context, name, name_bytes, value, value_bytes);
    return MHD_YES;
}

static void take_head(struct conn *conn, const char *path, const char *method, const char *version,
    struct head *out_head)
{
    struct request *request = &conn->request;
    audit_begin(out_head, method, version);
    out_head->path = path;
    if (conn->target_status != 0 && out_head->status == 0) {
        out_head->status = conn->target_status;
        out_head->reason = AUDIT_TARGET;
        out_head->text = "the request target is too long or holds a byte that is not allowed";
    }
    (void)MHD_get_connection_values_n(conn->mhd, MHD_HEADER_KIND, take_field, out_head);
    audit_end(out_head);
    request->method = out_head->method;
    request->version_10 = out_head->version_10;
    request->chunked = out_head->chunked;
    request->expect = out_head->expect;
    request->content_length = out_head->content_length;
    request->body.bytes_max = conn->http->config.body_bytes_max;
    if (audit_request_id_valid(out_head->request_id)) {
        memcpy(request->id, out_head->request_id.bytes, out_head->request_id.count);
        request->id[out_head->request_id.count] = '\0';
    } else {
        snprintf(request->id, sizeof(request->id), "%016" PRIx64, rng_entropy());
    }
}

/* The reply is there before the body: answer so that the client gets to read it. */
static enum MHD_Result refuse(struct conn *conn, const struct head *head)
{
    struct request *request = &conn->request;
    bool has_body = request->chunked || request->content_length > 0;
    if (head->status != 0 || request->method == METHOD_OTHER || request->expect ||
        request->content_length > LIMIT_DROP_BYTES) {
        /* Framing that is not to be trusted, or nothing was uploaded yet, or too much would be. */
        request->reply.close = true;
        return queue_reply(conn);
    }
    if (has_body) {
        request->phase = PHASE_BODY;
        conn->dropping = true;
        request->reply.close = request->content_length > LIMIT_DROP_KEEP_BYTES;
        deadline_dropping(conn);
    }
    return MHD_YES;
}

static enum MHD_Result first_call(
    struct conn *conn, const char *path, const char *method, const char *version)
{
    struct http *http = conn->http;
    struct request *request = &conn->request;
    struct head head;
    request->begun = true;
    request->began_us = http_now_us(http);
    request->client = conn->client;
    http->open_requests++;
    conn->request_line = false;
    take_head(conn, path, method, version, &head);
    if (head.status != 0) {
        http->stats.malformed[head.reason]++;
    }
    http->hooks.head(http->hooks.context, request, &head);
    ASSERT(head.status == 0 || request->reply.status != 0);
    if (request->reply.status != 0) {
        return refuse(conn, &head);
    }
    request->phase = PHASE_BODY;
    deadline_body(conn);
    return MHD_YES;
}

/* ---- the body ---- */

static void drop_body(struct conn *conn, size_t bytes)
{
    struct request *request = &conn->request;
    request->body_dropped += bytes;
    if (request->body_dropped > LIMIT_DROP_KEEP_BYTES) {
        request->reply.close = true;
    }
    if (request->body_dropped > LIMIT_DROP_BYTES) {
        conn_answer_raw(conn);
    }
}

static void start_dropping(struct conn *conn)
{
    struct request *request = &conn->request;
    conn->http->stats.body_bytes -= request->body.count;
    buf_free(&request->body);
    conn->dropping = true;
    request->reply.close = true;
    deadline_dropping(conn);
}

static void take_body(struct conn *conn, const char *data, size_t bytes)
{
    struct http *http = conn->http;
    struct request *request = &conn->request;
    if (conn->dropping) {
        drop_body(conn, bytes);
        return;
    }
    if (request->body.count + bytes > http->config.body_bytes_max) {
        reply_too_large(request, http->config.body_bytes_max);
        start_dropping(conn);
        return;
    }
    size_t before = request->body.count;
    bool fits = http->stats.body_bytes + bytes <= LIMIT_BODIES_BYTES;
    if (fits) {
        buf_append(&request->body, data, bytes);
        http->stats.body_bytes += request->body.count - before;
    }
    if (!fits || request->body.failed) {
        reply_error(request, 503, "too many request bodies in memory", 1);
        start_dropping(conn);
    }
}

static enum MHD_Result last_call(struct conn *conn)
{
    struct request *request = &conn->request;
    if (request->reply.status == 0 && request->phase == PHASE_BODY) {
        request->phase = PHASE_WORK;
        deadline_parked(conn);
        conn->http->hooks.body(conn->http->hooks.context, request);
    }
    if (request->reply.status == 0) {
        front_suspend(conn);
        return MHD_YES;
    }
    return queue_reply(conn);
}

static enum MHD_Result on_access(void *context, struct MHD_Connection *mhd, const char *path,
    const char *method, const char *version, const char *data, size_t *data_bytes,
    void **request_context)
{
    struct conn *conn = *request_context;
    (void)context;
    (void)mhd;
    if (conn == NULL || conn->dead) {
        return MHD_NO;
    }
    if (!conn->request.begun) {
        return first_call(conn, path, method, version);
    }
    if (*data_bytes > 0) {
        take_body(conn, data, *data_bytes);
        *data_bytes = 0;
        return conn->dead ? MHD_NO : MHD_YES;
    }
    return last_call(conn);
}

/* ---- begin and end ---- */

static void *on_target(void *context, const char *target, struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct conn *conn = info != NULL ? info->socket_context : NULL;
    (void)context;
    if (conn != NULL) {
        conn->request_line = true;
        conn->target_status = audit_target(target);
        if (conn->requests > 0) {
            deadline_head(conn); /* of the first request it counts from the accept */
        }
        conn->requests++;
    }
    return conn;
}

static void on_completed(void *context, struct MHD_Connection *mhd, void **request_context,
    enum MHD_RequestTerminationCode code)
{
    struct http *http = context;
    struct conn *conn = *request_context;
    (void)mhd;
    if (conn == NULL) {
        return;
    }
    struct request *request = &conn->request;
    *request_context = NULL;
    conn_unwatch(conn);
    deadline_none(conn);
    if (request->begun) {
        if (code == MHD_REQUEST_TERMINATED_COMPLETED_OK && !conn->dead) {
            request->answered = true;
        } else if (!request->answered) {
            request->gone = true;
        }
        http->hooks.drop(http->hooks.context, request);
        http->hooks.end(http->hooks.context, request);
        http->open_requests--;
    }
    http->stats.body_bytes -= request->body.count;
    request_end(request);
    conn->request_line = false;
    conn->dropping = false;
    if (!conn->dead) {
        deadline_idle(conn);
    }
}

static void on_connection(void *context, struct MHD_Connection *mhd, void **socket_context,
    enum MHD_ConnectionNotificationCode code)
{
    struct http *http = context;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
        struct conn *conn = http->by_fd[info->connect_fd];
        ASSERT(conn != NULL);
        conn->mhd = mhd;
        *socket_context = conn;
    } else if (*socket_context != NULL) {
        conn_release(*socket_context);
        *socket_context = NULL;
    }
}

static size_t keep_escapes(void *context, struct MHD_Connection *mhd, char *text)
{
    (void)context;
    (void)mhd;
    return strlen(text);
}

/* The library's own complaints. Most are about a peer that left; those about a message it could
 * not read are counted, since it answers them itself with a page that is not our JSON. */
static void PRINTF_LIKE(2, 0) on_log(void *context, const char *format, va_list arguments)
{
    struct http *http = context;
    (void)arguments; /* may quote the peer's bytes */
    if (strncmp(format, "Error processing request", 24) == 0) {
        http->stats.malformed[AUDIT_PARSER]++;
    }
}

static void on_panic(void *context, const char *file, unsigned line, const char *reason)
{
    (void)context;
    (void)file;
    log_text(LOG_ERROR, "http", "the HTTP library gave up at line %u: %s", line,
        reason != NULL ? reason : "no reason given");
    log_close();
    abort();
}

/* ---- what the other files of the front call ---- */

enum err front_open(struct http *http, struct err_info *info)
{
    MHD_set_panic_func(on_panic, NULL);
    http->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0,
        NULL, NULL, on_access, http, MHD_OPTION_EXTERNAL_LOGGER, on_log, http,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, http, MHD_OPTION_NOTIFY_COMPLETED,
        on_completed, http, MHD_OPTION_URI_LOG_CALLBACK, on_target, http,
        MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, NULL, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)(http->config.connections_max + LIMIT_CONNECTIONS_SPARE),
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)LIMIT_BACKSTOP_S,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)LIMIT_CONNECTION_MEMORY,
        MHD_OPTION_STRICT_FOR_CLIENT, 0, MHD_OPTION_END);
    if (http->daemon == NULL) {
        return err_set(info, ERR_IO, "http", "the HTTP library did not start");
    }
    return ERR_OK;
}

void front_close(struct http *http)
{
    if (http->daemon != NULL) {
        MHD_stop_daemon(http->daemon);
        http->daemon = NULL;
    }
}

int front_epoll(const struct http *http)
{
    return MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
}

int front_timeout_ms(const struct http *http)
{
    MHD_UNSIGNED_LONG_LONG ms = 0;
    if (MHD_get_timeout(http->daemon, &ms) != MHD_YES) {
        return -1;
    }
    return ms > 60000 ? 60000 : (int)ms;
}

void front_run(struct http *http)
{
    http->resumed = false;
    (void)MHD_run(http->daemon);
}

bool front_add(struct http *http, struct conn *conn, const void *address, unsigned address_bytes)
{
    return MHD_add_connection(http->daemon, conn->fd, address, address_bytes) == MHD_YES;
}

void front_suspend(struct conn *conn)
{
    ASSERT(!conn->suspended);
    conn->suspended = true;
    MHD_suspend_connection(conn->mhd);
    conn_watch(conn);
}

void front_resume(struct conn *conn)
{
    if (conn->suspended) {
        conn->suspended = false;
        conn->http->resumed = true;
        MHD_resume_connection(conn->mhd);
    }
}
