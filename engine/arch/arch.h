/*
 * The table of networks. A network is one file: what its hyper-parameters and tensors are called,
 * and the two halves of its layer, which read like its paper. Everything around them (units, tiles,
 * reads, threads) is the model's.
 */
#ifndef ENGINE_ARCH_ARCH_H
#define ENGINE_ARCH_ARCH_H

#include "engine/base/err.h"
#include "engine/load/weights.h"

struct model;
struct pass;

struct network {
    const char *name; /* general.architecture */
    /* Fills model->info's sizes and model->hyper from the file's keys, each bounded; a key that
     * would change the arithmetic and is not known is ERR_UNSUPPORTED. */
    enum err (*describe)(struct model *model, const struct gguf *gguf, struct err_info *info);
    /* Takes every tensor; called twice, first to count (engine/load/weights.h). */
    enum err (*load)(struct model *model, struct weights *weights, struct err_info *info);
    /* x of the tile's rows -> K and V of layer l in the pages. */
    void (*store)(struct pass *pass, int32_t l);
    /* x of the tile's rows -> x after layer l. */
    void (*attend)(struct pass *pass, int32_t l);
};

/* NULL when there is no such network. */
const struct network *arch_find(const char *name, size_t name_bytes);

/* What a key below the network's prefix may hold. */
enum arch_key_use {
    ARCH_KEY_READ,    /* anything: describe() or the profile reads it, or it only informs */
    ARCH_KEY_INTEGER, /* asks for arithmetic that is not built unless it holds `neutral` */
    ARCH_KEY_REAL,
    ARCH_KEY_BOOL,
};

struct arch_key {
    const char *name; /* without the prefix */
    enum arch_key_use use;
    int neutral;
};

/* ERR_UNSUPPORTED naming the first key below `prefix` ("llama.") that is not in the table or is not
 * neutral: what we do not understand could change the numbers. */
MUST_USE enum err arch_check_keys(const struct gguf *gguf, const char *prefix,
    const struct arch_key *keys, size_t key_count, struct err_info *info);

extern const struct network arch_llama;

#endif
