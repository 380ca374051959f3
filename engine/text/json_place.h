/*
 * A value of a JSON file and where it stands, so that every error names the place by itself:
 * "tokenizer.json#/normalizer/type". Long pointers are cut at the end.
 */
#ifndef ENGINE_TEXT_JSON_PLACE_H
#define ENGINE_TEXT_JSON_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "engine/base/err.h"
#include "engine/load/meta_json.h"

struct json_place {
    const struct meta_json *value; /* NULL: absent or null */
    char where[ERR_WHERE_BYTES];
};

struct json_text {
    const char *bytes; /* NUL-terminated, holds none */
    size_t count;
};

/* "file#" for the root. */
void json_place_root(struct json_place *place, const char *file, const struct meta_json *root);
/* A member that may be absent or null; `object` is one. */
void json_place_member(const struct json_place *object, const char *key, struct json_place *out);
/* `array` is one and has the element. */
void json_place_element(const struct json_place *array, size_t index, struct json_place *out);

/* ERR_FORMAT for another type, or none. */
MUST_USE enum err json_place_expect(
    const struct json_place *place, enum meta_json_type type, struct err_info *info);
/* Each reads a member of an object. Absent or null leaves *out as it was and is ERR_OK; another
 * type is ERR_FORMAT. */
MUST_USE enum err json_place_bool(
    const struct json_place *object, const char *key, bool *out, struct err_info *info);
MUST_USE enum err json_place_text(
    const struct json_place *object, const char *key, struct json_text *out, struct err_info *info);
MUST_USE enum err json_place_integer(const struct json_place *object, const char *key, int64_t min,
    int64_t max, int64_t *out, struct err_info *info);
/* Members that are not among `keys` (NULL ends them) are ERR_UNSUPPORTED: they may change ids. */
MUST_USE enum err json_place_only(
    const struct json_place *object, const char *const *keys, struct err_info *info);
bool json_text_is(const struct json_text *text, const char *string);

#endif
