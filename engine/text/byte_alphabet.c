/* See byte_alphabet.h. The 68 unprintable bytes are 0x00-0x20, 0x7F-0xA0 and 0xAD, in order. */
#include "engine/text/byte_alphabet.h"

#include "engine/base/utf8.h"

enum {
    LOW_COUNT = 0x21,             /* 0x00..0x20 */
    HIGH_COUNT = 0xA0 - 0x7F + 1, /* 0x7F..0xA0 */
    FIRST_MOVED = 0x100,          /* code point of the first unprintable byte */
    SOFT_HYPHEN = 0xAD,
};

int32_t byte_alphabet_byte(int32_t code_point)
{
    if ((code_point > 0x20 && code_point < 0x7F) ||
        (code_point > 0xA0 && code_point <= 0xFF && code_point != SOFT_HYPHEN)) {
        return code_point;
    }
    int32_t moved = code_point - FIRST_MOVED;
    if (moved < 0 || moved > LOW_COUNT + HIGH_COUNT) {
        return -1;
    }
    if (moved < LOW_COUNT) {
        return moved;
    }
    return moved < LOW_COUNT + HIGH_COUNT ? moved - LOW_COUNT + 0x7F : SOFT_HYPHEN;
}

bool byte_alphabet_decode(const char *piece, size_t count, char *out, size_t *out_count)
{
    size_t written = 0;
    for (size_t at = 0; at < count;) {
        int32_t code_point;
        at += (size_t)utf8_decode(piece + at, count - at, &code_point);
        int32_t byte = byte_alphabet_byte(code_point);
        if (byte < 0) {
            return false;
        }
        out[written++] = (char)byte;
    }
    *out_count = written;
    return true;
}
