/* See adapter_config.h. A switch that is off, null, empty or "none" asks for nothing. */
#include "engine/load/adapter_config.h"

#include <math.h>
#include <string.h>
#include "engine/base/attr.h"
#include "engine/engine_limits.h"
#include "engine/load/hub_json.h"

static const char *const FILE_NAME = "adapter_config.json";

enum use {
    INFORMS, /* anything: how the adapter came to be, or what its tensors say by themselves */
    READ,    /* below */
    OFF,     /* asks for arithmetic that is not built unless it asks for nothing */
};

static const struct {
    const char *name;
    enum use use;
} keys[] = {
    {"peft_type", READ},
    {"r", READ},
    {"lora_alpha", READ},
    {"use_rslora", READ},
    {"init_lora_weights", READ},
    {"bias", OFF},
    {"lora_bias", OFF},
    {"use_dora", OFF},
    {"use_qalora", OFF},
    {"use_bdlora", OFF},
    {"fan_in_fan_out", OFF},
    {"modules_to_save", OFF},
    {"rank_pattern", OFF},
    {"alpha_pattern", OFF},
    {"layer_replication", OFF},
    {"target_parameters", OFF},
    {"trainable_token_indices", OFF},
    {"alora_invocation_tokens", OFF},
    {"arrow_config", OFF},
    {"loftq_config", OFF},
    {"corda_config", OFF},
    {"lora_ga_config", OFF},
    {"ensure_weight_tying", INFORMS},
    {"auto_mapping", INFORMS},
    {"base_model_name_or_path", INFORMS},
    {"base_model_class", INFORMS},
    {"parent_library", INFORMS},
    {"revision", INFORMS},
    {"task_type", INFORMS},
    {"inference_mode", INFORMS},
    {"peft_version", INFORMS},
    {"lora_dropout", INFORMS}, /* of training */
    {"target_modules", INFORMS},
    {"exclude_modules", INFORMS},
    {"layers_to_transform", INFORMS},
    {"layers_pattern", INFORMS},
    {"runtime_config", INFORMS},
    {"megatron_config", INFORMS},
    {"megatron_core", INFORMS},
    {"qalora_group_size", INFORMS},
    {"eva_config", INFORMS},
};

static bool asks_for_nothing(const struct meta_json *value)
{
    switch (meta_json_type(value)) {
    case META_JSON_NULL:
        return true;
    case META_JSON_BOOL:
        return !meta_json_bool(value);
    case META_JSON_STRING:
        return strcmp(meta_json_string(value), "none") == 0;
    case META_JSON_ARRAY:
    case META_JSON_OBJECT:
        return meta_json_count(value) == 0;
    case META_JSON_INTEGER:
    case META_JSON_REAL:
        break;
    }
    return false;
}

static enum err check_keys(const struct hub_json *json)
{
    void *cursor = NULL;
    const char *key;
    const struct meta_json *value;
    while (meta_json_next(json->value, &cursor, &key, &value)) {
        size_t i = 0;
        while (i < ARRAY_COUNT(keys) && strcmp(keys[i].name, key) != 0) {
            i++;
        }
        if (i == ARRAY_COUNT(keys) && !asks_for_nothing(value)) {
            return hub_fail(
                json, ERR_UNSUPPORTED, key, "the key is not known and could change the results");
        }
        if (i < ARRAY_COUNT(keys) && keys[i].use == OFF && !asks_for_nothing(value)) {
            return hub_fail(json, ERR_UNSUPPORTED, key, "asks for something that is not built");
        }
    }
    return ERR_OK;
}

/* Some ways to begin training take a part out of the base weights, which such an adapter then
 * cannot do without. */
static enum err check_init(const struct hub_json *json)
{
    static const char *const harmless[] = {"gaussian", "orthogonal", "eva"};
    const struct meta_json *value = hub_find(json, "init_lora_weights");
    if (value == NULL || meta_json_type(value) == META_JSON_BOOL) {
        return ERR_OK;
    }
    for (size_t i = 0; meta_json_type(value) == META_JSON_STRING && i < ARRAY_COUNT(harmless);
         i++) {
        if (strcmp(harmless[i], meta_json_string(value)) == 0) {
            return ERR_OK;
        }
    }
    return hub_fail(json, ERR_UNSUPPORTED, "init_lora_weights",
        "the adapter was begun in a way that changes the base weights");
}

static enum err read(const struct hub_json *json, struct adapter_config *out)
{
    struct adapter_config config = {0};
    const char *type = NULL;
    int64_t rank = 0;
    enum err err = hub_string(json, "peft_type", true, &type);
    if (err == ERR_OK && strcmp(type, "LORA") != 0) {
        return hub_fail(json, ERR_UNSUPPORTED, "peft_type", "only \"LORA\" is built");
    }
    if (err == ERR_OK) {
        err = check_keys(json);
    }
    if (err == ERR_OK) {
        err = check_init(json);
    }
    if (err == ERR_OK) {
        err = hub_integer(json, "r", true, 1, LIMIT_ADAPTER_RANK, &rank);
    }
    if (err == ERR_OK) {
        err = hub_real(json, "lora_alpha", true, &config.alpha);
    }
    if (err == ERR_OK && !(config.alpha > 0 && isfinite(config.alpha))) {
        err = hub_fail(json, ERR_FORMAT, "lora_alpha", "must be above 0");
    }
    if (err == ERR_OK) {
        err = hub_bool(json, "use_rslora", &config.root);
    }
    if (err == ERR_OK) {
        config.rank = (int32_t)rank;
        *out = config;
    }
    return err;
}

enum err adapter_config_open(int folder, struct adapter_config *out, struct err_info *info)
{
    struct hub_json json;
    enum err err = hub_json_open(folder, FILE_NAME, META_JSON_OBJECT, true, &json, info);
    if (err == ERR_OK) {
        err = read(&json, out);
    }
    hub_json_close(&json);
    return err;
}

enum err adapter_config_parse(
    const char *bytes, size_t count, struct adapter_config *out, struct err_info *info)
{
    struct hub_json json;
    enum err err = hub_json_parse(bytes, count, FILE_NAME, META_JSON_OBJECT, &json, info);
    if (err == ERR_OK) {
        err = read(&json, out);
    }
    hub_json_close(&json);
    return err;
}
