/*
 * The endpoints without a server: reads "PATH<tab>BODY" lines from standard input, runs each
 * through decode, plan, engine and encode as the server does, and prints what came of it, one line
 * each: "reply", "error" or "frame", a tab, JSON; then "headers" with what goes into headers; then
 * "end". Bodies and checks are in check_answers.py.
 *
 * usage: answers MODEL CONTEXT
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/error_map.h"
#include "api/json_in.h"
#include "api/routes.h"
#include "engine/base/assert.h"
#include "engine/engine.h"

enum { REPLY_BYTES = 64 << 20 };

static const struct api_limits LIMITS = {
    .items_max = 2048, .embed_tokens_max = 300000, .timeout_ms_max = 600000};

static const struct endpoint_route *find_route(const char *path)
{
    for (int32_t i = 0; i < endpoint_route_count; i++) {
        if (strcmp(endpoint_routes[i].path, path) == 0) {
            return &endpoint_routes[i];
        }
    }
    (void)fprintf(stderr, "no route %s\n", path);
    exit(1);
}

static void print_error(const struct err_info *info, enum family family)
{
    struct buf body;
    buf_init(&body, MEM_REQUESTS, 4096);
    error_body(info, family, error_status(info->code, family), &body);
    printf("error\t%s\n", body.bytes);
    buf_free(&body);
}

/* Frames come as "data: JSON\n\n". */
static void print_frames(struct buf *frames)
{
    for (char *at = frames->count > 0 ? frames->bytes : NULL; at != NULL && *at != '\0';) {
        char *end = strstr(at, "\n\n");
        ASSERT(end != NULL);
        ASSERT(strncmp(at, "data: ", 6) == 0);
        *end = '\0';
        printf("frame\t%s\n", at + 6);
        at = end + 2;
    }
    buf_clear(frames);
}

static enum err frames_of(const struct endpoint *endpoint, struct call *call, struct job *job,
    bool more, struct buf *frames)
{
    enum err err = ERR_OK;
    for (struct token_event event; err == ERR_OK && ring_pop(&job->events, &event);) {
        err = endpoint->frame(call, job, &event, frames);
    }
    if (err == ERR_OK && more && endpoint->frame_more != NULL) {
        err = endpoint->frame_more(call, job, frames);
    }
    for (bool left = !more && job->err == ERR_OK; err == ERR_OK && left; left = call->frames_left) {
        err = endpoint->frame_end(call, job, frames);
    }
    return err;
}

/* The call's plans, one job after the other. */
static enum err run_jobs(const struct endpoint *endpoint, struct call *call, struct engine *engine,
    struct job *job, struct buf *reply, struct err_info *info)
{
    enum err err = ERR_OK;
    for (bool more = true; err == ERR_OK && more;) {
        job->plan = call->plan;
        err = engine_submit(engine, job, info);
        if (err != ERR_OK) {
            return err;
        }
        engine_wait(engine, job);
        more = false;
        if (call->asks_more && job->err == ERR_OK) {
            err = endpoint->more(call, job, &more, info);
        }
        if (err == ERR_OK && call->stream) {
            err = frames_of(endpoint, call, job, more, reply);
        } else if (err == ERR_OK && !more) {
            err = endpoint->encode(call, job, reply, info);
        }
        if (more) {
            engine_renew(engine, job);
        }
    }
    return err;
}

static enum err compute(struct call *call, const struct endpoint *endpoint, struct engine *engine,
    const char *body, struct err_info *info)
{
    struct job *job = NULL;
    struct buf reply;
    enum err err = endpoint->decode(call, body, strlen(body), info);
    if (err == ERR_OK) {
        err = endpoint->plan(call, info);
    }
    if (err != ERR_OK) {
        return err;
    }
    ASSERT(engine_acquire(engine, &job) == ERR_OK);
    buf_init(&reply, MEM_REQUESTS, REPLY_BYTES);
    err = run_jobs(endpoint, call, engine, job, &reply, info);
    if (call->stream) {
        print_frames(&reply);
    } else if (err == ERR_OK) {
        printf("reply\t%s\n", reply.bytes);
    }
    buf_free(&reply);
    engine_release(engine, job);
    return err;
}

static enum err direct(
    struct call *call, endpoint_direct *answer, const char *body, struct err_info *info)
{
    struct buf reply;
    buf_init(&reply, MEM_REQUESTS, REPLY_BYTES);
    enum err err = answer(call, body, strlen(body), &reply, info);
    if (err == ERR_OK) {
        printf("reply\t%s\n", reply.bytes);
    }
    buf_free(&reply);
    return err;
}

static void run_line(struct engine *engine, char *line)
{
    char *body = strchr(line, '\t');
    ASSERT(body != NULL);
    *body++ = '\0';
    const struct endpoint_route *route = find_route(line);
    struct arena arena;
    struct err_info info = {0};
    arena_init(&arena, MEM_REQUESTS, 1 << 16, (size_t)1 << 30);
    struct call call = {.arena = &arena,
        .model = engine_model(engine),
        .tokenizer = engine_tokenizer(engine),
        .limits = &LIMITS,
        .served_name = "m"};
    enum err err = route->handler == ROUTE_DIRECT
                       ? direct(&call, route->direct, body, &info)
                       : compute(&call, route->endpoint, engine, body, &info);
    if (err != ERR_OK) {
        print_error(&info, route->family);
    }
    printf("headers\t%s|%s\n", call.ignored_fields != NULL ? call.ignored_fields : "",
        call.truncated_inputs != NULL ? call.truncated_inputs : "");
    printf("end\n");
    (void)fflush(stdout);
    arena_drop(&arena);
}

int main(int argc, char **argv)
{
    struct engine *engine = NULL;
    struct err_info info = {0};
    if (argc != 3) {
        return 2;
    }
    const struct engine_config config = {.model_path = argv[1],
        .kv_f32 = true,
        .context = (int32_t)strtol(argv[2], NULL, 10),
        .events = 4096};
    json_in_init();
    if (engine_open(&config, &engine, &info) != ERR_OK) {
        (void)fprintf(stderr, "%s: %s\n", info.where, info.text);
        return 1;
    }
    char *line = NULL;
    size_t capacity = 0;
    for (ssize_t count; (count = getline(&line, &capacity, stdin)) > 0;) {
        line[count - 1] = '\0';
        run_line(engine, line);
    }
    free(line);
    engine_close(engine);
    return 0;
}
