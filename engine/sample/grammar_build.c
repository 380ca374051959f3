/*
 * Owns the way from states with empty moves to a program (see grammar_build.h). What surprises:
 * `need` is computed in a bounded number of passes. A pass too few leaves a number too large, which
 * forbids more than it must and is consistent all the same.
 */
#include "engine/sample/grammar_build.h"

#include <stdlib.h>
#include <string.h>
#include "engine/base/checked.h"
#include "engine/base/utf8.h"

enum {
    CLOSURE_VISITS = 1 << 22, /* empty moves followed in all */
    NEED_PASSES = 64,
};

enum move_kind { MOVE_BYTES, MOVE_EMPTY, MOVE_CALL };

struct grammar_move {
    int32_t from, to;
    int32_t entry; /* MOVE_CALL */
    enum move_kind kind;
    uint8_t low, high; /* MOVE_BYTES */
};

void grammar_begin(struct grammar_builder *builder, struct arena *arena)
{
    *builder = (struct grammar_builder){.arena = arena};
    builder->finals = arena_array(arena, GRAMMAR_STATES, sizeof *builder->finals);
    builder->failed = builder->finals != NULL ? ERR_OK : ERR_NO_MEMORY;
}

int32_t grammar_state(struct grammar_builder *builder)
{
    if (builder->failed == ERR_OK && builder->state_count >= GRAMMAR_STATES) {
        builder->failed = ERR_LIMIT;
    }
    return builder->failed == ERR_OK ? builder->state_count++ : 0;
}

static void add_move(struct grammar_builder *builder, struct grammar_move move)
{
    if (builder->failed == ERR_OK && builder->move_count >= GRAMMAR_EDGES) {
        builder->failed = ERR_LIMIT;
    }
    if (builder->failed == ERR_OK && builder->move_count == builder->move_capacity) {
        int32_t capacity = builder->move_capacity == 0 ? 256 : 2 * builder->move_capacity;
        struct grammar_move *moves = arena_array(builder->arena, (size_t)capacity, sizeof *moves);
        if (moves == NULL) {
            builder->failed = ERR_NO_MEMORY;
            return;
        }
        if (builder->move_count > 0) {
            memcpy(moves, builder->moves, (size_t)builder->move_count * sizeof *moves);
        }
        builder->moves = moves;
        builder->move_capacity = capacity;
    }
    if (builder->failed == ERR_OK) {
        builder->moves[builder->move_count++] = move;
    }
}

void grammar_bytes(
    struct grammar_builder *builder, int32_t from, uint8_t low, uint8_t high, int32_t to)
{
    add_move(builder, (struct grammar_move){
                          .from = from, .to = to, .kind = MOVE_BYTES, .low = low, .high = high});
}

void grammar_empty(struct grammar_builder *builder, int32_t from, int32_t to)
{
    add_move(builder, (struct grammar_move){.from = from, .to = to, .kind = MOVE_EMPTY});
}

void grammar_calls(struct grammar_builder *builder, int32_t from, int32_t entry, int32_t to)
{
    add_move(
        builder, (struct grammar_move){.from = from, .to = to, .entry = entry, .kind = MOVE_CALL});
}

void grammar_final(struct grammar_builder *builder, int32_t state)
{
    if (builder->failed == ERR_OK) {
        builder->finals[state] = true;
    }
}

int32_t grammar_text(struct grammar_builder *builder, int32_t from, const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes && builder->failed == ERR_OK; i++) {
        int32_t to = grammar_state(builder);
        grammar_bytes(builder, from, (uint8_t)text[i], (uint8_t)text[i], to);
        from = to;
    }
    return from;
}

static int compare_words(const void *a, const void *b)
{
    const struct grammar_word *left = a, *right = b;
    size_t count = MIN(left->bytes, right->bytes);
    int order = count > 0 ? memcmp(left->text, right->text, count) : 0;
    return order != 0 ? order : (left->bytes > right->bytes) - (left->bytes < right->bytes);
}

static size_t shared_bytes(const struct grammar_word *a, const struct grammar_word *b)
{
    size_t n = 0;
    while (n < a->bytes && n < b->bytes && a->text[n] == b->text[n]) {
        n++;
    }
    return n;
}

