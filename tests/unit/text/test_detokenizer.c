/*
 * Goal: the text released after every token is whole UTF-8, nothing is lost or invented, and no
 * size of output is written past (R34; fuzz_tokenizer has any text and any size).
 * Method: tokens are single bytes, so every cut of a character occurs; a third of all texts of five
 * bytes from a set that covers every row of the UTF-8 table is compared with a decoder of the whole
 * text; outputs of every size sit in allocations of that size.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "engine/base/attr.h"
#include "engine/base/utf8.h"
#include "tests/unit/text/text_rig.h"

static struct text_rig rig;

/* Pushes the tokens; returns what came out, NUL-terminated. */
static const char *decode(const struct tokenizer *t, bool show_control, bool continues,
    const int32_t *ids, int32_t count, bool replace)
{
    static char text[1024];
    struct detokenizer d;
    size_t at = 0;
    detokenizer_init(&d, t, show_control, continues);
    for (int32_t i = 0; i < count; i++) {
        size_t written = detokenizer_push(&d, ids[i], text + at, detokenizer_bound(t));
        assert_true(utf8_valid(text + at, written));
        at += written;
        assert_true(at + detokenizer_bound(t) < sizeof(text));
    }
    at += detokenizer_end(&d, replace, text + at, detokenizer_bound(t));
    text[at] = '\0';
    return text;
}

#define DECODE(t, show, continues, replace, ...)                                                   \
    decode(t, show, continues, (const int32_t[]){__VA_ARGS__},                                     \
        (int32_t)(sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t)), replace)

static void test_held_back(void **state)
{
    (void)state;
    text_rig_bpe(&rig, "gpt-2");
    /* The bytes E2 82 and a letter. */
    int32_t broken = text_rig_add(&rig,
        "\xC3\xA2\xC4\xA4"
        "a",
        RIG_NORMAL, 0);
    struct tokenizer *t = text_rig_open(&rig);
    static const unsigned char llama[] = {0xF0, 0x9F, 0xA6, 0x99};
    struct detokenizer d;
    char out[16];
    detokenizer_init(&d, t, false, false);
    for (int32_t i = 0; i < 3; i++) {
        assert_int_equal(detokenizer_push(&d, llama[i], out, sizeof(out)), 0);
    }
    assert_int_equal(detokenizer_push(&d, llama[3], out, sizeof(out)), 4);
    assert_memory_equal(out, llama, 4);
    /* What never becomes a character. */
    assert_string_equal(DECODE(t, false, false, true, 'a', 0xF0, 0x9F), "a\xEF\xBF\xBD");
    assert_string_equal(DECODE(t, false, false, false, 'a', 0xF0, 0x9F), "a");
    assert_string_equal(DECODE(t, false, false, true, 0xF0, 0x9F, 'a'), "\xEF\xBF\xBD"
                                                                        "a");
    assert_string_equal(DECODE(t, false, false, true, 0xE2, 0xC3, 0xA9), "\xEF\xBF\xBD\xC3\xA9");
    assert_string_equal(DECODE(t, false, false, true, broken), "\xEF\xBF\xBD"
                                                               "a");
    assert_string_equal(DECODE(t, false, false, true, 0x80, 0xC0, 'a'), "\xEF\xBF\xBD\xEF\xBF\xBD"
                                                                        "a");
    tokenizer_close(t);
}

/* The whole text at once: U+FFFD for each longest start of a character that is not finished. */
static size_t decode_whole(const char *bytes, size_t count, char *out)
{
    size_t written = 0;
    for (size_t at = 0; at < count;) {
        int32_t code_point;
        size_t length = (size_t)utf8_decode(bytes + at, count - at, &code_point);
        if (code_point >= 0) {
            memcpy(out + written, bytes + at, length);
            written += length;
        } else {
            size_t longest = 1;
            for (size_t part = 2; part <= 3 && part <= count - at; part++) {
                longest = utf8_complete(bytes + at, part) == 0 ? part : longest;
            }
            length = longest;
            memcpy(out + written, "\xEF\xBF\xBD", 3);
            written += 3;
        }
        at += length;
    }
    return written;
}

