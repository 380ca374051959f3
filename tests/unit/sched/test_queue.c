/*
 * Goal: whoever waits is served in the order the header promises: shares by class, even shares by
 * client, first come first served within one, and nobody waits for ever.
 * Method: the queue alone, with jobs that are only counters and a clock that the test moves.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>
#include "engine/base/attr.h"
#include "engine/plan_check.h"
#include "engine/sched/queue.h"

enum { JOBS = 64, MANY = 1 << 20 };

struct rig {
    struct queue queue;
    struct job jobs[JOBS];
    int32_t served[JOBS];
    int32_t count;
    int64_t now_us;
};

static struct rig rig;

static void begin(void)
{
    memset(&rig, 0, sizeof rig);
    assert_int_equal(queue_open(&rig.queue, JOBS), ERR_OK);
    rig.now_us = 1000;
}

static void end(void)
{
    for (int32_t i = 0; i < rig.count; i++) {
        if (rig.jobs[i].place.flow != NULL) {
            queue_remove(&rig.queue, &rig.jobs[i]);
        }
    }
    for (int32_t c = 0; c < CLASS_COUNT; c++) {
        assert_null(rig.queue.classes[c].flows); /* every flow went back */
    }
    queue_close(&rig.queue);
}

static struct job *add(enum kind kind, uint64_t client, int32_t items, int32_t priority)
{
    struct job *job = &rig.jobs[rig.count++];
    job->plan =
        (struct plan){.kind = kind, .item_count = items, .client = client, .priority = priority};
    queue_add(&rig.queue, job, 0, rig.now_us);
    return job;
}

/* One pick, in a step of its own, that starts an item and costs so much. */
static struct job *serve(struct job *oldest, double cost_us)
{
    queue_begin(&rig.queue);
    struct job *job = queue_next(&rig.queue, oldest, rig.now_us);
    if (job != NULL) {
        job->items_started++;
        rig.served[job - rig.jobs]++;
        queue_served(&rig.queue, job, cost_us, (struct queue_turn){.begins = true}, rig.now_us);
    }
    return job;
}

static void test_classes(void **state)
{
    (void)state;
    static const struct {
        enum kind kind;
        int32_t items;
        enum urgency urgency;
        enum service_class want;
    } cases[] = {
        {KIND_INFILL, 1, URGENCY_NORMAL, CLASS_INTERACTIVE},
        {KIND_GENERATE, 1, URGENCY_NORMAL, CLASS_GENERATE},
        {KIND_CLASSIFY, 200, URGENCY_NORMAL, CLASS_CLASSIFY},
        {KIND_EMBED, LIMIT_BULK_INPUTS, URGENCY_NORMAL, CLASS_EMBED},
        {KIND_EMBED, LIMIT_BULK_INPUTS + 1, URGENCY_NORMAL, CLASS_BULK},
        {KIND_EMBED, LIMIT_BULK_INPUTS + 1, URGENCY_INTERACTIVE, CLASS_INTERACTIVE},
        {KIND_INFILL, 1, URGENCY_BULK, CLASS_BULK},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct plan plan = {
            .kind = cases[i].kind, .item_count = cases[i].items, .urgency = cases[i].urgency};
        assert_int_equal(plan_class(&plan), cases[i].want);
    }
}

static void test_first_come_first_served(void **state)
{
    (void)state;
    begin();
    struct job *jobs[4];
    for (int32_t i = 0; i < 4; i++) {
        jobs[i] = add(KIND_GENERATE, 7, 1, 0);
        rig.now_us += i == 1 ? 0 : 10; /* two come at the same moment */
    }
    for (int32_t i = 0; i < 4; i++) {
        assert_ptr_equal(serve(NULL, 100), jobs[i]);
    }
    assert_null(serve(NULL, 100));
    end();
}

/* Of five classes that all want more than there is, each gets its weight, whatever its pieces
 * cost. */
