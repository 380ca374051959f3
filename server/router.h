/*
 * From method and path to a line of the generated table (api/routes.h). The table is small and
 * fixed: a linear look over its paths costs less than the request's own parsing.
 */
#ifndef SERVER_ROUTER_H
#define SERVER_ROUTER_H

#include "api/routes.h"
#include "server/audit.h"

enum { ROUTES_MAX = 64 };

/* 200 and *out_route; 404; or 405 with *out_route naming a route of that path. */
int router_find(const char *path, enum method method, const struct endpoint_route **out_route);
/* What stands in a path for the "{id}" of its route, as sent; NULL = the route has none. */
const char *router_id(const struct endpoint_route *route, const char *path);
/* For the Allow field of a 405: "GET, HEAD" or "POST". */
const char *router_allow(const struct endpoint_route *route);
/* For logs and metrics: the path, never what a client wrote; "none" for NULL. */
const char *router_name(const struct endpoint_route *route);
/* 0.. for routes, endpoint_route_count for NULL: the index of per-route counters. */
int router_index(const struct endpoint_route *route);
/* Asked by monitors: never refused, whatever the state of the server. */
bool router_is_probe(const struct endpoint_route *route);

#endif
