/*
 * Prompts from templates and user text. A template's own text may spell control tokens, which
 * become ids; user text never does. Neighbouring texts are tokenized jointly, so that a border
 * between template and user text is no border to the tokenizer.
 */
#ifndef API_PROMPT_H
#define API_PROMPT_H

#include "api/call.h"

struct prompt_part {
    struct bound_text text;
    bool trusted; /* the template's: spellings of control tokens are parsed */
};

/* Renders the parts; BOS first where the vocabulary wants one. */
MUST_USE enum err prompt_render(struct call *call, const struct prompt_part *parts, int32_t count,
    const char *where, struct call_ids *out_ids, struct err_info *info);

/* Ids of a text whose bytes marked in `foreign` (NULL: none) spell no control tokens
 * (tokenizer_encode_marked); BOS first where the vocabulary wants one and the text does not spell
 * it. */
MUST_USE enum err prompt_encode(struct call *call, const char *text, size_t bytes,
    const uint8_t *foreign, const char *where, struct call_ids *out_ids, struct err_info *info);

/* Fills two steps: FORCE of what all values share after `line` (it may begin the answer or follow
 * earlier lines), CHOOSE among what tells them apart. Each value is tokenized in its place, after
 * the line. ERR_NOT_CAPABLE when two values begin with the same token. */
MUST_USE enum err prompt_line(struct call *call, const char *line, const char *const *values,
    int32_t value_count, struct plan_step *steps, struct err_info *info);

#endif