void grammar_words(struct grammar_builder *builder, int32_t from, struct grammar_word *words,
    size_t count, int32_t to)
{
    size_t longest = 0;
    for (size_t i = 0; i < count; i++) {
        longest = MAX(longest, words[i].bytes);
    }
    if (longest >= GRAMMAR_STATES && builder->failed == ERR_OK) {
        builder->failed = ERR_LIMIT;
    }
    int32_t *path = /* states behind the first n bytes of the word before */
        builder->failed == ERR_OK ? arena_array(builder->arena, longest + 1, sizeof *path) : NULL;
    if (path == NULL) {
        builder->failed = builder->failed == ERR_OK ? ERR_NO_MEMORY : builder->failed;
        return;
    }
    qsort(words, count, sizeof *words, compare_words);
    path[0] = from;
    for (size_t i = 0; i < count && builder->failed == ERR_OK; i++) {
        const struct grammar_word *word = &words[i];
        for (size_t n = i > 0 ? shared_bytes(word - 1, word) : 0; n < word->bytes; n++) {
            path[n + 1] = grammar_text(builder, path[n], word->text + n, 1);
        }
        grammar_empty(builder, path[word->bytes], to);
    }
}

/* Code points of one length whose bytes are ranges of their own, byte by byte. */
static void byte_ranges(
    struct grammar_builder *builder, int32_t from, int32_t low, int32_t high, int32_t to)
{
    char first[4], last[4];
    int32_t count = utf8_encode(low, first);
    (void)utf8_encode(high, last);
    for (int32_t i = 0; i < count; i++) {
        int32_t next = i + 1 < count ? grammar_state(builder) : to;
        grammar_bytes(builder, from, (uint8_t)first[i], (uint8_t)last[i], next);
        from = next;
    }
}

/* The last code point from `low` on, `high` at most, up to which a range is one of byte_ranges:
 * within one length, and either all of the low six-bit groups or a part of the lowest that differs.
 */
static int32_t range_end(int32_t low, int32_t high)
{
    static const int32_t lengths[] = {0x7F, 0x7FF, 0xD7FF, 0xFFFF};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        if (low <= lengths[i] && high > lengths[i]) {
            high = lengths[i];
        }
    }
    for (int32_t bits = 6; low > 0x7F && bits <= 18; bits += 6) {
        int32_t mask = (1 << bits) - 1;
        if ((low & ~mask) == (high & ~mask)) {
            break;
        }
        if ((low & mask) != 0) {
            return low | mask;
        }
        if ((high & mask) != mask) {
            high = (high & ~mask) - 1;
        }
    }
    return high;
}

void grammar_range(
    struct grammar_builder *builder, int32_t from, int32_t low, int32_t high, int32_t to)
{
    while (low <= high && builder->failed == ERR_OK) {
        if (low >= 0xD800 && low <= 0xDFFF) {
            low = 0xE000;
            continue;
        }
        int32_t end = range_end(low, high);
        byte_ranges(builder, from, low, end, to);
        low = end + 1;
    }
}

/* ---- finishing ----------------------------------------------------------------------------- */

struct finisher {
    const struct grammar_builder *builder;
    int32_t *first; /* [states + 1] moves by state */
    int32_t *order; /* [moves] */
    int32_t *seen;  /* [states] stamp of the closure that was there */
    int32_t *stack; /* [states] */
    int32_t visits;
    struct grammar_state *states;
    struct grammar_edge *edges; /* [GRAMMAR_EDGES] */
    struct grammar_call *calls;
    int32_t edge_count, call_count;
};

