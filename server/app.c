/*
 * The hooks of the front, the pages, and the first forward pass: the server counts as ready when
 * one real job has gone through the same path as every later one.
 */
#include "server/app.h"

#include <string.h>
#include <time.h>
#include "engine/base/assert.h"
#include "engine/base/log.h"
#include "server/access_log.h"
#include "server/admission.h"
#include "server/handle_compute.h"
#include "server/handle_info.h"
#include "server/page/page.h"

struct engine *app_engine(struct app *app)
{
    return atomic_load(&app->engine);
}

const char *app_served_name(const struct app *app)
{
    struct engine *engine = atomic_load(&app->engine);
    return app->config.served_model_name[0] != '\0' ? app->config.served_model_name
                                                    : engine_model(engine)->name;
}

/* ---- hooks ---- */

static void on_head(void *context, struct request *request, const struct head *head)
{
    struct app *app = context;
    admission_check(app, request, head);
    metrics_begin(&app->metrics, request);
}

static void answer_page(struct app *app, struct request *request)
{
    switch (request->route->page) {
    case PAGE_INFO:
        handle_info(app, request);
        break;
    case PAGE_PROPS:
        handle_props(app, request);
        break;
    case PAGE_MODELS:
        handle_models(app, request);
        break;
    case PAGE_MODEL:
        handle_model(app, request);
        break;
    case PAGE_HEALTH:
    case PAGE_READY:
        health_answer(&app->health, app_engine(app), http_now_us(app->http), request);
        break;
    case PAGE_LIVE:
        health_answer_live(request);
        break;
    case PAGE_HOME:
        page_answer(request);
        break;
    case PAGE_METRICS:
        metrics_answer(app, request);
        break;
    case PAGE_COUNT:
        break;
    }
    ASSERT(request->reply.status != 0);
}

static void on_body(void *context, struct request *request)
{
    struct app *app = context;
    if (request->route->handler == ROUTE_PAGE) {
        answer_page(app, request);
    } else {
        handle_compute_body(app, request);
    }
}

static void on_fill(void *context, struct request *request)
{
    handle_compute_fill(context, request);
}

static void on_drop(void *context, struct request *request)
{
    handle_compute_drop(context, request);
}

static void on_end(void *context, struct request *request)
{
    struct app *app = context;
    int64_t now_us = http_now_us(app->http);
    metrics_end(&app->metrics, request, now_us);
    access_log_write(request, now_us);
}

static void on_tick(void *context)
{
    struct app *app = context;
    if (app_engine(app) != NULL) {
        health_watch(&app->health, app_engine(app), http_now_us(app->http));
    }
}

/* While the model is being loaded there is nothing to finish: a stop need not wait for anything. */
static void on_drain(void *context, enum drain_stage stage)
{
    struct app *app = context;
    static const char *const words[] = {
        "", "not ready any more", "listener closed", "cancelling what runs", "no connection left"};
    log_text(LOG_INFO, "server", "stopping: %s", words[stage]);
    health_draining(&app->health);
    if (stage == DRAIN_DELAY && app_engine(app) == NULL) {
        http_stop(app->http, true);
    }
    if (stage == DRAIN_CANCEL && app_engine(app) != NULL) {
        engine_drain(app_engine(app));
    }
}

/* ---- the first pass ---- */

static const int32_t first_token[1] = {0};
static const struct plan_step first_step = {
    .kind = STEP_DECODE, .read_row = -1, .position = -1, .tokens_max = 1, .top_logprobs = -1};
static const struct plan_item first_item = {.tokens = first_token,
    .token_count = 1,
    .steps = &first_step,
    .step_count = 1,
    .sampling = {.top_p = 1, .typical_p = 1, .repetition_penalty = 1}};
static const struct plan_item first_vector = {
    .tokens = first_token, .token_count = 1, .pooling = POOLING_MEAN};

