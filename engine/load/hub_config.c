/* See hub_config.h. */
#include "engine/load/hub_config.h"

#include <stdio.h>
#include <string.h>
#include "engine/load/checkpoint.h"

/* ---- putting -------------------------------------------------------------------------------- */

/* What a key is called here, and what errors call it. */
struct names {
    char ours[LIMIT_FILE_NAME_BYTES];
    char shown[ERR_WHERE_BYTES];
};

static struct names names_of(
    const struct hub_config *config, const struct hub_json *json, const char *name, const char *key)
{
    struct names names;
    const bool whole = strncmp(key, "tokenizer.", strlen("tokenizer.")) == 0;
    (void)snprintf(names.ours, sizeof names.ours, "%s%s%s", whole ? "" : config->network->name,
        whole ? "" : ".", key);
    hub_shown(json, name, names.shown);
    return names;
}

enum err hub_put_i64(struct hub_config *config, const struct hub_json *json, const char *name,
    const char *key, int64_t value)
{
    const struct names names = names_of(config, json, name, key);
    return gguf_put_i64(config->gguf, names.ours, names.shown, value, json->info);
}

enum err hub_put_f64(struct hub_config *config, const struct hub_json *json, const char *name,
    const char *key, double value)
{
    const struct names names = names_of(config, json, name, key);
    return gguf_put_f64(config->gguf, names.ours, names.shown, value, json->info);
}

enum err hub_put_bool(struct hub_config *config, const struct hub_json *json, const char *name,
    const char *key, bool value)
{
    const struct names names = names_of(config, json, name, key);
    return gguf_put_bool(config->gguf, names.ours, names.shown, value, json->info);
}

/* ---- keys by their table -------------------------------------------------------------------- */

static enum err refuse(const struct hub_json *json, const struct hub_key *key)
{
    if (key->use == HUB_IS_WORD || key->use == HUB_IS_ALL_WORD) {
        return hub_fail(json, ERR_UNSUPPORTED, key->name,
            "asks for something this network does not do; built: %s", key->to);
    }
    return hub_fail(json, ERR_UNSUPPORTED, key->name,
        "asks for something this network does not do; only %d would be ignored", key->number);
}

/* Whether `word` is one of the words of "a|b|c". */
static bool is_one_of(const char *word, const char *words)
{
    const size_t count = strlen(word);
    const char *at = words;
    while (count > 0 && at != NULL) {
        if (strncmp(at, word, count) == 0 && (at[count] == '|' || at[count] == '\0')) {
            return true;
        }
        at = strchr(at, '|');
        at = at == NULL ? NULL : at + 1;
    }
    return false;
}

static enum err check_words(const struct hub_json *json, const struct hub_key *key)
{
    struct hub_json list;
    enum err err = hub_inner(json, key->name, META_JSON_ARRAY, &list);
    for (size_t i = 0; err == ERR_OK && i < meta_json_count(list.value); i++) {
        const struct meta_json *word = meta_json_at(list.value, i);
        if (meta_json_type(word) != META_JSON_STRING ||
            strcmp(meta_json_string(word), key->to) != 0) {
            return refuse(json, key);
        }
    }
    return err;
}

/* A key of HUB_IS_* that is there. */
static enum err check_value(const struct hub_json *json, const struct hub_key *key)
{
    int64_t integer = 0;
    double real = 0;
    bool flag = false;
    const char *word = "";
    enum err err = ERR_OK;
    bool right = false;
    switch (key->use) {
    case HUB_IS_INTEGER:
        err = hub_integer(json, key->name, true, INT64_MIN, INT64_MAX, &integer);
        right = integer == key->number;
        break;
    case HUB_IS_REAL:
        err = hub_real(json, key->name, true, &real);
        right = real >= key->number && real <= key->number;
        break;
    case HUB_IS_BOOL:
        err = hub_bool(json, key->name, &flag);
        right = flag == (key->number != 0);
        break;
    case HUB_IS_WORD:
        err = hub_string(json, key->name, true, &word);
        right = is_one_of(word, key->to);
        break;
    case HUB_IS_ALL_WORD:
        return check_words(json, key);
    case HUB_INFORMS:
    case HUB_READ:
    case HUB_CONTEXT:
    case HUB_INTEGER:
    case HUB_REAL:
        return ERR_OK;
    }
    return err == ERR_OK && !right ? refuse(json, key) : err;
}

