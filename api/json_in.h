/*
 * JSON in: request bytes to a read-only tree, under rules stricter than the grammar's. The only
 * file that knows jansson.
 *
 * Accepted: one object, UTF-8, depth at most JSON_IN_DEPTH, at most JSON_IN_ELEMENTS commas and
 * openings, integers in int64, reals in double. Refused with a position: duplicate keys, \u0000,
 * lone surrogates, a byte order mark, trailing bytes. Messages never quote the input.
 *
 * The tree lives in the arena it was parsed into and is never freed piece by piece.
 */
#ifndef API_JSON_IN_H
#define API_JSON_IN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "engine/base/arena.h"
#include "engine/base/err.h"

enum {
    JSON_IN_DEPTH = 64,
    JSON_IN_ELEMENTS = 524288,
    /* The costliest tree within the bounds above is objects without members, about 70 MiB. */
    JSON_IN_TREE_BYTES = 128 << 20,
};

enum json_in_kind {
    JSON_IN_NULL,
    JSON_IN_BOOL,
    JSON_IN_INTEGER,
    JSON_IN_REAL,
    JSON_IN_STRING,
    JSON_IN_ARRAY,
    JSON_IN_OBJECT
};

struct json_in; /* a value */

/* Once, before any other thread exists. */
void json_in_init(void);

/* ERR_JSON with offset, line and column (both from 1, columns in characters); ERR_NO_MEMORY. */
MUST_USE enum err json_in_parse(struct arena *arena, const char *bytes, size_t count,
    const struct json_in **out_root, struct err_info *info);

enum json_in_kind json_in_kind(const struct json_in *value);
bool json_in_bool(const struct json_in *value);
int64_t json_in_integer(const struct json_in *value); /* INTEGER only */
double json_in_number(const struct json_in *value);   /* INTEGER or REAL */
/* Valid UTF-8 without NUL, NUL-terminated. */
const char *json_in_string(const struct json_in *value, size_t *out_bytes);
size_t json_in_count(const struct json_in *value); /* elements or members */
const struct json_in *json_in_at(const struct json_in *array, size_t index);
const struct json_in *json_in_get(const struct json_in *object, const char *key); /* or NULL */

/* Members in the order of the text. Start with {0}; false when there are no more. */
struct json_in_member {
    const char *key; /* NUL-terminated, without NUL inside */
    const struct json_in *value;
    void *iterator;
};
bool json_in_next(const struct json_in *object, struct json_in_member *member);

#endif
