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

/* What a key below the network's name may hold. */
enum arch_key_use {
    ARCH_KEY_READ,    /* anything: describe() or the profile reads it, or it only informs */
    ARCH_KEY_INTEGER, /* asks for arithmetic that is not built unless it holds `neutral` */
    ARCH_KEY_REAL,
    ARCH_KEY_BOOL,
};

struct arch_key {
    const char *name; /* without the network's name and its point */
    enum arch_key_use use;
    int neutral;
};

/* What networks that rotate may say besides. How a checkpoint came to be changes nothing in the
 * scalings that are built. */
#define ARCH_KEYS_ROPE                                                                             \
    {"rope.dimension_count", ARCH_KEY_READ}, {"rope.freq_base", ARCH_KEY_READ},                    \
        {"rope.scaling.type", ARCH_KEY_READ}, {"rope.scaling.factor", ARCH_KEY_READ},              \
        {"rope.scale_linear", ARCH_KEY_READ}, /* what old files call rope.scaling.factor */        \
        {"rope.scaling.original_context_length", ARCH_KEY_READ},                                   \
        {"rope.scaling.finetuned", ARCH_KEY_READ},                                                 \
    {                                                                                              \
        "rope.scaling.attn_factor", ARCH_KEY_REAL, 1                                               \
    }

/* What encoders say: that they are none of causal attention. */
#define ARCH_KEYS_ENCODER                                                                          \
    {"attention.layer_norm_epsilon", ARCH_KEY_READ},                                               \
    {                                                                                              \
        "attention.causal", ARCH_KEY_BOOL, 0                                                       \
    }

struct network {
    const char *name; /* general.architecture */
    /* What may stand below its name besides what no network could do without; the first of a name
     * counts, and goes before what all have in common. */
    const struct arch_key *keys;
    size_t key_count;
    /* Fills model->info's sizes and model->hyper from the file's keys, each bounded. */
    enum err (*describe)(struct model *model, const struct gguf *gguf, struct err_info *info);
    /* Takes every tensor and fills the layers; called twice, first to count
     * (engine/load/weights.h). */
    enum err (*load)(struct model *model, struct weights *weights, struct err_info *info);
    /* Token of a row of the batch -> its x before layer 0. Called for many rows at once. */
    void (*embed)(const struct pass *pass, int32_t row);
    /* x of the tile's rows -> K and V of layer l in the pages. */
    void (*store)(struct pass *pass, int32_t l);
    /* x of the tile's rows -> x after layer l. */
    void (*attend)(struct pass *pass, int32_t l);
};

/* NULL when there is no such network. */
const struct network *arch_find(const char *name, size_t name_bytes);

/* ERR_UNSUPPORTED naming the first key below the network's name that is not known or not neutral:
 * what we do not understand could change the numbers. */
MUST_USE enum err arch_check_keys(
    const struct gguf *gguf, const struct network *network, struct err_info *info);

extern const struct network arch_bert, arch_gemma3, arch_gemma_embedding, arch_jina_bert_v2,
    arch_llama, arch_modern_bert, arch_nomic_bert, arch_qwen2, arch_qwen3;

#endif
