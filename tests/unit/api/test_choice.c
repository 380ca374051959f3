/*
 * Goal: mode rerank leaves the greedy candidate where it should, keeps the cuts it should and no
 * others, in an order that does not depend on chance, and weighs right and fill as documented.
 * Method: candidates written by hand, whose tokens are letters.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "api/choice.h"
#include "engine/base/assert.h"

enum { LETTERS_MAX = 40 };

static int32_t letter_ends[LETTERS_MAX + 1];
static float letter_logprobs[LETTERS_MAX]; /* -0.5 each */

/* Cuts after 1..strlen(text) letters. */
static struct choice_candidate candidate(const char *text, const float *firsts)
{
    for (int32_t n = 0; n <= LETTERS_MAX; n++) {
        letter_ends[n] = n;
    }
    for (int32_t n = 0; n < LETTERS_MAX; n++) {
        letter_logprobs[n] = -0.5f;
    }
    return (struct choice_candidate){.text = text,
        .ends = letter_ends,
        .logprobs = letter_logprobs,
        .firsts = firsts,
        .from = 1,
        .to = (int32_t)strlen(text)};
}

static void check_kept(const struct choice_candidate *candidates, int32_t count, int32_t wanted,
    const char *const *expected)
{
    struct choice_cut cuts[CHOICE_SCORED_MAX];
    int32_t kept = choice_keep(candidates, count, wanted, cuts);
    for (int32_t i = 0; i < kept; i++) {
        char text[LETTERS_MAX + 1];
        const struct choice_candidate *from = &candidates[cuts[i].candidate];
        (void)snprintf(text, sizeof(text), "%.*s", from->ends[cuts[i].token_count], from->text);
        assert_non_null(expected[i]);
        assert_string_equal(text, expected[i]);
    }
    assert_null(expected[kept]);
}
#define KEPT(candidates, count, wanted, ...)                                                       \
    check_kept(candidates, count, wanted, (const char *const[]){__VA_ARGS__, NULL})

/* ---- branches ------------------------------------------------------------------------------ */

static void offer(struct choice_branches *branches, int32_t token, double total)
{
    const struct choice_branch branch = {.token = token, .total = total};
    choice_offer(branches, &branch);
}

static void check_branches(const struct choice_branches *branches, const char *tokens)
{
    assert_int_equal(branches->count, strlen(tokens));
    for (int32_t i = 0; i < branches->count; i++) {
        assert_int_equal(branches->list[i].token, tokens[i]);
    }
}

static void test_likeliest_branches(void **state)
{
    struct choice_branches branches = {.count_max = 3};
    (void)state;
    check_branches(&branches, "");
    offer(&branches, 'c', -3);
    check_branches(&branches, "c");
    offer(&branches, 'a', -1);
    offer(&branches, 'd', -3); /* a tie: behind the one before */
    check_branches(&branches, "acd");
    offer(&branches, 'e', -3);
    check_branches(&branches, "acd");
    offer(&branches, 'b', -2);
    check_branches(&branches, "abc");
    offer(&branches, 'z', -0.5);
    check_branches(&branches, "zab");
}

static void test_most_branches(void **state)
{
    struct choice_branches branches = {.count_max = CHOICE_BRANCHES_MAX};
    (void)state;
    for (int32_t i = 0; i <= CHOICE_BRANCHES_MAX; i++) { /* one past it */
        offer(&branches, i, i);
    }
    assert_int_equal(branches.count, CHOICE_BRANCHES_MAX);
    assert_int_equal(branches.list[0].token, CHOICE_BRANCHES_MAX);
    assert_int_equal(branches.list[CHOICE_BRANCHES_MAX - 1].token, 1);
    branches = (struct choice_branches){.count_max = 0};
    offer(&branches, 'a', -1);
    assert_int_equal(branches.count, 0);
}

/* ---- cuts ---------------------------------------------------------------------------------- */

static void test_best_first(void **state)
{
    static const float a[] = {0, -3, -1}, b[] = {0, -2, -4};
    (void)state;
    const struct choice_candidate two[] = {candidate("ab", a), candidate("xy", b)};
    KEPT(two, 2, 8, "ab", "x", "a", "xy"); /* -2, -2.5, -3.5, -5 */
    KEPT(two, 2, 3, "ab", "x", "a");
    KEPT(two, 2, 1, "ab");
    check_kept(two, 0, 8, (const char *const[]){NULL});
}

