/*
 * Texts or ids to vectors: what the routes that embed share. Each decodes its body into an /embed
 * request, which says everything any of them can ask, and writes a reply of its own. Private to
 * api/.
 */
#ifndef API_EMBED_H
#define API_EMBED_H

#include "api/call.h"

/* An input that was refused while others were not: on_error "report". */
struct embed_failure {
    int32_t index;
    const char *code, *message;
};

/* What a route asks, resolved against the profile; call->state. */
struct embed_notes {
    const struct embed_request *request;
    const char *inputs_at; /* JSON pointer of the inputs in the route's own body */
    /* Where input 0 stands, if not in that list, which then begins with input 1. NULL: in it. */
    const char *first_at;
    const struct embed_request *first; /* with first_at: whose prompt it has */
    bool token_vectors;
    int32_t token_offset; /* row of a token's vector, from its own; the first has no other */
    /* Made by embed_plan. */
    int32_t input_count;
    bool *truncated;                /* [input_count] */
    int32_t *input_of;              /* [item_count]: the input that became this item */
    struct embed_failure *failures; /* [failure_count], ascending */
    int32_t failure_count;
};

/* The checks of a decoded request; then call->state is its notes. */
MUST_USE enum err embed_keep(struct call *call, const struct embed_request *request,
    bool token_vectors, const char *inputs_at, struct err_info *info);
MUST_USE enum err embed_plan(struct call *call, struct err_info *info);
/* The JSON pointer of an input. */
void embed_name_input(
    const struct embed_notes *notes, int32_t index, char *out_where, size_t bytes);
/* The reply of /embed and /embed_all. */
MUST_USE enum err embed_encode(
    struct call *call, const struct job *job, struct buf *out, struct err_info *info);
/* ERR_OK when every input became a vector; else the first failure, which names the input. */
MUST_USE enum err embed_job_error(
    const struct call *call, const struct job *job, struct err_info *info);
/* One result: numbers or packed, as the request says. */
void embed_write_vector(
    struct json_out *out, const struct embed_notes *notes, const struct item_result *result);
/* {"prompt_tokens":..., "total_tokens":...} */
void embed_write_usage(struct json_out *out, const struct call *call, const struct job *job);

#endif
