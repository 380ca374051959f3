/* Event-stream framing; see sse.h. The text around the JSON lives here and nowhere else. */
#include "api/sse.h"

#include "engine/base/assert.h"

void sse_begin(struct json_out *out, struct buf *buf)
{
    buf_text(buf, "data: ");
    json_out_init(out, buf);
}

void sse_end(struct json_out *out)
{
    ASSERT(out->depth == 0);
    buf_text(out->buf, "\n\n");
}

void sse_error(const struct err_info *info, enum family family, struct buf *out)
{
    buf_text(out, "data: ");
    error_body(info, family, error_status(info->code, family), out);
    buf_text(out, "\n\n");
}

void sse_ping(struct buf *out)
{
    buf_text(out, ": ping\n\n");
}

void sse_done(struct buf *out)
{
    buf_text(out, "data: [DONE]\n\n");
}
