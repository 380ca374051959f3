/* The checks in the order of the header; each is one function that may set a reply. */
#include "server/admission.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "api/call.h"
#include "api/error_map.h"
#include "server/router.h"

int admission_retry_after_s(struct app *app)
{
    struct engine *engine = app_engine(app);
    if (engine == NULL) {
        return 1;
    }
    struct engine_stats stats;
    engine_stats(engine, &stats);
    double waiting = (double)atomic_load(&app->tasks.tokens_waiting);
    double seconds = stats.tokens_per_second > 0 ? ceil(waiting / stats.tokens_per_second) : 1;
    return seconds < 1 ? 1 : seconds > 60 ? 60 : (int)seconds;
}

static void refuse(
    struct app *app, struct request *request, enum rejection why, int status, const char *text)
{
    app->metrics.rejected[why]++;
    int retry_s = status == 429 || status == 503 ? admission_retry_after_s(app) : 0;
    reply_error(request, status, text, retry_s);
}

void admission_refuse_busy(struct app *app, struct request *request)
{
    refuse(app, request, REJECTED_QUEUE, 429, "too many requests are waiting");
}

static void check_route(struct app *app, struct request *request, const struct head *head)
{
    const struct endpoint_route *route = NULL;
    int status = router_find(head->path, head->method, &route);
    request->route = route;
    request->family = route != NULL ? route->family : route_family(head->path);
    if (head->status != 0) {
        refuse(app, request, REJECTED_MALFORMED, head->status, head->text);
    } else if (status == 404) {
        const char *hint = route_hint(head->path);
        char text[128];
        (void)snprintf(text, sizeof(text), "no such path%s%s",
            hint != NULL ? "; what it does is at " : "", hint != NULL ? hint : "");
        refuse(app, request, REJECTED_ROUTE, 404, text);
    } else if (status == 405) {
        refuse(app, request, REJECTED_ROUTE, 405, "this path does not have this method");
        reply_header(request, "Allow", router_allow(route));
    }
}

static void check_life(struct app *app, struct request *request)
{
    enum health_state state = health_state(&app->health);
    if (state == HEALTH_LOADING || state == HEALTH_FAILED) {
        refuse(app, request, REJECTED_LIFE, 503, "the model is being loaded");
    } else if (http_drain_stage(app->http) >= DRAIN_REFUSE) {
        refuse(app, request, REJECTED_LIFE, 503, "the server is stopping");
    }
}

/* A model in the path: %XX stands for a byte, as in any path. */
static bool serves(struct app *app, const char *id)
{
    char name[LIMIT_TARGET_BYTES];
    size_t count = 0;
    for (const char *at = id; *at != '\0' && count + 1 < sizeof(name); count++) {
        char digits[3] = {0};
        if (at[0] == '%' && isxdigit((unsigned char)at[1]) && isxdigit((unsigned char)at[2])) {
            memcpy(digits, at + 1, 2);
            name[count] = (char)strtol(digits, NULL, 16);
            at += 3;
        } else {
            name[count] = *at++;
        }
        if (name[count] == '\0') {
            return false; /* %00 would end a name before its end */
        }
    }
    name[count] = '\0';
    return call_is_model(name, engine_model(app_engine(app)), app->config.served_model_name,
        app->config.model_alias);
}

static void check_model(struct app *app, struct request *request, const struct head *head)
{
    const char *id = router_id(request->route, head->path);
    if (id == NULL || serves(app, id)) {
        return;
    }
    struct err_info info = {.offset = -1};
    (void)call_fail(&info, ERR_NOT_FOUND, "model_not_found", "/model", "no such model is served");
    app->metrics.rejected[REJECTED_ROUTE]++;
    reply_begin(request, 404, "application/json");
    error_body(&info, request->family, 404, &request->reply.body);
}

static void check_room(struct app *app, struct request *request)
{
    if (request->route->handler != ROUTE_PAGE && app->tasks.free_slots == NULL) {
        admission_refuse_busy(app, request);
    }
}

static void check_size(struct app *app, struct request *request)
{
    int64_t bytes = request->content_length;
    if (bytes > app->config.max_body_bytes) {
        app->metrics.rejected[REJECTED_SIZE]++;
        reply_too_large(request, (size_t)app->config.max_body_bytes);
    } else if (bytes > 0 &&
               http_stats(app->http)->body_bytes + (uint64_t)bytes > LIMIT_BODIES_BYTES) {
        refuse(app, request, REJECTED_BODIES, 503, "too many request bodies in memory");
    }
}

static void check_media(struct app *app, struct request *request, const struct head *head)
{
    if (!audit_is_json(head->content_type) || head->content_encoding.bytes != NULL) {
        refuse(app, request, REJECTED_MEDIA, 415,
            "the body must be application/json without a content coding");
    } else if (!audit_accepts(head->accept)) {
        refuse(
            app, request, REJECTED_MEDIA, 406, "replies are application/json or text/event-stream");
    }
}

static void check_priority(struct app *app, struct request *request, struct field field)
{
    static const char *const words[] = {[URGENCY_NORMAL] = "normal",
        [URGENCY_INTERACTIVE] = "interactive",
        [URGENCY_BULK] = "bulk"};
    for (size_t i = 0; i < ARRAY_COUNT(words); i++) {
        if (field.bytes != NULL && strlen(words[i]) == field.count &&
            strncasecmp(words[i], field.bytes, field.count) == 0) {
            request->urgency = (enum urgency)i;
            return;
        }
    }
    if (field.bytes != NULL) {
        refuse(app, request, REJECTED_PRIORITY, 400,
            "X-Priority is one of interactive, normal and bulk");
    }
}

void admission_check(struct app *app, struct request *request, const struct head *head)
{
    check_route(app, request, head);
    bool probe = request->route != NULL && router_is_probe(request->route);
    if (request->reply.status == 0 && !probe) {
        check_life(app, request);
    }
    if (request->reply.status == 0) {
        check_model(app, request, head);
    }
    if (request->reply.status == 0) {
        check_room(app, request);
    }
    if (request->reply.status == 0) {
        check_size(app, request);
    }
    if (request->reply.status == 0 && !probe) {
        check_media(app, request, head);
    }
    if (request->reply.status == 0 && !probe) {
        check_priority(app, request, head->priority);
    }
}
