/* See hub_json.h. */
#include "engine/load/hub_json.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "engine/base/mem.h"
#include "engine/engine_limits.h"
#include "engine/load/file.h"

enum {
    DEPTH = 16,
    VALUES = 1 << 17, /* label maps of classifiers have thousands */
};

static const char *const words[] = {
    "null", "true or false", "an integer", "a number", "a string", "a list", "an object"};

const char *hub_last_word(const char *dotted)
{
    const char *dot = strrchr(dotted, '.');
    return dot == NULL ? dotted : dot + 1;
}

void hub_shown(const struct hub_json *json, const char *key, char out[ERR_WHERE_BYTES])
{
    (void)snprintf(out, ERR_WHERE_BYTES, "%s%s%s%s", json->file,
        json->path[0] == '\0' && key[0] == '\0' ? "" : ": ", json->path, key);
}

enum err hub_fail(
    const struct hub_json *json, enum err code, const char *key, const char *format, ...)
{
    char where[ERR_WHERE_BYTES];
    char text[ERR_TEXT_BYTES];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    hub_shown(json, key, where);
    return err_set(json->info, code, where, "%s", text);
}

/* ---- files ---------------------------------------------------------------------------------- */

enum err hub_json_parse(const char *bytes, size_t count, const char *file, enum meta_json_type type,
    struct hub_json *out, struct err_info *info)
{
    static const struct meta_json_limits limits = {
        .bytes = LIMIT_FILE_INDEX_BYTES, .depth = DEPTH, .values = VALUES + 2 * LIMIT_FILE_TENSORS};
    *out = (struct hub_json){.file = file, .info = info};
    enum err err = meta_json_parse(bytes, count, &limits, file, &out->root, info);
    if (err != ERR_OK) {
        return err;
    }
    if (meta_json_type(out->root) != type) {
        err = hub_fail(out, ERR_FORMAT, "", "the text is %s, not %s",
            words[meta_json_type(out->root)], words[type]);
        hub_json_close(out);
        return err;
    }
    out->value = out->root;
    return ERR_OK;
}

enum err hub_json_open(int folder, const char *file, enum meta_json_type type, bool required,
    struct hub_json *out, struct err_info *info)
{
    const char *ending = strstr(file, ".index.json");
    const size_t bytes_max = ending != NULL ? LIMIT_FILE_INDEX_BYTES : LIMIT_FILE_CONFIG_BYTES;
    char *text = NULL;
    size_t count = 0;
    *out = (struct hub_json){.file = file, .info = info};
    if (!required && !file_exists(folder, file)) {
        return ERR_OK;
    }
    enum err err = file_load_in(folder, file, bytes_max, &text, &count, info);
    if (err == ERR_OK) {
        err = hub_json_parse(text, count, file, type, out, info);
    }
    mem_free(text);
    return err;
}

void hub_json_close(struct hub_json *json)
{
    if (json->root != NULL) {
        meta_json_free(json->root);
    }
    json->root = NULL;
    json->value = NULL;
}

/* ---- values --------------------------------------------------------------------------------- */

const struct meta_json *hub_find(const struct hub_json *json, const char *key)
{
    const struct meta_json *found = meta_json_get(json->value, key);
    return found == NULL || meta_json_type(found) == META_JSON_NULL ? NULL : found;
}

/* *out is NULL for a key that may be absent and is. */
static enum err look_up(const struct hub_json *json, const char *key, bool required,
    enum meta_json_type type, const struct meta_json **out)
{
    *out = hub_find(json, key);
    if (*out == NULL) {
        return required ? hub_fail(json, ERR_FORMAT, key, "the key is missing") : ERR_OK;
    }
    if (meta_json_type(*out) != type &&
        !(type == META_JSON_REAL && meta_json_type(*out) == META_JSON_INTEGER)) {
        return hub_fail(
            json, ERR_FORMAT, key, "is %s, not %s", words[meta_json_type(*out)], words[type]);
    }
    return ERR_OK;
}

enum err hub_integer(const struct hub_json *json, const char *key, bool required, int64_t min,
    int64_t max, int64_t *out)
{
    const struct meta_json *found;
    enum err err = look_up(json, key, required, META_JSON_INTEGER, &found);
    if (err != ERR_OK || found == NULL) {
        return err;
    }
    const int64_t value = meta_json_integer(found);
    if (value < min || value > max) {
        return hub_fail(json, ERR_FORMAT, key, "%" PRId64 " is outside %" PRId64 " to %" PRId64,
            value, min, max);
    }
    *out = value;
    return ERR_OK;
}

enum err hub_real(const struct hub_json *json, const char *key, bool required, double *out)
{
    const struct meta_json *found;
    enum err err = look_up(json, key, required, META_JSON_REAL, &found);
    if (err == ERR_OK && found != NULL) {
        *out = meta_json_number(found);
    }
    return err;
}

enum err hub_bool(const struct hub_json *json, const char *key, bool *out)
{
    const struct meta_json *found;
    enum err err = look_up(json, key, false, META_JSON_BOOL, &found);
    if (err == ERR_OK && found != NULL) {
        *out = meta_json_bool(found);
    }
    return err;
}

enum err hub_string(const struct hub_json *json, const char *key, bool required, const char **out)
{
    const struct meta_json *found;
    enum err err = look_up(json, key, required, META_JSON_STRING, &found);
    if (err == ERR_OK && found != NULL) {
        *out = meta_json_string(found);
    }
    return err;
}

enum err hub_inner(
    const struct hub_json *json, const char *key, enum meta_json_type type, struct hub_json *out)
{
    const struct meta_json *found;
    enum err err = look_up(json, key, false, type, &found);
    *out = (struct hub_json){.file = json->file, .value = found, .info = json->info};
    (void)snprintf(out->path, sizeof(out->path), "%.40s%.40s.", json->path, key);
    return err;
}

enum err hub_only_keys(const struct hub_json *json, const char *const *known, size_t known_count)
{
    void *cursor = NULL;
    const char *key;
    const struct meta_json *value;
    while (meta_json_next(json->value, &cursor, &key, &value)) {
        bool found = meta_json_type(value) == META_JSON_NULL;
        for (size_t i = 0; i < known_count && !found; i++) {
            found = strcmp(known[i], key) == 0;
        }
        if (!found) {
            return hub_fail(
                json, ERR_UNSUPPORTED, key, "the key is not known and could change the results");
        }
    }
    return ERR_OK;
}
