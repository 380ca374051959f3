/*
 * Leaf checks; see validate.h. What surprises: there is one message per field, "must be <what>",
 * where the generator wrote <what> from the schema. A wrong type and a value out of range say the
 * same sentence and differ in the word.
 */
#include "api/validate.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* ---- places -------------------------------------------------------------------------------- */

/* Appends to a bounded text; what does not fit is cut. Escapes of RFC 6901. */
static size_t append_key(char *out, size_t capacity, size_t count, const char *key)
{
    for (const char *at = key; *at != '\0' && count + 2 < capacity; at++) {
        if (*at == '~' || *at == '/') {
            out[count++] = '~';
            out[count++] = *at == '~' ? '0' : '1';
        } else {
            out[count++] = *at;
        }
    }
    return count;
}

static size_t append_path(char *out, size_t capacity, const struct path *path)
{
    if (path == NULL) {
        return 0;
    }
    size_t count = append_path(out, capacity, path->parent);
    if (count + 24 >= capacity) { /* an index has at most 20 digits */
        return count;
    }
    out[count++] = '/';
    if (path->key != NULL) {
        return append_key(out, capacity, count, path->key);
    }
    return count + (size_t)snprintf(out + count, capacity - count, "%zu", path->index);
}

enum err validate_fail(struct err_info *info, enum err err, const struct path *path,
    const char *word, const char *text)
{
    char where[ERR_WHERE_BYTES];
    where[append_path(where, sizeof(where) - 1, path)] = '\0';
    (void)err_set(info, err, where, "%s", text);
    if (info != NULL && word != NULL) {
        (void)snprintf(info->word, sizeof(info->word), "%s", word);
    }
    return err;
}

static enum err must_be(
    const struct schema *schema, const struct path *path, const char *word, struct err_info *info)
{
    char text[ERR_TEXT_BYTES];
    (void)snprintf(text, sizeof(text), "must be %s", schema->what);
    return validate_fail(info, ERR_INVALID, path, word, text);
}

/* ---- leaves -------------------------------------------------------------------------------- */

static bool is_number(const struct json_in *value)
{
    enum json_in_kind kind = json_in_kind(value);
    return kind == JSON_IN_INTEGER || kind == JSON_IN_REAL;
}

bool validate_integer(const struct json_in *value, int64_t *out)
{
    if (json_in_kind(value) == JSON_IN_INTEGER) {
        *out = json_in_integer(value);
        return true;
    }
    if (json_in_kind(value) != JSON_IN_REAL) {
        return false;
    }
    double real = json_in_number(value);
    /* 2^63 itself does not fit; -2^63 does. */
    if (real < -0x1p63 || real >= 0x1p63 || real != floor(real)) {
        return false;
    }
    *out = (int64_t)real;
    return true;
}

int32_t validate_word(const struct schema *schema, const struct json_in *value)
{
    if (json_in_kind(value) != JSON_IN_STRING) {
        return -1;
    }
    size_t bytes;
    const char *text = json_in_string(value, &bytes);
    for (int32_t i = 0; i < schema->word_count; i++) {
        const char *word = schema->words[i];
        if (schema->any_case ? strcasecmp(word, text) == 0 : strcmp(word, text) == 0) {
            return i;
        }
    }
    return -1;
}

static bool matches_object(const struct schema *schema, const struct json_in *value)
{
    for (int32_t i = 0; i < schema->field_count; i++) {
        const struct schema_field *field = &schema->fields[i];
        if (field->required) {
            const struct json_in *member = json_in_get(value, field->name);
            if (member == NULL || json_in_kind(member) == JSON_IN_NULL) {
                return false;
            }
        }
    }
    return true;
}

bool validate_matches(const struct schema *schema, const struct json_in *value)
{
    enum json_in_kind kind = json_in_kind(value);
    switch (schema->type) {
    case SCHEMA_STRING:
    case SCHEMA_ENUM:
        return kind == JSON_IN_STRING;
    case SCHEMA_INTEGER:
    case SCHEMA_NUMBER:
        return is_number(value);
    case SCHEMA_BOOLEAN:
        return kind == JSON_IN_BOOL;
    case SCHEMA_LIST: /* the first element speaks for all; an empty list is any list */
        return kind == JSON_IN_ARRAY &&
               (json_in_count(value) == 0 || validate_matches(schema->items, json_in_at(value, 0)));
    case SCHEMA_TUPLE:
        return kind == JSON_IN_ARRAY;
    case SCHEMA_MAP:
    case SCHEMA_JSON:
        return kind == JSON_IN_OBJECT;
    case SCHEMA_OBJECT:
        return kind == JSON_IN_OBJECT && matches_object(schema, value);
    case SCHEMA_UNION:
        for (int32_t i = 0; i < schema->alternative_count; i++) {
            if (validate_matches(schema->alternatives[i].schema, value)) {
                return true;
            }
        }
        return false;
    }
    return false;
}