/* Every further letter costs a half, which the right must give back. */
static void test_fill_counts(void **state)
{
    static const float a[] = {0, -9}, b[] = {0, -2, -1.75f, -1};
    (void)state;
    const struct choice_candidate two[] = {candidate("a", a), candidate("xyz", b)};
    KEPT(two, 2, 8, "a", "x", "xyz", "xy"); /* -, -2.5, -2.5, -2.75 */
}

/* What the left alone gives is scored however bad it looks. */
static void test_greedy_is_kept(void **state)
{
    static const float a[] = {0, -1, -50, -60}, b[] = {0, -2, -3};
    static const int32_t ends[] = {0, 1, 2, -1};
    (void)state;
    struct choice_candidate two[] = {candidate("abc", a), candidate("xy", b)};
    KEPT(two, 2, 3, "abc", "a", "x");
    KEPT(two, 2, 1, "abc");
    two[0].ends = ends; /* as far as it may be cut */
    KEPT(two, 2, 3, "ab", "a", "x");
    two[0].from = 3; /* nowhere */
    KEPT(two, 2, 3, "x", "xy");
}

static void test_ties_go_by_order(void **state)
{
    static const float same[] = {0, -1, -0.5f};
    (void)state;
    const struct choice_candidate two[] = {candidate("ab", same), candidate("xy", same)};
    KEPT(two, 2, 8, "ab", "a", "x", "xy");
}

/* The same text in other tokens has another score; the better one stands for both. */
static void test_no_text_twice(void **state)
{
    static const float a[] = {0, -5, -6}, b[] = {0, -1}, c[] = {0, -2, -3};
    static const int32_t one_token[] = {0, 2};
    (void)state;
    struct choice_candidate four[] = {
        candidate("q", b), candidate("ab", a), candidate("ab", b), candidate("ax", c)};
    four[2].ends = one_token;
    four[2].to = 1;
    struct choice_cut cuts[CHOICE_SCORED_MAX];
    assert_int_equal(choice_keep(four, 4, 8, cuts), 4);
    assert_int_equal(cuts[1].candidate, 2); /* "ab" */
    assert_int_equal(cuts[2].candidate, 3); /* "a" */
    assert_int_equal(cuts[3].candidate, 3); /* "ax" */
}

static void test_sixteen_at_most(void **state)
{
    static const float firsts[] = {0, -1, -2, -3};
    static const char *const texts[] = {"abc", "bcd", "cde", "def", "efg", "fgh"};
    (void)state;
    struct choice_candidate six[ARRAY_COUNT(texts)];
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        six[i] = candidate(texts[i], firsts);
    }
    KEPT(six, 5, CHOICE_SCORED_MAX, "abc", "a", "b", "c", "d", "e", "ab", "bc", "cd", "de", "ef",
        "bcd", "cde", "def", "efg"); /* 15 */
    KEPT(six, 6, CHOICE_SCORED_MAX, "abc", "a", "b", "c", "d", "e", "f", "ab", "bc", "cd", "de",
        "ef", "fg", "bcd", "cde", "def");
}

static void test_where_cuts_are(void **state)
{
    static const float firsts[] = {0, -1, -2, -3, -4};
    static const int32_t ends[] = {0, -1, 2, -1, 4}; /* a character of two tokens, twice */
    (void)state;
    struct choice_candidate one = candidate("abcd", firsts);
    one.ends = ends;
    KEPT(&one, 1, 8, "abcd", "ab");
    one = candidate("abcd", firsts);
    one.from = 3;
    KEPT(&one, 1, 8, "abcd", "abc");
    one.to = -1;
    check_kept(&one, 1, 8, (const char *const[]){NULL});
}

static void test_score(void **state)
{
    static const float right[] = {-1, -2, -3}, fill[] = {-4, -6};
    (void)state;
    assert_float_equal(choice_score(right, 3, fill, 2), -16, 1e-6);
    assert_float_equal(choice_score(right, 1, fill, 1), -5, 1e-6);
    assert_float_equal(choice_score(right, 3, NULL, 0), -6, 1e-6);
    assert_float_equal(choice_score(NULL, 0, fill, 2), -10, 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_likeliest_branches),
        cmocka_unit_test(test_most_branches),
        cmocka_unit_test(test_best_first),
        cmocka_unit_test(test_fill_counts),
        cmocka_unit_test(test_greedy_is_kept),
        cmocka_unit_test(test_ties_go_by_order),
        cmocka_unit_test(test_no_text_twice),
        cmocka_unit_test(test_sixteen_at_most),
        cmocka_unit_test(test_where_cuts_are),
        cmocka_unit_test(test_score),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
