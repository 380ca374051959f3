/*
 * SentencePiece BPE (tokenizer.ggml.model "llama"): characters of the whole text are joined into
 * pieces of the vocabulary, the piece of the highest score first, the leftmost of equals.
 */
#ifndef ENGINE_TEXT_SPM_H
#define ENGINE_TEXT_SPM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "engine/base/err.h"
#include "engine/load/gguf.h"

struct vocab;
struct encoding;

struct spm {
    uint32_t *ranks; /* [vocab] falls as the score rises; equal scores, equal ranks */
    bool add_space_prefix;
    bool remove_extra_spaces;
    bool splits_at_space; /* no piece has a space behind another character */
};

/* On failure *spm is left freed. */
MUST_USE enum err spm_load(
    struct spm *spm, const struct vocab *vocab, const struct gguf *gguf, struct err_info *info);
void spm_free(struct spm *spm);
size_t spm_memory(const struct spm *spm, const struct vocab *vocab);
/* Appends the ids of one fragment: plain text between special tokens. `starts` = it is at the
 * start of the text or behind a special token, where the space prefix goes. */
MUST_USE enum err spm_encode(const struct spm *spm, const struct vocab *vocab,
    struct encoding *encoding, const char *text, size_t bytes, bool starts);

#endif
