/*
 * The chain of rewritings that a tokenizer applies to a text before it is cut: data, read from
 * tokenizer.json or implied by the kind of a GGUF vocabulary. Offsets of the result lead back to
 * the original, through all steps.
 */
#ifndef ENGINE_TEXT_NORMALIZER_H
#define ENGINE_TEXT_NORMALIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "engine/base/err.h"
#include "engine/text/charsmap.h"
#include "engine/text/normalize.h"

struct encoding;

enum {
    NORMALIZER_STEPS_MAX = 16,  /* the longest chain known has 6 */
    NORMALIZER_STRING_MAX = 32, /* bytes that a step looks for, or puts in their place */
};

enum normal_step_kind {
    NORMAL_STEP_FORM,          /* a form of Unicode */
    NORMAL_STEP_BERT,          /* by `bert` */
    NORMAL_STEP_LOWERCASE,     /* character by character */
    NORMAL_STEP_STRIP_ACCENTS, /* drops marks, decomposes nothing */
    NORMAL_STEP_NMT,           /* drops controls, makes spaces of odd blanks */
    NORMAL_STEP_CHARSMAP,      /* tokenizer.json's reading of the table: cluster by cluster */
    NORMAL_STEP_CHARSMAP_SPM,  /* SentencePiece's own: longest prefix */
    NORMAL_STEP_REPLACE,       /* `find` by `put` */
    NORMAL_STEP_RUNS,          /* runs of at least `least` spaces of `blank` by `put` */
    NORMAL_STEP_PREPEND,       /* `put` before a text that is not empty */
    NORMAL_STEP_STRIP,         /* blanks at the ends, by `left` and `right` */
    NORMAL_STEP_SPACES_SPM,    /* by `spm`; spaces become U+2581 */
};

enum normal_bert_flag {
    NORMAL_BERT_CLEAN = 1,
    NORMAL_BERT_CJK = 2,
    NORMAL_BERT_STRIP_ACCENTS = 4,
    NORMAL_BERT_LOWERCASE = 8,
};

enum normal_spm_flag {
    NORMAL_SPM_PREFIX = 1,       /* a space before the text */
    NORMAL_SPM_EXTRA_SPACES = 2, /* of a run of spaces one stays; none at the ends */
};

struct normal_step {
    enum normal_step_kind kind;
    enum normal_form form;
    unsigned bert, spm;
    bool left, right;
    bool any_blank; /* RUNS: of White_Space, not of the space alone */
    size_t least;
    size_t find_count, put_count;
    char find[NORMALIZER_STRING_MAX], put[NORMALIZER_STRING_MAX];
};

struct normalizer {
    struct normal_step steps[NORMALIZER_STEPS_MAX];
    int32_t count;
    struct charsmap charsmap; /* of the one step that has a table */
};

void normalizer_free(struct normalizer *normalizer);
size_t normalizer_memory(const struct normalizer *normalizer);

/* Normalizes the fragment *text: afterwards *text is what encoding->map, if any, maps. `starts` = a
 * prefix belongs before it. */
MUST_USE enum err normalizer_apply(const struct normalizer *normalizer, struct encoding *encoding,
    bool starts, const char **text, size_t *bytes);

#endif
