/* The page is in the program's read-only data; a reply copies it, for a reply owns its bytes. */
#include "server/page/page.h"

void page_answer(struct request *request)
{
    reply_begin(request, 200, "text/html; charset=utf-8");
    reply_header(request, "Content-Security-Policy", page_policy);
    reply_header(request, "X-Content-Type-Options", "nosniff");
    reply_header(request, "Referrer-Policy", "no-referrer");
    buf_append(&request->reply.body, page_html, page_bytes);
}
