/*
 * A grammar over bytes, and where a text stands in it: what constrained output may go on with.
 *
 * A program is a set of automata without empty moves that may call one another (a pushdown
 * automaton), made by grammar_build.h. A text stands in it in some `ways` at once: a state and the
 * states that open calls return to.
 *
 * No way is ever entered that cannot come to an end within the bounds: every state knows how many
 * calls deep its cheapest end lies (`need`), and a way where that would pass GRAMMAR_DEPTH is left
 * out. What surprises: ways share what is below them. Open calls are frames that point at the one
 * they were made within, each kept once, so a way is four bytes however deep it stands, and a set
 * has room for the hundreds of ways that optional members or alternatives make. Where that is not
 * enough the set is `lost`, which is an error of whoever made the grammar: nothing is forgotten.
 */
#ifndef ENGINE_SAMPLE_GRAMMAR_H
#define ENGINE_SAMPLE_GRAMMAR_H

#include <stdbool.h>
#include <stdint.h>

enum {
    GRAMMAR_DEPTH = 32, /* open calls: values within values of JSON */
    GRAMMAR_WAYS = 256,
    GRAMMAR_FRAMES = 512,     /* open calls of all ways together, and one that stands for none */
    GRAMMAR_MOVES = 1024,     /* calls and returns of one way after one byte */
    GRAMMAR_STATES = 1 << 15, /* of a program: 1 MiB or so */
    GRAMMAR_EDGES = 1 << 17,
    GRAMMAR_ENDLESS = 255,
    GRAMMAR_STEP_WORK = 1 << 20, /* of one byte */
    GRAMMAR_MOVE_WORK = 8,       /* a call, a return or a byte taken, in edges looked at */
};

struct grammar_edge {
    uint16_t target;
    uint8_t low, high; /* any of these bytes */
};

struct grammar_call {
    uint16_t entry;  /* first state of what is called */
    uint16_t target; /* where it returns to */
};

struct grammar_state {
    int32_t edge_from, edge_count;
    int32_t call_from, call_count;
    bool final;        /* a return, or the end of the text */
    uint8_t need;      /* calls deep to its nearest end, GRAMMAR_ENDLESS = none */
    uint8_t edge_need; /* the same by way of a byte that some token has */
};

/* Immutable. In its rules no call comes back to itself before a byte. */
struct grammar {
    const struct grammar_state *states;
    const struct grammar_edge *edges;
    const struct grammar_call *calls;
    int32_t state_count, edge_count, call_count;
    uint16_t start;
};

struct grammar_way {
    uint16_t state;
    uint16_t frame; /* the innermost open call; 0 = none */
};

struct grammar_frame {
    uint16_t target; /* where it returns to */
    uint16_t below;  /* the call it was made within; 0 = none */
    uint16_t depth;
};

/* Ways that a byte can follow; `accepts`: the text may end here. Neither: not in the grammar. A
 * lost set has met one of the bounds above and says nothing more. */
struct grammar_set {
    int32_t count, frame_count;
    bool accepts, lost;
    int32_t work; /* edges looked at, or as much, to get here */
    struct grammar_way ways[GRAMMAR_WAYS];
    struct grammar_frame frames[GRAMMAR_FRAMES]; /* [0] is no call */
};

/* Before the first byte. */
void grammar_start(const struct grammar *grammar, struct grammar_set *out_set);
/* After one more byte; returns whether that is the beginning of a text at all, false for a lost
 * set too. */
bool grammar_step(const struct grammar *grammar, const struct grammar_set *set, uint8_t byte,
    struct grammar_set *out_set);
/* To a set, what is in use of another one. */
void grammar_set_copy(struct grammar_set *to, const struct grammar_set *from);
/* False for some sets that stand in the same ways, and never true for others. */
bool grammar_set_equal(const struct grammar_set *a, const struct grammar_set *b);
/* Every index is in range: what the engine checks of a plan. */
bool grammar_valid(const struct grammar *grammar);

#endif
