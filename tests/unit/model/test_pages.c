/*
 * Goal: the page pool gives each page to one owner, counts references exactly and never leaks,
 * and slots grow, share and release as the scheduler relies on. Method: small pools, every answer
 * worked out by hand; page bytes stated in advance are compared with what was allocated.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "engine/base/mem.h"
#include "engine/cache/pages.h"

enum { LAYERS = 3, HEADS_KV = 2, HEAD_DIM = 8, PAGE_SLOTS = 32 };

static void open_pool(struct pages *pages, enum kv_type type, int32_t count)
{
    assert_int_equal(
        pages_open(pages, type, LAYERS, HEADS_KV, HEAD_DIM, PAGE_SLOTS, count), ERR_OK);
}

static void test_sizes(void **state)
{
    const enum kv_type types[] = {KV_F16, KV_F32};
    for (size_t i = 0; i < 2; i++) {
        uint64_t before = mem_bytes(MEM_CACHE);
        struct pages pages;
        open_pool(&pages, types[i], 5);
        size_t number = types[i] == KV_F16 ? 2 : 4;
        assert_int_equal(pages.page_bytes, LAYERS * HEADS_KV * 2 * PAGE_SLOTS * HEAD_DIM * number);
        assert_int_equal(
            pages.page_bytes, pages_page_bytes(types[i], LAYERS, HEADS_KV, HEAD_DIM, PAGE_SLOTS));
        assert_int_equal(pages.layer_bytes * LAYERS, pages.page_bytes);
        assert_int_equal(pages.head_bytes * HEADS_KV, pages.layer_bytes);
        assert_int_equal(
            mem_bytes(MEM_CACHE) - before, 5 * pages.page_bytes + pages_index_bytes(5));
        pages_close(&pages);
        assert_int_equal(mem_bytes(MEM_CACHE), before);
    }
}

static void test_take_and_drop(void **state)
{
    struct pages pages;
    open_pool(&pages, KV_F16, 3);
    bool taken[3] = {false};
    for (int32_t i = 0; i < 3; i++) {
        int32_t page = pages_take(&pages);
        assert_in_range(page, 0, 2);
        assert_false(taken[page]);
        taken[page] = true;
        assert_ptr_equal(pages_address(&pages, page), pages.data + (size_t)page * pages.page_bytes);
    }
    assert_int_equal(pages_take(&pages), -1);
    assert_int_equal(pages.free_count, 0);
    pages_reference(&pages, 1);
    assert_int_equal(pages_shared(&pages), 1);
    pages_drop(&pages, 1);
    assert_int_equal(pages_shared(&pages), 0);
    assert_int_equal(pages_take(&pages), -1); /* one reference is left */
    pages_drop(&pages, 1);
    assert_int_equal(pages.free_count, 1);
    assert_int_equal(pages_take(&pages), 1);
    pages_close(&pages);
}

static void test_hold_all_or_nothing(void **state)
{
    struct pages pages;
    struct slots a, b;
    open_pool(&pages, KV_F16, 3);
    uint64_t before = mem_bytes(MEM_JOBS);
    assert_int_equal(slots_init(&a, &pages, 3 * PAGE_SLOTS), ERR_OK);
    assert_int_equal(mem_bytes(MEM_JOBS) - before, slots_bytes(3 * PAGE_SLOTS, PAGE_SLOTS));
    assert_int_equal(slots_init(&b, &pages, 2 * PAGE_SLOTS + 1), ERR_OK);
    assert_int_equal(b.page_max, 3);

    assert_true(slots_hold(&a, 0));
    assert_int_equal(a.page_count, 0);
    assert_true(slots_hold(&a, 1));
    assert_true(slots_hold(&a, PAGE_SLOTS));
    assert_int_equal(a.page_count, 1);
    assert_true(slots_hold(&a, PAGE_SLOTS + 1));
    assert_int_equal(a.page_count, 2);
    assert_true(slots_hold(&a, 1)); /* never gives back */
    assert_int_equal(a.page_count, 2);

    assert_false(slots_hold(&b, PAGE_SLOTS + 1));
    assert_int_equal(b.page_count, 0);
    assert_int_equal(pages.free_count, 1);
    assert_true(slots_hold(&b, PAGE_SLOTS));
    assert_int_equal(pages.free_count, 0);

    slots_release(&a);
    assert_int_equal(pages.free_count, 2);
    slots_free(&a);
    slots_free(&b);
    assert_int_equal(pages.free_count, 3);
    assert_int_equal(mem_bytes(MEM_JOBS), before);
    pages_close(&pages);
}

