/* Fuzz target: any bytes as a checkpoint's profile. What is accepted keeps its arrays' bounds. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "engine/base/assert.h"
#include "engine/load/profile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct profile profile;
    struct err_info info = {0};
    memset(&profile, 0, sizeof(profile));
    const enum err err = profile_parse((const char *)data, size, "fuzz", &profile, &info);
    ASSERT((err == ERR_OK) == (info.code == ERR_OK));
    ASSERT(err == ERR_OK || strncmp(info.where, "fuzz", 4) == 0);
    ASSERT(profile.prompt_count >= 0 && profile.prompt_count <= LIMIT_PROMPTS);
    ASSERT(profile.end_count >= 0 && profile.end_count <= LIMIT_END_TOKENS);
    ASSERT(profile.dimension_count >= 0 && profile.dimension_count <= PROFILE_DIMENSIONS);
    ASSERT(profile.classify.field_count >= 0 && profile.classify.field_count <= PROFILE_FIELDS);
    return 0;
}
