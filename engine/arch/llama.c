/*
 * The llama network (Touvron et al., arXiv 2302.13971 and 2307.09288): Llama, SmolLM2, TinyLlama,
 * Mistral v0.3, and Llama 3.1 with its table of rope divisors.
 *
 *     a = RMSNorm(x);  x += Wo Attention(rope(Wq a), rope(Wk a), Wv a)
 *     b = RMSNorm(x);  x += Wdown (silu(Wgate b) * (Wup b))
 *
 * GGUF files of this network hold q and k rows for interleaved rope. Everything else that "llama"
 * files may ask for (experts, biases, windows, other rope scalings, scaled or capped logits) is
 * refused by name: keys here, tensors by weights_unused.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "engine/base/mem.h"
#include "engine/blocks/attention.h"
#include "engine/blocks/linear.h"
#include "engine/blocks/mlp.h"
#include "engine/blocks/norm.h"

static const struct arch_key keys[] = {
    {"context_length", ARCH_KEY_READ},
    {"embedding_length", ARCH_KEY_READ},
    {"block_count", ARCH_KEY_READ},
    {"feed_forward_length", ARCH_KEY_READ},
    {"vocab_size", ARCH_KEY_READ},
    {"attention.head_count", ARCH_KEY_READ},
    {"attention.head_count_kv", ARCH_KEY_READ},
    {"attention.key_length", ARCH_KEY_READ},
    {"attention.value_length", ARCH_KEY_READ},
    {"attention.layer_norm_rms_epsilon", ARCH_KEY_READ},
    {"attention.scale", ARCH_KEY_READ},
    {"rope.dimension_count", ARCH_KEY_READ},
    {"rope.freq_base", ARCH_KEY_READ},
    {"rope.scaling.type", ARCH_KEY_READ},
    {"rope.scaling.factor", ARCH_KEY_READ},
    {"rope.scale_linear", ARCH_KEY_READ}, /* what old files call rope.scaling.factor */
    /* For the profile: which mask and pooling the checkpoint was made for. */
    {"attention.causal", ARCH_KEY_READ},
    {"pooling_type", ARCH_KEY_READ},
    /* Tell how the checkpoint came to be; no scaling that is built uses them. */
    {"rope.scaling.original_context_length", ARCH_KEY_READ},
    {"rope.scaling.finetuned", ARCH_KEY_READ},
    {"tensor_data_layout", ARCH_KEY_READ},
    /* Not built. */
    {"expert_count", ARCH_KEY_INTEGER, 0},
    {"expert_used_count", ARCH_KEY_INTEGER, 0},
    {"attention.sliding_window", ARCH_KEY_INTEGER, 0},
    {"attention.max_alibi_bias", ARCH_KEY_REAL, 0},
    {"attention.clamp_kqv", ARCH_KEY_REAL, 0},
    {"rope.scaling.attn_factor", ARCH_KEY_REAL, 1},
    {"logit_scale", ARCH_KEY_REAL, 1},
    {"attn_logit_softcapping", ARCH_KEY_REAL, 0},
    {"final_logit_softcapping", ARCH_KEY_REAL, 0},
    {"use_parallel_residual", ARCH_KEY_BOOL, 0},
};

/* ---- hyper-parameters ---------------------------------------------------------------------- */

static enum err get_size(const struct gguf *gguf, const char *key, bool required, int32_t max,
    int32_t *out, struct err_info *info)
{
    int64_t value = *out;
    enum err err = gguf_get_i64(gguf, key, required, 1, max, &value, info);
    if (err == ERR_OK) {
        *out = (int32_t)value;
    }
    return err;
}

/* A number of (min, max]. */
static enum err get_real(const struct gguf *gguf, const char *key, bool required, double min,
    double max, double *out, struct err_info *info)
{
    double value = *out;
    enum err err = gguf_get_f64(gguf, key, required, &value, info);
    if (err != ERR_OK) {
        return err;
    }
    if (!(value > min && value <= max)) {
        return err_set(info, ERR_FORMAT, key, "must be above %g and at most %g", min, max);
    }
    *out = value;
    return ERR_OK;
}

