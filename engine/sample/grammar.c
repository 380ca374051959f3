/*
 * Owns the walk through a grammar. What surprises: frames are found by looking through those there
 * are, newest first. Mostly there are a few, and the one that is wanted is the last.
 */
#include "engine/sample/grammar.h"

#include <string.h>

struct moves {
    struct grammar_way open[GRAMMAR_MOVES];
    int32_t count;
};

/* The frames of a set that have been brought into the next one; 0 = not yet. */
struct carried {
    const struct grammar_set *from;
    uint16_t to[GRAMMAR_FRAMES];
};

static void set_begin(struct grammar_set *set)
{
    set->count = set->work = 0;
    set->accepts = set->lost = false;
    set->frames[0] = (struct grammar_frame){0};
    set->frame_count = 1;
}

/* 0 where there is no room: the set is lost. */
static uint16_t frame_of(struct grammar_set *set, uint16_t target, uint16_t below)
{
    for (int32_t i = set->frame_count - 1; i > 0; i--) {
        if (set->frames[i].target == target && set->frames[i].below == below) {
            return (uint16_t)i;
        }
    }
    if (set->frame_count == GRAMMAR_FRAMES) {
        set->lost = true;
        return 0;
    }
    set->frames[set->frame_count] = (struct grammar_frame){
        .target = target, .below = below, .depth = (uint16_t)(set->frames[below].depth + 1)};
    return (uint16_t)set->frame_count++;
}

static uint16_t carry(struct carried *carried, uint16_t frame, struct grammar_set *set)
{
    uint16_t open[GRAMMAR_DEPTH];
    int32_t count = 0;
    for (; frame != 0 && carried->to[frame] == 0; frame = carried->from->frames[frame].below) {
        open[count++] = frame;
    }
    uint16_t to = frame != 0 ? carried->to[frame] : 0;
    while (count > 0 && !set->lost) {
        count--;
        to = frame_of(set, carried->from->frames[open[count]].target, to);
        carried->to[open[count]] = to;
    }
    return to;
}

static bool fits(const struct grammar *grammar, uint16_t state, int32_t depth)
{
    return depth + grammar->states[state].need <= GRAMMAR_DEPTH;
}

static void keep(struct grammar_set *set, struct grammar_way way)
{
    for (int32_t i = 0; i < set->count; i++) {
        if (set->ways[i].state == way.state && set->ways[i].frame == way.frame) {
            return;
        }
    }
    if (set->count == GRAMMAR_WAYS) {
        set->lost = true;
        return;
    }
    set->ways[set->count++] = way;
}

static void push(struct moves *moves, struct grammar_set *set, uint16_t state, uint16_t frame)
{
    if (moves->count == GRAMMAR_MOVES) {
        set->lost = true;
        return;
    }
    moves->open[moves->count++] = (struct grammar_way){.state = state, .frame = frame};
}

/* One move off the list: the way itself if bytes follow it, then its return and its calls. */
static void move(const struct grammar *grammar, struct moves *moves, struct grammar_set *set)
{
    struct grammar_way way = moves->open[--moves->count];
    struct grammar_frame frame = set->frames[way.frame];
    const struct grammar_state *state = &grammar->states[way.state];
    if (frame.depth + state->edge_need <= GRAMMAR_DEPTH) {
        keep(set, way);
    }
    if (state->final && way.frame == 0) {
        set->accepts = true;
    } else if (state->final) {
        push(moves, set, frame.target, frame.below);
    }
    for (int32_t i = state->call_count - 1; i >= 0 && !set->lost; i--) {
        const struct grammar_call *call = &grammar->calls[state->call_from + i];
        if (frame.depth < GRAMMAR_DEPTH && fits(grammar, call->entry, frame.depth + 1) &&
            fits(grammar, call->target, frame.depth)) {
            push(moves, set, call->entry, frame_of(set, call->target, way.frame));
        }
    }
    set->work += GRAMMAR_MOVE_WORK + (set->frame_count + set->count) / GRAMMAR_MOVE_WORK;
}

static void follow(
    const struct grammar *grammar, uint16_t state, uint16_t frame, struct grammar_set *set)
{
    struct moves moves;
    moves.count = 0;
    push(&moves, set, state, frame);
    for (int32_t n = 0; moves.count > 0 && !set->lost; n++) {
        set->lost = n == GRAMMAR_MOVES;
        move(grammar, &moves, set);
    }
}

void grammar_start(const struct grammar *grammar, struct grammar_set *out_set)
{
    set_begin(out_set);
    follow(grammar, grammar->start, 0, out_set);
}

bool grammar_step(const struct grammar *grammar, const struct grammar_set *set, uint8_t byte,
    struct grammar_set *out_set)
{
    struct carried carried;
    carried.from = set;
    memset(carried.to, 0, (size_t)set->frame_count * sizeof carried.to[0]);
    set_begin(out_set);
    for (int32_t i = 0; i < set->count && !out_set->lost; i++) {
        const struct grammar_way *way = &set->ways[i];
        const struct grammar_state *state = &grammar->states[way->state];
        const struct grammar_edge *edges = grammar->edges + state->edge_from;
        out_set->work += 1 + state->edge_count;
        for (int32_t e = 0; e < state->edge_count && !out_set->lost; e++) {
            if (byte >= edges[e].low && byte <= edges[e].high &&
                fits(grammar, edges[e].target, set->frames[way->frame].depth)) {
                follow(grammar, edges[e].target, carry(&carried, way->frame, out_set), out_set);
                out_set->lost = out_set->lost || out_set->work > GRAMMAR_STEP_WORK;
            }
        }
    }
    return !out_set->lost && (out_set->count > 0 || out_set->accepts);
}

void grammar_set_copy(struct grammar_set *to, const struct grammar_set *from)
{
    to->count = from->count;
    to->frame_count = from->frame_count;
    to->accepts = from->accepts;
    to->lost = from->lost;
    to->work = from->work;
    memcpy(to->ways, from->ways, (size_t)from->count * sizeof from->ways[0]);
    memcpy(to->frames, from->frames, (size_t)from->frame_count * sizeof from->frames[0]);
}

bool grammar_set_equal(const struct grammar_set *a, const struct grammar_set *b)
{
    return a->count == b->count && a->frame_count == b->frame_count && a->accepts == b->accepts &&
           a->lost == b->lost &&
           memcmp(a->ways, b->ways, (size_t)a->count * sizeof a->ways[0]) == 0 &&
           memcmp(a->frames, b->frames, (size_t)a->frame_count * sizeof a->frames[0]) == 0;
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
