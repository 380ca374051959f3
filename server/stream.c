/*
 * The content reader. It is called again only when the socket has taken what it returned before,
 * so a slow client shows as frames that wait, a full stream as `fill` not being called, and the
 * sequence behind it pauses: nobody else waits for that client.
 *
 * A reader that returns 0 must have suspended the connection, or the library calls it in a circle.
 */
#include "server/stream.h"

#include <microhttpd.h>
#include <string.h>
#include "server/http_mhd.h"

enum { READER_BLOCK_BYTES = 32 * 1024 };

static size_t take(struct stream *stream, char *out, size_t bytes_max)
{
    size_t bytes = MIN(stream->frames.count - stream->taken, bytes_max);
    if (bytes > 0) {
        memcpy(out, stream->frames.bytes + stream->taken, bytes);
        stream->taken += bytes;
    }
    if (stream->taken == stream->frames.count) {
        buf_clear(&stream->frames);
        stream->taken = 0;
    } else if (stream->taken >= LIMIT_STREAM_BYTES) {
        /* A peer that never catches up must not make the buffer grow with all it was sent. */
        stream->frames.count -= stream->taken;
        memmove(stream->frames.bytes, stream->frames.bytes + stream->taken, stream->frames.count);
        stream->taken = 0;
    }
    return bytes;
}

static ssize_t read_frames(void *context, uint64_t position, char *out, size_t bytes_max)
{
    struct conn *conn = context;
    struct http *http = conn->http;
    struct request *request = &conn->request;
    (void)position;
    if (conn->dead || request->gone) {
        return MHD_CONTENT_READER_END_WITH_ERROR;
    }
    if (!request->stream.ended && http_stream_room(request) > 0) {
        http->hooks.fill(http->hooks.context, request);
    }
    size_t bytes = take(&request->stream, out, bytes_max);
    if (bytes > 0) {
        request->bytes_out += bytes;
        deadline_send(conn);
        deadline_silent(conn);
        return (ssize_t)bytes;
    }
    if (request->stream.ended) {
        deadline_reply(conn, 0);
        return request->stream.broken ? MHD_CONTENT_READER_END_WITH_ERROR
                                      : MHD_CONTENT_READER_END_OF_STREAM;
    }
    deadline_sent(conn);
    front_suspend(conn);
    return 0;
}

struct MHD_Response *stream_response(struct conn *conn)
{
    return MHD_create_response_from_callback(
        MHD_SIZE_UNKNOWN, READER_BLOCK_BYTES, read_frames, conn, NULL);
}
