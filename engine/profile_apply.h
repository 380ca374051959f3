/* A checkpoint's profile, checked against the loaded vocabulary and turned into what the endpoints
 * read: the profile fields of struct model_info. */
#ifndef ENGINE_PROFILE_APPLY_H
#define ENGINE_PROFILE_APPLY_H

#include "engine/load/gguf.h"
#include "engine/text/tokenizer.h"
#include "engine/types.h"

/* Finds the profile (profile_path may be NULL; see profile_read) and fills the profile fields of
 * *model. ERR_FORMAT when it names tokens the vocabulary lacks, ERR_UNSUPPORTED naming the key for
 * what a profile may state and no part of the engine carries out yet. */
MUST_USE enum err profile_apply(const char *model_path, const char *profile_path,
    const struct gguf *gguf, const struct tokenizer *tokenizer, struct model_info *model,
    struct err_info *info);

#endif
