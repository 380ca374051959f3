/*
 * See hub_sentence.h. modules.json lists stages: the network, the pooling, perhaps normalising. A
 * stage that is not built refuses the folder, for its vectors would be others. Whether vectors are
 * normalised is a request's choice, so that stage may be there or not.
 */
#include "engine/load/hub_sentence.h"

#include <stdio.h>
#include <string.h>
#include "engine/base/buf.h"
#include "engine/load/file.h"
#include "engine/load/hub_dense.h"
#include "engine/load/profile.h"

enum {
    PATH_BYTES = 64, /* a folder, and "/config.json" */
    PROFILE_BYTES = LIMIT_PROMPTS * 6 * (PROFILE_TEXT_BYTES + 64),
};

struct sentence {
    int folder;
    struct hub_config *config;
    struct err_info *info;
    char pooling_file[PATH_BYTES]; /* "1_Pooling/config.json"; "" = no such stage */
    bool skip_instruction;
    struct hub_json prompts; /* config_sentence_transformers.json */
};

/* ---- modules.json --------------------------------------------------------------------------- */

/* A folder beside modules.json, or "" for the same. */
static bool is_plain(const char *path)
{
    return strchr(path, '/') == NULL && strcmp(path, "..") != 0 && strlen(path) <= HUB_FOLDER_BYTES;
}

static enum err read_stage(struct sentence *sentence, const struct hub_json *module, size_t index)
{
    const char *type = "";
    const char *path = "";
    enum err err = hub_string(module, "type", true, &type);
    if (err == ERR_OK) {
        err = hub_string(module, "path", true, &path);
    }
    if (err != ERR_OK) {
        return err;
    }
    const char *stage = hub_last_word(type);
    if (!is_plain(path)) {
        return hub_fail(module, ERR_FORMAT, "path", "is no folder beside modules.json");
    }
    if (strcmp(stage, "Transformer") == 0 && index == 0) {
        return path[0] == '\0'
                   ? ERR_OK
                   : hub_fail(module, ERR_UNSUPPORTED, "path", "the network lies in a folder");
    }
    if (strcmp(stage, "Pooling") == 0 && index == 1) {
        if (path[0] == '\0') {
            return hub_fail(module, ERR_UNSUPPORTED, "path", "the pooling has no folder");
        }
        (void)snprintf(sentence->pooling_file, sizeof(sentence->pooling_file), "%.*s/config.json",
            HUB_FOLDER_BYTES, path);
        return ERR_OK;
    }
    struct hub_config *config = sentence->config;
    const size_t next = 2 + (size_t)config->dense_count;
    if (strcmp(stage, "Dense") == 0 && index == next && config->dense_count < HUB_DENSE_MAX) {
        if (path[0] == '\0') {
            return hub_fail(module, ERR_UNSUPPORTED, "path", "the dense layer has no folder");
        }
        (void)snprintf(config->dense[config->dense_count], sizeof(config->dense[0]), "%s", path);
        config->dense_count++;
        return ERR_OK;
    }
    if (strcmp(stage, "Normalize") == 0 && index == next) {
        return ERR_OK; /* a stage behind it fits no place */
    }
    return hub_fail(module, ERR_UNSUPPORTED, "type", "the stage %.48s is not built here", stage);
}

static enum err read_modules(struct sentence *sentence, const struct hub_json *modules)
{
    enum err err = ERR_OK;
    for (size_t i = 0; err == ERR_OK && i < meta_json_count(modules->value); i++) {
        struct hub_json module = {.file = modules->file, .info = sentence->info};
        module.value = meta_json_at(modules->value, i);
        (void)snprintf(module.path, sizeof(module.path), "[%zu].", i);
        if (meta_json_type(module.value) != META_JSON_OBJECT) {
            return hub_fail(&module, ERR_FORMAT, "", "is no object");
        }
        err = read_stage(sentence, &module, i);
    }
    return err == ERR_OK && sentence->pooling_file[0] == '\0'
               ? hub_fail(modules, ERR_UNSUPPORTED, "", "no stage of pooling")
               : err;
}

/* ---- 1_Pooling/config.json ------------------------------------------------------------------ */

