/*
 * The two body forms of /infill, each a plan and a reply of its own, and what they share. Private
 * to api/.
 *
 *     gaps      text with marked gaps (or segments): api/infill_gaps.c
 *     llama     input_prefix and input_suffix, llama.cpp's form: api/infill_llama.h
 */
#ifndef API_INFILL_H
#define API_INFILL_H

#include "api/call.h"

/* What filled a gap. It points into the call's arena, or into the job that has just finished. */
struct infill_fill {
    const char *text;
    size_t text_bytes;
    int32_t *tokens;       /* [token_count]; an end token is not one of them */
    const float *logprobs; /* [token_count] */
    int32_t token_count;
    const struct token_logprob *top; /* as in struct step_result */
    enum finish finish;              /* FINISH_EOS: the model, or the judge, ended it here */
    int32_t stop_index;
    float score; /* rerank alone */
};

struct infill_fill infill_fill_of(const struct step_result *step);
/* The mode a request gets on this model; ERR_NOT_CAPABLE when it asks for one that is not there. */
MUST_USE enum err infill_mode(
    const struct call *call, enum infill_mode *out_mode, struct err_info *info);
/* Names the fields that have no effect in this mode, and refuses those it cannot serve. */
MUST_USE enum err infill_ignored_by(
    struct call *call, enum infill_mode mode, struct err_info *info);
/* The request's sampling fields. Without a temperature fills are greedy, but in mode fim. */
MUST_USE enum err infill_sampling(
    struct call *call, enum infill_mode mode, struct sampling *out_sampling, struct err_info *info);
/* Takes off the space that ends the text before a gap, if the request wants that, it is not all
 * there is and the vocabulary has a token that is a space. Gives that token; none = nothing was
 * taken off. */
MUST_USE enum err infill_heal(struct call *call, struct bound_text *before,
    struct call_ids *out_space, struct err_info *info);
/* What the fill must begin with then. */
static inline enum border infill_border(const struct call_ids *space)
{
    return space->count > 0 ? BORDER_SPACE : BORDER_FREE;
}
/* A DECODE step with everything off. */
struct plan_step infill_step(int32_t read_row, int32_t position, int32_t tokens_max);
/* Tokens of a finished gap that are text: the end token is not. */
int32_t infill_text_tokens(const struct step_result *step);

MUST_USE enum err infill_gaps_plan(struct call *call, struct err_info *info);
MUST_USE enum err infill_gaps_more(
    struct call *call, const struct job *job, bool *out_more, struct err_info *info);
MUST_USE enum err infill_gaps_encode(
    struct call *call, const struct job *job, struct json_out *out, struct err_info *info);
MUST_USE enum err infill_gaps_frame(
    struct call *call, const struct job *job, const struct token_event *event, struct buf *out);
MUST_USE enum err infill_gaps_frame_end(struct call *call, const struct job *job, struct buf *out);

/* Frames of gaps that a job settled which another follows. */
MUST_USE enum err infill_gaps_frame_more(struct call *call, const struct job *job, struct buf *out);

#endif
