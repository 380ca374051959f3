/*
 * BPE by a list of merges: inside each word, which something else cut from the text, neighbouring
 * tokens are joined in the order of a learned list. Symbols are bytes at first (GPT-2 and most
 * since: tokenizer.ggml.model "gpt2") or characters (the tokenizer.json form of SentencePiece BPE),
 * told apart by vocab->model.
 */
#ifndef ENGINE_TEXT_BPE_H
#define ENGINE_TEXT_BPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "engine/base/err.h"
#include "engine/load/gguf.h"

struct vocab;
struct encoding;
struct bpe_pair;

struct bpe {
    bool whole_first;  /* a word that is a token is that token, whatever the merges say */
    bool fuse_unknown; /* one unknown token stands for a run of unspelled characters */
    int32_t unknown;   /* for what the vocabulary cannot spell; -1 = it is left out */
    struct bpe_pair *pairs;
    size_t pair_mask;
    uint64_t multiplier; /* of the hash of a pair, odd */
};

/* Merge `index` of a list: the two halves, as stored pieces. */
struct bpe_halves {
    const char *left, *right;
    size_t left_count, right_count;
};
struct bpe_merges {
    /* False when the entry is not a pair. */
    bool (*get)(const void *context, size_t index, struct bpe_halves *out_halves);
    const void *context;
    size_t count;
    const char *where; /* names the list in errors */
};

/* Sets the merges; the flags are the caller's, before or after. On failure *bpe is left freed. */
MUST_USE enum err bpe_set_merges(struct bpe *bpe, const struct vocab *vocab,
    const struct bpe_merges *merges, struct err_info *info);
/* From tokenizer.ggml.merges. */
MUST_USE enum err bpe_load(
    struct bpe *bpe, const struct vocab *vocab, const struct gguf *gguf, struct err_info *info);
void bpe_free(struct bpe *bpe);
size_t bpe_memory(const struct bpe *bpe);
/* Appends the ids of the word at [from, to) of a text. */
MUST_USE enum err bpe_encode(const struct bpe *bpe, const struct vocab *vocab,
    struct encoding *encoding, const char *text, size_t from, size_t to);

#endif
