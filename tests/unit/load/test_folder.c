/*
 * Goal: a folder is run as its files mean or refused by file and key, or by tensor (reliability
 * R29-R32, R36, R37; the list of hostile files).
 * Method: a good tiny folder with one thing changed per row of tables: config.json and
 * generation_config.json, names and parts of the tensors. Each
 * error must have the code and place of its row, come within 100 ms and hold no path. Then
 * every truncation of each file, every allocation failing once, and files that are none.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "engine/base/mem.h"
#include "engine/load/profile.h"
#include "engine/model/model.h"
#include "tests/scale.h"
#include "tests/unit/load/hub_check.h"

/* ---- what a good one says ------------------------------------------------------------------- */

static void test_good(void **state)
{
    struct hub_files files;
    struct gguf *gguf = NULL;
    struct model_info model;
    struct err_info info;
    int64_t begin = 0;
    struct gguf_array ends;
    hub_files_open(&files);
    hub_files_text(&files, "generation_config.json", "{\"eos_token_id\":[5,2,7],\"top_p\":0.9}");
    assert_int_equal(hub_open_all(files.folder, &gguf, &model, &info), ERR_OK);
    assert_true(gguf_is_folder(gguf));
    assert_string_equal(model.architecture, "llama");
    assert_string_equal(model.name, strrchr(files.folder, '/') + 1);
    assert_string_equal(model.weights_type, "f32");
    assert_int_equal(model.layers, 1);
    assert_int_equal(model.hidden, 16);
    assert_int_equal(model.heads, 4);
    assert_int_equal(model.heads_kv, 2);
    assert_int_equal(model.head_dim, 4);
    assert_int_equal(model.ffn, 24);
    assert_int_equal(model.vocab, 10);
    assert_int_equal(model.context_trained, 64);
    assert_int_equal(gguf_get_i64(gguf, HUB_BEGIN_KEY, true, 0, 9, &begin, NULL), ERR_OK);
    assert_int_equal(begin, 1);
    assert_int_equal(gguf_get_array(gguf, HUB_ENDS_KEY, true, GGUF_I32, &ends, NULL), ERR_OK);
    assert_int_equal(ends.count, 3);
    assert_int_equal(gguf_array_i32(&ends, 0), 5);
    assert_int_equal(gguf_array_i32(&ends, 2), 7);
    gguf_close(gguf);
    hub_files_close(&files);
}

/* ---- config.json ---------------------------------------------------------------------------- */

#define FORMAT ERR_FORMAT
#define UNSUPPORTED ERR_UNSUPPORTED
#define ADD(text) "\"model_type\"", text ",\"model_type\""
#define SCALING(text) "\"rope_scaling\":null", "\"rope_scaling\":{" text "}"
#define CONFIG "config.json: "

