/*
 * The static table of routes: method and path to a handler, an error dialect and, for compute
 * routes, the endpoint that api/ implements. Adding a route is one line.
 */
#ifndef SERVER_ROUTER_H
#define SERVER_ROUTER_H

#include "api/endpoint.h"
#include "server/audit.h"

enum route_kind {
    ROUTE_COMPUTE, /* body -> plan -> engine -> reply, by a front worker */
    ROUTE_DIRECT,  /* body -> reply, by a front worker, without a job */
    ROUTE_LOOP     /* answered by the loop at once */
};

struct app;
struct request;

struct route {
    const char *path;
    enum method method;
    enum route_kind kind;
    enum family family;
    const struct endpoint *endpoint; /* ROUTE_COMPUTE */
    enum err (*direct)(struct call *call, const char *body, size_t bytes, struct buf *out,
        struct err_info *info);                               /* ROUTE_DIRECT */
    void (*answer)(struct app *app, struct request *request); /* ROUTE_LOOP */
    bool needs_model; /* 503 until one is loaded, and while draining */
    bool probe;       /* asked by monitors: never refused, Accept not looked at */
};

enum { ROUTES_MAX = 64 };

extern const struct route routes[];
extern const int routes_count;

/* 200 and *out_route, 404, or 405 with *out_route naming the path's route. */
int route_find(const char *path, enum method method, const struct route **out_route);
/* The dialect of errors; NULL (unknown path) is llama.cpp's. */
enum family route_family(const struct route *route);
/* For logs and metrics: the path, or "none". */
const char *route_name(const struct route *route);

#endif
