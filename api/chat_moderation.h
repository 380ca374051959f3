/*
 * The field `moderation` of /v1/chat/completions: verdicts about the last message of the user and
 * about the answers, by the plan of /v1/moderations, as jobs before and after that of the answers.
 * Private to api/.
 *
 *     input "block": [question] --> [answers] --> [outputs]     flagged question: ends there
 *     input "score":                [answers] --> [question, outputs]
 *
 * So a question that only gets a score does not delay its answer. An answer that may be blocked is
 * not streamed but sent whole, when it was judged: words cannot be taken back.
 */
#ifndef API_CHAT_MODERATION_H
#define API_CHAT_MODERATION_H

#include "api/v1_text.h"

/* Of one side. Neither verdicts nor a reason: nothing was judged, or not yet. */
struct chat_verdicts {
    const float *harmful; /* [count] */
    int32_t count;
    const char *unavailable; /* why there are none */
};

/* The state of a chat's call. */
struct chat_notes {
    struct v1_text text; /* first: call->state is read as either */
    enum { CHAT_QUESTION, CHAT_ANSWERS, CHAT_REST } stage; /* what the running job is for */
    bool blocks_input, blocks_output;
    struct bound_text question;
    struct plan answers;
    /* With moderation only: a copy of what the job of the answers made, which is another job's by
     * the time the reply is written. */
    struct job *kept;
    struct chat_verdicts input, output;
};

/* After the plan of the answers was made: which job comes first. ERR_NOT_CAPABLE, ERR_EMPTY and
 * ERR_CONTEXT where a text cannot be judged and something is to be blocked; ERR_NOT_FOUND for
 * another model. */
MUST_USE enum err chat_moderation_plan(struct call *call, struct err_info *info);
/* endpoint->more of a moderated chat. */
MUST_USE enum err chat_moderation_more(
    struct call *call, const struct job *job, bool *out_more, struct err_info *info);
/* The member `moderation`. */
void chat_moderation_write(struct json_out *out, const struct call *call);

#endif
