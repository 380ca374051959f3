/*
 * Goal: the tables of networks say what GGUF files of the same checkpoints say, both ways.
 * Method: for each network every name of a tensor goes to ours and back, and no two meet; a
 * config.json as its class writes it becomes the keys that a converter writes; what a network
 * computes otherwise is refused by key.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "engine/load/hub_config.h"
#include "engine/load/weights.h"
#include "tests/unit/load/hub_check.h"

#define SIZES                                                                                      \
    "\"hidden_size\":16,\"intermediate_size\":24,\"num_hidden_layers\":2,"                         \
    "\"num_attention_heads\":4,\"max_position_embeddings\":64,\"vocab_size\":10,"
#define BERT SIZES "\"layer_norm_eps\":1e-12,\"hidden_act\":\"gelu\",\"type_vocab_size\":2,"
#define DECODER SIZES "\"num_key_value_heads\":2,\"rms_norm_eps\":1e-6,"

static const struct {
    const char *type, *config;
} networks[] = {
    {"llama", "{\"architectures\":[\"LlamaModel\"]," DECODER "\"hidden_act\":\"silu\","},
    {"mistral", "{\"architectures\":[\"MistralModel\"]," DECODER
                "\"hidden_act\":\"silu\",\"sliding_window\":7,"},
    {"qwen2", "{\"architectures\":[\"Qwen2Model\"]," DECODER
              "\"hidden_act\":\"silu\",\"use_sliding_window\":false,\"sliding_window\":4,"},
    {"qwen3", "{\"architectures\":[\"Qwen3ForCausalLM\"]," DECODER
              "\"hidden_act\":\"silu\",\"head_dim\":8,\"rope_theta\":1000000,"
              "\"layer_types\":[\"full_attention\",\"full_attention\"],"},
    {"gemma3_text", "{\"architectures\":[\"Gemma3ForCausalLM\"]," DECODER
                    "\"hidden_activation\":\"gelu_pytorch_tanh\",\"head_dim\":4,"
                    "\"sliding_window\":8,\"query_pre_attn_scalar\":16,\"rope_theta\":1e6,"
                    "\"rope_local_base_freq\":10000.0,\"final_logit_softcapping\":null,"
                    "\"layer_types\":[\"sliding_attention\",\"sliding_attention\"],"},
    {"bert", "{\"architectures\":[\"BertModel\"]," BERT
             "\"position_embedding_type\":\"absolute\",\"directionality\":\"bidi\","
             "\"pooler_fc_size\":768,\"pooler_num_attention_heads\":12,\"pooler_num_fc_layers\":3,"
             "\"pooler_size_per_head\":128,\"pooler_type\":\"first_token_transform\","},
    {"xlm-roberta", "{\"architectures\":[\"XLMRobertaModel\"],\"pad_token_id\":1," BERT},
    {"bert", "{\"architectures\":[\"JinaBertForMaskedLM\"]," BERT
             "\"position_embedding_type\":\"alibi\",\"feed_forward_type\":\"geglu\","},
    {"nomic_bert", "{\"architectures\":[\"NomicBertModel\"],\"n_embd\":16,\"n_inner\":24,"
                   "\"n_layer\":2,\"n_head\":4,\"vocab_size\":10,\"type_vocab_size\":2,"
                   "\"layer_norm_epsilon\":1e-12,\"rotary_emb_base\":1000,"
                   "\"max_trained_positions\":64,\"n_positions\":256,"
                   "\"activation_function\":\"swiglu\",\"rotary_emb_fraction\":1.0,"
                   "\"scale_attn_weights\":true,\"rotary_scaling_factor\":null,"},
    {"modernbert", "{\"architectures\":[\"ModernBertForMaskedLM\"]," SIZES
                   "\"norm_eps\":1e-5,\"global_rope_theta\":160000.0,"
                   "\"local_rope_theta\":10000.0,\"local_attention\":8,"
                   "\"global_attn_every_n_layers\":3,\"hidden_activation\":\"gelu\","},
};

/* ---- keys ----------------------------------------------------------------------------------- */

static struct gguf *parse(const char *config, struct hub_config *out, struct err_info *info)
{
    struct gguf *gguf = gguf_create();
    assert_non_null(gguf);
    *info = (struct err_info){.offset = -1};
    if (hub_config_parse(config, strlen(config), "c", gguf, out, info) != ERR_OK) {
        gguf_close(gguf);
        return NULL;
    }
    assert_int_equal(gguf_sort(gguf, NULL), ERR_OK);
    return gguf;
}

