/*
 * What folders call the sizes and tensors of encoders: hub_networks.c for the networks that only
 * embed. None has an output head; what a checkpoint keeps of one is left alone.
 */
#include <string.h>
#include "engine/load/hub_tables.h"

/* ---- BERT, RoBERTa, XLM-R ------------------------------------------------------------------- */

#define BERT_KEYS                                                                                  \
    {"hidden_size", HUB_INTEGER, "embedding_length", LIMIT_HIDDEN, true},                          \
        {"intermediate_size", HUB_INTEGER, "feed_forward_length", LIMIT_FFN, true},                \
        {"num_hidden_layers", HUB_INTEGER, "block_count", LIMIT_LAYERS, true},                     \
        {"num_attention_heads", HUB_INTEGER, "attention.head_count", LIMIT_HEADS, true},           \
        {"vocab_size", HUB_INTEGER, "vocab_size", LIMIT_VOCAB, true},                              \
        {"layer_norm_eps", HUB_REAL, "attention.layer_norm_epsilon", 0, true},                     \
        {"hidden_act", HUB_IS_WORD, "gelu", 0, true},                                              \
        {"type_vocab_size", HUB_INTEGER, "tokenizer.ggml.token_type_count", 16, true},             \
    {                                                                                              \
        "tie_word_embeddings", HUB_INFORMS                                                         \
    }
#define POSITIONS                                                                                  \
    {                                                                                              \
        "max_position_embeddings", HUB_CONTEXT, NULL, LIMIT_CONTEXT, true                          \
    }
#define ABSOLUTE                                                                                   \
    {                                                                                              \
        "position_embedding_type", HUB_IS_WORD, "absolute"                                         \
    }

static const struct hub_key bert_keys[] = {
    BERT_KEYS,
    POSITIONS,
    ABSOLUTE,
    /* What tools of multilingual BERT write; of the layer for pairs, which no pooling reads. */
    {"directionality", HUB_IS_WORD, "bidi"},
    {"pooler_fc_size", HUB_INFORMS},
    {"pooler_num_attention_heads", HUB_INFORMS},
    {"pooler_num_fc_layers", HUB_INFORMS},
    {"pooler_size_per_head", HUB_INFORMS},
    {"pooler_type", HUB_INFORMS},
};

static const struct hub_key roberta_keys[] = {
    BERT_KEYS,
    ABSOLUTE,
    {"max_position_embeddings", HUB_READ, NULL, 0, true},
    {"pad_token_id", HUB_READ},
};

#define LAYER "encoder.layer.#."
#define BOTH(ours, theirs)                                                                         \
    {ours ".weight", theirs ".weight"},                                                            \
    {                                                                                              \
        ours ".bias", theirs ".bias"                                                               \
    }
#define BERT_NAMES                                                                                 \
    {"token_embd.weight", "embeddings.word_embeddings.weight"},                                    \
        {"token_types.weight", "embeddings.token_type_embeddings.weight"},                         \
        BOTH("token_embd_norm", "embeddings.LayerNorm"),                                           \
        BOTH("blk.#.attn_q", LAYER "attention.self.query"),                                        \
        BOTH("blk.#.attn_k", LAYER "attention.self.key"),                                          \
        BOTH("blk.#.attn_v", LAYER "attention.self.value"),                                        \
        BOTH("blk.#.attn_output", LAYER "attention.output.dense"),                                 \
        BOTH("blk.#.attn_output_norm", LAYER "attention.output.LayerNorm"),                        \
        {NULL, "embeddings.position_ids"}, /* a layer for pairs, which no pooling reads: */        \
        {NULL, "pooler.dense.weight"},                                                             \
    {                                                                                              \
        NULL, "pooler.dense.bias"                                                                  \
    }

static const struct hub_name bert_names[] = {
    BERT_NAMES,
    {"position_embd.weight", "embeddings.position_embeddings.weight", .skips = true},
    BOTH("blk.#.ffn_up", LAYER "intermediate.dense"),
    BOTH("blk.#.ffn_down", LAYER "output.dense"),
    BOTH("blk.#.layer_output_norm", LAYER "output.LayerNorm"),
};

