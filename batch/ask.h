/*
 * A client inside the process: an engine, and requests that an endpoint of api/ decodes and plans
 * as if they had come over HTTP. So what a file of lines or an evaluation gets is what the server
 * answers: masks, pooling, prompts and cutting are the endpoint's, and nobody's copy of it.
 *
 * One thread asks. Requests stand in a queue of slots: many are under way, in any order, and they
 * are taken in the order they were sent. What goes wrong with one stays in its slot until its turn.
 */
#ifndef BATCH_ASK_H
#define BATCH_ASK_H

#include "api/endpoint.h"
#include "engine/engine.h"

enum ask_state { ASK_FREE, ASK_PLANNED, ASK_RUNNING, ASK_DONE };

struct ask_slot {
    enum ask_state state;
    const struct endpoint *endpoint;
    struct arena arena;
    struct call call;
    struct job *job; /* its results, when it is done and `err` is ERR_OK */
    enum err err;    /* of the request as a whole; then `info` says what */
    struct err_info info;
    int64_t deadline_us; /* 0 = none */
    size_t bytes;        /* of its body */
    size_t from, count;  /* the sender's note: which lines or pairs these are */
};

struct ask {
    struct engine *engine;
    struct ask_slot *slots; /* [slot_count], a queue that goes round */
    int32_t slot_count;
    int32_t first, count; /* the oldest, and how many follow with it */
    int32_t running;
    size_t bytes; /* of all bodies in the queue */
    int wake_fd; /* readable when the engine has news: for a caller that waits for more than that */
    const char *served_name, *aliases; /* of every call (struct call); the caller may set them */
    bool closing;
};

/* `config` but for the number of jobs, which is `slots`. `ask` may not move while it is open. */
MUST_USE enum err ask_open(
    const struct engine_config *config, int32_t slots, struct ask *ask, struct err_info *info);
/* Cancels what is under way and waits for it. */
void ask_close(struct ask *ask);

bool ask_room(const struct ask *ask);
/* Sends a request; there is room. The body is not needed afterwards. */
struct ask_slot *ask_send(
    struct ask *ask, const struct endpoint *endpoint, const char *body, size_t bytes);
/* A request that failed before it was one: takes its place in the queue. */
struct ask_slot *ask_refuse(
    struct ask *ask, const struct endpoint *endpoint, const struct err_info *info);
/* The oldest request if it is done, else NULL. Takes the engine's news, so call it after wake_fd
 * was readable. */
struct ask_slot *ask_ready(struct ask *ask);
/* The same, waiting for it. There is one. */
struct ask_slot *ask_wait(struct ask *ask);
/* The oldest request is dropped with its results. */
void ask_release(struct ask *ask);

/* ERR_OK when the request and each of its items succeeded; a failure of one item is an error at
 * "/inputs/N". */
MUST_USE enum err ask_items(const struct ask_slot *slot, struct err_info *info);

#endif
