/*
 * Tokens with a meaning: which ids a file gives them, which tokens count as control, and where
 * their spellings stand in a text.
 *
 * Matching is leftmost, then longest, which is what the reference tokenizers do. Only spellings
 * that are whole UTF-8 take part, so the text between two matches is whole UTF-8 too.
 */
#ifndef ENGINE_TEXT_SPECIAL_H
#define ENGINE_TEXT_SPECIAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "engine/base/err.h"
#include "engine/load/gguf.h"

struct vocab;

/* Fills vocab->special and sets VOCAB_CONTROL; the tokens are loaded already. */
MUST_USE enum err special_load(struct vocab *vocab, const struct gguf *gguf, struct err_info *info);

struct special_entry {
    const char *bytes;
    uint32_t count;
    int32_t id;
};

/* Sorted spellings; those that start with byte b lie in [first[b], first[b + 1]). */
struct special_matcher {
    struct special_entry *entries;
    int32_t count;
    int32_t first[257];
    bool starts_user[256]; /* some user-defined token starts with this byte */
};

struct special_match {
    size_t at, count; /* bytes of the text */
    int32_t id;
};

MUST_USE enum err special_matcher_init(
    struct special_matcher *matcher, const struct vocab *vocab, struct err_info *info);
void special_matcher_free(struct special_matcher *matcher);
/* First match at or after `from`; false when there is none. Control tokens only when `control`. */
bool special_next(const struct special_matcher *matcher, const struct vocab *vocab,
    const char *text, size_t bytes, size_t from, bool control, struct special_match *out_match);

#endif
