/*
 * See hub_dense.h. Of the activations that sentence-transformers can name, those that published
 * checkpoints use are built; another refuses the folder.
 */
#include "engine/load/hub_dense.h"

#include <stdio.h>
#include <string.h>

/* Keys of the layer, or of its GGUF keys; what else there is could change the results. */
static enum err check_dense_keys(const struct hub_json *json)
{
    static const char *const known[] = {"in_features", "out_features", "bias",
        "activation_function", "module_input_name", "module_output_name"};
    /* Newer files say what goes in and comes out: with any other name the layer would not be one
     * of pooled vectors. */
    static const char *const names[] = {"module_input_name", "module_output_name"};
    enum err err = hub_only_keys(json, known, ARRAY_COUNT(known));
    for (size_t i = 0; err == ERR_OK && i < ARRAY_COUNT(names); i++) {
        const char *name = "sentence_embedding";
        err = hub_string(json, names[i], false, &name);
        if (err == ERR_OK && strcmp(name, "sentence_embedding") != 0) {
            err = hub_fail(json, ERR_UNSUPPORTED, names[i], "is not the sentence's vector");
        }
    }
    return err;
}

static enum err put_activation(
    struct hub_config *config, const struct hub_json *json, const char *to)
{
    const char *name = "activation_function";
    char key[HUB_PATH_BYTES];
    char shown[ERR_WHERE_BYTES];
    const char *word = "";
    enum err err = hub_string(json, name, true, &word);
    if (err != ERR_OK) {
        return err;
    }
    const bool tanh = strcmp(hub_last_word(word), "Tanh") == 0;
    if (!tanh && strcmp(hub_last_word(word), "Identity") != 0) {
        return hub_fail(json, ERR_UNSUPPORTED, name, "only Identity and Tanh are built");
    }
    (void)snprintf(key, sizeof(key), "%s.%s", config->network->name, to);
    hub_shown(json, name, shown);
    word = tanh ? "tanh" : "identity";
    return gguf_put_string(config->gguf, key, shown, word, strlen(word), json->info);
}

static enum err put_dense(struct hub_config *config, const struct hub_json *json, int32_t index)
{
    char key[64];
    int64_t inputs = 0;
    int64_t outputs = 0;
    bool bias = true; /* what the layer's class takes for granted */
    enum err err = hub_integer(json, "in_features", true, 1, LIMIT_HIDDEN, &inputs);
    if (err == ERR_OK) {
        err = hub_integer(json, "out_features", true, 1, LIMIT_HIDDEN, &outputs);
    }
    if (err == ERR_OK) {
        err = hub_bool(json, "bias", &bias);
    }
    if (err == ERR_OK) {
        (void)snprintf(key, sizeof(key), "dense_%d_feat_in", (int)index + 2);
        err = hub_put_i64(config, json, "in_features", key, inputs);
    }
    if (err == ERR_OK) {
        (void)snprintf(key, sizeof(key), "dense_%d_feat_out", (int)index + 2);
        err = hub_put_i64(config, json, "out_features", key, outputs);
    }
    if (err == ERR_OK) {
        (void)snprintf(key, sizeof(key), "dense_%d_bias", (int)index + 2);
        err = hub_put_bool(config, json, "bias", key, bias);
    }
    (void)snprintf(key, sizeof(key), "dense_%d_activation", (int)index + 2);
    return err == ERR_OK ? put_activation(config, json, key) : err;
}

enum err hub_dense_read(int folder, struct hub_config *config, int32_t index, struct err_info *info)
{
    struct hub_json json;
    char file[HUB_FOLDER_BYTES + sizeof("/config.json")];
    (void)snprintf(file, sizeof(file), "%s/config.json", config->dense[index]);
    enum err err = hub_json_open(folder, file, META_JSON_OBJECT, true, &json, info);
    if (err == ERR_OK) {
        err = check_dense_keys(&json);
    }
    if (err == ERR_OK) {
        err = put_dense(config, &json, index);
    }
    hub_json_close(&json);
    return err;
}
