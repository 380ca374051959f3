/* Goal: label probabilities are softmaxes of the right logits. Method: exact small cases. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "engine/sample/labels.h"

enum { VOCAB = 6 };

static const int32_t yes[2] = {1, 4}, no[1] = {3}, maybe[1] = {5}, same[1] = {1};
static const struct plan_choice choices[4] = {{no, 1}, {yes, 2}, {maybe, 1}, {same, 1}};

static double log_sum_exp(const float *logits)
{
    double sum = 0;
    for (int32_t i = 0; i < VOCAB; i++) {
        sum += exp((double)logits[i]);
    }
    return log(sum);
}

static void test_probabilities(void **state)
{
    /* exp: 1 4 2 2 100 1, so the candidates have 2, 4, 1 of 7 and yes has 4 of 110. */
    const float logits[VOCAB] = {0, logf(4), logf(2), logf(2), logf(100), 0};
    float p[3], confidence;
    int32_t choice;
    enum err err = labels_read(logits, log_sum_exp(logits), choices, 3, p, &choice, &confidence);
    assert_int_equal(err, ERR_OK);
    assert_int_equal(choice, 1);
    assert_float_equal(p[0], 2.0 / 7, 1e-6);
    assert_float_equal(p[1], 4.0 / 7, 1e-6);
    assert_float_equal(p[2], 1.0 / 7, 1e-6);
    assert_float_equal(p[0] + p[1] + p[2], 1, 1e-6);
    assert_float_equal(confidence, 4.0 / 110, 1e-6);
}

static void test_ties_and_one_choice(void **state)
{
    const float logits[VOCAB] = {0, 3, 0, 2, 0, 0};
    float p[4], confidence;
    int32_t choice;
    enum err err = labels_read(logits, log_sum_exp(logits), choices, 4, p, &choice, &confidence);
    assert_int_equal(err, ERR_OK);
    assert_int_equal(choice, 1); /* as likely as the fourth, first in the list */
    assert_true(p[1] == p[3]);
    err = labels_read(logits, log_sum_exp(logits), choices, 1, p, &choice, &confidence);
    assert_int_equal(err, ERR_OK);
    assert_int_equal(choice, 0);
    assert_true(p[0] == 1);
    assert_true(confidence < 0.3f); /* a single label still has its share of the vocabulary */
}

/* Logits far from zero neither overflow nor leave the interval. */
static void test_large_logits(void **state)
{
    const float logits[VOCAB] = {-1e30f, 3e38f, -3e38f, 2e38f, -1, -2};
    float p[3], confidence;
    int32_t choice;
    assert_int_equal(
        labels_read(logits, 2.9999999e38, choices, 3, p, &choice, &confidence), ERR_OK);
    assert_true(p[0] == 0 && p[1] == 1 && p[2] == 0);
    assert_true(confidence == 1);
}

static void test_not_finite(void **state)
{
    const float bad[3] = {NAN, INFINITY, -INFINITY};
    for (int32_t i = 0; i < 3; i++) {
        float logits[VOCAB] = {0, 1, 2, 3, 4, 5};
        float p[3] = {9, 9, 9}, confidence = 9;
        int32_t choice = 9;
        logits[5] = bad[i];
        assert_int_equal(
            labels_read(logits, 5, choices, 3, p, &choice, &confidence), ERR_NON_FINITE);
        logits[5] = 0;
        assert_int_equal(labels_read(logits, (double)bad[i], choices, 3, p, &choice, &confidence),
            ERR_NON_FINITE);
        assert_true(p[0] == 9 && p[2] == 9 && choice == 9 && confidence == 9);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_probabilities),
        cmocka_unit_test(test_ties_and_one_choice),
        cmocka_unit_test(test_large_logits),
        cmocka_unit_test(test_not_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