static struct gguf *parse_network(size_t index, struct hub_config *out)
{
    char text[1024];
    struct err_info info;
    snprintf(text, sizeof(text), "%s\"model_type\":\"%s\"}", networks[index].config,
        networks[index].type);
    struct gguf *gguf = parse(text, out, &info);
    if (gguf == NULL) {
        fail_msg("%s: %s: %s", networks[index].type, info.where, info.text);
    }
    return gguf;
}

/* ---- names ---------------------------------------------------------------------------------- */

static void fill(const char *pattern, char *out, size_t bytes)
{
    const char *gap = strchr(pattern, '#');
    const size_t before = gap == NULL ? strlen(pattern) : (size_t)(gap - pattern);
    snprintf(out, bytes, "%.*s%s%s", (int)before, pattern, gap == NULL ? "" : "12",
        gap == NULL ? "" : gap + 1);
}

static void check_names(const struct hub_names *names)
{
    for (size_t i = 0; i < names->count; i++) {
        const struct hub_name *row = &names->rows[i];
        char theirs[128];
        char wanted[128];
        char back[128];
        char ours[HUB_OURS_BYTES];
        fill(row->theirs, theirs, sizeof(theirs));
        fill(row->ours == NULL ? "" : row->ours, wanted, sizeof(wanted));
        assert_ptr_equal(hub_names_find(names, theirs, ours), row); /* so no other row has it */
        assert_string_equal(ours, wanted);
        char prefixed[160];
        snprintf(prefixed, sizeof(prefixed), "%s%s", names->prefix, theirs);
        assert_ptr_equal(hub_names_find(names, prefixed, ours), row->bare ? NULL : row);
        if (row->ours != NULL) {
            hub_names_back(names, wanted, back, sizeof(back));
            assert_string_equal(back, row->bare ? theirs : prefixed);
        }
    }
}

static void test_names(void **state)
{
    char ours[HUB_OURS_BYTES];
    char back[64] = "kept";
    for (size_t i = 0; i < ARRAY_COUNT(networks); i++) {
        struct hub_config config;
        struct gguf *gguf = parse_network(i, &config);
        check_names(&config.network->names);
        hub_config_close(&config);
        gguf_close(gguf);
    }
    bool known = false;
    const struct hub_names *names = &hub_network_find("llama", "LlamaModel", false, &known)->names;
    assert_true(known);
    static const char *const wrong[] = {"", "model.", "layers.#.mlp.up_proj.weight",
        "layers..mlp.up_proj.weight", "layers.01.mlp.up_proj.weight",
        "layers.12345.mlp.up_proj.weight", "layers.1.mlp.up_proj.weights",
        "layers.1.mlp.up_proj.weigh", "model.model.norm.weight", "layers.-1.mlp.up_proj.weight",
        "layers.1"};
    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++) {
        assert_null(hub_names_find(names, wrong[i], ours));
    }
    hub_names_back(names, "blk.0.nothing", back, sizeof(back));
    assert_string_equal(back, "");
    assert_null(hub_network_find("llama", "LamaModel", false, &known));
    assert_true(known);
    assert_null(hub_network_find("lama", "LlamaModel", false, &known));
    assert_false(known);
}

/* ---- what they become ----------------------------------------------------------------------- */

static int64_t integer(const struct gguf *gguf, const char *key)
{
    int64_t value = -1;
    assert_int_equal(gguf_get_i64(gguf, key, true, 0, INT32_MAX, &value, NULL), ERR_OK);
    return value;
}

static double real(const struct gguf *gguf, const char *key)
{
    double value = -1;
    assert_int_equal(gguf_get_f64(gguf, key, true, &value, NULL), ERR_OK);
    return value;
}

static void test_keys(void **state)
{
    for (size_t i = 0; i < ARRAY_COUNT(networks); i++) {
        struct hub_config config;
        struct gguf *gguf = parse_network(i, &config);
        const char *name = config.network->name;
        static const struct {
            const char *key;
            int64_t value;
        } sizes[] = {{"embedding_length", 16}, {"feed_forward_length", 24}, {"block_count", 2},
            {"attention.head_count", 4}, {"vocab_size", 10}};
        for (size_t s = 0; s < ARRAY_COUNT(sizes); s++) {
            char key[64];
            snprintf(key, sizeof(key), "%s.%s", name, sizes[s].key);
            assert_int_equal(integer(gguf, key), sizes[s].value);
        }
        assert_int_equal(config.context, config.skipped_rows > 0 ? 62 : 64);
        hub_config_close(&config);
        gguf_close(gguf);
    }
}