static enum err describe_sizes(
    struct model_info *sizes, const struct gguf *gguf, struct err_info *info)
{
    const struct {
        const char *key;
        int32_t *out;
        int32_t max;
    } required[] = {
        {"llama.block_count", &sizes->layers, LIMIT_LAYERS},
        {"llama.embedding_length", &sizes->hidden, LIMIT_HIDDEN},
        {"llama.feed_forward_length", &sizes->ffn, LIMIT_FFN},
        {"llama.context_length", &sizes->context_trained, LIMIT_CONTEXT},
        {"llama.attention.head_count", &sizes->heads, LIMIT_HEADS},
    };
    for (size_t i = 0; i < ARRAY_COUNT(required); i++) {
        enum err err =
            get_size(gguf, required[i].key, true, required[i].max, required[i].out, info);
        if (err != ERR_OK) {
            return err;
        }
    }
    sizes->heads_kv = sizes->heads;
    enum err err = get_size(
        gguf, "llama.attention.head_count_kv", false, sizes->heads, &sizes->heads_kv, info);
    if (err != ERR_OK) {
        return err;
    }
    if (sizes->heads % sizes->heads_kv != 0) {
        return err_set(info, ERR_FORMAT, "llama.attention.head_count_kv",
            "%d does not divide the %d query heads", sizes->heads_kv, sizes->heads);
    }
    return ERR_OK;
}

static enum err describe_head(struct model *model, const struct gguf *gguf, struct err_info *info)
{
    struct model_info *sizes = &model->info;
    const char *key = "llama.attention.key_length";
    if (!gguf_has(gguf, key)) {
        if (sizes->hidden % sizes->heads != 0) {
            return err_set(info, ERR_FORMAT, "llama.attention.head_count",
                "%d heads do not divide the width %d and no key_length is given", sizes->heads,
                sizes->hidden);
        }
        if (sizes->hidden / sizes->heads > LIMIT_HEAD_DIM) {
            return err_set(info, ERR_FORMAT, "llama.attention.head_count",
                "heads of %d numbers, at most %d are possible", sizes->hidden / sizes->heads,
                LIMIT_HEAD_DIM);
        }
        sizes->head_dim = sizes->hidden / sizes->heads;
    }
    enum err err = get_size(gguf, key, false, LIMIT_HEAD_DIM, &sizes->head_dim, info);
    if (err != ERR_OK) {
        return err;
    }
    int32_t value_length = sizes->head_dim;
    key = "llama.attention.value_length";
    err = get_size(gguf, key, false, LIMIT_HEAD_DIM, &value_length, info);
    if (err != ERR_OK) {
        return err;
    }
    if (value_length != sizes->head_dim) {
        return err_set(info, ERR_UNSUPPORTED, key, "%d, but keys have %d numbers", value_length,
            sizes->head_dim);
    }
    double scale = 1 / sqrt((double)sizes->head_dim);
    err = get_real(gguf, "llama.attention.scale", false, 1e-6, 1e3, &scale, info);
    model->hyper.attention_scale = (float)scale;
    return err;
}

/* "linear" divides positions by a factor; a factor without a type means linear, as in the tools
 * that write such files. */
static enum err describe_scaling(
    struct hyper *hyper, const struct gguf *gguf, struct err_info *info)
{
    const char *key = "llama.rope.scaling.type";
    struct gguf_string type = {.bytes = "linear", .count = strlen("linear")};
    enum err err = gguf_get_string(gguf, key, false, &type, info);
    if (err != ERR_OK) {
        return err;
    }
    bool linear = type.count == strlen("linear") && memcmp(type.bytes, "linear", type.count) == 0;
    bool none = type.count == strlen("none") && memcmp(type.bytes, "none", type.count) == 0;
    if (!linear && !none) {
        return err_set(
            info, ERR_UNSUPPORTED, key, "only the scalings \"none\" and \"linear\" are built");
    }
    double factor = 1;
    const char *const names[] = {"llama.rope.scale_linear", "llama.rope.scaling.factor"};
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) { /* the newer name wins */
        err = get_real(gguf, names[i], false, 1e-3, 1e6, &factor, info);
        if (err != ERR_OK) {
            return err;
        }
    }
    hyper->rope_factor = linear ? factor : 1;
    return ERR_OK;
}