static enum err read_key(struct hub_config *config, const struct hub_key *key)
{
    const struct hub_json *json = &config->json;
    int64_t integer = 0;
    double real = 0;
    enum err err;
    switch (key->use) {
    case HUB_CONTEXT:
        err = hub_integer(json, key->name, true, 1, key->number, &config->context);
        return err == ERR_OK
                   ? hub_put_i64(config, json, key->name, "context_length", config->context)
                   : err;
    case HUB_INTEGER:
        err = hub_integer(json, key->name, true, 1, key->number, &integer);
        return err == ERR_OK ? hub_put_i64(config, json, key->name, key->to, integer) : err;
    case HUB_REAL:
        err = hub_real(json, key->name, true, &real);
        return err == ERR_OK ? hub_put_f64(config, json, key->name, key->to, real) : err;
    case HUB_INFORMS:
    case HUB_READ:
    case HUB_IS_INTEGER:
    case HUB_IS_REAL:
    case HUB_IS_BOOL:
    case HUB_IS_WORD:
    case HUB_IS_ALL_WORD:
        break;
    }
    return check_value(json, key);
}

static const struct hub_key *find_key(const struct hub_network *network, const char *name)
{
    for (size_t i = 0; i < network->key_count; i++) {
        if (strcmp(network->keys[i].name, name) == 0) {
            return &network->keys[i];
        }
    }
    return hub_common_find(name);
}

/* What the file has, then what it lacks. */
static enum err read_keys(struct hub_config *config)
{
    const struct hub_network *network = config->network;
    enum err err = ERR_OK;
    void *cursor = NULL;
    const char *name;
    const struct meta_json *value;
    while (err == ERR_OK && meta_json_next(config->json.value, &cursor, &name, &value)) {
        const struct hub_key *key = find_key(network, name);
        if (meta_json_type(value) == META_JSON_NULL) {
            continue;
        }
        err = key != NULL ? read_key(config, key)
                          : hub_fail(&config->json, ERR_UNSUPPORTED, name,
                                "the key is not known and could change the results");
    }
    for (size_t i = 0; err == ERR_OK && i < network->key_count; i++) {
        const struct hub_key *key = &network->keys[i];
        if (key->required && hub_find(&config->json, key->name) == NULL) {
            err = hub_fail(&config->json, ERR_FORMAT, key->name, "the key is missing");
        }
    }
    return err;
}

/* ---- which network -------------------------------------------------------------------------- */

static enum err get_architecture(const struct hub_json *json, const char **out)
{
    struct hub_json list;
    enum err err = hub_inner(json, "architectures", META_JSON_ARRAY, &list);
    if (err != ERR_OK) {
        return err;
    }
    const struct meta_json *first =
        list.value != NULL && meta_json_count(list.value) == 1 ? meta_json_at(list.value, 0) : NULL;
    if (first == NULL || meta_json_type(first) != META_JSON_STRING) {
        return hub_fail(json, ERR_FORMAT, "architectures", "is no list of one name");
    }
    *out = meta_json_string(first);
    return ERR_OK;
}

static enum err find_network(struct hub_config *config)
{
    const struct hub_json *json = &config->json;
    const char *type = "";
    const char *architecture = "";
    char shown[ERR_WHERE_BYTES];
    bool known = false;
    bool both_ways = false;
    enum err err = hub_string(json, "model_type", true, &type);
    if (err == ERR_OK) {
        err = get_architecture(json, &architecture);
    }
    if (err == ERR_OK) {
        err = hub_bool(json, "use_bidirectional_attention", &both_ways);
    }
    if (err != ERR_OK) {
        return err;
    }
    config->network = hub_network_find(type, architecture, both_ways, &known);
    if (config->network == NULL && known) {
        return hub_fail(json, ERR_UNSUPPORTED,
            both_ways ? "use_bidirectional_attention" : "architectures", "%.48s is not built in%s",
            architecture, both_ways ? " with both ways open" : "");
    }
    if (config->network == NULL) {
        return hub_fail(
            json, ERR_UNSUPPORTED, "model_type", "no network \"%.32s\" is built in", type);
    }
    config->headed = strstr(architecture, "ForCausalLM") != NULL;
    const char *name = config->network->name;
    hub_shown(json, "model_type", shown);
    return gguf_put_string(
        config->gguf, "general.architecture", shown, name, strlen(name), json->info);
}

/* ---- for every network ---------------------------------------------------------------------- */

/* A causal network that was trained to see both ways says so under one of two names. */
static enum err read_causal(struct hub_config *config)
{
    bool causal = !config->encoder;
    bool bidirectional = false;
    enum err err = hub_bool(&config->json, "is_causal", &causal);
    if (err == ERR_OK) {
        err = hub_bool(&config->json, "use_bidirectional_attention", &bidirectional);
    }
    if (err != ERR_OK || (causal && !bidirectional)) {
        return err;
    }
    const char *name = bidirectional     ? "use_bidirectional_attention"
                       : config->encoder ? "model_type"
                                         : "is_causal";
    return hub_put_bool(config, &config->json, name, "attention.causal", false);
}

