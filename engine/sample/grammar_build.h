/*
 * Makes a grammar (grammar.h): states joined by bytes, by empty moves and by calls, in any order,
 * then grammar_finish takes the empty moves out.
 *
 * Errors are sticky: past a bound or without memory nothing is added any more, and grammar_finish
 * says so. A builder of text looks at `failed` in its loops, so that a hostile one ends early.
 */
#ifndef ENGINE_SAMPLE_GRAMMAR_BUILD_H
#define ENGINE_SAMPLE_GRAMMAR_BUILD_H

#include "engine/base/arena.h"
#include "engine/base/err.h"
#include "engine/sample/grammar.h"

struct grammar_move;

struct grammar_builder {
    struct arena *arena; /* holds the grammar too */
    struct grammar_move *moves;
    int32_t move_count, move_capacity;
    int32_t state_count;
    bool *finals; /* [GRAMMAR_STATES] */
    enum err failed;
};

/* Bytes that the vocabulary has a token for: an end that needs another one is none. */
struct grammar_alphabet {
    bool has[256];
};

void grammar_begin(struct grammar_builder *builder, struct arena *arena);
/* A new state; 0, the first one, after a failure. */
int32_t grammar_state(struct grammar_builder *builder);
void grammar_bytes(
    struct grammar_builder *builder, int32_t from, uint8_t low, uint8_t high, int32_t to);
void grammar_empty(struct grammar_builder *builder, int32_t from, int32_t to);
/* To `to` by way of all that begins at `entry` and ends in a final state. */
void grammar_calls(struct grammar_builder *builder, int32_t from, int32_t entry, int32_t to);
void grammar_final(struct grammar_builder *builder, int32_t state);

/* The bytes of a text, one after another; returns the state behind. */
int32_t grammar_text(struct grammar_builder *builder, int32_t from, const char *text, size_t bytes);
/* One of the words, sorted in place so that they share their beginnings: a text then stands in one
 * way among them, however many begin alike. From a state to a state. */
struct grammar_word {
    const char *text;
    size_t bytes;
};
void grammar_words(struct grammar_builder *builder, int32_t from, struct grammar_word *words,
    size_t count, int32_t to);
/* One character of a range of code points in UTF-8; surrogates are left out. */
void grammar_range(
    struct grammar_builder *builder, int32_t from, int32_t low, int32_t high, int32_t to);

/* ERR_LIMIT: too large, nested too deep, or with too many beginnings. ERR_INVALID: no text fits, or
 * the empty one alone, or a call comes back to itself before a byte. ERR_NO_MEMORY. */
MUST_USE enum err grammar_finish(struct grammar_builder *builder, int32_t start,
    const struct grammar_alphabet *alphabet, struct grammar *out_grammar, struct err_info *info);

#endif
