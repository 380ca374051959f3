/*
 * Replies and events of llama.cpp's routes, /completion and /infill, member by member, so that
 * `response_fields` can pick any of them. Private to api/.
 *
 * A route keeps a struct llama_reply among its notes and says in it what its answers are.
 */
#ifndef API_LLAMA_REPLY_H
#define API_LLAMA_REPLY_H

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

struct llama_reply {
    const struct common_llama *options;
    bool list; /* a list of answers, even if there should be one */
    int32_t (*count)(const struct call *call, const struct job *job);
    void (*answer)(const struct call *call, const struct job *job, int32_t index,
        struct llama_answer *out_answer);
    /* Of a stream: each answer, an item of the plan. NULL: each comes in one part, in the end. */
    struct llama_sent *sent;
    int32_t ended; /* answers whose last part is out */
};

struct llama_sent {
    size_t bytes; /* of text */
    bool cut;     /* n_indent has ended it */
};

/* An answer that is item `index` of the job. */
void llama_reply_item(const struct job *job, int32_t index, struct llama_answer *out_answer);

MUST_USE enum err llama_reply_encode(struct call *call, const struct llama_reply *reply,
    const struct job *job, struct json_out *out, struct err_info *info);
/* Answers come token by token, side by side; once call->plan is made. */
MUST_USE enum err llama_reply_stream(
    struct call *call, struct llama_reply *reply, struct err_info *info);
MUST_USE enum err llama_reply_frame(struct call *call, struct llama_reply *reply,
    const struct job *job, const struct token_event *event, struct buf *out);
/* The last part of an answer has all other members. One answer a call (call->frames_left). */
MUST_USE enum err llama_reply_frame_end(
    struct call *call, struct llama_reply *reply, const struct job *job, struct buf *out);

/* Bytes of text that may be shown: all, or up to the first line after the first that is indented by
 * fewer than n_indent columns. Unless the text has ended, the blank beginning of a last line is
 * held back. *out_cut says whether such a line was met. */
size_t llama_reply_visible(
    const char *text, size_t bytes, int32_t n_indent, bool ended, bool *out_cut);

#endif
