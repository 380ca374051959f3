/*
 * Goal: UTF-8 is decoded, encoded and cut exactly as RFC 3629 says.
 * Method: every code point there and back; every sequence of one, two and three bytes against a
 * slow, obvious checker (a set of the encodings of all code points, made by the definition's own
 * arithmetic); four bytes at the borders of the lead and second byte's ranges.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <string.h>

#include "engine/base/attr.h"
#include "engine/base/utf8.h"

/* The definition, by arithmetic: decode by the announced length, then reject what another, shorter
 * form or no form may hold. Returns the length, or 0. */
static int32_t defined_length(const unsigned char *in, size_t count, int32_t *out)
{
    static const int32_t smallest[5] = {0, 0, 0x80, 0x800, 0x10000};
    int32_t length = in[0] < 0x80           ? 1
                     : (in[0] >> 5) == 0x06 ? 2
                     : (in[0] >> 4) == 0x0E ? 3
                     : (in[0] >> 3) == 0x1E ? 4
                                            : 0;
    if (length == 0 || (size_t)length > count) {
        return 0;
    }
    int32_t value = length == 1 ? in[0] : in[0] & (0xFF >> (length + 1));
    for (int32_t i = 1; i < length; i++) {
        if (in[i] >> 6 != 2) {
            return 0;
        }
        value = value * 64 + in[i] % 64;
    }
    if (value < smallest[length] || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) {
        return 0;
    }
    *out = value;
    return length;
}

static void check_decode(const unsigned char *bytes, size_t count)
{
    int32_t expected = -1, got = -2;
    int32_t length = defined_length(bytes, count, &expected);
    int32_t taken = utf8_decode((const char *)bytes, count, &got);
    if (taken != (length == 0 ? 1 : length) || got != expected) {
        fail_msg("%02x %02x %02x (%zu bytes): took %d, got %d, expected %d", bytes[0],
            count > 1 ? bytes[1] : 0, count > 2 ? bytes[2] : 0, count, taken, got, expected);
    }
}

static void test_every_code_point(void **state)
{
    for (int32_t code_point = 0; code_point <= 0x10FFFF; code_point++) {
        if (code_point >= 0xD800 && code_point <= 0xDFFF) {
            continue;
        }
        char bytes[4];
        int32_t count = utf8_encode(code_point, bytes);
        int32_t got = -1;
        if (utf8_decode(bytes, (size_t)count, &got) != count || got != code_point ||
            !utf8_valid(bytes, (size_t)count) || utf8_length(bytes, (size_t)count) != 1) {
            fail_msg("U+%04X does not survive", code_point);
        }
    }
}

static void test_every_short_sequence(void **state)
{
    unsigned char bytes[3];
    for (uint32_t i = 0; i < 1 << 24; i++) {
        bytes[0] = (unsigned char)(i >> 16);
        bytes[1] = (unsigned char)(i >> 8);
        bytes[2] = (unsigned char)i;
        check_decode(bytes, 3);
        if (bytes[2] == 0) {
            check_decode(bytes, 2);
        }
        if ((i & 0xFFFF) == 0) {
            check_decode(bytes, 1);
        }
    }
}

static void test_four_bytes_at_borders(void **state)
{
    static const unsigned char edges[] = {0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0};
    for (uint32_t lead = 0xF0; lead <= 0xFF; lead++) {
        for (uint32_t second = 0; second <= 0xFF; second++) {
            for (size_t k = 0; k < ARRAY_COUNT(edges) * ARRAY_COUNT(edges); k++) {
                const unsigned char bytes[4] = {(unsigned char)lead, (unsigned char)second,
                    edges[k / ARRAY_COUNT(edges)], edges[k % ARRAY_COUNT(edges)]};
                check_decode(bytes, 4);
            }
        }
    }
}

/* By the definition of the header: the shortest cut whose rest can still become one character. */
static bool can_still_become_valid(const unsigned char *rest, size_t count)
{
    if (count == 0 || count > 3) {
        return false;
    }
    unsigned char whole[4];
    int32_t code_point;
    memcpy(whole, rest, count);
    static const unsigned char fill[] = {0x80, 0x90, 0xA0, 0xBF, 0x8F};
    for (size_t length = count + 1; length <= 4; length++) {
        for (size_t k = 0; k < ARRAY_COUNT(fill); k++) {
            memset(whole + count, 0x80, 4 - count);
            whole[count] = fill[k];
            if (defined_length(whole, length, &code_point) == (int32_t)length) {
                return true;
            }
        }
    }
    return false;
}

static void test_complete_on_every_short_ending(void **state)
{
    /* After a whole character, every ending of three bytes of the interesting values. */
    static const unsigned char values[] = {0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF,
        0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC, 0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5,
        0xFF};
    enum { N = ARRAY_COUNT(values) };
    for (size_t i = 0; i < N * N * N; i++) {
        const unsigned char text[5] = {
            0xC3, 0xA9, values[i / N / N], values[i / N % N], values[i % N]};
        size_t expected = sizeof text;
        for (size_t cut = 1; cut <= 3; cut++) {
            if (can_still_become_valid(text + sizeof text - cut, cut)) {
                expected = sizeof text - cut;
            }
        }
        size_t got = utf8_complete((const char *)text, sizeof text);
        if (got != expected) {
            fail_msg("c3 a9 %02x %02x %02x: %zu, expected %zu", text[2], text[3], text[4], got,
                expected);
        }
    }
    assert_int_equal(utf8_complete("", 0), 0);
}

static void test_valid_and_length(void **state)
{
    static const char mixed[] = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80";
    assert_true(utf8_valid(mixed, sizeof mixed - 1));
    assert_int_equal(utf8_length(mixed, sizeof mixed - 1), 4);
    assert_true(utf8_valid("", 0));
    for (size_t count = 1; count < sizeof mixed - 1; count++) {
        bool whole = count == 1 || count == 3 || count == 6;
        assert_int_equal(utf8_valid(mixed, count), whole);
    }
    assert_false(utf8_valid("\xC0\x80", 2));
    assert_false(utf8_valid("\xED\xA0\x80", 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_code_point),
        cmocka_unit_test(test_every_short_sequence),
        cmocka_unit_test(test_four_bytes_at_borders),
        cmocka_unit_test(test_complete_on_every_short_ending),
        cmocka_unit_test(test_valid_and_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
