/*
 * The JSON writer. Owns: commas, escapes, the float printer and base64. It exists because a reply
 * with a thousand vectors is mostly float printing, and a general library is several times slower
 * at that than at anything else.
 *
 * What surprises: the float printer scales in double and then proves its digits by reading them
 * back with one exact division or multiplication, instead of trusting the scaling. Digits that land
 * on the border between two floats are refused, so the text means the same float to a reader that
 * parses to double first and to one that parses to float directly.
 */
#include "api/json_out.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "engine/base/assert.h"
#include "engine/base/utf8.h"

/* ---- structure ----------------------------------------------------------------------------- */

void json_out_init(struct json_out *out, struct buf *buf)
{
    *out = (struct json_out){.buf = buf};
}

/* Writes the comma a value or key needs before it. */
static void separate(struct json_out *out)
{
    if (out->after_key) {
        out->after_key = false;
        return;
    }
    if (out->depth == 0) {
        return;
    }
    ASSERT(out->depth <= JSON_OUT_DEPTH);
    if (!out->first[out->depth - 1]) {
        buf_char(out->buf, ',');
    }
    out->first[out->depth - 1] = false;
}

static void value_begins(struct json_out *out)
{
    /* A value directly inside an object needs its key first. */
    ASSERT(out->depth == 0 || out->after_key || out->stack[out->depth - 1] == '[');
    separate(out);
}

static void open_level(struct json_out *out, char bracket)
{
    value_begins(out);
    ASSERT(out->depth < JSON_OUT_DEPTH);
    buf_char(out->buf, bracket);
    out->stack[out->depth] = (uint8_t)bracket;
    out->first[out->depth] = true;
    out->depth++;
}

void json_out_object(struct json_out *out)
{
    open_level(out, '{');
}

void json_out_array(struct json_out *out)
{
    open_level(out, '[');
}

void json_out_end(struct json_out *out)
{
    ASSERT(out->depth > 0);
    ASSERT(!out->after_key);
    out->depth--;
    buf_char(out->buf, out->stack[out->depth] == '{' ? '}' : ']');
}

/* ---- strings ------------------------------------------------------------------------------- */

/* What a byte below 0x80 becomes: 0 = itself, 'u' = a numeric escape, else a backslash and this. */
static char escape_of(unsigned char byte)
{
    switch (byte) {
    case '"':
    case '\\':
        return (char)byte;
    case '\b':
        return 'b';
    case '\f':
        return 'f';
    case '\n':
        return 'n';
    case '\r':
        return 'r';
    case '\t':
        return 't';
    default:
        return byte < 0x20 || byte == 0x7f ? 'u' : 0;
    }
}

static void append_escape(struct buf *buf, unsigned char byte, char escape)
{
    static const char hex[] = "0123456789abcdef";
    if (escape == 'u') {
        char text[6] = {'\\', 'u', '0', '0', hex[byte >> 4], hex[byte & 15]};
        buf_append(buf, text, sizeof(text));
    } else {
        char text[2] = {'\\', escape};
        buf_append(buf, text, sizeof(text));
    }
}

/* Runs of bytes that need nothing are copied whole: most text is one run. */
static void append_string(struct buf *buf, const char *bytes, size_t count)
{
    size_t run = 0;
    size_t at = 0;
    buf_char(buf, '"');
    while (at < count) {
        unsigned char byte = (unsigned char)bytes[at];
        if (byte < 0x80) {
            char escape = escape_of(byte);
            if (escape != 0) {
                buf_append(buf, bytes + run, at - run);
                append_escape(buf, byte, escape);
                run = at + 1;
            }
            at++;
            continue;
        }
        int32_t code_point;
        int32_t length = utf8_decode(bytes + at, count - at, &code_point);
        if (code_point < 0) {
            buf_append(buf, bytes + run, at - run);
            buf_append(buf, "\xef\xbf\xbd", 3);
            run = at + 1;
        }
        at += (size_t)length;
    }
    buf_append(buf, bytes + run, count - run);
    buf_char(buf, '"');
}

void json_out_key(struct json_out *out, const char *key)
{
    json_out_key_bytes(out, key, strlen(key));
}

void json_out_key_bytes(struct json_out *out, const char *key, size_t count)
{
    ASSERT(out->depth > 0);
    ASSERT(out->stack[out->depth - 1] == '{');
    ASSERT(!out->after_key);
    separate(out);
    append_string(out->buf, key, count);
    buf_char(out->buf, ':');
    out->after_key = true;
}