static enum err describe_rope(struct model *model, const struct gguf *gguf, struct err_info *info)
{
    struct hyper *hyper = &model->hyper;
    hyper->rope_style = ROPE_INTERLEAVED;
    hyper->rotary_dim = model->info.head_dim;
    const char *key = "llama.rope.dimension_count";
    enum err err = get_size(gguf, key, false, model->info.head_dim, &hyper->rotary_dim, info);
    if (err != ERR_OK) {
        return err;
    }
    if (hyper->rotary_dim % 2 != 0) {
        return err_set(info, ERR_FORMAT, key, "an odd number, %d, of numbers cannot rotate",
            hyper->rotary_dim);
    }
    hyper->rope_base = 10000;
    err = get_real(gguf, "llama.rope.freq_base", false, 1, 1e12, &hyper->rope_base, info);
    if (err != ERR_OK) {
        return err;
    }
    return describe_scaling(hyper, gguf, info);
}

/* The embedding says how many tokens there are; whoever else says so must agree. */
static enum err describe_vocab(
    struct model_info *sizes, const struct gguf *gguf, struct err_info *info)
{
    const struct gguf_tensor *embedding = gguf_find_tensor(gguf, "token_embd.weight");
    if (embedding == NULL || embedding->dims != 2) {
        return err_set(info, ERR_FORMAT, "token_embd.weight", "the matrix is missing");
    }
    int64_t rows = embedding->shape[1];
    if (rows < 1 || rows > LIMIT_VOCAB) {
        return err_set(
            info, ERR_FORMAT, "token_embd.weight", "must have 1 to %d rows", LIMIT_VOCAB);
    }
    sizes->vocab = (int32_t)rows;
    int32_t stated = sizes->vocab;
    const char *key = "llama.vocab_size";
    enum err err = get_size(gguf, key, false, LIMIT_VOCAB, &stated, info);
    if (err != ERR_OK) {
        return err;
    }
    if (stated != sizes->vocab) {
        return err_set(
            info, ERR_FORMAT, key, "%d, but token_embd.weight has %d rows", stated, sizes->vocab);
    }
    key = "tokenizer.ggml.tokens";
    struct gguf_array tokens = {.count = (size_t)rows};
    err = gguf_get_array(gguf, key, false, GGUF_STRING, &tokens, info);
    if (err != ERR_OK) {
        return err;
    }
    if (tokens.count != (size_t)rows) {
        return err_set(info, ERR_FORMAT, key, "%zu tokens, but token_embd.weight has %d rows",
            tokens.count, sizes->vocab);
    }
    return ERR_OK;
}

static enum err llama_describe(struct model *model, const struct gguf *gguf, struct err_info *info)
{
    enum err err = arch_check_keys(gguf, "llama.", keys, ARRAY_COUNT(keys), info);
    if (err != ERR_OK) {
        return err;
    }
    err = describe_sizes(&model->info, gguf, info);
    if (err != ERR_OK) {
        return err;
    }
    err = describe_head(model, gguf, info);
    if (err != ERR_OK) {
        return err;
    }
    err = describe_rope(model, gguf, info);
    if (err != ERR_OK) {
        return err;
    }
    double eps = 0;
    err = get_real(gguf, "llama.attention.layer_norm_rms_epsilon", true, 1e-15, 1, &eps, info);
    if (err != ERR_OK) {
        return err;
    }
    model->hyper.norm_eps = (float)eps;
    return describe_vocab(&model->info, gguf, info);
}

/* ---- tensors ------------------------------------------------------------------------------- */