static void test_shares_of_classes(void **state)
{
    (void)state;
    begin();
    static const double cost[CLASS_COUNT] = {10, 1000, 40, 7, 250};
    static const enum kind kinds[CLASS_COUNT] = {
        KIND_INFILL, KIND_GENERATE, KIND_CLASSIFY, KIND_EMBED, KIND_EMBED};
    for (int32_t c = 0; c < CLASS_COUNT; c++) {
        struct job *job = add(kinds[c], 1, MANY, 0);
        if (c == CLASS_EMBED) { /* many items, and yet not bulk */
            queue_remove(&rig.queue, job);
            job->plan.item_count = 1;
            queue_add(&rig.queue, job, 0, rig.now_us);
            job->plan.item_count = MANY;
        }
        assert_int_equal(job->place.service_class, c);
    }
    double served[CLASS_COUNT] = {0}, all = 0, weights = 0;
    for (int32_t i = 0; i < 200000; i++) {
        queue_begin(&rig.queue);
        struct job *job = queue_next(&rig.queue, NULL, rig.now_us);
        enum service_class class = job->place.service_class;
        queue_served(&rig.queue, job, cost[class], (struct queue_turn){.begins = true}, rig.now_us);
        served[class] += cost[class];
        all += cost[class];
    }
    for (int32_t c = 0; c < CLASS_COUNT; c++) {
        weights += rig.queue.classes[c].weight;
    }
    for (int32_t c = 0; c < CLASS_COUNT; c++) {
        double want = all * rig.queue.classes[c].weight / weights;
        assert_true(served[c] > want * 0.99 - 1000 && served[c] < want * 1.01 + 1000);
    }
    end();
}

/* One pick in a step of its own, of a job whose prompt then has so much left. */
static struct job *serve_part(double rest_us)
{
    queue_begin(&rig.queue);
    struct job *job = queue_next(&rig.queue, NULL, rig.now_us);
    struct queue_turn turn = {.rest_us = rest_us, .begins = rest_us == 0};
    job->items_started = 1;
    job->place.pending = rest_us > 0;
    queue_served(&rig.queue, job, 10, turn, rig.now_us);
    return job;
}

static struct job *add_prompt(double rest_us)
{
    struct job *job = add(KIND_GENERATE, 1, 1, 0);
    queue_remove(&rig.queue, job);
    queue_add(&rig.queue, job, rest_us, rig.now_us);
    return job;
}

/* A prompt that is in pieces is finished before one as long that came later begins. A shorter one
 * goes first, unless the long one has waited QUEUE_REST times what it would take. */
static void test_one_prompt_after_the_other(void **state)
{
    (void)state;
    begin();
    struct job *first = add_prompt(30), *second = add_prompt(30);
    for (double rest_us = 20; rest_us >= 0; rest_us -= 10) {
        assert_ptr_equal(serve_part(rest_us), first);
        rig.now_us += 15;
    }
    struct job *shorter = add_prompt(20);
    assert_ptr_equal(serve_part(10), shorter);
    assert_ptr_equal(serve_part(0), shorter);
    rig.now_us += QUEUE_REST * 30;
    (void)add_prompt(20);
    assert_ptr_equal(serve_part(0), second);
    end();
}

/* Thirty requests of one client beside one of another: the other's next item is every second. */
static void test_shares_of_clients(void **state)
{
    (void)state;
    begin();
    for (int32_t i = 0; i < 30; i++) {
        (void)add(KIND_GENERATE, 1, 100, 0);
    }
    (void)serve(NULL, 100);
    struct job *other = add(KIND_GENERATE, 2, 100, 0);
    int32_t others = 0;
    for (int32_t i = 0; i < 60; i++) {
        others += serve(NULL, 100) == other;
    }
    assert_in_range(others, 29, 31);
    end();
}

/* A job of 2,048 items and one that comes later take turns, item by item. */
static void test_many_items_take_turns(void **state)
{
    (void)state;
    begin();
    struct job *many = add(KIND_CLASSIFY, 1, 2048, 0);
    for (int32_t i = 0; i < 20; i++) {
        rig.now_us += 10;
        assert_ptr_equal(serve(NULL, 100), many);
    }
    rig.now_us += 10;
    struct job *few = add(KIND_CLASSIFY, 1, 5, 0);
    for (int32_t i = 0; i < 5; i++) {
        rig.now_us += 10;
        assert_ptr_equal(serve(NULL, 100), i % 2 == 0 ? many : few);
    }
    assert_in_range(rig.served[few - rig.jobs], 2, 3);
    end();
}

/* A unit of priority is worth QUEUE_PRIORITY_US of waiting, not a microsecond more. */
static void test_priority_is_a_head_start(void **state)
{
    (void)state;
    for (int32_t late = 0; late <= 1; late++) {
        begin();
        struct job *patient = add(KIND_GENERATE, 1, 1, LIMIT_PRIORITY);
        rig.now_us += 2 * LIMIT_PRIORITY * (int64_t)QUEUE_PRIORITY_US - 1 + late;
        struct job *urgent = add(KIND_GENERATE, 1, 1, -LIMIT_PRIORITY);
        assert_ptr_equal(serve(NULL, 100), late ? patient : urgent);
        end();
    }
}