static bool number_in_range(const struct schema *schema, double value)
{
    bool above = schema->number_min_open ? value > schema->number_min : value >= schema->number_min;
    return above && value <= schema->number_max;
}

static bool count_in_range(const struct schema *schema, size_t count)
{
    return count >= (size_t)schema->count_min && count <= (size_t)schema->count_max;
}

static bool in_range(const struct schema *schema, const struct json_in *value)
{
    int64_t integer = 0;
    size_t bytes = 0;
    switch (schema->type) {
    case SCHEMA_INTEGER:
        return validate_integer(value, &integer) && integer >= schema->integer_min &&
               integer <= schema->integer_max;
    case SCHEMA_NUMBER:
        return number_in_range(schema, json_in_number(value));
    case SCHEMA_STRING:
        (void)json_in_string(value, &bytes);
        return count_in_range(schema, bytes);
    case SCHEMA_ENUM:
        return validate_word(schema, value) >= 0;
    case SCHEMA_LIST:
    case SCHEMA_MAP:
        return count_in_range(schema, json_in_count(value));
    case SCHEMA_TUPLE:
        return json_in_count(value) == (size_t)schema->field_count;
    case SCHEMA_BOOLEAN:
    case SCHEMA_OBJECT:
    case SCHEMA_JSON:
    case SCHEMA_UNION:
        break;
    }
    return true;
}

bool validate_type(const struct schema *schema, const struct json_in *value)
{
    enum json_in_kind kind = json_in_kind(value);
    switch (schema->type) {
    case SCHEMA_LIST:
    case SCHEMA_TUPLE:
        return kind == JSON_IN_ARRAY;
    case SCHEMA_MAP:
    case SCHEMA_JSON:
    case SCHEMA_OBJECT:
        return kind == JSON_IN_OBJECT;
    case SCHEMA_STRING:
    case SCHEMA_ENUM:
    case SCHEMA_INTEGER:
    case SCHEMA_NUMBER:
    case SCHEMA_BOOLEAN:
    case SCHEMA_UNION:
        break;
    }
    return validate_matches(schema, value);
}

enum err validate_value(const struct schema *schema, const struct json_in *value,
    const struct path *path, struct err_info *info)
{
    if (!validate_type(schema, value)) {
        return must_be(schema, path, "wrong_type", info);
    }
    if (!in_range(schema, value)) {
        return must_be(schema, path, "out_of_range", info);
    }
    return ERR_OK;
}

/* Null members count as absent. */
static bool is_empty_object(const struct json_in *value)
{
    struct json_in_member member = {0};
    while (json_in_next(value, &member)) {
        if (json_in_kind(member.value) != JSON_IN_NULL) {
            return false;
        }
    }
    return true;
}

static bool equals_neutral(const struct schema_neutral *neutral, const struct json_in *value)
{
    enum json_in_kind kind = json_in_kind(value);
    int64_t integer;
    size_t bytes;
    switch (neutral->kind) {
    case JSON_IN_BOOL:
        return kind == JSON_IN_BOOL && json_in_bool(value) == (neutral->value != 0);
    case JSON_IN_INTEGER:
        return validate_integer(value, &integer) && integer == neutral->value;
    case JSON_IN_STRING:
        return kind == JSON_IN_STRING && strcmp(json_in_string(value, &bytes), neutral->text) == 0;
    case JSON_IN_ARRAY:
        return kind == JSON_IN_ARRAY && json_in_count(value) == 0;
    case JSON_IN_OBJECT:
        return kind == JSON_IN_OBJECT && is_empty_object(value);
    case JSON_IN_REAL:
    case JSON_IN_NULL:
        break;
    }
    return false;
}

bool validate_neutral(const struct schema_field *field, const struct json_in *value)
{
    for (int32_t i = 0; i < field->neutral_count; i++) {
        if (equals_neutral(&field->neutrals[i], value)) {
            return true;
        }
    }
    return false;
}
