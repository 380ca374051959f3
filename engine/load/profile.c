/*
 * Finds a checkpoint's profile and knows what holds without one. Reading the JSON is
 * profile_parse.c.
 */
#include "engine/load/profile.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "engine/base/mem.h"
#include "engine/load/file.h"

enum { PROFILE_FILE_BYTES = 1 << 20 };

static const char *const GGUF_KEY = "magnetd.profile";

/* ---- defaults ------------------------------------------------------------------------------- */

/* "<architecture>.<name>"; false when the file names no architecture or one too long. */
static bool architecture_key(const struct gguf *gguf, const char *name, char *out, size_t bytes)
{
    struct gguf_string architecture = {0};
    if (gguf_get_string(gguf, "general.architecture", false, &architecture, NULL) != ERR_OK ||
        architecture.count == 0 || architecture.count + strlen(name) + 2 > bytes) {
        return false;
    }
    snprintf(out, bytes, "%.*s.%s", (int)architecture.count, architecture.bytes, name);
    return true;
}

/* *out_stated = the file says how to pool. Ids are those of the format. */
static enum err default_pooling(
    const struct gguf *gguf, bool *out_stated, enum pooling *out_pooling, struct err_info *info)
{
    enum { NONE, MEAN, CLS, LAST, RANK };
    int64_t id = NONE;
    char key[128];
    *out_stated = false;
    *out_pooling = POOLING_MEAN;
    if (!architecture_key(gguf, "pooling_type", key, sizeof(key))) {
        return ERR_OK;
    }
    enum err err = gguf_get_i64(gguf, key, false, NONE, RANK, &id, info);
    if (err == ERR_OK && id == RANK) {
        return err_set(info, ERR_UNSUPPORTED, key, "a reranking head");
    }
    *out_stated = id != NONE;
    *out_pooling = id == CLS ? POOLING_CLS : id == LAST ? POOLING_LAST : POOLING_MEAN;
    return err;
}

static enum err default_attention(
    const struct gguf *gguf, bool pooling_stated, enum attention *out, struct err_info *info)
{
    bool causal = true;
    enum err err = ERR_OK;
    char key[128];
    if (architecture_key(gguf, "attention.causal", key, sizeof(key))) {
        err = gguf_get_bool(gguf, key, false, &causal, info);
    }
    *out = causal && pooling_stated ? ATTENTION_CAUSAL : ATTENTION_BIDIRECTIONAL;
    return err;
}

enum err profile_defaults(const struct gguf *gguf, struct profile *out, struct err_info *info)
{
    static const enum infill_mode infill[] = {INFILL_FIM, INFILL_RERANK, INFILL_HYBRID};
    bool pooling_stated = false;
    enum pooling pooling = POOLING_MEAN;
    enum attention attention = ATTENTION_BIDIRECTIONAL;
    enum err err = default_pooling(gguf, &pooling_stated, &pooling, info);
    if (err == ERR_OK) {
        err = default_attention(gguf, pooling_stated, &attention, info);
    }
    if (err != ERR_OK) {
        return err;
    }
    *out = (struct profile){.source = PROFILE_NONE,
        .embed_attention = attention,
        .prompt_attention = ATTENTION_CAUSAL,
        .pooling = pooling,
        .infill_mode_count = ARRAY_COUNT(infill)};
    memcpy(out->infill_modes, infill, sizeof(infill));
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        out->modes[kind] = true;
    }
    snprintf(out->classify.name, sizeof(out->classify.name), "wildguard");
    return ERR_OK;
}

/* ---- files ---------------------------------------------------------------------------------- */

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

/* NAME.gguf -> NAME.profile.json; other names, of folders too, get the ending as it is. */
static bool beside(const char *model_path, char *out, size_t bytes)
{
    size_t count = strlen(model_path);
    while (count > 1 && model_path[count - 1] == '/') {
        count--;
    }
    const size_t ending = strlen(".gguf");
    const bool gguf = count > ending && strcmp(model_path + count - ending, ".gguf") == 0;
    const int stem = (int)MIN(gguf ? count - ending : count, (size_t)INT_MAX);
    const int written = snprintf(out, bytes, "%.*s.profile.json", stem, model_path);
    return written > 0 && (size_t)written < bytes;
}

static enum err parse_file(const char *path, struct profile *profile, struct err_info *info)
{
    char *text = NULL;
    size_t bytes = 0;
    const char *where = name_of(path);
    enum err err = file_load(path, where, PROFILE_FILE_BYTES, &text, &bytes, info);
    if (err != ERR_OK) {
        return err;
    }
    err = profile_parse(text, bytes, where, profile, info);
    mem_free(text);
    profile->source = PROFILE_FILE;
    return err;
}

static enum err parse_key(const struct gguf *gguf, struct profile *profile, struct err_info *info)
{
    struct gguf_string text = {0};
    enum err err = gguf_get_string(gguf, GGUF_KEY, false, &text, info);
    if (err != ERR_OK || text.bytes == NULL) {
        return err;
    }
    profile->source = PROFILE_KEY;
    return profile_parse(text.bytes, text.count, GGUF_KEY, profile, info);
}

enum err profile_read(const char *model_path, const char *profile_path, const struct gguf *gguf,
    struct profile *out, struct err_info *info)
{
    char path[PATH_MAX];
    enum err err = profile_defaults(gguf, out, info);
    if (err != ERR_OK) {
        return err;
    }
    if (profile_path != NULL) {
        return parse_file(profile_path, out, info);
    }
    if (model_path != NULL && beside(model_path, path, sizeof(path)) &&
        (access(path, F_OK) == 0 || errno != ENOENT)) {
        return parse_file(path, out, info);
    }
    return parse_key(gguf, out, info);
}
