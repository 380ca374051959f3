/*
 * Tokens with a meaning: which ids a file gives them, which tokens count as control, and where
 * their spellings stand in a text.
 *
 * Matching is leftmost, then longest, which is what the reference tokenizers do. Only spellings
 * that are whole UTF-8 take part, so the text between two matches is whole UTF-8 too.
 *
 * tokenizer.json adds rules to tokens: to take blanks beside it along, to stand for a whole word
 * only, to be looked for in the text as the normalizer left it.
 */
#ifndef ENGINE_TEXT_SPECIAL_H
#define ENGINE_TEXT_SPECIAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "engine/base/err.h"
#include "engine/load/gguf.h"

struct vocab;
struct normalizer;

enum special_rule {
    SPECIAL_LEFT_STRIP = 1,  /* takes White_Space before it along */
    SPECIAL_RIGHT_STRIP = 2, /* and behind it */
    SPECIAL_SINGLE_WORD = 4, /* not beside a letter, digit or the like */
    SPECIAL_NORMALIZED = 8,  /* found in normalized text, by its normalized spelling */
};

/* Fills vocab->special and sets VOCAB_CONTROL; the tokens are loaded already. */
MUST_USE enum err special_load(struct vocab *vocab, const struct gguf *gguf, struct err_info *info);
/* The same where no GGUF is: vocab->special holds what the files name, the FIM tokens are found by
 * spelling. */
void special_mark(struct vocab *vocab);

struct special_entry {
    const char *bytes;
    uint32_t count;
    int32_t id;
    uint8_t rules;
};

/* Sorted spellings; those that start with byte b lie in [first[b], first[b + 1]). */
struct special_matcher {
    struct special_entry *entries;
    int32_t count, capacity;
    int32_t first[257];
    bool starts_user[256]; /* some user-defined token starts with this byte */
    char *normalized;      /* spellings that are not the vocabulary's */
    size_t normalized_bytes;
};

struct special_match {
    size_t at, count; /* bytes of the text, blanks it takes along included */
    size_t resume;    /* where to look for the next: blanks behind it may be a token's again */
    int32_t id;
};

/* `rules` has one entry a token; NULL: none has any. With a normalizer the tokens of
 * SPECIAL_NORMALIZED, else the others. On failure *matcher is left freed. */
MUST_USE enum err special_matcher_init(struct special_matcher *matcher, const struct vocab *vocab,
    const uint8_t *rules, const struct normalizer *normalizer, struct err_info *info);
size_t special_matcher_memory(const struct special_matcher *matcher);
void special_matcher_free(struct special_matcher *matcher);
/* A text to look in. */
struct special_text {
    const char *bytes;
    size_t count;
    bool control; /* control tokens are looked for, too */
    /* [count] 1 = no control token may take the byte: it belongs to somebody who must not speak
     * them. NULL = none is such. Tokens of the user-defined kind are found everywhere. */
    const uint8_t *foreign;
};

/* First match at or after `resume`, from the match before or 0; it takes no blanks before `from`,
 * the end of that match. Such a match may begin before `from`. False when there is none. */
bool special_next(const struct special_matcher *matcher, const struct vocab *vocab,
    const struct special_text *text, size_t from, size_t resume, struct special_match *out_match);

#endif
