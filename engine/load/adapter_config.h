/*
 * adapter_config.json of a folder as PEFT writes it (peft.LoraConfig): rank and scale, and many
 * switches. One that asks for other arithmetic than W + scale B A, or that no table here knows, is
 * an error naming file and key.
 */
#ifndef ENGINE_LOAD_ADAPTER_CONFIG_H
#define ENGINE_LOAD_ADAPTER_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "engine/base/err.h"

struct adapter_config {
    int32_t rank; /* of every pair; 1..LIMIT_ADAPTER_RANK */
    double alpha; /* above 0 */
    bool root;    /* use_rslora */
};

MUST_USE enum err adapter_config_open(
    int folder, struct adapter_config *out, struct err_info *info);
/* Same of a text in memory (tests, fuzzing). */
MUST_USE enum err adapter_config_parse(
    const char *bytes, size_t count, struct adapter_config *out, struct err_info *info);

#endif