void json_out_bytes(struct json_out *out, const char *bytes, size_t count)
{
    value_begins(out);
    append_string(out->buf, bytes, count);
}

void json_out_string(struct json_out *out, const char *text)
{
    if (text == NULL) {
        json_out_null(out);
        return;
    }
    json_out_bytes(out, text, strlen(text));
}

/* ---- numbers and words --------------------------------------------------------------------- */

void json_out_int(struct json_out *out, int64_t value)
{
    value_begins(out);
    buf_printf(out->buf, "%lld", (long long)value);
}

void json_out_bool(struct json_out *out, bool value)
{
    value_begins(out);
    buf_text(out->buf, value ? "true" : "false");
}

void json_out_null(struct json_out *out)
{
    value_begins(out);
    buf_text(out->buf, "null");
}

/* Powers of ten that a double holds exactly. */
static const double POWERS[23] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* Digits of a positive number: value = digits * 10^(exponent - (count - 1)), first digit not 0. */
struct decimal {
    uint32_t digits;
    int32_t count;
    int32_t exponent;
};

static double power_times(double value, int32_t power)
{
    return power >= 0 ? value * POWERS[power] : value / POWERS[-power];
}

/* A double half way between two floats reads back as one or the other, depending on the reader. */
static bool reads_back(double text_value, float value)
{
    uint64_t bits;
    memcpy(&bits, &text_value, sizeof(bits));
    bool border = (bits & 0x1fffffff) == 0x10000000;
    return (float)text_value == value && !border;
}

/* Shortest of 6..9 digits for a value in [1e-10, 1e9]. The decimal exponent is estimated from the
 * binary one: exact or one too low. */
static struct decimal shortest(float value)
{
    double wide = (double)value;
    int32_t binary;
    (void)frexp(wide, &binary);
    int32_t exponent = (int32_t)floor((binary - 1) * 0.30102999566398120);
    if (power_times(wide, -exponent) >= 10.0) {
        exponent++;
    }
    struct decimal best = {0};
    for (int32_t count = 6; count <= 9; count++) {
        int32_t shift = count - 1 - exponent;
        uint32_t digits = (uint32_t)(power_times(wide, shift) + 0.5);
        bool carried = digits >= (uint32_t)POWERS[count]; /* 9.999996 rounds to 10.0000 */
        best = (struct decimal){
            carried ? digits / 10 : digits, count, carried ? exponent + 1 : exponent};
        if (reads_back(power_times((double)digits, -shift), value)) {
            break;
        }
    }
    return best;
}

static size_t print_decimal(struct decimal decimal, char *out)
{
    while (decimal.count > 1 && decimal.digits % 10 == 0) {
        decimal.digits /= 10;
        decimal.count--;
    }
    char digits[10];
    for (int32_t i = decimal.count - 1; i >= 0; i--) {
        digits[i] = (char)('0' + decimal.digits % 10);
        decimal.digits /= 10;
    }
    char *at = out;
    int32_t exponent = decimal.exponent;
    if (exponent >= 0) { /* ddd.ddd, zeros up to the point */
        for (int32_t i = 0; i <= exponent; i++) {
            *at++ = i < decimal.count ? digits[i] : '0';
        }
        *at++ = '.';
        for (int32_t i = exponent + 1; i < decimal.count; i++) {
            *at++ = digits[i];
        }
        if (decimal.count <= exponent + 1) {
            *at++ = '0';
        }
    } else if (exponent >= -5) { /* 0.000ddd */
        *at++ = '0';
        *at++ = '.';
        for (int32_t i = -1; i > exponent; i--) {
            *at++ = '0';
        }
        memcpy(at, digits, (size_t)decimal.count);
        at += decimal.count;
    } else { /* d.dde-XX: the exponent is -6..-10 here */
        *at++ = digits[0];
        if (decimal.count > 1) {
            *at++ = '.';
            memcpy(at, digits + 1, (size_t)decimal.count - 1);
            at += decimal.count - 1;
        }
        *at++ = 'e';
        *at++ = '-';
        *at++ = (char)('0' + -exponent / 10);
        *at++ = (char)('0' + -exponent % 10);
    }
    return (size_t)(at - out);
}

