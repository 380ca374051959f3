/* UTF-8 decoding and checking (RFC 3629: no overlong forms, no surrogates, at most U+10FFFF). */
#ifndef ENGINE_BASE_UTF8_H
#define ENGINE_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decodes one character at bytes[0..count), count >= 1. Returns its length 1-4 and writes the code
 * point; for a byte that starts no valid character returns 1 and writes -1. */
int32_t utf8_decode(const char *bytes, size_t count, int32_t *out_code_point);
/* Writes 1-4 bytes for a valid code point; returns the count. */
int32_t utf8_encode(int32_t code_point, char out[4]);
bool utf8_valid(const char *bytes, size_t count);
/* Characters in valid UTF-8 (bytes that are no continuation byte). */
size_t utf8_length(const char *bytes, size_t count);
/* Length of the longest prefix that does not end inside an unfinished but so far valid character:
 * what a stream may release now. */
size_t utf8_complete(const char *bytes, size_t count);

#endif