static void start_first_pass(struct app *app)
{
    struct engine *engine = app_engine(app);
    struct job *job = NULL;
    struct err_info info = {.offset = -1};
    bool generates = engine_model(engine)->can_generate;
    enum err err = engine_acquire(engine, &job);
    if (err == ERR_OK) {
        job->user = NULL;
        job->plan = (struct plan){.kind = generates ? KIND_GENERATE : KIND_EMBED,
            .items = generates ? &first_item : &first_vector,
            .item_count = 1};
        err = engine_submit(engine, job, &info);
        if (err != ERR_OK) {
            engine_release(engine, job);
        }
    }
    if (err != ERR_OK) {
        log_text(LOG_ERROR, "server", "the first forward pass was refused: %s", info.text);
        health_loaded(&app->health, false);
        app->failed = true;
        http_stop(app->http, true);
    }
    app->first_pass_started = true;
    app->first_pass_running = err == ERR_OK;
}

void app_first_pass(struct app *app, struct job *job)
{
    bool works = job->err == ERR_OK && job->results[0].err == ERR_OK;
    if (works) {
        log_text(LOG_INFO, "server", "ready after %lld ms",
            (long long)(clock_now_us(NULL) - app->started_us) / 1000);
    } else {
        log_text(LOG_ERROR, "server", "the first forward pass failed: %s",
            job->err != ERR_OK ? job->info.text : job->results[0].info.text);
        if (health_state(&app->health) == HEALTH_LOADING) {
            app->failed = true;
            http_stop(app->http, true);
        }
    }
    health_loaded(&app->health, works);
    app->first_pass_running = false;
    engine_release(app_engine(app), job);
}

static void on_wake(void *context)
{
    struct app *app = context;
    if (app_engine(app) != NULL && !app->first_pass_started &&
        health_state(&app->health) == HEALTH_LOADING) {
        start_first_pass(app);
    }
    handle_compute_wake(app);
}

/* ---- open and close ---- */

static void wake_loop(void *context)
{
    struct app *app = context;
    http_wake(app->http);
}

enum err app_open(struct app *app, const struct config *config, struct http_hooks *out_hooks,
    struct err_info *info)
{
    *app = (struct app){.config = *config,
        .health = {.stall_us = config->stall_ms * 1000},
        .started_us = clock_now_us(NULL)};
    app->limits = (struct api_limits){.items_max = LIMIT_INPUTS,
        .embed_tokens_max = LIMIT_EMBED_TOKENS,
        .timeout_ms_max = LIMIT_TOTAL_MS_MAX,
        .embed_ids_refused = strcmp(config->embed_token_ids, "reject") == 0,
        .moderation_threshold = config->moderation_threshold};
    ASSERT(endpoint_route_count <= ROUTES_MAX);
    enum err err = tasks_open(
        &app->tasks, (int32_t)config->jobs, (int32_t)config->workers, NULL, wake_loop, app);
    if (err != ERR_OK) {
        return err_set(
            info, err, "jobs", "no memory or threads for %lld jobs", (long long)config->jobs);
    }
    app->tasks.queue_ms = config->queue_ms;
    app->tasks.first_token_ms = config->first_token_ms;
    *out_hooks = (struct http_hooks){.context = app,
        .head = on_head,
        .body = on_body,
        .fill = on_fill,
        .drop = on_drop,
        .end = on_end,
        .wake = on_wake,
        .drain = on_drain,
        .tick = on_tick};
    return ERR_OK;
}

void app_serve(struct app *app, struct engine *engine)
{
    engine_on_progress(engine, wake_loop, app);
    atomic_store(&app->tasks.engine, engine);
    atomic_store(&app->engine, engine);
    http_wake(app->http);
}

bool app_close(struct app *app)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    int64_t until_us = clock_now_us(NULL) + app->config.stop_timeout_ms * 1000;
    while (app->tasks.in_use > 0 || app->first_pass_running) {
        handle_compute_wake(app);
        if (clock_now_us(NULL) > until_us) {
            log_text(LOG_WARN, "server", "leaving while a step of the engine runs");
            return false;
        }
        (void)nanosleep(&pause, NULL);
    }
    tasks_close(&app->tasks);
    return true;
}
