/*
 * Goal: a text ends where border.h says, however it comes in pieces, and nothing that was shown is
 * taken back.
 * Method: cases by hand, each character by character, whole, and with something behind it. What
 * tokens may begin a text is tested with the engine (test_golden_rerank, real_borders).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "engine/base/attr.h"
#include "engine/base/utf8.h"
#include "engine/sample/border.h"

/* Texts with | where the sentence ends; without one it does not. */
static const char *const sentences[] = {
    "The cat sat.| It",
    "No!| Yes",
    "Really?!| Yes",
    "Well...| Yes",
    "Wait\u2026|\n",
    "He said \"no.\"| Then",
    "(It rained.)|\tThen",
    "\u00abOui.\u00bb|\u00a0Non",
    "end.|\n\n",
    "\u4f60\u597d\u3002|\u518d\u89c1",
    "\u300c\u4f60\u597d\u3002\u300d|\u518d\u89c1",
    "\u771f\u7684\uff1f\uff01| ",
    "\u0907\u0924\u093f\u0964| \u0905",
    ".| a",
    "pi is 3.14 or",
    "see a.b.c or x!y",
    "the end.",
    "\u4f60\u597d\u3002",
    "He said \"no.\"",
    "3.14.|\u3000and",
    "Mr.| Smith",
    "no mark (at all) ",
    "",
};

/* The text without the bar; returns where that stood, or -1. */
static int32_t without_bar(const char *marked, char *out)
{
    const char *bar = strchr(marked, '|');
    size_t before = bar != NULL ? (size_t)(bar - marked) : strlen(marked);
    memcpy(out, marked, before);
    strcpy(out + before, bar != NULL ? bar + 1 : "");
    return bar != NULL ? (int32_t)before : -1;
}

/* Character by character; returns what is shown in the end. */
static int32_t scan(struct ending *ending, const char *text, enum behind behind)
{
    int32_t bytes = (int32_t)strlen(text), shown = 0, c;
    ending_init(ending, true, behind);
    for (int32_t at = 0; at < bytes;) {
        at += utf8_decode(text + at, (size_t)(bytes - at), &c);
        ending_scan(ending, text, at);
        int32_t now = ending_shown(ending, text, at);
        assert_in_range(now, shown, at);
        shown = now;
    }
    struct ending whole;
    ending_init(&whole, true, behind);
    ending_scan(&whole, text, bytes);
    assert_int_equal(whole.end, ending->end);
    assert_int_equal(ending_shown(&whole, text, bytes), shown);
    return shown;
}

static void test_sentences(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(sentences); i++) {
        char text[64];
        struct ending ending;
        int32_t end = without_bar(sentences[i], text);
        int32_t shown = scan(&ending, text, BEHIND_OTHER);
        assert_int_equal(ending.end, end);
        assert_int_equal(shown, end >= 0 ? end : (int32_t)strlen(text));
    }
}

static void test_floor(void **state)
{
    static const char text[] = "No. Yes. No.";
    struct ending ending;
    (void)state;
    ending_init(&ending, true, BEHIND_OTHER);
    ending_skip(&ending, 3);
    ending_scan(&ending, text, (int32_t)strlen(text));
    assert_int_equal(ending.end, 8);
    ending_init(&ending, false, BEHIND_OTHER);
    ending_scan(&ending, text, (int32_t)strlen(text));
    assert_int_equal(ending.end, -1);
}

static void test_what_stands_behind(void **state)
{
    static const struct {
        const char *text, *shown;
        enum behind behind;
    } cases[] = {
        {"a b ", "a b", BEHIND_SPACE},
        {"a  ", "a", BEHIND_SPACE},
        {"a\n", "a\n", BEHIND_SPACE},
        {"  ", "", BEHIND_SPACE},
        {"a b ", "a b ", BEHIND_OTHER},
        {"Yes. No", "Yes.", BEHIND_SPACE},
        {"Yes. No", "Yes", BEHIND_MARK},
        {"Yes?!", "Yes", BEHIND_MARK},
        {"a.b", "a.b", BEHIND_MARK},
        {"(Yes.)!", "(Yes.)", BEHIND_MARK},
        {"\"Yes.\" No", "\"Yes.\"", BEHIND_MARK},
        {"\u597d\u3002\u518d", "\u597d", BEHIND_MARK},
        {"Yes ", "Yes ", BEHIND_MARK},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct ending ending;
        int32_t shown = scan(&ending, cases[i].text, cases[i].behind);
        assert_int_equal(shown, strlen(cases[i].shown));
    }
    assert_int_equal(border_behind(" a", 2), BEHIND_SPACE);
    assert_int_equal(border_behind(". a", 3), BEHIND_MARK);
    assert_int_equal(border_behind("\u3002", 3), BEHIND_MARK);
    assert_int_equal(border_behind("\n", 1), BEHIND_OTHER);
    assert_int_equal(border_behind("", 0), BEHIND_OTHER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sentences),
        cmocka_unit_test(test_floor),
        cmocka_unit_test(test_what_stands_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
