/*
 * Goal: the hand-written scanners cut text exactly where the reference expressions do.
 * Method: (1) every text of up to 4 characters over an alphabet with one or two characters of each
 * kind the expressions tell apart, and 20,000 longer pseudo-random ones, against digests that a
 * regular expression engine made (make_split_digests.py, which also shows how a text is split);
 * (2) a few cases to read; (3) every code point's class against the Unicode categories.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include <utf8proc.h>

#include "engine/base/attr.h"
#include "engine/base/utf8.h"
#include "engine/text/pretokenize.h"
#include "tests/unit/text/split_digests.h"

enum { EXHAUSTIVE = 4, RANDOM_COUNT = 20000, RANDOM_LENGTH = 14 };

/* Order and content as in the script. */
static const char *const alphabet[] = {
    "a", "s", "L", "\xC3\xA9", "1", "\xC2\xBD", " ", "\xC2\xA0", "\n", "\r", "'", "!", "\xCC\x81"};

static uint64_t add_text(uint64_t digest, enum pretokenizer which, const char *text, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        at = pretokenize_next(which, text, bytes, at);
        digest = (digest ^ at) * UINT64_C(0x100000001B3);
    }
    return digest;
}

static uint64_t digest_of(enum pretokenizer which)
{
    uint64_t digest = UINT64_C(0xCBF29CE484222325);
    char text[4 * RANDOM_LENGTH + 1];
    int32_t kinds = (int32_t)ARRAY_COUNT(alphabet);
    for (int32_t length = 1, total = kinds; length <= EXHAUSTIVE; length++, total *= kinds) {
        for (int32_t number = 0; number < total; number++) {
            text[0] = '\0';
            for (int32_t place = total / kinds; place > 0; place /= kinds) {
                strcat(text, alphabet[number / place % kinds]);
            }
            digest = add_text(digest, which, text, strlen(text));
        }
    }
    uint64_t state = 1;
    for (int32_t i = 0; i < RANDOM_COUNT; i++) {
        text[0] = '\0';
        for (int32_t k = 0; k < RANDOM_LENGTH; k++) {
            state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            strcat(text, alphabet[(state >> 33) % (uint64_t)kinds]);
        }
        digest = add_text(digest, which, text, strlen(text));
    }
    return digest;
}

static void test_digests(void **state)
{
    (void)state;
    assert_true(digest_of(PRETOKENIZER_GPT2) == SPLIT_DIGEST_GPT_2);
    assert_true(digest_of(PRETOKENIZER_SMOLLM) == SPLIT_DIGEST_SMOLLM);
    assert_true(digest_of(PRETOKENIZER_LLAMA_BPE) == SPLIT_DIGEST_LLAMA_BPE);
    assert_true(digest_of(PRETOKENIZER_QWEN2) == SPLIT_DIGEST_QWEN2);
}

/* `split` is the text with a '|' between pieces. */
static void check_split(enum pretokenizer which, const char *split)
{
    char text[128];
    char got[256];
    size_t bytes = 0;
    size_t got_bytes = 0;
    for (const char *c = split; *c != '\0'; c++) {
        if (*c != '|') {
            text[bytes++] = *c;
        }
    }
    for (size_t at = 0; at < bytes;) {
        size_t end = pretokenize_next(which, text, bytes, at);
        got_bytes += (size_t)snprintf(got + got_bytes, sizeof(got) - got_bytes, "%s%.*s",
            at > 0 ? "|" : "", (int)(end - at), text + at);
        at = end;
    }
    assert_string_equal(got, split);
}

static void test_cases(void **state)
{
    (void)state;
    check_split(PRETOKENIZER_GPT2, "It|'s|  | 123|  | a|\t|b|!!|  ");
    check_split(PRETOKENIZER_GPT2, "I|'|LL|\n|\n|x");
    check_split(PRETOKENIZER_SMOLLM, "in|  |1|9|8|4|.|5| ");
    check_split(PRETOKENIZER_LLAMA_BPE, "I|'LL|.go| |123|4|!\n\n\n| x");
    check_split(PRETOKENIZER_LLAMA_BPE, "a| \n\n|  | b");
    check_split(PRETOKENIZER_QWEN2, "x|1|2|3|$y|  ");
}

/* A character of unknown class behind a letter: it joins the letter's piece only if it is one. */
static void test_classes(void **state)
{
    (void)state;
    for (int32_t code_point = 1; code_point < 0x110000; code_point++) {
        if (code_point >= 0xD800 && code_point <= 0xDFFF) {
            continue;
        }
        char letter[8] = "a";
        char number[8] = "1";
        char blank[8] = "\t";
        size_t count = (size_t)utf8_encode(code_point, letter + 1);
        memcpy(number + 1, letter + 1, count);
        memcpy(blank + 1, letter + 1, count);
        const char *category = utf8proc_category_string(code_point);
        bool is_blank =
            category[0] == 'Z' || (code_point >= 9 && code_point <= 13) || code_point == 0x85;
        assert_int_equal(pretokenize_next(PRETOKENIZER_GPT2, letter, count + 1, 0) == count + 1,
            category[0] == 'L');
        assert_int_equal(pretokenize_next(PRETOKENIZER_GPT2, number, count + 1, 0) == count + 1,
            category[0] == 'N');
        assert_int_equal(
            pretokenize_next(PRETOKENIZER_GPT2, blank, count + 1, 0) == count + 1, is_blank);
    }
}

static void test_names(void **state)
{
    (void)state;
    enum pretokenizer which = PRETOKENIZER_COUNT;
    assert_true(pretokenize_find("smollm", 6, &which));
    assert_int_equal(which, PRETOKENIZER_SMOLLM);
    assert_false(pretokenize_find("smollm2", 7, &which));
    assert_false(pretokenize_find("smoll", 5, &which));
    assert_false(pretokenize_find("", 0, &which));
    assert_int_equal(which, PRETOKENIZER_SMOLLM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_digests),
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_classes),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
