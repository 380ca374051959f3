/*
 * BERT (arXiv 1810.04805), RoBERTa and XLM-R (1907.11692, 1911.02116): encoders whose norms come
 * after what is added.
 *
 *     x = LayerNorm(E[token] + T[0] + P[position])
 *     x = LayerNorm(x + Wo Attention(Wq x + bq, Wk x + bk, Wv x + bv) + bo)
 *     x = LayerNorm(x + Wdown gelu(Wup x + bup) + bdown)
 *
 * All tokens are of the first type: texts come alone. Files of RoBERTa hold the positions from the
 * first that a token can have, its pad + 1; so position 0 is the first row of P in every file.
 */
#include "engine/arch/bert.h"

#include "engine/arch/describe.h"
#include "engine/arch/load.h"
#include "engine/blocks/attention.h"
#include "engine/blocks/embed.h"
#include "engine/blocks/linear.h"
#include "engine/blocks/mlp.h"
#include "engine/blocks/norm.h"

static const struct arch_key keys[] = {ARCH_KEYS_ENCODER};

enum err bert_describe_sizes(struct model *model, const struct gguf *gguf, struct err_info *info)
{
    model->info.embeds_only = true;
    model->hyper.norm_kind = NORM_LAYER;
    return describe_sizes(model, gguf, "attention.layer_norm_epsilon", info);
}

/* ---- tensors ------------------------------------------------------------------------------- */

enum err bert_load_embedding(struct model *model, struct weights *weights, struct err_info *info)
{
    int32_t vocab = model->info.vocab, hidden = model->info.hidden;
    enum err err =
        weights_matrix(weights, "token_embd.weight", vocab, hidden, &model->embedding.weight, info);
    if (err == ERR_OK) {
        err = weights_vector(
            weights, "token_embd_norm.weight", hidden, &model->embed_norm.weight, info);
    }
    if (err == ERR_OK) {
        err =
            weights_vector(weights, "token_embd_norm.bias", hidden, &model->embed_norm.bias, info);
    }
    const char *types = "token_types.weight";
    if (err == ERR_OK && weights_has(weights, types)) {
        int32_t rows = MAX(weights_rows(weights, types), 1); /* 0 = too many, refused as such */
        err = weights_table(weights, types, rows, hidden, &model->token_types, info);
    }
    return err;
}

enum err bert_load_norms(
    struct model *model, struct weights *weights, int32_t l, struct err_info *info)
{
    struct layer *layer = &model->layers[l];
    int32_t hidden = model->info.hidden;
    const struct load_vector norms[] = {
        {"attn_output_norm.weight", hidden, &layer->attn_post_norm.weight},
        {"attn_output_norm.bias", hidden, &layer->attn_post_norm.bias},
        {"layer_output_norm.weight", hidden, &layer->ffn_post_norm.weight},
        {"layer_output_norm.bias", hidden, &layer->ffn_post_norm.bias},
    };
    return load_vectors(weights, l, norms, ARRAY_COUNT(norms), info);
}

enum err bert_load_sides(
    struct model *model, struct weights *weights, int32_t l, struct err_info *info)
{
    struct layer *layer = &model->layers[l];
    int32_t hidden = model->info.hidden, ffn = model->info.ffn;
    int32_t width_q = model->info.heads * model->info.head_dim;
    int32_t width_kv = model->info.heads_kv * model->info.head_dim;
    const struct load_matrix matrices[] = {
        {"attn_q.weight", width_q, hidden, &layer->q.weight},
        {"attn_k.weight", width_kv, hidden, &layer->k.weight},
        {"attn_v.weight", width_kv, hidden, &layer->v.weight},
        {"attn_output.weight", hidden, width_q, &layer->output.weight},
        {"ffn_down.weight", hidden, ffn, &layer->down.weight},
    };
    const struct load_vector biases[] = {
        {"attn_q.bias", width_q, &layer->q.bias},
        {"attn_k.bias", width_kv, &layer->k.bias},
        {"attn_v.bias", width_kv, &layer->v.bias},
        {"attn_output.bias", hidden, &layer->output.bias},
        {"ffn_down.bias", hidden, &layer->down.bias},
    };
    enum err err = load_matrices(weights, l, matrices, ARRAY_COUNT(matrices), info);
    if (err == ERR_OK) {
        err = load_vectors(weights, l, biases, ARRAY_COUNT(biases), info);
    }
    return err == ERR_OK ? bert_load_norms(model, weights, l, info) : err;
}

static enum err load_layer(
    struct model *model, struct weights *weights, int32_t l, struct err_info *info)
{
    struct linear *up = &model->layers[l].up;
    int32_t ffn = model->info.ffn;
    const struct load_matrix matrix = {"ffn_up.weight", ffn, model->info.hidden, &up->weight};
    const struct load_vector bias = {"ffn_up.bias", ffn, &up->bias};
    enum err err = bert_load_sides(model, weights, l, info);
    if (err == ERR_OK) {
        err = load_matrices(weights, l, &matrix, 1, info);
    }
    return err == ERR_OK ? load_vectors(weights, l, &bias, 1, info) : err;
}

static enum err bert_load(struct model *model, struct weights *weights, struct err_info *info)
{
    enum err err = bert_load_embedding(model, weights, info);
    if (err == ERR_OK) {
        err = weights_table(weights, "position_embd.weight", model->info.context_trained,
            model->info.hidden, &model->positions, info);
    }
    for (int32_t l = 0; l < model->info.layers && err == ERR_OK; l++) {
        err = load_layer(model, weights, l, info);
    }
    return err;
}

/* ---- the pass ------------------------------------------------------------------------------ */

void bert_embed(const struct pass *pass, int32_t row)
{
    const struct model *model = pass->model;
    int32_t hidden = model->info.hidden;
    float *x = pass->batch->x[row];
    embed_token(pass, row);
    if (model->token_types != NULL) {
        pass->kernels->add(x, model->token_types, hidden);
    }
    if (model->positions != NULL) {
        size_t position = (size_t)pass->batch->positions[row];
        pass->kernels->add(x, model->positions + position * (size_t)hidden, hidden);
    }
    norm_row(model, &model->embed_norm, x, hidden, x);
}

void bert_store(struct pass *pass, int32_t l)
{
    norm_rows(
        pass, &pass->model->layers[l].attn_norm); /* which there is none of: rows as they are */
    attention_store(pass, l);
}

void bert_attention(struct pass *pass, int32_t l)
{
    const struct layer *layer = &pass->model->layers[l];
    if (!pass->joined) {
        norm_rows(pass, &layer->attn_norm);
        attention_query(pass, l);
    }
    attention_attend(pass, l);
    linear_add(pass, &layer->output, pass->scratch->attended);
    norm_residual(pass, &layer->attn_post_norm);
}

void bert_down(struct pass *pass, int32_t l)
{
    const struct layer *layer = &pass->model->layers[l];
    linear_add(pass, &layer->down, pass->scratch->gate);
    norm_residual(pass, &layer->ffn_post_norm);
}

static void bert_attend(struct pass *pass, int32_t l)
{
    bert_attention(pass, l);
    mlp_gate(pass, &pass->model->layers[l].up, NULL, pass->kernels->gelu_erf);
    bert_down(pass, l);
}

const struct network arch_bert = {
    .name = "bert",
    .keys = keys,
    .key_count = ARRAY_COUNT(keys),
    .describe = bert_describe_sizes,
    .load = bert_load,
    .embed = bert_embed,
    .store = bert_store,
    .attend = bert_attend,
};