/* pooling_type of GGUF; -1 = no such key there. */
struct pooling_row {
    const char *flag, *word;
    int64_t type;
    const char *profile;
};

static const struct pooling_row poolings[] = {
    {"pooling_mode_mean_tokens", "mean", 1, NULL},
    {"pooling_mode_cls_token", "cls", 2, NULL},
    {"pooling_mode_lasttoken", "lasttoken", 3, NULL},
    {"pooling_mode_weightedmean_tokens", "weightedmean", 1, "weighted_mean"},
    {"pooling_mode_max_tokens", "max", -1, NULL},
    {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", -1, NULL},
};

static const struct pooling_row *row_of_word(const char *word)
{
    for (size_t i = 0; i < ARRAY_COUNT(poolings); i++) {
        if (strcmp(poolings[i].word, word) == 0) {
            return &poolings[i];
        }
    }
    return NULL;
}

/* The one flag that is set, or the word of newer files. */
static enum err find_pooling(
    const struct hub_json *json, const struct pooling_row **out, const char **out_key)
{
    const char *word = NULL;
    *out = NULL;
    enum err err = hub_string(json, "pooling_mode", false, &word);
    if (err == ERR_OK && word != NULL) {
        *out = row_of_word(word);
        *out_key = "pooling_mode";
    }
    for (size_t i = 0; err == ERR_OK && word == NULL && i < ARRAY_COUNT(poolings); i++) {
        bool set = false;
        err = hub_bool(json, poolings[i].flag, &set);
        if (err == ERR_OK && set && *out != NULL) {
            return hub_fail(json, ERR_UNSUPPORTED, poolings[i].flag, "two poolings side by side");
        }
        *out = set ? &poolings[i] : *out;
        *out_key = set ? poolings[i].flag : *out_key;
    }
    if (err == ERR_OK && *out == NULL) {
        return hub_fail(json, ERR_FORMAT, "", "states no pooling that is known");
    }
    if (err == ERR_OK && (*out)->type < 0) {
        return hub_fail(json, ERR_UNSUPPORTED, *out_key, "this pooling is not built");
    }
    return err;
}

/* Keys beside those of the poolings. */
static enum err check_pooling_keys(const struct hub_json *json)
{
    static const char *const known[] = {
        "word_embedding_dimension", "embedding_dimension", "include_prompt", "pooling_mode"};
    void *cursor = NULL;
    const char *key;
    const struct meta_json *value;
    while (meta_json_next(json->value, &cursor, &key, &value)) {
        bool found = meta_json_type(value) == META_JSON_NULL;
        for (size_t i = 0; i < ARRAY_COUNT(known); i++) {
            found |= strcmp(known[i], key) == 0;
        }
        for (size_t i = 0; i < ARRAY_COUNT(poolings); i++) {
            found |= strcmp(poolings[i].flag, key) == 0;
        }
        if (!found) {
            return hub_fail(
                json, ERR_UNSUPPORTED, key, "the key is not known and could change the results");
        }
    }
    return ERR_OK;
}

static enum err check_width(const struct sentence *sentence, const struct hub_json *json)
{
    static const char *const names[] = {"word_embedding_dimension", "embedding_dimension"};
    static const char *const widths[] = {"hidden_size", "n_embd"}; /* as networks call it */
    const struct hub_json *network = &sentence->config->json;
    const char *of_network = widths[hub_find(network, widths[0]) != NULL ? 0 : 1];
    int64_t width = 0;
    enum err err = hub_integer(network, of_network, true, 1, LIMIT_HIDDEN, &width);
    for (size_t i = 0; err == ERR_OK && i < ARRAY_COUNT(names); i++) {
        int64_t stated = width;
        err = hub_integer(json, names[i], false, 1, LIMIT_HIDDEN, &stated);
        if (err == ERR_OK && stated != width) {
            return hub_fail(json, ERR_FORMAT, names[i], "%d, but the network is %d wide",
                (int)stated, (int)width);
        }
    }
    return err;
}

static enum err read_pooling(struct sentence *sentence, const char **out_profile)
{
    const struct pooling_row *row = NULL;
    const char *key = "";
    struct hub_json json;
    bool include = true;
    enum err err = hub_json_open(
        sentence->folder, sentence->pooling_file, META_JSON_OBJECT, true, &json, sentence->info);
    if (err != ERR_OK) {
        return err;
    }
    err = check_pooling_keys(&json);
    if (err == ERR_OK) {
        err = find_pooling(&json, &row, &key);
    }
    if (err == ERR_OK) {
        err = check_width(sentence, &json);
    }
    if (err == ERR_OK) {
        err = hub_bool(&json, "include_prompt", &include);
    }
    if (err == ERR_OK) {
        sentence->skip_instruction = !include;
        *out_profile = row->profile;
        err = hub_put_i64(sentence->config, &json, key, "pooling_type", row->type);
    }
    hub_json_close(&json);
    return err;
}

/* ---- sentence_bert_config.json -------------------------------------------------------------- */

static enum err read_length(struct sentence *sentence)
{
    struct hub_json json;
    int64_t length = sentence->config->context;
    bool lower = false;
    enum err err = hub_json_open(sentence->folder, "sentence_bert_config.json", META_JSON_OBJECT,
        false, &json, sentence->info);
    if (err != ERR_OK || json.value == NULL) {
        return err;
    }
    void *cursor = NULL;
    const char *key;
    const struct meta_json *value;
    while (err == ERR_OK && meta_json_next(json.value, &cursor, &key, &value)) {
        if (strcmp(key, "max_seq_length") == 0) {
            err = hub_integer(&json, key, false, 1, LIMIT_CONTEXT, &length);
        } else if (strcmp(key, "do_lower_case") == 0) {
            err = hub_bool(&json, key, &lower);
            err = err == ERR_OK && lower
                      ? hub_fail(&json, ERR_UNSUPPORTED, key, "lower case before the tokenizer")
                      : err;
        } else if (meta_json_type(value) != META_JSON_NULL) {
            err = hub_fail(
                &json, ERR_UNSUPPORTED, key, "the key is not known and could change the results");
        }
    }
    if (err == ERR_OK && length < sentence->config->context) {
        err = gguf_put_i64(sentence->config->gguf, GGUF_SEQUENCE_KEY,
            "sentence_bert_config.json: max_seq_length", length, sentence->info);
    }
    hub_json_close(&json);
    return err;
}

/* ---- the profile ---------------------------------------------------------------------------- */

/* As a JSON string without its quotes. */
static void put_escaped(struct buf *out, const char *text)
{
    for (const char *at = text; *at != '\0'; at++) {
        const unsigned char byte = (unsigned char)*at;
        if (byte < 0x20 || byte == '"' || byte == '\\') {
            buf_printf(out, "\\u%04x", (unsigned)byte);
        } else {
            buf_char(out, *at);
        }
    }
}

static enum err put_prompt(
    const struct hub_json *prompts, const char *name, const struct meta_json *text, struct buf *out)
{
    if (meta_json_type(text) != META_JSON_STRING) {
        return hub_fail(prompts, ERR_FORMAT, name, "is no string");
    }
    const char *prefix = meta_json_string(text);
    if (strstr(prefix, "{text}") != NULL || strstr(prefix, "{instruction}") != NULL) {
        return hub_fail(prompts, ERR_UNSUPPORTED, name, "a prompt that holds a place of ours");
    }
    if (strlen(name) >= PROFILE_NAME_BYTES || name[0] == '\0' ||
        strlen(prefix) + strlen("{text}") >= PROFILE_TEXT_BYTES) {
        return hub_fail(prompts, ERR_LIMIT, name, "names of 1 to %d bytes, texts of %d at most",
            PROFILE_NAME_BYTES - 1, PROFILE_TEXT_BYTES - (int)sizeof("{text}"));
    }
    buf_char(out, '"');
    put_escaped(out, name);
    buf_text(out, "\":\"");
    put_escaped(out, prefix);
    buf_text(out, "{text}\"");
    return ERR_OK;
}

/* The prompt of a request that names none. */
static enum err put_default_prompt(
    const struct sentence *sentence, const struct hub_json *prompts, struct buf *out)
{
    const char *key = "default_prompt_name";
    const char *name = NULL;
    enum err err = hub_string(&sentence->prompts, key, false, &name);
    if (err != ERR_OK || name == NULL) {
        return err;
    }
    if (prompts->value == NULL || meta_json_get(prompts->value, name) == NULL) {
        return hub_fail(&sentence->prompts, ERR_FORMAT, key, "is none of the prompts");
    }
    buf_text(out, ",\"default_prompt\":\"");
    put_escaped(out, name);
    buf_char(out, '"');
    return ERR_OK;
}

/* The file's other keys inform. */
static enum err put_prompts(struct sentence *sentence, struct buf *out)
{
    struct hub_json prompts;
    enum err err = hub_inner(&sentence->prompts, "prompts", META_JSON_OBJECT, &prompts);
    if (err == ERR_OK) {
        err = put_default_prompt(sentence, &prompts, out);
    }
    if (err != ERR_OK || prompts.value == NULL || meta_json_count(prompts.value) == 0) {
        return err;
    }
    if (meta_json_count(prompts.value) > LIMIT_PROMPTS) {
        return hub_fail(&sentence->prompts, ERR_LIMIT, "prompts",
            "%zu prompts, at most %d are possible", meta_json_count(prompts.value), LIMIT_PROMPTS);
    }
    buf_text(out, ",\"prompts\":{");
    void *cursor = NULL;
    const char *name;
    const struct meta_json *text;
    for (bool first = true; err == ERR_OK && meta_json_next(prompts.value, &cursor, &name, &text);
         first = false) {
        buf_text(out, first ? "" : ",");
        err = put_prompt(&prompts, name, text, out);
    }
    buf_char(out, '}');
    return err;
}

/* Everything that GGUF has no key of its own for. */
static enum err put_profile(struct sentence *sentence, const char *pooling)
{
    const struct hub_config *config = sentence->config;
    struct buf text;
    enum err err = ERR_OK;
    buf_init(&text, MEM_OTHER, PROFILE_BYTES);
    buf_printf(&text, "{\"modes\":[%s]",
        config->headed ? "\"generate\",\"embed\",\"infill\",\"classify\"" : "\"embed\"");
    if (pooling != NULL) {
        buf_printf(&text, ",\"pooling\":\"%s\"", pooling);
    }
    if (sentence->skip_instruction) {
        buf_text(&text, ",\"pool_skip_instruction\":true");
    }
    if (sentence->prompts.value != NULL) {
        err = put_prompts(sentence, &text);
    }
    buf_char(&text, '}');
    if (err == ERR_OK && text.failed) {
        err = err_set(sentence->info, ERR_NO_MEMORY, "profile", "no memory to write it");
    }
    if (err == ERR_OK) {
        err = gguf_put_string(config->gguf, "magnetd.profile", "config_sentence_transformers.json",
            text.bytes, text.count, sentence->info);
    }
    buf_free(&text);
    return err;
}

static enum err read_all(struct sentence *sentence, const struct hub_json *modules)
{
    const char *pooling = NULL;
    enum err err = ERR_OK;
    if (modules->value != NULL) {
        err = read_modules(sentence, modules);
        if (err == ERR_OK) {
            err = read_pooling(sentence, &pooling);
        }
        for (int32_t i = 0; err == ERR_OK && i < sentence->config->dense_count; i++) {
            err = hub_dense_read(sentence->folder, sentence->config, i, sentence->info);
        }
        if (err == ERR_OK) {
            err = read_length(sentence);
        }
        if (err == ERR_OK) {
            err = hub_json_open(sentence->folder, "config_sentence_transformers.json",
                META_JSON_OBJECT, false, &sentence->prompts, sentence->info);
        }
    }
    return err == ERR_OK ? put_profile(sentence, pooling) : err;
}

enum err hub_sentence_read(int folder, struct hub_config *config, struct err_info *info)
{
    struct sentence sentence = {.folder = folder, .config = config, .info = info};
    struct hub_json modules;
    enum err err = hub_json_open(folder, "modules.json", META_JSON_ARRAY, false, &modules, info);
    if (err == ERR_OK) {
        err = read_all(&sentence, &modules);
    }
    hub_json_close(&sentence.prompts);
    hub_json_close(&modules);
    return err;
}
