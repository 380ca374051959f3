/*
 * The front workers. Everything that costs more than microseconds per request happens here:
 * parsing, tokenising, sizing results at submission, encoding replies.
 *
 * The surprising part: PLANNED is sent *before* engine_submit, since from then on the task belongs
 * to the engine and then to the loop, and the worker may not read a byte of it any more.
 */
#include "server/task.h"

#include <string.h>
#include "engine/base/assert.h"
#include "server/server_limits.h"

static void tell(struct tasks *tasks, const struct task_news *news)
{
    bool pushed = ring_push(&tasks->news, news);
    ASSERT(pushed); /* two messages a task wait at most; the ring holds four */
    tasks->wake(tasks->wake_context);
}

static void hand_over(struct tasks *tasks, struct task *task, bool more)
{
    struct task_news news = {.what = more ? TASK_NEWS_MORE : TASK_NEWS_DONE,
        .task_index = task->index,
        .request_index = task->request_index,
        .request_generation = task->request_generation};
    tell(tasks, &news);
}

static int64_t count_tokens(const struct plan *plan)
{
    int64_t tokens = 0;
    for (int32_t i = 0; i < plan->item_count; i++) {
        tokens += plan->items[i].token_count;
    }
    return tokens;
}

static void count_unknown(struct tasks *tasks, const struct task *task)
{
    atomic_fetch_add(&tasks->unknown_fields[router_index(task->route)],
        (uint64_t)MAX(task->call.ignored_count, 0));
}

static enum err prepare(struct tasks *tasks, struct task *task)
{
    const struct endpoint *endpoint = task->route->endpoint;
    struct call *call = &task->call;
    int64_t began_us = clock_now_us(tasks->clock);
    const char *body = task->body.bytes != NULL ? task->body.bytes : "";
    enum err err = endpoint->decode(call, body, task->body.count, &task->info);
    buf_free(&task->body);
    call->stream = call->stream && endpoint->frame != NULL;
    if (err == ERR_OK) {
        err = endpoint->plan(call, &task->info);
    }
    task->prepare_us = clock_now_us(tasks->clock) - began_us;
    count_unknown(tasks, task);
    return err;
}

static int64_t deadline_of(const struct task *task)
{
    int64_t ms = task->call.timeout_ms > 0 ? task->call.timeout_ms : LIMIT_TOTAL_MS;
    return task->began_us + MIN(ms, LIMIT_TOTAL_MS_MAX) * 1000;
}

static enum err submit(struct tasks *tasks, struct task *task)
{
    const struct call *call = &task->call; /* of a chain, the loop may be reading it */
    struct job *job = task->job;
    job->plan = call->plan;
    job->plan.deadline_us = deadline_of(task);
    int64_t now_us = clock_now_us(tasks->clock);
    job->plan.start_by_us = now_us + tasks->queue_ms * 1000;
    job->plan.first_by_us = tasks->first_token_ms > 0 ? now_us + tasks->first_token_ms * 1000 : 0;
    job->plan.urgency = task->urgency;
    job->plan.priority = call->priority;
    memcpy(job->plan.cache_salt, call->cache_salt, sizeof job->plan.cache_salt);
    job->plan.client = task->client;
    int64_t tokens = count_tokens(&job->plan);
    task->tokens += tokens;
    atomic_fetch_add(&tasks->tokens_waiting, tokens);
    if (atomic_load(&task->cancelled)) {
        return err_set(&task->info, ERR_CANCELLED, NULL, "the client went away");
    }
    struct task_news news = {.what = TASK_NEWS_PLANNED,
        .task_index = task->index,
        .request_index = task->request_index,
        .request_generation = task->request_generation,
        .deadline_us = job->plan.deadline_us,
        .stream = call->stream};
    tell(tasks, &news);
    return engine_submit(atomic_load(&tasks->engine), job, &task->info);
}

static void do_plan(struct tasks *tasks, struct task *task)
{
    enum err err = ERR_CANCELLED;
    if (!atomic_load(&task->cancelled)) {
        err = prepare(tasks, task);
    }
    if (err == ERR_OK) {
        err = submit(tasks, task);
        if (err == ERR_OK) {
            return; /* the engine's now */
        }
    }
    task->err = err;
    hand_over(tasks, task, false);
}

static void do_submit(struct tasks *tasks, struct task *task)
{
    enum err err = submit(tasks, task);
    if (err != ERR_OK) {
        task->err = err;
        hand_over(tasks, task, false);
    }
}

static void do_encode(struct tasks *tasks, struct task *task)
{
    const struct endpoint *endpoint = task->route->endpoint;
    task->err = task->job->err;
    if (task->err != ERR_OK) {
        task->info = task->job->info;
    } else if (!atomic_load(&task->cancelled)) {
        task->err = endpoint->encode(&task->call, task->job, &task->reply, &task->info);
    }
    hand_over(tasks, task, false);
}

static void do_more(struct tasks *tasks, struct task *task)
{
    bool more = false;
    if (task->job->err == ERR_OK && !atomic_load(&task->cancelled)) {
        task->err = task->route->endpoint->more(&task->call, task->job, &more, &task->info);
    }
    if (task->err != ERR_OK || more || task->call.stream) {
        hand_over(tasks, task, more && task->err == ERR_OK);
    } else {
        do_encode(tasks, task);
    }
}

