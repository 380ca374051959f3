/* Recursion as deep as json_in allows a body to be: JSON_IN_DEPTH. */
#include "api/json_text.h"

#include <string.h>
#include "api/json_out.h"

static void write_string(const char *bytes, size_t count, struct buf *out)
{
    struct json_out json;
    json_out_init(&json, out);
    json_out_bytes(&json, bytes, count);
}

static void write_members(const struct json_in *object, struct buf *out)
{
    struct json_in_member member = {0};
    const char *before = "";
    buf_char(out, '{');
    while (json_in_next(object, &member)) {
        buf_text(out, before);
        write_string(member.key, strlen(member.key), out);
        buf_char(out, ':');
        json_text_write(member.value, out);
        before = ",";
    }
    buf_char(out, '}');
}

static void write_elements(const struct json_in *array, struct buf *out)
{
    buf_char(out, '[');
    for (size_t i = 0; i < json_in_count(array); i++) {
        buf_text(out, i > 0 ? "," : "");
        json_text_write(json_in_at(array, i), out);
    }
    buf_char(out, ']');
}

void json_text_write(const struct json_in *value, struct buf *out)
{
    struct json_out json;
    size_t bytes;
    json_out_init(&json, out);
    switch (json_in_kind(value)) {
    case JSON_IN_NULL:
        json_out_null(&json);
        break;
    case JSON_IN_BOOL:
        json_out_bool(&json, json_in_bool(value));
        break;
    case JSON_IN_INTEGER:
        json_out_int(&json, json_in_integer(value));
        break;
    case JSON_IN_REAL:
        json_out_double(&json, json_in_number(value));
        break;
    case JSON_IN_STRING: {
        const char *text = json_in_string(value, &bytes);
        write_string(text, bytes, out);
        break;
    }
    case JSON_IN_ARRAY:
        write_elements(value, out);
        break;
    case JSON_IN_OBJECT:
        write_members(value, out);
        break;
    }
}
