/*
 * Goal: what the JSON writer prints means exactly what it was given, to every reader.
 * Method: floats over a stride through all 2^32 bit patterns must read back by strtof and by
 * strtod and be no longer than any other text of six digits or more; strings over every byte;
 * base64 against known texts. `--all N` walks every Nth pattern (the slow suite passes 100) of
 * those that have digits of our own making; a tenth as many of the rest, whose sign is put in front
 * or whose digits are the C library's, which takes its time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/json_out.h"

static uint32_t stride = 104729;      /* a prime: 41 thousand patterns */
static uint32_t rare_stride = 104729; /* of patterns that is_rare */

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* Half way to the next float up or down: readers may differ, so such a text does not count. */
static bool half_way(double read, float value)
{
    double up = ((double)value + (double)nextafterf(value, INFINITY)) / 2;
    double down = ((double)value + (double)nextafterf(value, -INFINITY)) / 2;
    return read == up || read == down;
}

/* Fewest digits, at least six, that a correctly rounded printer needs. */
static int digits_needed(float value)
{
    char text[64];
    for (int digits = 6; digits < 9; digits++) {
        (void)snprintf(text, sizeof(text), "%.*e", digits - 1, (double)value);
        double read = strtod(text, NULL);
        if (strtof(text, NULL) == value && (float)read == value && !half_way(read, value)) {
            return digits;
        }
    }
    return 9;
}

static int digits_printed(const char *text)
{
    int digits = 0;
    int zeros = 0; /* after the last other digit: not significant */
    for (const char *at = text; *at != '\0' && *at != 'e'; at++) {
        if (*at >= '1' && *at <= '9') {
            digits += zeros + 1;
            zeros = 0;
        } else if (*at == '0' && digits > 0) {
            zeros++;
        }
    }
    return digits;
}

/* As in json_print_float. */
static bool is_rare(uint32_t bits)
{
    float value = float_of(bits);
    return !(value >= 1e-10f && value <= 1e9f);
}

static void check_float(uint32_t bits, bool check_length)
{
    float value = float_of(bits);
    char text[JSON_FLOAT_BYTES];
    size_t count = json_print_float(value, text);
    if (!isfinite(value)) {
        assert_int_equal(count, 0);
        return;
    }
    assert_in_range(count, 1, JSON_FLOAT_BYTES - 1);
    text[count] = '\0';
    double read = strtod(text, NULL);
    float through_double = (float)read;
    /* Rounded twice or once, it is the same float, except half way between two. */
    float direct = half_way(read, value) ? strtof(text, NULL) : through_double;
    if (memcmp(&direct, &value, 4) != 0 || memcmp(&through_double, &value, 4) != 0) {
        fail_msg("%08x printed as %s", bits, text);
    }
    if (strpbrk(text, ".e") == NULL || text[0] == '.' || strpbrk(text, "nN,+") == text) {
        fail_msg("%08x printed as %s is not a JSON number with a fraction", bits, text);
    }
    if (check_length && digits_printed(text) > digits_needed(value)) {
        fail_msg("%08x printed as %s has more than %d digits", bits, text, digits_needed(value));
    }
}

static void test_floats_read_back(void **state)
{
    (void)state;
    uint64_t bits = 0;
    while (bits <= UINT32_MAX) {
        check_float((uint32_t)bits, stride > 1000);
        bits += is_rare((uint32_t)bits) ? rare_stride : stride;
    }
}

static void test_floats_at_borders(void **state)
{
    (void)state;
    for (int exponent = -12; exponent <= 12; exponent++) {
        float power = (float)pow(10, exponent);
        uint32_t bits;
        memcpy(&bits, &power, sizeof(bits));
        for (uint32_t near = bits - 300; near <= bits + 300; near++) {
            check_float(near, true);
            check_float(near | 0x80000000, true);
        }
    }
    for (uint32_t bits = 0; bits < 300; bits++) { /* zeros, subnormals, infinities, NaN */
        check_float(bits, true);
        check_float(0x80000000 + bits, true);
        check_float(0x7f800000 - 150 + bits, true);
        check_float(0x00800000 - 150 + bits, true);
    }
}

static void check_text(struct buf *buf, const char *expected)
{
    assert_false(buf->failed);
    assert_string_equal(buf->bytes, expected);
    buf_clear(buf);
}

static void test_float_texts(void **state)
{
    (void)state;
    static const struct {
        float value;
        const char *text;
    } cases[] = {{0.0f, "0.0"}, {-0.0f, "-0.0"}, {1.0f, "1.0"}, {0.1f, "0.1"}, {-2.5f, "-2.5"},
        {123456.0f, "123456.0"}, {1e9f, "1000000000.0"}, {1.5e-5f, "0.000015"},
        {1.5e-6f, "1.5e-06"}, {16777216.0f, "16777216.0"}, {0.33333334f, "0.33333334"},
        {3.4028235e38f, "3.4028235e+38"}};
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char text[JSON_FLOAT_BYTES];
        text[json_print_float(cases[i].value, text)] = '\0';
        assert_string_equal(text, cases[i].text);
    }
}

static void test_structure(void **state)
{
    (void)state;
    struct buf buf;
    struct json_out out;
    buf_init(&buf, MEM_REQUESTS, 4096);
    json_out_init(&out, &buf);
    json_out_object(&out);
    json_out_key(&out, "a");
    json_out_array(&out);
    json_out_int(&out, INT64_MIN);
    json_out_bool(&out, true);
    json_out_null(&out);
    json_out_array(&out);
    json_out_end(&out);
    json_out_object(&out);
    json_out_end(&out);
    json_out_floats(&out, (const float[]){0.5f, -1.0f}, 2);
    json_out_floats(&out, NULL, 0);
    json_out_end(&out);
    json_out_key(&out, "b");
    json_out_double(&out, 0.1);
    json_out_key(&out, "c");
    json_out_string(&out, NULL);
    json_out_key(&out, "d");
    json_out_double(&out, -3.0);
    json_out_end(&out);
    assert_int_equal(out.depth, 0);
    check_text(&buf, "{\"a\":[-9223372036854775808,true,null,[],{},[0.5,-1.0],[]],\"b\":0.1,"
                     "\"c\":null,\"d\":-3.0}");
    buf_free(&buf);
}

