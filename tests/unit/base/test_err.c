/*
 * Goal: every error has a stable word of its own, and a filled note is whole, cut where it must be
 * and valid UTF-8.
 * Method: walk the list; fill notes with texts around the field's size, cut inside a character.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "engine/base/err.h"
#include "engine/base/utf8.h"

static void test_words_are_distinct(void **state)
{
    for (int i = 0; i < ERR_COUNT; i++) {
        const char *word = err_word((enum err)i);
        assert_true(strlen(word) > 0);
        assert_int_equal(strspn(word, "abcdefghijklmnopqrstuvwxyz_"), strlen(word));
        for (int k = 0; k < i; k++) {
            assert_string_not_equal(word, err_word((enum err)k));
        }
    }
    assert_string_equal(err_word(ERR_OK), "ok");
    assert_string_equal(err_word(ERR_INTERNAL), "internal");
}

static void test_set_fills_and_clears(void **state)
{
    struct err_info info;
    memset(&info, 0xEE, sizeof info);
    assert_int_equal(err_set(&info, ERR_LIMIT, "/inputs/3", "%d of %d", 7, 5), ERR_LIMIT);
    assert_int_equal(info.code, ERR_LIMIT);
    assert_string_equal(info.where, "/inputs/3");
    assert_string_equal(info.text, "7 of 5");
    assert_string_equal(info.word, "");
    assert_int_equal(info.offset, -1);
    assert_int_equal(info.line, 0);
    assert_int_equal(info.have, 0);
    assert_int_equal(err_set(&info, ERR_IO, NULL, "x"), ERR_IO);
    assert_string_equal(info.where, "");
    assert_int_equal(err_set(NULL, ERR_IO, "a", "%s", "b"), ERR_IO);
}

static void test_long_text_is_cut_at_a_character(void **state)
{
    char text[ERR_TEXT_BYTES + 64];
    for (size_t lead = 0; lead < 4; lead++) {
        memset(text, 'a', lead);
        for (size_t i = lead; i + 4 < sizeof text; i += 4) {
            memcpy(text + i, "\xF0\x9F\x98\x80", 5);
        }
        struct err_info info;
        (void)err_set(&info, ERR_FORMAT, text, "%s", text);
        assert_true(utf8_valid(info.text, strlen(info.text)));
        assert_true(utf8_valid(info.where, strlen(info.where)));
        assert_true(strlen(info.text) > ERR_TEXT_BYTES - 1 - 4);
        assert_true(strlen(info.where) > ERR_WHERE_BYTES - 1 - 4);
        assert_memory_equal(info.text, text, strlen(info.text));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words_are_distinct),
        cmocka_unit_test(test_set_fills_and_clears),
        cmocka_unit_test(test_long_text_is_cut_at_a_character),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
