/*
 * What folders call the sizes and tensors of each network, in tables (encoders: hub_encoders.c):
 * the facts of the checkpoints' own configuration classes, under the names that GGUF gives the same
 * things. A table may come before its network (engine/arch): then the folder is refused for that.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "engine/load/hub_tables.h"

/* ---- keys that every configuration may have ------------------------------------------------- */

static const struct hub_key common[] = {
    {"architectures", HUB_READ},
    {"model_type", HUB_READ},
    {"bos_token_id", HUB_READ},
    {"eos_token_id", HUB_READ},
    {"is_causal", HUB_READ},
    {"use_bidirectional_attention", HUB_READ},
    {"is_decoder", HUB_IS_BOOL, NULL, 0},
    {"is_encoder_decoder", HUB_IS_BOOL, NULL, 0},
    {"add_cross_attention", HUB_IS_BOOL, NULL, 0},
    {"chunk_size_feed_forward", HUB_INFORMS}, /* the same sums in pieces */
    {"pretraining_tp", HUB_INFORMS},
    {"_name_or_path", HUB_INFORMS},
    {"_commit_hash", HUB_INFORMS},
    {"_attn_implementation_autoset", HUB_INFORMS},
    {"auto_map", HUB_INFORMS},
    {"transformers_version", HUB_INFORMS},
    {"transformers.js_config", HUB_INFORMS},
    {"torch_dtype", HUB_INFORMS},
    {"dtype", HUB_INFORMS},
    {"unsloth_version", HUB_INFORMS},
    {"use_cache", HUB_INFORMS},
    {"pad_token_id", HUB_INFORMS},
    {"sep_token_id", HUB_INFORMS},
    {"tokenizer_class", HUB_INFORMS},
    {"task_specific_params", HUB_INFORMS},
    {"gradient_checkpointing", HUB_INFORMS},
    {"initializer_range", HUB_INFORMS},
    {"initializer_factor", HUB_INFORMS},
    {"attention_dropout", HUB_INFORMS},
    {"hidden_dropout_prob", HUB_INFORMS},
    {"attention_probs_dropout_prob", HUB_INFORMS},
    {"classifier_dropout", HUB_INFORMS},
    {"id2label", HUB_INFORMS},
    {"label2id", HUB_INFORMS},
    {"num_labels", HUB_INFORMS},
    {"problem_type", HUB_INFORMS},
    {"finetuning_task", HUB_INFORMS},
    {"output_attentions", HUB_INFORMS},
    {"output_hidden_states", HUB_INFORMS},
    {"output_past", HUB_INFORMS}, /* an old name of use_cache */
    {"return_dict", HUB_INFORMS},
    /* Sampling, which a request decides. */
    {"do_sample", HUB_INFORMS},
    {"max_length", HUB_INFORMS},
    {"temperature", HUB_INFORMS},
    {"top_k", HUB_INFORMS},
    {"top_p", HUB_INFORMS},
    {"repetition_penalty", HUB_INFORMS},
};

/* ---- the Llama family ----------------------------------------------------------------------- */

enum { GEMMA3_PATTERN = 6 };

/* Sizes and switches that its members share. */
#define DECODER_KEYS                                                                               \
    {"hidden_size", HUB_INTEGER, "embedding_length", LIMIT_HIDDEN, true},                          \
        {"intermediate_size", HUB_INTEGER, "feed_forward_length", LIMIT_FFN, true},                \
        {"num_hidden_layers", HUB_INTEGER, "block_count", LIMIT_LAYERS, true},                     \
        {"num_attention_heads", HUB_INTEGER, "attention.head_count", LIMIT_HEADS, true},           \
        {"num_key_value_heads", HUB_INTEGER, "attention.head_count_kv", LIMIT_HEADS},              \
        {"vocab_size", HUB_INTEGER, "vocab_size", LIMIT_VOCAB, true},                              \
        {"max_position_embeddings", HUB_CONTEXT, NULL, LIMIT_CONTEXT, true},                       \
        {"rms_norm_eps", HUB_REAL, "attention.layer_norm_rms_epsilon", 0, true},                   \
        {"head_dim", HUB_READ}, {"attention_bias", HUB_IS_BOOL, NULL, 0},                          \
        {"tie_word_embeddings", HUB_READ}, {"rope_theta", HUB_READ}, {"rope_scaling", HUB_READ},   \
    {                                                                                              \
        "rope_parameters", HUB_READ                                                                \
    }
