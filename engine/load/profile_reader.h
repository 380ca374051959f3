/*
 * What a profile's JSON is read with: kinds of values, tables of keys, and the path of keys, kept
 * so that every error can name it ("x.profile.json: infill.fim.order"). Private to profile_parse.c.
 */
#ifndef ENGINE_LOAD_PROFILE_READER_H
#define ENGINE_LOAD_PROFILE_READER_H

#include "engine/load/meta_json.h"
#include "engine/load/profile.h"

struct profile_reader {
    struct profile *profile;
    const char *source;
    char path[ERR_WHERE_BYTES];        /* "infill.fim.order" */
    struct profile_adapters *adapters; /* of the mode that is read */
    struct err_info *info;
};

typedef enum err profile_read_fn(struct profile_reader *reader, const struct meta_json *value);

struct profile_entry {
    const char *key;
    profile_read_fn *read;
};

/* err_set with source and path. */
enum err profile_reader_fail(struct profile_reader *reader, enum err code, const char *format, ...)
    PRINTF_LIKE(3, 4);
/* Appends a key or "[index]"; returns the length to go back to. */
size_t profile_reader_push(struct profile_reader *reader, const char *key);

/* Each is ERR_FORMAT for a value of another type. */
MUST_USE enum err profile_reader_want(
    struct profile_reader *reader, const struct meta_json *value, enum meta_json_type type);
/* Every key by its entry; one that has none is ERR_FORMAT. */
MUST_USE enum err profile_reader_object(struct profile_reader *reader,
    const struct meta_json *value, const struct profile_entry *entries, size_t entry_count);
MUST_USE enum err profile_reader_list(struct profile_reader *reader, const struct meta_json *value,
    size_t count_max, profile_read_fn *read);
/* 1 to bytes - 1 bytes. */
MUST_USE enum err profile_reader_text(
    struct profile_reader *reader, const struct meta_json *value, size_t bytes, char *out);
MUST_USE enum err profile_reader_bool(
    struct profile_reader *reader, const struct meta_json *value, bool *out);
/* Index of the string among `words`, which end with NULL. */
MUST_USE enum err profile_reader_word(struct profile_reader *reader, const struct meta_json *value,
    const char *const *words, int *out);
MUST_USE enum err profile_reader_integer(struct profile_reader *reader,
    const struct meta_json *value, int32_t min, int32_t max, int32_t *out);

#endif
