/* The tokenizer of a checkpoint: a GGUF file holds its own, a folder has it in tokenizer.json. */
#ifndef ENGINE_CHECKPOINT_TEXT_H
#define ENGINE_CHECKPOINT_TEXT_H

#include "engine/load/gguf.h"
#include "engine/text/tokenizer.h"

/* `path` is what the checkpoint was opened from; `rows` those of its embedding. The tokenizer has
 * as many tokens. */
MUST_USE enum err checkpoint_text_open(const char *path, const struct gguf *gguf, int32_t rows,
    struct tokenizer **out_tokenizer, struct err_info *info);

#endif
