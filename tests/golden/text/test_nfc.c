/*
 * Goal: Normalization Form C as Unicode 15.0 defines it, and a map back to the text it came from.
 * Method: NormalizationTest.txt gives five columns c1..c5 with NFC(c1) = NFC(c2) = NFC(c3) = c2 and
 * NFC(c4) = NFC(c5) = c4. Each is normalized alone and in the middle of a text; code points its
 * part 1 does not list do not change.
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
#include "engine/text/normalize.h"
#include "tests/golden/text/text_golden.h"
#include "tests/skip.h"

enum { COLUMN_BYTES = 256, LINE_COUNT = 19074, CODE_POINTS = 0x110000 };

/* "0044 030C;" -> UTF-8; returns the first code point and moves *at behind the semicolon. */
static int32_t read_column(char **at, char out[COLUMN_BYTES], size_t *out_bytes)
{
    int32_t first = -1;
    size_t bytes = 0;
    while (**at != ';') {
        int32_t code_point = (int32_t)strtol(*at, at, 16);
        first = first < 0 ? code_point : first;
        assert_true(bytes + 4 < COLUMN_BYTES);
        bytes += (size_t)utf8_encode(code_point, out + bytes);
    }
    (*at)++;
    *out_bytes = bytes;
    return first;
}

static bool nfc_is(struct normal *normal, const char *text, size_t bytes, const char *expected,
    size_t expected_bytes)
{
    normal_clear(normal);
    assert_int_equal(normal_append_form(normal, NORMAL_NFC, text, bytes, NULL), ERR_OK);
    int32_t start = 0;
    for (size_t i = 0; i < normal->count; i++) {
        if (normal->from[i] < start || normal->to[i] <= normal->from[i] ||
            (size_t)normal->to[i] > bytes) {
            return false;
        }
        start = normal->from[i];
    }
    return normal->count == expected_bytes && memcmp(normal->bytes, expected, expected_bytes) == 0;
}

/* Alone, and between characters that take no part. */
static bool check(struct normal *normal, const char *text, size_t bytes, const char *expected,
    size_t expected_bytes)
{
    char around[COLUMN_BYTES + 16];
    char around_expected[COLUMN_BYTES + 16];
    size_t count =
        (size_t)snprintf(around, sizeof(around), "x\n%.*s\xE4\xB8\x80y", (int)bytes, text);
    size_t expected_count = (size_t)snprintf(around_expected, sizeof(around_expected),
        "x\n%.*s\xE4\xB8\x80y", (int)expected_bytes, expected);
    return nfc_is(normal, text, bytes, expected, expected_bytes) &&
           nfc_is(normal, around, count, around_expected, expected_count);
}

static void test_lines(void **state)
{
    (void)state;
    size_t file_bytes;
    char *file = text_golden_file("unicode-15/NormalizationTest.txt", &file_bytes);
    char *listed = calloc(CODE_POINTS, 1);
    assert_non_null(listed);
    if (file == NULL) {
        free(listed);
        skip_test();
        return;
    }
    struct normal normal = {.mapped = true};
    int32_t lines = 0;
    int32_t good = 0;
    int32_t part = -1;
    char *rest = file;
    for (char *line = strtok_r(file, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        if (strncmp(line, "@Part", 5) == 0) {
            part = line[5] - '0';
        }
        if (strchr("0123456789ABCDEF", line[0]) == NULL) {
            continue;
        }
        char columns[5][COLUMN_BYTES];
        size_t bytes[5];
        char *at = line;
        for (int32_t i = 0; i < 5; i++) {
            int32_t first = read_column(&at, columns[i], &bytes[i]);
            listed[first] |= (char)(part == 1 && i == 0);
        }
        bool equal = true;
        for (int32_t i = 0; i < 5; i++) {
            int32_t goal = i < 3 ? 1 : 3;
            equal = equal && check(&normal, columns[i], bytes[i], columns[goal], bytes[goal]);
        }
        if (!equal) {
            printf("line of U+%.20s\n", line);
        }
        good += equal;
        lines++;
    }
    assert_int_equal(lines, LINE_COUNT);
    assert_int_equal(good, LINE_COUNT);
    for (int32_t code_point = 1; code_point < CODE_POINTS; code_point++) {
        char text[4];
        bool surrogate = code_point >= 0xD800 && code_point <= 0xDFFF;
        if (!listed[code_point] && !surrogate) {
            size_t count = (size_t)utf8_encode(code_point, text);
            assert_true(nfc_is(&normal, text, count, text, count));
        }
    }
    normal_free(&normal);
    free(listed);
    free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lines)};
    return skip_status(
        cmocka_run_group_tests(tests, NULL, NULL), (int)(sizeof tests / sizeof tests[0]));
}