static enum err load_layer(
    struct model *model, struct weights *weights, int32_t l, struct err_info *info)
{
    struct layer *layer = &model->layers[l];
    int32_t hidden = model->info.hidden, ffn = model->info.ffn;
    int32_t width_q = model->info.heads * model->info.head_dim;
    int32_t width_kv = model->info.heads_kv * model->info.head_dim;
    const struct {
        const char *name;
        int32_t outputs, inputs;
        struct packed *out;
    } matrices[] = {
        {"attn_q", width_q, hidden, &layer->q},
        {"attn_k", width_kv, hidden, &layer->k},
        {"attn_v", width_kv, hidden, &layer->v},
        {"attn_output", hidden, width_q, &layer->output},
        {"ffn_gate", ffn, hidden, &layer->gate},
        {"ffn_up", ffn, hidden, &layer->up},
        {"ffn_down", hidden, ffn, &layer->down},
    };
    const struct {
        const char *name;
        float **out;
    } vectors[] = {{"attn_norm", &layer->attn_norm}, {"ffn_norm", &layer->ffn_norm}};
    char name[64];
    for (size_t i = 0; i < ARRAY_COUNT(vectors); i++) {
        (void)snprintf(name, sizeof(name), "blk.%d.%s.weight", l, vectors[i].name);
        enum err err = weights_vector(weights, name, hidden, vectors[i].out, info);
        if (err != ERR_OK) {
            return err;
        }
    }
    for (size_t i = 0; i < ARRAY_COUNT(matrices); i++) {
        (void)snprintf(name, sizeof(name), "blk.%d.%s.weight", l, matrices[i].name);
        enum err err = weights_matrix(
            weights, name, matrices[i].outputs, matrices[i].inputs, matrices[i].out, info);
        if (err != ERR_OK) {
            return err;
        }
    }
    return ERR_OK;
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

static enum err llama_load(struct model *model, struct weights *weights, struct err_info *info)
{
    int32_t vocab = model->info.vocab, hidden = model->info.hidden;
    enum err err =
        weights_matrix(weights, "token_embd.weight", vocab, hidden, &model->embedding, info);
    if (err != ERR_OK) {
        return err;
    }
    model->head = &model->embedding;
    if (weights_has(weights, "output.weight")) {
        err = weights_matrix(weights, "output.weight", vocab, hidden, &model->untied_head, info);
        if (err != ERR_OK) {
            return err;
        }
        model->head = &model->untied_head;
    }
    err = weights_vector(weights, "output_norm.weight", hidden, &model->output_norm, info);
    if (err != ERR_OK) {
        return err;
    }
    if (weights_has(weights, "rope_freqs.weight")) {
        err = load_rope_divisors(model, weights, info);
        if (err != ERR_OK) {
            return err;
        }
    }
    for (int32_t l = 0; l < model->info.layers; l++) {
        err = load_layer(model, weights, l, info);
        if (err != ERR_OK) {
            return err;
        }
    }
    return ERR_OK;
}

/* ---- the pass ------------------------------------------------------------------------------ */

static struct linear_job q_job(const struct pass *pass, const struct layer *layer)
{
    return (struct linear_job){&layer->q, pass->scratch->q, (size_t)layer->q.outputs};
}

static struct linear_input prepare_normed(struct pass *pass)
{
    return linear_prepare(pass->model, pass->scratch, pass->threads, pass->scratch->h,
        pass->tile->row_count, pass->model->info.hidden);
}

static void llama_store(struct pass *pass, int32_t l)
{
    const struct layer *layer = &pass->model->layers[l];
    struct scratch *scratch = pass->scratch;

    norm_rows(pass, layer->attn_norm);
    struct linear_input a = prepare_normed(pass);
    struct linear_job jobs[] = {
        {&layer->k, scratch->k, (size_t)layer->k.outputs},
        {&layer->v, scratch->v, (size_t)layer->v.outputs},
        q_job(pass, layer),
    };
    linear_project(pass->kernels, pass->threads, &a, jobs, pass->joined ? 3 : 2);
    attention_store(pass, l, pass->joined);
}

static void llama_attend(struct pass *pass, int32_t l)
{
    const struct layer *layer = &pass->model->layers[l];
    struct scratch *scratch = pass->scratch;

    if (!pass->joined) {
        norm_rows(pass, layer->attn_norm);
        struct linear_input a = prepare_normed(pass);
        struct linear_job job = q_job(pass, layer);
        linear_project(pass->kernels, pass->threads, &a, &job, 1);
        attention_rotate_q(pass);
    }
    attention_attend(pass, l);
    linear_add(pass, &layer->output, scratch->attended);

    norm_rows(pass, layer->ffn_norm);
    mlp_gate(pass, &layer->gate, &layer->up);
    linear_add(pass, &layer->down, scratch->gate);
}

const struct network arch_llama = {
    .name = "llama",
    .describe = llama_describe,
    .load = llama_load,
    .store = llama_store,
    .attend = llama_attend,
};
