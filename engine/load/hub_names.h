/*
 * Names of tensors in a folder of safetensors, and ours. One table a network serves both ways: from
 * a file's name to the name networks ask for, and back for errors.
 */
#ifndef ENGINE_LOAD_HUB_NAMES_H
#define ENGINE_LOAD_HUB_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include "engine/engine_limits.h"

/* '#' stands for the number of a layer, the same in both. */
struct hub_name {
    const char *ours;   /* NULL = a buffer that is computed, not read */
    const char *theirs; /* without the prefix */
    bool turned;        /* rows of a head are rotate-half there and interleaved here */
    bool less_one;      /* a norm that multiplies by 1 + w there and by w here */
    bool skips;         /* its first rows are of no use here (hub_config.skipped_rows) */
    bool bare;          /* never behind the prefix: part of a head, not of the body */
};

struct hub_names {
    /* What a checkpoint with a head puts before the names of its body, and one without leaves out:
     * "model." */
    const char *prefix;
    const struct hub_name *rows;
    size_t count;
};

enum { HUB_OURS_BYTES = LIMIT_FILE_NAME_BYTES + 1 };

/* NULL when no row has such a name; else writes our name, "" for a buffer. */
const struct hub_name *hub_names_find(
    const struct hub_names *names, const char *theirs, char out_ours[HUB_OURS_BYTES]);
/* Their name, with the prefix, of one of ours; "" when no row has it. */
void hub_names_back(const struct hub_names *names, const char *ours, char *out, size_t bytes);

#endif
