/*
 * ModernBERT (arXiv 2412.13663): an encoder with its norms before each block, without biases, whose
 * layers are global every third time and otherwise see half a window to either side.
 *
 *     x = LayerNorm(E[token])
 *     a = LayerNorm(x), in the first layer x;  x += Wo Attention(rope(Wq a), rope(Wk a), Wv a)
 *     b = LayerNorm(x);  x += Wdown (gelu(Wgate b) * (Wup b))
 *
 * Files hold Wq, Wk, Wv in one matrix, and Wgate on top of Wup in another.
 */
#include <string.h>
#include "engine/arch/describe.h"
#include "engine/arch/load.h"
#include "engine/attn/mask.h"
#include "engine/blocks/attention.h"
#include "engine/blocks/embed.h"
#include "engine/blocks/linear.h"
#include "engine/blocks/mlp.h"
#include "engine/blocks/norm.h"

enum { GLOBAL, LOCAL }; /* the rotations */

static const struct arch_key keys[] = {
    {"attention.sliding_window", ARCH_KEY_READ},
    {"attention.sliding_window_pattern", ARCH_KEY_INTEGER, 3},
    {"hidden_activation", ARCH_KEY_READ},
    {"rope.freq_base_swa", ARCH_KEY_READ},
    ARCH_KEYS_ENCODER,
    ARCH_KEYS_ROPE,
};

/* Some checkpoints made after it have silu. */
static enum err check_activation(const struct gguf *gguf, struct err_info *info)
{
    const char *key = "modern-bert.hidden_activation";
    struct gguf_string word = {.bytes = "gelu", .count = strlen("gelu")};
    enum err err = gguf_get_string(gguf, key, false, &word, info);
    if (err == ERR_OK &&
        (word.count != strlen("gelu") || memcmp(word.bytes, "gelu", word.count) != 0)) {
        err = err_set(info, ERR_UNSUPPORTED, key, "only \"gelu\" is built");
    }
    return err;
}

static enum err modern_describe(struct model *model, const struct gguf *gguf, struct err_info *info)
{
    struct hyper *hyper = &model->hyper;
    model->info.embeds_only = true;
    hyper->norm_kind = NORM_LAYER;
    enum err err = describe_sizes(model, gguf, "attention.layer_norm_epsilon", info);
    if (err == ERR_OK) {
        err = describe_rope(model, gguf, ROPE_HALF, 160000, info);
    }
    hyper->ropes[LOCAL] = (struct rope_shape){.base = 10000, .factor = 1};
    hyper->rope_count = 2;
    if (err == ERR_OK) {
        err = describe_real(
            model, gguf, "rope.freq_base_swa", false, 1, 1e12, &hyper->ropes[LOCAL].base, info);
    }
    if (err == ERR_OK) {
        err = check_activation(gguf, info);
    }
    return err == ERR_OK ? describe_window(model, gguf, true, info) : err;
}

/* ---- tensors ------------------------------------------------------------------------------- */

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
        {"ffn_up.weight", ffn, hidden, &layer->gate.weight, 0, 2 * ffn},
        {"ffn_up.weight", ffn, hidden, &layer->up.weight, ffn, 2 * ffn},
        {"ffn_down.weight", hidden, ffn, &layer->down.weight},
    };
    const struct load_vector norms[] = {
        {"ffn_norm.weight", hidden, &layer->ffn_norm.weight},
        {"attn_norm.weight", hidden, &layer->attn_norm.weight},
    };
    size_t norm_count = l == 0 ? 1 : 2;
    enum err err = load_vectors(weights, l, norms, norm_count, info);
    return err == ERR_OK ? load_matrices(weights, l, matrices, ARRAY_COUNT(matrices), info) : err;
}

static enum err modern_load(struct model *model, struct weights *weights, struct err_info *info)
{
    enum { PATTERN = 3 };
    int32_t vocab = model->info.vocab, hidden = model->info.hidden;
    enum err err =
        weights_matrix(weights, "token_embd.weight", vocab, hidden, &model->embedding.weight, info);
    if (err == ERR_OK) {
        err = weights_vector(
            weights, "token_embd_norm.weight", hidden, &model->embed_norm.weight, info);
    }
    if (err == ERR_OK) {
        err =
            weights_vector(weights, "output_norm.weight", hidden, &model->output_norm.weight, info);
    }
    for (int32_t l = 0; l < model->info.layers && err == ERR_OK; l++) {
        bool local = l % PATTERN != 0;
        model->layers[l].rope = local ? LOCAL : GLOBAL;
        model->layers[l].reach = local ? model->hyper.window / 2 : REACH_ALL;
        err = load_layer(model, weights, l, info);
    }
    return err;
}

/* ---- the pass ------------------------------------------------------------------------------ */

static void modern_embed(const struct pass *pass, int32_t row)
{
    float *x = pass->batch->x[row];
    embed_token(pass, row);
    norm_row(pass->model, &pass->model->embed_norm, x, pass->model->info.hidden, x);
}

static void modern_store(struct pass *pass, int32_t l)
{
    norm_rows(pass, &pass->model->layers[l].attn_norm);
    attention_store(pass, l);
}

static void modern_attend(struct pass *pass, int32_t l)
{
    const struct layer *layer = &pass->model->layers[l];

    if (!pass->joined) {
        norm_rows(pass, &layer->attn_norm);
        attention_query(pass, l);
    }
    attention_attend(pass, l);
    linear_add(pass, &layer->output, pass->scratch->attended);

    norm_rows(pass, &layer->ffn_norm);
    mlp_gate(pass, &layer->gate, &layer->up, pass->kernels->gelu_erf);
    linear_add(pass, &layer->down, pass->scratch->gate);
}

const struct network arch_modern_bert = {
    .name = "modern-bert",
    .keys = keys,
    .key_count = ARRAY_COUNT(keys),
    .describe = modern_describe,
    .load = modern_load,
    .embed = modern_embed,
    .store = modern_store,
    .attend = modern_attend,
};
