/*
 * Goal: the reuse store never hands out a slot whose K/V would differ from computed ones, finds all
 * it keeps, gives back the least recently used first and never what is in use.
 * Method: every stored slot gets a mark that follows from all its K/V depend on (salt, context
 * block, tokens and positions up to it). Lists that differ in one place are tried for every place;
 * then random sequences that branch off one another start, grow, end and are evicted, while every
 * mark that is handed out is compared with what it should be. The seed of a failing round is
 * printed.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>
#include "engine/base/mem.h"
#include "engine/base/rng.h"
#include "engine/cache/reuse.h"

enum { PAGE_SLOTS = 2 * KV_TILE, SLOTS_MAX = 5 * PAGE_SLOTS, PAGES = 64, LIVE = 4 };

struct list {
    struct reuse_key key;
    int32_t tokens[SLOTS_MAX], positions[SLOTS_MAX], count;
};

static void open_store(struct pages *pages, struct reuse *reuse, int32_t count, int32_t capacity)
{
    assert_int_equal(pages_open(pages, KV_F16, 1, 1, 16, PAGE_SLOTS, count), ERR_OK);
    assert_int_equal(reuse_open(reuse, pages, capacity), ERR_OK);
}

static struct slot_list part(const struct list *list, int32_t count)
{
    return (struct slot_list){list->tokens, list->positions, count};
}

static uint64_t mark(const struct list *list, int32_t slot)
{
    uint64_t hash = (uint64_t)list->key.salt[0] * 31 + (uint64_t)list->key.context_count +
                    (uint64_t)list->key.stack * 65537;
    for (int32_t i = 0; i < MAX(list->key.context_count, slot + 1); i++) {
        hash = (hash ^ (uint64_t)list->tokens[i]) * 0x9e3779b97f4a7c15U;
        hash = (hash ^ (uint64_t)list->positions[i]) * 0xbf58476d1ce4e5b9U;
        hash ^= hash >> 31;
    }
    return hash;
}

static unsigned char *mark_address(const struct slots *slots, int32_t slot)
{
    return slots->addresses[slot / PAGE_SLOTS] + (size_t)(slot % PAGE_SLOTS) * sizeof(uint64_t);
}

static void check_marks(const struct slots *slots, const struct list *list, int32_t count)
{
    for (int32_t slot = 0; slot < count; slot++) {
        uint64_t expected = mark(list, slot);
        assert_memory_equal(mark_address(slots, slot), &expected, sizeof expected);
    }
}

/* Stores slots [from, to): pages are held, and none of the slots is one that others see. */
static void store(struct slots *slots, const struct list *list, int32_t from, int32_t to)
{
    for (int32_t slot = from; slot < to; slot++) {
        int32_t page = slots->page_ids[slot / PAGE_SLOTS];
        assert_true(slot % PAGE_SLOTS >= slots->pages->sealed[page]);
        uint64_t value = mark(list, slot);
        memcpy(mark_address(slots, slot), &value, sizeof value);
    }
}

static void make_list(struct list *list, int32_t context_count, int32_t count)
{
    *list = (struct list){.key = {.context_count = context_count}, .count = count};
    for (int32_t i = 0; i < count; i++) {
        list->tokens[i] = 100 + i;
        list->positions[i] = i;
    }
}

/* One sequence computes the list and leaves it. */
static void leave(struct reuse *reuse, const struct list *list)
{
    struct slots slots;
    assert_int_equal(slots_init(&slots, reuse->pages, SLOTS_MAX), ERR_OK);
    struct slot_list whole = part(list, list->count);
    int32_t known = reuse_take(reuse, &list->key, &whole, &slots);
    check_marks(&slots, list, known);
    while (!slots_hold(&slots, list->count)) {
        assert_true(reuse_evict(reuse));
    }
    store(&slots, list, known, list->count);
    reuse_keep(reuse, &list->key, &whole, &slots);
    slots_free(&slots);
    reuse_trim(reuse);
}

static int32_t find(const struct reuse *reuse, const struct list *list)
{
    struct slot_list whole = part(list, list->count);
    return reuse_find(reuse, &list->key, &whole);
}

/* ---- one place at a time ------------------------------------------------------------------- */

