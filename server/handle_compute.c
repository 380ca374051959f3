/*
 * See the header. The order inside one wake-up matters: first the workers' news, then the
 * engine's, so that a task's PLANNED is usually handled before its job. When it is not (the news
 * came in between) the names in it no longer match and it is ignored.
 *
 * A stream's frames are made here, on the loop: they are small. Whole replies can be megabytes and
 * go back to a front worker.
 */
#include "server/handle_compute.h"

#include <string.h>
#include "api/error_map.h"
#include "api/sse.h"
#include "engine/base/assert.h"
#include "engine/base/log.h"
#include "server/admission.h"

static struct request *request_of(struct app *app, const struct task *task)
{
    return task->attached ? http_find(app->http, task->request_index, task->request_generation)
                          : NULL;
}

static void body_is_parsed(struct app *app, struct task *task)
{
    http_body_parsed(app->http, task->body_bytes);
    task->body_bytes = 0;
}

static void release(struct app *app, struct task *task)
{
    struct request *request = request_of(app, task);
    if (request != NULL) {
        request->task = NULL;
    }
    body_is_parsed(app, task);
    tasks_release(&app->tasks, task);
}

/* ---- start ---- */

void handle_compute_body(struct app *app, struct request *request)
{
    struct engine *engine = app_engine(app);
    struct task *task = tasks_take(&app->tasks);
    bool compute = request->route->handler == ROUTE_COMPUTE;
    if (task == NULL || (compute && engine_acquire(engine, &task->job) != ERR_OK)) {
        if (task != NULL) {
            tasks_release(&app->tasks, task);
        }
        admission_refuse_busy(app, request);
        return;
    }
    task->attached = true;
    task->request_index = request->index;
    task->request_generation = request->generation;
    task->route = request->route;
    task->began_us = request->began_us;
    task->urgency = request->urgency;
    task->client = request->client;
    task->body = request->body;
    task->body_bytes = request->body.count;
    buf_init(&request->body, MEM_REQUESTS, 0);
    task->call.model = engine_model(engine);
    task->call.tokenizer = engine_tokenizer(engine);
    task->call.chat_template = engine_chat_template(engine);
    task->call.limits = &app->limits;
    task->call.served_name = app_served_name(app);
    task->call.aliases = app->config.model_alias;
    if (task->job != NULL) {
        task->job->user = task;
    }
    request->task = task;
    tasks_push(&app->tasks, task, compute ? TASK_PLAN : TASK_DIRECT);
}

void handle_compute_drop(struct app *app, struct request *request)
{
    struct task *task = request->task;
    if (task == NULL) {
        return;
    }
    if (request->gone) {
        app->metrics.cancelled[request->phase]++;
    }
    request->task = NULL;
    task->attached = false;
    task_cancel(task);
    if (task->job_done && !task->working) {
        release(app, task); /* a finished stream whose last frames are not wanted */
    }
}

/* ---- replies ---- */

static int64_t ms_of(int64_t us)
{
    return us > 0 ? (us + 500) / 1000 : 0;
}

static void add_notes(struct app *app, struct request *request, const struct task *task)
{
    const struct call *call = &task->call;
    if (call->ignored_fields != NULL) {
        reply_header(request, "X-Ignored-Fields", call->ignored_fields);
    }
    if (call->truncated_inputs != NULL) {
        reply_header(request, "X-Truncated-Inputs", call->truncated_inputs);
        app->metrics.truncated_inputs[task->route->endpoint->kind] +=
            (uint64_t)MAX(call->truncated_count, 0);
    }
}

/* For a stream those known at its first byte. */
static void add_timings(struct app *app, struct request *request, const struct task *task)
{
    int64_t total_us = http_now_us(app->http) - request->began_us;
    reply_header(request, "x-compute-type", "cpu");
    reply_header_int(request, "x-compute-characters", task->call.characters);
    reply_header_int(request, "x-compute-tokens", task->tokens);
    reply_header_int(request, "x-tokenization-time", ms_of(task->prepare_us));
    if (task->job_done) {
        reply_header_int(request, "x-compute-time", ms_of(total_us));
        reply_header_int(request, "x-total-time", ms_of(total_us));
        reply_header_int(request, "x-queue-time", ms_of(task->queue_us));
        reply_header_int(request, "x-inference-time", ms_of(task->inference_us));
    }
}

static void reply_failure(
    struct app *app, struct request *request, enum err err, const struct err_info *info)
{
    int status = error_status(err, request->family);
    reply_begin(request, status, "application/json");
    if (status == 429 || status == 503) {
        reply_header_int(request, "Retry-After", admission_retry_after_s(app));
    }
    if (status == 429) {
        app->metrics.rejected[REJECTED_QUEUE]++;
    }
    error_body(info, request->family, status, &request->reply.body);
}

