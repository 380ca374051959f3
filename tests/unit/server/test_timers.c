/*
 * The timer heap. Goal: whatever is armed, moved and cancelled, timers expire in order of time,
 * each once, and cancelled ones never. Method: random operations against a plain array that is
 * searched from end to end, with a printed seed; then the two cases that break heaps with back
 * pointers, a callback that cancels the next timer and one that arms again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include "server/timers.h"

enum { COUNT = 40, ROUNDS = 20000 };

struct item {
    struct timer timer;
    int64_t expected_us; /* -1 = not armed */
    int expired;
};

static void expire(void *owner)
{
    struct item *item = owner;
    item->expired++;
}

static int64_t earliest(const struct item *items)
{
    int64_t at = -1;
    for (int i = 0; i < COUNT; i++) {
        if (items[i].expected_us >= 0 && (at < 0 || items[i].expected_us < at)) {
            at = items[i].expected_us;
        }
    }
    return at;
}

static void run_and_check(struct timers *timers, struct item *items, int64_t now_us)
{
    timers_run(timers, now_us);
    for (int i = 0; i < COUNT; i++) {
        bool due = items[i].expected_us >= 0 && items[i].expected_us <= now_us;
        assert_int_equal(items[i].expired, due);
        items[i].expired = 0;
        if (due) {
            items[i].expected_us = -1;
        }
        assert_int_equal(timer_armed(&items[i].timer), items[i].expected_us >= 0);
    }
}

static void test_against_an_array(void **state)
{
    (void)state;
    struct item items[COUNT];
    struct timers timers;
    unsigned seed = 20240501;
    printf("seed %u\n", seed);
    srand(seed);
    assert_int_equal(timers_init(&timers, COUNT), ERR_OK);
    for (int i = 0; i < COUNT; i++) {
        timer_init(&items[i].timer, expire, &items[i]);
        items[i].expected_us = -1;
        items[i].expired = 0;
    }
    int64_t now_us = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct item *item = &items[rand() % COUNT];
        int what = rand() % 8;
        if (what < 4) {
            item->expected_us = now_us + 1 + rand() % 100;
            timers_set(&timers, &item->timer, item->expected_us);
        } else if (what < 6) {
            item->expected_us = -1;
            timers_cancel(&timers, &item->timer);
        } else {
            now_us += rand() % 20;
            run_and_check(&timers, items, now_us);
        }
        assert_int_equal(timers_next_us(&timers), earliest(items));
    }
    timers_free(&timers);
}

struct chain {
    struct timers *timers;
    struct timer first, second;
    int first_expired, second_expired;
};

static void cancel_second(void *owner)
{
    struct chain *chain = owner;
    chain->first_expired++;
    timers_cancel(chain->timers, &chain->second);
}

static void arm_again(void *owner)
{
    struct chain *chain = owner;
    chain->second_expired++;
    timers_set(chain->timers, &chain->second, 100);
}

static void test_callbacks_may_change_the_heap(void **state)
{
    (void)state;
    struct timers timers;
    struct chain chain = {.timers = &timers};
    assert_int_equal(timers_init(&timers, 2), ERR_OK);
    timer_init(&chain.first, cancel_second, &chain);
    timer_init(&chain.second, arm_again, &chain);
    timers_set(&timers, &chain.first, 10);
    timers_set(&timers, &chain.second, 10);
    timers_run(&timers, 9);
    assert_int_equal(chain.first_expired + chain.second_expired, 0);
    if (timers.heap[0] == &chain.second) {
        timers_set(&timers, &chain.second, 11); /* the first has to come first */
    }
    timers_run(&timers, 50);
    assert_int_equal(chain.first_expired, 1);
    assert_int_equal(chain.second_expired, 0);
    timers_set(&timers, &chain.second, 20);
    timers_run(&timers, 50);
    assert_int_equal(chain.second_expired, 1);
    assert_int_equal(timers_next_us(&timers), 100);
    timers_free(&timers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_an_array),
        cmocka_unit_test(test_callbacks_may_change_the_heap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