static const struct hub_change configs[] = {
    {"unchanged", "{", "{", ERR_OK, NULL},
    {"no JSON", "{", "", FORMAT, "config.json"},
    {"a list", "{", "[{", FORMAT, "config.json"},
    {"deep nesting", ADD("\"x\":[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]"), ERR_LIMIT, "config.json"},
    {"the same key twice", ADD("\"hidden_size\":16"), FORMAT, "config.json"},
    {"an unknown key", ADD("\"residual_scale\":2"), UNSUPPORTED, CONFIG "residual_scale"},
    {"an unknown key that is null", ADD("\"residual_scale\":null"), ERR_OK, NULL},
    {"quantisation", ADD("\"quantization_config\":{\"bits\":4}"), UNSUPPORTED,
        CONFIG "quantization_config"},
    {"an unknown network", "\"llama\"", "\"lama\"", UNSUPPORTED, CONFIG "model_type"},
    {"no network", "\"model_type\":\"llama\",", "", FORMAT, CONFIG "model_type"},
    {"a network of numbers", "\"llama\"", "7", FORMAT, CONFIG "model_type"},
    {"another head", "LlamaForCausalLM", "LlamaForTokenClassification", UNSUPPORTED,
        CONFIG "architectures"},
    {"two architectures", "\"LlamaForCausalLM\"", "\"LlamaForCausalLM\",\"LlamaModel\"", FORMAT,
        CONFIG "architectures"},
    {"no architectures", "[\"LlamaForCausalLM\"]", "[]", FORMAT, CONFIG "architectures"},
    {"architectures no list", "[\"LlamaForCausalLM\"]", "1", FORMAT, CONFIG "architectures"},
    {"another activation", "silu", "gelu", UNSUPPORTED, CONFIG "hidden_act"},
    {"part of a word", "silu", "sil", UNSUPPORTED, CONFIG "hidden_act"},
    {"no activation", "\"silu\"", "null", FORMAT, CONFIG "hidden_act"},
    {"an activation that is a number", "\"silu\"", "3", FORMAT, CONFIG "hidden_act"},
    {"biases", "\"attention_bias\":false", "\"attention_bias\":true", UNSUPPORTED,
        CONFIG "attention_bias"},
    {"biases in words", "\"attention_bias\":false", "\"attention_bias\":\"no\"", FORMAT,
        CONFIG "attention_bias"},
    {"biases of the feed-forward", "\"mlp_bias\":false", "\"mlp_bias\":true", UNSUPPORTED,
        CONFIG "mlp_bias"},
    {"a decoder with an encoder", ADD("\"is_encoder_decoder\":true"), UNSUPPORTED,
        CONFIG "is_encoder_decoder"},
    {"layers that differ", ADD("\"layer_types\":[\"sliding_attention\"]"), UNSUPPORTED,
        CONFIG "layer_types"},
    {"layers that do not", ADD("\"layer_types\":[\"full_attention\"]"), ERR_OK, NULL},

    {"no width", "\"hidden_size\":16,", "", FORMAT, CONFIG "hidden_size"},
    {"width null", "\"hidden_size\":16", "\"hidden_size\":null", FORMAT, CONFIG "hidden_size"},
    {"width 0", "\"hidden_size\":16", "\"hidden_size\":0", FORMAT, CONFIG "hidden_size"},
    {"width -1", "\"hidden_size\":16", "\"hidden_size\":-1", FORMAT, CONFIG "hidden_size"},
    {"width 16.0", "\"hidden_size\":16", "\"hidden_size\":16.0", FORMAT, CONFIG "hidden_size"},
    {"width 2^31", "\"hidden_size\":16", "\"hidden_size\":2147483648", FORMAT,
        CONFIG "hidden_size"},
    {"width 2^63", "\"hidden_size\":16", "\"hidden_size\":9223372036854775808", FORMAT,
        "config.json"},
    {"width past the bound", "\"hidden_size\":16", "\"hidden_size\":65537", FORMAT,
        CONFIG "hidden_size"},
    {"another width", "\"hidden_size\":16", "\"hidden_size\":32", FORMAT,
        "model.embed_tokens.weight"},
    {"width no heads share", "\"hidden_size\":16", "\"hidden_size\":15", FORMAT,
        CONFIG "num_attention_heads"},
    {"heads 0", "\"num_attention_heads\":4", "\"num_attention_heads\":0", FORMAT,
        CONFIG "num_attention_heads"},
    {"heads of one number", "\"num_attention_heads\":4", "\"num_attention_heads\":16", FORMAT,
        CONFIG "num_attention_heads"},
    {"heads that do not share", "\"num_key_value_heads\":2", "\"num_key_value_heads\":3", FORMAT,
        CONFIG "num_key_value_heads"},
    {"more K/V heads", "\"num_key_value_heads\":2", "\"num_key_value_heads\":8", FORMAT,
        CONFIG "num_key_value_heads"},
    {"an odd head", ADD("\"head_dim\":3"), FORMAT, CONFIG "num_attention_heads"},
    {"another head size", ADD("\"head_dim\":8"), FORMAT, "model.layers.0.self_attn.q_proj.weight"},
    {"the same head size", ADD("\"head_dim\":4"), ERR_OK, NULL},
    {"layers absurd", "\"num_hidden_layers\":1", "\"num_hidden_layers\":1000000", FORMAT,
        CONFIG "num_hidden_layers"},
    {"one layer more", "\"num_hidden_layers\":1", "\"num_hidden_layers\":2", FORMAT,
        "model.layers.1.input_layernorm.weight"},
    {"another feed-forward", "\"intermediate_size\":24", "\"intermediate_size\":23", FORMAT,
        "model.layers.0.mlp.gate_proj.weight"},
    {"another vocabulary", "\"vocab_size\":10", "\"vocab_size\":11", FORMAT, CONFIG "vocab_size"},
    {"context absurd", "\"max_position_embeddings\":64", "\"max_position_embeddings\":2000000",
        FORMAT, CONFIG "max_position_embeddings"},
    {"eps 0", "1e-5", "0", FORMAT, CONFIG "rms_norm_eps"},
    {"eps NaN", "1e-5", "NaN", FORMAT, "config.json"},
    {"eps infinite", "1e-5", "1e999", FORMAT, "config.json"},
    {"eps a string", "1e-5", "\"small\"", FORMAT, CONFIG "rms_norm_eps"},
    {"theta 0", "10000.0", "0", FORMAT, CONFIG "rope_theta"},
    {"theta negative", "10000.0", "-1", FORMAT, CONFIG "rope_theta"},
    {"theta an integer", "10000.0", "10000", ERR_OK, NULL},

    {"two names of one scaling",
        SCALING("\"type\":\"linear\",\"rope_type\":\"linear\",\"factor\":2"), ERR_OK, NULL},
    {"two scalings", SCALING("\"type\":\"linear\",\"rope_type\":\"default\",\"factor\":2"), FORMAT,
        CONFIG "rope_scaling.rope_type"},
    {"no scaling", SCALING("\"rope_type\":\"default\""), ERR_OK, NULL},
    {"scaling in another place", "\"rope_scaling\":null",
        "\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":0.5}", FORMAT,
        CONFIG "rope_parameters.rope_theta"},
    {"linear scaling", SCALING("\"type\":\"linear\",\"factor\":2.0"), ERR_OK, NULL},
    {"linear by 0", SCALING("\"type\":\"linear\",\"factor\":0"), FORMAT,
        CONFIG "rope_scaling.factor"},
    {"linear by nothing", SCALING("\"type\":\"linear\""), FORMAT, CONFIG "rope_scaling.factor"},
    {"yarn", SCALING("\"rope_type\":\"yarn\",\"factor\":4"), UNSUPPORTED,
        CONFIG "rope_scaling.rope_type"},
    {"dynamic, by its old name", SCALING("\"type\":\"dynamic\",\"factor\":4"), UNSUPPORTED,
        CONFIG "rope_scaling.type"},
    {"a scaling with more to it", SCALING("\"type\":\"linear\",\"factor\":2,\"beta_fast\":32"),
        UNSUPPORTED, CONFIG "rope_scaling.beta_fast"},
    {"a scaling that is a number", "\"rope_scaling\":null", "\"rope_scaling\":4", FORMAT,
        CONFIG "rope_scaling"},
    {"llama3",
        SCALING("\"rope_type\":\"llama3\",\"factor\":8,\"low_freq_factor\":1,"
                "\"high_freq_factor\":4,\"original_max_position_embeddings\":16"),
        ERR_OK, NULL},
    {"llama3 the wrong way round",
        SCALING("\"rope_type\":\"llama3\",\"factor\":8,\"low_freq_factor\":4,"
                "\"high_freq_factor\":1,\"original_max_position_embeddings\":16"),
        FORMAT, CONFIG "rope_scaling.rope_type"},
    {"llama3 with a number missing", SCALING("\"rope_type\":\"llama3\",\"factor\":8"), FORMAT,
        CONFIG "rope_scaling.low_freq_factor"},

    {"a token past all", "\"bos_token_id\":1", "\"bos_token_id\":2097152", FORMAT,
        CONFIG "bos_token_id"},
    {"a negative token", "\"eos_token_id\":2", "\"eos_token_id\":-1", FORMAT,
        CONFIG "eos_token_id"},
    {"a token in words", "\"eos_token_id\":2", "\"eos_token_id\":[2,\"</s>\"]", FORMAT,
        CONFIG "eos_token_id"},
    {"the most ends", "\"eos_token_id\":2",
        "\"eos_token_id\":[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15]", ERR_OK, NULL},
    {"one end more", "\"eos_token_id\":2",
        "\"eos_token_id\":[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]", ERR_LIMIT,
        CONFIG "eos_token_id"},
    {"no tokens", "\"bos_token_id\":1,\"eos_token_id\":2", "\"bos_token_id\":null", ERR_OK, NULL},
    {"tied to something else", "\"tie_word_embeddings\":false", "\"tie_word_embeddings\":true",
        ERR_OK, NULL}, /* both hold the same numbers here */
    {"a window", "\"llama\"", "\"mistral\",\"sliding_window\":8", UNSUPPORTED,
        CONFIG "architectures"},
};

