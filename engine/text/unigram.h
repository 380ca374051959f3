/*
 * Unigram (tokenizer.ggml.model "t5", and SentencePiece's in tokenizer.json): of all ways to write
 * a word as pieces, the one whose scores have the greatest sum.
 */
#ifndef ENGINE_TEXT_UNIGRAM_H
#define ENGINE_TEXT_UNIGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "engine/base/err.h"
#include "engine/text/trie.h"

struct vocab;
struct encoding;

struct unigram {
    struct trie trie;
    double *scores;       /* [vocab] */
    bool single;          /* sums are kept as float, as SentencePiece does */
    double unknown_score; /* of a character without a piece of its own */
    int32_t unknown;      /* -1: such a character is an error, unless there are byte tokens */
};

/* Takes over `scores`, finite numbers; `single` is the caller's to set. On failure *unigram is left
 * freed, and they with it. */
MUST_USE enum err unigram_load(struct unigram *unigram, const struct vocab *vocab, double *scores,
    int32_t unknown, const char *where, struct err_info *info);
void unigram_free(struct unigram *unigram);
size_t unigram_memory(const struct unigram *unigram, const struct vocab *vocab);
/* Appends the ids of the word at [from, to) of a text. */
MUST_USE enum err unigram_encode(const struct unigram *unigram, const struct vocab *vocab,
    struct encoding *encoding, const char *text, size_t from, size_t to);

#endif