static enum err get_token(
    const struct hub_json *json, const char *name, const struct meta_json *id, int32_t *out)
{
    if (meta_json_type(id) != META_JSON_INTEGER || meta_json_integer(id) < 0 ||
        meta_json_integer(id) >= LIMIT_VOCAB) {
        return hub_fail(json, ERR_FORMAT, name, "is no token");
    }
    *out = (int32_t)meta_json_integer(id);
    return ERR_OK;
}

static enum err put_begin(const struct hub_config *config, const struct hub_json *json)
{
    const char *name = "bos_token_id";
    char shown[ERR_WHERE_BYTES];
    int32_t token = 0;
    enum err err = get_token(json, name, hub_find(json, name), &token);
    hub_shown(json, name, shown);
    return err == ERR_OK ? gguf_put_i64(config->gguf, HUB_BEGIN_KEY, shown, token, json->info)
                         : err;
}

/* One token or a list of them. */
static enum err put_ends(const struct hub_config *config, const struct hub_json *json)
{
    const char *name = "eos_token_id";
    const struct meta_json *ends = hub_find(json, name);
    const bool list = meta_json_type(ends) == META_JSON_ARRAY;
    const size_t count = list ? meta_json_count(ends) : 1;
    char shown[ERR_WHERE_BYTES];
    int32_t tokens[LIMIT_END_TOKENS];
    if (count > LIMIT_END_TOKENS) {
        return hub_fail(json, ERR_LIMIT, name, "has %zu tokens, at most %d are possible", count,
            LIMIT_END_TOKENS);
    }
    for (size_t i = 0; i < count; i++) {
        enum err err = get_token(json, name, list ? meta_json_at(ends, i) : ends, &tokens[i]);
        if (err != ERR_OK) {
            return err;
        }
    }
    hub_shown(json, name, shown);
    return gguf_put_i32s(config->gguf, HUB_ENDS_KEY, shown, tokens, count, json->info);
}

/* generation_config.json knows better which tokens end an answer. */
static enum err read_tokens(struct hub_config *config, const struct hub_json *generation)
{
    const struct hub_json *const files[] = {generation, &config->json};
    enum err err = ERR_OK;
    bool begun = false;
    bool ended = false;
    for (size_t i = 0; i < ARRAY_COUNT(files) && err == ERR_OK; i++) {
        const struct hub_json *json = files[i];
        if (json->value == NULL) {
            continue;
        }
        if (hub_find(json, "bos_token_id") != NULL && !begun) {
            begun = true;
            err = put_begin(config, json);
        }
        if (err == ERR_OK && hub_find(json, "eos_token_id") != NULL && !ended) {
            ended = true;
            err = put_ends(config, json);
        }
    }
    return err;
}

static enum err read_config(struct hub_config *config, const struct hub_json *generation)
{
    enum err err = find_network(config);
    if (err == ERR_OK) {
        err = read_keys(config);
    }
    if (err == ERR_OK) {
        err = config->network->read(config);
    }
    if (err == ERR_OK) {
        err = read_causal(config);
    }
    return err == ERR_OK ? read_tokens(config, generation) : err;
}

enum err hub_config_open(
    int folder, struct gguf *gguf, struct hub_config *out, struct err_info *info)
{
    struct hub_config config = {.gguf = gguf};
    struct hub_json generation = {.root = NULL};
    enum err err = hub_json_open(folder, "config.json", META_JSON_OBJECT, true, &config.json, info);
    if (err == ERR_OK) {
        err = hub_json_open(
            folder, "generation_config.json", META_JSON_OBJECT, false, &generation, info);
    }
    if (err == ERR_OK) {
        err = read_config(&config, &generation);
    }
    hub_json_close(&generation);
    if (err != ERR_OK) {
        hub_config_close(&config);
        return err;
    }
    *out = config;
    return ERR_OK;
}

enum err hub_config_parse(const char *bytes, size_t count, const char *file, struct gguf *gguf,
    struct hub_config *out, struct err_info *info)
{
    const struct hub_json generation = {.root = NULL};
    struct hub_config config = {.gguf = gguf};
    enum err err = hub_json_parse(bytes, count, file, META_JSON_OBJECT, &config.json, info);
    if (err == ERR_OK) {
        err = read_config(&config, &generation);
    }
    if (err != ERR_OK) {
        hub_config_close(&config);
        return err;
    }
    *out = config;
    return ERR_OK;
}

void hub_config_close(struct hub_config *config)
{
    hub_json_close(&config->json);
}
