/*
 * What a plan needs, checked once before it is queued: a plan that passes can run to its end on
 * this engine without an allocation, and nothing in it can index outside the model.
 */
#ifndef ENGINE_PLAN_CHECK_H
#define ENGINE_PLAN_CHECK_H

#include "engine/base/err.h"
#include "engine/job.h"
#include "engine/types.h"

/* What the checks are made against. */
struct plan_bounds {
    int32_t vocab, hidden, context;
    int32_t vector;          /* numbers of a pooled vector */
    bool embeds_only;        /* no logits: steps and prompt_logprobs are ERR_NOT_CAPABLE */
    int32_t position_max;    /* greatest position a plan may name */
    int32_t piece_bytes_max; /* most text bytes of one token */
    size_t result_bytes;     /* bound of one job's results */
};

/* ERR_INVALID, ERR_LIMIT, ERR_CONTEXT or ERR_NOT_CAPABLE; info->where names the part:
 * "items[3].steps[0].tokens". */
MUST_USE enum err plan_check(
    const struct plan *plan, const struct plan_bounds *bounds, struct err_info *info);
/* Slots the item can come to occupy: prompt plus every token its steps may append. */
int32_t plan_item_slots(const struct plan_item *item);
/* Steps that read a prompt row of their own: how many hidden rows are saved for them. */
int32_t plan_item_saved(const struct plan_item *item);
/* Nothing follows a text that only becomes vectors: once its rows have run, nobody looks at its
 * K/V again. */
bool plan_item_vectors(const struct plan_item *item);
/* The same of a text whose rows all see each other: it never runs bit by bit, from start to end. */
bool plan_item_one_shot(const struct plan_item *item);
/* Fills job->results from job->results_arena for a checked plan; ERR_LIMIT when they would pass
 * bounds->result_bytes, ERR_NO_MEMORY. */
MUST_USE enum err plan_size_results(
    struct job *job, const struct plan_bounds *bounds, struct err_info *info);

/* Infilling is interactive, many embeddings at once are bulk, unless the client says otherwise. */
enum service_class plan_class(const struct plan *plan);

#endif
