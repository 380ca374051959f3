/*
 * Hyper-parameters that networks have in common, read from the keys below the network's name
 * ("qwen2.block_count"), each bounded. An error names the key.
 */
#ifndef ENGINE_ARCH_DESCRIBE_H
#define ENGINE_ARCH_DESCRIBE_H

#include "engine/model/parts.h"

/* Sizes, heads, the scale of attention, norm_eps from `eps_key` ("attention.layer_norm_epsilon")
 * and the vocabulary. Layers do not exist yet. */
MUST_USE enum err describe_sizes(
    struct model *model, const struct gguf *gguf, const char *eps_key, struct err_info *info);
/* After describe_sizes: the rotation that all layers share, as model->hyper.ropes[0]. */
MUST_USE enum err describe_rope(struct model *model, const struct gguf *gguf, enum rope_style style,
    double base_default, struct err_info *info);
/* Slopes of ALiBi (arXiv 2108.12409) for all heads, from attention.max_alibi_bias. */
MUST_USE enum err describe_alibi(
    struct model *model, const struct gguf *gguf, double bias_default, struct err_info *info);
/* attention.sliding_window as model->hyper.window; 0 where the file has none. */
MUST_USE enum err describe_window(
    struct model *model, const struct gguf *gguf, bool required, struct err_info *info);
/* A number of (min, max]; *out stays the caller's default where the key is absent and !required. */
MUST_USE enum err describe_real(const struct model *model, const struct gguf *gguf,
    const char *name, bool required, double min, double max, double *out, struct err_info *info);

#endif
