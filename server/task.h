/*
 * Work for one request outside the loop: a slot with the arena in which its body becomes structs,
 * ids and a plan, the job it is submitted as, and the reply. Slots come from a fixed pool: none
 * free is an ordinary answer, 429.
 *
 * A request may need several jobs, each planned from the results of those before. They run in the
 * one job slot of the task, with one deadline; between two the loop renews the slot.
 *
 * One owner at a time. The loop takes a slot and gives it to a front worker (plan, encode or
 * answer directly); the worker gives it to the engine or back to the loop; the engine's job leads
 * back to the loop. Besides the owner only the loop touches a slot, and only `attached`,
 * task_cancel and the request's name, which are its own.
 *
 * The request a task works for may end first. The task is then detached, runs to its next
 * hand-over (a step at most) and is released. So a slot holds (index, generation) of the request.
 */
#ifndef SERVER_TASK_H
#define SERVER_TASK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "api/endpoint.h"
#include "api/routes.h"
#include "engine/base/arena.h"
#include "engine/base/ring.h"
#include "engine/engine.h"
#include "server/router.h"

enum task_work {
    TASK_PLAN,   /* decode, plan, submit */
    TASK_MORE,   /* finished job to the next plan, or to the reply body */
    TASK_SUBMIT, /* the next plan to the engine */
    TASK_ENCODE, /* finished job to reply body */
    TASK_DIRECT  /* body to reply body, no job */
};

struct task {
    uint32_t index;
    struct task *next_free;

    /* The loop's. */
    bool attached;
    uint32_t request_index, request_generation;
    bool job_done;     /* its job is done and not yet renewed for the next plan */
    bool working;      /* a front worker has it, or gave it to the engine */
    size_t body_bytes; /* still in the front's account of bodies */

    const struct endpoint_route *route;
    enum task_work work;
    struct arena arena;
    struct call call;
    struct buf body;
    struct job *job;      /* NULL for direct routes */
    int64_t began_us;     /* of the request */
    enum urgency urgency; /* of the request */
    uint64_t client;
    int64_t prepare_us;             /* decoding and tokenising took this long */
    int32_t jobs;                   /* finished */
    int64_t queue_us, inference_us; /* of all of them */
    int64_t tokens;                 /* of the plans' prompts; counted in tasks.tokens_waiting */
    enum err err;                   /* of the work; info says more */
    struct err_info info;
    struct buf reply;
    _Atomic bool cancelled;
};

/* What a worker tells the loop. PLANNED is news about a task that goes on; MORE hands it over with
 * the next plan made, DONE for good. */
struct task_news {
    enum { TASK_NEWS_PLANNED, TASK_NEWS_MORE, TASK_NEWS_DONE } what;
    uint32_t task_index;
    uint32_t request_index, request_generation;
    int64_t deadline_us; /* PLANNED */
    bool stream;         /* PLANNED: a stream was asked for */
};

struct tasks {
    struct task *slots; /* [count] */
    int32_t count, in_use;
    struct task *free_slots;
    struct ring work; /* of uint32_t */
    struct ring news; /* of struct task_news */
    pthread_t *workers;
    int32_t worker_count;
    _Atomic bool closing;
    _Atomic int64_t tokens_waiting; /* submitted by tasks that have not ended */
    _Atomic uint64_t unknown_fields[ROUTES_MAX];
    _Atomic(struct engine *) engine;  /* set once, before the first task */
    int64_t queue_ms, first_token_ms; /* 0 = no bound */
    const struct clock *clock;
    void (*wake)(void *context); /* the loop */
    void *wake_context;
};

MUST_USE enum err tasks_open(struct tasks *tasks, int32_t count, int32_t workers,
    const struct clock *clock, void (*wake)(void *context), void *context);
/* Joins the workers. All slots must be free. */
void tasks_close(struct tasks *tasks);

/* NULL when none is free. Resets the slot; the caller fills route, body, names and call. */
struct task *tasks_take(struct tasks *tasks);
/* Also releases the job. Loop only. */
void tasks_release(struct tasks *tasks, struct task *task);
void tasks_push(struct tasks *tasks, struct task *task, enum task_work work);
/* From the loop, at any time: the owner gives up at its next look. */
void task_cancel(struct task *task);

#endif
