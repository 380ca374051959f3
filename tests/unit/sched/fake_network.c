/* See fake_network.h. A row's state has 48 bits, in two floats that hold 24 each exactly. */
#include "tests/unit/sched/fake_network.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "engine/attn/mask.h"

/* A slot's keys and values in one layer. */
struct record {
    uint64_t value;
    uint32_t check; /* of the value and everything below */
    int32_t layer, slot, position;
};

/* What the floats of a residual mean between units. */
enum lane { LANE_LOW, LANE_HIGH, LANE_UNIT, LANE_SLOT, LANE_POSITION };

enum { RECORD_FLOATS = sizeof(struct record) / sizeof(float), HEAD_DIM = 4 };
_Static_assert(RECORD_FLOATS <= 2 * HEAD_DIM, "a record fits a slot's keys and values");

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t x = (a ^ (b + 0x9e3779b97f4a7c15U)) * 0xbf58476d1ce4e5b9U;
    x ^= x >> 29;
    x *= 0x94d049bb133111ebU;
    return x ^ (x >> 32);
}

static void PRINTF_LIKE(2, 3) broken(struct fake_network *network, const char *format, ...)
{
    if (network->broken[0] == '\0') {
        va_list args;
        va_start(args, format);
        (void)vsnprintf(network->broken, sizeof network->broken, format, args);
        va_end(args);
    }
}

struct seq_tools fake_network_tools(const struct tokenizer *tokenizer,
    const struct kernels *kernels, int32_t ends[LIMIT_END_TOKENS])
{
    return (struct seq_tools){
        .tokenizer = tokenizer,
        .kernels = kernels,
        .vocab = FAKE_VOCAB,
        .hidden = FAKE_HIDDEN,
        .vector = FAKE_HIDDEN,
        /* Two stacks: one for vectors and gaps, another for prompts that see themselves. Causal
         * texts of all kinds have none, and share. */
        .stacks = {.both_ways = {[KIND_EMBED] = 1, [KIND_INFILL] = 1, [KIND_GENERATE] = 2}},
        .ends = ends,
        .end_count = tokenizer_ends(tokenizer, ends),
    };
}

enum err fake_network_pages(struct pages *pages, int32_t count)
{
    return pages_open(pages, KV_F32, FAKE_LAYERS, 1, HEAD_DIM, FAKE_PAGE_SLOTS, count);
}

static uint64_t state_get(const float *x)
{
    return (uint64_t)x[LANE_LOW] | (uint64_t)x[LANE_HIGH] << 24;
}

static void state_set(float *x, uint64_t state)
{
    x[LANE_LOW] = (float)(state & 0xffffff);
    x[LANE_HIGH] = (float)(state >> 24 & 0xffffff);
}

static unsigned char *slot_address(const struct run *run, int32_t layer, int32_t slot)
{
    const struct pages *pages = run->slots->pages;
    unsigned char *page = run->slots->addresses[slot / pages->page_slots];
    return page + pages_layer(pages, layer) +
           (size_t)(slot % pages->page_slots) * (size_t)HEAD_DIM * 2 * sizeof(float);
}

static uint32_t record_check(const struct record *record)
{
    uint64_t place = (uint64_t)(uint32_t)record->slot << 32 | (uint32_t)record->position;
    return (uint32_t)mix(mix(record->value, place), (uint64_t)record->layer);
}

/* ---- units --------------------------------------------------------------------------------- */

static void embed_rows(struct batch *batch)
{
    for (int32_t r = 0; r < batch->run_count; r++) {
        const struct run *run = &batch->runs[r];
        for (int32_t i = 0; i < run->row_count; i++) {
            int32_t row = run->row_from + i;
            float *x = batch->x[row];
            uint64_t state = mix((uint64_t)batch->tokens[row], (uint64_t)batch->positions[row]);
            state = run->stack == 0 ? state : mix(state, (uint64_t)run->stack);
            state_set(x, state);
            x[LANE_UNIT] = 0;
            x[LANE_SLOT] = (float)(run->slot_from + i);
            x[LANE_POSITION] = (float)batch->positions[row];
        }
    }
}

/* A row's residual belongs to this slot, position and unit. */
static void check_row(struct fake_network *network, const struct batch *batch,
    const struct run *run, int32_t i, int32_t unit)
{
    int32_t row = run->row_from + i, slot = run->slot_from + i;
    const float *x = batch->x[row];
    if (x[LANE_UNIT] != (float)unit || x[LANE_SLOT] != (float)slot ||
        x[LANE_POSITION] != (float)batch->positions[row]) {
        broken(network, "slot %d enters unit %d with the residual of slot %g, unit %g", slot, unit,
            (double)x[LANE_SLOT], (double)x[LANE_UNIT]);
    }
    if (batch->positions[row] != run->slots->positions[slot]) {
        broken(network, "slot %d runs at position %d, its sequence says %d", slot,
            batch->positions[row], run->slots->positions[slot]);
    }
}