static void test_config(void **state)
{
    for (size_t i = 0; i < ARRAY_COUNT(configs); i++) {
        hub_check_change("config.json", &configs[i], NULL);
    }
}

static void test_generation_config(void **state)
{
    struct hub_files files;
    hub_files_open(&files);
    hub_files_text(&files, "generation_config.json", "{\"bos_token_id\":\"<s>\"}");
    hub_expect(&files, "a word", ERR_FORMAT, "generation_config.json: bos_token_id");
    hub_files_text(&files, "generation_config.json", "nothing");
    hub_expect(&files, "no JSON", ERR_FORMAT, "generation_config.json");
    hub_files_close(&files);
}

/* Mistral's window goes to its network, which has it. */
static void test_mistral(void **state)
{
    struct hub_files files;
    hub_files_open(&files);
    hub_files_change(&files, "config.json", "LlamaFor", "MistralFor");
    hub_files_change(&files, "config.json", "\"llama\"", "\"mistral\",\"sliding_window\":8");
    hub_files_change(&files, "config.json", "\"attention_bias\":false,\"mlp_bias\":false,", "");
    hub_expect(&files, "a window", ERR_OK, NULL);
    hub_files_change(&files, "config.json", "\"sliding_window\":8", "\"sliding_window\":0");
    hub_expect(&files, "no window", ERR_FORMAT, "config.json: sliding_window");
    hub_files_close(&files);
}

