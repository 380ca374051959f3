/* See profile_reader.h. */
#include "engine/load/profile_reader.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum err profile_reader_fail(struct profile_reader *reader, enum err code, const char *format, ...)
{
    char where[ERR_WHERE_BYTES];
    char text[ERR_TEXT_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    snprintf(where, sizeof(where), "%.60s: %.90s", reader->source, reader->path);
    return err_set(
        reader->info, code, reader->path[0] == '\0' ? reader->source : where, "%s", text);
}

size_t profile_reader_push(struct profile_reader *reader, const char *key)
{
    const size_t length = strlen(reader->path);
    const char *dot = length == 0 || key[0] == '[' ? "" : ".";
    snprintf(reader->path + length, sizeof(reader->path) - length, "%s%s", dot, key);
    return length;
}

/* ---- kinds of values ------------------------------------------------------------------------ */

enum err profile_reader_want(
    struct profile_reader *reader, const struct meta_json *value, enum meta_json_type type)
{
    static const char *const words[] = {
        "null", "true or false", "an integer", "a number", "a string", "a list", "an object"};
    if (meta_json_type(value) != type) {
        return profile_reader_fail(
            reader, ERR_FORMAT, "is %s, not %s", words[meta_json_type(value)], words[type]);
    }
    return ERR_OK;
}

enum err profile_reader_object(struct profile_reader *reader, const struct meta_json *value,
    const struct profile_entry *entries, size_t entry_count)
{
    enum err err = profile_reader_want(reader, value, META_JSON_OBJECT);
    void *cursor = NULL;
    const char *key;
    const struct meta_json *member;
    while (err == ERR_OK && meta_json_next(value, &cursor, &key, &member)) {
        const size_t length = profile_reader_push(reader, key);
        size_t i = 0;
        while (i < entry_count && strcmp(entries[i].key, key) != 0) {
            i++;
        }
        err = i == entry_count
                  ? profile_reader_fail(reader, ERR_FORMAT, "a profile has no such key")
                  : entries[i].read(reader, member);
        if (err == ERR_OK) {
            reader->path[length] = '\0';
        }
    }
    return err;
}

enum err profile_reader_list(struct profile_reader *reader, const struct meta_json *value,
    size_t count_max, profile_read_fn *read)
{
    enum err err = profile_reader_want(reader, value, META_JSON_ARRAY);
    if (err == ERR_OK && meta_json_count(value) > count_max) {
        return profile_reader_fail(reader, ERR_LIMIT, "has %zu elements, at most %zu are possible",
            meta_json_count(value), count_max);
    }
    for (size_t i = 0; err == ERR_OK && i < meta_json_count(value); i++) {
        char index[24];
        snprintf(index, sizeof(index), "[%zu]", i);
        const size_t length = profile_reader_push(reader, index);
        err = read(reader, meta_json_at(value, i));
        if (err == ERR_OK) {
            reader->path[length] = '\0';
        }
    }
    return err;
}

enum err profile_reader_text(
    struct profile_reader *reader, const struct meta_json *value, size_t bytes, char *out)
{
    enum err err = profile_reader_want(reader, value, META_JSON_STRING);
    if (err != ERR_OK) {
        return err;
    }
    const size_t count = meta_json_count(value);
    if (count == 0) {
        return profile_reader_fail(reader, ERR_FORMAT, "is empty");
    }
    if (count >= bytes) {
        return profile_reader_fail(
            reader, ERR_LIMIT, "has %zu bytes, at most %zu are possible", count, bytes - 1);
    }
    memcpy(out, meta_json_string(value), count + 1);
    return ERR_OK;
}

enum err profile_reader_bool(
    struct profile_reader *reader, const struct meta_json *value, bool *out)
{
    enum err err = profile_reader_want(reader, value, META_JSON_BOOL);
    if (err == ERR_OK) {
        *out = meta_json_bool(value);
    }
    return err;
}

enum err profile_reader_word(struct profile_reader *reader, const struct meta_json *value,
    const char *const *words, int *out)
{
    enum err err = profile_reader_want(reader, value, META_JSON_STRING);
    for (int i = 0; err == ERR_OK && words[i] != NULL; i++) {
        if (strcmp(words[i], meta_json_string(value)) == 0) {
            *out = i;
            return ERR_OK;
        }
    }
    return err != ERR_OK ? err
                         : profile_reader_fail(reader, ERR_FORMAT, "no such word is known here");
}

enum err profile_reader_integer(struct profile_reader *reader, const struct meta_json *value,
    int32_t min, int32_t max, int32_t *out)
{
    enum err err = profile_reader_want(reader, value, META_JSON_INTEGER);
    if (err != ERR_OK) {
        return err;
    }
    const int64_t number = meta_json_integer(value);
    if (number < min || number > max) {
        return profile_reader_fail(
            reader, ERR_FORMAT, "is outside %" PRId32 " to %" PRId32, min, max);
    }
    *out = (int32_t)number;
    return ERR_OK;
}