static void test_what_differs(void **state)
{
    struct hub_config config;
    struct gguf *gguf = parse_network(1, &config);
    assert_string_equal(config.network->name, "llama");
    assert_int_equal(integer(gguf, "llama.attention.sliding_window"), 7);
    assert_int_equal(config.turned_rows, 4);
    assert_false(config.headed || config.tied || config.encoder);
    hub_config_close(&config);
    gguf_close(gguf);

    gguf = parse_network(3, &config);
    assert_int_equal(integer(gguf, "qwen3.attention.key_length"), 8);
    assert_true(fabs(real(gguf, "qwen3.rope.freq_base") - 1e6) < 1e-9);
    assert_true(fabs(real(gguf, "qwen3.attention.layer_norm_rms_epsilon") - 1e-6) < 1e-18);
    assert_false(gguf_has(gguf, "qwen3.attention.sliding_window"));
    assert_true(config.headed);
    hub_config_close(&config);
    gguf_close(gguf);

    gguf = parse_network(4, &config);
    assert_string_equal(config.network->name, "gemma3");
    assert_true(fabs(real(gguf, "gemma3.attention.scale") - 0.25) < 1e-15);
    assert_true(fabs(real(gguf, "gemma3.rope.freq_base_swa") - 1e4) < 1e-9);
    assert_int_equal(integer(gguf, "gemma3.attention.sliding_window"), 8);
    assert_true(config.tied);
    hub_config_close(&config);
    gguf_close(gguf);

    bool causal = true;
    gguf = parse_network(5, &config);
    assert_int_equal(gguf_get_bool(gguf, "bert.attention.causal", true, &causal, NULL), ERR_OK);
    assert_false(causal);
    assert_int_equal(integer(gguf, "tokenizer.ggml.token_type_count"), 2);
    assert_true(real(gguf, "bert.attention.layer_norm_epsilon") < 1.1e-12);
    hub_config_close(&config);
    gguf_close(gguf);
}