/* ---- tensors -------------------------------------------------------------------------------- */

#define SHARD "model.safetensors.index.json"

static const struct hub_change tensors[] = {
    {"unchanged", "{", "{", ERR_OK, NULL},
    {"a tensor of another name", "model.norm.weight", "model.norm.weigth", UNSUPPORTED, NULL},
    {"a layer too many", "layers.0.mlp.up_proj", "layers.1.mlp.up_proj", FORMAT, NULL},
    {"a layer with a zero before it", "layers.0.mlp.up_proj", "layers.00.mlp.up_pro", FORMAT, NULL},
    {"no embedding", "model.embed_tokens", "model.embed_tokenz", FORMAT,
        "model.embed_tokens.weight"},
    {"no head", "\"lm_head.weight", "\"lm_haed.weight", FORMAT, "lm_head.weight"},
    {"no query", "self_attn.q_proj", "self_attn.q_porj", FORMAT,
        "model.layers.0.self_attn.q_proj.weight"},
    {"a query by our name", "model.layers.0.self_attn.q_proj.weight", "blk.0.attn_q.weight", FORMAT,
        "model.layers.0.self_attn.q_proj.weight"},
    {"integers for weights", "\"model.norm.weight\":{\"dtype\":\"F32\",\"shape\":[16]",
        "\"model.norm.weight\":{\"dtype\":\"I64\",\"shape\":[8 ]", UNSUPPORTED,
        "model.norm.weight"},
    {"a shape turned round", "\"shape\":[8,16]", "\"shape\":[16,8]", FORMAT,
        "model.layers.0.self_attn.k_proj.weight"},
    {"four dimensions", "\"shape\":[24,16],\"data_offsets\":[",
        "\"shape\":[24,4,4],\"data_offsets\":[", FORMAT, NULL},
};

