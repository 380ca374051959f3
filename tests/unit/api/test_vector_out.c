/*
 * Goal: a packed vector means what it was made of, to a client that follows docs/api.md.
 * Method: known bytes (numpy's); a reader written here from the text of the documentation, for
 * random vectors of every length up to 40, which read back within half a step; and values that a
 * form cannot hold fail.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "api/vector_out.h"
#include "engine/base/half.h"
#include "engine/base/rng.h"

enum { LENGTH = 40 };

/* The bytes of a JSON string of base64. */
static size_t unpack(const struct buf *buf, unsigned char *out)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t bits = 0;
    size_t count = 0;
    int held = 0;
    assert_int_equal((buf->count - 2) % 4, 0);
    assert_int_equal(buf->bytes[0], '"');
    for (size_t i = 1; buf->bytes[i] != '"' && buf->bytes[i] != '='; i++) {
        const char *at = strchr(alphabet, buf->bytes[i]);
        assert_non_null(at);
        bits = bits << 6 | (uint32_t)(at - alphabet);
        held += 6;
        if (held >= 8) {
            held -= 8;
            out[count++] = (unsigned char)(bits >> held);
        }
    }
    return count;
}

static float float_at(const unsigned char *bytes)
{
    const uint32_t bits = (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
                          (uint32_t)bytes[3] << 24;
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static size_t write(
    enum common_encoding_format format, const float *values, size_t count, unsigned char *out)
{
    struct buf buf;
    struct json_out json;
    buf_init(&buf, MEM_REQUESTS, 4096);
    json_out_init(&json, &buf);
    vector_out(&json, format, values, count);
    assert_false(json.failed);
    const size_t bytes = unpack(&buf, out);
    buf_free(&buf);
    return bytes;
}

static void test_known_bytes(void **state)
{
    (void)state;
    static const float values[] = {1.0f, -0.5f, 0.0f, 0.25f, -0.0f, 1.0f, 0.5f, -1.0f, 0.125f};
    static const unsigned char halves[] = {0x00, 0x3c, 0x00, 0xb8, 0x00, 0x00, 0x00, 0x34, 0x00,
        0x80, 0x00, 0x3c, 0x00, 0x38, 0x00, 0xbc, 0x00, 0x30};
    static const unsigned char bits[] = {0x96, 0x80};
    /* The scale is 1 / 127; halves go to the even byte. */
    static const unsigned char bytes[] = {
        0x04, 0x02, 0x01, 0x3c, 127, 0xc0, 0, 32, 0, 127, 64, 0x81, 16};
    unsigned char found[64];
    assert_int_equal(
        write(COMMON_ENCODING_FORMAT_FLOAT16, values, ARRAY_COUNT(values), found), sizeof(halves));
    assert_memory_equal(found, halves, sizeof(halves));
    assert_int_equal(
        write(COMMON_ENCODING_FORMAT_BINARY, values, ARRAY_COUNT(values), found), sizeof(bits));
    assert_memory_equal(found, bits, sizeof(bits));
    assert_int_equal(
        write(COMMON_ENCODING_FORMAT_INT8, values, ARRAY_COUNT(values), found), sizeof(bytes));
    assert_memory_equal(found, bytes, sizeof(bytes));
}

static void check_vector(const float *values, size_t count)
{
    unsigned char bytes[4 * LENGTH + 8];
    float largest = 0;
    assert_int_equal(write(COMMON_ENCODING_FORMAT_BASE64, values, count, bytes), 4 * count);
    for (size_t i = 0; i < count; i++) {
        assert_true(float_at(bytes + 4 * i) == values[i]);
        largest = fmaxf(largest, fabsf(values[i]));
    }
    assert_int_equal(write(COMMON_ENCODING_FORMAT_FLOAT16, values, count, bytes), 2 * count);
    for (size_t i = 0; i < count; i++) {
        const uint16_t half = (uint16_t)(bytes[2 * i] | bytes[2 * i + 1] << 8);
        assert_true(fabsf(half_from_f16(half) - values[i]) <= fabsf(values[i]) / 2048 + 1e-7f);
    }
    assert_int_equal(write(COMMON_ENCODING_FORMAT_INT8, values, count, bytes), 4 + count);
    const float scale = float_at(bytes);
    assert_true(scale == largest / 127);
    for (size_t i = 0; i < count; i++) {
        const float read = (float)(int8_t)bytes[4 + i] * scale;
        assert_true(fabsf(read - values[i]) <= scale * 0.5001f);
    }
    assert_int_equal(write(COMMON_ENCODING_FORMAT_BINARY, values, count, bytes), (count + 7) / 8);
    for (size_t i = 0; i < (count + 7) / 8 * 8; i++) {
        const bool bit = (bytes[i / 8] >> (7 - i % 8) & 1) != 0;
        assert_int_equal(bit, i < count && values[i] > 0);
    }
}

static void test_read_back(void **state)
{
    (void)state;
    static const float scales[] = {1, 1e-4f, 300, 0};
    uint64_t drawn = 0;
    float values[LENGTH];
    for (size_t count = 1; count <= LENGTH; count++) {
        for (size_t k = 0; k < ARRAY_COUNT(scales); k++) {
            for (size_t i = 0; i < count; i++) {
                values[i] = scales[k] * (float)(2 * rng_uniform(7, 0, drawn++) - 1);
            }
            check_vector(values, count);
        }
    }
}

static bool fails(enum common_encoding_format format, float value)
{
    const float values[2] = {1.0f, value};
    struct buf buf;
    struct json_out json;
    buf_init(&buf, MEM_REQUESTS, 4096);
    json_out_init(&json, &buf);
    vector_out(&json, format, values, 2);
    buf_free(&buf);
    return json.failed;
}

static void test_beyond_the_form(void **state)
{
    (void)state;
    for (int i = COMMON_ENCODING_FORMAT_FLOAT; i <= COMMON_ENCODING_FORMAT_BINARY; i++) {
        enum common_encoding_format format = (enum common_encoding_format)i;
        assert_true(fails(format, NAN));
        assert_true(fails(format, -INFINITY));
        assert_false(fails(format, 65504.0f)); /* the largest float16 */
        assert_int_equal(fails(format, 65536.0f), format == COMMON_ENCODING_FORMAT_FLOAT16);
        assert_false(fails(format, 1e-45f));
    }
    unsigned char bytes[64];
    assert_int_equal(write(COMMON_ENCODING_FORMAT_INT8, (float[]){1e-45f}, 1, bytes), 5);
    assert_true(float_at(bytes) == 0 && bytes[4] == 0); /* no scale is so small */
}

static void test_full_buffer(void **state)
{
    (void)state;
    float values[LENGTH] = {0};
    for (int i = COMMON_ENCODING_FORMAT_FLOAT; i <= COMMON_ENCODING_FORMAT_BINARY; i++) {
        struct buf buf;
        struct json_out json;
        buf_init(&buf, MEM_REQUESTS, 4);
        json_out_init(&json, &buf);
        vector_out(&json, (enum common_encoding_format)i, values, LENGTH);
        assert_true(buf.failed);
        buf_free(&buf);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_bytes),
        cmocka_unit_test(test_read_back),
        cmocka_unit_test(test_beyond_the_form),
        cmocka_unit_test(test_full_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
