/*
 * JSON that lies beside weights (profiles, safetensors headers, config.json), behind a few
 * functions so that no other file of the engine knows the library. Size, depth and number of values
 * are checked before the parser sees a byte. Duplicate keys, NUL in strings, bad UTF-8 and trailing
 * bytes are errors with their position; of a duplicate key the text holds the name.
 */
#ifndef ENGINE_LOAD_META_JSON_H
#define ENGINE_LOAD_META_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "engine/base/err.h"

enum meta_json_type {
    META_JSON_NULL,
    META_JSON_BOOL,
    META_JSON_INTEGER,
    META_JSON_REAL,
    META_JSON_STRING,
    META_JSON_ARRAY,
    META_JSON_OBJECT
};

struct meta_json_limits {
    size_t bytes;
    int32_t depth;
    int64_t values;
};

struct meta_json; /* a value; the root owns all others */

/* `where` names the text in errors: ERR_FORMAT, or ERR_LIMIT past a limit. */
MUST_USE enum err meta_json_parse(const char *bytes, size_t count,
    const struct meta_json_limits *limits, const char *where, struct meta_json **out_root,
    struct err_info *info);
void meta_json_free(struct meta_json *root); /* NULL allowed */

enum meta_json_type meta_json_type(const struct meta_json *value);
/* Elements of an array, pairs of an object, bytes of a string. */
size_t meta_json_count(const struct meta_json *value);
const struct meta_json *meta_json_at(const struct meta_json *array, size_t index);
/* NULL when the object has no such key. */
const struct meta_json *meta_json_get(const struct meta_json *object, const char *key);
/* Walks an object: *cursor starts as NULL; false at the end. */
bool meta_json_next(const struct meta_json *object, void **cursor, const char **out_key,
    const struct meta_json **out_value);
const char *meta_json_string(const struct meta_json *string); /* NUL-terminated */
int64_t meta_json_integer(const struct meta_json *integer);
double meta_json_number(const struct meta_json *number); /* an integer or a real one */
bool meta_json_bool(const struct meta_json *value);

#endif