/* Bulk that owes a lot waits behind a busy class, but no longer than QUEUE_AGE_US. */
static void test_ageing(void **state)
{
    (void)state;
    begin();
    struct job *busy = add(KIND_INFILL, 1, MANY, 0);
    struct job *old = add(KIND_EMBED, 2, 2000, 0);
    queue_charge(&rig.queue, old, 1e12);
    rig.now_us += QUEUE_AGE_US - 1;
    assert_ptr_equal(serve(old, 100), busy);
    rig.now_us += 1;
    queue_begin(&rig.queue);
    assert_ptr_equal(queue_next(&rig.queue, old, rig.now_us), old);
    assert_ptr_equal(queue_next(&rig.queue, old, rig.now_us), busy); /* one a step */
    assert_ptr_equal(serve(old, 100), old);
    assert_ptr_equal(serve(old, 100), busy); /* it has begun: shares again */
    end();
}

/* An item that cannot start holds up those of its class; aged, those of all. Running ones go on,
 * and where pages are short, those that need none. */
static void test_hold(void **state)
{
    (void)state;
    static const int32_t token = 5;
    static const struct plan_item text = {.tokens = &token, .token_count = 1, .step_count = 1};
    static const struct plan_item vector = {
        .tokens = &token, .token_count = 1, .context_count = 1, .pooling = POOLING_MEAN};
    for (int32_t i = 0; i < 4; i++) {
        bool is_aged = i % 2 == 1;
        enum queue_held what = i < 2 ? QUEUE_ALL : QUEUE_PAGES;
        begin();
        struct job *large = add(KIND_GENERATE, 1, 1, 0);
        struct job *small = add(KIND_GENERATE, 2, 1, 0);
        struct job *embed = add(KIND_EMBED, 2, 1, 0);
        struct job *running = add(KIND_GENERATE, 3, 1, 0);
        running->items_started = 1;
        large->plan.items = small->plan.items = &text;
        embed->plan.items = &vector;
        rig.now_us += QUEUE_AGE_US - 1 + is_aged;
        queue_begin(&rig.queue);
        queue_hold(&rig.queue, large, what, rig.now_us);
        running->place.pending = 1;
        assert_ptr_equal(queue_next(&rig.queue, NULL, rig.now_us), running);
        running->place.pending = 0;
        bool held = is_aged && what == QUEUE_ALL;
        assert_ptr_equal(queue_next(&rig.queue, NULL, rig.now_us), held ? NULL : embed);
        queue_begin(&rig.queue); /* the next step holds nobody */
        assert_ptr_equal(queue_next(&rig.queue, NULL, rig.now_us), large);
        queue_pass_over(&rig.queue, large);
        assert_ptr_equal(queue_next(&rig.queue, NULL, rig.now_us), small);
        end();
    }
}

/* Who rested is not paid back for it. */
static void test_rest_saves_no_claim(void **state)
{
    (void)state;
    begin();
    struct job *early = add(KIND_GENERATE, 1, MANY, 0);
    for (int32_t i = 0; i < 1000; i++) {
        assert_ptr_equal(serve(NULL, 100), early);
    }
    (void)add(KIND_GENERATE, 2, MANY, 0);
    (void)add(KIND_INFILL, 2, MANY, 0);
    for (int32_t i = 0; i < 900; i++) {
        (void)serve(NULL, 100);
    }
    /* Two thirds are the interactive class's, the rest is shared by the two clients. */
    assert_in_range(rig.served[2], 590, 610);
    assert_in_range(rig.served[0] - 1000, 140, 160);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_classes),
        cmocka_unit_test(test_first_come_first_served),
        cmocka_unit_test(test_one_prompt_after_the_other),
        cmocka_unit_test(test_shares_of_classes),
        cmocka_unit_test(test_shares_of_clients),
        cmocka_unit_test(test_many_items_take_turns),
        cmocka_unit_test(test_priority_is_a_head_start),
        cmocka_unit_test(test_ageing),
        cmocka_unit_test(test_hold),
        cmocka_unit_test(test_rest_saves_no_claim),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
