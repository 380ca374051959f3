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

size_t mask_table_bytes(int32_t vocab)
{
    return (size_t)vocab * (2 * sizeof(int32_t) + sizeof(uint8_t));
}

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

static void fill_table(
    struct mask_table *table, struct spelled *spelled, const int32_t *ends, int32_t end_count)
{
    for (int32_t id = 0; id < table->vocab; id++) {
        size_t bytes;
        const char *text = tokenizer_piece(table->tokenizer, id, false, &bytes);
        if (bytes == 0 || bytes > MASK_TOKEN_BYTES || tokenizer_is_control(table->tokenizer, id) ||
            is_one_of(ends, end_count, id)) {
            continue;
        }
        if (bytes == 1) {
            table->singles[table->single_count++] = id;
        } else {
            spelled[table->count++] = (struct spelled){.bytes = text, .count = bytes, .id = id};
        }
    }
    qsort(spelled, (size_t)table->count, sizeof *spelled, compare_spelled);
    for (int32_t i = 0; i < table->count; i++) {
        table->ids[i] = spelled[i].id;
        table->common[i] = i > 0 ? (uint8_t)shared_bytes(&spelled[i - 1], &spelled[i]) : 0;
    }
}

enum err mask_table_open(struct mask_table *table, const struct tokenizer *tokenizer,
    const int32_t *ends, int32_t end_count)
{
    size_t vocab = (size_t)tokenizer_vocab(tokenizer);
    *table = (struct mask_table){.tokenizer = tokenizer, .vocab = (int32_t)vocab};
    table->ids = mem_array(MEM_SCRATCH, vocab, sizeof *table->ids);
    table->common = mem_array(MEM_SCRATCH, vocab, sizeof *table->common);
    table->singles = mem_array(MEM_SCRATCH, vocab, sizeof *table->singles);
    struct spelled *spelled = mem_array(MEM_OTHER, vocab, sizeof *spelled);
    if (table->ids == NULL || table->common == NULL || table->singles == NULL || spelled == NULL) {
        mem_free(spelled);
        mask_table_close(table);
        return ERR_NO_MEMORY;
    }
    fill_table(table, spelled, ends, end_count);
    mem_free(spelled);
    return ERR_OK;
}

void mask_table_close(struct mask_table *table)
{
    mem_free(table->ids);
    mem_free(table->common);
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

static void add(uint64_t *bits, int32_t token)
{
    bits[token / 64] |= UINT64_C(1) << (token % 64);
}

static void walk_singles(struct mask_walk *walk, const struct mask_table *table,
    const struct grammar *grammar, uint64_t *bits)
{
    for (int32_t i = 0; i < table->single_count; i++) {
        size_t bytes;
        const char *text = tokenizer_piece(table->tokenizer, table->singles[i], false, &bytes);
        if (grammar_step(grammar, &walk->sets[0], (uint8_t)text[0], &walk->sets[1])) {
            add(bits, table->singles[i]);
        }
    }
}

/* sets[n] is where the first n bytes of the token before lead; the first `good` of them lead
 * somewhere. */
static void walk_all(struct mask_walk *walk, const struct mask_table *table,
    const struct grammar *grammar, uint64_t *bits)
{
    size_t good = 0;
    int32_t budget = MASK_BUDGET;
    for (int32_t i = 0; i < table->count && budget > 0; i++) {
        if (table->common[i] > good) {
            continue; /* begins with what led nowhere */
        }
        good = table->common[i];
        size_t bytes;
        const char *text = tokenizer_piece(table->tokenizer, table->ids[i], false, &bytes);
        while (good < bytes) {
            bool goes = grammar_step(
                grammar, &walk->sets[good], (uint8_t)text[good], &walk->sets[good + 1]);
            budget -= 1 + walk->sets[good + 1].work;
            if (!goes) {
                break;
            }
            good++;
        }
        if (good == bytes) {
            add(bits, table->ids[i]);
        }
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
    state->next = (slot + 1) % MASK_KEPT;
    state->kept[slot].set = state->now;
    state->kept[slot].filled = true;
    uint64_t *bits = state->kept[slot].bits;
    memset(bits, 0, (size_t)mask_words(table->vocab) * sizeof *bits);
    walk->sets[0] = state->now;
    walk_singles(walk, table, grammar, bits);
    walk_all(walk, table, grammar, bits);
    return bits;
}

void mask_state_take(struct mask_state *state, const struct mask_table *table,
    const struct grammar *grammar, int32_t token)
{
    size_t bytes;
    const char *text = tokenizer_piece(table->tokenizer, token, false, &bytes);
    for (size_t i = 0; i < bytes; i++) {
        struct grammar_set next;
        bool goes = grammar_step(grammar, &state->now, (uint8_t)text[i], &next);
        ASSERT(goes); /* the token was in the mask */
        state->now = next;
    }
}
