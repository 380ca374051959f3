/*
 * Byte-level BPE (tokenizer.ggml.model "gpt2"): text is cut by a pre-tokenizer, and inside each
 * piece neighbouring tokens are joined in the order of a learned list of merges.
 */
#ifndef ENGINE_TEXT_BPE_H
#define ENGINE_TEXT_BPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "engine/base/err.h"
#include "engine/load/gguf.h"
#include "engine/text/pretokenize.h"

struct vocab;
struct encoding;
struct bpe_pair;

struct bpe {
    enum pretokenizer pretokenizer;
    bool whole_first; /* a piece that is a token is that token, whatever the merges say */
    bool nfc;         /* text is brought into Normalization Form C first */
    struct bpe_pair *pairs;
    size_t pair_mask;
};

/* ERR_UNSUPPORTED for a pre-tokenizer that is not built. On failure *bpe is left freed. */
MUST_USE enum err bpe_load(
    struct bpe *bpe, const struct vocab *vocab, const struct gguf *gguf, struct err_info *info);
void bpe_free(struct bpe *bpe);
size_t bpe_memory(const struct bpe *bpe);
/* Appends the ids of one fragment: plain text between special tokens. */
MUST_USE enum err bpe_encode(const struct bpe *bpe, const struct vocab *vocab,
    struct encoding *encoding, const char *text, size_t bytes);

#endif
