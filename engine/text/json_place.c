/* See json_place.h. */
#include "engine/text/json_place.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/assert.h"

void json_place_root(struct json_place *place, const char *file, const struct meta_json *root)
{
    place->value = root;
    snprintf(place->where, sizeof(place->where), "%s#", file);
}

/* Appends "/key" as a JSON pointer does: ~ and / are written as ~0 and ~1. */
static void append_key(char where[ERR_WHERE_BYTES], const char *key)
{
    size_t count = strlen(where);
    const char *next = key;
    char c = '/';
    while (c != '\0' && count + 3 < ERR_WHERE_BYTES) {
        if (c == '~' || (c == '/' && next != key)) {
            where[count++] = '~';
            c = c == '~' ? '0' : '1';
        }
        where[count++] = c;
        c = *next++;
    }
    where[count] = '\0';
}

static bool is_null(const struct meta_json *value)
{
    return value == NULL || meta_json_type(value) == META_JSON_NULL;
}

void json_place_member(const struct json_place *object, const char *key, struct json_place *out)
{
    const struct meta_json *value = meta_json_get(object->value, key);
    memmove(out->where, object->where, sizeof(out->where));
    append_key(out->where, key);
    out->value = is_null(value) ? NULL : value;
}

void json_place_element(const struct json_place *array, size_t index, struct json_place *out)
{
    char number[32];
    const struct meta_json *value = meta_json_at(array->value, index);
    snprintf(number, sizeof(number), "%zu", index);
    memmove(out->where, array->where, sizeof(out->where));
    append_key(out->where, number);
    out->value = is_null(value) ? NULL : value;
}

enum err json_place_expect(
    const struct json_place *place, enum meta_json_type type, struct err_info *info)
{
    static const char *const names[] = {
        [META_JSON_NULL] = "null",
        [META_JSON_BOOL] = "true or false",
        [META_JSON_INTEGER] = "an integer",
        [META_JSON_REAL] = "a number",
        [META_JSON_STRING] = "a string",
        [META_JSON_ARRAY] = "an array",
        [META_JSON_OBJECT] = "an object",
    };
    if (place->value == NULL) {
        return err_set(info, ERR_FORMAT, place->where, "is missing; %s is needed", names[type]);
    }
    if (meta_json_type(place->value) != type) {
        return err_set(info, ERR_FORMAT, place->where, "is not %s", names[type]);
    }
    return ERR_OK;
}

enum err json_place_bool(
    const struct json_place *object, const char *key, bool *out, struct err_info *info)
{
    struct json_place place;
    json_place_member(object, key, &place);
    if (place.value == NULL) {
        return ERR_OK;
    }
    enum err err = json_place_expect(&place, META_JSON_BOOL, info);
    if (err == ERR_OK) {
        *out = meta_json_bool(place.value);
    }
    return err;
}

enum err json_place_text(
    const struct json_place *object, const char *key, struct json_text *out, struct err_info *info)
{
    struct json_place place;
    json_place_member(object, key, &place);
    if (place.value == NULL) {
        return ERR_OK;
    }
    enum err err = json_place_expect(&place, META_JSON_STRING, info);
    if (err == ERR_OK) {
        *out = (struct json_text){meta_json_string(place.value), meta_json_count(place.value)};
    }
    return err;
}

enum err json_place_integer(const struct json_place *object, const char *key, int64_t min,
    int64_t max, int64_t *out, struct err_info *info)
{
    struct json_place place;
    json_place_member(object, key, &place);
    if (place.value == NULL) {
        return ERR_OK;
    }
    enum err err = json_place_expect(&place, META_JSON_INTEGER, info);
    if (err != ERR_OK) {
        return err;
    }
    int64_t value = meta_json_integer(place.value);
    if (value < min || value > max) {
        return err_set(info, ERR_FORMAT, place.where, "is not from %lld to %lld", (long long)min,
            (long long)max);
    }
    *out = value;
    return ERR_OK;
}

enum err json_place_only(
    const struct json_place *object, const char *const *keys, struct err_info *info)
{
    void *cursor = NULL;
    const char *key;
    const struct meta_json *value;
    while (meta_json_next(object->value, &cursor, &key, &value)) {
        size_t i = 0;
        while (keys[i] != NULL && strcmp(keys[i], key) != 0) {
            i++;
        }
        if (keys[i] == NULL) {
            struct json_place place;
            json_place_member(object, key, &place);
            return err_set(info, ERR_UNSUPPORTED, place.where, "is not known here");
        }
    }
    return ERR_OK;
}

bool json_text_is(const struct json_text *text, const char *string)
{
    return text->bytes != NULL && strcmp(text->bytes, string) == 0;
}
