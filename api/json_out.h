/*
 * JSON out, into a bounded buffer: a writer that knows where commas belong, and the float printer.
 *
 * Floats: the shortest of 6 to 9 significant digits that reads back to the same float32. Doubles:
 * the shortest of 1 to 17 digits that reads back. Never locale-dependent, never NaN or infinity: a
 * non-finite value marks the writer failed.
 */
#ifndef API_JSON_OUT_H
#define API_JSON_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "engine/base/buf.h"

enum { JSON_OUT_DEPTH = 32, JSON_FLOAT_BYTES = 32 };

struct json_out {
    struct buf *buf;
    uint8_t stack[JSON_OUT_DEPTH]; /* '{' or '[' */
    bool first[JSON_OUT_DEPTH];
    int32_t depth;
    bool after_key;
    bool failed;
};

void json_out_init(struct json_out *out, struct buf *buf);
void json_out_object(struct json_out *out);
void json_out_array(struct json_out *out);
void json_out_end(struct json_out *out); /* of the innermost object or array */
void json_out_key(struct json_out *out, const char *key);
/* The same for a key that is not NUL-terminated. */
void json_out_key_bytes(struct json_out *out, const char *key, size_t count);
void json_out_string(struct json_out *out, const char *text); /* NULL gives null */
/* Invalid UTF-8 becomes U+FFFD. */
void json_out_bytes(struct json_out *out, const char *bytes, size_t count);
void json_out_int(struct json_out *out, int64_t value);
void json_out_bool(struct json_out *out, bool value);
void json_out_null(struct json_out *out);
void json_out_float(struct json_out *out, float value);
void json_out_double(struct json_out *out, double value);
void json_out_floats(struct json_out *out, const float *values, size_t count); /* a whole array */
/* A string of padded base64, in two steps: room for its bytes (NULL: the buffer is full, and there
 * is no second step), which the caller fills; then their text, in the same place. */
unsigned char *json_out_base64_room(struct json_out *out, size_t bytes);
void json_out_base64_close(struct json_out *out, const unsigned char *room, size_t bytes);

/* Writes at most JSON_FLOAT_BYTES - 1 bytes, no NUL; 0 for NaN and infinity. */
size_t json_print_float(float value, char out[JSON_FLOAT_BYTES]);

#endif
