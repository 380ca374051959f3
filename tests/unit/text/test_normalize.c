/*
 * Goal: Form C of texts the golden test does not hold: long runs of marks in linear time, and the
 * map back to the original.
 * Method: hand-made stretches; a text of a million marks, each pair out of order.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "engine/text/normalize.h"

enum { MARKS = 1 << 20 };

static void test_map(void **state)
{
    (void)state;
    /* x, o + dot below + circumflex = one character, Hangul G + A + G, Angstrom sign, y */
    static const char text[] = "xo\xCC\xA3\xCC\x82\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8\xE2\x84\xAB"
                               "y";
    static const char expected[] = "x\xE1\xBB\x99\xEA\xB0\x81\xC3\x85y";
    static const int32_t from[] = {0, 1, 1, 1, 6, 6, 6, 15, 15, 18};
    static const int32_t to[] = {1, 6, 6, 6, 15, 15, 15, 18, 18, 19};
    struct normal normal = {.mapped = true};
    assert_int_equal(normal_append_form(&normal, NORMAL_NFC, text, sizeof(text) - 1, NULL), ERR_OK);
    assert_int_equal(normal.count, sizeof(expected) - 1);
    assert_memory_equal(normal.bytes, expected, normal.count);
    assert_memory_equal(normal.from, from, sizeof(from));
    assert_memory_equal(normal.to, to, sizeof(to));
    normal_free(&normal);
}

static void test_plain(void **state)
{
    (void)state;
    assert_true(normal_is_plain(NORMAL_NFC, "caf\xC3\xA9", 5));
    assert_true(normal_is_plain(NORMAL_NFC, "\xCB\xBF", 2));  /* U+02FF */
    assert_false(normal_is_plain(NORMAL_NFC, "\xCC\x80", 2)); /* U+0300 */
    assert_true(normal_is_plain(NORMAL_NFC, "", 0));
}

/* Dot below (220) belongs before acute (230); one letter in front, so the first acute composes. */
static void test_many_marks(void **state)
{
    (void)state;
    size_t bytes = 1 + 2 * (size_t)MARKS;
    char *text = malloc(bytes);
    assert_non_null(text);
    text[0] = 'e';
    for (size_t i = 0; i < MARKS; i++) {
        memcpy(text + 1 + 2 * i, i % 2 == 0 ? "\xCC\x81" : "\xCC\xA3", 2);
    }
    struct normal normal = {0};
    assert_int_equal(normal_append_form(&normal, NORMAL_NFC, text, bytes, NULL), ERR_OK);
    /* U+1EB9 (e with dot below), the other dots, then the acutes. */
    assert_int_equal(normal.count, 3 + 2 * ((size_t)MARKS - 1));
    assert_memory_equal(normal.bytes, "\xE1\xBA\xB9\xCC\xA3", 5);
    assert_memory_equal(normal.bytes + 3 + 2 * (MARKS / 2 - 1) - 2, "\xCC\xA3\xCC\x81", 4);
    assert_memory_equal(normal.bytes + normal.count - 2, "\xCC\x81", 2);
    normal_free(&normal);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_map),
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_many_marks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