static bool finisher_open(struct finisher *finisher, const struct grammar_builder *builder)
{
    struct arena *arena = builder->arena;
    size_t states = (size_t)builder->state_count, moves = (size_t)builder->move_count;
    *finisher = (struct finisher){.builder = builder};
    finisher->first = arena_array(arena, states + 2, sizeof(int32_t));
    finisher->order = arena_array(arena, moves + 1, sizeof(int32_t));
    finisher->seen = arena_array(arena, states, sizeof(int32_t));
    finisher->stack = arena_array(arena, states, sizeof(int32_t));
    finisher->states = arena_array(arena, states, sizeof *finisher->states);
    finisher->edges = arena_array(arena, GRAMMAR_EDGES, sizeof *finisher->edges);
    finisher->calls = arena_array(arena, GRAMMAR_EDGES, sizeof *finisher->calls);
    if (finisher->first == NULL || finisher->order == NULL || finisher->seen == NULL ||
        finisher->stack == NULL || finisher->states == NULL || finisher->edges == NULL ||
        finisher->calls == NULL) {
        return false;
    }
    for (size_t i = 0; i < moves; i++) {
        finisher->first[builder->moves[i].from + 2]++;
    }
    for (size_t s = 2; s < states + 2; s++) {
        finisher->first[s] += finisher->first[s - 1];
    }
    for (size_t i = 0; i < moves; i++) {
        finisher->order[finisher->first[builder->moves[i].from + 1]++] = (int32_t)i;
    }
    return true;
}

static bool take_move(struct finisher *finisher, const struct grammar_move *move)
{
    if (finisher->edge_count >= GRAMMAR_EDGES || finisher->call_count >= GRAMMAR_EDGES) {
        return false;
    }
    if (move->kind == MOVE_BYTES) {
        finisher->edges[finisher->edge_count++] = (struct grammar_edge){
            .target = (uint16_t)move->to, .low = move->low, .high = move->high};
    } else {
        finisher->calls[finisher->call_count++] =
            (struct grammar_call){.entry = (uint16_t)move->entry, .target = (uint16_t)move->to};
    }
    return true;
}

/* All that can be done in a state or behind empty moves from it. */
static bool close_state(struct finisher *finisher, int32_t state)
{
    struct grammar_state *out = &finisher->states[state];
    out->edge_from = finisher->edge_count;
    out->call_from = finisher->call_count;
    int32_t depth = 0;
    finisher->stack[depth++] = state;
    finisher->seen[state] = state + 1;
    while (depth > 0) {
        int32_t at = finisher->stack[--depth];
        out->final = out->final || finisher->builder->finals[at];
        for (int32_t i = finisher->first[at]; i < finisher->first[at + 1]; i++) {
            const struct grammar_move *move = &finisher->builder->moves[finisher->order[i]];
            if (++finisher->visits > CLOSURE_VISITS) {
                return false;
            }
            if (move->kind != MOVE_EMPTY) {
                if (!take_move(finisher, move)) {
                    return false;
                }
            } else if (finisher->seen[move->to] != state + 1) {
                finisher->seen[move->to] = state + 1;
                finisher->stack[depth++] = move->to;
            }
        }
    }
    out->edge_count = finisher->edge_count - out->edge_from;
    out->call_count = finisher->call_count - out->call_from;
    return true;
}

static bool range_spelled(const struct grammar_alphabet *alphabet, const struct grammar_edge *edge)
{
    for (int32_t byte = edge->low; byte <= edge->high; byte++) {
        if (alphabet->has[byte]) {
            return true;
        }
    }
    return false;
}

static uint8_t edge_need_of(const struct finisher *finisher, const struct grammar_state *state,
    const struct grammar_alphabet *alphabet)
{
    uint8_t need = GRAMMAR_ENDLESS;
    for (int32_t i = 0; i < state->edge_count && need > 0; i++) {
        const struct grammar_edge *edge = &finisher->edges[state->edge_from + i];
        uint8_t there = finisher->states[edge->target].need;
        if (there < need && range_spelled(alphabet, edge)) {
            need = there;
        }
    }
    return need;
}

static uint8_t need_of(const struct finisher *finisher, const struct grammar_state *state)
{
    int32_t need = state->final ? 0 : state->edge_need;
    for (int32_t i = 0; i < state->call_count && need > 0; i++) {
        const struct grammar_call *call = &finisher->calls[state->call_from + i];
        int32_t within = finisher->states[call->entry].need + 1;
        int32_t behind = finisher->states[call->target].need;
        int32_t there = within > behind ? within : behind;
        need = there < need ? there : need;
    }
    return (uint8_t)need;
}

