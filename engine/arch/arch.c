/* The table of networks and the check that a file asks for nothing that its network does not do. */
#include "engine/arch/arch.h"

#include <inttypes.h>
#include <string.h>
#include "engine/base/assert.h"

static const struct network *const networks[] = {&arch_bert, &arch_gemma3, &arch_gemma_embedding,
    &arch_jina_bert_v2, &arch_llama, &arch_modern_bert, &arch_nomic_bert, &arch_qwen2, &arch_qwen3};

/* What files of all networks may say. */
static const struct arch_key common_keys[] = {
    {"context_length", ARCH_KEY_READ},
    {"embedding_length", ARCH_KEY_READ},
    {"block_count", ARCH_KEY_READ},
    {"feed_forward_length", ARCH_KEY_READ},
    {"vocab_size", ARCH_KEY_READ},
    {"attention.head_count", ARCH_KEY_READ},
    {"attention.head_count_kv", ARCH_KEY_READ},
    {"attention.key_length", ARCH_KEY_READ},
    {"attention.value_length", ARCH_KEY_READ},
    {"attention.scale", ARCH_KEY_READ},
    /* For the profile: which mask and pooling the checkpoint was made for. */
    {"attention.causal", ARCH_KEY_READ},
    {"pooling_type", ARCH_KEY_READ},
    /* The dense head, which any network may have. */
    {"dense_2_feat_in", ARCH_KEY_READ},
    {"dense_2_feat_out", ARCH_KEY_READ},
    {"dense_2_bias", ARCH_KEY_READ},
    {"dense_2_activation", ARCH_KEY_READ},
    {"dense_3_feat_in", ARCH_KEY_READ},
    {"dense_3_feat_out", ARCH_KEY_READ},
    {"dense_3_bias", ARCH_KEY_READ},
    {"dense_3_activation", ARCH_KEY_READ},
    {"tensor_data_layout", ARCH_KEY_READ}, /* tells how the checkpoint came to be */
    /* Not built. */
    {"expert_count", ARCH_KEY_INTEGER, 0},
    {"expert_used_count", ARCH_KEY_INTEGER, 0},
    {"attention.sliding_window", ARCH_KEY_INTEGER, 0},
    {"attention.max_alibi_bias", ARCH_KEY_REAL, 0},
    {"attention.clamp_kqv", ARCH_KEY_REAL, 0},
    {"logit_scale", ARCH_KEY_REAL, 1},
    {"attn_logit_softcapping", ARCH_KEY_REAL, 0},
    {"final_logit_softcapping", ARCH_KEY_REAL, 0},
    {"use_parallel_residual", ARCH_KEY_BOOL, 0},
};

const struct network *arch_find(const char *name, size_t name_bytes)
{
    for (size_t i = 0; i < ARRAY_COUNT(networks); i++) {
        const char *known = networks[i]->name;
        if (strlen(known) == name_bytes && memcmp(known, name, name_bytes) == 0) {
            return networks[i];
        }
    }
    return NULL;
}

static const struct arch_key *find_in(
    const struct arch_key *keys, size_t key_count, const char *name)
{
    for (size_t i = 0; i < key_count; i++) {
        if (strcmp(keys[i].name, name) == 0) {
            return &keys[i];
        }
    }
    return NULL;
}

static const struct arch_key *find_key(const struct network *network, const char *name)
{
    const struct arch_key *key = find_in(network->keys, network->key_count, name);
    return key != NULL ? key : find_in(common_keys, ARRAY_COUNT(common_keys), name);
}

static enum err check_value(
    const struct gguf *gguf, const char *name, const struct arch_key *key, struct err_info *info)
{
    int64_t integer = key->neutral;
    double real = key->neutral;
    bool flag = key->neutral != 0;
    enum err err = ERR_OK;
    switch (key->use) {
    case ARCH_KEY_READ:
        break;
    case ARCH_KEY_INTEGER:
        err = gguf_get_i64(gguf, name, true, INT64_MIN, INT64_MAX, &integer, info);
        break;
    case ARCH_KEY_REAL:
        err = gguf_get_f64(gguf, name, true, &real, info);
        break;
    case ARCH_KEY_BOOL:
        err = gguf_get_bool(gguf, name, true, &flag, info);
        break;
    }
    if (err != ERR_OK) {
        return err;
    }
    if (integer != key->neutral || real < key->neutral || real > key->neutral ||
        flag != (key->neutral != 0)) {
        return err_set(info, ERR_UNSUPPORTED, name,
            "the model asks for something this network does not do; only %d would be ignored",
            key->neutral);
    }
    return ERR_OK;
}

enum err arch_check_keys(
    const struct gguf *gguf, const struct network *network, struct err_info *info)
{
    size_t name_bytes = strlen(network->name);
    for (int32_t i = 0; i < gguf_key_count(gguf); i++) {
        const char *name = gguf_key(gguf, i);
        if (strncmp(name, network->name, name_bytes) != 0 || name[name_bytes] != '.') {
            continue;
        }
        const struct arch_key *key = find_key(network, name + name_bytes + 1);
        if (key == NULL) {
            return err_set(
                info, ERR_UNSUPPORTED, name, "the key is not known and could change the results");
        }
        enum err err = check_value(gguf, name, key, info);
        if (err != ERR_OK) {
            return err;
        }
    }
    return ERR_OK;
}
