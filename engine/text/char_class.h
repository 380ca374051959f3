/*
 * What kind of character a code point is, as the reference tokenizers see it.
 *
 * Most of it is the general category of Unicode 15. Punctuation and BERT's rules are older: their
 * reference decides by tables of Unicode 8, to which later punctuation, marks and format characters
 * are unassigned, and vocabularies are used with what it does; so those are exceptions here.
 */
#ifndef ENGINE_TEXT_CHAR_CLASS_H
#define ENGINE_TEXT_CHAR_CLASS_H

#include <stdbool.h>
#include <stdint.h>

bool char_is_space(int32_t code_point);  /* White_Space */
bool char_is_number(int32_t code_point); /* N* */
bool char_is_punctuation(
    int32_t code_point);                  /* ASCII punctuation and symbols, P* by BERT's tables */
bool char_is_mark(int32_t code_point);    /* M* */
bool char_is_closing(int32_t code_point); /* Pe, Pf, ASCII quotes: what closes a bracket or quote */
bool char_is_word(int32_t code_point);    /* \w: letters, marks, digits, connectors, joiners */
/* Lower case, 1 or 2 code points; returns the count. */
int32_t char_lower(int32_t code_point, int32_t out[2]);

bool char_is_bert_removed(int32_t code_point); /* controls and the like, not tab, CR, LF */
bool char_is_bert_accent(int32_t code_point);  /* Mn */
bool char_is_cjk(int32_t code_point);          /* ideographs, which BERT sets apart */

#endif
