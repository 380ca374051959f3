/*
 * A grammar over bytes, and where a text stands in it: what constrained output may go on with.
 *
 * A program is a set of automata without empty moves that may call one another (a pushdown
 * automaton), made by grammar_build.h. A text stands in it in some `ways` at once: a state and the
 * states that open calls return to.
 *
 * No way is ever entered that cannot come to an end within the bounds: every state knows how many
 * calls deep its cheapest end lies (`need`), and a way where that would pass GRAMMAR_DEPTH is left
 * out. What surprises: where a text stands in more than GRAMMAR_WAYS ways the rest is forgotten.
 * That takes choices away and never makes a text wrong, since each way that is left has an end.
 */
#ifndef ENGINE_SAMPLE_GRAMMAR_H
#define ENGINE_SAMPLE_GRAMMAR_H

#include <stdbool.h>
#include <stdint.h>

enum {
    GRAMMAR_DEPTH = 32, /* open calls: values within values of JSON */
    GRAMMAR_WAYS = 32,
    GRAMMAR_MOVES = 256,      /* calls and returns after one byte; what is beyond is forgotten */
    GRAMMAR_STATES = 1 << 15, /* of a program: 1 MiB or so */
    GRAMMAR_EDGES = 1 << 17,
    GRAMMAR_ENDLESS = 255,
    GRAMMAR_STEP_WORK = 1 << 20, /* of one byte; ways beyond are forgotten */
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
    uint16_t depth;
    uint16_t stack[GRAMMAR_DEPTH];
};

/* Ways that a byte can follow; `accepts`: the text may end here. Neither: not in the grammar. */
struct grammar_set {
    int32_t count;
    bool accepts;
    int32_t work; /* edges looked at, or as much, to get here */
    struct grammar_way ways[GRAMMAR_WAYS];
};

/* Before the first byte. */
void grammar_start(const struct grammar *grammar, struct grammar_set *out_set);
/* After one more byte; returns whether that is the beginning of a text at all. */
bool grammar_step(const struct grammar *grammar, const struct grammar_set *set, uint8_t byte,
    struct grammar_set *out_set);
bool grammar_set_equal(const struct grammar_set *a, const struct grammar_set *b);
/* Every index is in range: what the engine checks of a plan. */
bool grammar_valid(const struct grammar *grammar);

#endif
