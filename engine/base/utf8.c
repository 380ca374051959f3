/*
 * UTF-8 by the table of RFC 3629, section 4. All that is not plain "lead, then continuation bytes"
 * is a narrower range for the second byte, so one function that knows that range serves decoding,
 * checking and the streaming cut.
 *
 *     lead        length   second byte
 *     00..7F         1
 *     C2..DF         2     80..BF
 *     E0             3     A0..BF       (no overlong form)
 *     E1..EC, EE, EF 3     80..BF
 *     ED             3     80..9F       (no surrogate)
 *     F0             4     90..BF       (no overlong form)
 *     F1..F3         4     80..BF
 *     F4             4     80..8F       (not past U+10FFFF)
 */
#include "engine/base/utf8.h"

#include "engine/base/assert.h"

/* Length that a lead byte announces; 0 when no character starts with it. */
static int32_t announced_length(unsigned char lead)
{
    if (lead < 0x80) {
        return 1;
    }
    if (lead < 0xC2 || lead > 0xF4) {
        return 0;
    }
    return lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

static bool second_fits(unsigned char lead, unsigned char second)
{
    unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    return second >= low && second <= high;
}

/* Bytes at the front of bytes[0..count) that are the start of one valid character: its length when
 * it is whole, less when bytes are missing or wrong; 0 when none can start here. */
static int32_t valid_part(const unsigned char *bytes, size_t count, int32_t length)
{
    if (length == 0) {
        return 0;
    }
    int32_t good = 1;
    while (good < length && (size_t)good < count) {
        unsigned char byte = bytes[good];
        if (good == 1 ? !second_fits(bytes[0], byte) : (byte & 0xC0) != 0x80) {
            break;
        }
        good++;
    }
    return good;
}

int32_t utf8_decode(const char *bytes, size_t count, int32_t *out_code_point)
{
    ASSERT(count >= 1);
    const unsigned char *in = (const unsigned char *)bytes;
    int32_t length = announced_length(in[0]);
    if (length == 0 || valid_part(in, count, length) != length) {
        *out_code_point = -1;
        return 1;
    }
    static const unsigned char lead_bits[5] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    int32_t code_point = in[0] & lead_bits[length];
    for (int32_t i = 1; i < length; i++) {
        code_point = code_point << 6 | (in[i] & 0x3F);
    }
    *out_code_point = code_point;
    return length;
}

int32_t utf8_encode(int32_t code_point, char out[4])
{
    ASSERT(code_point >= 0 && code_point <= 0x10FFFF);
    ASSERT(code_point < 0xD800 || code_point > 0xDFFF);
    if (code_point < 0x80) {
        out[0] = (char)code_point;
        return 1;
    }
    int32_t length = code_point < 0x800 ? 2 : code_point < 0x10000 ? 3 : 4;
    static const unsigned char lead_marks[5] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (int32_t i = length - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (code_point & 0x3F));
        code_point >>= 6;
    }
    out[0] = (char)(lead_marks[length] | code_point);
    return length;
}

bool utf8_valid(const char *bytes, size_t count)
{
    for (size_t at = 0; at < count;) {
        int32_t code_point;
        at += (size_t)utf8_decode(bytes + at, count - at, &code_point);
        if (code_point < 0) {
            return false;
        }
    }
    return true;
}

size_t utf8_length(const char *bytes, size_t count)
{
    size_t characters = 0;
    for (size_t i = 0; i < count; i++) {
        characters += ((unsigned char)bytes[i] & 0xC0) != 0x80;
    }
    return characters;
}

size_t utf8_complete(const char *bytes, size_t count)
{
    const unsigned char *in = (const unsigned char *)bytes;
    /* An unfinished character is at most three bytes long, so its lead is among the last three. */
    for (size_t back = 1; back <= 3 && back <= count; back++) {
        const unsigned char *lead = in + count - back;
        if ((*lead & 0xC0) == 0x80) {
            continue;
        }
        int32_t length = announced_length(*lead);
        bool unfinished = length > (int32_t)back && valid_part(lead, back, length) == (int32_t)back;
        return unfinished ? count - back : count;
    }
    return count;
}