#define SILU                                                                                       \
    {                                                                                              \
        "hidden_act", HUB_IS_WORD, "silu|swish", 0, true                                           \
    }
#define ALL_FULL                                                                                   \
    {                                                                                              \
        "layer_types", HUB_IS_ALL_WORD, "full_attention"                                           \
    }

static const struct hub_key llama_keys[] = {
    DECODER_KEYS,
    SILU,
    ALL_FULL,
    {"mlp_bias", HUB_IS_BOOL, NULL, 0},
    {"rope_interleaved", HUB_IS_BOOL, NULL, 0},
    {"is_llama_config", HUB_INFORMS},
};

static const struct hub_key mistral_keys[] = {
    DECODER_KEYS,
    SILU,
    ALL_FULL,
    {"sliding_window", HUB_INTEGER, "attention.sliding_window", LIMIT_CONTEXT},
};

static const struct hub_key qwen2_keys[] = {
    DECODER_KEYS,
    SILU,
    ALL_FULL,
    {"use_sliding_window", HUB_IS_BOOL, NULL, 0},
    {"sliding_window", HUB_INFORMS}, /* off by the key above */
    {"max_window_layers", HUB_INFORMS},
    {"use_mrope", HUB_IS_BOOL, NULL, 0},
};

static const struct hub_key qwen3_keys[] = {
    DECODER_KEYS,
    SILU,
    ALL_FULL,
    {"use_sliding_window", HUB_IS_BOOL, NULL, 0},
    {"sliding_window", HUB_INFORMS},
    {"max_window_layers", HUB_INFORMS},
};

static const struct hub_key gemma3_keys[] = {
    DECODER_KEYS,
    {"hidden_activation", HUB_IS_WORD, "gelu_pytorch_tanh", 0, true},
    {"hidden_act", HUB_IS_WORD, "gelu_pytorch_tanh"},
    {"layer_types", HUB_READ},
    {"sliding_window", HUB_INTEGER, "attention.sliding_window", LIMIT_CONTEXT, true},
    {"sliding_window_pattern", HUB_IS_INTEGER, NULL, GEMMA3_PATTERN},
    {"_sliding_window_pattern", HUB_IS_INTEGER, NULL, GEMMA3_PATTERN},
    {"query_pre_attn_scalar", HUB_READ, NULL, 0, true},
    {"rope_theta", HUB_READ, NULL, 0, true}, /* its default is not that of the others */
    {"rope_local_base_freq", HUB_REAL, "rope.freq_base_swa", 0, true},
    {"cache_implementation", HUB_INFORMS},
};

#define LAYER "layers.#."
#define DECODER_NAMES                                                                              \
    {"token_embd.weight", "embed_tokens.weight"},                                                  \
        {"output.weight", "lm_head.weight", .bare = true},                                         \
        {"blk.#.attn_v.weight", LAYER "self_attn.v_proj.weight"},                                  \
        {"blk.#.attn_output.weight", LAYER "self_attn.o_proj.weight"},                             \
        {"blk.#.ffn_gate.weight", LAYER "mlp.gate_proj.weight"},                                   \
        {"blk.#.ffn_up.weight", LAYER "mlp.up_proj.weight"},                                       \
        {"blk.#.ffn_down.weight", LAYER "mlp.down_proj.weight"},                                   \
    {                                                                                              \
        NULL, LAYER "self_attn.rotary_emb.inv_freq"                                                \
    }
#define PLAIN_NORMS                                                                                \
    {"output_norm.weight", "norm.weight"},                                                         \
        {"blk.#.attn_norm.weight", LAYER "input_layernorm.weight"},                                \
    {                                                                                              \
        "blk.#.ffn_norm.weight", LAYER "post_attention_layernorm.weight"                           \
    }

static const struct hub_name llama_names[] = {
    DECODER_NAMES,
    PLAIN_NORMS,
    {"blk.#.attn_q.weight", LAYER "self_attn.q_proj.weight", .turned = true},
    {"blk.#.attn_k.weight", LAYER "self_attn.k_proj.weight", .turned = true},
};

