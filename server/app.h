/*
 * The application behind the HTTP front: which request goes where. Everything here runs on the
 * loop thread unless it says otherwise; work is done by front workers (task.h) and the engine.
 */
#ifndef SERVER_APP_H
#define SERVER_APP_H

#include "server/config.h"
#include "server/health.h"
#include "server/http.h"
#include "server/metrics.h"
#include "server/task.h"

struct app {
    struct config config;
    struct http *http;
    struct tasks tasks;
    struct api_limits limits;
    struct health health;
    struct metrics metrics;
    _Atomic(struct engine *) engine; /* NULL until it is open; set by app_serve */
    int64_t started_us;
    bool first_pass_started, first_pass_running;
    _Atomic bool loading_over; /* engine_open has returned */
    bool failed;               /* the model does not work: the process ends with a failure */
};

/* Prepares `app` and fills the hooks for http_open. */
MUST_USE enum err app_open(struct app *app, const struct config *config,
    struct http_hooks *out_hooks, struct err_info *info);
/* From the main thread, once: the engine is open. The loop runs a first forward pass and then
 * answers. */
void app_serve(struct app *app, struct engine *engine);
/* After http_run has returned: waits for work that nobody wants any more, joins the workers. False
 * when a step of the engine outlasts stop_timeout_ms: then nothing can be freed, only left. */
MUST_USE bool app_close(struct app *app);

/* What the loaded model is called in replies. */
const char *app_served_name(const struct app *app);
/* The job of the first forward pass came back; /ready depends on it. */
void app_first_pass(struct app *app, struct job *job);
/* NULL while loading. */
struct engine *app_engine(struct app *app);

#endif
