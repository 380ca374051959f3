/*
 * The JSON files of a folder as a model hub lays it out: config.json and its like. Bounded, read
 * once, asked by key; an error names file and key ("config.json: rope_scaling.type"). A key that
 * is null is as good as absent, which is what the writers of such files mean.
 */
#ifndef ENGINE_LOAD_HUB_JSON_H
#define ENGINE_LOAD_HUB_JSON_H

#include "engine/base/err.h"
#include "engine/load/meta_json.h"

enum { HUB_PATH_BYTES = 96 };

struct hub_json {
    const char *file;
    char path[HUB_PATH_BYTES];     /* of an object inside another, "rope_scaling."; else "" */
    struct meta_json *root;        /* what hub_json_close frees; NULL for an inner object */
    const struct meta_json *value; /* the object or list asked; NULL when the file is absent */
    struct err_info *info;
};

/* Opens a file whose whole is an object or a list, as `type` says. *out->value is NULL when the
 * file is absent and not required. */
MUST_USE enum err hub_json_open(int folder, const char *file, enum meta_json_type type,
    bool required, struct hub_json *out, struct err_info *info);
/* Same over a text in memory. */
MUST_USE enum err hub_json_parse(const char *bytes, size_t count, const char *file,
    enum meta_json_type type, struct hub_json *out, struct err_info *info);
void hub_json_close(struct hub_json *json); /* zeroed ones are allowed */

/* The last word of "sentence_transformers.models.Pooling", whatever the package calls itself. */
const char *hub_last_word(const char *dotted);
/* "FILE: path.key". */
void hub_shown(const struct hub_json *json, const char *key, char out[ERR_WHERE_BYTES]);
/* err_set with that. */
enum err hub_fail(const struct hub_json *json, enum err code, const char *key, const char *format,
    ...) PRINTF_LIKE(4, 5);

/* NULL when absent or null. */
const struct meta_json *hub_find(const struct hub_json *json, const char *key);
/* Each leaves *out as it was when the key is absent and not required. */
MUST_USE enum err hub_integer(const struct hub_json *json, const char *key, bool required,
    int64_t min, int64_t max, int64_t *out);
MUST_USE enum err hub_real(
    const struct hub_json *json, const char *key, bool required, double *out);
MUST_USE enum err hub_bool(const struct hub_json *json, const char *key, bool *out);
MUST_USE enum err hub_string(
    const struct hub_json *json, const char *key, bool required, const char **out);
/* No keys but these, or null; others are ERR_UNSUPPORTED. */
MUST_USE enum err hub_only_keys(
    const struct hub_json *json, const char *const *known, size_t known_count);
/* An object or list inside; out->value is NULL when it is absent. */
MUST_USE enum err hub_inner(
    const struct hub_json *json, const char *key, enum meta_json_type type, struct hub_json *out);

#endif
