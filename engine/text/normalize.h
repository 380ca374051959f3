/*
 * Text as a tokenizer wants to see it, with the way back: a growing copy that remembers, if asked,
 * from which bytes of the original each of its bytes came.
 */
#ifndef ENGINE_TEXT_NORMALIZE_H
#define ENGINE_TEXT_NORMALIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "engine/base/err.h"

struct normal {
    char *bytes;
    size_t count, capacity;
    size_t count_max; /* past it: ERR_LIMIT; 0 = what offsets can say */
    /* Byte i came from [from[i], to[i]) of the original; NULL unless `mapped`. Bytes of a piece
     * that was rewritten all came from the whole of it. */
    int32_t *from, *to;
    bool mapped;
    /* Work space of the forms: code points of one stretch, twice. */
    int32_t *points;
    size_t point_capacity;
};

/* Zero a normal before its first use, set `mapped` at will. */
void normal_free(struct normal *normal);
void normal_clear(struct normal *normal);
/* Appends bytes that stand unchanged at original offset `from`. */
MUST_USE enum err normal_append_same(
    struct normal *normal, const char *bytes, size_t count, size_t from, struct err_info *info);
/* Appends bytes that replace [from, to) of the original. */
MUST_USE enum err normal_append_changed(struct normal *normal, const char *bytes, size_t count,
    size_t from, size_t to, struct err_info *info);

/* Gives offsets that are those of `inner`, itself mapped, the meaning inner's have. */
void normal_compose(struct normal *normal, const struct normal *inner);

/* The four forms of Unicode: composed or not, compatible or not. */
enum normal_form { NORMAL_NFC, NORMAL_NFD, NORMAL_NFKC, NORMAL_NFKD };

/* True for text that is in a form at first sight; most is. */
bool normal_is_plain(enum normal_form form, const char *text, size_t bytes);
/* Appends valid UTF-8 in a form. O(n log n) at worst. */
MUST_USE enum err normal_append_form(struct normal *normal, enum normal_form form, const char *text,
    size_t bytes, struct err_info *info);

#endif
