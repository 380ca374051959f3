/*
 * Goal: folders of the embedders that people bring say by themselves how they want to be run: which
 * network, who sees whom, how rows are pooled, how long a text may be, which prompts there are.
 * Method: config.json, modules.json, pooling and prompts of each family as they are published
 * (sizes too; what only informs is shortened), with weights of no use, up to the profile.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "engine/load/profile.h"
#include "tests/unit/load/hub_check.h"

#define STAGE(path, type)                                                                          \
    "{\"path\":\"" path "\",\"type\":\"sentence_transformers.models." type "\"}"
#define BEGIN "[" STAGE("", "Transformer") "," STAGE("1_Pooling", "Pooling")
#define PLAIN BEGIN "]"
#define UNIT BEGIN "," STAGE("2_Normalize", "Normalize") "]"
#define DENSE                                                                                      \
    BEGIN "," STAGE("2_Dense", "Dense") "," STAGE("3_Dense", "Dense") "," STAGE(                   \
        "4_Normalize", "Normalize") "]"
#define FLAGS(width, cls, mean, last)                                                              \
    "{\"word_embedding_dimension\":" #width ",\"pooling_mode_cls_token\":" #cls                    \
    ",\"pooling_mode_mean_tokens\":" #mean ",\"pooling_mode_max_tokens\":false,"                   \
    "\"pooling_mode_mean_sqrt_len_tokens\":false,\"pooling_mode_weightedmean_tokens\":false,"      \
    "\"pooling_mode_lasttoken\":" #last ",\"include_prompt\":true}"
#define LENGTH(tokens) "{\"max_seq_length\":" #tokens ",\"do_lower_case\":false}"
#define BERT                                                                                       \
    "\"attention_probs_dropout_prob\":0.1,\"hidden_act\":\"gelu\",\"hidden_dropout_prob\":0.1,"    \
    "\"initializer_range\":0.02,\"layer_norm_eps\":1e-12,\"position_embedding_type\":"             \
    "\"absolute\","                                                                                \
    "\"transformers_version\":\"4.30.0\",\"type_vocab_size\":2,\"use_cache\":true,"
#define QWEN                                                                                       \
    "\"attention_dropout\":0.0,\"bos_token_id\":151643,\"hidden_act\":\"silu\","                   \
    "\"initializer_range\":0.02,\"rms_norm_eps\":1e-06,\"rope_theta\":1000000,\"use_cache\":true," \
    "\"use_sliding_window\":false,"
#define WEB                                                                                        \
    "Instruct: Given a web search query, retrieve relevant passages that answer the "              \
    "query\\nQuery:"

static const struct {
    const char *name, *config, *modules, *pooling, *length, *prompts;
    struct {
        const char *network;
        int32_t context; /* of a sequence */
        enum pooling pooling;
        enum attention attention;
        bool generates;
        int32_t prompts;
        const char *prompt, *text; /* one of them */
        const char *standard;
    } want;
} families[] = {
    {"all-MiniLM-L6-v2",
        "{\"_name_or_path\":\"x\",\"architectures\":[\"BertModel\"],\"gradient_checkpointing\":"
        "false," BERT
        "\"hidden_size\":384,\"intermediate_size\":1536,\"max_position_embeddings\":512,"
        "\"model_type\":\"bert\",\"num_attention_heads\":12,\"num_hidden_layers\":6,\"pad_token_"
        "id\":0,"
        "\"vocab_size\":30522}",
        UNIT, FLAGS(384, false, true, false), LENGTH(256), NULL,
        {"bert", 256, POOLING_MEAN, ATTENTION_BIDIRECTIONAL, false, 0, NULL, NULL, ""}},
    {"bge-small-en-v1.5",
        "{\"architectures\":[\"BertModel\"],\"classifier_dropout\":null,\"id2label\":{\"0\":"
        "\"LABEL_0\"}," BERT
        "\"hidden_size\":384,\"intermediate_size\":1536,\"max_position_embeddings\":512,"
        "\"model_type\":\"bert\",\"num_attention_heads\":12,\"num_hidden_layers\":12,\"pad_token_"
        "id\":0,"
        "\"torch_dtype\":\"float32\",\"vocab_size\":30522}",
        UNIT, FLAGS(384, true, false, false), LENGTH(512),
        "{\"__version__\":{\"pytorch\":\"1.13.0\"}}",
        {"bert", 512, POOLING_CLS, ATTENTION_BIDIRECTIONAL, false, 0, NULL, NULL, ""}},
    {"snowflake-arctic-embed-m",
        "{\"architectures\":[\"BertModel\"]," BERT
        "\"hidden_size\":768,\"intermediate_size\":3072,\"max_position_embeddings\":512,"
        "\"model_type\":\"bert\",\"num_attention_heads\":12,\"num_hidden_layers\":12,\"pad_token_"
        "id\":0,"
        "\"vocab_size\":30522}",
        UNIT, FLAGS(768, true, false, false), LENGTH(512),
        "{\"prompts\":{\"query\":\"Represent this sentence for searching relevant passages: \"},"
        "\"default_prompt_name\":null}",
        {"bert", 512, POOLING_CLS, ATTENTION_BIDIRECTIONAL, false, 1, "query",
            "Represent this sentence for searching relevant passages: {text}", ""}},
    {"multilingual-e5-small",
        "{\"architectures\":[\"BertModel\"],\"tokenizer_class\":\"XLMRobertaTokenizer\"," BERT
        "\"hidden_size\":384,\"intermediate_size\":1536,\"max_position_embeddings\":512,"
        "\"model_type\":\"bert\",\"num_attention_heads\":12,\"num_hidden_layers\":12,\"pad_token_"
        "id\":0,"
        "\"vocab_size\":250037}",
        UNIT, FLAGS(384, false, true, false), LENGTH(512), NULL,
        {"bert", 512, POOLING_MEAN, ATTENTION_BIDIRECTIONAL, false, 0, NULL, NULL, ""}},
    {"multilingual-e5-large",
        "{\"architectures\":[\"XLMRobertaModel\"],\"bos_token_id\":0,\"eos_token_id\":2,"
        "\"output_past\":true,\"hidden_act\":\"gelu\",\"layer_norm_eps\":1e-05,\"hidden_size\":"
        "1024,"
        "\"intermediate_size\":4096,\"max_position_embeddings\":514,\"model_type\":\"xlm-roberta\","
        "\"num_attention_heads\":16,\"num_hidden_layers\":24,\"pad_token_id\":1,"
        "\"position_embedding_type\":\"absolute\",\"type_vocab_size\":1,\"vocab_size\":250002}",
        UNIT, FLAGS(1024, false, true, false), LENGTH(512), NULL,
        {"bert", 512, POOLING_MEAN, ATTENTION_BIDIRECTIONAL, false, 0, NULL, NULL, ""}},
    {"nomic-embed-text-v1.5",
        "{\"activation_function\":\"swiglu\",\"architectures\":[\"NomicBertModel\"],\"attn_pdrop\":"
        "0.0,"
        "\"auto_map\":{},\"bos_token_id\":null,\"causal\":false,\"dense_seq_output\":true,"
        "\"embd_pdrop\":0.0,\"eos_token_id\":null,\"fused_bias_fc\":true,"
        "\"fused_dropout_add_ln\":true,\"initializer_range\":0.02,\"layer_norm_epsilon\":1e-12,"
        "\"max_position_embeddings\":2048,\"max_trained_positions\":2048,\"mlp_fc1_bias\":false,"
        "\"mlp_fc2_bias\":false,\"model_type\":\"nomic_bert\",\"n_embd\":768,\"n_head\":12,"
        "\"n_inner\":3072,\"n_layer\":12,\"n_positions\":8192,\"pad_vocab_size_multiple\":64,"
        "\"parallel_block\":false,\"parallel_block_tied_norm\":false,\"prenorm\":false,"
        "\"qkv_proj_bias\":false,\"reorder_and_upcast_attn\":false,\"resid_pdrop\":0.0,"
        "\"rope_parameters\":{\"rope_theta\":1000.0,\"rope_type\":\"default\"},"
        "\"rotary_emb_base\":1000,\"rotary_emb_fraction\":1.0,\"rotary_emb_interleaved\":false,"
        "\"rotary_emb_scale_base\":null,\"rotary_scaling_factor\":null,"
        "\"scale_attn_by_inverse_layer_idx\":false,\"scale_attn_weights\":true,"
        "\"summary_first_dropout\":0.0,\"type_vocab_size\":2,\"use_cache\":true,"
        "\"use_flash_attn\":true,\"use_rms_norm\":false,\"use_xentropy\":true,\"vocab_size\":"
        "30528}",
        PLAIN, FLAGS(768, false, true, false), LENGTH(8192), NULL,
        {"nomic-bert", 2048, POOLING_MEAN, ATTENTION_BIDIRECTIONAL, false, 0, NULL, NULL, ""}},
    {"jina-embeddings-v2-base-en",
        "{\"_name_or_path\":\"x\",\"architectures\":[\"JinaBertForMaskedLM\"],\"auto_map\":{},"
        "\"attention_probs_dropout_prob\":0.0,\"classifier_dropout\":null,"
        "\"gradient_checkpointing\":false,\"hidden_act\":\"gelu\",\"hidden_dropout_prob\":0.1,"
        "\"hidden_size\":768,\"initializer_range\":0.02,\"intermediate_size\":3072,"
        "\"layer_norm_eps\":1e-12,\"max_position_embeddings\":8192,\"model_max_length\":8192,"
        "\"model_type\":\"bert\",\"num_attention_heads\":12,\"num_hidden_layers\":12,\"pad_token_"
        "id\":0,"
        "\"position_embedding_type\":\"alibi\",\"type_vocab_size\":2,\"use_cache\":true,"
        "\"vocab_size\":30528,\"feed_forward_type\":\"geglu\",\"emb_pooler\":\"mean\","
        "\"attn_implementation\":\"torch\"}",
        PLAIN, FLAGS(768, false, true, false), LENGTH(8192), NULL,
        {"jina-bert-v2", 8192, POOLING_MEAN, ATTENTION_BIDIRECTIONAL, false, 0, NULL, NULL, ""}},
    {"Qwen3-Embedding-0.6B",
        "{\"architectures\":[\"Qwen3ForCausalLM\"],\"attention_bias\":false," QWEN
        "\"eos_token_id\":151643,\"head_dim\":128,\"hidden_size\":1024,\"intermediate_size\":3072,"
        "\"max_position_embeddings\":32768,\"max_window_layers\":28,\"model_type\":\"qwen3\","
        "\"num_attention_heads\":16,\"num_hidden_layers\":28,\"num_key_value_heads\":8,"
        "\"rope_scaling\":null,\"sliding_window\":null,\"tie_word_embeddings\":true,"
        "\"torch_dtype\":\"bfloat16\",\"vocab_size\":151669}",
        UNIT, FLAGS(1024, false, false, true), NULL,
        "{\"prompts\":{\"query\":\"" WEB "\",\"document\":\"\"},\"default_prompt_name\":null,"
        "\"similarity_fn_name\":\"cosine\"}",
        {"qwen3", 32768, POOLING_LAST, ATTENTION_CAUSAL, true, 2, "document", "{text}", ""}},
    {"gte-Qwen2-1.5B-instruct",
        "{\"architectures\":[\"Qwen2ForCausalLM\"],\"auto_map\":{}," QWEN
        "\"eos_token_id\":151643,\"hidden_size\":1536,\"intermediate_size\":8960,\"is_causal\":"
        "false,"
        "\"max_position_embeddings\":131072,\"max_window_layers\":21,\"model_type\":\"qwen2\","
        "\"num_attention_heads\":12,\"num_hidden_layers\":28,\"num_key_value_heads\":2,"
        "\"sliding_window\":131072,\"tie_word_embeddings\":false,\"vocab_size\":151646}",
        UNIT, FLAGS(1536, false, false, true), LENGTH(32000),
        "{\"prompts\":{\"query\":\"" WEB " \"},\"default_prompt_name\":null}",
        {"qwen2", 32000, POOLING_LAST, ATTENTION_BIDIRECTIONAL, true, 1, "query",
            "Instruct: Given a web search query, retrieve relevant passages that answer the query"
            "\nQuery: {text}",
            ""}},
    {"e5-mistral-7b-instruct",
        "{\"architectures\":[\"MistralModel\"],\"bos_token_id\":1,\"eos_token_id\":2,"
        "\"hidden_act\":\"silu\",\"hidden_size\":4096,\"initializer_range\":0.02,"
        "\"intermediate_size\":14336,\"max_position_embeddings\":32768,\"model_type\":\"mistral\","
        "\"num_attention_heads\":32,\"num_hidden_layers\":32,\"num_key_value_heads\":8,"
        "\"pad_token_id\":2,\"rms_norm_eps\":1e-05,\"rope_theta\":10000.0,\"sliding_window\":4096,"
        "\"tie_word_embeddings\":false,\"torch_dtype\":\"float16\",\"use_cache\":false,"
        "\"vocab_size\":32000}",
        UNIT, FLAGS(4096, false, false, true), LENGTH(4096),
        "{\"prompts\":{\"web_search_query\":\"" WEB " \","
        "\"sts_query\":\"Instruct: Retrieve semantically similar text.\\nQuery: \"}}",
        {"llama", 4096, POOLING_LAST, ATTENTION_CAUSAL, false, 2, "sts_query",
            "Instruct: Retrieve semantically similar text.\nQuery: {text}", ""}},
    {"embeddinggemma-300m",
        "{\"_sliding_window_pattern\":6,\"architectures\":[\"Gemma3TextModel\"],"
        "\"attention_bias\":false,\"attention_dropout\":0.0,\"attn_logit_softcapping\":null,"
        "\"bos_token_id\":2,\"dtype\":\"float32\",\"eos_token_id\":1,"
        "\"final_logit_softcapping\":null,\"head_dim\":256,"
        "\"hidden_activation\":\"gelu_pytorch_tanh\",\"hidden_size\":768,"
        "\"initializer_range\":0.02,\"intermediate_size\":1152,\"layer_types\":["
        "\"sliding_attention\",\"sliding_attention\",\"sliding_attention\",\"sliding_attention\","
        "\"sliding_attention\",\"full_attention\"],\"max_position_embeddings\":2048,"
        "\"model_type\":\"gemma3_text\",\"num_attention_heads\":3,\"num_hidden_layers\":6,"
        "\"num_key_value_heads\":1,\"pad_token_id\":0,\"query_pre_attn_scalar\":256,"
        "\"rms_norm_eps\":1e-06,\"rope_local_base_freq\":10000.0,\"rope_scaling\":null,"
        "\"rope_theta\":1000000.0,\"sliding_window\":512,\"use_bidirectional_attention\":true,"
        "\"use_cache\":true,\"vocab_size\":262144}",
        DENSE, FLAGS(768, false, true, false), LENGTH(2048),
        "{\"prompts\":{\"query\":\"task: search result | query: \","
        "\"document\":\"title: none | text: \",\"STS\":\"task: sentence similarity | query: \"},"
        "\"default_prompt_name\":null,\"similarity_fn_name\":\"cosine\"}",
        {"gemma-embedding", 2048, POOLING_MEAN, ATTENTION_BIDIRECTIONAL, false, 3, "document",
            "title: none | text: {text}", ""}},
    {"one whose prompt is its default",
        "{\"architectures\":[\"BertModel\"]," BERT
        "\"hidden_size\":384,\"intermediate_size\":1536,\"max_position_embeddings\":512,"
        "\"model_type\":\"bert\",\"num_attention_heads\":12,\"num_hidden_layers\":6,\"vocab_size\":"
        "30522}",
        UNIT, "{\"embedding_dimension\":384,\"pooling_mode\":\"mean\",\"include_prompt\":true}",
        NULL,
        "{\"prompts\":{\"query\":\"query: \",\"passage\":\"passage: \"},"
        "\"default_prompt_name\":\"passage\"}",
        {"bert", 512, POOLING_MEAN, ATTENTION_BIDIRECTIONAL, false, 2, "query", "query: {text}",
            "passage"}},
};

