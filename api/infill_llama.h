/*
 * llama.cpp's form of /infill: one gap between input_prefix and input_suffix. /v1/completions with
 * a suffix is planned by it too. Private to api/.
 */
#ifndef API_INFILL_LLAMA_H
#define API_INFILL_LLAMA_H

#include "api/llama_reply.h"
#include "api/rerank.h"

struct infill_llama_notes {
    struct llama_reply reply;
    enum infill_mode mode;
    struct call_ids prompt; /* what was fed, in slot order */
    bool truncated;
    struct call_ids space;    /* the space that was moved into the gap; none = nothing was */
    struct rerank_gap rerank; /* in that mode */
};

/* call->request is a struct infill_request of this form; call->state becomes the notes. */
MUST_USE enum err infill_llama_plan(struct call *call, struct err_info *info);
MUST_USE enum err infill_llama_more(
    struct call *call, const struct job *job, bool *out_more, struct err_info *info);

/* How many answers there are. */
int32_t infill_llama_count(const struct infill_llama_notes *notes, const struct job *job);
/* What filled the gap in answer `index`. */
struct infill_fill infill_llama_fill(
    const struct infill_llama_notes *notes, const struct job *job, int32_t index);
/* Answers begin with a token that begins with a space, which is the prefix's and not shown. */
bool infill_llama_spaced(const struct infill_llama_notes *notes);

#endif
