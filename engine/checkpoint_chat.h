/* The chat template of a checkpoint: a GGUF file has it in its metadata, a folder in a file of its
 * own or in tokenizer_config.json. */
#ifndef ENGINE_CHECKPOINT_CHAT_H
#define ENGINE_CHECKPOINT_CHAT_H

#include "engine/load/gguf.h"
#include "engine/template/chat_template.h"
#include "engine/text/tokenizer.h"

/* `path` is what the checkpoint was opened from. *out_template is NULL when it has no template. A
 * template that is refused is no error; a file or key that is no template at all is. */
MUST_USE enum err checkpoint_chat_open(const char *path, const struct gguf *gguf,
    const struct tokenizer *tokenizer, struct chat_template **out_template, struct err_info *info);

#endif
