/* The table of networks and the check that a file asks for nothing that its network does not do. */
#include "engine/arch/arch.h"

#include <inttypes.h>
#include <string.h>
#include "engine/base/assert.h"

static const struct network *const networks[] = {&arch_llama};

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

static const struct arch_key *find_key(
    const struct arch_key *keys, size_t key_count, const char *name)
{
    for (size_t i = 0; i < key_count; i++) {
        if (strcmp(keys[i].name, name) == 0) {
            return &keys[i];
        }
    }
    return NULL;
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

enum err arch_check_keys(const struct gguf *gguf, const char *prefix, const struct arch_key *keys,
    size_t key_count, struct err_info *info)
{
    size_t prefix_bytes = strlen(prefix);
    for (int32_t i = 0; i < gguf_key_count(gguf); i++) {
        const char *name = gguf_key(gguf, i);
        if (strncmp(name, prefix, prefix_bytes) != 0) {
            continue;
        }
        const struct arch_key *key = find_key(keys, key_count, name + prefix_bytes);
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