static const struct hub_name qwen2_names[] = {
    DECODER_NAMES,
    PLAIN_NORMS,
    {"blk.#.attn_q.weight", LAYER "self_attn.q_proj.weight"},
    {"blk.#.attn_k.weight", LAYER "self_attn.k_proj.weight"},
    {"blk.#.attn_q.bias", LAYER "self_attn.q_proj.bias"},
    {"blk.#.attn_k.bias", LAYER "self_attn.k_proj.bias"},
    {"blk.#.attn_v.bias", LAYER "self_attn.v_proj.bias"},
};

static const struct hub_name qwen3_names[] = {
    DECODER_NAMES,
    PLAIN_NORMS,
    {"blk.#.attn_q.weight", LAYER "self_attn.q_proj.weight"},
    {"blk.#.attn_k.weight", LAYER "self_attn.k_proj.weight"},
    {"blk.#.attn_q_norm.weight", LAYER "self_attn.q_norm.weight"},
    {"blk.#.attn_k_norm.weight", LAYER "self_attn.k_norm.weight"},
};

static const struct hub_name gemma3_names[] = {
    DECODER_NAMES,
    {"output_norm.weight", "norm.weight", .less_one = true},
    {"blk.#.attn_q.weight", LAYER "self_attn.q_proj.weight"},
    {"blk.#.attn_k.weight", LAYER "self_attn.k_proj.weight"},
    {"blk.#.attn_norm.weight", LAYER "input_layernorm.weight", .less_one = true},
    {"blk.#.attn_q_norm.weight", LAYER "self_attn.q_norm.weight", .less_one = true},
    {"blk.#.attn_k_norm.weight", LAYER "self_attn.k_norm.weight", .less_one = true},
    {"blk.#.post_attention_norm.weight", LAYER "post_attention_layernorm.weight", .less_one = true},
    {"blk.#.ffn_norm.weight", LAYER "pre_feedforward_layernorm.weight", .less_one = true},
    {"blk.#.post_ffw_norm.weight", LAYER "post_feedforward_layernorm.weight", .less_one = true},
};
#undef LAYER

/* Rope of a configuration: where the object is and what it says. */
struct rope {
    struct hub_json json;
    const char *type;
    double theta, factor, low, high, original;
};

/* Keys of the object; those of scalings that are not built are refused with their type. */
static enum err check_rope_keys(const struct rope *rope)
{
    static const char *const known[] = {"type", "rope_type", "rope_theta", "factor",
        "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"};
    return hub_only_keys(&rope->json, known, ARRAY_COUNT(known));
}

/* Long waves are stretched by `factor`, short ones kept, those between blended (Llama 3.1). */
static enum err put_llama3(struct hub_config *config, const struct rope *rope, int64_t head_dim)
{
    float divisors[LIMIT_HEAD_DIM / 2];
    const size_t pairs = (size_t)head_dim / 2;
    if (!(rope->factor >= 1 && rope->low > 0 && rope->high > rope->low && rope->original >= 1 &&
            rope->theta > 1)) {
        return hub_fail(
            &rope->json, ERR_FORMAT, "rope_type", "the numbers beside it give no frequencies");
    }
    for (size_t i = 0; i < pairs; i++) {
        const double wave = 2 * acos(-1) * pow(rope->theta, 2 * (double)i / (double)head_dim);
        const double blend =
            fmin(fmax((rope->original / wave - rope->low) / (rope->high - rope->low), 0), 1);
        divisors[i] = (float)(1 / ((1 - blend) / rope->factor + blend));
    }
    return gguf_put_vector(config->gguf, "rope_freqs.weight", divisors, pairs, config->json.info);
}

static enum err put_rope(struct hub_config *config, struct rope *rope, int64_t head_dim)
{
    const struct {
        const char *key;
        double *out;
        bool llama3;
    } numbers[] = {
        {"factor", &rope->factor, false},
        {"low_freq_factor", &rope->low, true},
        {"high_freq_factor", &rope->high, true},
        {"original_max_position_embeddings", &rope->original, true},
    };
    const bool linear = strcmp(rope->type, "linear") == 0;
    const bool llama3 = strcmp(rope->type, "llama3") == 0;
    if (strcmp(rope->type, "default") == 0) {
        return ERR_OK;
    }
    if (!linear && !llama3) {
        return hub_fail(&rope->json, ERR_UNSUPPORTED,
            hub_find(&rope->json, "rope_type") != NULL ? "rope_type" : "type",
            "only \"default\", \"linear\" and \"llama3\" are built");
    }
    enum err err = ERR_OK;
    for (size_t i = 0; i < ARRAY_COUNT(numbers) && err == ERR_OK; i++) {
        err = hub_real(&rope->json, numbers[i].key, llama3 || !numbers[i].llama3, numbers[i].out);
    }
    if (err != ERR_OK) {
        return err;
    }
    return llama3 ? put_llama3(config, rope, head_dim)
                  : hub_put_f64(config, &rope->json, "factor", "rope.scaling.factor", rope->factor);
}

