/*
 * The forward pass: a batch through a range of units, tile by tile.
 *
 * Within a layer all tiles run the first half before any runs the second: a context row attends to
 * K/V of rows that may lie in later tiles. A batch that fits one tile keeps it from the first layer
 * to the last. In the last second half only rows that something is read from are worked on; for a
 * prompt that is one row instead of all, and a row's numbers do not depend on who else is there.
 */
#include <string.h>
#include "engine/base/assert.h"
#include "engine/blocks/linear.h"
#include "engine/blocks/norm.h"
#include "engine/model/parts.h"

_Static_assert((int)MODEL_POSITIONS <= (int)ROPE_POSITIONS, "every position has its angles");

enum { ROW_CHUNK = 16 }; /* rows of one chunk of the small per-row work */

/* ---- tiles --------------------------------------------------------------------------------- */

static void angle_chunk(void *context, int32_t chunk, int32_t thread)
{
    const struct pass *pass = context;
    const struct tile *tile = pass->tile;
    const struct hyper *hyper = &pass->model->hyper;
    int32_t to = MIN((chunk + 1) * ROW_CHUNK, tile->row_count);
    for (int32_t r = chunk * ROW_CHUNK; r < to; r++) {
        for (int32_t i = 0; i < hyper->rope_count; i++) {
            rope_angles(&pass->model->ropes[i], pass->batch->positions[tile->rows[r]],
                tile->cos_sin[i] + (size_t)r * (size_t)hyper->rotary_dim);
        }
    }
}

/* Marks (with place = 0) the rows of the window that the last layer must finish. */
static void mark_read_rows(const struct batch *batch, int32_t last_layer, struct tile *tile)
{
    for (int32_t i = 0; i < batch->read_count; i++) {
        const struct row_read *read = &batch->reads[i];
        bool wanted = read->layer == -1 || read->layer == last_layer;
        if (wanted && read->row >= tile->window_from && read->row < tile->window_to) {
            tile->place[read->row - tile->window_from] = 0;
        }
    }
}

/* The next row of the tile has this stack of adapters. */
static void span_add(struct tile *tile, int32_t stack)
{
    struct span *span = tile->span_count > 0 ? &tile->spans[tile->span_count - 1] : NULL;
    if (stack == 0) {
        return;
    }
    if (span == NULL || span->stack != stack || span->row_to != tile->row_count) {
        span = &tile->spans[tile->span_count];
        *span = (struct span){.row_from = tile->row_count, .stack = stack};
        tile->span_count++;
    }
    span->row_to = tile->row_count + 1;
}

/* Adds a marked row; a new piece begins where the run, the slots or a K/V tile border break. */
static void tile_add(struct tile *tile, struct run *run, int32_t row)
{
    int32_t slot = run->slot_from + (row - run->row_from);
    struct piece *piece = tile->piece_count > 0 ? &tile->pieces[tile->piece_count - 1] : NULL;
    if (piece == NULL || piece->run != run || piece->slot_from + piece->count != slot ||
        slot % PIECE_ROWS == 0) {
        piece = &tile->pieces[tile->piece_count];
        *piece = (struct piece){.run = run, .tile_from = tile->row_count, .slot_from = slot};
        tile->piece_count++;
    }
    piece->count++;
    span_add(tile, run->stack);
    tile->rows[tile->row_count] = row;
    tile->place[row - tile->window_from] = tile->row_count;
    tile->row_count++;
}

/* Takes the rows of the window [from, from + tile_rows), or only those read from, without the rows
 * of runs that have failed. */
