/* See the header. */
#include "eval/ask.h"

#include <stdio.h>
#include "engine/base/assert.h"

/* One request in memory: a batch of texts, its ids and its plan. */
enum { BLOCK_BYTES = 64 << 10, ARENA_BYTES = 256 << 20 };

/* The server's bounds protect it from clients; here the user asks for what the machine can do. */
static const struct api_limits limits = {
    .items_max = LIMIT_INPUTS, .embed_tokens_max = INT32_MAX, .timeout_ms_max = INT64_MAX};

enum err ask_open(const struct engine_config *config, struct ask *out_ask, struct err_info *info)
{
    struct engine_config own = *config;
    own.jobs = ASK_SLOTS;
    own.jobs_bulk = ASK_SLOTS;
    struct ask ask = {0};
    enum err err = engine_open(&own, &ask.engine, info);
    if (err != ERR_OK) {
        return err;
    }
    for (int32_t i = 0; i < ASK_SLOTS; i++) {
        arena_init(&ask.slots[i].arena, MEM_REQUESTS, BLOCK_BYTES, ARENA_BYTES);
    }
    *out_ask = ask;
    return ERR_OK;
}

void ask_close(struct ask *ask)
{
    for (int32_t i = 0; i < ASK_SLOTS; i++) {
        if (ask->slots[i].job != NULL) {
            job_cancel(ask->slots[i].job);
            engine_wait(ask->engine, ask->slots[i].job);
            ask_release(ask, i);
        }
        arena_drop(&ask->slots[i].arena);
    }
    engine_close(ask->engine);
}

enum err ask_send(struct ask *ask, int32_t index, const struct endpoint *endpoint,
    const struct buf *body, struct err_info *info)
{
    struct ask_slot *slot = &ask->slots[index];
    ASSERT(slot->job == NULL);
    slot->call = (struct call){.arena = &slot->arena,
        .model = engine_model(ask->engine),
        .tokenizer = engine_tokenizer(ask->engine),
        .limits = &limits};
    enum err err = endpoint->decode(&slot->call, body->bytes, body->count, info);
    if (err == ERR_OK) {
        err = endpoint->plan(&slot->call, info);
    }
    if (err != ERR_OK) {
        arena_reset(&slot->arena);
        return err;
    }
    err = engine_acquire(ask->engine, &slot->job);
    ASSERT(err == ERR_OK); /* as many jobs as slots */
    slot->job->plan = slot->call.plan;
    err = engine_submit(ask->engine, slot->job, info);
    if (err != ERR_OK) {
        ask_release(ask, index);
    }
    return err;
}

enum err ask_wait(struct ask *ask, int32_t index, const struct job **out_job, struct err_info *info)
{
    struct job *job = ask->slots[index].job;
    ASSERT(job != NULL);
    engine_wait(ask->engine, job);
    if (job->err != ERR_OK) {
        *info = job->info;
        return job->err;
    }
    for (int32_t i = 0; i < job->plan.item_count; i++) {
        if (job->results[i].err != ERR_OK) {
            *info = job->results[i].info;
            (void)snprintf(info->where, sizeof(info->where), "/inputs/%d", i);
            return job->results[i].err;
        }
    }
    *out_job = job;
    return ERR_OK;
}

void ask_release(struct ask *ask, int32_t index)
{
    struct ask_slot *slot = &ask->slots[index];
    engine_release(ask->engine, slot->job);
    slot->job = NULL;
    arena_reset(&slot->arena);
}