static void test_causal_lists_match_up_to_the_first_difference(void **state)
{
    (void)state;
    struct pages pages;
    struct reuse reuse;
    struct list list;
    open_store(&pages, &reuse, PAGES, PAGES);
    make_list(&list, 0, 2 * PAGE_SLOTS + 5);
    leave(&reuse, &list);
    assert_int_equal(reuse.count, 3);
    for (int32_t i = 0; i < list.count; i++) {
        struct list other = list;
        other.tokens[i]++;
        assert_int_equal(find(&reuse, &other), i);
        other = list;
        other.positions[i]++;
        assert_int_equal(find(&reuse, &other), i);
        other = list;
        other.count = i + 1;
        assert_int_equal(find(&reuse, &other), i + 1);
    }
    struct list other = list;
    other.key.salt[LIMIT_SALT_BYTES - 1] = 1;
    assert_int_equal(find(&reuse, &other), 0);
    other = list;
    other.key.context_count = 1;
    assert_int_equal(find(&reuse, &other), 0);
    other = list;
    other.key.stack = 1;
    assert_int_equal(find(&reuse, &other), 0);
    reuse_close(&reuse);
    assert_int_equal(pages.free_count, pages.count);
    pages_close(&pages);
}

static void test_context_blocks_match_as_a_whole(void **state)
{
    (void)state;
    struct pages pages;
    struct reuse reuse;
    struct list list;
    open_store(&pages, &reuse, PAGES, PAGES);
    int32_t block = PAGE_SLOTS + 9;
    make_list(&list, block, block + PAGE_SLOTS); /* causal rows follow */
    leave(&reuse, &list);
    for (int32_t i = 0; i < list.count; i++) {
        struct list other = list;
        other.tokens[i]++;
        assert_int_equal(find(&reuse, &other), i < block ? 0 : i);
        other = list;
        other.positions[i]++;
        assert_int_equal(find(&reuse, &other), i < block ? 0 : i);
    }
    struct list other = list;
    other.count = block - 1; /* not even asked for as a whole */
    assert_int_equal(find(&reuse, &other), 0);
    other = list;
    other.key.context_count--;
    assert_int_equal(find(&reuse, &other), 0);
    /* Two blocks whose first pages hold the same tokens and other K/V live beside each other. */
    other = list;
    other.tokens[block - 1]++;
    leave(&reuse, &other);
    assert_int_equal(find(&reuse, &other), other.count);
    assert_int_equal(find(&reuse, &list), list.count);
    leave(&reuse, &list);
    leave(&reuse, &other);
    reuse_close(&reuse);
    pages_close(&pages);
}

/* ---- eviction ------------------------------------------------------------------------------ */

static void test_least_recently_used_goes_first_and_pins_stay(void **state)
{
    (void)state;
    struct pages pages;
    struct reuse reuse;
    struct list a, b, c;
    struct slots slots;
    open_store(&pages, &reuse, 6, 6);
    make_list(&a, 0, 2 * PAGE_SLOTS);
    b = c = a;
    b.tokens[0] = 1;
    c.tokens[0] = 2;
    leave(&reuse, &a);
    leave(&reuse, &b);
    leave(&reuse, &c);
    assert_int_equal(reuse_idle(&reuse), 6);
    assert_int_equal(slots_init(&slots, &pages, SLOTS_MAX), ERR_OK);
    struct slot_list half = part(&a, PAGE_SLOTS);
    assert_int_equal(reuse_take(&reuse, &a.key, &half, &slots), PAGE_SLOTS);
    assert_int_equal(reuse_idle(&reuse), 5);
    /* a's second page is the oldest; its first is in use and newer than all. */
    const int32_t left[][3] = {{1, 2, 2}, {1, 1, 2}, {1, 0, 2}, {1, 0, 1}, {1, 0, 0}}; /* pages */
    for (size_t i = 0; i < ARRAY_COUNT(left); i++) {
        assert_true(reuse_evict(&reuse));
        assert_int_equal(find(&reuse, &a), left[i][0] * PAGE_SLOTS);
        assert_int_equal(find(&reuse, &b), left[i][1] * PAGE_SLOTS);
        assert_int_equal(find(&reuse, &c), left[i][2] * PAGE_SLOTS);
    }
    assert_false(reuse_evict(&reuse));
    slots_release(&slots);
    assert_true(reuse_evict(&reuse));
    assert_int_equal(pages.free_count, 6);
    slots_free(&slots);
    reuse_close(&reuse);
    pages_close(&pages);
}

