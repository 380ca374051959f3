/*
 * Goal: a row's numbers depend on its own sequence alone. Not on the rows it shares a batch with,
 * the number of threads, the tile and page sizes, nor on how its prompt was cut into pieces and
 * units; and one sequence with a number that does not fit the cache harms no other.
 * Method: six sequences of every mask mode. Each runs alone in one pass; every other way to run
 * them must give the same bits, on every rung of this machine that promises it. Unused cache is
 * NaN, so that a slot read before it is stored would show.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "engine/base/mem.h"
#include "engine/base/rng.h"
#include "tests/scale.h"
#include "tests/unit/model/rig.h"

static const struct rig_config alone_config = {
    .tile_rows = 256, .page_slots = 32, .threads = 1, .type = KV_F16};

struct world {
    struct tiny tiny;
    struct rig alone;
};

static void world_open(struct world *world, const char *rung, enum tensor_type type)
{
    struct tiny_options options = tiny_default();
    options.type = type;
    options.rope_divisors = type == TENSOR_Q4_1;
    options.untied = type == TENSOR_F16;
    if (type == TENSOR_F32) { /* rows of an odd width: tails, and every alignment */
        options.ffn = 91;
    }
    tiny_open(&world->tiny, &options, rung, 1);
    rig_open(&world->alone, &world->tiny, alone_config);
    rig_run_alone(&world->alone);
}

static void world_close(struct world *world)
{
    rig_close(&world->alone);
    tiny_close(&world->tiny);
}

static void assert_all_same(const struct rig *alone, const struct rig *rig)
{
    for (int32_t i = 0; i < RIG_SEQS; i++) {
        assert_int_equal(rig->seqs[i].err, ERR_OK);
        rig_assert_same(alone, rig, i);
    }
}

/* ---- one batch ----------------------------------------------------------------------------- */

static void check_mixed(struct world *world, struct rig_config config)
{
    static struct rig rig;
    rig_open(&rig, &world->tiny, config);
    for (int32_t i = RIG_SEQS - 1; i >= 0; i--) {
        rig_add(&rig, i, 0, rig.seqs[i].count, true);
    }
    rig_run(&rig, -1, -1);
    assert_all_same(&world->alone, &rig);
    rig_close(&rig);
}

static void mixed_on(const char *rung, enum tensor_type type)
{
    static struct world world;
    world_open(&world, rung, type);
    const struct rig_config configs[] = {
        {.threads = 1, .tile_rows = 7, .page_slots = 64},
        {.threads = 2, .tile_rows = 64, .page_slots = 16},
        {.threads = 3, .tile_rows = 1, .page_slots = 32},
        {.threads = 3, .tile_rows = 512, .page_slots = 16},
    };
    for (size_t i = 0; i < ARRAY_COUNT(configs); i++) {
        check_mixed(&world, configs[i]);
    }
    world_close(&world);
}

static void test_mixed_batch(void **state)
{
    const enum tensor_type types[] = {TENSOR_F32, TENSOR_F16, TENSOR_Q8_0, TENSOR_Q4_1};
    const char *const *rungs = kernels_available();
    const size_t first = test_scale() > 1 ? ARRAY_COUNT(types) - 1 : 0;
    for (size_t r = 0; rungs[r] != NULL; r++) {
        struct kernels kernels;
        assert_int_equal(kernels_select(rungs[r], &kernels, NULL), ERR_OK);
        for (size_t t = first; kernels.deterministic && t < ARRAY_COUNT(types); t++) {
            mixed_on(rungs[r], types[t]);
        }
    }
}

/* ---- pieces -------------------------------------------------------------------------------- */

/* Rows that must go together come first; the rest in pieces of random length, several sequences
 * to a batch. */
