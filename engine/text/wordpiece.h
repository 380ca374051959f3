/*
 * WordPiece (BERT): of each word the longest piece that begins it, then the longest that goes on
 * from there; a word of which any part has no piece is the unknown token as a whole.
 */
#ifndef ENGINE_TEXT_WORDPIECE_H
#define ENGINE_TEXT_WORDPIECE_H

#include <stddef.h>
#include <stdint.h>
#include "engine/base/err.h"
#include "engine/text/trie.h"

struct vocab;
struct encoding;

struct wordpiece {
    struct trie trie;      /* texts of the pieces; those that begin a word start with a space */
    int32_t begin;         /* node behind that space, -1 when no piece begins a word */
    int32_t unknown;       /* -1: such a word is an error */
    size_t characters_max; /* a longer word is unknown */
};

/* `where` names the vocabulary in errors. On failure *wordpiece is left freed. */
MUST_USE enum err wordpiece_load(struct wordpiece *wordpiece, const struct vocab *vocab,
    int32_t unknown, size_t characters_max, const char *where, struct err_info *info);
void wordpiece_free(struct wordpiece *wordpiece);
size_t wordpiece_memory(const struct wordpiece *wordpiece);
/* Appends the ids of the word at [from, to) of a text. It holds no space. */
MUST_USE enum err wordpiece_encode(const struct wordpiece *wordpiece, struct encoding *encoding,
    const char *text, size_t from, size_t to);

#endif
