/*
 * Goal: the estimate of a step is the formula of budget.h with the machine's numbers in it, and
 * keeps following the machine.
 * Method: a machine that obeys the formula is measured; sums over keys are compared with counting.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include "engine/attn/mask.h"
#include "engine/base/attr.h"
#include "engine/sched/budget.h"

static void assert_near(double a, double b, double share)
{
    if (fabs(a - b) > share * fabs(b)) {
        fail_msg("%g is not %g", a, b);
    }
}

static void test_keys_of_rows(void **state)
{
    (void)state;
    for (int32_t slot = 0; slot < 12; slot++) {
        for (int32_t rows = 0; rows < 12; rows++) {
            for (int32_t context = 0; context < 24; context++) {
                int64_t keys = 0;
                for (int32_t i = 0; i < rows; i++) {
                    keys += mask_visible(context, slot + i);
                }
                struct load load = budget_rows(slot, rows, context);
                assert_int_equal(load.rows, rows);
                assert_int_equal(load.keys, keys);
            }
        }
    }
}

/* A machine with a knee at 6 rows. */
struct machine {
    struct budget truth;
    int32_t calls;
};

static int64_t measure(void *context, int32_t rows, int32_t slot, int32_t heads)
{
    struct machine *machine = context;
    struct load load = budget_rows(slot, rows, 0);
    load.heads = heads;
    machine->calls++;
    return (int64_t)budget_cost(&machine->truth, &load);
}

static void test_calibration_finds_the_machine(void **state)
{
    (void)state;
    struct machine machine = {.truth = {.pass_us = 4000,
                                  .fixed_us = 1000,
                                  .row_us = 500,
                                  .key_us = 0.5,
                                  .head_us = 900,
                                  .head_row_us = 150}};
    struct budget budget;
    budget_init(&budget, 0);
    budget_calibrate(&budget, measure, &machine, 512, 544, 8);
    assert_near(budget.pass_us, 4000, 0.01);
    assert_near(budget.row_us, 500, 0.05);
    assert_near(budget.fixed_us, 1000, 0.1);
    assert_near(budget.key_us, 0.5, 0.05);
    assert_near(budget.head_us, 900, 0.01);
    assert_near(budget.head_row_us, 150, 0.01);
    assert_near(budget.step_us, BUDGET_STEP_US, 0);
}

/* On a slow machine, or under a sanitizer, one pass takes longer than all of the time. */
static void test_calibration_gives_up_in_time(void **state)
{
    (void)state;
    struct machine machine = {
        .truth = {.pass_us = BUDGET_CALIBRATE_US, .row_us = 90000, .head_us = 5000}};
    struct budget budget;
    budget_init(&budget, 1000);
    budget_calibrate(&budget, measure, &machine, 512, 544, 8);
    assert_int_equal(machine.calls, 1);
    assert_near(budget.pass_us, BUDGET_CALIBRATE_US, 0);
    assert_true(budget.row_us > 0);
    assert_near(budget.step_us, 1000, 0);
    machine.truth.pass_us--;
    machine.calls = 0;
    budget_calibrate(&budget, measure, &machine, 512, 544, 8);
    assert_int_equal(machine.calls, 2);
}

static void test_knee_and_limit(void **state)
{
    (void)state;
    struct budget budget = {
        .pass_us = 4000, .row_us = 500, .head_us = 900, .head_row_us = 150, .step_us = 50000};
    struct load load = {.rows = 8};
    assert_near(budget_cost(&budget, &load), 4000, 0); /* the knee is not in the way yet */
    load.rows = 9;
    assert_near(budget_cost(&budget, &load), 4500, 0);
    load.heads = 6;
    assert_near(budget_cost(&budget, &load), 5400, 0);
    load.heads = 7;
    assert_near(budget_cost(&budget, &load), 5550, 0);
    struct load none = {0};
    assert_near(budget_cost(&budget, &none), 0, 0);
    assert_near(budget_limit(&budget, &none), 50000, 0);
    budget.step_us = 7999; /* 16 rows cost more */
    assert_near(budget_limit(&budget, &none), 8000, 0);
    assert_near(budget_limit(&budget, &load), BUDGET_DECODES_TENTHS * 555.0, 0);
    assert_near(budget_share(&budget, &load), 9 * 500 + 7 * 150, 0);
}

/* The machine becomes three times as slow. Single outliers move little. */
static void test_learning(void **state)
{
    (void)state;
    struct budget budget = {.pass_us = 1000, .row_us = 100};
    struct load few = {.rows = 4}, many = {.rows = 100};
    budget.few_seen = budget.many_seen = 1000;
    budget_learn(&budget, &few, budget_cost(&budget, &few), 100 * 1000);
    assert_true(budget.pass_us < 1100);
    assert_near(budget.row_us, 100, 0); /* few rows tell nothing about many */
    budget_learn(&budget, &few, 0, 100);
    budget_learn(&budget, &few, 100, 0);
    for (int32_t i = 0; i < 300; i++) {
        budget_learn(&budget, &few, budget_cost(&budget, &few), 3000);
        budget_learn(&budget, &many, budget_cost(&budget, &many), 30000);
    }
    assert_near(budget.pass_us, 3000, 0.02);
    assert_near(budget.row_us, 300, 0.02);
    budget.few_seen = 0; /* after a bad calibration a few steps are enough */
    budget.pass_us = 50000;
    for (int32_t i = 0; i < 8; i++) {
        budget_learn(&budget, &few, budget_cost(&budget, &few), 3000);
    }
    assert_near(budget.pass_us, 3000, 0.1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys_of_rows),
        cmocka_unit_test(test_calibration_finds_the_machine),
        cmocka_unit_test(test_calibration_gives_up_in_time),
        cmocka_unit_test(test_knee_and_limit),
        cmocka_unit_test(test_learning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