static void tile_take(struct pass *pass, int32_t from, bool only_read)
{
    struct batch *batch = pass->batch;
    struct tile *tile = pass->tile;
    tile->row_count = 0;
    tile->piece_count = 0;
    tile->span_count = 0;
    tile->window_from = from;
    tile->window_to = MIN(from + pass->scratch->tile_rows, batch->row_count);
    for (int32_t i = 0; i < tile->window_to - from; i++) {
        tile->place[i] = only_read ? -1 : 0;
    }
    if (only_read) {
        mark_read_rows(batch, pass->model->info.layers - 1, tile);
    }
    for (int32_t i = 0; i < batch->run_count; i++) {
        struct run *run = &batch->runs[i];
        int32_t row_to = MIN(run->row_from + run->row_count, tile->window_to);
        for (int32_t row = MAX(run->row_from, from); row < row_to; row++) {
            int32_t *place = &tile->place[row - from];
            if (run->err == ERR_OK && *place == 0) {
                tile_add(tile, run, row);
            } else {
                *place = -1;
            }
        }
    }
    threads_run(pass->threads, (tile->row_count + ROW_CHUNK - 1) / ROW_CHUNK, angle_chunk, pass);
}

/* ---- reads --------------------------------------------------------------------------------- */

static struct run *run_of(const struct tile *tile, int32_t r)
{
    for (int32_t i = 0; i < tile->piece_count; i++) {
        const struct piece *piece = &tile->pieces[i];
        if (r >= piece->tile_from && r < piece->tile_from + piece->count) {
            return piece->run;
        }
    }
    ASSERT(false); /* every row of a tile lies in one of its pieces */
    return NULL;
}

static void read_row(const struct pass *pass, const struct row_read *read, int32_t r)
{
    const struct model *model = pass->model;
    const float *x = pass->batch->x[read->row];
    int32_t hidden = model->info.hidden;
    if (read->layer == -1) {
        norm_row(model, &model->output_norm, x, hidden, read->hidden);
    } else {
        ASSERT(read->hidden != x);
        memcpy(read->hidden, x, (size_t)hidden * sizeof(float));
    }
    if (!pass->kernels->all_finite(read->hidden, hidden)) {
        run_of(pass->tile, r)->err = ERR_NON_FINITE;
    }
}

/* What is read after layer l from rows of the tile. */
static void read_tile(const struct pass *pass, int32_t l)
{
    const struct tile *tile = pass->tile;
    bool last = l == pass->model->info.layers - 1;
    for (int32_t i = 0; i < pass->batch->read_count; i++) {
        const struct row_read *read = &pass->batch->reads[i];
        bool here = read->row >= tile->window_from && read->row < tile->window_to;
        bool now = read->layer == l || (last && read->layer == -1);
        if (here && now && tile->place[read->row - tile->window_from] >= 0) {
            read_row(pass, read, tile->place[read->row - tile->window_from]);
        }
    }
}

/* ---- units --------------------------------------------------------------------------------- */

static void embed_chunk(void *context, int32_t chunk, int32_t thread)
{
    const struct pass *pass = context;
    const struct batch *batch = pass->batch;
    int32_t to = MIN((chunk + 1) * ROW_CHUNK, batch->row_count);
    for (int32_t row = chunk * ROW_CHUNK; row < to; row++) {
        pass->model->network->embed(pass, row);
    }
}

/* Nothing is stored again that others may be reading. */
static void check_stores(const struct run *run)
{
    const struct pages *pages = run->slots->pages;
    int32_t slot = run->slot_from, slot_to = run->slot_from + run->row_count;
    while (slot < slot_to && !run->stored) {
        ASSERT(slot % pages->page_slots >=
               pages->sealed[run->slots->page_ids[slot / pages->page_slots]]);
        slot += pages->page_slots - slot % pages->page_slots;
    }
}

