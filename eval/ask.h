/*
 * A client inside the process: an engine, and requests that an endpoint of api/ decodes and plans
 * as if they had come over HTTP. So an evaluation measures what the server answers: masks, pooling,
 * prompts and cutting are the endpoint's, from the profile, and nobody's copy of it.
 *
 * One thread. Several requests may be under way: while the engine computes one, the next is made.
 */
#ifndef EVAL_ASK_H
#define EVAL_ASK_H

#include "api/endpoint.h"
#include "engine/engine.h"

enum { ASK_SLOTS = 2 };

struct ask_slot {
    struct arena arena;
    struct call call;
    struct job *job; /* NULL = free */
};

struct ask {
    struct engine *engine;
    struct ask_slot slots[ASK_SLOTS];
};

/* `config` but for the number of jobs, which is ours. */
MUST_USE enum err ask_open(
    const struct engine_config *config, struct ask *out_ask, struct err_info *info);
/* Waits for what is under way. */
void ask_close(struct ask *ask);
/* Sends a request from a free slot. */
MUST_USE enum err ask_send(struct ask *ask, int32_t slot, const struct endpoint *endpoint,
    const struct buf *body, struct err_info *info);
/* Waits for it. Results stay with the slot until ask_release; a failure of one item is an error at
 * "/inputs/N". */
MUST_USE enum err ask_wait(
    struct ask *ask, int32_t slot, const struct job **out_job, struct err_info *info);
void ask_release(struct ask *ask, int32_t slot);

#endif
