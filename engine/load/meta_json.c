/*
 * The one file of the engine that knows jansson. The scan before the parser is no second parser: it
 * only counts what opens and separates, outside strings, and so bounds recursion and memory
 * whatever the bytes are. Grammar stays the parser's business.
 */
#include "engine/load/meta_json.h"

#include <jansson.h>
#include "engine/base/assert.h"
#include "engine/base/utf8.h"

/* A struct meta_json is a json_t under another name; it is never looked into here. */
static json_t *inner(const struct meta_json *value)
{
    return (json_t *)(uintptr_t)value;
}

static struct meta_json *outer(json_t *value)
{
    return (struct meta_json *)(void *)value;
}

static enum err check_limits(const char *bytes, size_t count, const struct meta_json_limits *limits,
    const char *where, struct err_info *info)
{
    int32_t depth = 0;
    int64_t values = 1;
    bool in_string = false;
    if (count > limits->bytes) {
        return err_at(
            info, limits->bytes, err_set(info, ERR_LIMIT, where, "the JSON text is too long"));
    }
    for (size_t i = 0; i < count; i++) {
        const char c = bytes[i];
        if (in_string) {
            i += c == '\\';
            in_string = c != '"';
            continue;
        }
        in_string = c == '"';
        depth += (c == '[' || c == '{') - (c == ']' || c == '}');
        values += c == ',' || c == ':' || c == '[' || c == '{';
        if (depth > limits->depth) {
            return err_at(
                info, i, err_set(info, ERR_LIMIT, where, "the JSON text is nested too deeply"));
        }
        if (values > limits->values) {
            return err_at(
                info, i, err_set(info, ERR_LIMIT, where, "the JSON text has too many values"));
        }
    }
    return ERR_OK;
}

/* The parser stops behind the second of two equal keys: what lies between the last two quotes. */
static enum err refuse_twice(
    const char *bytes, size_t stopped_at, const char *where, struct err_info *info)
{
    size_t end = stopped_at;
    while (end > 0 && bytes[end - 1] != '"') {
        end--;
    }
    size_t from = end > 0 ? end - 1 : 0;
    while (from > 0 && bytes[from - 1] != '"') {
        from--;
    }
    const size_t length = end > from ? utf8_complete(bytes + from, MIN(end - 1 - from, 128)) : 0;
    return err_set(
        info, ERR_FORMAT, where, "the key %.*s appears twice", (int)length, bytes + from);
}

enum err meta_json_parse(const char *bytes, size_t count, const struct meta_json_limits *limits,
    const char *where, struct meta_json **out_root, struct err_info *info)
{
    enum err err = check_limits(bytes, count, limits, where, info);
    if (err != ERR_OK) {
        return err;
    }
    json_error_t error = {0};
    json_t *root = json_loadb(bytes, count, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL && json_error_code(&error) == json_error_out_of_memory) {
        return err_set(info, ERR_NO_MEMORY, where, "no memory for the JSON text");
    }
    if (root == NULL) {
        if (json_error_code(&error) == json_error_duplicate_key) {
            (void)refuse_twice(bytes, MIN((size_t)error.position, count), where, info);
        } else {
            err_set(info, ERR_FORMAT, where, "invalid JSON");
        }
        if (info != NULL) {
            info->offset = error.position;
            info->line = error.line;
            info->column = error.column;
        }
        return ERR_FORMAT;
    }
    *out_root = outer(root);
    return ERR_OK;
}

void meta_json_free(struct meta_json *root)
{
    json_decref(inner(root));
}

enum meta_json_type meta_json_type(const struct meta_json *value)
{
    switch (json_typeof(inner(value))) {
    case JSON_OBJECT:
        return META_JSON_OBJECT;
    case JSON_ARRAY:
        return META_JSON_ARRAY;
    case JSON_STRING:
        return META_JSON_STRING;
    case JSON_INTEGER:
        return META_JSON_INTEGER;
    case JSON_REAL:
        return META_JSON_REAL;
    case JSON_TRUE:
    case JSON_FALSE:
        return META_JSON_BOOL;
    case JSON_NULL:
        break;
    }
    return META_JSON_NULL;
}

size_t meta_json_count(const struct meta_json *value)
{
    const enum meta_json_type type = meta_json_type(value);
    if (type == META_JSON_STRING) {
        return json_string_length(inner(value));
    }
    ASSERT(type == META_JSON_ARRAY || type == META_JSON_OBJECT);
    return type == META_JSON_ARRAY ? json_array_size(inner(value)) : json_object_size(inner(value));
}

const struct meta_json *meta_json_at(const struct meta_json *array, size_t index)
{
    ASSERT(index < json_array_size(inner(array)));
    return outer(json_array_get(inner(array), index));
}

const struct meta_json *meta_json_get(const struct meta_json *object, const char *key)
{
    ASSERT(json_is_object(inner(object)));
    return outer(json_object_get(inner(object), key));
}

bool meta_json_next(const struct meta_json *object, void **cursor, const char **out_key,
    const struct meta_json **out_value)
{
    ASSERT(json_is_object(inner(object)));
    *cursor = *cursor == NULL ? json_object_iter(inner(object))
                              : json_object_iter_next(inner(object), *cursor);
    if (*cursor == NULL) {
        return false;
    }
    *out_key = json_object_iter_key(*cursor);
    *out_value = outer(json_object_iter_value(*cursor));
    return true;
}

const char *meta_json_string(const struct meta_json *string)
{
    ASSERT(json_is_string(inner(string)));
    return json_string_value(inner(string));
}

int64_t meta_json_integer(const struct meta_json *integer)
{
    ASSERT(json_is_integer(inner(integer)));
    return json_integer_value(inner(integer));
}

double meta_json_number(const struct meta_json *number)
{
    ASSERT(json_is_number(inner(number)));
    return json_number_value(inner(number));
}

bool meta_json_bool(const struct meta_json *value)
{
    ASSERT(json_is_boolean(inner(value)));
    return json_is_true(inner(value));
}