static void store_run(
    struct fake_network *network, struct batch *batch, struct run *run, int32_t layer)
{
    const struct pages *pages = run->slots->pages;
    for (int32_t i = 0; i < run->row_count; i++) {
        int32_t row = run->row_from + i, slot = run->slot_from + i;
        check_row(network, batch, run, i, 2 * layer);
        int32_t sealed = pages->sealed[run->slots->page_ids[slot / pages->page_slots]];
        if (!run->stored && slot % pages->page_slots < sealed) {
            broken(
                network, "slot %d is written, but others see %d slots of its page", slot, sealed);
        }
        struct record record = {.value = mix(state_get(batch->x[row]), (uint64_t)layer),
            .layer = layer,
            .slot = slot,
            .position = batch->positions[row]};
        record.check = record_check(&record);
        if (batch->tokens[row] == network->poison_token && layer == 0) {
            run->err = ERR_NON_FINITE;
            record.check ^= 1;
        }
        if (!run->stored) {
            memcpy(slot_address(run, layer, slot), &record, sizeof record);
        } else if (memcmp(slot_address(run, layer, slot), &record, sizeof record) != 0) {
            broken(network, "slot %d is not stored as it would be again", slot);
        }
        batch->x[row][LANE_UNIT] += 1;
    }
}

static void attend_run(
    struct fake_network *network, const struct batch *batch, const struct run *run, int32_t layer)
{
    for (int32_t i = 0; i < run->row_count; i++) {
        int32_t row = run->row_from + i, q = run->slot_from + i;
        check_row(network, batch, run, i, 2 * layer + 1);
        int32_t visible = mask_visible(run->context_count, q);
        uint64_t state = state_get(batch->x[row]);
        for (int32_t slot = 0; slot < visible; slot++) {
            struct record record;
            memcpy(&record, slot_address(run, layer, slot), sizeof record);
            if (record.layer != layer || record.slot != slot ||
                record.position != run->slots->positions[slot] ||
                record.check != record_check(&record)) {
                broken(network, "the row of slot %d reads slot %d of layer %d: not stored there", q,
                    slot, layer);
            }
            state = (state ^ record.value) * 0x9e3779b97f4a7c15U;
            state ^= state >> 31;
        }
        state_set(batch->x[row], state);
        batch->x[row][LANE_UNIT] += 1;
        network->slots_read += (uint64_t)visible;
    }
}

/* The "final norm": moderate numbers, a different one in every place. */
static void read_row(const float *x, float *out_hidden)
{
    uint64_t state = state_get(x);
    for (uint64_t i = 0; i < FAKE_HIDDEN; i++) {
        out_hidden[i] = (float)(mix(state, i) & 0xffff) / 1024.0f - 32.0f;
    }
}

static void read_rows(struct fake_network *network, struct batch *batch)
{
    for (int32_t r = 0; r < batch->run_count; r++) {
        const struct run *run = &batch->runs[r];
        int32_t read = 0;
        for (int32_t row = run->row_from; row < run->row_from + run->row_count; row++) {
            while (read < batch->read_count && batch->reads[read].row < row) {
                read++;
            }
            bool is_read = read < batch->read_count && batch->reads[read].row == row;
            if (is_read && run->err == ERR_OK) {
                read_row(batch->x[row], batch->reads[read].hidden);
            } else {
                for (int32_t i = 0; i < FAKE_HIDDEN; i++) {
                    batch->x[row][i] = NAN;
                }
            }
        }
    }
    for (int32_t i = 1; i < batch->read_count; i++) {
        if (batch->reads[i].row <= batch->reads[i - 1].row) {
            broken(network, "reads are not in row order"); /* this network relies on it */
        }
    }
}

void fake_network_forward(
    struct fake_network *network, struct batch *batch, int32_t unit_from, int32_t unit_to)
{
    int32_t rows = 0;
    for (int32_t r = 0; r < batch->run_count; r++) {
        if (batch->runs[r].row_from != rows || batch->runs[r].row_count <= 0) {
            broken(network, "run %d does not follow the one before it", r);
        }
        batch->runs[r].err = ERR_OK;
        rows += batch->runs[r].row_count;
    }
    if (rows != batch->row_count || rows == 0 || unit_from >= unit_to || unit_to > FAKE_UNITS) {
        broken(network, "%d rows in runs, %d in the batch, units %d to %d", rows, batch->row_count,
            unit_from, unit_to);
    }
    if (unit_from == 0) {
        embed_rows(batch);
    }
    for (int32_t unit = unit_from; unit < unit_to; unit++) {
        for (int32_t r = 0; r < batch->run_count; r++) {
            struct run *run = &batch->runs[r];
            if (run->err == ERR_OK && unit % 2 == 0) {
                store_run(network, batch, run, unit / 2);
            } else if (run->err == ERR_OK) {
                attend_run(network, batch, run, unit / 2);
            }
        }
    }
    if (unit_to == FAKE_UNITS) {
        read_rows(network, batch);
    }
}

void fake_network_logits(const float *const *hidden, int32_t count, float *logits)
{
    for (int32_t i = 0; i < count; i++) {
        uint64_t hash = 0;
        for (int32_t h = 0; h < FAKE_HIDDEN; h++) {
            uint32_t bits;
            memcpy(&bits, &hidden[i][h], sizeof bits);
            hash = mix(hash, bits);
        }
        float *row = logits + (size_t)i * FAKE_VOCAB;
        for (uint64_t t = 0; t < FAKE_VOCAB; t++) {
            row[t] = (float)(mix(hash, t) % 4096) / 400.0f;
        }
        if (hash % 24 == 0) {
            row[FAKE_VOCAB_END] = 11.0f; /* texts end now and then */
        }
    }
}