/* A page that two hold is nobody's to store into; a copy of one's own is. */
static void test_share(void **state)
{
    struct pages pages;
    struct slots from, to;
    open_pool(&pages, KV_F16, 4);
    assert_int_equal(slots_init(&from, &pages, 3 * PAGE_SLOTS), ERR_OK);
    assert_int_equal(slots_init(&to, &pages, 3 * PAGE_SLOTS), ERR_OK);
    assert_true(slots_hold(&from, 2 * PAGE_SLOTS));
    memset(from.addresses[1], 0x5a, pages.page_bytes);
    slots_adopt(&to, from.page_ids[0]);
    slots_adopt(&to, from.page_ids[1]);
    assert_int_equal(to.page_count, 2);
    assert_ptr_equal(to.addresses[1], from.addresses[1]);
    assert_int_equal(pages_shared(&pages), 2);
    assert_int_equal(pages.free_count, 2); /* sharing costs no page */

    assert_true(slots_own_last(&to));
    assert_int_equal(to.page_ids[0], from.page_ids[0]);
    assert_int_not_equal(to.page_ids[1], from.page_ids[1]);
    assert_memory_equal(to.addresses[1], from.addresses[1], pages.page_bytes);
    assert_int_equal(pages_shared(&pages), 1);
    int32_t own = to.page_ids[1];
    assert_true(slots_own_last(&to)); /* it is already */
    assert_int_equal(to.page_ids[1], own);

    slots_replace(&to, 1, from.page_ids[1]);
    assert_ptr_equal(to.addresses[1], from.addresses[1]);
    assert_int_equal(pages.free_count, 2);
    assert_int_equal(pages_take(&pages) >= 0, 1);
    assert_int_equal(pages_take(&pages) >= 0, 1);
    assert_false(slots_own_last(&to)); /* no page is left for the copy */
    assert_ptr_equal(to.addresses[1], from.addresses[1]);
    slots_drop_last(&to);
    assert_int_equal(to.page_count, 1);
    assert_int_equal(pages_shared(&pages), 1);

    slots_release(&from);
    assert_int_equal(pages_shared(&pages), 0);
    assert_int_equal(pages.free_count, 1);
    slots_free(&to);
    assert_int_equal(pages.free_count, 2);
    slots_free(&from);
    pages_close(&pages);
}

static void test_no_memory(void **state)
{
    uint64_t before = mem_bytes(MEM_CACHE) + mem_bytes(MEM_JOBS);
    struct pages pages;
    struct slots slots;
    for (uint64_t nth = 1; nth <= 4; nth++) {
        mem_fail_after(nth, 0);
        assert_int_equal(
            pages_open(&pages, KV_F32, LAYERS, HEADS_KV, HEAD_DIM, PAGE_SLOTS, 2), ERR_NO_MEMORY);
    }
    mem_fail_after(0, 0);
    open_pool(&pages, KV_F32, 2);
    for (uint64_t nth = 1; nth <= 3; nth++) {
        mem_fail_after(nth, 0);
        assert_int_equal(slots_init(&slots, &pages, 40), ERR_NO_MEMORY);
    }
    mem_fail_after(0, 0);
    pages_close(&pages);
    assert_int_equal(mem_bytes(MEM_CACHE) + mem_bytes(MEM_JOBS), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_take_and_drop),
        cmocka_unit_test(test_hold_all_or_nothing),
        cmocka_unit_test(test_share),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
