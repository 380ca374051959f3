/*
 * Streamed replies: the reader through which the HTTP library takes the frames of a stream. Frames
 * are appended by the application to request->stream; a reader that finds none parks the
 * connection until http_ready.
 */
#ifndef SERVER_STREAM_H
#define SERVER_STREAM_H

struct conn;
struct MHD_Response;

/* A response object that reads conn's stream; NULL without memory. */
struct MHD_Response *stream_response(struct conn *conn);

#endif
