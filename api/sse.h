/*
 * Frames of a server-sent event stream: "data: ", one line of JSON, a blank line. The JSON writer
 * escapes every line break, so a frame can never be cut in two by its content.
 */
#ifndef API_SSE_H
#define API_SSE_H

#include "api/error_map.h"
#include "api/json_out.h"

/* Starts a frame; *out then writes its one JSON value. */
void sse_begin(struct json_out *out, struct buf *buf);
void sse_end(struct json_out *out);
/* The error event of a stream that has already begun. */
void sse_error(const struct err_info *info, enum family family, struct buf *out);
/* The comment that keeps an idle stream alive. */
void sse_ping(struct buf *out);
/* The end mark of OpenAI streams; no other family has one. */
void sse_done(struct buf *out);

#endif
