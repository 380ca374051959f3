/*
 * Fuzz target: any bytes as the config.json of a folder. What is accepted becomes keys that can be
 * read, each with the name it has in the file. The same bytes as an adapter_config.json: what is
 * accepted is within its bounds.
 */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "engine/base/assert.h"
#include "engine/load/adapter_config.h"
#include "engine/load/hub_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_keys(struct gguf *gguf)
{
    ASSERT(gguf_sort(gguf, NULL) == ERR_OK); /* no key was put twice */
    for (int32_t i = 0; i < gguf_key_count(gguf); i++) {
        struct err_info info = {0};
        (void)err_set(&info, ERR_FORMAT, gguf_key(gguf, i), "is looked up");
        ASSERT(gguf_name_error(gguf, ERR_FORMAT, &info) == ERR_FORMAT);
        ASSERT(strncmp(info.where, "fuzz: ", strlen("fuzz: ")) == 0);
    }
}

static void check_adapter(const uint8_t *data, size_t size)
{
    struct adapter_config config;
    struct err_info info = {0};
    const enum err err = adapter_config_parse((const char *)data, size, &config, &info);
    ASSERT((err == ERR_OK) == (info.code == ERR_OK));
    ASSERT(err == ERR_OK || strncmp(info.where, "adapter_config.json", 19) == 0);
    if (err == ERR_OK) {
        ASSERT(config.rank >= 1 && config.rank <= LIMIT_ADAPTER_RANK);
        ASSERT(config.alpha > 0 && isfinite(config.alpha));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check_adapter(data, size);
    struct hub_config config = {0};
    struct err_info info = {0};
    struct gguf *gguf = gguf_create();
    if (gguf == NULL) {
        return 0;
    }
    const enum err err = hub_config_parse((const char *)data, size, "fuzz", gguf, &config, &info);
    ASSERT((err == ERR_OK) == (info.code == ERR_OK));
    ASSERT(err == ERR_OK || strncmp(info.where, "fuzz", strlen("fuzz")) == 0);
    if (err == ERR_OK) {
        ASSERT(config.network != NULL);
        ASSERT(config.context >= 1 && config.context <= LIMIT_CONTEXT);
        gguf->names = &config.network->names;
        check_keys(gguf);
        hub_config_close(&config);
    }
    gguf_close(gguf);
    return 0;
}