static void put_dense(const struct hub_files *files, const char *folder, int inputs, int outputs)
{
    char name[64];
    char text[256];
    size_t count = 0;
    snprintf(name, sizeof(name), "%s/config.json", folder);
    snprintf(text, sizeof(text),
        "{\"in_features\":%d,\"out_features\":%d,\"bias\":false,"
        "\"activation_function\":\"torch.nn.modules.linear.Identity\"}",
        inputs, outputs);
    hub_files_text(files, name, text);
    snprintf(name, sizeof(name), "%s/model.safetensors", folder);
    unsigned char *file = hub_files_safetensors(
        "{\"linear.weight\":{\"dtype\":\"F32\",\"shape\":[1,1],\"data_offsets\":[0,4]}}", 4,
        &count);
    hub_files_put(files, name, file, count);
    free(file);
}

static void put_family(const struct hub_files *files, size_t index)
{
    const char *const texts[][2] = {
        {"config.json", families[index].config},
        {"modules.json", families[index].modules},
        {"1_Pooling/config.json", families[index].pooling},
        {"sentence_bert_config.json", families[index].length},
        {"config_sentence_transformers.json", families[index].prompts},
    };
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        if (texts[i][1] != NULL) {
            hub_files_text(files, texts[i][0], texts[i][1]);
        }
    }
    if (strstr(families[index].modules, "2_Dense") != NULL) {
        put_dense(files, "2_Dense", 768, 3072);
        put_dense(files, "3_Dense", 3072, 768);
    }
}

