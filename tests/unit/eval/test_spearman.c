/*
 * Goal: rank correlation is right, ties included, and says when there is none.
 * Method: examples worked out by hand; random lists full of ties against the definition (a rank is
 * counted by looking at all others, then Pearson's formula in floating point); order, limits and
 * failing allocations.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>
#include "engine/base/attr.h"
#include "engine/base/mem.h"
#include "eval/spearman.h"
#include "tests/dice.h"

enum { RANDOM_MAX = 60, ROUNDS = 300 };

static double rho_of(const double *a, const double *b, size_t count)
{
    double rho = 7;
    assert_int_equal(spearman(a, b, count, &rho), ERR_OK);
    return rho;
}

static void test_by_hand(void **state)
{
    (void)state;
    /* No ties: 1 - 6 sum d^2 / (n (n^2 - 1)) with sum d^2 = 194, n = 10. */
    static const double iq[] = {106, 86, 100, 101, 99, 103, 97, 113, 112, 110};
    static const double hours[] = {7, 0, 27, 50, 28, 29, 20, 12, 6, 17};
    assert_float_equal(rho_of(iq, hours, 10), -29.0 / 165, 1e-15);
    /* Ranks 1, 2.5, 2.5, 4 and 1, 3, 2, 4: 4.5 / sqrt(4.5 * 5). */
    static const double tied[] = {1, 2, 2, 3}, plain[] = {-5, 0.5, 0.25, 1e300};
    assert_float_equal(rho_of(tied, plain, 4), sqrt(0.9), 1e-15);
    /* Ranks 2, 2, 2, 4 and 1.5, 1.5, 3.5, 3.5: 2 / sqrt(3 * 4). */
    static const double three[] = {0, 0, -0.0, 1}, two[] = {3, 3, 4, 4};
    assert_true(fabs(rho_of(three, two, 4) - 1 / sqrt(3)) < 1e-15);
}

static void test_ends(void **state)
{
    (void)state;
    static const double up[] = {1, 2, 2, 9, 10}, down[] = {4, 3, 3, -1, -7};
    assert_true(rho_of(up, up, 5) == 1);
    assert_true(rho_of(up, down, 5) == -1);
    assert_true(rho_of(down, up, 5) == -1);
}

static void test_none(void **state)
{
    (void)state;
    static const double same[] = {2, 2, 2}, other[] = {1, 2, 3};
    assert_true(isnan(rho_of(same, other, 3)));
    assert_true(isnan(rho_of(other, same, 3)));
    assert_true(isnan(rho_of(other, other, 1)));
    assert_true(isnan(rho_of(other, other, 0)));
}

/* ---- the definition ---- */

static void rank(const double *values, size_t count, double *ranks)
{
    for (size_t i = 0; i < count; i++) {
        double less = 0, equal = 0;
        for (size_t j = 0; j < count; j++) {
            less += values[j] < values[i];
            equal += values[j] == values[i];
        }
        ranks[i] = less + (equal + 1) / 2;
    }
}

static double mean(const double *values, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += values[i];
    }
    return sum / (double)count;
}

static double defined(const double *a, const double *b, size_t count)
{
    double ranks[2][RANDOM_MAX], products = 0, squares[2] = {0};
    rank(a, count, ranks[0]);
    rank(b, count, ranks[1]);
    double means[2] = {mean(ranks[0], count), mean(ranks[1], count)};
    for (size_t i = 0; i < count; i++) {
        double x = ranks[0][i] - means[0], y = ranks[1][i] - means[1];
        products += x * y;
        squares[0] += x * x;
        squares[1] += y * y;
    }
    return products / sqrt(squares[0] * squares[1]);
}

static void test_random(void **state)
{
    (void)state;
    struct dice dice = {.seed = 31};
    print_message("seed %d\n", (int)dice.seed);
    int undefined = 0;
    for (int round = 0; round < ROUNDS; round++) {
        double a[RANDOM_MAX], b[RANDOM_MAX], reversed[2][RANDOM_MAX];
        size_t count = 2 + (size_t)roll(&dice, RANDOM_MAX - 1);
        int32_t kinds = 1 + roll(&dice, 20);
        for (size_t i = 0; i < count; i++) {
            a[i] = (double)roll(&dice, kinds) / 5 - 1;
            b[i] = (double)roll(&dice, kinds) + a[i];
            reversed[0][count - 1 - i] = a[i];
            reversed[1][count - 1 - i] = b[i];
        }
        double rho = rho_of(a, b, count), again = rho_of(reversed[0], reversed[1], count);
        assert_memory_equal(&rho, &again, sizeof(rho));
        if (isnan(rho)) {
            undefined++;
        } else {
            assert_float_equal(rho, defined(a, b, count), 1e-12);
        }
    }
    assert_true(undefined > 0 && undefined < ROUNDS / 4);
}

/* Sums of the largest count are whole numbers still. */
static void test_largest(void **state)
{
    (void)state;
    double *up = malloc(SPEARMAN_VALUES_MAX * sizeof(double));
    double *down = malloc(SPEARMAN_VALUES_MAX * sizeof(double));
    assert_true(up != NULL && down != NULL);
    for (size_t i = 0; i < SPEARMAN_VALUES_MAX; i++) {
        up[i] = (double)i;
        down[i] = -up[i];
    }
    assert_true(rho_of(up, up, SPEARMAN_VALUES_MAX) == 1);
    assert_true(rho_of(up, down, SPEARMAN_VALUES_MAX) == -1);
    free(up);
    free(down);
}

static void test_no_memory(void **state)
{
    (void)state;
    static const double values[] = {1, 2, 3};
    for (uint64_t nth = 1; nth <= 2; nth++) {
        double rho = 7;
        mem_fail_after(nth, 0);
        assert_int_equal(spearman(values, values, 3, &rho), ERR_NO_MEMORY);
        mem_fail_after(0, 0);
        assert_true(rho == 7);
    }
    assert_int_equal(mem_bytes(MEM_OTHER), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_none),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_largest),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