static void find_needs(struct finisher *finisher, const struct grammar_alphabet *alphabet)
{
    int32_t count = finisher->builder->state_count;
    for (int32_t s = 0; s < count; s++) {
        finisher->states[s].need = finisher->states[s].edge_need = GRAMMAR_ENDLESS;
    }
    bool changed = true;
    for (int32_t pass = 0; changed && pass < NEED_PASSES; pass++) {
        changed = false;
        for (int32_t s = count - 1; s >= 0; s--) {
            struct grammar_state *state = &finisher->states[s];
            uint8_t edge_need = edge_need_of(finisher, state, alphabet);
            changed = changed || edge_need != state->edge_need;
            state->edge_need = edge_need;
            uint8_t need = need_of(finisher, state);
            changed = changed || need != state->need;
            state->need = need;
        }
    }
}

/* Whether a call comes back to a state that it is made in before any byte. `seen` marks states
 * whose calls are all followed (-2) or being followed (-1). */
static bool comes_back(struct finisher *finisher, int32_t state, int32_t depth)
{
    if (finisher->seen[state] == -1 || depth > GRAMMAR_DEPTH) {
        return true;
    }
    if (finisher->seen[state] == -2) {
        return false;
    }
    finisher->seen[state] = -1;
    const struct grammar_state *from = &finisher->states[state];
    for (int32_t i = 0; i < from->call_count; i++) {
        if (comes_back(finisher, finisher->calls[from->call_from + i].entry, depth + 1)) {
            return true;
        }
    }
    finisher->seen[state] = -2;
    return false;
}

/* A called rule that may be empty would let calls come back by another road. */
static bool calls_sound(struct finisher *finisher)
{
    for (int32_t i = 0; i < finisher->call_count; i++) {
        if (finisher->states[finisher->calls[i].entry].final) {
            return false;
        }
    }
    for (int32_t s = 0; s < finisher->builder->state_count; s++) {
        if (comes_back(finisher, s, 0)) {
            return false;
        }
    }
    return true;
}

static enum err fail(struct err_info *info, enum err err, const char *text)
{
    return err_set(info, err, NULL, "%s", text);
}

enum err grammar_finish(struct grammar_builder *builder, int32_t start,
    const struct grammar_alphabet *alphabet, struct grammar *out_grammar, struct err_info *info)
{
    struct finisher finisher;
    if (builder->failed == ERR_OK && !finisher_open(&finisher, builder)) {
        builder->failed = ERR_NO_MEMORY;
    }
    for (int32_t s = 0; builder->failed == ERR_OK && s < builder->state_count; s++) {
        builder->failed = close_state(&finisher, s) ? ERR_OK : ERR_LIMIT;
    }
    if (builder->failed != ERR_OK) {
        return fail(info, builder->failed,
            builder->failed == ERR_LIMIT ? "what it allows takes more states than the server gives"
                                         : "out of memory");
    }
    if (!calls_sound(&finisher)) {
        return fail(
            info, ERR_INVALID, "it refers to itself with nothing between, or nests too deep");
    }
    find_needs(&finisher, alphabet);
    const struct grammar_state *first = &finisher.states[start];
    if (first->need > GRAMMAR_DEPTH && first->need != GRAMMAR_ENDLESS) {
        return fail(info, ERR_LIMIT, "even its shortest text is nested too deep");
    }
    const struct grammar grammar = {.states = finisher.states,
        .edges = finisher.edges,
        .calls = finisher.calls,
        .state_count = builder->state_count,
        .edge_count = finisher.edge_count,
        .call_count = finisher.call_count,
        .start = (uint16_t)start};
    struct grammar_set set;
    grammar_start(&grammar, &set);
    if (set.lost) {
        return fail(info, ERR_LIMIT, "it can begin in more than 256 ways at once");
    }
    if (first->need == GRAMMAR_ENDLESS || set.count == 0) {
        return fail(info, ERR_INVALID, "no text but the empty one satisfies it");
    }
    *out_grammar = grammar;
    return ERR_OK;
}
