/* Owns the sorted vocabulary and the walks over it (see token_mask.h). */
#include "engine/sched/token_mask.h"

#include <stdlib.h>
#include <string.h>
#include "engine/base/assert.h"
#include "engine/base/checked.h"
#include "engine/base/mem.h"

/* A token while they are sorted. */
struct spelled {
    const char *bytes;
    size_t count;
    int32_t id;
};

enum {
    NOT_ASKED = -1, /* in mask_walk.next */
    NOWHERE = -2,
    TAIL_BYTES = 8, /* more than a token of any known vocabulary has, taken over all */
};

static int compare_spelled(const void *a, const void *b)
{
    const struct spelled *left = a, *right = b;
    size_t count = MIN(left->count, right->count);
    int order = memcmp(left->bytes, right->bytes, count);
    if (order == 0 && left->count != right->count) {
        order = left->count < right->count ? -1 : 1;
    }
    return order != 0 ? order : (left->id > right->id) - (left->id < right->id);
}

static bool is_one_of(const int32_t *ids, int32_t count, int32_t id)
{
    for (int32_t i = 0; i < count; i++) {
        if (ids[i] == id) {
            return true;
        }
    }
    return false;
}

static size_t shared_bytes(const struct spelled *a, const struct spelled *b)
{
    size_t n = 0;
    while (n < a->count && n < b->count && a->bytes[n] == b->bytes[n]) {
        n++;
    }
    return n;
}

static void add(uint64_t *bits, int32_t token)
{
    bits[token / 64] |= UINT64_C(1) << (token % 64);
}

static enum err fill_table(
    struct mask_table *table, struct spelled *spelled, const int32_t *ends, int32_t end_count)
{
    for (int32_t id = 0; id < table->vocab; id++) {
        size_t bytes;
        const char *text = tokenizer_piece(table->tokenizer, id, false, &bytes);
        if (bytes == 0 || bytes > MASK_TOKEN_BYTES || tokenizer_is_control(table->tokenizer, id) ||
            is_one_of(ends, end_count, id)) {
            continue;
        }
        add(table->usable, id);
        if (bytes == 1) {
            table->singles[table->single_count++] = id;
        } else {
            spelled[table->count++] = (struct spelled){.bytes = text, .count = bytes, .id = id};
        }
    }
    qsort(spelled, (size_t)table->count, sizeof *spelled, compare_spelled);
    size_t tail_bytes = 1;
    for (int32_t i = 0; i < table->count; i++) {
        table->ids[i] = spelled[i].id;
        table->bytes[i] = (uint8_t)spelled[i].count;
        table->common[i] = i > 0 ? (uint8_t)shared_bytes(&spelled[i - 1], &spelled[i]) : 0;
        tail_bytes += (size_t)(table->bytes[i] - table->common[i]);
    }
    table->tails = mem_array(MEM_SCRATCH, tail_bytes, 1);
    if (table->tails == NULL) {
        return ERR_NO_MEMORY;
    }
    char *tail = table->tails;
    for (int32_t i = 0; i < table->count; i++) {
        size_t count = (size_t)(table->bytes[i] - table->common[i]);
        memcpy(tail, spelled[i].bytes + table->common[i], count);
        tail += count;
    }
    return ERR_OK;
}

size_t mask_table_bytes(int32_t vocab)
{
    return (size_t)vocab * (2 * sizeof(int32_t) + 2 * sizeof(uint8_t) + TAIL_BYTES) +
           (size_t)mask_words(vocab) * sizeof(uint64_t);
}

