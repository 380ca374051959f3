/*
 * Goal: the random numbers are Philox 4x32-10 and stay what they are, because a seed in a request
 * promises the same text tomorrow.
 * Method: the known-answer vectors that its authors publish (kat_vectors of Random123), then the
 * mapping to [0, 1): fixed by values worked out from those vectors, bounded, and even.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/base/attr.h"
#include "engine/base/rng.h"

struct known_answer {
    uint32_t counter[4], key[2], out[4];
};

static const struct known_answer known_answers[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff},
        {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0},
        {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

static void test_known_answers(void **state)
{
    for (size_t i = 0; i < ARRAY_COUNT(known_answers); i++) {
        uint32_t out[4];
        rng_philox(known_answers[i].counter, known_answers[i].key, out);
        assert_memory_equal(out, known_answers[i].out, sizeof out);
    }
}

static void test_uniform_is_the_top_53_bits(void **state)
{
    /* Seed 0, stream 0, counter 0 is the first vector. */
    uint64_t bits = UINT64_C(0x6627e8d5e169c58d) >> 11;
    assert_true(rng_uniform(0, 0, 0) == (double)bits / 9007199254740992.0);
}

static void test_every_argument_counts(void **state)
{
    double base = rng_uniform(7, 1, 5);
    assert_true(rng_uniform(7, 1, 5) == base);
    assert_true(rng_uniform(8, 1, 5) != base);
    assert_true(rng_uniform(7 | UINT64_C(1) << 32, 1, 5) != base);
    assert_true(rng_uniform(7, 2, 5) != base);
    assert_true(rng_uniform(7, 1, 6) != base);
    assert_true(rng_uniform(7, 1, 5 | UINT64_C(1) << 32) != base);
}

static void test_uniform_is_bounded_and_even(void **state)
{
    enum { DRAWS = 200000, BINS = 50 };
    int32_t bins[BINS] = {0};
    for (uint64_t i = 0; i < DRAWS; i++) {
        double value = rng_uniform(42, 3, i);
        assert_true(value >= 0.0 && value < 1.0);
        bins[(int)(value * BINS)]++;
    }
    /* Six standard deviations of a binomial count. */
    for (int i = 0; i < BINS; i++) {
        assert_in_range(bins[i], 4000 - 376, 4000 + 376);
    }
}

static void test_entropy_differs(void **state)
{
    assert_true(rng_entropy() != rng_entropy());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_answers),
        cmocka_unit_test(test_uniform_is_the_top_53_bits),
        cmocka_unit_test(test_every_argument_counts),
        cmocka_unit_test(test_uniform_is_bounded_and_even),
        cmocka_unit_test(test_entropy_differs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
