/*
 * Gemma 3 (arXiv 2503.19786) and EmbeddingGemma, the same network made to see both ways.
 *
 *     x = sqrt(width) E[token]
 *     a = RMSNorm(x);  x += RMSNorm(Wo Attention(rope(RMSNorm(Wq a)), rope(RMSNorm(Wk a)), Wv a))
 *     b = RMSNorm(x);  x += RMSNorm(Wdown (gelu(Wgate b) * (Wup b)))
 *
 * Every sixth layer is global and rotates slowly; the others see a window and rotate with base
 * 10000. A checkpoint's norms multiply by 1 + w; files of this network hold the sum.
 */
#include <math.h>
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
    {"attention.layer_norm_rms_epsilon", ARCH_KEY_READ},
    {"attention.sliding_window", ARCH_KEY_READ},
    {"attention.sliding_window_pattern", ARCH_KEY_INTEGER, 6},
    {"rope.freq_base_swa", ARCH_KEY_READ},
    ARCH_KEYS_ROPE,
};

static enum err describe(
    struct model *model, const struct gguf *gguf, bool windowed, struct err_info *info)
{
    struct hyper *hyper = &model->hyper;
    enum err err = describe_sizes(model, gguf, "attention.layer_norm_rms_epsilon", info);
    if (err == ERR_OK) {
        err = describe_rope(model, gguf, ROPE_HALF, 1000000, info);
    }
    hyper->ropes[LOCAL] = (struct rope_shape){.base = 10000, .factor = 1};
    hyper->rope_count = 2;
    if (err == ERR_OK) {
        err = describe_real(
            model, gguf, "rope.freq_base_swa", false, 1, 1e12, &hyper->ropes[LOCAL].base, info);
    }
    return err == ERR_OK ? describe_window(model, gguf, windowed, info) : err;
}

static enum err gemma3_describe(struct model *model, const struct gguf *gguf, struct err_info *info)
{
    enum { LAYERS_27B = 62 };
    enum err err = describe(model, gguf, false, info);
    const struct model_info *sizes = &model->info;
    if (err == ERR_OK && sizes->layers == LAYERS_27B && !gguf_has(gguf, "gemma3.attention.scale")) {
        /* Of this size alone, scores are scaled as if the heads shared the width; files do not say
         * so. */
        model->hyper.attention_scale = (float)(1 / sqrt((double)sizes->hidden / sizes->heads));
    }
    return err;
}

static enum err embedding_describe(
    struct model *model, const struct gguf *gguf, struct err_info *info)
{
    model->info.embeds_only = true;
    return describe(model, gguf, true, info);
}

/* ---- tensors ------------------------------------------------------------------------------- */

static enum err load_layer(
    struct model *model, struct weights *weights, int32_t l, struct err_info *info)
{
    struct layer *layer = &model->layers[l];
    int32_t hidden = model->info.hidden, ffn = model->info.ffn;
    int32_t width_q = model->info.heads * model->info.head_dim;
    int32_t width_kv = model->info.heads_kv * model->info.head_dim;
    const struct load_vector norms[] = {
        {"attn_norm.weight", hidden, &layer->attn_norm.weight},
        {"attn_q_norm.weight", model->info.head_dim, &layer->q_norm.weight},
        {"attn_k_norm.weight", model->info.head_dim, &layer->k_norm.weight},
        {"post_attention_norm.weight", hidden, &layer->attn_post_norm.weight},
        {"ffn_norm.weight", hidden, &layer->ffn_norm.weight},
        {"post_ffw_norm.weight", hidden, &layer->ffn_post_norm.weight},
    };
    const struct load_matrix matrices[] = {
        {"attn_q.weight", width_q, hidden, &layer->q.weight},
        {"attn_k.weight", width_kv, hidden, &layer->k.weight},
        {"attn_v.weight", width_kv, hidden, &layer->v.weight},
        {"attn_output.weight", hidden, width_q, &layer->output.weight},
        {"ffn_gate.weight", ffn, hidden, &layer->gate.weight},
        {"ffn_up.weight", ffn, hidden, &layer->up.weight},
        {"ffn_down.weight", hidden, ffn, &layer->down.weight},
    };
    enum err err = load_vectors(weights, l, norms, ARRAY_COUNT(norms), info);
    return err == ERR_OK ? load_matrices(weights, l, matrices, ARRAY_COUNT(matrices), info) : err;
}

/* Local layers see `reach` positions to either side. */
static enum err load(
    struct model *model, struct weights *weights, int32_t reach, struct err_info *info)
{
    enum { PATTERN = 6 };
    enum err err = load_embedding_and_head(model, weights, info);
    if (err == ERR_OK) {
        err = weights_vector(
            weights, "output_norm.weight", model->info.hidden, &model->output_norm.weight, info);
    }
    for (int32_t l = 0; l < model->info.layers && err == ERR_OK; l++) {
        bool local = model->hyper.window > 0 && l % PATTERN != PATTERN - 1;
        model->layers[l].rope = local ? LOCAL : GLOBAL;
        model->layers[l].reach = local ? reach : REACH_ALL;
        err = load_layer(model, weights, l, info);
    }
    return err;
}

static enum err gemma3_load(struct model *model, struct weights *weights, struct err_info *info)
{
    return load(model, weights, model->hyper.window - 1, info); /* itself is one of the window */
}

static enum err embedding_load(struct model *model, struct weights *weights, struct err_info *info)
{
    enum err err = load(model, weights, model->hyper.window / 2, info);
    model->head = NULL;
    return err;
}

/* ---- the pass ------------------------------------------------------------------------------ */

static void gemma3_embed(const struct pass *pass, int32_t row)
{
    float *x = pass->batch->x[row];
    float scale = sqrtf((float)pass->model->info.hidden);
    embed_token(pass, row);
    for (int32_t i = 0; i < pass->model->info.hidden; i++) {
        x[i] *= scale;
    }
}

static void gemma3_store(struct pass *pass, int32_t l)
{
    norm_rows(pass, &pass->model->layers[l].attn_norm);
    attention_store(pass, l);
}

static void gemma3_attend(struct pass *pass, int32_t l)
{
    const struct layer *layer = &pass->model->layers[l];
    struct scratch *scratch = pass->scratch;

    if (!pass->joined) {
        norm_rows(pass, &layer->attn_norm);
        attention_query(pass, l);
    }
    attention_attend(pass, l);
    linear_rows(pass, &layer->output, scratch->attended);
    norm_add(pass, &layer->attn_post_norm);

    norm_rows(pass, &layer->ffn_norm);
    mlp_gate(pass, &layer->gate, &layer->up, pass->kernels->gelu_tanh);
    linear_rows(pass, &layer->down, scratch->gate);
    norm_add(pass, &layer->ffn_post_norm);
}

const struct network arch_gemma3 = {
    .name = "gemma3",
    .keys = keys,
    .key_count = ARRAY_COUNT(keys),
    .describe = gemma3_describe,
    .load = gemma3_load,
    .embed = gemma3_embed,
    .store = gemma3_store,
    .attend = gemma3_attend,
};

const struct network arch_gemma_embedding = {
    .name = "gemma-embedding",
    .keys = keys,
    .key_count = ARRAY_COUNT(keys),
    .describe = embedding_describe,
    .load = embedding_load,
    .embed = gemma3_embed,
    .store = gemma3_store,
    .attend = gemma3_attend,
};