static enum err read_encoder(struct hub_config *config)
{
    config->encoder = true;
    return ERR_OK;
}

/* Positions count from the pad's number on; the rows before are no position of any token. */
static enum err read_roberta(struct hub_config *config)
{
    int64_t pad = 1;
    int64_t rows = 0;
    enum err err = hub_integer(&config->json, "pad_token_id", false, 0, 1 << 10, &pad);
    config->skipped_rows = pad + 1;
    if (err == ERR_OK) {
        err = hub_integer(&config->json, "max_position_embeddings", true, pad + 2,
            LIMIT_CONTEXT + pad + 1, &rows);
    }
    config->context = rows - config->skipped_rows;
    if (err == ERR_OK) {
        err = hub_put_i64(
            config, &config->json, "max_position_embeddings", "context_length", config->context);
    }
    return err == ERR_OK ? read_encoder(config) : err;
}

/* ---- Jina BERT 2 ---------------------------------------------------------------------------- */

static const struct hub_key jina_keys[] = {
    BERT_KEYS,
    POSITIONS,
    {"position_embedding_type", HUB_IS_WORD, "alibi", 0, true},
    {"feed_forward_type", HUB_IS_WORD, "geglu", 0, true},
    {"model_max_length", HUB_INFORMS},
    {"emb_pooler", HUB_INFORMS}, /* as modules.json says */
    {"attn_implementation", HUB_INFORMS},
};

static const struct hub_name jina_names[] = {
    BERT_NAMES,
    {"blk.#.ffn_up.weight", LAYER "mlp.gated_layers.weight"},
    BOTH("blk.#.ffn_down", LAYER "mlp.wo"),
    BOTH("blk.#.layer_output_norm", LAYER "mlp.layernorm"),
};
#undef LAYER

/* ---- Nomic BERT ----------------------------------------------------------------------------- */

static const struct hub_key nomic_keys[] = {
    {"n_embd", HUB_INTEGER, "embedding_length", LIMIT_HIDDEN, true},
    {"n_inner", HUB_INTEGER, "feed_forward_length", LIMIT_FFN, true},
    {"n_layer", HUB_INTEGER, "block_count", LIMIT_LAYERS, true},
    {"n_head", HUB_INTEGER, "attention.head_count", LIMIT_HEADS, true},
    {"vocab_size", HUB_INTEGER, "vocab_size", LIMIT_VOCAB, true},
    {"type_vocab_size", HUB_INTEGER, "tokenizer.ggml.token_type_count", 16, true},
    {"layer_norm_epsilon", HUB_REAL, "attention.layer_norm_epsilon", 0, true},
    {"rotary_emb_base", HUB_REAL, "rope.freq_base", 0, true},
    /* Past these the checkpoint's own code stretches positions by the length of the text. */
    {"max_trained_positions", HUB_CONTEXT, NULL, LIMIT_CONTEXT, true},
    {"max_position_embeddings", HUB_INFORMS}, /* the same of newer files */
    {"rope_parameters", HUB_READ},            /* and the same as rotary_emb_base */
    {"n_positions", HUB_INFORMS},
    {"activation_function", HUB_IS_WORD, "swiglu", 0, true},
    {"causal", HUB_IS_BOOL, NULL, 0},
    {"prenorm", HUB_IS_BOOL, NULL, 0},
    {"parallel_block", HUB_IS_BOOL, NULL, 0},
    {"parallel_block_tied_norm", HUB_IS_BOOL, NULL, 0},
    {"qkv_proj_bias", HUB_IS_BOOL, NULL, 0},
    {"mlp_fc1_bias", HUB_IS_BOOL, NULL, 0},
    {"mlp_fc2_bias", HUB_IS_BOOL, NULL, 0},
    {"rotary_emb_fraction", HUB_IS_REAL, NULL, 1},
    {"rotary_emb_interleaved", HUB_IS_BOOL, NULL, 0},
    {"scale_attn_weights", HUB_IS_BOOL, NULL, 1},
    {"scale_attn_by_inverse_layer_idx", HUB_IS_BOOL, NULL, 0},
    {"use_rms_norm", HUB_IS_BOOL, NULL, 0},
    {"attn_pdrop", HUB_INFORMS},
    {"embd_pdrop", HUB_INFORMS},
    {"resid_pdrop", HUB_INFORMS},
    {"summary_first_dropout", HUB_INFORMS},
    {"summary_proj_to_labels", HUB_INFORMS},
    {"summary_type", HUB_INFORMS},
    {"summary_use_proj", HUB_INFORMS},
    {"dense_seq_output", HUB_INFORMS},
    {"fused_bias_fc", HUB_INFORMS},
    {"fused_dropout_add_ln", HUB_INFORMS},
    {"pad_vocab_size_multiple", HUB_INFORMS},
    {"reorder_and_upcast_attn", HUB_INFORMS},
    {"use_flash_attn", HUB_INFORMS},
    {"use_xentropy", HUB_INFORMS},
};