enum err mask_table_open(struct mask_table *table, const struct tokenizer *tokenizer,
    const int32_t *ends, int32_t end_count)
{
    size_t vocab = (size_t)tokenizer_vocab(tokenizer);
    *table = (struct mask_table){.tokenizer = tokenizer, .vocab = (int32_t)vocab};
    table->usable = mem_array(MEM_SCRATCH, (size_t)mask_words(table->vocab), sizeof *table->usable);
    table->ids = mem_array(MEM_SCRATCH, vocab, sizeof *table->ids);
    table->bytes = mem_array(MEM_SCRATCH, vocab, sizeof *table->bytes);
    table->common = mem_array(MEM_SCRATCH, vocab, sizeof *table->common);
    table->singles = mem_array(MEM_SCRATCH, vocab, sizeof *table->singles);
    struct spelled *spelled = mem_array(MEM_OTHER, vocab, sizeof *spelled);
    enum err err = ERR_NO_MEMORY;
    if (table->usable != NULL && table->ids != NULL && table->bytes != NULL &&
        table->common != NULL && table->singles != NULL && spelled != NULL) {
        err = fill_table(table, spelled, ends, end_count);
    }
    mem_free(spelled);
    if (err != ERR_OK) {
        mask_table_close(table);
    }
    return err;
}

void mask_table_close(struct mask_table *table)
{
    mem_free(table->usable);
    mem_free(table->ids);
    mem_free(table->bytes);
    mem_free(table->common);
    mem_free(table->tails);
    mem_free(table->singles);
    *table = (struct mask_table){0};
}

/* ---- states -------------------------------------------------------------------------------- */

size_t mask_state_bytes(int32_t vocab)
{
    return (size_t)MASK_KEPT * (size_t)mask_words(vocab) * 8;
}

enum err mask_state_open(struct mask_state *state, int32_t vocab)
{
    for (int32_t i = 0; i < MASK_KEPT; i++) {
        state->kept[i].bits = mem_array(MEM_SCRATCH, (size_t)mask_words(vocab), sizeof(uint64_t));
        if (state->kept[i].bits == NULL) {
            return ERR_NO_MEMORY;
        }
    }
    return ERR_OK;
}

void mask_state_close(struct mask_state *state)
{
    for (int32_t i = 0; i < MASK_KEPT; i++) {
        mem_free(state->kept[i].bits);
    }
}

void mask_state_begin(struct mask_state *state, const struct grammar *grammar)
{
    for (int32_t i = 0; i < MASK_KEPT; i++) {
        state->kept[i].filled = false;
    }
    state->next = 0;
    grammar_start(grammar, &state->now);
}

/* ---- walks --------------------------------------------------------------------------------- */

static uint64_t hash_of(const struct grammar_set *set)
{
    uint64_t hash = (uint64_t)set->accepts;
    for (int32_t i = 0; i < set->count; i++) {
        uint64_t way = (uint64_t)set->ways[i].state << 16 | set->frames[set->ways[i].frame].target;
        hash = (hash ^ way) * UINT64_C(0x9E3779B97F4A7C15);
        hash ^= hash >> 29;
    }
    return hash;
}

/* The place that equals a new one: itself, kept if there is room, where none does. */
static int32_t keep_place(struct mask_walk *walk, int32_t place)
{
    uint64_t hash = hash_of(&walk->places[place]);
    for (int32_t i = 0; i < walk->count; i++) {
        if (walk->hashes[i] == hash && grammar_set_equal(&walk->places[i], &walk->places[place])) {
            return i;
        }
    }
    if (place == walk->count && place < MASK_PLACES) {
        walk->hashes[place] = hash;
        for (int32_t byte = 0; byte < 256; byte++) {
            walk->next[place][byte] = NOT_ASKED;
        }
        walk->count++;
    }
    return place;
}

/* The place behind a byte, the `depth`-th of a token, or NOWHERE. */
static int32_t step_from(struct mask_walk *walk, const struct grammar *grammar, int32_t place,
    uint8_t byte, size_t depth, int32_t *budget)
{
    (*budget)--;
    if (place < MASK_PLACES && walk->next[place][byte] != NOT_ASKED) {
        return walk->next[place][byte];
    }
    int32_t to = walk->count < MASK_PLACES ? walk->count : MASK_PLACES + (int32_t)depth;
    bool goes = grammar_step(grammar, &walk->places[place], byte, &walk->places[to]);
    *budget -= walk->places[to].work;
    walk->lost = walk->lost || walk->places[to].lost;
    to = goes ? keep_place(walk, to) : NOWHERE;
    if (place < MASK_PLACES && to < MASK_PLACES) {
        walk->next[place][byte] = (int16_t)to;
    }
    return to;
}