static void check_batch(const struct model *model, struct batch *batch)
{
    int32_t row = 0;
    for (int32_t i = 0; i < batch->run_count; i++) {
        struct run *run = &batch->runs[i];
        ASSERT(run->row_from == row && run->row_count > 0);
        ASSERT(run->slot_from >= 0 && run->context_count >= 0);
        ASSERT(run->stack >= 0 && run->stack <= model->stack_count);
        const struct pages *pages = run->slots->pages;
        ASSERT(pages->layers == model->info.layers || pages->layers == 1);
        ASSERT(pages->heads_kv == model->info.heads_kv);
        ASSERT(pages->head_dim == model->info.head_dim);
        ASSERT((int64_t)run->slots->page_count * pages->page_slots >=
               (int64_t)run->slot_from + run->row_count);
        check_stores(run);
        run->err = ERR_OK;
        row += run->row_count;
    }
    ASSERT(row == batch->row_count && row > 0);
    for (int32_t i = 0; i < batch->row_count; i++) {
        ASSERT(batch->tokens[i] >= 0 && batch->tokens[i] < model->info.vocab);
        ASSERT(batch->positions[i] >= 0 && batch->positions[i] < model_positions(model));
    }
    for (int32_t i = 0; i < batch->read_count; i++) {
        ASSERT(batch->reads[i].row >= 0 && batch->reads[i].row < batch->row_count);
        ASSERT(batch->reads[i].layer >= -1 && batch->reads[i].layer < model->info.layers);
    }
}

static void store_layer(struct pass *pass, int32_t l, bool whole)
{
    for (int32_t from = 0; from < pass->batch->row_count; from += pass->scratch->tile_rows) {
        if (!whole) {
            tile_take(pass, from, false);
        }
        if (pass->tile->row_count > 0) {
            pass->model->network->store(pass, l);
        }
    }
}

static void attend_layer(struct pass *pass, int32_t l, bool whole)
{
    bool only_read = l == pass->model->info.layers - 1;
    for (int32_t from = 0; from < pass->batch->row_count; from += pass->scratch->tile_rows) {
        if (!whole || only_read) {
            tile_take(pass, from, only_read);
        }
        if (pass->tile->row_count > 0) {
            pass->model->network->attend(pass, l);
            read_tile(pass, l);
        }
    }
}

void model_forward(const struct model *model, struct scratch *scratch, struct threads *threads,
    struct batch *batch, int32_t unit_from, int32_t unit_to)
{
    ASSERT(!model->dry);
    ASSERT(unit_from >= 0 && unit_from < unit_to && unit_to <= model_units(model));
    check_batch(model, batch);
    struct pass pass = {
        .model = model,
        .kernels = model->kernels,
        .scratch = scratch,
        .threads = threads,
        .batch = batch,
        .tile = &scratch->tile,
    };
    if (unit_from == 0) {
        threads_run(threads, (batch->row_count + ROW_CHUNK - 1) / ROW_CHUNK, embed_chunk, &pass);
    }
    bool whole = batch->row_count <= scratch->tile_rows;
    if (whole) {
        tile_take(&pass, 0, false);
    }
    for (int32_t unit = unit_from; unit < unit_to; unit++) {
        int32_t l = unit / 2;
        if (unit % 2 == 0) {
            bool last = l == model->info.layers - 1;
            pass.joined = whole && !last && unit + 1 < unit_to;
            store_layer(&pass, l, whole);
        } else {
            attend_layer(&pass, l, whole);
            pass.joined = false;
        }
    }
}

void model_logits(const struct model *model, struct scratch *scratch, struct threads *threads,
    const float *const *hidden, int32_t count, float *logits)
{
    ASSERT(!model->dry && model->head != NULL && count >= 0);
    size_t width = (size_t)model->info.hidden, vocab = (size_t)model->info.vocab;
    for (int32_t from = 0; from < count; from += scratch->tile_rows) {
        int32_t rows = MIN(scratch->tile_rows, count - from);
        for (int32_t r = 0; r < rows; r++) {
            memcpy(scratch->h + (size_t)r * width, hidden[from + r], width * sizeof(float));
        }
        struct linear_input x =
            linear_prepare(model, scratch, threads, scratch->h, rows, model->info.hidden);
        struct linear_job job = {
            .linear = model->head, .y = logits + (size_t)from * vocab, .y_stride = vocab};
        linear_project(model->kernels, threads, &x, &job, 1);
    }
}