static void test_doubles_read_back(void **state)
{
    (void)state;
    struct buf buf;
    buf_init(&buf, MEM_REQUESTS, 4096);
    static const double values[] = {
        0.1, 1.0 / 3, 5e-324, 1.7976931348623157e308, -0.0, 9007199254740993.0};
    for (size_t i = 0; i < ARRAY_COUNT(values); i++) {
        struct json_out out;
        json_out_init(&out, &buf);
        json_out_double(&out, values[i]);
        assert_true(strtod(buf.bytes, NULL) == values[i]);
        buf_clear(&buf);
    }
    buf_free(&buf);
}

static void test_strings(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t count;
        const char *text;
    } cases[] = {
        {"", 0, "\"\""},
        {"plain", 5, "\"plain\""},
        {"a\"b\\c/d", 7, "\"a\\\"b\\\\c/d\""},
        {"\b\f\n\r\t", 5, "\"\\b\\f\\n\\r\\t\""},
        {"\x00\x1f\x7f", 3, "\"\\u0000\\u001f\\u007f\""},
        {"\xc3\xa9\xe2\x82\xac\xf0\x9f\xa6\x8a", 9, "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\xa6\x8a\""},
        {"a\xff"
         "b",
            3,
            "\"a\xef\xbf\xbd"
            "b\""},
        {"\xf0\x9f\xa6", 3, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
        {"\xed\xa0\x80", 3, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
    };
    struct buf buf;
    buf_init(&buf, MEM_REQUESTS, 4096);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct json_out out;
        json_out_init(&out, &buf);
        json_out_bytes(&out, cases[i].bytes, cases[i].count);
        check_text(&buf, cases[i].text);
    }
    buf_free(&buf);
}

static void test_non_finite_fails(void **state)
{
    (void)state;
    struct buf buf;
    buf_init(&buf, MEM_REQUESTS, 4096);
    for (int what = 0; what < 3; what++) {
        struct json_out out;
        const float values[2] = {1.0f, NAN};
        json_out_init(&out, &buf);
        switch (what) {
        case 0:
            json_out_float(&out, INFINITY);
            break;
        case 1:
            json_out_double(&out, (double)NAN);
            break;
        default:
            json_out_floats(&out, values, 2);
            break;
        }
        assert_true(out.failed);
        buf_clear(&buf);
    }
    buf_free(&buf);
}

static void put_base64(struct json_out *out, const void *bytes, size_t count)
{
    unsigned char *room = json_out_base64_room(out, count);
    if (room != NULL) {
        memcpy(room, bytes, count);
        json_out_base64_close(out, room, count);
    }
}

/* The examples of RFC 4648: every remainder of three; then the whole alphabet, in place. */
static void test_base64(void **state)
{
    (void)state;
    static const char *const cases[][2] = {{"", "\"\""}, {"f", "\"Zg==\""}, {"fo", "\"Zm8=\""},
        {"foo", "\"Zm9v\""}, {"foob", "\"Zm9vYg==\""}, {"fooba", "\"Zm9vYmE=\""},
        {"foobar", "\"Zm9vYmFy\""}};
    static const unsigned char all[48] = {0x00, 0x10, 0x83, 0x10, 0x51, 0x87, 0x20, 0x92, 0x8b,
        0x30, 0xd3, 0x8f, 0x41, 0x14, 0x93, 0x51, 0x55, 0x97, 0x61, 0x96, 0x9b, 0x71, 0xd7, 0x9f,
        0x82, 0x18, 0xa3, 0x92, 0x59, 0xa7, 0xa2, 0x9a, 0xab, 0xb2, 0xdb, 0xaf, 0xc3, 0x1c, 0xb3,
        0xd3, 0x5d, 0xb7, 0xe3, 0x9e, 0xbb, 0xf3, 0xdf, 0xbf};
    struct buf buf;
    struct json_out out;
    buf_init(&buf, MEM_REQUESTS, 4096);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        json_out_init(&out, &buf);
        put_base64(&out, cases[i][0], strlen(cases[i][0]));
        check_text(&buf, cases[i][1]);
    }
    json_out_init(&out, &buf);
    put_base64(&out, all, sizeof(all));
    check_text(&buf, "\"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/\"");
    buf_free(&buf);
}

static void test_bound_is_kept(void **state)
{
    (void)state;
    struct buf buf;
    struct json_out out;
    buf_init(&buf, MEM_REQUESTS, 16);
    json_out_init(&out, &buf);
    json_out_string(&out, "longer than sixteen bytes");
    assert_true(buf.failed);
    put_base64(&out, "sixteen bytes ..", 16);
    assert_true(buf.failed);
    buf_free(&buf);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--all") == 0) {
        stride = (uint32_t)strtoul(argv[2], NULL, 10);
        rare_stride = 10 * stride;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_floats_read_back),
        cmocka_unit_test(test_floats_at_borders),
        cmocka_unit_test(test_float_texts),
        cmocka_unit_test(test_structure),
        cmocka_unit_test(test_doubles_read_back),
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_non_finite_fails),
        cmocka_unit_test(test_base64),
        cmocka_unit_test(test_bound_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
