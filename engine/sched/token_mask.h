/*
 * Which tokens a grammar lets follow: the bytes of every token walked through it.
 *
 * The vocabulary is sorted by bytes once, at opening, with the length of the part that each token
 * has in common with the one before; so a walk steps over each shared beginning once, and what the
 * grammar has no byte for is skipped with all that begins so. Within a walk the places that are met
 * are kept, and where each byte led from them: inside a string of JSON almost every character leads
 * back to where it came from, and a step there is a look into a table. Masks of the last few places
 * of a text are kept too.
 *
 * What surprises: a walk has a budget. Tokens of one byte are always looked at, longer ones until
 * it is used up. Any text can be spelled by single bytes, so that costs choices, not correctness,
 * and a hostile grammar cannot hold up the engine. A walk remembers nothing of the one before, so
 * that where it is cut depends on the grammar and the text alone.
 */
#ifndef ENGINE_SCHED_TOKEN_MASK_H
#define ENGINE_SCHED_TOKEN_MASK_H

#include "engine/base/err.h"
#include "engine/sample/grammar.h"
#include "engine/text/tokenizer.h"

enum {
    MASK_TOKEN_BYTES = 48, /* longer tokens are never taken under a grammar */
    MASK_KEPT = 4,
    MASK_PLACES = 128,     /* of a walk; from others each step is made anew */
    MASK_BUDGET = 1 << 26, /* grammar_set.work of one mask: 0.1 s */
};

struct mask_table {
    const struct tokenizer *tokenizer;
    int32_t vocab;
    uint64_t *usable; /* [mask_words(vocab)] tokens that can be in a mask */
    int32_t *ids;     /* [count] of more than one byte, by their bytes */
    uint8_t *bytes;   /* [count] how many */
    uint8_t *common;  /* [count] bytes shared with the one before */
    char *tails;      /* those that are not shared, one token after the other */
    int32_t count;
    int32_t *singles; /* [single_count] of one byte */
    int32_t single_count;
};

/* Control tokens are in no mask, nor are those of `ends`. Memory of MEM_SCRATCH. */
MUST_USE enum err mask_table_open(struct mask_table *table, const struct tokenizer *tokenizer,
    const int32_t *ends, int32_t end_count);
void mask_table_close(struct mask_table *table); /* zeroed ones are allowed */
size_t mask_table_bytes(int32_t vocab);

/* Scratch of a walk, one a thread. */
struct mask_walk {
    int32_t count; /* places kept */
    bool lost;
    uint64_t hashes[MASK_PLACES];
    int16_t next[MASK_PLACES][256]; /* the place behind a byte */
    /* Behind those that are kept, one for each byte of a token, for places there is no room for. */
    struct grammar_set places[MASK_PLACES + MASK_TOKEN_BYTES + 1];
};

/* Where a sequence stands, and the masks it had lately. */
struct mask_state {
    struct grammar_set now;
    struct {
        struct grammar_set set;
        uint64_t *bits; /* [mask_words(vocab)] */
        bool filled;
    } kept[MASK_KEPT];
    int32_t next; /* to be overwritten */
};

static inline int32_t mask_words(int32_t vocab)
{
    return (vocab + 63) / 64;
}

static inline bool mask_has(const uint64_t *bits, int32_t token)
{
    return (bits[token / 64] >> (token % 64) & 1) != 0;
}

MUST_USE enum err mask_state_open(struct mask_state *state, int32_t vocab); /* MEM_SCRATCH */
void mask_state_close(struct mask_state *state);
size_t mask_state_bytes(int32_t vocab); /* beside the struct */
/* The beginning of a text; forgets the masks. */
void mask_state_begin(struct mask_state *state, const struct grammar *grammar);
/* Tokens that may follow now; valid until the next call. NULL: the grammar can go on in more ways
 * than a set holds. */
const uint64_t *mask_state_get(struct mask_state *state, const struct mask_table *table,
    const struct grammar *grammar, struct mask_walk *walk);
/* Whether a token may follow now: what the mask says, were it not cut, for the price of a token. */
bool mask_state_allows(const struct mask_state *state, const struct mask_table *table,
    const struct grammar *grammar, int32_t token);
/* A token that may follow was taken. */
void mask_state_take(struct mask_state *state, const struct mask_table *table,
    const struct grammar *grammar, int32_t token);

#endif
