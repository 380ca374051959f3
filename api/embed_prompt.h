/*
 * What is put around a text before it becomes a vector: the profile's prompts, and its form for a
 * client's instruction (docs/add-a-model.md). Private to api/.
 */
#ifndef API_EMBED_PROMPT_H
#define API_EMBED_PROMPT_H

#include "api/call.h"
#include "api/prompt.h"

/* An instruction, two copies of the text, and what stands around and between them. */
enum { EMBED_PROMPT_PARTS = 7 };

struct embed_prompt {
    struct prompt_part parts[EMBED_PROMPT_PARTS]; /* none is empty */
    int32_t count;
    int32_t text; /* the part that is the text, or its second copy */
    bool echoes;  /* there are two copies: only the second is pooled */
};

/* The prompt of a request: its instruction, the prompt it names, the profile's default, or none.
 * An instruction that is empty asks for none. ERR_LIMIT for a name that the model does not have. */
MUST_USE enum err embed_prompt_find(struct call *call, const struct embed_request *request,
    const struct bound_text *text, struct embed_prompt *out_prompt, struct err_info *info);

#endif