static void test_block_goes_as_a_whole(void **state)
{
    (void)state;
    struct pages pages;
    struct reuse reuse;
    struct list list;
    open_store(&pages, &reuse, 8, 8);
    make_list(&list, 2 * PAGE_SLOTS + 1, 4 * PAGE_SLOTS);
    leave(&reuse, &list);
    assert_int_equal(reuse.count, 4);
    assert_true(reuse_evict(&reuse)); /* causal rows behind the block */
    assert_int_equal(find(&reuse, &list), 3 * PAGE_SLOTS);
    assert_true(reuse_evict(&reuse));
    assert_int_equal(reuse.count, 0);
    reuse_close(&reuse);
    pages_close(&pages);
}

static void test_capacity(void **state)
{
    (void)state;
    struct pages pages;
    struct reuse reuse;
    struct list list;
    open_store(&pages, &reuse, 8, 3);
    make_list(&list, 0, 3 * PAGE_SLOTS);
    leave(&reuse, &list);
    assert_int_equal(reuse.count, 3); /* at the limit */
    make_list(&list, 0, 3 * PAGE_SLOTS + 1);
    leave(&reuse, &list); /* one page past it */
    assert_int_equal(reuse.count, 3);
    assert_int_equal(find(&reuse, &list), 3 * PAGE_SLOTS);
    reuse_close(&reuse);

    assert_int_equal(reuse_open(&reuse, &pages, 0), ERR_OK);
    leave(&reuse, &list);
    assert_int_equal(reuse.count, 0);
    assert_int_equal(find(&reuse, &list), 0);
    assert_int_equal(pages.free_count, 8);
    reuse_close(&reuse);
    pages_close(&pages);
}

/* The copy of a shared page needs a page: without one only whole pages are taken, and of a context
 * block that ends within a page nothing. */
static void test_no_page_for_the_copy(void **state)
{
    (void)state;
    struct pages pages;
    struct reuse reuse;
    struct list list;
    struct slots holder, slots;
    for (int32_t block = 0; block <= PAGE_SLOTS + 3; block += PAGE_SLOTS + 3) {
        open_store(&pages, &reuse, 2, 2);
        make_list(&list, block, PAGE_SLOTS + 3);
        leave(&reuse, &list);
        assert_int_equal(slots_init(&holder, &pages, SLOTS_MAX), ERR_OK);
        assert_int_equal(slots_init(&slots, &pages, SLOTS_MAX), ERR_OK);
        struct slot_list whole = part(&list, list.count);
        assert_int_equal(find(&reuse, &list), list.count);
        int32_t taken = reuse_take(&reuse, &list.key, &whole, &holder);
        assert_int_equal(taken, block == 0 ? PAGE_SLOTS : 0);
        check_marks(&holder, &list, taken);
        slots_free(&holder);
        slots_free(&slots);
        reuse_close(&reuse);
        assert_int_equal(pages.free_count, 2);
        pages_close(&pages);
    }
}

static void test_no_memory(void **state)
{
    (void)state;
    struct pages pages;
    struct reuse reuse;
    assert_int_equal(pages_open(&pages, KV_F16, 1, 1, 16, PAGE_SLOTS, 4), ERR_OK);
    uint64_t before = mem_bytes(MEM_CACHE);
    for (uint64_t nth = 1; nth <= 3; nth++) {
        mem_fail_after(nth, 0);
        assert_int_equal(reuse_open(&reuse, &pages, 4), ERR_NO_MEMORY);
    }
    mem_fail_after(0, 0);
    assert_int_equal(mem_bytes(MEM_CACHE), before);
    assert_int_equal(reuse_open(&reuse, &pages, 4), ERR_OK);
    assert_int_equal(mem_bytes(MEM_CACHE) - before, reuse_bytes(4, PAGE_SLOTS, 4));
    assert_int_equal(reuse_bytes(4, PAGE_SLOTS, 0), 0);
    reuse_close(&reuse);
    reuse_close(NULL);
    pages_close(&pages);
}

/* ---- random sequences ---------------------------------------------------------------------- */

struct dice {
    uint64_t seed, count;
};

static int32_t roll(struct dice *dice, int32_t sides)
{
    return (int32_t)(rng_uniform(dice->seed, 3, dice->count++) * sides);
}

struct live {
    struct list list; /* all it will ever hold */
    struct slots slots;
    int32_t stored; /* 0 = not running */
};