static void test_tensors(void **state)
{
    for (size_t i = 0; i < ARRAY_COUNT(tensors); i++) {
        const struct hub_change *change = &tensors[i];
        struct hub_files files;
        struct gguf *gguf = NULL;
        struct err_info info;
        hub_files_open(&files);
        size_t count = 0;
        /* The header's length stands before it: the change may move its end by spaces. */
        hub_files_change(&files, "model.safetensors", change->from, change->to);
        char *bytes = hub_files_get(&files, "model.safetensors", &count);
        uint64_t length = 0;
        memcpy(&length, bytes, sizeof(length));
        length += strlen(change->to) - strlen(change->from);
        memcpy(bytes, &length, sizeof(length));
        hub_files_put(&files, "model.safetensors", bytes, count);
        free(bytes);
        const enum err err = hub_open_all(files.folder, &gguf, NULL, &info);
        if ((err == ERR_OK) != (change->err == ERR_OK) ||
            (change->where != NULL &&
                (err != change->err || strcmp(info.where, change->where) != 0))) {
            fail_msg("%s: %s at %s (%s)", change->what, err_word(err), info.where, info.text);
        }
        assert_true(err == ERR_OK || strncmp(info.where, "model.", 6) == 0 ||
                    strcmp(info.where, "lm_head.weight") == 0);
        gguf_close(gguf);
        hub_files_close(&files);
    }
}

/* A head that is stored though it is tied must be the embedding. */
static void test_tied_head(void **state)
{
    struct hub_files files;
    hub_files_open(&files);
    hub_files_change(
        &files, "config.json", "\"tie_word_embeddings\":false", "\"tie_word_embeddings\":true");
    hub_expect(&files, "the same numbers", ERR_OK, NULL);
    size_t count = 0;
    char *bytes = hub_files_get(&files, "model.safetensors", &count);
    uint64_t length = 0;
    memcpy(&length, bytes, sizeof(length));
    bytes[sizeof(length) + length] ^= 1; /* of the embedding, which comes first */
    hub_files_put(&files, "model.safetensors", bytes, count);
    free(bytes);
    hub_expect(&files, "other numbers", ERR_FORMAT, "lm_head.weight");
    hub_files_close(&files);
}

/* Without a head: its body alone embeds and does nothing else. */
static void test_body_alone(void **state)
{
    struct hub_files files;
    struct gguf *gguf = NULL;
    struct err_info info;
    static struct profile profile;
    hub_files_open(&files);
    hub_files_change(&files, "config.json", "LlamaForCausalLM", "LlamaModel");
    hub_expect(&files, "a head nobody asked for", ERR_OK, NULL);
    assert_int_equal(hub_open_all(files.folder, &gguf, NULL, &info), ERR_OK);
    assert_int_equal(profile_read(files.folder, NULL, gguf, &profile, &info), ERR_OK);
    assert_true(profile.modes[KIND_EMBED]);
    assert_false(
        profile.modes[KIND_GENERATE] || profile.modes[KIND_INFILL] || profile.modes[KIND_CLASSIFY]);
    gguf_close(gguf);
    hub_files_close(&files);
}

static void test_not_finite(void **state)
{
    struct hub_files files;
    static const uint32_t nan_bits = 0x7FC00000;
    hub_files_open(&files);
    size_t count = 0;
    char *bytes = hub_files_get(&files, "model.safetensors", &count);
    memcpy(bytes + count - sizeof(nan_bits), &nan_bits, sizeof(nan_bits));
    hub_files_put(&files, "model.safetensors", bytes, count);
    free(bytes);
    hub_expect(&files, "a NaN", ERR_NON_FINITE, "model.layers.0.mlp.down_proj.weight");
    hub_files_close(&files);
}

/* ---- parts ---------------------------------------------------------------------------------- */

static const char *const part_a =
    "{\"model.embed_tokens.weight\":{\"dtype\":\"F32\",\"shape\":[1,4],\"data_offsets\":[0,16]},"
    "\"lm_head.weight\":{\"dtype\":\"F32\",\"shape\":[1,4],\"data_offsets\":[16,32]}}";
static const char *const part_b =
    "{\"model.norm.weight\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}";
static const char *const part_index =
    "{\"metadata\":{\"total_size\":48},\"weight_map\":{\"model.embed_tokens.weight\":\"a\","
    "\"lm_head.weight\":\"a\",\"model.norm.weight\":\"b\"}}";

