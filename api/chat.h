/*
 * A chat to a prompt by the model's own template: what /apply-template shows and what
 * /v1/chat/completions runs. Private to api/.
 *
 * Only what the template itself says may be a control token: roles are words of ours, and every
 * byte of a message's content is marked as the client's on its way through the template.
 */
#ifndef API_CHAT_H
#define API_CHAT_H

#include "api/call.h"
#include "engine/template/chat_template.h"

/* The text with its marks, in the call's arena. Errors name `where` (a JSON pointer to the
 * messages): ERR_NOT_CAPABLE without a template that we render; ERR_INVALID where the template
 * refuses these messages, with the message it has for that; ERR_LIMIT. */
MUST_USE enum err chat_render(struct call *call, const struct common_messages *messages,
    bool add_generation_prompt, const char *where, struct rendered *out_rendered,
    struct err_info *info);

/* The ids of that text: one BOS in front where the vocabulary wants one, whether or not the
 * template spells it; never an EOS. Also ERR_TOKENIZER. The length is not checked against the
 * context. */
MUST_USE enum err chat_ids(struct call *call, const struct common_messages *messages,
    bool add_generation_prompt, const char *where, struct call_ids *out_ids, struct err_info *info);

/* How many ids that is when an answer follows, as the reply of .../input_tokens: nothing is
 * computed, so a chat that is longer than the context has its count too. */
MUST_USE enum err chat_count(struct call *call, const struct common_messages *messages,
    const char *where, struct buf *out, struct err_info *info);

#endif