static void test_refused(void **state)
{
    static const struct {
        size_t network;
        const char *add, *where;
    } cases[] = {
        {2, "\"use_mrope\":true", "c: use_mrope"},
        {3, "\"attention_bias\":true", "c: attention_bias"},
        {4, "\"use_bidirectional_attention\":true", "c: use_bidirectional_attention"},
        {4, "\"sliding_window_pattern\":4", "c: sliding_window_pattern"},
        {4, "\"attn_logit_softcapping\":50.0", "c: attn_logit_softcapping"},
        {5, "\"is_decoder\":true", "c: is_decoder"},
        {5, "\"rms_norm_eps\":1e-6", "c: rms_norm_eps"},
        {7, "\"model_max_lenght\":1", "c: model_max_lenght"},
        {8, "\"prenorm\":true", "c: prenorm"},
        {8, "\"rotary_emb_interleaved\":true", "c: rotary_emb_interleaved"},
        {9, "\"norm_bias\":true", "c: norm_bias"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char text[1024];
        struct hub_config config;
        struct err_info info;
        snprintf(text, sizeof(text), "%s%s,\"model_type\":\"%s\"}",
            networks[cases[i].network].config, cases[i].add, networks[cases[i].network].type);
        assert_null(parse(text, &config, &info));
        assert_int_equal(info.code, ERR_UNSUPPORTED);
        assert_string_equal(info.where, cases[i].where);
    }
}

/* A pattern of layers that is another, and a scale of no meaning. */
static void test_refused_gemma3(void **state)
{
    static const struct {
        const char *from, *to, *where;
    } cases[] = {
        {"[\"sliding_attention\"", "[\"full_attention\"", "config.json: layer_types"},
        {"[\"sliding_attention\"", "[1", "config.json: layer_types"},
        {":16,\"rope", ":0,\"rope", "config.json: query_pre_attn_scalar"},
        {"gelu_pytorch_tanh", "gelu", "config.json: hidden_activation"},
        {"\"rope_theta\":1e6,", "", "config.json: rope_theta"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct hub_files files;
        char text[1024];
        hub_files_open(&files);
        snprintf(text, sizeof(text), "%s\"model_type\":\"gemma3_text\"}", networks[4].config);
        hub_files_text(&files, "config.json", text);
        hub_files_change(&files, "config.json", cases[i].from, cases[i].to);
        struct gguf *gguf = NULL;
        struct err_info info;
        assert_int_not_equal(checkpoint_open(files.folder, &gguf, &info), ERR_OK);
        assert_string_equal(info.where, cases[i].where);
        hub_files_close(&files);
    }
}

/* More token types than there can be tokens. */
static void test_refused_token_types(void **state)
{
    enum { ROWS = LIMIT_VOCAB + 1, BEFORE = (10 * 16 + 2 * 16) * 4 };
    struct hub_files files;
    char text[1024];
    size_t count = 0;
    hub_files_open(&files);
    snprintf(text, sizeof(text), "%s\"model_type\":\"bert\"}", networks[5].config);
    hub_files_text(&files, "config.json", text);
    snprintf(text, sizeof(text),
        "{\"embeddings.word_embeddings.weight\":{\"dtype\":\"F32\",\"shape\":[10,16],"
        "\"data_offsets\":[0,640]},"
        "\"embeddings.LayerNorm.weight\":{\"dtype\":\"F32\",\"shape\":[16],"
        "\"data_offsets\":[640,704]},"
        "\"embeddings.LayerNorm.bias\":{\"dtype\":\"F32\",\"shape\":[16],"
        "\"data_offsets\":[704,%d]},"
        "\"embeddings.token_type_embeddings.weight\":{\"dtype\":\"F16\",\"shape\":[%d,1],"
        "\"data_offsets\":[%d,%d]}}",
        BEFORE, ROWS, BEFORE, BEFORE + 2 * ROWS);
    unsigned char *file = hub_files_safetensors(text, (size_t)BEFORE + 2 * (size_t)ROWS, &count);
    hub_files_put(&files, "model.safetensors", file, count);
    free(file);
    hub_expect(&files, "token types", ERR_FORMAT, "embeddings.token_type_embeddings.weight");
    hub_files_close(&files);
}

/* Gemma's norms are stored less 1. */
static void test_less_one(void **state)
{
    _Alignas(WEIGHTS_ALIGNMENT) unsigned char block[64 * 4];
    struct hub_files files;
    struct gguf *gguf = NULL;
    struct kernels kernels;
    struct weights weights;
    float *norm = NULL;
    char text[1024];
    hub_files_open(&files);
    snprintf(text, sizeof(text), "%s\"model_type\":\"gemma3_text\"}", networks[4].config);
    hub_files_text(&files, "config.json", text);
    assert_int_equal(checkpoint_open(files.folder, &gguf, NULL), ERR_OK);
    assert_int_equal(kernels_select("ref", &kernels, NULL), ERR_OK);
    assert_int_equal(
        weights_init(&weights, gguf, &kernels, NULL, block, sizeof(block), NULL), ERR_OK);
    assert_int_equal(weights_vector(&weights, "output_norm.weight", 16, &norm, NULL), ERR_OK);
    for (int i = 0; i < 16; i++) {
        assert_true(norm[i] >= 1.25F && norm[i] <= 1.25F);
    }
    weights_free(&weights);
    gguf_close(gguf);
    hub_files_close(&files);
}

static void test_limit_keys(void **state)
{
    struct gguf *gguf = gguf_create();
    assert_non_null(gguf);
    for (int i = 0; i < LIMIT_PUT_KEYS; i++) {
        char key[16];
        snprintf(key, sizeof(key), "key.%d", i);
        assert_int_equal(gguf_put_i64(gguf, key, "shown", i, NULL), ERR_OK);
    }
    struct err_info info;
    assert_int_equal(gguf_put_bool(gguf, "more", "shown", true, &info), ERR_LIMIT);
    assert_string_equal(info.where, "shown");
    assert_int_equal(gguf_sort(gguf, NULL), ERR_OK);
    assert_int_equal(integer(gguf, "key.63"), 63);
    gguf_close(gguf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_what_differs),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_refused_gemma3),
        cmocka_unit_test(test_refused_token_types),
        cmocka_unit_test(test_less_one),
        cmocka_unit_test(test_limit_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
