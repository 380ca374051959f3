/*
 * The chain of pre-tokenizers that cuts a normalized text into words, within which the model works:
 * data, as normalizer.h. Each step cuts what the one before it left.
 */
#ifndef ENGINE_TEXT_SPLITTER_H
#define ENGINE_TEXT_SPLITTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "engine/base/err.h"
#include "engine/text/pretokenize.h"

struct encoding;

enum {
    SPLITTER_STEPS_MAX = 16,
    SPLITTER_LITERAL_MAX = 32, /* bytes of a literal pattern */
};

enum split_kind {
    SPLIT_SCAN,         /* the whole text by a scanner of pretokenize.h */
    SPLIT_MATCHES,      /* by what matches, and `behavior` */
    SPLIT_PREFIX_SPACE, /* cuts nothing: a space before every word that has none */
    SPLIT_METASPACE,    /* spaces become U+2581, `prefix` says where one is added */
};

enum split_match {
    SPLIT_MATCH_LITERAL,
    SPLIT_MATCH_SPACE,       /* one White_Space character */
    SPLIT_MATCH_PUNCTUATION, /* one, by char_is_punctuation */
    SPLIT_MATCH_NUMBER,      /* one N* character */
    SPLIT_MATCH_WORDS,       /* \w+|[^\w\s]+ */
};

/* What becomes of a match. */
enum split_behavior {
    SPLIT_REMOVED,
    SPLIT_ISOLATED,
    SPLIT_CONTIGUOUS, /* neighbouring matches are one word */
    SPLIT_MERGED_WITH_PREVIOUS,
    SPLIT_MERGED_WITH_NEXT,
};

enum split_prefix { SPLIT_PREFIX_NEVER, SPLIT_PREFIX_FIRST, SPLIT_PREFIX_ALWAYS };

struct split_step {
    enum split_kind kind;
    enum pretokenizer scan;
    enum split_match match;
    enum split_behavior behavior;
    bool invert; /* what does not match takes the place of what does */
    enum split_prefix prefix;
    bool split; /* METASPACE: cut before every U+2581 */
    size_t literal_count;
    char literal[SPLITTER_LITERAL_MAX];
};

struct splitter {
    struct split_step steps[SPLITTER_STEPS_MAX];
    int32_t count;
};

/* BERT's way: blanks go, punctuation stands alone. */
void splitter_add_bert(struct splitter *splitter);
/* True when a step asks whether a word is the first of the text. */
bool splitter_needs_origin(const struct splitter *splitter);
/* Cuts *text: the words are encoding->cuts[0], of what *text is afterwards. `continues` = the text
 * begins in the middle of a text, so nothing is put before its first word. */
MUST_USE enum err splitter_apply(const struct splitter *splitter, struct encoding *encoding,
    bool continues, const char **text, size_t bytes);

#endif