static void make_parts(struct hub_files *files)
{
    size_t count = 0;
    unsigned char *file = hub_files_safetensors(part_a, 32, &count);
    hub_files_put(files, "a", file, count);
    free(file);
    file = hub_files_safetensors(part_b, 16, &count);
    hub_files_put(files, "b", file, count);
    hub_files_put(files, "b.again", file, count);
    free(file);
    hub_files_remove(files, "model.safetensors");
    hub_files_text(files, SHARD, part_index);
}

static const struct hub_change parts[] = {
    {"a path", "\"b\"", "\"../b\"", FORMAT, SHARD ": weight_map.model.norm.weight"},
    {"an absolute path", "\"b\"", "\"/etc/passwd\"", FORMAT,
        SHARD ": weight_map.model.norm.weight"},
    {"the folder itself", "\"b\"", "\".\"", FORMAT, SHARD ": weight_map.model.norm.weight"},
    {"an empty name", "\"b\"", "\"\"", FORMAT, SHARD ": weight_map.model.norm.weight"},
    {"a number", "\"b\"", "7", FORMAT, SHARD ": weight_map.model.norm.weight"},
    {"a file that is not there", "\"b\"", "\"c\"", ERR_IO, "c"},
    {"a tensor in the other file", "\"b\"", "\"a\"", FORMAT, SHARD ": weight_map"},
    {"a tensor that is nowhere", "{\"model.embed", "{\"x\":\"a\",\"model.embed", FORMAT,
        SHARD ": weight_map"},
    {"a tensor that is not listed", "\"lm_head.weight\":\"a\",", "", FORMAT, "lm_head.weight"},
    {"the same tensor in two files", "\"b\"}", "\"b\",\"x\":\"b.again\"}", FORMAT,
        "model.norm.weight"},
    {"no map", "weight_map", "weights", FORMAT, SHARD ": weight_map"},
    {"a map that is a list", "\"weight_map\":{", "\"weight_map\":[],\"x\":{", FORMAT,
        SHARD ": weight_map"},
    {"no JSON", "{", "", FORMAT, SHARD},
};

static void test_parts(void **state)
{
    for (size_t i = 0; i < ARRAY_COUNT(parts); i++) {
        hub_check_change(SHARD, &parts[i], make_parts);
    }
}

/* As many files as may be open; one more is refused before it is opened. */
static void test_limit_parts(void **state)
{
    for (int count = LIMIT_FILE_PARTS; count <= LIMIT_FILE_PARTS + 1; count++) {
        struct hub_files files;
        hub_files_open(&files);
        hub_files_remove(&files, "model.safetensors");
        static char index[64 * (LIMIT_FILE_PARTS + 2)];
        size_t used = (size_t)snprintf(index, sizeof(index), "{\"weight_map\":{");
        for (int i = 0; i < count; i++) {
            char header[128];
            char name[16];
            size_t bytes = 0;
            snprintf(header, sizeof(header),
                "{\"t%d\":{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[0,2]}}", i);
            snprintf(name, sizeof(name), "part%d", i);
            unsigned char *file = hub_files_safetensors(header, 2, &bytes);
            hub_files_put(&files, name, file, bytes);
            free(file);
            used += (size_t)snprintf(
                index + used, sizeof(index) - used, "%s\"t%d\":\"%s\"", i == 0 ? "" : ",", i, name);
        }
        snprintf(index + used, sizeof(index) - used, "}}");
        hub_files_text(&files, SHARD, index);
        const bool fits = count == LIMIT_FILE_PARTS;
        hub_expect(&files, "parts", fits ? ERR_FORMAT : ERR_LIMIT,
            fits ? "lm_head.weight" : SHARD ": weight_map");
        hub_files_close(&files);
    }
}

static void test_limit_index(void **state)
{
    for (size_t bytes = LIMIT_FILE_INDEX_BYTES; bytes <= LIMIT_FILE_INDEX_BYTES + 1; bytes++) {
        struct hub_files files;
        char *padded = malloc(bytes);
        assert_non_null(padded);
        hub_files_open(&files);
        make_parts(&files);
        memset(padded, ' ', bytes);
        memcpy(padded, part_index, strlen(part_index));
        hub_files_put(&files, SHARD, padded, bytes);
        const bool fits = bytes == LIMIT_FILE_INDEX_BYTES;
        struct gguf *gguf = NULL;
        struct err_info info;
        assert_int_equal(checkpoint_open(files.folder, &gguf, &info), fits ? ERR_OK : ERR_LIMIT);
        assert_true(fits || strcmp(info.where, SHARD) == 0);
        gguf_close(gguf);
        free(padded);
        hub_files_close(&files);
    }
}

