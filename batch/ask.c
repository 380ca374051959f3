/*
 * See the header. The engine's thread only wakes: whatever is done with a finished job (planning
 * the next one of a chain, encoding) is done by the caller, while the other requests run.
 *
 * A full engine is no failure here: a planned request waits in its slot until others have ended.
 * Where answers that wait for their turn hold the room that the oldest request lacks, the youngest
 * of them is given up, and computed once more when there is room again.
 */
#include "batch/ask.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/eventfd.h>
#include "engine/base/assert.h"

enum { BLOCK_BYTES = 16 << 10, ARENA_BYTES = 256 << 20 };

/* The server's bounds protect it from clients; here the user asks for what the machine can do. A
 * time is taken as the server takes it. */
static const struct api_limits limits = {
    .items_max = LIMIT_INPUTS, .embed_tokens_max = INT32_MAX, .timeout_ms_max = 3600 * 1000};

static void wake(void *context)
{
    const struct ask *ask = context;
    const uint64_t one = 1;
    ssize_t written = write(ask->wake_fd, &one, sizeof(one));
    ASSERT(written == (ssize_t)sizeof(one));
}

static struct ask_slot *slot_at(const struct ask *ask, int32_t index)
{
    return &ask->slots[(ask->first + index) % ask->slot_count];
}

