/*
 * Goal: a ring loses nothing, repeats nothing, keeps each producer's order, never blocks a
 * producer, and its waits end when they should.
 * Method: single-threaded at the borders (full, empty, indices that wrap past 2^32), then four
 * producers against one consumer over a small ring.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/ring.h"

struct message {
    uint32_t producer, number;
    char pad[5]; /* an odd size */
};

static void test_full_and_empty(void **state)
{
    struct ring ring;
    assert_int_equal(ring_init(&ring, 4, sizeof(uint32_t)), ERR_OK);
    ring.head = ring.tail = UINT32_MAX - 5; /* the indices wrap during the test */
    uint32_t next_in = 0, next_out = 0, got;
    for (int round = 0; round < 20; round++) {
        while (ring_push(&ring, &next_in)) {
            next_in++;
        }
        assert_int_equal(ring_count(&ring), 4);
        for (int i = 0; i < 1 + round % 4; i++) {
            assert_true(ring_pop(&ring, &got));
            assert_int_equal(got, next_out++);
        }
    }
    while (ring_pop(&ring, &got)) {
        assert_int_equal(got, next_out++);
    }
    assert_int_equal(next_in, next_out);
    assert_int_equal(ring_count(&ring), 0);
    ring_free(&ring);
    ring_free(&ring);
    ring_free(NULL);
    assert_int_equal(mem_bytes(MEM_JOBS), 0);
}

static void test_waits_end(void **state)
{
    struct ring ring;
    uint32_t value = 7, got = 0;
    assert_int_equal(ring_init(&ring, 2, sizeof value), ERR_OK);
    int64_t before = clock_now_us(NULL);
    assert_false(ring_pop_wait(&ring, &got, 30));
    int64_t waited = clock_now_us(NULL) - before;
    assert_true(waited >= 29000 && waited < 5000000);
    assert_false(ring_pop_wait(&ring, &got, 0));

    ring_wake(&ring); /* a wake before the wait counts, once */
    assert_false(ring_pop_wait(&ring, &got, -1));
    before = clock_now_us(NULL);
    assert_false(ring_pop_wait(&ring, &got, 20));
    assert_true(clock_now_us(NULL) - before >= 19000);

    /* An element goes before a wake, which stays for the next empty wait. */
    assert_true(ring_push(&ring, &value));
    ring_wake(&ring);
    assert_true(ring_pop_wait(&ring, &got, -1));
    assert_int_equal(got, 7);
    assert_false(ring_pop_wait(&ring, &got, -1));
    ring_free(&ring);
}

static void *wake_later(void *argument)
{
    const struct timespec pause = {0, 20000000};
    nanosleep(&pause, NULL);
    ring_wake(argument);
    return NULL;
}

static void *push_later(void *argument)
{
    const struct timespec pause = {0, 20000000};
    uint32_t value = 99;
    nanosleep(&pause, NULL);
    return ring_push(argument, &value) ? argument : NULL;
}

static void test_sleeping_consumer(void **state)
{
    struct ring ring;
    uint32_t got = 0;
    pthread_t thread;
    void *result = NULL;
    assert_int_equal(ring_init(&ring, 2, sizeof got), ERR_OK);
    assert_int_equal(pthread_create(&thread, NULL, wake_later, &ring), 0);
    assert_false(ring_pop_wait(&ring, &got, -1));
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(pthread_create(&thread, NULL, push_later, &ring), 0);
    assert_true(ring_pop_wait(&ring, &got, -1));
    assert_int_equal(got, 99);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, &ring);
    ring_free(&ring);
}

enum { PRODUCERS = 4, MESSAGES = 5000 };

struct producer {
    struct ring *ring;
    uint32_t index;
    uint32_t refused;
};

static void *produce(void *argument)
{
    struct producer *producer = argument;
    for (uint32_t i = 0; i < MESSAGES; i++) {
        struct message message = {.producer = producer->index, .number = i, .pad = "pad"};
        while (!ring_push(producer->ring, &message)) {
            producer->refused++;
            sched_yield();
        }
    }
    return NULL;
}

static void test_many_producers(void **state)
{
    struct ring ring;
    struct producer producers[PRODUCERS];
    pthread_t threads[PRODUCERS];
    uint32_t expected[PRODUCERS] = {0};
    assert_int_equal(ring_init(&ring, 8, sizeof(struct message)), ERR_OK);
    for (uint32_t i = 0; i < PRODUCERS; i++) {
        producers[i] = (struct producer){.ring = &ring, .index = i};
        assert_int_equal(pthread_create(&threads[i], NULL, produce, &producers[i]), 0);
    }
    for (int i = 0; i < PRODUCERS * MESSAGES; i++) {
        struct message message;
        assert_true(ring_pop_wait(&ring, &message, 10000));
        assert_true(message.producer < PRODUCERS);
        assert_int_equal(message.number, expected[message.producer]++);
        assert_string_equal(message.pad, "pad");
    }
    for (int i = 0; i < PRODUCERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(expected[i], MESSAGES);
    }
    assert_int_equal(ring_count(&ring), 0);
    ring_free(&ring);
}

static void test_without_memory(void **state)
{
    struct ring ring;
    mem_fail_after(1, 0);
    enum err err = ring_init(&ring, 4, 16);
    mem_fail_after(0, 0);
    assert_int_equal(err, ERR_NO_MEMORY);
    ring_free(&ring); /* half-built is allowed */
}

static int64_t fake_now(void *context)
{
    return *(int64_t *)context += 5;
}

static void test_a_clock_can_be_faked(void **state)
{
    int64_t time = 100;
    struct clock clock = {.now_us = fake_now, .context = &time};
    assert_int_equal(clock_now_us(&clock), 105);
    assert_int_equal(clock_now_us(&clock), 110);
    const struct clock computing = {clock_thread_us, NULL};
    int64_t computed = clock_now_us(&computing);
    assert_int_equal(usleep(50000), 0);
    assert_in_range(clock_now_us(&computing) - computed, 0, 20000);
    int64_t first = clock_now_us(NULL);
    assert_true(clock_now_us(NULL) >= first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full_and_empty),
        cmocka_unit_test(test_waits_end),
        cmocka_unit_test(test_sleeping_consumer),
        cmocka_unit_test(test_many_producers),
        cmocka_unit_test(test_without_memory),
        cmocka_unit_test(test_a_clock_can_be_faked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
