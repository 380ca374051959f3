/* The table is generated from schemas/routes.json; only the look-up is here. */
#include "server/router.h"

#include <string.h>

static bool method_fits(const struct endpoint_route *route, enum method method)
{
    if (strcmp(route->method, "POST") == 0) {
        return method == METHOD_POST;
    }
    return method == METHOD_GET || method == METHOD_HEAD;
}

static const char ID[] = "{id}";

/* Characters of the path before its "{id}", or all. */
static size_t fixed_part(const char *path)
{
    const char *id = strstr(path, ID);
    return id != NULL ? (size_t)(id - path) : strlen(path);
}

const char *router_id(const struct endpoint_route *route, const char *path)
{
    size_t fixed = fixed_part(route->path);
    return route->path[fixed] != '\0' ? path + fixed : NULL;
}

static bool path_fits(const struct endpoint_route *route, const char *path)
{
    size_t fixed = fixed_part(route->path);
    if (route->path[fixed] == '\0') {
        return strcmp(route->path, path) == 0;
    }
    return strncmp(route->path, path, fixed) == 0 && path[fixed] != '\0';
}

int router_find(const char *path, enum method method, const struct endpoint_route **out_route)
{
    int status = 404;
    for (int32_t i = 0; i < endpoint_route_count; i++) {
        const struct endpoint_route *route = &endpoint_routes[i];
        if (!path_fits(route, path)) {
            continue;
        }
        *out_route = route;
        if (method_fits(route, method)) {
            return 200;
        }
        status = 405;
    }
    return status;
}

const char *router_allow(const struct endpoint_route *route)
{
    return strcmp(route->method, "POST") == 0 ? "POST" : "GET, HEAD";
}

const char *router_name(const struct endpoint_route *route)
{
    return route != NULL ? route->path : "none";
}

int router_index(const struct endpoint_route *route)
{
    return route != NULL ? (int)(route - endpoint_routes) : (int)endpoint_route_count;
}

bool router_is_probe(const struct endpoint_route *route)
{
    bool tells_of_model = route->page == PAGE_INFO || route->page == PAGE_PROPS ||
                          route->page == PAGE_MODELS || route->page == PAGE_MODEL;
    return route->handler == ROUTE_PAGE && !tells_of_model;
}
