/*
 * The llama network (Touvron et al., arXiv 2302.13971 and 2307.09288): Llama, SmolLM2, TinyLlama,
 * Mistral with and without its sliding window (arXiv 2310.06825), and Llama 3.1 with its table of
 * rope divisors.
 *
 *     a = RMSNorm(x);  x += Wo Attention(rope(Wq a), rope(Wk a), Wv a)
 *     b = RMSNorm(x);  x += Wdown (silu(Wgate b) * (Wup b))
 *
 * GGUF files of this network hold q and k rows for interleaved rope. Everything else that "llama"
 * files may ask for (experts, biases, other rope scalings, scaled or capped logits) is refused by
 * name: keys here, tensors by weights_unused.
 */
#include "engine/arch/llama.h"

#include "engine/arch/describe.h"
#include "engine/arch/load.h"
#include "engine/attn/mask.h"
#include "engine/blocks/attention.h"
#include "engine/blocks/embed.h"
#include "engine/blocks/linear.h"
#include "engine/blocks/mlp.h"
#include "engine/blocks/norm.h"

static const struct arch_key keys[] = {
    {"attention.layer_norm_rms_epsilon", ARCH_KEY_READ},
    {"attention.sliding_window", ARCH_KEY_READ},
    ARCH_KEYS_ROPE,
};

static enum err llama_describe(struct model *model, const struct gguf *gguf, struct err_info *info)
{
    enum err err = describe_sizes(model, gguf, "attention.layer_norm_rms_epsilon", info);
    if (err == ERR_OK) {
        err = describe_rope(model, gguf, ROPE_INTERLEAVED, 10000, info);
    }
    return err == ERR_OK ? describe_window(model, gguf, false, info) : err;
}

/* ---- tensors ------------------------------------------------------------------------------- */

static enum err load_layer(
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
        {"ffn_gate.weight", ffn, hidden, &layer->gate.weight},
        {"ffn_up.weight", ffn, hidden, &layer->up.weight},
        {"ffn_down.weight", hidden, ffn, &layer->down.weight},
    };
    const struct load_vector norms[] = {
        {"attn_norm.weight", hidden, &layer->attn_norm.weight},
        {"ffn_norm.weight", hidden, &layer->ffn_norm.weight},
    };
    layer->reach = model->hyper.window > 0 ? model->hyper.window - 1 : REACH_ALL;
    enum err err = load_vectors(weights, l, norms, ARRAY_COUNT(norms), info);
    return err == ERR_OK ? load_matrices(weights, l, matrices, ARRAY_COUNT(matrices), info) : err;
}

static enum err load_rope_divisors(
    struct model *model, struct weights *weights, struct err_info *info)
{
    const char *name = "rope_freqs.weight";
    int32_t count = model->hyper.rotary_dim / 2;
    enum err err = weights_vector(weights, name, count, &model->rope_divisors, info);
    if (err != ERR_OK || model->rope_divisors == NULL) {
        return err; /* dry: nothing was read */
    }
    for (int32_t i = 0; i < count; i++) {
        if (!(model->rope_divisors[i] >= 1e-6f && model->rope_divisors[i] <= 1e6f)) {
            return err_set(info, ERR_FORMAT, name, "number %d is not a sane divisor", i);
        }
    }
    return ERR_OK;
}

enum err llama_load(struct model *model, struct weights *weights, struct err_info *info)
{
    enum err err = load_embedding_and_head(model, weights, info);
    if (err == ERR_OK) {
        err = weights_vector(
            weights, "output_norm.weight", model->info.hidden, &model->output_norm.weight, info);
    }
    if (err == ERR_OK && weights_has(weights, "rope_freqs.weight")) {
        err = load_rope_divisors(model, weights, info);
    }
    for (int32_t l = 0; l < model->info.layers && err == ERR_OK; l++) {
        err = load_layer(model, weights, l, info);
    }
    return err;
}

/* ---- the pass ------------------------------------------------------------------------------ */

void llama_store(struct pass *pass, int32_t l)
{
    norm_rows(pass, &pass->model->layers[l].attn_norm);
    attention_store(pass, l);
}

void llama_attend(struct pass *pass, int32_t l)
{
    const struct layer *layer = &pass->model->layers[l];
    struct scratch *scratch = pass->scratch;

    if (!pass->joined) {
        norm_rows(pass, &layer->attn_norm);
        attention_query(pass, l);
    }
    attention_attend(pass, l);
    linear_add(pass, &layer->output, scratch->attended);

    norm_rows(pass, &layer->ffn_norm);
    mlp_gate(pass, &layer->gate, &layer->up, pass->kernels->silu_mul);
    linear_add(pass, &layer->down, scratch->gate);
}

const struct network arch_llama = {
    .name = "llama",
    .keys = keys,
    .key_count = ARRAY_COUNT(keys),
    .describe = llama_describe,
    .load = llama_load,
    .embed = embed_token,
    .store = llama_store,
    .attend = llama_attend,
};
