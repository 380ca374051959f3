/*
 * What a request of llama.cpp's routes, /completion and /infill, says of its answers: how tokens
 * are chosen and when an answer ends. Their replies are in api/llama_reply.h. Private to api/.
 */
#ifndef API_LLAMA_H
#define API_LLAMA_H

#include "api/call.h"

MUST_USE enum err llama_sampling(struct call *call, const struct common_sampling *sampling,
    const struct common_llama *options, struct sampling *out_sampling, struct err_info *info);
/* Of a DECODE step: what ends it, and its alternatives. */
MUST_USE enum err llama_step(struct call *call, const struct common_sampling *sampling,
    const struct common_llama *options, struct plan_step *step, struct err_info *info);
/* Of the call's plan: the time for each answer, in whole lines or to the token, and whether kept
 * keys and values may serve it. */
void llama_plan(struct call *call, const struct common_sampling *sampling,
    const struct common_llama *options, bool lines);

#endif