static void walk_singles(struct mask_walk *walk, const struct mask_table *table,
    const struct grammar *grammar, uint64_t *bits)
{
    int32_t budget = MASK_BUDGET; /* not looked at: a set's work and 256 bytes bound it */
    for (int32_t i = 0; i < table->single_count; i++) {
        size_t bytes;
        const char *text = tokenizer_piece(table->tokenizer, table->singles[i], false, &bytes);
        if (step_from(walk, grammar, 0, (uint8_t)text[0], 1, &budget) != NOWHERE) {
            add(bits, table->singles[i]);
        }
    }
}

/* path[n] is where the first n bytes of the token before lead; the first `good` of them lead
 * somewhere. */
static void walk_all(struct mask_walk *walk, const struct mask_table *table,
    const struct grammar *grammar, uint64_t *bits)
{
    int32_t path[MASK_TOKEN_BYTES + 1] = {0};
    size_t good = 0;
    int32_t budget = MASK_BUDGET;
    const char *tail = table->tails;
    for (int32_t i = 0; i < table->count && budget > 0 && !walk->lost; i++) {
        size_t bytes = table->bytes[i], common = table->common[i];
        if (common <= good) { /* else it begins with what led nowhere */
            for (good = common; good < bytes; good++) {
                path[good + 1] = step_from(
                    walk, grammar, path[good], (uint8_t)tail[good - common], good + 1, &budget);
                if (path[good + 1] == NOWHERE) {
                    break;
                }
            }
            if (good == bytes) {
                add(bits, table->ids[i]);
            }
        }
        tail += bytes - common;
    }
}

const uint64_t *mask_state_get(struct mask_state *state, const struct mask_table *table,
    const struct grammar *grammar, struct mask_walk *walk)
{
    for (int32_t i = 0; i < MASK_KEPT; i++) {
        if (state->kept[i].filled && grammar_set_equal(&state->kept[i].set, &state->now)) {
            return state->kept[i].bits;
        }
    }
    int32_t slot = state->next;
    uint64_t *bits = state->kept[slot].bits;
    memset(bits, 0, (size_t)mask_words(table->vocab) * sizeof *bits);
    walk->count = 0;
    walk->lost = state->now.lost;
    grammar_set_copy(&walk->places[0], &state->now);
    (void)keep_place(walk, 0);
    walk_singles(walk, table, grammar, bits);
    walk_all(walk, table, grammar, bits);
    state->kept[slot].filled = !walk->lost;
    if (walk->lost) {
        return NULL;
    }
    grammar_set_copy(&state->kept[slot].set, &state->now);
    state->next = (slot + 1) % MASK_KEPT;
    return bits;
}

/* Moves `set` behind the bytes of a token; false where they lead nowhere. */
static bool pass(struct grammar_set *set, const struct mask_table *table,
    const struct grammar *grammar, int32_t token)
{
    size_t bytes;
    const char *text = tokenizer_piece(table->tokenizer, token, false, &bytes);
    for (size_t i = 0; i < bytes; i++) {
        struct grammar_set next;
        if (!grammar_step(grammar, set, (uint8_t)text[i], &next)) {
            return false;
        }
        grammar_set_copy(set, &next);
    }
    return true;
}

bool mask_state_allows(const struct mask_state *state, const struct mask_table *table,
    const struct grammar *grammar, int32_t token)
{
    struct grammar_set set;
    grammar_set_copy(&set, &state->now);
    return mask_has(table->usable, token) && pass(&set, table, grammar, token);
}

void mask_state_take(struct mask_state *state, const struct mask_table *table,
    const struct grammar *grammar, int32_t token)
{
    bool goes = pass(&state->now, table, grammar, token);
    ASSERT(goes); /* the token was in the mask */
}