/* The type has an older and a newer name; where both are given they must agree. */
static enum err rope_type(struct rope *rope)
{
    const char *newer = NULL;
    enum err err = hub_string(&rope->json, "type", false, &rope->type);
    if (err == ERR_OK) {
        err = hub_string(&rope->json, "rope_type", false, &newer);
    }
    if (err != ERR_OK || newer == NULL) {
        return err;
    }
    if (hub_find(&rope->json, "type") != NULL && strcmp(rope->type, newer) != 0) {
        return hub_fail(&rope->json, ERR_FORMAT, "rope_type", "type says something else");
    }
    rope->type = newer;
    return ERR_OK;
}

static enum err read_rope(struct hub_config *config, int64_t head_dim)
{
    struct rope rope = {.type = "default", .theta = 10000};
    const char *names[] = {"rope_parameters", "rope_scaling"}; /* the newer first */
    enum err err = hub_real(&config->json, "rope_theta", false, &rope.theta);
    const struct hub_json *theta_in = &config->json;
    const bool newer = hub_find(&config->json, names[0]) != NULL;
    if (err == ERR_OK) {
        err = hub_inner(&config->json, names[newer ? 0 : 1], META_JSON_OBJECT, &rope.json);
    }
    if (err == ERR_OK && rope.json.value != NULL) {
        err = rope_type(&rope);
        if (err == ERR_OK && hub_find(&rope.json, "rope_theta") != NULL) {
            err = hub_real(&rope.json, "rope_theta", true, &rope.theta);
            theta_in = &rope.json;
        }
        if (err == ERR_OK) {
            err = put_rope(config, &rope, head_dim);
        }
        if (err == ERR_OK) {
            err = check_rope_keys(&rope);
        }
    }
    return err == ERR_OK ? hub_put_f64(config, theta_in, "rope_theta", "rope.freq_base", rope.theta)
                         : err;
}

/* Tied heads, the size of a head and rope. The table has checked the sizes. */
static enum err read_decoder(struct hub_config *config)
{
    const struct hub_json *json = &config->json;
    int64_t hidden = 0;
    int64_t heads = 0;
    int64_t head_dim = 0;
    enum err err = hub_bool(json, "tie_word_embeddings", &config->tied);
    if (err == ERR_OK) {
        err = hub_integer(json, "hidden_size", true, 1, LIMIT_HIDDEN, &hidden);
    }
    if (err == ERR_OK) {
        err = hub_integer(json, "num_attention_heads", true, 1, LIMIT_HEADS, &heads);
    }
    if (err == ERR_OK) {
        err = hub_integer(json, "head_dim", false, 1, LIMIT_HEAD_DIM, &head_dim);
    }
    if (err == ERR_OK && head_dim > 0) {
        err = hub_put_i64(config, json, "head_dim", "attention.key_length", head_dim);
    }
    if (err == ERR_OK && head_dim == 0) {
        head_dim = hidden / heads;
        if (hidden % heads != 0 || head_dim > LIMIT_HEAD_DIM) {
            err = hub_fail(json, ERR_FORMAT, "num_attention_heads",
                "cannot share a width of %d, and no head_dim is given", (int)hidden);
        }
    }
    if (err == ERR_OK && head_dim % 2 != 0) {
        err = hub_fail(json, ERR_FORMAT, "num_attention_heads",
            "an odd number, %d, of numbers of a head cannot rotate", (int)head_dim);
    }
    config->turned_rows = head_dim;
    return err == ERR_OK ? read_rope(config, head_dim) : err;
}