enum err ask_open(
    const struct engine_config *config, int32_t slots, struct ask *ask, struct err_info *info)
{
    struct engine_config own = *config;
    own.jobs = slots;
    own.jobs_bulk = slots;
    *ask = (struct ask){.slot_count = slots, .wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    if (ask->wake_fd < 0) {
        return err_set(info, ERR_IO, "engine", "no event descriptor: %s", strerror(errno));
    }
    enum err err = ERR_NO_MEMORY;
    ask->slots = mem_array(MEM_REQUESTS, (size_t)slots, sizeof(*ask->slots));
    if (ask->slots != NULL) {
        err = engine_open(&own, &ask->engine, info);
    } else {
        (void)err_set(info, err, "engine", "no memory for requests");
    }
    if (err != ERR_OK) {
        mem_free(ask->slots);
        (void)close(ask->wake_fd);
        return err;
    }
    for (int32_t i = 0; i < slots; i++) {
        arena_init(&ask->slots[i].arena, MEM_REQUESTS, BLOCK_BYTES, ARENA_BYTES);
    }
    engine_on_progress(ask->engine, wake, ask);
    return ERR_OK;
}

/* ---- one request ---- */

static void end(struct ask *ask, struct ask_slot *slot, enum err err)
{
    if (err != ERR_OK && slot->job != NULL) { /* its results are nobody's */
        engine_renew(ask->engine, slot->job);
    }
    slot->state = ASK_DONE;
    slot->err = err;
    if (err != ERR_OK && slot->info.code != err) {
        (void)err_set(&slot->info, err, NULL, "%s", err_word(err));
    }
}

static enum err submit(struct ask *ask, struct ask_slot *slot)
{
    const struct call *call = &slot->call;
    struct plan *plan = &slot->job->plan;
    *plan = call->plan;
    plan->deadline_us = slot->deadline_us;
    plan->priority = call->priority;
    memcpy(plan->cache_salt, call->cache_salt, sizeof(plan->cache_salt));
    return engine_submit(ask->engine, slot->job, &slot->info);
}

/* Plans stay in their arena: the job can be submitted again. */
static void replan(struct ask *ask, struct ask_slot *slot)
{
    engine_renew(ask->engine, slot->job);
    slot->job->user = slot;
    slot->state = ASK_PLANNED;
}

/* Gives up the youngest answer that waits behind the oldest request; false when there is none. */
static bool make_room(struct ask *ask)
{
    for (int32_t i = ask->count - 1; i > 0; i--) {
        struct ask_slot *slot = slot_at(ask, i);
        if (slot->state == ASK_DONE && slot->err == ERR_OK) {
            replan(ask, slot);
            return true;
        }
    }
    return false;
}

/* Oldest first. The engine is full: the rest waits for those that run, or for the caller to take
 * what is done before it; where there is neither, room must be made. */
static void submit_planned(struct ask *ask)
{
    for (int32_t i = 0; i < ask->count && !ask->closing; i++) {
        struct ask_slot *slot = slot_at(ask, i);
        if (slot->state != ASK_PLANNED) {
            continue;
        }
        enum err err = submit(ask, slot);
        while (err == ERR_BUSY && i == 0 && ask->running == 0 && make_room(ask)) {
            err = submit(ask, slot);
        }
        if (err == ERR_OK) {
            slot->state = ASK_RUNNING;
            ask->running++;
        } else if (err == ERR_BUSY && (ask->running > 0 || i > 0)) {
            return;
        } else {
            end(ask, slot, err);
        }
    }
}

static void finish(struct ask *ask, struct ask_slot *slot)
{
    bool more = false;
    enum err err = slot->job->err;
    ask->running--;
    if (err != ERR_OK) {
        slot->info = slot->job->info;
    } else if (slot->call.asks_more && !ask->closing) {
        err = slot->endpoint->more(&slot->call, slot->job, &more, &slot->info);
    }
    slot->call.asks_more = more; /* the last job may run again (make_room) */
    if (err == ERR_OK && more) {
        replan(ask, slot);
    } else {
        end(ask, slot, err);
    }
}

static void take_news(struct ask *ask)
{
    uint64_t wakes = 0;
    struct job *job = NULL;
    bool done = false;
    ssize_t got = read(ask->wake_fd, &wakes, sizeof(wakes)); /* before the news it tells of */
    ASSERT(got == (ssize_t)sizeof(wakes) || errno == EAGAIN);
    while (engine_next(ask->engine, &job, &done)) {
        struct ask_slot *slot = job->user;
        if (done && slot != NULL && slot->state == ASK_RUNNING) {
            finish(ask, slot);
        }
    }
    submit_planned(ask);
}

static void wait_for_news(struct ask *ask)
{
    struct pollfd file = {.fd = ask->wake_fd, .events = POLLIN};
    (void)poll(&file, 1, -1); /* interrupted: looks once more */
    take_news(ask);
}

static enum err prepare(struct ask_slot *slot, const char *body, size_t bytes)
{
    struct call *call = &slot->call;
    enum err err = slot->endpoint->decode(call, body, bytes, &slot->info);
    if (err == ERR_OK && call->stream) {
        return err_set(&slot->info, ERR_UNSUPPORTED_FIELD, "/stream",
            "a line is answered by one line: there are no streams here");
    }
    if (err == ERR_OK && call->timeout_ms > 0) {
        slot->deadline_us = clock_now_us(NULL) + call->timeout_ms * 1000;
    }
    return err == ERR_OK ? slot->endpoint->plan(call, &slot->info) : err;
}

/* ---- the queue ---- */

bool ask_room(const struct ask *ask)
{
    return ask->count < ask->slot_count;
}

static struct ask_slot *append(struct ask *ask, const struct endpoint *endpoint)
{
    ASSERT(ask_room(ask));
    struct ask_slot *slot = slot_at(ask, ask->count++);
    ASSERT(slot->state == ASK_FREE);
    slot->endpoint = endpoint;
    slot->err = ERR_OK;
    slot->info = (struct err_info){.offset = -1};
    slot->deadline_us = 0;
    slot->bytes = slot->from = slot->count = 0;
    slot->call = (struct call){.arena = &slot->arena,
        .model = engine_model(ask->engine),
        .tokenizer = engine_tokenizer(ask->engine),
        .chat_template = engine_chat_template(ask->engine),
        .served_name = ask->served_name,
        .aliases = ask->aliases,
        .limits = &limits};
    return slot;
}

struct ask_slot *ask_send(
    struct ask *ask, const struct endpoint *endpoint, const char *body, size_t bytes)
{
    struct ask_slot *slot = append(ask, endpoint);
    slot->bytes = bytes;
    ask->bytes += bytes;
    enum err err = prepare(slot, body, bytes);
    if (err != ERR_OK) {
        end(ask, slot, err);
        return slot;
    }
    err = engine_acquire(ask->engine, &slot->job);
    ASSERT(err == ERR_OK); /* as many jobs as slots */
    slot->job->user = slot;
    slot->state = ASK_PLANNED;
    submit_planned(ask);
    return slot;
}

struct ask_slot *ask_refuse(
    struct ask *ask, const struct endpoint *endpoint, const struct err_info *info)
{
    struct ask_slot *slot = append(ask, endpoint);
    slot->info = *info;
    end(ask, slot, info->code);
    return slot;
}

struct ask_slot *ask_ready(struct ask *ask)
{
    take_news(ask);
    return ask->count > 0 && slot_at(ask, 0)->state == ASK_DONE ? slot_at(ask, 0) : NULL;
}

struct ask_slot *ask_wait(struct ask *ask)
{
    ASSERT(ask->count > 0);
    /* Looks before it waits: what was released since may be the room that the oldest waits for. */
    struct ask_slot *slot = ask_ready(ask);
    while (slot == NULL) {
        wait_for_news(ask);
        slot = slot_at(ask, 0)->state == ASK_DONE ? slot_at(ask, 0) : NULL;
    }
    return slot;
}

void ask_release(struct ask *ask)
{
    ASSERT(ask->count > 0);
    struct ask_slot *slot = slot_at(ask, 0);
    ASSERT(slot->state == ASK_DONE || (ask->closing && slot->state == ASK_PLANNED));
    if (slot->job != NULL) {
        engine_release(ask->engine, slot->job);
        slot->job = NULL;
    }
    arena_reset(&slot->arena);
    ask->bytes -= slot->bytes;
    slot->state = ASK_FREE;
    ask->first = (ask->first + 1) % ask->slot_count;
    ask->count--;
}

void ask_close(struct ask *ask)
{
    ask->closing = true;
    for (int32_t i = 0; i < ask->count; i++) {
        if (slot_at(ask, i)->state == ASK_RUNNING) {
            job_cancel(slot_at(ask, i)->job);
        }
    }
    while (ask->running > 0) {
        wait_for_news(ask);
    }
    while (ask->count > 0) {
        ask_release(ask);
    }
    for (int32_t i = 0; i < ask->slot_count; i++) {
        arena_drop(&ask->slots[i].arena);
    }
    engine_close(ask->engine);
    mem_free(ask->slots);
    (void)close(ask->wake_fd);
}

enum err ask_items(const struct ask_slot *slot, struct err_info *info)
{
    ASSERT(slot->state == ASK_DONE);
    if (slot->err != ERR_OK) {
        *info = slot->info;
        return slot->err;
    }
    for (int32_t i = 0; i < slot->job->plan.item_count; i++) {
        const struct item_result *result = &slot->job->results[i];
        if (result->err != ERR_OK) {
            *info = result->info;
            (void)snprintf(info->where, sizeof(info->where), "/inputs/%d", i);
            return result->err;
        }
    }
    return ERR_OK;
}
