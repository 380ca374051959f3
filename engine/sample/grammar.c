/*
 * Owns the walk through a grammar. Calls and returns after a byte are followed depth first, so that
 * the first chain of them ends at a state with bytes before any bound can cut it: a set is empty
 * only where the grammar has nothing.
 */
#include "engine/sample/grammar.h"

#include <string.h>

struct moves {
    struct grammar_way open[GRAMMAR_WAYS];
    int32_t count;
};

static bool way_equal(const struct grammar_way *a, const struct grammar_way *b)
{
    return a->state == b->state && a->depth == b->depth &&
           memcmp(a->stack, b->stack, (size_t)a->depth * sizeof a->stack[0]) == 0;
}

static void way_copy(struct grammar_way *to, const struct grammar_way *from)
{
    to->state = from->state;
    to->depth = from->depth;
    memcpy(to->stack, from->stack, (size_t)from->depth * sizeof from->stack[0]);
}

static bool fits(const struct grammar *grammar, uint16_t state, int32_t depth)
{
    return depth + grammar->states[state].need <= GRAMMAR_DEPTH;
}

static void keep(struct grammar_set *set, const struct grammar_way *way)
{
    for (int32_t i = 0; i < set->count && set->count < GRAMMAR_WAYS; i++) {
        if (way_equal(&set->ways[i], way)) {
            return;
        }
    }
    if (set->count < GRAMMAR_WAYS) {
        way_copy(&set->ways[set->count++], way);
    }
}

/* One move off the list: the way itself if bytes follow it, then its return and its calls. */
static void move(const struct grammar *grammar, struct moves *moves, struct grammar_set *set)
{
    struct grammar_way way;
    way_copy(&way, &moves->open[--moves->count]);
    const struct grammar_state *state = &grammar->states[way.state];
    if (way.depth + state->edge_need <= GRAMMAR_DEPTH) {
        keep(set, &way);
    }
    if (state->final && way.depth == 0) {
        set->accepts = true;
    } else if (state->final && moves->count < GRAMMAR_WAYS) {
        struct grammar_way *back = &moves->open[moves->count++];
        way_copy(back, &way);
        back->depth--;
        back->state = way.stack[back->depth];
    }
    for (int32_t i = state->call_count - 1; i >= 0; i--) {
        const struct grammar_call *call = &grammar->calls[state->call_from + i];
        if (moves->count < GRAMMAR_WAYS && way.depth < GRAMMAR_DEPTH &&
            fits(grammar, call->entry, way.depth + 1) && fits(grammar, call->target, way.depth)) {
            struct grammar_way *into = &moves->open[moves->count++];
            way_copy(into, &way);
            into->stack[into->depth++] = call->target;
            into->state = call->entry;
        }
    }
}

static void follow(const struct grammar *grammar, struct moves *moves, struct grammar_set *set)
{
    for (int32_t n = 0; moves->count > 0 && n < GRAMMAR_MOVES; n++) {
        move(grammar, moves, set);
        set->work += GRAMMAR_MOVE_WORK;
    }
    moves->count = 0;
}

void grammar_start(const struct grammar *grammar, struct grammar_set *out_set)
{
    struct moves moves;
    moves.open[0].state = grammar->start;
    moves.open[0].depth = 0;
    moves.count = 1;
    out_set->count = out_set->work = 0;
    out_set->accepts = false;
    follow(grammar, &moves, out_set);
}

bool grammar_step(const struct grammar *grammar, const struct grammar_set *set, uint8_t byte,
    struct grammar_set *out_set)
{
    struct moves moves;
    moves.count = 0;
    out_set->count = out_set->work = 0;
    out_set->accepts = false;
    for (int32_t i = 0; i < set->count && out_set->count < GRAMMAR_WAYS; i++) {
        const struct grammar_way *way = &set->ways[i];
        const struct grammar_state *state = &grammar->states[way->state];
        const struct grammar_edge *edges = grammar->edges + state->edge_from;
        out_set->work += 1 + state->edge_count;
        for (int32_t e = 0; e < state->edge_count; e++) {
            if (byte < edges[e].low || byte > edges[e].high ||
                !fits(grammar, edges[e].target, way->depth)) {
                continue;
            }
            if (out_set->work > GRAMMAR_STEP_WORK && (out_set->count > 0 || out_set->accepts)) {
                return true;
            }
            way_copy(&moves.open[0], way);
            moves.open[0].state = edges[e].target;
            moves.count = 1;
            follow(grammar, &moves, out_set);
        }
    }
    return out_set->count > 0 || out_set->accepts;
}

bool grammar_set_equal(const struct grammar_set *a, const struct grammar_set *b)
{
    if (a->count != b->count || a->accepts != b->accepts) {
        return false;
    }
    for (int32_t i = 0; i < a->count; i++) {
        if (!way_equal(&a->ways[i], &b->ways[i])) {
            return false;
        }
    }
    return true;
}

bool grammar_valid(const struct grammar *grammar)
{
    int32_t states = grammar->state_count;
    if (states < 1 || states > GRAMMAR_STATES || grammar->start >= states ||
        grammar->states[grammar->start].need > GRAMMAR_DEPTH) {
        return false;
    }
    for (int32_t i = 0; i < states; i++) {
        const struct grammar_state *state = &grammar->states[i];
        if (state->edge_from < 0 || state->edge_count < 0 || state->call_from < 0 ||
            state->call_count < 0 || state->edge_from + state->edge_count > grammar->edge_count ||
            state->call_from + state->call_count > grammar->call_count) {
            return false;
        }
    }
    for (int32_t i = 0; i < grammar->edge_count; i++) {
        if (grammar->edges[i].target >= states) {
            return false;
        }
    }
    for (int32_t i = 0; i < grammar->call_count; i++) {
        if (grammar->calls[i].entry >= states || grammar->calls[i].target >= states) {
            return false;
        }
    }
    return true;
}