/* Rare magnitudes go through the C library, which is slow and exact. */
static size_t print_float_rare(float value, char out[JSON_FLOAT_BYTES])
{
    int count = 0;
    for (int precision = 5; precision <= 8; precision++) {
        count = snprintf(out, JSON_FLOAT_BYTES, "%.*e", precision, (double)value);
        if (strtof(out, NULL) == value && reads_back(strtod(out, NULL), value)) {
            break;
        }
    }
    ASSERT(count > 0);
    ASSERT(count < JSON_FLOAT_BYTES);
    return (size_t)count;
}

size_t json_print_float(float value, char out[JSON_FLOAT_BYTES])
{
    if (!isfinite(value)) {
        return 0;
    }
    size_t count = 0;
    if (signbit(value)) {
        out[count++] = '-';
        value = -value;
    }
    if (value == 0.0f) {
        memcpy(out + count, "0.0", 3);
        return count + 3;
    }
    if (value < 1e-10f || value > 1e9f) {
        char text[JSON_FLOAT_BYTES];
        size_t bytes = print_float_rare(value, text);
        ASSERT(count + bytes < JSON_FLOAT_BYTES);
        memcpy(out + count, text, bytes);
        return count + bytes;
    }
    return count + print_decimal(shortest(value), out + count);
}

static void append_float(struct json_out *out, float value)
{
    char *room = buf_reserve(out->buf, JSON_FLOAT_BYTES);
    if (room == NULL) {
        return;
    }
    size_t count = json_print_float(value, room);
    if (count == 0) {
        out->failed = true; /* checked by the encoder: never sent */
        memcpy(room, "null", 4);
        count = 4;
    }
    buf_took(out->buf, count);
}

void json_out_float(struct json_out *out, float value)
{
    value_begins(out);
    append_float(out, value);
}

void json_out_double(struct json_out *out, double value)
{
    value_begins(out);
    if (!isfinite(value)) {
        out->failed = true;
        buf_text(out->buf, "null");
        return;
    }
    char text[40];
    for (int digits = 1; digits <= 17; digits++) {
        (void)snprintf(text, sizeof(text), "%.*g", digits, value);
        if (strtod(text, NULL) == value) {
            break;
        }
    }
    buf_text(out->buf, text);
    if (strpbrk(text, ".e") == NULL) {
        buf_text(out->buf, ".0");
    }
}

void json_out_floats(struct json_out *out, const float *values, size_t count)
{
    json_out_array(out);
    for (size_t i = 0; i < count; i++) {
        if (i > 0) {
            buf_char(out->buf, ',');
        }
        append_float(out, values[i]);
    }
    out->first[out->depth - 1] = count == 0;
    json_out_end(out);
}

/* ---- base64 -------------------------------------------------------------------------------- */

static size_t base64_bytes(size_t bytes)
{
    return (bytes + 2) / 3 * 4;
}

/* The bytes stand at the end of the room of their text, which is written from its start. Each group
 * comes one byte nearer to those still to be read; before the first there is a byte for each. */
unsigned char *json_out_base64_room(struct json_out *out, size_t bytes)
{
    value_begins(out);
    buf_char(out->buf, '"');
    char *room = buf_reserve(out->buf, base64_bytes(bytes));
    return room == NULL ? NULL : (unsigned char *)room + (base64_bytes(bytes) - bytes);
}

void json_out_base64_close(struct json_out *out, const unsigned char *room, size_t bytes)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *at = buf_reserve(out->buf, base64_bytes(bytes));
    ASSERT(at != NULL); /* reserved already */
    size_t i = 0;
    for (; i + 3 <= bytes; i += 3, at += 4) {
        const uint32_t group =
            (uint32_t)room[i] << 16 | (uint32_t)room[i + 1] << 8 | (uint32_t)room[i + 2];
        at[0] = alphabet[group >> 18];
        at[1] = alphabet[group >> 12 & 63];
        at[2] = alphabet[group >> 6 & 63];
        at[3] = alphabet[group & 63];
    }
    if (i < bytes) { /* one or two bytes left: padded with '=' */
        const bool two = i + 1 < bytes;
        const uint32_t group = (uint32_t)room[i] << 16 | (two ? (uint32_t)room[i + 1] << 8 : 0);
        at[0] = alphabet[group >> 18];
        at[1] = alphabet[group >> 12 & 63];
        at[2] = two ? alphabet[group >> 6 & 63] : '=';
        at[3] = '=';
    }
    buf_took(out->buf, base64_bytes(bytes));
    buf_char(out->buf, '"');
}