static void run_in_pieces(struct rig *rig, uint64_t seed)
{
    int32_t done[RIG_SEQS] = {0};
    uint64_t counter = 0;
    for (;;) {
        for (int32_t i = 0; i < RIG_SEQS; i++) {
            struct rig_seq *seq = &rig->seqs[i];
            int32_t rows = (int32_t)(rng_uniform(seed, 0, counter++) * 12);
            if (done[i] < seq->context_count) {
                rows = seq->context_count - done[i] + rows / 2;
            }
            int32_t to = MIN(done[i] + rows, seq->count);
            if (to > done[i]) {
                rig_add(rig, i, done[i], to, true);
                done[i] = to;
            }
        }
        if (rig->batch.row_count > 0) {
            rig_run(rig, -1, -1);
        }
        bool finished = true;
        for (int32_t i = 0; i < RIG_SEQS; i++) {
            finished = finished && done[i] == rig->seqs[i].count;
        }
        if (finished) {
            return;
        }
    }
}

static void test_pieces(void **state)
{
    static struct world world;
    static struct rig rig;
    world_open(&world, NULL, TENSOR_Q8_0);
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct rig_config config = alone_config;
        config.tile_rows = 1 + (int32_t)(rng_uniform(seed, 1, 0) * 40);
        config.threads = 1 + (int32_t)(seed % 3);
        rig_open(&rig, &world.tiny, config);
        run_in_pieces(&rig, seed);
        assert_all_same(&world.alone, &rig);
        rig_close(&rig);
    }
    world_close(&world);
}

/* ---- units --------------------------------------------------------------------------------- */

/* Unit by unit, and within a unit in slices of rows: how a long context block is run fairly. */
static void test_units(void **state)
{
    static struct world world;
    static struct rig rig;
    world_open(&world, NULL, TENSOR_F32);
    int32_t units = model_units(world.tiny.model);
    for (int32_t slice = 9; slice <= 27; slice += 9) {
        struct rig_config config = alone_config;
        config.tile_rows = 16;
        config.threads = 2;
        rig_open(&rig, &world.tiny, config);
        for (int32_t i = 0; i < RIG_SEQS; i++) {
            for (int32_t unit = 0; unit < units; unit++) {
                for (int32_t from = 0; from < rig.seqs[i].count; from += slice) {
                    rig_add(&rig, i, from, MIN(from + slice, rig.seqs[i].count), true);
                    rig_run(&rig, unit, unit + 1);
                }
            }
        }
        assert_all_same(&world.alone, &rig);
        rig_close(&rig);
    }
    /* Ranges that begin or end between the halves of a layer. */
    const int32_t cuts[] = {0, 1, 4, 5, 6};
    rig_open(&rig, &world.tiny, alone_config);
    for (size_t c = 0; c + 1 < ARRAY_COUNT(cuts); c++) {
        for (int32_t i = 0; i < RIG_SEQS; i++) {
            rig_add(&rig, i, 0, rig.seqs[i].count, true);
        }
        rig_run(&rig, cuts[c], cuts[c + 1]);
    }
    assert_int_equal(units, 6);
    assert_all_same(&world.alone, &rig);
    rig_close(&rig);
    world_close(&world);
}

/* ---- parts --------------------------------------------------------------------------------- */

/* Rows that are decoded are cut into parts, which threads compute in any order; two would give the
 * same bits joined either way round, so these see three. */
static void test_parts_of_attention(void **state)
{
    static struct world world;
    static struct rig whole, cut;
    enum { LONG = 2 * ATTENTION_PART + 20, DECODED = 15 };
    struct rig_config config = alone_config;
    world_open(&world, NULL, TENSOR_Q8_0);
    config.long_rows = LONG;
    rig_open(&whole, &world.tiny, config);
    rig_add(&whole, 5, 0, LONG, true);
    rig_run(&whole, -1, -1);
    config.threads = 3;
    rig_open(&cut, &world.tiny, config);
    rig_add(&cut, 5, 0, LONG - DECODED, true);
    rig_run(&cut, -1, -1);
    for (int32_t slot = LONG - DECODED; slot < LONG; slot++) {
        rig_add(&cut, 5, slot, slot + 1, true);
        rig_run(&cut, -1, -1);
    }
    rig_assert_same(&whole, &cut, 5);
    rig_close(&whole);
    rig_close(&cut);
    world_close(&world);
}

/* ---- reads --------------------------------------------------------------------------------- */

