/*
 * Goal: mode rerank keeps the cuts it should and no others, in an order that does not depend on
 * chance, and weighs right and fill as documented.
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

/* Cuts after 1..strlen(text) letters. */
static struct choice_candidate candidate(const char *text, const float *firsts)
{
    for (int32_t n = 0; n <= LETTERS_MAX; n++) {
        letter_ends[n] = n;
    }
    return (struct choice_candidate){.text = text,
        .ends = letter_ends,
        .firsts = firsts,
        .from = 1,
        .to = (int32_t)strlen(text)};
}

static void check_kept(
    const struct choice_candidate *candidates, int32_t count, const char *const *expected)
{
    struct choice_cut cuts[CHOICE_KEPT];
    int32_t kept = choice_keep(candidates, count, cuts);
    for (int32_t i = 0; i < kept; i++) {
        char text[LETTERS_MAX + 1];
        const struct choice_candidate *from = &candidates[cuts[i].candidate];
        (void)snprintf(text, sizeof(text), "%.*s", from->ends[cuts[i].token_count], from->text);
        assert_non_null(expected[i]);
        assert_string_equal(text, expected[i]);
    }
    assert_null(expected[kept]);
}

static void test_best_first(void **state)
{
    static const float a[] = {0, -3, -1}, b[] = {0, -2, -4};
    (void)state;
    const struct choice_candidate two[] = {candidate("ab", a), candidate("xy", b)};
    check_kept(two, 2, (const char *const[]){"ab", "x", "a", "xy", NULL});
    check_kept(two, 0, (const char *const[]){NULL});
}

static void test_ties_go_by_order(void **state)
{
    static const float same[] = {0, -1, -1};
    (void)state;
    const struct choice_candidate two[] = {candidate("ab", same), candidate("xy", same)};
    check_kept(two, 2, (const char *const[]){"a", "ab", "x", "xy", NULL});
}

/* The same text in other tokens has another score; the better one stands for both. */
static void test_no_text_twice(void **state)
{
    static const float a[] = {0, -5, -6}, b[] = {0, -1}, c[] = {0, -2, -3};
    static const int32_t one_token[] = {0, 2};
    (void)state;
    struct choice_candidate three[] = {candidate("ab", a), candidate("ab", b), candidate("ax", c)};
    three[1].ends = one_token;
    three[1].to = 1;
    struct choice_cut cuts[CHOICE_KEPT];
    assert_int_equal(choice_keep(three, 3, cuts), 3);
    assert_int_equal(cuts[0].candidate, 1); /* "ab" */
    assert_int_equal(cuts[1].candidate, 2); /* "a" */
    assert_int_equal(cuts[2].candidate, 2); /* "ax" */
}

static void test_three_of_one(void **state)
{
    static const float a[] = {0, -1, -2, -3, -4, -5}, b[] = {0, -9, -9};
    (void)state;
    const struct choice_candidate two[] = {candidate("abcde", a), candidate("xy", b)};
    check_kept(two, 2, (const char *const[]){"a", "ab", "abc", "x", "xy", NULL});
    /* A text that two candidates begin with may be the other's fourth. */
    static const float c[] = {0, -20, -20, -20, -20};
    const struct choice_candidate shared[] = {candidate("abcde", a), candidate("abcd", c)};
    check_kept(shared, 2, (const char *const[]){"a", "ab", "abc", "abcd", NULL});
}

static void test_sixteen_at_most(void **state)
{
    static const float scores[] = {0, -1, -2, -3};
    static const char *const texts[] = {"abc", "bcd", "cde", "def", "efg", "fgh"};
    (void)state;
    struct choice_candidate six[ARRAY_COUNT(texts)];
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        six[i] = candidate(texts[i], scores);
    }
    check_kept(six, 5,
        (const char *const[]){"a", "b", "c", "d", "e", "ab", "bc", "cd", "de", "ef", "abc", "bcd",
            "cde", "def", "efg", NULL}); /* 15 */
    check_kept(six, 6,
        (const char *const[]){"a", "b", "c", "d", "e", "f", "ab", "bc", "cd", "de", "ef", "fg",
            "abc", "bcd", "cde", "def", NULL});
}

static void test_where_cuts_are(void **state)
{
    static const float scores[] = {0, -1, -2, -3, -4};
    static const int32_t ends[] = {0, -1, 2, -1, 4}; /* a character of two tokens, twice */
    (void)state;
    struct choice_candidate one = candidate("abcd", scores);
    one.ends = ends;
    check_kept(&one, 1, (const char *const[]){"ab", "abcd", NULL});
    one = candidate("abcd", scores);
    one.from = 3;
    check_kept(&one, 1, (const char *const[]){"abc", "abcd", NULL});
    one.to = -1;
    check_kept(&one, 1, (const char *const[]){NULL});
}

static void test_score(void **state)
{
    static const float right[] = {-1, -2, -3}, fill[] = {-4, -6};
    (void)state;
    assert_float_equal(choice_score(right, 3, fill, 2), -2.0 + 0.3 * -5.0, 1e-6);
    assert_float_equal(choice_score(right, 1, fill, 1), -1.0 + 0.3 * -4.0, 1e-6);
    assert_float_equal(choice_score(right, 3, NULL, 0), -2.0, 1e-6);
    assert_float_equal(choice_score(NULL, 0, fill, 2), 0.3 * -5.0, 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_best_first),
        cmocka_unit_test(test_ties_go_by_order),
        cmocka_unit_test(test_no_text_twice),
        cmocka_unit_test(test_three_of_one),
        cmocka_unit_test(test_sixteen_at_most),
        cmocka_unit_test(test_where_cuts_are),
        cmocka_unit_test(test_score),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
