/*
 * Qwen2 and Qwen2.5 (arXiv 2407.10671), and the embedders made from them: llama with biases of q,
 * k and v, and the halves of a head rotated against each other. Files have no window: the layers
 * that could have one see all of what such a checkpoint was trained on.
 */
#include "engine/arch/describe.h"
#include "engine/arch/llama.h"
#include "engine/arch/load.h"
#include "engine/blocks/embed.h"

static const struct arch_key keys[] = {
    {"attention.layer_norm_rms_epsilon", ARCH_KEY_READ},
    ARCH_KEYS_ROPE,
};

static enum err qwen2_describe(struct model *model, const struct gguf *gguf, struct err_info *info)
{
    enum err err = describe_sizes(model, gguf, "attention.layer_norm_rms_epsilon", info);
    return err == ERR_OK ? describe_rope(model, gguf, ROPE_HALF, 10000, info) : err;
}

static enum err qwen2_load(struct model *model, struct weights *weights, struct err_info *info)
{
    int32_t width_q = model->info.heads * model->info.head_dim;
    int32_t width_kv = model->info.heads_kv * model->info.head_dim;
    enum err err = llama_load(model, weights, info);
    for (int32_t l = 0; l < model->info.layers && err == ERR_OK; l++) {
        struct layer *layer = &model->layers[l];
        const struct load_vector biases[] = {
            {"attn_q.bias", width_q, &layer->q.bias},
            {"attn_k.bias", width_kv, &layer->k.bias},
            {"attn_v.bias", width_kv, &layer->v.bias},
        };
        err = load_vectors(weights, l, biases, ARRAY_COUNT(biases), info);
    }
    return err;
}

const struct network arch_qwen2 = {
    .name = "qwen2",
    .keys = keys,
    .key_count = ARRAY_COUNT(keys),
    .describe = qwen2_describe,
    .load = qwen2_load,
    .embed = embed_token,
    .store = llama_store,
    .attend = llama_attend,
};
