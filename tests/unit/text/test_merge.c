/*
 * Goal: the merge loop joins the pair of lowest rank, leftmost of equals, and stays n log n.
 * Method: random rank tables over a few letters, against a loop that looks at every pair before
 * each join; then a million equal letters, whose work is counted, not timed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "engine/text/merge.h"

enum { IDS = 40, LENGTH_MAX = 24, ROUNDS = 20000, LONG = 1 << 20 };

/* joined[a][b] = the token of a and b, 0 = they do not join. Many pairs share a rank. */
struct table {
    int32_t joined[IDS][IDS];
    uint32_t ranks[IDS][IDS];
};

static uint32_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
}

static void fill_table(struct table *table, uint64_t *random)
{
    for (int32_t a = 0; a < IDS; a++) {
        for (int32_t b = 0; b < IDS; b++) {
            bool joins = next_random(random) % 3 == 0;
            table->joined[a][b] = joins ? (int32_t)(next_random(random) % (IDS - 1)) + 1 : 0;
            table->ranks[a][b] = next_random(random) % 7;
        }
    }
}

static uint32_t table_rank(
    const void *context, const struct merger *merger, int32_t left, int32_t right, int32_t *out_id)
{
    const struct table *table = context;
    int32_t a = merger->symbols[left].id;
    int32_t b = merger->symbols[right].id;
    if (table->joined[a][b] == 0) {
        return MERGE_NONE;
    }
    *out_id = table->joined[a][b];
    return table->ranks[a][b];
}

static int32_t merge_naively(const struct table *table, int32_t *ids, int32_t count)
{
    for (;;) {
        int32_t best = -1;
        for (int32_t i = 0; i + 1 < count; i++) {
            if (table->joined[ids[i]][ids[i + 1]] != 0 &&
                (best < 0 ||
                    table->ranks[ids[i]][ids[i + 1]] < table->ranks[ids[best]][ids[best + 1]])) {
                best = i;
            }
        }
        if (best < 0) {
            return count;
        }
        ids[best] = table->joined[ids[best]][ids[best + 1]];
        count--;
        for (int32_t i = best + 1; i < count; i++) {
            ids[i] = ids[i + 1];
        }
    }
}

/* Symbols one apart, in order. */
static void fill_symbols(struct merger *merger, const int32_t *ids, int32_t count)
{
    assert_int_equal(merge_reserve(merger, (size_t)count, NULL), ERR_OK);
    for (int32_t i = 0; i < count; i++) {
        merger->symbols[i] = (struct merge_symbol){
            .previous = i - 1, .next = i + 1 < count ? i + 1 : -1, .id = ids[i]};
    }
}

static void test_against_naive(void **state)
{
    (void)state;
    uint64_t random = 7;
    struct merger merger = {0};
    static struct table table;
    for (int32_t round = 0; round < ROUNDS; round++) {
        if (round % 100 == 0) {
            fill_table(&table, &random);
        }
        int32_t ids[LENGTH_MAX];
        int32_t count = (int32_t)(next_random(&random) % LENGTH_MAX) + 1;
        for (int32_t i = 0; i < count; i++) {
            ids[i] = (int32_t)(next_random(&random) % IDS);
        }
        fill_symbols(&merger, ids, count);
        merge_run(&merger, 0, table_rank, &table);
        count = merge_naively(&table, ids, count);
        int32_t at = 0;
        for (int32_t i = 0; i < count; i++) {
            assert_true(at >= 0);
            assert_int_equal(merger.symbols[at].id, ids[i]);
            at = merger.symbols[at].next;
        }
        assert_int_equal(at, -1);
    }
    merge_free(&merger);
}

/* Token k is 2^k letters; two equal ones join. */
static uint32_t doubling_rank(
    const void *context, const struct merger *merger, int32_t left, int32_t right, int32_t *out_id)
{
    (void)context;
    int32_t id = merger->symbols[left].id;
    if (id != merger->symbols[right].id) {
        return MERGE_NONE;
    }
    *out_id = id + 1;
    return (uint32_t)id;
}

static void test_long_word(void **state)
{
    (void)state;
    struct merger merger = {0};
    int32_t *ids = calloc(LONG, sizeof(*ids));
    assert_non_null(ids);
    fill_symbols(&merger, ids, LONG);
    merge_run(&merger, 0, doubling_rank, NULL);
    assert_int_equal(merger.symbols[0].id, 20);
    assert_int_equal(merger.symbols[0].next, -1);
    assert_true(merger.pop_count <= 3 * (uint64_t)LONG);
    merge_free(&merger);
    free(ids);
}

static void test_empty(void **state)
{
    (void)state;
    struct merger merger = {0};
    assert_int_equal(merge_reserve(&merger, 0, NULL), ERR_OK);
    merge_run(&merger, -1, doubling_rank, NULL); /* no byte of the word had a token */
    assert_int_equal(merger.pop_count, 0);
    merge_free(&merger);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_naive),
        cmocka_unit_test(test_long_word),
        cmocka_unit_test(test_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
