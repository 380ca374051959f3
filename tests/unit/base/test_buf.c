/*
 * Goal: a buffer holds what was appended, NUL-terminated, up to its bound; past the bound, or
 * without memory, it fails once and stays failed until cleared.
 * Method: grow by every route across the doubling borders; then the bound and one past it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "engine/base/buf.h"

static void test_every_route(void **state)
{
    struct buf buf;
    buf_init(&buf, MEM_REQUESTS, 1 << 20);
    assert_null(buf.bytes);
    buf_text(&buf, "ab");
    buf_char(&buf, 'c');
    buf_append(&buf, "def", 2);
    buf_append(&buf, NULL, 0);
    buf_printf(&buf, "%d%s", 12, "!");
    char *room = buf_reserve(&buf, 100);
    assert_non_null(room);
    memcpy(room, "xyz", 3);
    buf_took(&buf, 3);
    assert_false(buf.failed);
    assert_string_equal(buf.bytes, "abcde12!xyz");
    assert_int_equal(buf.count, 11);
    buf_clear(&buf);
    assert_string_equal(buf.bytes, "");
    assert_int_equal(buf.count, 0);
    buf_free(&buf);
    buf_free(&buf);
    assert_int_equal(mem_bytes(MEM_REQUESTS), 0);
}

static void test_growth(void **state)
{
    struct buf buf;
    buf_init(&buf, MEM_REQUESTS, 100000);
    for (int i = 0; i < 100000; i++) {
        buf_char(&buf, (char)('a' + i % 26));
        assert_int_equal(buf.bytes[buf.count], '\0');
    }
    assert_false(buf.failed);
    for (int i = 0; i < 100000; i++) {
        assert_int_equal(buf.bytes[i], 'a' + i % 26);
    }
    assert_true(buf.capacity <= 100001);
    buf_free(&buf);
}

static void test_the_bound_and_one_past(void **state)
{
    struct buf buf;
    buf_init(&buf, MEM_REQUESTS, 5);
    buf_text(&buf, "12345");
    assert_false(buf.failed);
    buf_text(&buf, "");
    assert_false(buf.failed);
    buf_char(&buf, '6');
    assert_true(buf.failed);
    buf_text(&buf, ""); /* sticky */
    assert_true(buf.failed);
    assert_null(buf_reserve(&buf, 0));
    buf_clear(&buf);
    buf_printf(&buf, "%05d", 7);
    assert_false(buf.failed);
    assert_string_equal(buf.bytes, "00007");
    buf_clear(&buf);
    buf_printf(&buf, "%06d", 7);
    assert_true(buf.failed);
    buf_clear(&buf);
    assert_null(buf_reserve(&buf, SIZE_MAX));
    buf_free(&buf);

    buf_init(&buf, MEM_REQUESTS, 0);
    buf_text(&buf, "");
    assert_false(buf.failed);
    assert_string_equal(buf.bytes, "");
    buf_char(&buf, 'x');
    assert_true(buf.failed);
    buf_free(&buf);
}

static void test_without_memory(void **state)
{
    struct buf buf;
    buf_init(&buf, MEM_REQUESTS, 1 << 20);
    buf_text(&buf, "kept");
    mem_fail_after(1, 1);
    buf_printf(&buf, "%*d", 1000, 1);
    mem_fail_after(0, 0);
    assert_true(buf.failed);
    assert_string_equal(buf.bytes, "kept");
    buf_clear(&buf);
    buf_text(&buf, "again");
    assert_string_equal(buf.bytes, "again");
    buf_free(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_route),
        cmocka_unit_test(test_growth),
        cmocka_unit_test(test_the_bound_and_one_past),
        cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