/* A code without its note still has to become a body. */
static const struct err_info *note_of(enum err err, struct err_info *info)
{
    if (info->code != err) {
        (void)err_set(info, err, NULL, "%s", err_word(err));
    }
    return info;
}

static void finish_whole(struct app *app, struct task *task)
{
    struct request *request = request_of(app, task);
    if (request == NULL) {
        release(app, task);
        return;
    }
    if (task->reply.failed && task->err == ERR_OK) {
        task->err = err_set(&task->info, ERR_NO_MEMORY, NULL, "the reply is too large");
    }
    if (task->err == ERR_OK) {
        reply_begin(request, 200, "application/json");
        buf_free(&request->reply.body);
        request->reply.body = task->reply;
        buf_init(&task->reply, MEM_REQUESTS, LIMIT_REPLY_BYTES);
    } else {
        reply_failure(app, request, task->err, note_of(task->err, &task->info));
    }
    add_notes(app, request, task);
    if (task->job != NULL) {
        add_timings(app, request, task);
    }
    release(app, task);
    http_ready(app->http, request);
}

/* ---- streams ---- */

static void begin_stream(struct app *app, struct request *request, const struct task *task)
{
    if (request->reply.status == 0) {
        reply_begin(request, 200, "text/event-stream; charset=utf-8");
        request->reply.stream = true;
        add_notes(app, request, task);
        add_timings(app, request, task);
    }
}

static enum err job_error(const struct job *job, struct err_info *out_info)
{
    if (job->err != ERR_OK) {
        *out_info = job->info;
        return job->err;
    }
    for (int32_t i = 0; i < job->plan.item_count; i++) {
        if (job->results[i].err != ERR_OK) {
            *out_info = job->results[i].info;
            return job->results[i].err;
        }
    }
    return ERR_OK;
}

/* A failure may have left half a frame: back to what was whole. */
static void cut_frames(struct stream *stream, size_t count, enum err err)
{
    if (err != ERR_OK && !stream->frames.failed) {
        stream->frames.count = count;
    }
}

static enum err closing_frames(struct request *request, struct task *task)
{
    struct stream *stream = &request->stream;
    enum err err = ERR_OK;
    do {
        size_t before = stream->frames.count;
        err = task->route->endpoint->frame_end(&task->call, task->job, &stream->frames);
        cut_frames(stream, before, err);
    } while (err == ERR_OK && task->call.frames_left && http_stream_room(request) > 0);
    return err;
}

/* The last job is done and every event of it is a frame: the closing frames, or the failure. */
static void end_stream(struct app *app, struct request *request, struct task *task)
{
    struct stream *stream = &request->stream;
    struct err_info info = {.offset = -1};
    enum err err = task->err;
    if (err != ERR_OK) {
        info = task->info;
    } else {
        err = job_error(task->job, &info);
    }
    if (err == ERR_OK) {
        err = closing_frames(request, task);
    }
    if (err == ERR_OK && task->call.frames_left) {
        begin_stream(app, request, task);
        return; /* handle_compute_fill comes back */
    }
    if (err != ERR_OK && request->reply.status == 0 && stream->frames.count == 0) {
        reply_failure(app, request, err, note_of(err, &info));
        release(app, task);
        return;
    }
    if (err != ERR_OK) {
        request->failed_by_us = err != ERR_CANCELLED;
        sse_error(note_of(err, &info), request->family, &stream->frames);
    }
    begin_stream(app, request, task);
    stream->ended = true;
    release(app, task);
}

/* Moves events into frames while there is room. What stays in the job's ring makes the engine
 * pause that sequence. */
static void pump(struct app *app, struct request *request, struct task *task)
{
    struct stream *stream = &request->stream;
    struct token_event event;
    enum err err = ERR_OK;
    while (err == ERR_OK && http_stream_room(request) > 0 && ring_pop(&task->job->events, &event)) {
        size_t before = stream->frames.count;
        err = task->route->endpoint->frame(&task->call, task->job, &event, &stream->frames);
        cut_frames(stream, before, err);
    }
    if (stream->frames.failed || err != ERR_OK) {
        request->failed_by_us = true;
        stream->broken = stream->frames.failed; /* half a frame: only breaking off is honest */
        stream_error(request, 500, "a frame could not be made");
        begin_stream(app, request, task);
        handle_compute_drop(app, request);
    } else if (task->job_done && !task->working && http_stream_room(request) > 0) {
        if (task->call.asks_more && !task->call.frames_left) {
            tasks_push(&app->tasks, task, TASK_MORE);
        } else {
            end_stream(app, request, task);
        }
    } else if (stream->frames.count > 0) {
        begin_stream(app, request, task);
    }
}

void handle_compute_fill(struct app *app, struct request *request)
{
    struct task *task = request->task;
    if (task != NULL && task->job != NULL && task->call.stream && request->phase >= PHASE_ENGINE) {
        pump(app, request, task);
    }
}