/* ---- files as such -------------------------------------------------------------------------- */

static void test_odd_files(void **state)
{
    struct hub_files files;
    char path[128];
    hub_files_open(&files);
    hub_files_remove(&files, "config.json");
    hub_expect(&files, "no config", ERR_IO, "config.json");
    snprintf(path, sizeof(path), "%s/config.json", files.folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    hub_expect(&files, "a FIFO", ERR_IO, "config.json");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("/dev/zero", path), 0);
    hub_expect(&files, "a link to a device", ERR_IO, "config.json");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("/proc/self/environ", path), 0);
    hub_expect(&files, "a link into /proc", ERR_FORMAT, "config.json"); /* which has no bytes */
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    hub_expect(&files, "a folder", ERR_IO, "config.json");
    hub_files_close(&files);
}

static void test_no_weights(void **state)
{
    struct hub_files files;
    char path[128];
    hub_files_open(&files);
    hub_files_remove(&files, "model.safetensors");
    hub_expect(&files, "none", ERR_IO, "model.safetensors");
    snprintf(path, sizeof(path), "%s/model.safetensors", files.folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    hub_expect(&files, "a FIFO", ERR_IO, "model.safetensors");
    hub_files_remove(&files, "model.safetensors");
    hub_files_text(&files, "model.safetensors", "");
    hub_expect(&files, "empty", ERR_FORMAT, "model.safetensors");
    assert_int_equal(truncate(path, (off_t)1 << 40), 0); /* sparse: a header of no bytes */
    hub_expect(&files, "sparse", ERR_FORMAT, "model.safetensors");
    hub_files_close(&files);
}

static void test_limit_config(void **state)
{
    for (size_t bytes = LIMIT_FILE_CONFIG_BYTES; bytes <= LIMIT_FILE_CONFIG_BYTES + 1; bytes++) {
        struct hub_files files;
        size_t count = 0;
        hub_files_open(&files);
        char *config = hub_files_get(&files, "config.json", &count);
        char *padded = malloc(bytes);
        assert_non_null(padded);
        memset(padded, ' ', bytes);
        memcpy(padded, config, count);
        hub_files_put(&files, "config.json", padded, bytes);
        const bool fits = bytes == LIMIT_FILE_CONFIG_BYTES;
        hub_expect(&files, "config", fits ? ERR_OK : ERR_LIMIT, fits ? NULL : "config.json");
        free(padded);
        free(config);
        hub_files_close(&files);
    }
}

/* Links are how hub caches work. */
static void test_links(void **state)
{
    struct hub_files files;
    char from[128];
    char to[128];
    hub_files_open(&files);
    snprintf(from, sizeof(from), "%s/model.safetensors", files.folder);
    snprintf(to, sizeof(to), "%s/blob", files.folder);
    assert_int_equal(rename(from, to), 0);
    assert_int_equal(symlink("blob", from), 0);
    hub_expect(&files, "a link", ERR_OK, NULL);
    /* Absent, either of these would do no harm. */
    static const char *const optional[] = {"modules.json", "generation_config.json"};
    for (size_t i = 0; i < ARRAY_COUNT(optional); i++) {
        snprintf(from, sizeof(from), "%s/%s", files.folder, optional[i]);
        assert_int_equal(symlink("nothing", from), 0);
        hub_expect(&files, "a link to nothing", ERR_IO, optional[i]);
        assert_int_equal(unlink(from), 0);
    }
    hub_files_close(&files);
}

/* Any file, cut anywhere: an error with a place. */
static void test_truncations(void **state)
{
    static const char *const names[] = {
        "config.json", "model.safetensors", "generation_config.json"};
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        struct hub_files files;
        size_t count = 0;
        hub_files_open(&files);
        hub_files_text(&files, "generation_config.json", "{\"eos_token_id\":[5,2,7]}");
        char *bytes = hub_files_get(&files, names[i], &count);
        const size_t step = MAX(count / (size_t)(120 / test_scale()), (size_t)1);
        for (size_t end = 0; end < count; end += step) {
            struct gguf *gguf = NULL;
            struct err_info info;
            hub_files_put(&files, names[i], bytes, end);
            assert_int_not_equal(hub_open_all(files.folder, &gguf, NULL, &info), ERR_OK);
            assert_true(strcmp(info.where, names[i]) == 0 ||
                        (i == 1 && strstr(info.where, ".weight") != NULL));
            gguf_close(gguf);
        }
        free(bytes);
        hub_files_close(&files);
    }
}

