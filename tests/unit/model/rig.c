/* See rig.h. Pages are filled with NaN bits before use: a slot read before it is stored shows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "tests/unit/model/rig.h"

#include <stdlib.h>
#include <string.h>
#include "engine/base/rng.h"

static void fill_seq(struct rig_seq *seq, int32_t index, int32_t count, int32_t context_count)
{
    seq->count = count;
    seq->context_count = context_count;
    for (int32_t i = 0; i < count; i++) {
        seq->tokens[i] = 2 + (int32_t)(rng_uniform(99, (uint32_t)index, (uint64_t)i) * 70);
        seq->positions[i] = i;
    }
}

/* 60 context rows around gaps of 8 and 12 positions, whose tokens come after them. */
static void fill_infill(struct rig_seq *seq)
{
    fill_seq(seq, 3, 80, 60);
    int32_t slot = 0, span = 60;
    for (int32_t position = 0; position < 80; position++) {
        bool gap = (position >= 10 && position < 18) || (position >= 40 && position < 52);
        seq->positions[gap ? span++ : slot++] = position;
    }
}

void rig_open(struct rig *rig, struct tiny *tiny, struct rig_config config)
{
    const struct model_info *info = model_info(tiny->model);
    memset(rig, 0, sizeof(*rig));
    rig->tiny = tiny;
    assert_int_equal(threads_open(config.threads, &rig->threads), ERR_OK);
    assert_int_equal(scratch_open(tiny->model, config.tile_rows, &rig->scratch), ERR_OK);
    int32_t pages = RIG_SEQS * (RIG_SLOTS / config.page_slots + 1);
    assert_int_equal(pages_open(&rig->pages, config.type, info->layers, info->heads_kv,
                         info->head_dim, config.page_slots, pages),
        ERR_OK);
    memset(rig->pages.data, 0xff, (size_t)pages * rig->pages.page_bytes);
    fill_seq(&rig->seqs[0], 0, 37, 0);
    fill_seq(&rig->seqs[1], 1, 50, 50);
    fill_seq(&rig->seqs[2], 2, 45, 33);
    fill_infill(&rig->seqs[3]);
    fill_seq(&rig->seqs[4], 4, 1, 0);
    fill_seq(&rig->seqs[5], 5, config.long_rows > 0 ? config.long_rows : 270, 0);
    size_t numbers = (size_t)RIG_SLOTS * (size_t)info->hidden;
    for (int32_t i = 0; i < RIG_SEQS; i++) {
        struct rig_seq *seq = &rig->seqs[i];
        assert_int_equal(slots_init(&seq->slots, &rig->pages, RIG_SLOTS), ERR_OK);
        assert_true(slots_hold(&seq->slots, seq->count));
        memcpy(seq->slots.positions, seq->positions, sizeof(int32_t) * (size_t)seq->count);
        seq->x = calloc(numbers, sizeof(float));
        seq->hidden = calloc(numbers, sizeof(float));
        assert_true(seq->x != NULL && seq->hidden != NULL);
    }
}

void rig_close(struct rig *rig)
{
    for (int32_t i = 0; i < RIG_SEQS; i++) {
        slots_free(&rig->seqs[i].slots);
        free(rig->seqs[i].x);
        free(rig->seqs[i].hidden);
    }
    pages_close(&rig->pages);
    scratch_close(rig->scratch);
    threads_close(rig->threads);
}

void rig_add(struct rig *rig, int32_t index, int32_t from, int32_t to, bool read)
{
    struct rig_seq *seq = &rig->seqs[index];
    struct batch *batch = &rig->batch;
    size_t hidden = (size_t)model_info(rig->tiny->model)->hidden;
    assert_true(from >= 0 && from < to && to <= seq->count);
    rig->run_seq[batch->run_count] = index;
    rig->runs[batch->run_count++] = (struct run){
        .row_from = batch->row_count,
        .row_count = to - from,
        .slot_from = from,
        .context_count = seq->context_count,
        .slots = &seq->slots,
        .err = ERR_INTERNAL, /* must be overwritten */
    };
    for (int32_t slot = from; slot < to; slot++) {
        int32_t row = batch->row_count++;
        rig->tokens[row] = seq->tokens[slot];
        rig->positions[row] = seq->positions[slot];
        rig->x[row] = seq->x + (size_t)slot * hidden;
        if (read) {
            rig->reads[batch->read_count++] = (struct row_read){
                .row = row, .layer = -1, .hidden = seq->hidden + (size_t)slot * hidden};
        }
    }
}

void rig_run(struct rig *rig, int32_t unit_from, int32_t unit_to)
{
    struct batch *batch = &rig->batch;
    batch->tokens = rig->tokens;
    batch->positions = rig->positions;
    batch->x = rig->x;
    batch->runs = rig->runs;
    batch->reads = rig->reads;
    model_forward(rig->tiny->model, rig->scratch, rig->threads, batch,
        unit_from < 0 ? 0 : unit_from, unit_to < 0 ? model_units(rig->tiny->model) : unit_to);
    for (int32_t i = 0; i < batch->run_count; i++) {
        struct rig_seq *seq = &rig->seqs[rig->run_seq[i]];
        seq->err = seq->err == ERR_OK ? rig->runs[i].err : seq->err;
    }
    rig->batch = (struct batch){0};
}

void rig_run_alone(struct rig *rig)
{
    for (int32_t i = 0; i < RIG_SEQS; i++) {
        rig_add(rig, i, 0, rig->seqs[i].count, true);
        rig_run(rig, -1, -1);
    }
}

void rig_assert_same(const struct rig *a, const struct rig *b, int32_t seq)
{
    size_t width = (size_t)model_info(a->tiny->model)->hidden;
    assert_int_equal(a->seqs[seq].err, b->seqs[seq].err);
    for (int32_t slot = 0; slot < a->seqs[seq].count; slot++) {
        const float *x = a->seqs[seq].hidden + (size_t)slot * width;
        const float *y = b->seqs[seq].hidden + (size_t)slot * width;
        if (memcmp(x, y, width * sizeof(float)) != 0) {
            fail_msg("sequence %d, slot %d differs: %.9g and %.9g ...", seq, slot, (double)x[0],
                (double)y[0]);
        }
    }
}