/* Every sixth layer sees all. */
static enum err check_gemma3_layers(const struct hub_config *config)
{
    struct hub_json list;
    enum err err = hub_inner(&config->json, "layer_types", META_JSON_ARRAY, &list);
    const size_t count = err == ERR_OK && list.value != NULL ? meta_json_count(list.value) : 0;
    for (size_t i = 0; i < count; i++) {
        const struct meta_json *word = meta_json_at(list.value, i);
        const bool full = i % GEMMA3_PATTERN == GEMMA3_PATTERN - 1;
        if (meta_json_type(word) != META_JSON_STRING ||
            strcmp(meta_json_string(word), full ? "full_attention" : "sliding_attention") != 0) {
            return hub_fail(&config->json, ERR_UNSUPPORTED, "layer_types",
                "layer %zu is not what every network of this kind has there", i);
        }
    }
    return err;
}

/* A head that is not stored is tied unless the file says otherwise. */
static enum err read_gemma3(struct hub_config *config)
{
    const char *name = "query_pre_attn_scalar";
    double scalar = 0;
    config->tied = true;
    enum err err = read_decoder(config);
    if (err == ERR_OK) {
        err = check_gemma3_layers(config);
    }
    if (err == ERR_OK) {
        err = hub_real(&config->json, name, true, &scalar);
    }
    if (err == ERR_OK && !(scalar > 0)) {
        err = hub_fail(&config->json, ERR_FORMAT, name, "must be above 0");
    }
    return err == ERR_OK
               ? hub_put_f64(config, &config->json, name, "attention.scale", 1 / sqrt(scalar))
               : err;
}

/* ---- all ------------------------------------------------------------------------------------ */

static const struct hub_network networks[] = {
    {"llama", "llama", {"LlamaForCausalLM", "LlamaModel"},
        HUB_TABLES(llama_keys, "model.", llama_names), read_decoder},
    {"mistral", "llama", {"MistralForCausalLM", "MistralModel"},
        HUB_TABLES(mistral_keys, "model.", llama_names), read_decoder},
    {"qwen2", "qwen2", {"Qwen2ForCausalLM", "Qwen2Model"},
        HUB_TABLES(qwen2_keys, "model.", qwen2_names), read_decoder},
    {"qwen3", "qwen3", {"Qwen3ForCausalLM", "Qwen3Model"},
        HUB_TABLES(qwen3_keys, "model.", qwen3_names), read_decoder},
    {"gemma3_text", "gemma3", {"Gemma3ForCausalLM", "Gemma3TextModel"},
        HUB_TABLES(gemma3_keys, "model.", gemma3_names), read_gemma3, HUB_WAYS_ONE},
    {"gemma3_text", "gemma-embedding", {"Gemma3TextModel"},
        HUB_TABLES(gemma3_keys, "model.", gemma3_names), read_gemma3, HUB_WAYS_BOTH},
};

static bool has_architecture(const struct hub_network *network, const char *architecture)
{
    for (size_t i = 0; i < ARRAY_COUNT(network->architectures); i++) {
        const char *known = network->architectures[i];
        if (known != NULL && strcmp(known, architecture) == 0) {
            return true;
        }
    }
    return false;
}

static const struct hub_network *network_at(size_t index)
{
    return index < ARRAY_COUNT(networks) ? &networks[index]
                                         : &hub_encoders[index - ARRAY_COUNT(networks)];
}

const struct hub_network *hub_network_find(
    const char *model_type, const char *architecture, bool both_ways, bool *out_known)
{
    *out_known = false;
    for (size_t i = 0; i < ARRAY_COUNT(networks) + HUB_ENCODERS; i++) {
        const struct hub_network *network = network_at(i);
        if (strcmp(network->model_type, model_type) == 0) {
            *out_known = true;
            const enum hub_ways other = both_ways ? HUB_WAYS_ONE : HUB_WAYS_BOTH;
            if (network->ways != other && has_architecture(network, architecture)) {
                return network;
            }
        }
    }
    return NULL;
}

const struct hub_name *hub_network_tensor(
    const char *name, const char *theirs, char out_ours[HUB_OURS_BYTES])
{
    const struct hub_name *found = NULL;
    for (size_t i = 0; i < ARRAY_COUNT(networks) + HUB_ENCODERS && found == NULL; i++) {
        const struct hub_network *network = network_at(i);
        if (strcmp(network->name, name) == 0) {
            found = hub_names_find(&network->names, theirs, out_ours);
        }
    }
    return found;
}

const struct hub_key *hub_common_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_COUNT(common); i++) {
        if (strcmp(common[i].name, name) == 0) {
            return &common[i];
        }
    }
    return NULL;
}
