/*
 * Nomic BERT (arXiv 2402.01613): bert that rotates q and k instead of adding positions, with a
 * gated feed-forward, silu(Wgate x) * (Wup x), and no biases but those of the norms.
 */
#include "engine/arch/bert.h"
#include "engine/arch/describe.h"
#include "engine/arch/load.h"
#include "engine/blocks/mlp.h"

static const struct arch_key keys[] = {
    {"moe_every_n_layers", ARCH_KEY_INTEGER, 0},
    ARCH_KEYS_ENCODER,
    ARCH_KEYS_ROPE,
};

static enum err nomic_describe(struct model *model, const struct gguf *gguf, struct err_info *info)
{
    enum err err = bert_describe_sizes(model, gguf, info);
    return err == ERR_OK ? describe_rope(model, gguf, ROPE_HALF, 10000, info) : err;
}

static enum err load_layer(
    struct model *model, struct weights *weights, int32_t l, struct err_info *info)
{
    struct layer *layer = &model->layers[l];
    int32_t hidden = model->info.hidden, ffn = model->info.ffn;
    int32_t width_q = model->info.heads * model->info.head_dim;
    int32_t width_kv = model->info.heads_kv * model->info.head_dim;
    int32_t all = width_q + 2 * width_kv;
    const struct load_matrix matrices[] = {
        {"attn_qkv.weight", width_q, hidden, &layer->q.weight, 0, all},
        {"attn_qkv.weight", width_kv, hidden, &layer->k.weight, width_q, all},
        {"attn_qkv.weight", width_kv, hidden, &layer->v.weight, width_q + width_kv, all},
        {"attn_output.weight", hidden, width_q, &layer->output.weight},
        {"ffn_gate.weight", ffn, hidden, &layer->gate.weight},
        {"ffn_up.weight", ffn, hidden, &layer->up.weight},
        {"ffn_down.weight", hidden, ffn, &layer->down.weight},
    };
    enum err err = load_matrices(weights, l, matrices, ARRAY_COUNT(matrices), info);
    return err == ERR_OK ? bert_load_norms(model, weights, l, info) : err;
}

static enum err nomic_load(struct model *model, struct weights *weights, struct err_info *info)
{
    enum err err = bert_load_embedding(model, weights, info);
    for (int32_t l = 0; l < model->info.layers && err == ERR_OK; l++) {
        err = load_layer(model, weights, l, info);
    }
    return err;
}

static void nomic_attend(struct pass *pass, int32_t l)
{
    const struct layer *layer = &pass->model->layers[l];
    bert_attention(pass, l);
    mlp_gate(pass, &layer->gate, &layer->up, pass->kernels->silu_mul);
    bert_down(pass, l);
}

const struct network arch_nomic_bert = {
    .name = "nomic-bert",
    .keys = keys,
    .key_count = ARRAY_COUNT(keys),
    .describe = nomic_describe,
    .load = nomic_load,
    .embed = bert_embed,
    .store = bert_store,
    .attend = nomic_attend,
};
