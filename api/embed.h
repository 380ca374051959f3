/*
 * Texts or ids to vectors: what the routes that embed share. Each decodes its body into an /embed
 * request, which says everything any of them can ask, and writes a reply of its own. Private to
 * api/.
 */
#ifndef API_EMBED_H
#define API_EMBED_H

#include "api/call.h"

/* What a route asks, resolved against the profile; call->state. */
struct embed_notes {
    const struct embed_request *request;
    const char *inputs_at; /* JSON pointer of the inputs in the route's own body */
    /* Where input 0 stands, if not in that list, which then begins with input 1. NULL: in it. */
    const char *first_at;
    const struct embed_request *first; /* with first_at: whose prompt it has */
    bool token_vectors;
    int32_t token_offset; /* row of a token's vector, from its own; the first has no other */
    bool *truncated;      /* [item_count], made by embed_plan */
};

/* The checks of a decoded request; then call->state is its notes. */
MUST_USE enum err embed_keep(struct call *call, const struct embed_request *request,
    bool token_vectors, const char *inputs_at, struct err_info *info);
MUST_USE enum err embed_plan(struct call *call, struct err_info *info);
/* ERR_OK when every input became a vector; else the first failure, which names the input. */
MUST_USE enum err embed_job_error(
    const struct call *call, const struct job *job, struct err_info *info);
/* One result: numbers or base64, as the request says. */
void embed_write_vector(
    struct json_out *out, const struct embed_notes *notes, const struct item_result *result);
/* {"prompt_tokens":..., "total_tokens":...} */
void embed_write_usage(struct json_out *out, const struct call *call, const struct job *job);

#endif