static void do_direct(struct tasks *tasks, struct task *task)
{
    int64_t began_us = clock_now_us(tasks->clock);
    const char *body = task->body.bytes != NULL ? task->body.bytes : "";
    task->err = task->route->direct(&task->call, body, task->body.count, &task->reply, &task->info);
    buf_free(&task->body);
    task->prepare_us = clock_now_us(tasks->clock) - began_us;
    count_unknown(tasks, task);
    hand_over(tasks, task, false);
}

static void *work(void *context)
{
    struct tasks *tasks = context;
    uint32_t index = 0;
    while (!atomic_load(&tasks->closing)) {
        if (!ring_pop_wait(&tasks->work, &index, -1)) {
            continue;
        }
        struct task *task = &tasks->slots[index];
        switch (task->work) {
        case TASK_PLAN:
            do_plan(tasks, task);
            break;
        case TASK_MORE:
            do_more(tasks, task);
            break;
        case TASK_SUBMIT:
            do_submit(tasks, task);
            break;
        case TASK_ENCODE:
            do_encode(tasks, task);
            break;
        case TASK_DIRECT:
            do_direct(tasks, task);
            break;
        }
    }
    ring_wake(&tasks->work); /* the next worker */
    return NULL;
}

/* ---- the pool ---- */

struct task *tasks_take(struct tasks *tasks)
{
    struct task *task = tasks->free_slots;
    if (task == NULL) {
        return NULL;
    }
    tasks->free_slots = task->next_free;
    tasks->in_use++;
    task->attached = task->job_done = false;
    task->job = NULL;
    task->call = (struct call){.arena = &task->arena};
    task->err = ERR_OK;
    task->info = (struct err_info){.offset = -1};
    task->tokens = task->prepare_us = task->queue_us = task->inference_us = 0;
    task->jobs = 0;
    task->working = false;
    atomic_store(&task->cancelled, false);
    return task;
}

void tasks_release(struct tasks *tasks, struct task *task)
{
    if (task->job != NULL) {
        engine_release(atomic_load(&tasks->engine), task->job);
        task->job = NULL;
    }
    atomic_fetch_sub(&tasks->tokens_waiting, task->tokens);
    arena_reset(&task->arena);
    buf_free(&task->body);
    buf_free(&task->reply);
    task->next_free = tasks->free_slots;
    tasks->free_slots = task;
    tasks->in_use--;
}

void tasks_push(struct tasks *tasks, struct task *task, enum task_work work)
{
    task->work = work;
    task->working = true;
    bool pushed = ring_push(&tasks->work, &task->index);
    ASSERT(pushed); /* a task waits for a worker at most once */
}

void task_cancel(struct task *task)
{
    atomic_store(&task->cancelled, true);
    if (task->job != NULL) {
        job_cancel(task->job);
    }
}

static uint32_t power_of_two(uint32_t value)
{
    uint32_t power = 1;
    while (power < value) {
        power *= 2;
    }
    return power;
}

enum err tasks_open(struct tasks *tasks, int32_t count, int32_t workers, const struct clock *clock,
    void (*wake)(void *context), void *context)
{
    *tasks = (struct tasks){.count = count,
        .queue_ms = LIMIT_QUEUE_MS,
        .clock = clock,
        .wake = wake,
        .wake_context = context};
    tasks->slots = mem_array(MEM_REQUESTS, (size_t)count, sizeof(struct task));
    tasks->workers = mem_array(MEM_REQUESTS, (size_t)workers, sizeof(pthread_t));
    if (tasks->slots == NULL || tasks->workers == NULL ||
        ring_init(&tasks->work, power_of_two((uint32_t)count), sizeof(uint32_t)) != ERR_OK ||
        ring_init(&tasks->news, power_of_two((uint32_t)count * 4), sizeof(struct task_news)) !=
            ERR_OK) {
        return ERR_NO_MEMORY;
    }
    for (int32_t i = count - 1; i >= 0; i--) {
        struct task *task = &tasks->slots[i];
        task->index = (uint32_t)i;
        arena_init(&task->arena, MEM_REQUESTS, LIMIT_ARENA_BLOCK_BYTES, LIMIT_ARENA_BYTES);
        buf_init(&task->body, MEM_REQUESTS, LIMIT_BODIES_BYTES);
        buf_init(&task->reply, MEM_REQUESTS, LIMIT_REPLY_BYTES);
        task->next_free = tasks->free_slots;
        tasks->free_slots = task;
    }
    for (int32_t i = 0; i < workers; i++) {
        if (pthread_create(&tasks->workers[i], NULL, work, tasks) != 0) {
            return ERR_NO_MEMORY;
        }
        tasks->worker_count++;
    }
    return ERR_OK;
}

void tasks_close(struct tasks *tasks)
{
    atomic_store(&tasks->closing, true);
    if (tasks->worker_count > 0) {
        ring_wake(&tasks->work);
    }
    for (int32_t i = 0; i < tasks->worker_count; i++) {
        pthread_join(tasks->workers[i], NULL);
    }
    for (int32_t i = 0; i < tasks->count && tasks->slots != NULL; i++) {
        arena_drop(&tasks->slots[i].arena);
    }
    ring_free(&tasks->work);
    ring_free(&tasks->news);
    mem_free(tasks->workers);
    mem_free(tasks->slots);
    *tasks = (struct tasks){0};
}