/* The network's name serves where the folder's cannot be shown. */
static void test_odd_name(void **state)
{
    struct hub_files files;
    struct hub_files odd;
    struct gguf *gguf = NULL;
    struct model_info model;
    struct err_info info;
    hub_files_open(&files);
    snprintf(odd.folder, sizeof(odd.folder), "%.48s\xFFz", files.folder);
    assert_int_equal(rename(files.folder, odd.folder), 0);
    assert_int_equal(hub_open_all(odd.folder, &gguf, &model, &info), ERR_OK);
    assert_string_equal(model.name, "llama");
    gguf_close(gguf);
    hub_files_close(&odd);
}

/* R36: shorter once it is open. */
static void test_shrinks(void **state)
{
    struct hub_files files;
    struct gguf *gguf = NULL;
    struct err_info info;
    struct kernels kernels;
    struct model *model = NULL;
    char path[128];
    hub_files_open(&files);
    assert_int_equal(kernels_select("ref", &kernels, NULL), ERR_OK);
    assert_int_equal(checkpoint_open(files.folder, &gguf, &info), ERR_OK);
    snprintf(path, sizeof(path), "%s/model.safetensors", files.folder);
    assert_int_equal(truncate(path, (off_t)gguf_file_bytes(gguf) - 1), 0);
    assert_int_equal(model_open(gguf, &kernels, NULL, false, &model, &info), ERR_IO);
    assert_string_equal(info.where, "model.layers.0.mlp.down_proj.weight");
    gguf_close(gguf);
    hub_files_close(&files);
}

static void test_every_allocation_fails_once(void **state)
{
    struct hub_files files;
    hub_files_open(&files);
    hub_files_change(&files, "config.json", "\"rope_scaling\":null",
        "\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8,\"low_freq_factor\":1,"
        "\"high_freq_factor\":4,\"original_max_position_embeddings\":16}");
    hub_files_change(
        &files, "config.json", "\"tie_word_embeddings\":false", "\"tie_word_embeddings\":true");
    const uint64_t before = mem_bytes(MEM_OTHER);
    for (uint64_t nth = 1;; nth++) {
        struct gguf *gguf = NULL;
        struct err_info info;
        mem_fail_after(nth, 0);
        const enum err err = checkpoint_open(files.folder, &gguf, &info);
        mem_fail_after(0, 0);
        gguf_close(gguf);
        assert_int_equal(mem_bytes(MEM_OTHER), before);
        if (err == ERR_OK) {
            assert_true(nth > 8);
            break;
        }
        assert_int_equal(err, ERR_NO_MEMORY);
        assert_null(gguf);
    }
    hub_files_close(&files);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_config),
        cmocka_unit_test(test_generation_config),
        cmocka_unit_test(test_mistral),
        cmocka_unit_test(test_tensors),
        cmocka_unit_test(test_tied_head),
        cmocka_unit_test(test_body_alone),
        cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_limit_parts),
        cmocka_unit_test(test_limit_index),
        cmocka_unit_test(test_odd_files),
        cmocka_unit_test(test_no_weights),
        cmocka_unit_test(test_limit_config),
        cmocka_unit_test(test_links),
        cmocka_unit_test(test_truncations),
        cmocka_unit_test(test_odd_name),
        cmocka_unit_test(test_shrinks),
        cmocka_unit_test(test_every_allocation_fails_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
