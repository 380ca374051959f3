/*
 * Every route of the server, as one table made at build time from schemas/routes.json. The router
 * looks a path up here; what answers it is named by the entry, so that a new route is a line of
 * JSON and an endpoint or a page.
 */
#ifndef API_ROUTES_H
#define API_ROUTES_H

#include "api/endpoint.h"

enum route_handler {
    ROUTE_COMPUTE, /* decode, plan, submit, encode: `endpoint` */
    ROUTE_DIRECT,  /* answered at once from the body: `direct` */
    ROUTE_PAGE,    /* answered by the server from what it knows: `page` */
};

/* Pages are the server's own; ORDER PAGE is the order of this list. */
#define PAGE_MAP(X)                                                                                \
    X(HOME) X(INFO) X(PROPS) X(HEALTH) X(LIVE) X(READY) X(METRICS) X(MODELS) X(MODEL)

enum route_page {
#define X(name) PAGE_##name,
    PAGE_MAP(X)
#undef X
        PAGE_COUNT
};

typedef enum err endpoint_direct(
    struct call *call, const char *body, size_t bytes, struct buf *out, struct err_info *info);

struct endpoint_route {
    const char *path;   /* exact, or ends in "/{id}": one or more characters, slashes too */
    const char *method; /* "GET" (HEAD goes with it) or "POST" */
    enum family family;
    enum route_handler handler;
    const struct endpoint *endpoint;
    endpoint_direct *direct;
    enum route_page page;
};

extern const struct endpoint_route endpoint_routes[];
extern const int32_t endpoint_route_count;

/* The route of ours that does what other servers do at this path; NULL when there is none. */
const char *route_hint(const char *path);
/* Family of an unknown path: /v1/ is OpenAI's, all others are llama.cpp's. */
enum family route_family(const char *path);

#endif
