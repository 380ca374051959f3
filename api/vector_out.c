/*
 * See vector_out.h. What surprises: int8 states its scale in its own first bytes, so that a packed
 * vector means something without the fields around it, on every route, however it is stored.
 */
#include "api/vector_out.h"

#include <math.h>
#include <string.h>
#include "engine/base/half.h"

enum { BYTE_MAX = 127, SCALE_BYTES = 4 };

static void put_u32(unsigned char *out, uint32_t value)
{
    for (int i = 0; i < 4; i++) {
        out[i] = (unsigned char)(value >> (8 * i));
    }
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static size_t packed_bytes(enum common_encoding_format format, size_t count)
{
    switch (format) {
    case COMMON_ENCODING_FORMAT_FLOAT: /* numbers: never packed */
    case COMMON_ENCODING_FORMAT_BASE64:
        break;
    case COMMON_ENCODING_FORMAT_FLOAT16:
        return 2 * count;
    case COMMON_ENCODING_FORMAT_INT8:
        return SCALE_BYTES + count;
    case COMMON_ENCODING_FORMAT_BINARY:
        return (count + 7) / 8;
    }
    return 4 * count;
}

/* False when a value does not fit. */
static bool pack_float16(const float *values, size_t count, unsigned char *out)
{
    bool fits = true;
    for (size_t i = 0; i < count; i++) {
        const uint16_t half = half_to_f16(values[i]);
        fits = fits && isfinite(half_from_f16(half));
        out[2 * i] = (unsigned char)half;
        out[2 * i + 1] = (unsigned char)(half >> 8);
    }
    return fits;
}

/* The largest value gets the largest byte. */
static void pack_int8(const float *values, size_t count, unsigned char *out)
{
    float largest = 0;
    for (size_t i = 0; i < count; i++) {
        largest = fmaxf(largest, fabsf(values[i]));
    }
    const float scale = largest / BYTE_MAX;
    put_u32(out, bits_of(scale));
    for (size_t i = 0; i < count; i++) {
        const double byte = scale > 0 ? nearbyint((double)values[i] / (double)scale) : 0;
        out[SCALE_BYTES + i] = (unsigned char)(int8_t)fmax(-BYTE_MAX, fmin(BYTE_MAX, byte));
    }
}

static void pack_binary(const float *values, size_t count, unsigned char *out)
{
    memset(out, 0, (count + 7) / 8);
    for (size_t i = 0; i < count; i++) {
        if (values[i] > 0) {
            out[i / 8] |= (unsigned char)(0x80 >> (i % 8));
        }
    }
}

static void pack(struct json_out *out, enum common_encoding_format format, const float *values,
    size_t count, unsigned char *room)
{
    switch (format) {
    case COMMON_ENCODING_FORMAT_FLOAT16:
        out->failed = !pack_float16(values, count, room) || out->failed;
        return;
    case COMMON_ENCODING_FORMAT_INT8:
        pack_int8(values, count, room);
        return;
    case COMMON_ENCODING_FORMAT_BINARY:
        pack_binary(values, count, room);
        return;
    case COMMON_ENCODING_FORMAT_FLOAT:
    case COMMON_ENCODING_FORMAT_BASE64:
        break;
    }
    for (size_t i = 0; i < count; i++) {
        put_u32(room + 4 * i, bits_of(values[i]));
    }
}

static bool all_finite(const float *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(values[i])) {
            return false;
        }
    }
    return true;
}

void vector_out(
    struct json_out *out, enum common_encoding_format format, const float *values, size_t count)
{
    if (format == COMMON_ENCODING_FORMAT_FLOAT) {
        json_out_floats(out, values, count);
        return;
    }
    if (!all_finite(values, count)) {
        out->failed = true; /* checked by the encoder: never sent */
        json_out_null(out);
        return;
    }
    const size_t bytes = packed_bytes(format, count);
    unsigned char *room = json_out_base64_room(out, bytes);
    if (room != NULL) {
        pack(out, format, values, count, room);
        json_out_base64_close(out, room, bytes);
    }
}
