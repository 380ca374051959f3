/*
 * Goal: the modes of one set of weights are one rule, bit for bit: a text that is all spans is
 * causal generation; the context around gaps is the encoder of that context; and context keys and
 * values never depend on span tokens.
 * Method: the tiny model of rig.h on every deterministic rung and both K/V types; sequences that
 * must agree are run in different ways and their states or their pages compared as bytes. Each
 * comparison has a counterpart that must differ, so that it cannot pass by comparing nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "tests/unit/model/rig.h"

/* Sequences of rig.h that are used here. */
enum { CAUSAL = 0, INFILL = 3, INFILL_CONTEXT = 60 };

typedef void check_fn(struct tiny *tiny, struct rig_config config);

static void on_every_rung(check_fn *check)
{
    const char *const *rungs = kernels_available();
    for (size_t r = 0; rungs[r] != NULL; r++) {
        static struct tiny tiny;
        struct tiny_options options = tiny_default();
        tiny_open(&tiny, &options, rungs[r], 2);
        for (int type = KV_F16; tiny.kernels.deterministic && type <= KV_F32; type++) {
            check(&tiny,
                (struct rig_config){
                    .threads = 2, .tile_rows = 32, .page_slots = 32, .type = (enum kv_type)type});
        }
        tiny_close(&tiny);
    }
}

static void run_whole(struct rig *rig, int32_t seq)
{
    rig_add(rig, seq, 0, rig->seqs[seq].count, true);
    rig_run(rig, -1, -1);
}

/* ---- context K/V --------------------------------------------------------------------------- */

static bool same_number(
    const struct pages *pages, const unsigned char *a, const unsigned char *b, size_t index)
{
    size_t bytes = pages->type == KV_F16 ? 2 : 4;
    return memcmp(a + index * bytes, b + index * bytes, bytes) == 0;
}

/* Compares one slot's K and V of every layer and head. */
static bool same_slot(const struct rig *a, const struct rig *b, int32_t seq, int32_t slot)
{
    const struct pages *pages = &a->pages;
    const unsigned char *page_a = a->seqs[seq].slots.addresses[slot / pages->page_slots];
    const unsigned char *page_b = b->seqs[seq].slots.addresses[slot / pages->page_slots];
    size_t in_page = (size_t)(slot % pages->page_slots), dim = (size_t)pages->head_dim;
    size_t values = (size_t)pages->page_slots * dim; /* numbers before V begins */
    bool same = true;
    for (int32_t region = 0; region < pages->layers * pages->heads_kv; region++) {
        size_t offset = (size_t)region * pages->head_bytes;
        for (size_t d = 0; d < dim; d++) {
            size_t key = in_page / KV_TILE * KV_TILE * dim + d * KV_TILE + in_page % KV_TILE;
            same = same && same_number(pages, page_a + offset, page_b + offset, key);
            size_t value = values + in_page * dim + d;
            same = same && same_number(pages, page_a + offset, page_b + offset, value);
        }
    }
    return same;
}

static void check_leak(struct tiny *tiny, struct rig_config config)
{
    static struct rig before, after, other_context;
    rig_open(&before, tiny, config);
    rig_open(&after, tiny, config);
    rig_open(&other_context, tiny, config);
    int32_t changed = INFILL_CONTEXT + 4, count = before.seqs[INFILL].count;
    after.seqs[INFILL].tokens[changed] ^= 1;
    other_context.seqs[INFILL].tokens[7] ^= 1;
    run_whole(&before, INFILL);
    run_whole(&after, INFILL);
    run_whole(&other_context, INFILL);
    for (int32_t slot = 0; slot < count; slot++) {
        bool seen = slot >= changed; /* only the changed span token and those after it may move */
        assert_int_equal(same_slot(&before, &after, INFILL, slot), !seen);
        /* A context token reaches every slot; in layer 0 alone it would only be its own. */
        assert_false(same_slot(&before, &other_context, INFILL, slot));
    }
    rig_close(&before);
    rig_close(&after);
    rig_close(&other_context);
}

static void test_span_tokens_leave_the_context_alone(void **state)
{
    on_every_rung(check_leak);
}

/* ---- all spans, no spans ------------------------------------------------------------------- */

static void check_all_span(struct tiny *tiny, struct rig_config config)
{
    static struct rig causal, decoded, first_is_context, two_are_context;
    rig_open(&causal, tiny, config);
    rig_open(&decoded, tiny, config);
    rig_open(&first_is_context, tiny, config);
    rig_open(&two_are_context, tiny, config);
    run_whole(&causal, CAUSAL);
    for (int32_t slot = 0; slot < decoded.seqs[CAUSAL].count; slot++) {
        rig_add(&decoded, CAUSAL, slot, slot + 1, true);
        rig_run(&decoded, -1, -1);
    }
    rig_assert_same(&causal, &decoded, CAUSAL);
    /* A context of one row sees itself, as a causal first row does. */
    first_is_context.seqs[CAUSAL].context_count = 1;
    run_whole(&first_is_context, CAUSAL);
    rig_assert_same(&causal, &first_is_context, CAUSAL);
    /* The counterpart: row 0 of a context of two also sees row 1. */
    two_are_context.seqs[CAUSAL].context_count = 2;
    run_whole(&two_are_context, CAUSAL);
    assert_memory_not_equal(causal.seqs[CAUSAL].hidden, two_are_context.seqs[CAUSAL].hidden,
        sizeof(float) * (size_t)model_info(tiny->model)->hidden);
    rig_close(&causal);
    rig_close(&decoded);
    rig_close(&first_is_context);
    rig_close(&two_are_context);
}

static void test_all_spans_are_causal(void **state)
{
    on_every_rung(check_all_span);
}

static void check_no_span(struct tiny *tiny, struct rig_config config)
{
    static struct rig infill, encoder, causal;
    rig_open(&infill, tiny, config);
    rig_open(&encoder, tiny, config);
    rig_open(&causal, tiny, config);
    run_whole(&infill, INFILL);
    encoder.seqs[INFILL].count = INFILL_CONTEXT; /* no span at all */
    run_whole(&encoder, INFILL);
    causal.seqs[INFILL].count = INFILL_CONTEXT;
    causal.seqs[INFILL].context_count = 0;
    run_whole(&causal, INFILL);
    size_t width = (size_t)model_info(tiny->model)->hidden;
    size_t bytes = sizeof(float) * INFILL_CONTEXT * width;
    assert_memory_equal(infill.seqs[INFILL].hidden, encoder.seqs[INFILL].hidden, bytes);
    assert_memory_not_equal(infill.seqs[INFILL].hidden, causal.seqs[INFILL].hidden, bytes);
    rig_close(&infill);
    rig_close(&encoder);
    rig_close(&causal);
}

static void test_context_without_spans_is_the_encoder(void **state)
{
    on_every_rung(check_no_span);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_span_tokens_leave_the_context_alone),
        cmocka_unit_test(test_all_spans_are_causal),
        cmocka_unit_test(test_context_without_spans_is_the_encoder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
