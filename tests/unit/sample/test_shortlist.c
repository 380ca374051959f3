/*
 * Goal: no token that ranks among the k greatest logits is left out, and forced blocks come whole.
 * Method: random logits with many equal ones, NaN and infinities, at every size around a block;
 * the rank of each token is counted by looking at all others.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>
#include "engine/base/rng.h"
#include "engine/sample/shortlist.h"

enum { VOCAB = 5 * SHORTLIST_BLOCK, BLOCKS = VOCAB / SHORTLIST_BLOCK };

static struct candidate entries[VOCAB];
static struct rank heap[VOCAB];
static float logits[VOCAB], best[BLOCKS];
static uint8_t banned[VOCAB];

static void make_logits(uint64_t seed, int32_t vocab)
{
    for (int32_t id = 0; id < vocab; id++) {
        int32_t value = (int32_t)(rng_uniform(seed, 0, (uint64_t)id) * 40);
        banned[id] = rng_uniform(seed, 1, (uint64_t)id) < 0.1;
        logits[id] = value == 0 ? NAN : value == 1 ? -INFINITY : (float)value;
    }
}

/* How many tokens are greater. */
static int32_t rank_of(int32_t id, int32_t vocab)
{
    int32_t greater = 0;
    for (int32_t other = 0; other < vocab; other++) {
        greater += logits[other] > logits[id];
    }
    return greater;
}

static void check(int32_t vocab, int32_t k, int32_t forced)
{
    struct candidates candidates = {.entries = entries, .heap = heap};
    int32_t blocks = shortlist_blocks(vocab);
    shortlist_scan(logits, vocab, best);
    float threshold = shortlist_threshold(best, blocks, k, heap);
    best[forced] = INFINITY;
    shortlist_gather(&candidates, logits, vocab, best, threshold, banned);
    int32_t at = 0;
    for (int32_t id = 0; id < vocab; id++) {
        bool can = logits[id] > -INFINITY && banned[id] == 0;
        bool must = can && (rank_of(id, vocab) < k || id / SHORTLIST_BLOCK == forced);
        bool has = at < candidates.count && entries[at].id == id;
        assert_true(has || !must);
        assert_true(can || !has);
        assert_true(!has || (float)entries[at].logit == logits[id]);
        at += has;
    }
    assert_int_equal(at, candidates.count);
}

static void test_the_first_k_are_there(void **state)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        for (int32_t vocab = 1; vocab <= VOCAB; vocab++) {
            make_logits(seed, vocab);
            for (int32_t k = 1; k <= shortlist_blocks(vocab); k++) {
                check(vocab, k, (int32_t)seed % shortlist_blocks(vocab));
            }
        }
    }
}

/* With the greatest logits in blocks of their own the list is as short as it can be. */
static void test_little_more_than_k(void **state)
{
    struct candidates candidates = {.entries = entries, .heap = heap};
    memset(banned, 0, sizeof banned);
    for (int32_t id = 0; id < VOCAB; id++) {
        logits[id] = id % SHORTLIST_BLOCK == 3 ? (float)(100 + id) : (float)-id;
    }
    shortlist_scan(logits, VOCAB, best);
    for (int32_t k = 1; k <= BLOCKS; k++) {
        float threshold = shortlist_threshold(best, BLOCKS, k, heap);
        shortlist_gather(&candidates, logits, VOCAB, best, threshold, banned);
        assert_int_equal(candidates.count, k);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_k_are_there),
        cmocka_unit_test(test_little_more_than_k),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
