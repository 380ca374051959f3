/*
 * A vector into a reply: numbers, or one of the packed forms as padded base64. Private to api/.
 *
 *     base64   little-endian float32
 *     float16  little-endian float16, rounded to nearest even
 *     int8     a little-endian float32, the scale, then a signed byte each: value = byte * scale
 *     binary   a bit each, 1 above 0, the first in the highest bit; unused bits are 0
 */
#ifndef API_VECTOR_OUT_H
#define API_VECTOR_OUT_H

#include "api/json_out.h"
#include "schemas/tables.h"

/* A value that is not finite marks the writer failed, as does one beyond float16 in that form. */
void vector_out(
    struct json_out *out, enum common_encoding_format format, const float *values, size_t count);

#endif