static void test_every_cut(void **state)
{
    (void)state;
    static const unsigned char set[] = {'a', 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC2, 0xE0,
        0xE1, 0xED, 0xF0, 0xF1, 0xF4, 0xF5};
    enum { KINDS = ARRAY_COUNT(set), LENGTH = 5 };
    text_rig_bpe(&rig, "gpt-2");
    struct tokenizer *t = text_rig_open(&rig);
    int32_t total = 1;
    for (int32_t i = 0; i < LENGTH; i++) {
        total *= KINDS;
    }
    for (int32_t number = 0; number < total; number += 3) {
        char bytes[LENGTH];
        char expected[3 * LENGTH];
        char got[3 * LENGTH + 3];
        struct detokenizer d;
        size_t at = 0;
        detokenizer_init(&d, t, false, false);
        for (int32_t i = 0, rest = number; i < LENGTH; i++, rest /= KINDS) {
            bytes[i] = (char)set[rest % KINDS];
            at += detokenizer_push(&d, (unsigned char)bytes[i], got + at, sizeof(got) - at);
        }
        at += detokenizer_end(&d, true, got + at, sizeof(got) - at);
        assert_int_equal(at, decode_whole(bytes, LENGTH, expected));
        assert_memory_equal(got, expected, at);
    }
    tokenizer_close(t);
}

static void test_sentencepiece(void **state)
{
    (void)state;
    text_rig_spm(&rig, true);
    int32_t hello = text_rig_add(&rig, "\xE2\x96\x81hello", RIG_NORMAL, 0);
    int32_t spaces = text_rig_add(&rig, "\xE2\x96\x81\xE2\x96\x81", RIG_NORMAL, 0);
    struct tokenizer *t = text_rig_open(&rig);
    assert_string_equal(DECODE(t, false, false, true, hello, hello), "hello hello");
    assert_string_equal(DECODE(t, false, true, true, hello, hello), " hello hello");
    assert_string_equal(DECODE(t, false, false, true, 1, hello, 2), "hello");
    assert_string_equal(DECODE(t, true, false, true, 1, hello, 2), "<s> hello</s>");
    assert_string_equal(DECODE(t, false, false, true, spaces, hello), "  hello");
    assert_string_equal(DECODE(t, false, false, true, 3 + 0xC3, 3 + 0xA9, 0), "\xC3\xA9");
    assert_string_equal(DECODE(t, false, false, true, 3 + ' ', hello), "  hello");
    tokenizer_close(t);
    text_rig_bool(&rig, "tokenizer.ggml.add_space_prefix", false);
    t = text_rig_open(&rig);
    assert_string_equal(DECODE(t, false, false, true, hello), " hello");
    tokenizer_close(t);
}

/* Output of 0 to more than enough bytes: a prefix of the whole, cut between characters. */
static void test_capacities(void **state)
{
    (void)state;
    text_rig_bpe(&rig, "gpt-2");
    /* é, a lone continuation byte, the start of a character that the next token ends */
    int32_t mixed = text_rig_add(&rig, "\xC3\x83\xC2\xA9\xC2\xA9\xC3\xA2\xC4\xB8", RIG_NORMAL, 0);
    struct tokenizer *t = text_rig_open(&rig);
    size_t bound = detokenizer_bound(t);
    for (size_t capacity = 0; capacity <= bound; capacity++) {
        char *out = malloc(capacity + (capacity == 0));
        assert_non_null(out);
        struct detokenizer d;
        detokenizer_init(&d, t, false, false);
        (void)detokenizer_push(&d, 0xE2, out, capacity);
        size_t count = detokenizer_push(&d, mixed, out, capacity);
        assert_true(count <= capacity && utf8_valid(out, count));
        assert_memory_equal(out, "\xEF\xBF\xBD\xC3\xA9\xEF\xBF\xBD", count);
        count = detokenizer_end(&d, true, out, capacity);
        assert_int_equal(count, capacity >= 3 ? 3 : 0);
        free(out);
    }
    tokenizer_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_held_back),
        cmocka_unit_test(test_every_cut),
        cmocka_unit_test(test_sentencepiece),
        cmocka_unit_test(test_capacities),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