/* Rows nobody reads are not finished, yet their K and V are stored: later rows see them. */
static void test_unread_rows(void **state)
{
    static struct world world;
    static struct rig rig;
    world_open(&world, NULL, TENSOR_F32);
    size_t width = (size_t)model_info(world.tiny.model)->hidden;
    for (int32_t tile_rows = 8; tile_rows <= 256; tile_rows *= 4) {
        struct rig_config config = alone_config;
        config.tile_rows = tile_rows;
        rig_open(&rig, &world.tiny, config);
        for (int32_t i = 0; i < RIG_SEQS; i++) {
            int32_t count = rig.seqs[i].count;
            if (count > rig.seqs[i].context_count && count > 1) {
                rig_add(&rig, i, 0, count - 1, false);
                rig_run(&rig, -1, -1);
            }
        }
        for (int32_t i = 0; i < RIG_SEQS; i++) {
            int32_t count = rig.seqs[i].count;
            bool block = count == rig.seqs[i].context_count; /* goes together */
            rig_add(&rig, i, block ? 0 : count - 1, count, false);
            rig.reads[rig.batch.read_count++] = (struct row_read){.row = rig.batch.row_count - 1,
                .layer = -1,
                .hidden = rig.seqs[i].hidden + (size_t)(count - 1) * width};
        }
        rig_run(&rig, -1, -1);
        for (int32_t i = 0; i < RIG_SEQS; i++) {
            size_t at = (size_t)(rig.seqs[i].count - 1) * width;
            assert_memory_equal(
                world.alone.seqs[i].hidden + at, rig.seqs[i].hidden + at, width * sizeof(float));
        }
        rig_close(&rig);
    }
    world_close(&world);
}

/* Scattered reads of one batch, in no order and one row twice; and residuals between layers. */
static void test_scattered_reads(void **state)
{
    static struct world world;
    static struct rig rig;
    world_open(&world, NULL, TENSOR_F32);
    int32_t layers = model_info(world.tiny.model)->layers;
    size_t width = (size_t)model_info(world.tiny.model)->hidden;
    float *out = calloc(8 * width, sizeof(float));
    assert_non_null(out);
    struct rig_config config = alone_config;
    config.tile_rows = 16;
    rig_open(&rig, &world.tiny, config);
    rig_add(&rig, 3, 0, 80, false);
    const struct row_read reads[] = {{79, -1, out}, {9, -1, out + width}, {9, -1, out + 2 * width},
        {41, -1, out + 3 * width}, {30, 0, out + 4 * width}, {30, layers - 2, out + 5 * width},
        {33, layers - 1, out + 6 * width}, {33, -1, out + 7 * width}};
    memcpy(rig.reads, reads, sizeof(reads));
    rig.batch.read_count = (int32_t)ARRAY_COUNT(reads);
    rig_run(&rig, -1, -1);
    const int32_t slots[] = {79, 9, 9, 41};
    for (size_t i = 0; i < 4; i++) {
        assert_memory_equal(out + i * width, world.alone.seqs[3].hidden + (size_t)slots[i] * width,
            width * sizeof(float));
    }
    assert_memory_equal(
        out + 7 * width, world.alone.seqs[3].hidden + 33 * width, width * sizeof(float));
    /* A residual is what x holds when the pass stops there. */
    static struct rig stop;
    const int32_t ends[] = {2, 2 * (layers - 1), 2 * layers};
    const int32_t rows[] = {30, 30, 33};
    for (size_t i = 0; i < 3; i++) {
        rig_open(&stop, &world.tiny, alone_config);
        rig_add(&stop, 3, 0, 80, true);
        rig_run(&stop, 0, ends[i]);
        assert_memory_equal(
            out + (4 + i) * width, stop.seqs[3].x + (size_t)rows[i] * width, width * sizeof(float));
        rig_close(&stop);
    }
    rig_close(&rig);
    world_close(&world);
    free(out);
}

