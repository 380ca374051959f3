/*
 * Jina embeddings 2 (arXiv 2310.19923): bert without positions, whose scores fall with distance
 * instead (ALiBi, arXiv 2108.12409, to both sides), with a gated feed-forward,
 * gelu(Wgate x) * (Wup x). Files have Wgate apart, or on top of Wup in one matrix. The variant for
 * code, with norms of whole q and k, is refused by their names.
 */
#include "engine/arch/bert.h"
#include "engine/arch/describe.h"
#include "engine/arch/load.h"
#include "engine/blocks/mlp.h"

static const struct arch_key keys[] = {
    {"attention.max_alibi_bias", ARCH_KEY_READ},
    ARCH_KEYS_ENCODER,
};

static enum err jina_describe(struct model *model, const struct gguf *gguf, struct err_info *info)
{
    enum err err = bert_describe_sizes(model, gguf, info);
    return err == ERR_OK ? describe_alibi(model, gguf, 8, info) : err;
}

static enum err load_gate(
    struct model *model, struct weights *weights, int32_t l, struct err_info *info)
{
    struct layer *layer = &model->layers[l];
    int32_t hidden = model->info.hidden, ffn = model->info.ffn;
    const struct load_matrix apart[] = {
        {"ffn_up.weight", ffn, hidden, &layer->up.weight}, /* first: it is in files of both kinds */
        {"ffn_gate.weight", ffn, hidden, &layer->gate.weight},
    };
    const struct load_matrix joined[] = {
        {"ffn_up.weight", ffn, hidden, &layer->gate.weight, 0, 2 * ffn},
        {"ffn_up.weight", ffn, hidden, &layer->up.weight, ffn, 2 * ffn},
    };
    bool is_joined = load_rows(weights, l, joined[0].name) == 2 * ffn;
    return load_matrices(weights, l, is_joined ? joined : apart, 2, info);
}

static enum err jina_load(struct model *model, struct weights *weights, struct err_info *info)
{
    enum err err = bert_load_embedding(model, weights, info);
    for (int32_t l = 0; l < model->info.layers && err == ERR_OK; l++) {
        err = bert_load_sides(model, weights, l, info);
        if (err == ERR_OK) {
            err = load_gate(model, weights, l, info);
        }
    }
    return err;
}

static void jina_attend(struct pass *pass, int32_t l)
{
    const struct layer *layer = &pass->model->layers[l];
    bert_attention(pass, l);
    mlp_gate(pass, &layer->gate, &layer->up, pass->kernels->gelu_erf);
    bert_down(pass, l);
}

const struct network arch_jina_bert_v2 = {
    .name = "jina-bert-v2",
    .keys = keys,
    .key_count = ARRAY_COUNT(keys),
    .describe = jina_describe,
    .load = jina_load,
    .embed = bert_embed,
    .store = bert_store,
    .attend = jina_attend,
};