/* A beginning of `from`, then something else, under a key that is often the same. */
static void branch(struct list *list, const struct list *from, struct dice *dice)
{
    *list = *from;
    list->count = 1 + roll(dice, SLOTS_MAX);
    for (int32_t i = roll(dice, MAX(from->count, 1)); i < list->count; i++) {
        list->tokens[i] = roll(dice, 2);
        list->positions[i] = i + (roll(dice, 50) == 0);
    }
    if (roll(dice, 4) == 0) {
        list->key.context_count = roll(dice, 2) * (1 + roll(dice, list->count));
    }
    if (roll(dice, 10) == 0) {
        list->key.salt[0] = (char)roll(dice, 2);
    }
    if (roll(dice, 10) == 0) {
        list->key.stack = roll(dice, 3);
    }
    list->count = MAX(list->count, list->key.context_count);
}

static bool hold(struct reuse *reuse, struct slots *slots, int32_t count)
{
    while (!slots_hold(slots, count)) {
        if (!reuse_evict(reuse)) {
            return false;
        }
    }
    return true;
}

static void start(
    struct reuse *reuse, struct live *live, const struct list *from, struct dice *dice)
{
    branch(&live->list, from, dice);
    struct slot_list wanted = part(&live->list, roll(dice, live->list.count + 1));
    int32_t found = reuse_find(reuse, &live->list.key, &wanted);
    int32_t known = reuse_take(reuse, &live->list.key, &wanted, &live->slots);
    assert_true(known <= found && (known == 0 || known >= live->list.key.context_count));
    check_marks(&live->slots, &live->list, known);
    int32_t first = MAX(MAX(known, live->list.key.context_count), 1);
    if (!hold(reuse, &live->slots, first)) {
        slots_release(&live->slots);
        return;
    }
    store(&live->slots, &live->list, known, first);
    live->stored = first;
}

static void grow(struct reuse *reuse, struct live *live, struct dice *dice)
{
    int32_t to = live->stored + roll(dice, live->list.count - live->stored + 1);
    if (hold(reuse, &live->slots, to)) {
        store(&live->slots, &live->list, live->stored, to);
        live->stored = to;
    }
    if (roll(dice, 2) == 0) {
        struct slot_list list = part(&live->list, live->stored);
        reuse_keep(reuse, &live->list.key, &list, &live->slots);
    }
    check_marks(&live->slots, &live->list, live->stored);
}

static void end(struct reuse *reuse, struct live *live, struct dice *dice)
{
    if (roll(dice, 4) != 0) {
        struct slot_list list = part(&live->list, live->stored);
        reuse_keep(reuse, &live->list.key, &list, &live->slots);
        if (reuse->count < reuse->capacity) {
            assert_int_equal(reuse_find(reuse, &live->list.key, &list), live->stored);
        }
    }
    slots_release(&live->slots);
    live->stored = 0;
    reuse_trim(reuse);
}

static void test_random_sequences(void **state)
{
    (void)state;
    static struct live lives[LIVE];
    for (uint64_t seed = 1; seed <= 40; seed++) {
        print_message("seed %llu\n", (unsigned long long)seed);
        struct dice dice = {.seed = seed};
        struct pages pages;
        struct reuse reuse;
        int32_t count = 6 + roll(&dice, PAGES);
        open_store(&pages, &reuse, count, roll(&dice, 4) == 0 ? roll(&dice, count) : count);
        for (int32_t i = 0; i < LIVE; i++) {
            lives[i] = (struct live){0};
            assert_int_equal(slots_init(&lives[i].slots, &pages, SLOTS_MAX), ERR_OK);
        }
        for (int32_t step = 0; step < 400; step++) {
            struct live *live = &lives[roll(&dice, LIVE)];
            if (live->stored == 0) {
                start(&reuse, live, &lives[roll(&dice, LIVE)].list, &dice);
            } else if (roll(&dice, 3) > 0) {
                grow(&reuse, live, &dice);
            } else {
                end(&reuse, live, &dice);
            }
        }
        for (int32_t i = 0; i < LIVE; i++) {
            slots_free(&lives[i].slots);
        }
        assert_int_equal(reuse_idle(&reuse), reuse.count);
        while (reuse_evict(&reuse)) {
        }
        assert_int_equal(reuse.count, 0);
        assert_int_equal(pages.free_count, pages.count);
        reuse_close(&reuse);
        pages_close(&pages);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_causal_lists_match_up_to_the_first_difference),
        cmocka_unit_test(test_context_blocks_match_as_a_whole),
        cmocka_unit_test(test_least_recently_used_goes_first_and_pins_stay),
        cmocka_unit_test(test_block_goes_as_a_whole),
        cmocka_unit_test(test_capacity),
        cmocka_unit_test(test_no_page_for_the_copy),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_random_sequences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
