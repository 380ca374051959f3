/*
 * The built-in page at /: server/page/index.html as the build put it into the program
 * (server/page/embed.py). It uses nothing but the routes that everybody has.
 */
#ifndef SERVER_PAGE_PAGE_H
#define SERVER_PAGE_PAGE_H

#include "server/request.h"

/* 200 with the page. */
void page_answer(struct request *request);

extern const unsigned char page_html[]; /* UTF-8, [page_bytes] */
extern const size_t page_bytes;
/* Value of Content-Security-Policy: the page's own script and style, by their SHA-256. */
extern const char page_policy[];

#endif