static int64_t context_of(const struct gguf *gguf, const char *network)
{
    char key[64];
    int64_t trained = 0;
    snprintf(key, sizeof(key), "%s.context_length", network);
    assert_int_equal(gguf_get_i64(gguf, key, true, 1, LIMIT_CONTEXT, &trained, NULL), ERR_OK);
    int64_t most = trained;
    assert_int_equal(
        gguf_get_i64(gguf, GGUF_SEQUENCE_KEY, false, 1, LIMIT_CONTEXT, &most, NULL), ERR_OK);
    return MIN(trained, most);
}

static void check_family(size_t index)
{
    static struct profile profile;
    struct hub_files files;
    struct gguf *gguf = NULL;
    struct gguf_string network = {0};
    struct err_info info = {0};
    hub_files_open(&files);
    put_family(&files, index);
    if (checkpoint_open(files.folder, &gguf, &info) != ERR_OK ||
        profile_read(files.folder, NULL, gguf, &profile, &info) != ERR_OK) {
        fail_msg("%s: %s: %s", families[index].name, info.where, info.text);
    }
    print_message("%s\n", families[index].name);
    assert_int_equal(gguf_get_string(gguf, "general.architecture", true, &network, NULL), ERR_OK);
    assert_int_equal(network.count, strlen(families[index].want.network));
    assert_memory_equal(network.bytes, families[index].want.network, network.count);
    assert_int_equal(context_of(gguf, families[index].want.network), families[index].want.context);
    assert_int_equal(profile.pooling, families[index].want.pooling);
    assert_int_equal(profile.embed_attention, families[index].want.attention);
    assert_true(profile.modes[KIND_EMBED]);
    assert_int_equal(profile.modes[KIND_GENERATE], families[index].want.generates);
    assert_false(profile.pool_skip_instruction);
    assert_string_equal(profile.default_prompt, families[index].want.standard);
    assert_int_equal(profile.prompt_count, families[index].want.prompts);
    bool found = families[index].want.prompt == NULL;
    for (int32_t i = 0; i < profile.prompt_count; i++) {
        if (!found && strcmp(profile.prompts[i].name, families[index].want.prompt) == 0) {
            assert_string_equal(profile.prompts[i].text, families[index].want.text);
            found = true;
        }
    }
    assert_true(found);
    gguf_close(gguf);
    hub_files_close(&files);
}

