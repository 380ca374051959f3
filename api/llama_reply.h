/*
 * Replies and events of llama.cpp's routes, /completion and /infill. Private to api/.
 *
 * A route keeps a struct llama_reply among its notes and says in it what its answers are.
 */
#ifndef API_LLAMA_REPLY_H
#define API_LLAMA_REPLY_H

#include "api/llama_answer.h"

struct llama_reply {
    const struct common_llama *options;
    bool list;       /* a list of answers, even if there should be one */
    bool whole;      /* events: an answer comes in one part when it is complete */
    int32_t settled; /* of a stream: answers whose last part is out */
    int32_t (*count)(const struct call *call, const struct job *job);
    void (*answer)(const struct call *call, const struct job *job, int32_t index,
        struct llama_answer *out_answer);
};

/* An answer that is item `index` of the job. */
void llama_reply_item(const struct job *job, int32_t index, struct llama_answer *out_answer);

void llama_reply_encode(struct call *call, const struct llama_reply *reply, const struct job *job,
    struct json_out *out);
MUST_USE enum err llama_reply_frame(struct call *call, const struct llama_reply *reply,
    const struct job *job, const struct token_event *event, struct buf *out);
/* The last part of an answer, with all other members; one answer a call. */
MUST_USE enum err llama_reply_frame_end(
    struct call *call, struct llama_reply *reply, const struct job *job, struct buf *out);

#endif
