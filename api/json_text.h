/* A value of a request back as text: for fields that are JSON of somebody else's making. */
#ifndef API_JSON_TEXT_H
#define API_JSON_TEXT_H

#include "api/json_in.h"
#include "engine/base/buf.h"

enum { JSON_TEXT_MAX = 16 << 20 }; /* of a field: four times a body, for escapes */

/* Compact, members in their order. What does not fit marks the buffer failed. */
void json_text_write(const struct json_in *value, struct buf *out);

#endif