static void test_families(void **state)
{
    for (size_t i = 0; i < ARRAY_COUNT(families); i++) {
        check_family(i);
    }
}

/* What Nomic's config.json says twice must agree. */
static void test_nomic_rope(void **state)
{
    static const struct hub_change changes[] = {
        {"another base", "\"rope_theta\":1000.0", "\"rope_theta\":1e4", ERR_FORMAT,
            "config.json: rope_parameters.rope_theta"},
        {"another type", "\"rope_type\":\"default\"", "\"rope_type\":\"dynamic\"", ERR_UNSUPPORTED,
            "config.json: rope_parameters.rope_type"},
        {"a factor", "{\"rope_theta\"", "{\"factor\":2.0,\"rope_theta\"", ERR_UNSUPPORTED,
            "config.json: rope_parameters.factor"},
    };
    size_t index = 0;
    while (strcmp(families[index].name, "nomic-embed-text-v1.5") != 0) {
        index++;
    }
    for (size_t i = 0; i < ARRAY_COUNT(changes); i++) {
        struct hub_files files;
        hub_files_open(&files);
        put_family(&files, index);
        hub_files_change(&files, "config.json", changes[i].from, changes[i].to);
        hub_expect(&files, changes[i].what, changes[i].err, changes[i].where);
        hub_files_close(&files);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_families),
        cmocka_unit_test(test_nomic_rope),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
