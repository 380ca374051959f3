/*
 * Qwen3 (arXiv 2505.09388) and Qwen3-Embedding: llama with a norm of each head of q and k before
 * they rotate, and the halves of a head rotated against each other.
 */
#include "engine/arch/describe.h"
#include "engine/arch/llama.h"
#include "engine/arch/load.h"
#include "engine/blocks/embed.h"

static const struct arch_key keys[] = {
    {"attention.layer_norm_rms_epsilon", ARCH_KEY_READ},
    ARCH_KEYS_ROPE,
};

static enum err qwen3_describe(struct model *model, const struct gguf *gguf, struct err_info *info)
{
    enum err err = describe_sizes(model, gguf, "attention.layer_norm_rms_epsilon", info);
    return err == ERR_OK ? describe_rope(model, gguf, ROPE_HALF, 10000, info) : err;
}

static enum err qwen3_load(struct model *model, struct weights *weights, struct err_info *info)
{
    int32_t head_dim = model->info.head_dim;
    enum err err = llama_load(model, weights, info);
    for (int32_t l = 0; l < model->info.layers && err == ERR_OK; l++) {
        struct layer *layer = &model->layers[l];
        const struct load_vector norms[] = {
            {"attn_q_norm.weight", head_dim, &layer->q_norm.weight},
            {"attn_k_norm.weight", head_dim, &layer->k_norm.weight},
        };
        err = load_vectors(weights, l, norms, ARRAY_COUNT(norms), info);
    }
    return err;
}

const struct network arch_qwen3 = {
    .name = "qwen3",
    .keys = keys,
    .key_count = ARRAY_COUNT(keys),
    .describe = qwen3_describe,
    .load = qwen3_load,
    .embed = embed_token,
    .store = llama_store,
    .attend = llama_attend,
};