/* Newer files also say it as the other networks do: no other rotation than that of the old keys. */
static enum err check_rope(const struct hub_json *rope, double base)
{
    static const char *const known[] = {"rope_type", "rope_theta"};
    const char *type = "default";
    double theta = base;
    enum err err = hub_string(rope, "rope_type", false, &type);
    if (err == ERR_OK && strcmp(type, "default") != 0) {
        return hub_fail(rope, ERR_UNSUPPORTED, "rope_type", "only default is built here");
    }
    if (err == ERR_OK) {
        err = hub_real(rope, "rope_theta", false, &theta);
    }
    if (err == ERR_OK && (theta < base || theta > base)) {
        return hub_fail(rope, ERR_FORMAT, "rope_theta", "is not rotary_emb_base");
    }
    return err == ERR_OK ? hub_only_keys(rope, known, ARRAY_COUNT(known)) : err;
}

static enum err read_nomic(struct hub_config *config)
{
    struct hub_json rope;
    double base = 0;
    enum err err = hub_real(&config->json, "rotary_emb_base", true, &base);
    if (err == ERR_OK) {
        err = hub_inner(&config->json, "rope_parameters", META_JSON_OBJECT, &rope);
    }
    if (err == ERR_OK && rope.value != NULL) {
        err = check_rope(&rope, base);
    }
    return err == ERR_OK ? read_encoder(config) : err;
}

#define LAYER "encoder.layers.#."
static const struct hub_name nomic_names[] = {
    {"token_embd.weight", "embeddings.word_embeddings.weight"},
    {"token_types.weight", "embeddings.token_type_embeddings.weight"},
    BOTH("token_embd_norm", "emb_ln"),
    {"blk.#.attn_qkv.weight", LAYER "attn.Wqkv.weight"},
    {"blk.#.attn_output.weight", LAYER "attn.out_proj.weight"},
    BOTH("blk.#.attn_output_norm", LAYER "norm1"),
    {"blk.#.ffn_up.weight", LAYER "mlp.fc11.weight"},
    {"blk.#.ffn_gate.weight", LAYER "mlp.fc12.weight"},
    {"blk.#.ffn_down.weight", LAYER "mlp.fc2.weight"},
    BOTH("blk.#.layer_output_norm", LAYER "norm2"),
};
#undef LAYER
#undef BOTH

/* ---- ModernBERT ----------------------------------------------------------------------------- */

