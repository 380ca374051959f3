/* An answer in llama.cpp's shape, as an object. Private to api/. */
#ifndef API_LLAMA_ANSWER_H
#define API_LLAMA_ANSWER_H

#include "api/infill.h"

/* One answer of a finished job. */
struct llama_answer {
    const int32_t *prompt; /* [prompt_count] what was fed, in slot order */
    int32_t prompt_count;
    bool truncated; /* it had to be cut, or the answer had */
    struct infill_fill fill;
    const struct plan_step *step; /* as it was asked for */
    const struct sampling *sampling;
    int64_t predicted; /* tokens, an end token among them */
};

/* What its members are written from. */
struct llama_view {
    struct call *call;
    const struct job *job;
    const struct common_llama *options;
    int32_t index;
    bool stream; /* the last event of an answer, whose text and probabilities were sent before */
    struct llama_answer answer;
};

/* Tokens of an answer, or the one an event is about. */
struct llama_tokens {
    const int32_t *ids;              /* [count] */
    const float *logprobs;           /* [count] */
    const struct token_logprob *top; /* [count * n_probs] */
    int32_t count;
};

struct llama_tokens llama_answer_tokens(const struct infill_fill *fill);
/* All members, or those that response_fields names. */
void llama_answer_write(struct json_out *out, const struct llama_view *view);
/* generation_settings of a request to /completion that says nothing; `seed` is -1, drawn anew for
 * each. ERR_NO_MEMORY only. */
MUST_USE enum err llama_answer_write_defaults(struct json_out *out, struct err_info *info);
/* The lists of ids and of log-probabilities, with so many alternatives to each. */
void llama_answer_write_ids(struct json_out *out, const int32_t *ids, int32_t count);
void llama_answer_write_entries(struct json_out *out, const struct call *call,
    const struct llama_tokens *tokens, int32_t wanted);

#endif