/* A final state may be written over the residual it comes from. */
static void test_reads_in_place(void **state)
{
    static struct world world;
    static struct rig rig;
    world_open(&world, NULL, TENSOR_F32);
    size_t width = (size_t)model_info(world.tiny.model)->hidden;
    struct rig_config config = alone_config;
    config.tile_rows = 64;
    rig_open(&rig, &world.tiny, config);
    for (int32_t i = 0; i < RIG_SEQS; i++) {
        rig_add(&rig, i, 0, rig.seqs[i].count, true);
    }
    for (int32_t i = 0; i < rig.batch.read_count; i++) {
        rig.reads[i].hidden = rig.x[rig.reads[i].row];
    }
    rig_run(&rig, -1, -1);
    for (int32_t i = 0; i < RIG_SEQS; i++) {
        assert_memory_equal(rig.seqs[i].x, world.alone.seqs[i].hidden,
            (size_t)rig.seqs[i].count * width * sizeof(float));
    }
    rig_close(&rig);
    world_close(&world);
}

/* ---- failures ------------------------------------------------------------------------------ */

static void test_a_bad_value_stays_in_its_sequence(void **state)
{
    static struct tiny tiny;
    static struct rig alone, rig;
    struct tiny_options options = tiny_default();
    options.bomb = true;
    tiny_open(&tiny, &options, NULL, 1);
    rig_open(&alone, &tiny, alone_config);
    rig_run_alone(&alone);
    for (int32_t tile_rows = 5; tile_rows <= 500; tile_rows *= 10) {
        struct rig_config config = alone_config;
        config.tile_rows = tile_rows;
        config.threads = 2;
        rig_open(&rig, &tiny, config);
        rig.seqs[2].tokens[20] = 1;
        for (int32_t i = 0; i < RIG_SEQS; i++) {
            rig_add(&rig, i, 0, rig.seqs[i].count, true);
        }
        rig_run(&rig, -1, -1);
        for (int32_t i = 0; i < RIG_SEQS; i++) {
            if (i == 2) {
                assert_int_equal(rig.seqs[i].err, ERR_NON_FINITE);
            } else {
                rig_assert_same(&alone, &rig, i);
            }
        }
        rig_close(&rig);
    }
    /* The same token is fine where the cache holds f32. */
    struct rig_config wide = alone_config;
    wide.type = KV_F32;
    rig_open(&rig, &tiny, wide);
    rig.seqs[2].tokens[20] = 1;
    rig_add(&rig, 2, 0, rig.seqs[2].count, true);
    rig_run(&rig, -1, -1);
    assert_int_equal(rig.seqs[2].err, ERR_OK);
    rig_close(&rig);
    rig_close(&alone);
    tiny_close(&tiny);
}

/* ---- logits -------------------------------------------------------------------------------- */

static void test_logits(void **state)
{
    static struct world world;
    world_open(&world, NULL, TENSOR_F16);
    const struct model_info *info = model_info(world.tiny.model);
    size_t width = (size_t)info->hidden, vocab = (size_t)info->vocab;
    enum { COUNT = 21 };
    const float *rows[COUNT];
    float *together = calloc(COUNT * vocab, sizeof(float));
    float *one = calloc(vocab, sizeof(float));
    assert_true(together != NULL && one != NULL);
    for (size_t i = 0; i < COUNT; i++) {
        rows[i] = world.alone.seqs[5].hidden + i * 7 * width;
    }
    static struct rig rig;
    struct rig_config config = alone_config;
    config.tile_rows = 8;
    config.threads = 3;
    rig_open(&rig, &world.tiny, config);
    model_logits(world.tiny.model, rig.scratch, rig.threads, rows, COUNT, together);
    for (size_t i = 0; i < COUNT; i++) {
        model_logits(world.tiny.model, world.alone.scratch, world.alone.threads, &rows[i], 1, one);
        assert_memory_equal(one, together + i * vocab, vocab * sizeof(float));
        assert_true(fabsf(one[0]) > 0);
    }
    rig_close(&rig);
    world_close(&world);
    free(together);
    free(one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mixed_batch),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_units),
        cmocka_unit_test(test_parts_of_attention),
        cmocka_unit_test(test_unread_rows),
        cmocka_unit_test(test_scattered_reads),
        cmocka_unit_test(test_reads_in_place),
        cmocka_unit_test(test_a_bad_value_stays_in_its_sequence),
        cmocka_unit_test(test_logits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