static const struct hub_key modern_keys[] = {
    {"hidden_size", HUB_INTEGER, "embedding_length", LIMIT_HIDDEN, true},
    {"intermediate_size", HUB_INTEGER, "feed_forward_length", LIMIT_FFN, true},
    {"num_hidden_layers", HUB_INTEGER, "block_count", LIMIT_LAYERS, true},
    {"num_attention_heads", HUB_INTEGER, "attention.head_count", LIMIT_HEADS, true},
    {"vocab_size", HUB_INTEGER, "vocab_size", LIMIT_VOCAB, true},
    POSITIONS,
    {"norm_eps", HUB_REAL, "attention.layer_norm_epsilon", 0, true},
    {"global_rope_theta", HUB_REAL, "rope.freq_base", 0, true},
    {"local_rope_theta", HUB_REAL, "rope.freq_base_swa", 0, true},
    {"local_attention", HUB_INTEGER, "attention.sliding_window", LIMIT_CONTEXT, true},
    {"global_attn_every_n_layers", HUB_IS_INTEGER, NULL, 3, true},
    {"hidden_activation", HUB_IS_WORD, "gelu", 0, true},
    {"position_embedding_type", HUB_INFORMS}, /* "absolute", which its code does not read */
    {"attention_bias", HUB_IS_BOOL, NULL, 0},
    {"mlp_bias", HUB_IS_BOOL, NULL, 0},
    {"norm_bias", HUB_IS_BOOL, NULL, 0},
    {"layer_norm_eps", HUB_INFORMS}, /* another name of norm_eps, not read either */
    {"cls_token_id", HUB_INFORMS},
    {"classifier_activation", HUB_INFORMS},
    {"classifier_bias", HUB_INFORMS},
    {"classifier_pooling", HUB_INFORMS},
    {"decoder_bias", HUB_INFORMS},
    {"deterministic_flash_attn", HUB_INFORMS},
    {"embedding_dropout", HUB_INFORMS},
    {"mlp_dropout", HUB_INFORMS},
    {"initializer_cutoff_factor", HUB_INFORMS},
    {"reference_compile", HUB_INFORMS},
    {"repad_logits_with_grad", HUB_INFORMS},
    {"sparse_pred_ignore_index", HUB_INFORMS},
    {"sparse_prediction", HUB_INFORMS},
    {"tie_word_embeddings", HUB_INFORMS},
};

static const struct hub_name modern_names[] = {
    {"token_embd.weight", "embeddings.tok_embeddings.weight"},
    {"token_embd_norm.weight", "embeddings.norm.weight"},
    {"output_norm.weight", "final_norm.weight"},
    {"blk.#.attn_norm.weight", "layers.#.attn_norm.weight"},
    {"blk.#.attn_qkv.weight", "layers.#.attn.Wqkv.weight"},
    {"blk.#.attn_output.weight", "layers.#.attn.Wo.weight"},
    {"blk.#.ffn_norm.weight", "layers.#.mlp_norm.weight"},
    {"blk.#.ffn_up.weight", "layers.#.mlp.Wi.weight"},
    {"blk.#.ffn_down.weight", "layers.#.mlp.Wo.weight"},
    {NULL, "head.dense.weight", .bare = true},
    {NULL, "head.norm.weight", .bare = true},
    {NULL, "decoder.weight", .bare = true},
    {NULL, "decoder.bias", .bare = true},
};

/* ---- all ------------------------------------------------------------------------------------ */

const struct hub_network hub_encoders[HUB_ENCODERS] = {
    {"bert", "bert", {"BertModel"}, HUB_TABLES(bert_keys, "bert.", bert_names), read_encoder},
    {"roberta", "bert", {"RobertaModel"}, HUB_TABLES(roberta_keys, "roberta.", bert_names),
        read_roberta},
    {"xlm-roberta", "bert", {"XLMRobertaModel"}, HUB_TABLES(roberta_keys, "roberta.", bert_names),
        read_roberta},
    {"bert", "jina-bert-v2", {"JinaBertModel", "JinaBertForMaskedLM"},
        HUB_TABLES(jina_keys, "bert.", jina_names), read_encoder},
    {"nomic_bert", "nomic-bert", {"NomicBertModel"}, HUB_TABLES(nomic_keys, "bert.", nomic_names),
        read_nomic},
    {"modernbert", "modern-bert", {"ModernBertModel", "ModernBertForMaskedLM"},
        HUB_TABLES(modern_keys, "model.", modern_names), read_encoder},
};