/* ---- news ---- */

static void note_usage(struct request *request, const struct job *job)
{
    struct request_usage *usage = &request->usage;
    const struct job_times *times = &job->times;
    for (int32_t i = 0; i < job->plan.item_count && job->results != NULL; i++) {
        usage->tokens_in += job->results[i].prompt_tokens;
        usage->tokens_cached += job->results[i].cached_tokens;
        usage->tokens_out += job->results[i].generated_tokens;
    }
    if (times->started != 0) {
        usage->queue_us += times->started - times->submitted;
        int64_t prompt_done = times->prompt_done != 0 ? times->prompt_done : times->finished;
        usage->prompt_us += prompt_done - times->started;
        usage->decode_us += times->finished - prompt_done;
    }
}

static void take_done(struct app *app, struct task *task)
{
    const struct job_times *times = &task->job->times;
    int64_t started = times->started != 0 ? times->started : times->finished;
    task->job_done = true;
    task->working = false;
    task->queue_us += started - times->submitted;
    task->inference_us += times->finished - started;
    metrics_job(&app->metrics, task->job, task->jobs == 0);
    task->jobs++;
}

static void take_job(struct app *app, struct job *job, bool done)
{
    struct task *task = job->user;
    struct request *request = request_of(app, task);
    if (task->job_done) {
        return; /* its end was taken already, under an earlier name in the ring */
    }
    if (done) {
        take_done(app, task);
    }
    if (request == NULL) {
        if (done) {
            release(app, task);
        }
        return;
    }
    request->phase = MAX(request->phase, PHASE_ENGINE);
    if (done) {
        note_usage(request, job);
    }
    if (task->call.stream) {
        pump(app, request, task);
        if (request->reply.status != 0) {
            http_ready(app->http, request);
        }
    } else if (done) {
        tasks_push(&app->tasks, task, task->call.asks_more ? TASK_MORE : TASK_ENCODE);
    }
}

/* No job follows, or the next one could not be made. */
static void finish_stream(struct app *app, struct task *task)
{
    struct request *request = request_of(app, task);
    if (request == NULL) {
        release(app, task);
        return;
    }
    end_stream(app, request, task);
    http_ready(app->http, request);
}

/* What the finished job of a chain settled is sent while the next one runs. */
static bool frame_more(struct app *app, struct request *request, struct task *task)
{
    const struct endpoint *endpoint = task->route->endpoint;
    struct stream *stream = &request->stream;
    size_t before = stream->frames.count;
    if (!task->call.stream || endpoint->frame_more == NULL) {
        return true;
    }
    enum err err = endpoint->frame_more(&task->call, task->job, &stream->frames);
    cut_frames(stream, before, err);
    stream->broken = stream->frames.failed;
    if (err == ERR_OK && stream->frames.count > before) {
        begin_stream(app, request, task);
        http_ready(app->http, request);
    }
    return err == ERR_OK;
}

/* The next plan is made. Renewed here, where engine_next is called. */
static void next_job(struct app *app, struct task *task)
{
    struct request *request = request_of(app, task);
    if (request == NULL) {
        release(app, task);
        return;
    }
    if (!frame_more(app, request, task)) {
        task->err = ERR_NO_MEMORY;
        task->working = false;
        finish_stream(app, task);
        return;
    }
    engine_renew(app_engine(app), task->job);
    task->job->user = task;
    task->job_done = false;
    tasks_push(&app->tasks, task, TASK_SUBMIT);
}

static void take_news(struct app *app, const struct task_news *news)
{
    struct task *task = &app->tasks.slots[news->task_index];
    if (news->what == TASK_NEWS_DONE) {
        body_is_parsed(app, task);
        task->working = false;
        if (task->jobs > 0 && task->call.stream) {
            finish_stream(app, task);
        } else {
            finish_whole(app, task);
        }
        return;
    }
    if (news->what == TASK_NEWS_MORE) {
        next_job(app, task);
        return;
    }
    struct request *request = http_find(app->http, news->request_index, news->request_generation);
    if (request == NULL || request->task != task) {
        return;
    }
    body_is_parsed(app, task);
    request->phase = MAX(request->phase, PHASE_ENGINE);
    http_deadline(app->http, request, news->deadline_us);
    if (news->stream) {
        http_expect_stream(app->http, request);
    }
}

void handle_compute_wake(struct app *app)
{
    struct engine *engine = app_engine(app);
    struct task_news news;
    struct job *job = NULL;
    bool done = false;
    while (ring_pop(&app->tasks.news, &news)) {
        take_news(app, &news);
    }
    while (engine != NULL && engine_next(engine, &job, &done)) {
        if (job->user == NULL) {
            app_first_pass(app, job);
        } else {
            take_job(app, job, done);
        }
    }
}
