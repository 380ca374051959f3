/*
 * Is this JSON value what the schema of a field says? Leaf checks and the errors they make; the
 * walk through objects and lists is api/bind.c's. Every error names its place by a JSON pointer and
 * has one of the words wrong_type, out_of_range, required.
 */
#ifndef API_VALIDATE_H
#define API_VALIDATE_H

#include "api/schema.h"

/* Where the walk is: a chain of frames on the stack, innermost first. */
struct path {
    const struct path *parent; /* NULL at the root */
    const char *key;           /* NULL = an element of a list */
    size_t index;
};

/* Sets *info to `err` at `path`, with a finer word. */
enum err validate_fail(struct err_info *info, enum err err, const struct path *path,
    const char *word, const char *text);

/* Would this alternative of a union take the value, as far as one look tells? */
bool validate_matches(const struct schema *schema, const struct json_in *value);
/* The JSON type alone: a list is a list whatever it holds, an object whatever it lacks. */
bool validate_type(const struct schema *schema, const struct json_in *value);
/* Type and range of a STRING, INTEGER, NUMBER, BOOLEAN or ENUM, count of a LIST, MAP or TUPLE. */
MUST_USE enum err validate_value(const struct schema *schema, const struct json_in *value,
    const struct path *path, struct err_info *info);
/* The integer behind 7 or 7.0: a number with an integral value within int64. */
bool validate_integer(const struct json_in *value, int64_t *out);
/* Index of the word, -1 when it is none of the enum's. */
int32_t validate_word(const struct schema *schema, const struct json_in *value);
/* Does this value of a refused field change nothing? */
bool validate_neutral(const struct schema_field *field, const struct json_in *value);

#endif
