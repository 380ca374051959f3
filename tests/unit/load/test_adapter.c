/*
 * Goal: an adapter is laid on a model as it is meant, or refused with the key or tensor that is
 * wrong, as its own file calls it, in 100 ms and without a path.
 * Method: a tiny folder of weights and a LoRA of rank 2 on two of its matrices, in both formats,
 * with one thing changed at a time. Numbers are the golden tests' (tests/golden/test_tiny.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>
#include "engine/base/mem.h"
#include "engine/load/checkpoint.h"
#include "engine/model/stack.h"
#include "tests/scale.h"
#include "tests/unit/load/gguf_writer.h"
#include "tests/unit/load/hub_files.h"

enum { TEXT_BYTES = 4096, DATA_BYTES = 576 };

#define MODULE "base_model.model.model.layers.0."
#define Q MODULE "self_attn.q_proj."
#define DOWN MODULE "mlp.down_proj."

static const char *const good_config =
    "{\"peft_type\":\"LORA\",\"r\":2,\"lora_alpha\":4,\"bias\":\"none\",\"use_dora\":false,"
    "\"modules_to_save\":null,\"rank_pattern\":{},\"target_modules\":[\"q_proj\",\"down_proj\"]}";
static const char *const good_header =
    "{\"" Q "lora_A.weight\":{\"dtype\":\"F32\",\"shape\":[2,16],\"data_offsets\":[0,128]},"
    "\"" Q "lora_B.weight\":{\"dtype\":\"F32\",\"shape\":[16,2],\"data_offsets\":[128,256]},"
    "\"" DOWN "lora_A.weight\":{\"dtype\":\"F32\",\"shape\":[2,24],\"data_offsets\":[256,448]},"
    "\"" DOWN "lora_B.weight\":{\"dtype\":\"F32\",\"shape\":[16,2],\"data_offsets\":[448,576]}}";

/* ---- the model and what lies on it ---- */

struct base {
    struct hub_files files;
    struct gguf *gguf;
    struct kernels kernels;
};

static void base_open(struct base *base)
{
    hub_files_open(&base->files);
    assert_int_equal(kernels_select(NULL, &base->kernels, NULL), ERR_OK);
    assert_int_equal(checkpoint_open(base->files.folder, &base->gguf, NULL), ERR_OK);
}

static void base_close(struct base *base)
{
    gguf_close(base->gguf);
    hub_files_close(&base->files);
}

/* Opens and lays it, as the program does at start. */
static enum err lay(struct base *base, const char *path, bool dry, struct err_info *info)
{
    struct adapter adapter = {.gguf = NULL};
    struct model *model = NULL;
    struct adapter_base on = {.head_dim = 4};
    assert_int_equal(model_open(base->gguf, &base->kernels, NULL, dry, &model, info), ERR_OK);
    assert_int_equal(
        gguf_get_string(base->gguf, "general.architecture", true, &on.architecture, info), ERR_OK);
    const struct stack stack = {.count = 1};
    const struct stack_set set = {&adapter, 1, &stack, 1};
    enum err err = adapter_open(path, &on, &adapter, info);
    if (err == ERR_OK) {
        err = model_lay_stacks(model, base->gguf, &set, info);
        assert_true(err != ERR_OK || model_stack_bytes(model) > 0);
        adapter_close(&adapter);
    }
    model_close(model);
    return err;
}

static void expect(
    struct base *base, const char *path, const char *what, enum err err, const char *where)
{
    struct err_info info = {0};
    const clock_t from = clock(); /* whatever else runs */
    const enum err got = lay(base, path, false, &info);
    const double ms = 1e3 * (double)(clock() - from) / CLOCKS_PER_SEC;
    if (got != err || (err != ERR_OK && strcmp(info.where, where) != 0)) {
        fail_msg("%s: %s at %s (%s), expected %s at %s", what, err_word(got), info.where, info.text,
            err_word(err), where);
    }
    assert_null(strstr(info.where, base->files.folder));
    assert_null(strstr(info.text, base->files.folder));
    assert_true(ms <= 100 * test_scale());
}

/* ---- folders ---- */

/* Every `from` of a text becomes `to`; without one the text stays. */
static void replace(const char *text, const char *from, const char *to, char out[TEXT_BYTES])
{
    size_t used = 0;
    assert_true(from == NULL || strstr(text, from) != NULL);
    while (*text != '\0') {
        if (from != NULL && strncmp(text, from, strlen(from)) == 0) {
            used += (size_t)snprintf(out + used, TEXT_BYTES - used, "%s", to);
            text += strlen(from);
        } else {
            out[used++] = *text++;
        }
        assert_true(used + 1 < TEXT_BYTES);
    }
    out[used] = '\0';
}

static void put_weights(const struct base *base, const char *header, size_t data_bytes)
{
    size_t count;
    unsigned char *file = hub_files_safetensors(header, data_bytes, &count);
    hub_files_put(&base->files, "lora/adapter_model.safetensors", file, count);
    free(file);
}

/* The folder with one change to one of its files. */
static const char *put_folder(struct base *base, bool in_config, const char *from, const char *to)
{
    static char path[128];
    char config[TEXT_BYTES], header[TEXT_BYTES];
    replace(good_config, in_config ? from : NULL, to, config);
    replace(good_header, in_config ? NULL : from, to, header);
    hub_files_text(&base->files, "lora/adapter_config.json", config);
    put_weights(base, header, DATA_BYTES);
    (void)snprintf(path, sizeof(path), "%s/lora", base->files.folder);
    return path;
}

struct change {
    const char *from, *to;
    enum err err;
    const char *where; /* behind "lora: " */
};

static const struct change in_config[] = {
    {NULL, NULL, ERR_OK, ""},
    {"\"use_dora\":false", "\"use_rslora\":true", ERR_OK, ""},
    {"\"use_dora\":false", "\"init_lora_weights\":true", ERR_OK, ""},
    {"\"use_dora\":false", "\"init_lora_weights\":\"gaussian\"", ERR_OK, ""},
    {"\"use_dora\":false", "\"a_later_switch\":false", ERR_OK, ""},
    {"\"use_dora\":false", "\"a_later_switch\":null", ERR_OK, ""},
    {"\"use_dora\":false", "\"a_later_switch\":1", ERR_UNSUPPORTED, "a_later_switch"},
    {"\"use_dora\":false", "\"use_dora\":true", ERR_UNSUPPORTED, "use_dora"},
    {"\"use_dora\":false", "\"use_qalora\":true", ERR_UNSUPPORTED, "use_qalora"},
    {"\"use_dora\":false", "\"lora_bias\":true", ERR_UNSUPPORTED, "lora_bias"},
    {"\"use_dora\":false", "\"fan_in_fan_out\":true", ERR_UNSUPPORTED, "fan_in_fan_out"},
    {"\"use_dora\":false", "\"layer_replication\":[[0,1],[0,1]]", ERR_UNSUPPORTED,
        "layer_replication"},
    {"\"use_dora\":false", "\"target_parameters\":[\"x\"]", ERR_UNSUPPORTED, "target_parameters"},
    {"\"use_dora\":false", "\"trainable_token_indices\":[1]", ERR_UNSUPPORTED,
        "trainable_token_indices"},
    {"\"use_dora\":false", "\"alora_invocation_tokens\":[1]", ERR_UNSUPPORTED,
        "alora_invocation_tokens"},
    {"\"use_dora\":false", "\"alpha_pattern\":{\"q_proj\":8}", ERR_UNSUPPORTED, "alpha_pattern"},
    {"\"use_dora\":false", "\"init_lora_weights\":\"pissa\"", ERR_UNSUPPORTED, "init_lora_weights"},
    {"\"use_dora\":false", "\"init_lora_weights\":3", ERR_UNSUPPORTED, "init_lora_weights"},
    {"\"use_dora\":false", "\"use_rslora\":1", ERR_FORMAT, "use_rslora"},
    {"\"rank_pattern\":{}", "\"rank_pattern\":{\"q_proj\":1}", ERR_UNSUPPORTED, "rank_pattern"},
    {"\"bias\":\"none\"", "\"bias\":\"all\"", ERR_UNSUPPORTED, "bias"},
    {"\"modules_to_save\":null", "\"modules_to_save\":[\"lm_head\"]", ERR_UNSUPPORTED,
        "modules_to_save"},
    {"\"LORA\"", "\"IA3\"", ERR_UNSUPPORTED, "peft_type"},
    {"\"peft_type\":\"LORA\",", "", ERR_FORMAT, "peft_type"},
    {"\"r\":2,", "", ERR_FORMAT, "r"},
    {"\"r\":2,", "\"r\":0,", ERR_FORMAT, "r"},
    {"\"r\":2,", "\"r\":513,", ERR_FORMAT, "r"},
    {"\"r\":2,", "\"r\":2.0,", ERR_FORMAT, "r"},
    {"\"r\":2,", "\"r\":\"2\",", ERR_FORMAT, "r"},
    {"\"r\":2,", "\"r\":null,", ERR_FORMAT, "r"},
    {"\"lora_alpha\":4,", "", ERR_FORMAT, "lora_alpha"},
    {"\"lora_alpha\":4,", "\"lora_alpha\":0,", ERR_FORMAT, "lora_alpha"},
    {"\"lora_alpha\":4,", "\"lora_alpha\":-1.5,", ERR_FORMAT, "lora_alpha"},
    {"\"lora_alpha\":4,", "\"lora_alpha\":\"4\",", ERR_FORMAT, "lora_alpha"},
};

static void test_what_a_config_asks_for(void **state)
{
    struct base base;
    base_open(&base);
    for (size_t i = 0; i < ARRAY_COUNT(in_config); i++) {
        const struct change *change = &in_config[i];
        char where[ERR_WHERE_BYTES];
        (void)snprintf(where, sizeof(where), "lora: adapter_config.json: %s", change->where);
        expect(&base, put_folder(&base, true, change->from, change->to), change->to, change->err,
            where);
    }
    base_close(&base);
}

static const struct change in_header[] = {
    {"\"" Q "lora_A", "\"" MODULE "self_attn.x_proj.lora_A", ERR_UNSUPPORTED,
        MODULE "self_attn.x_proj.lora_A.weight"},
    {"base_model.model.model", "base_model.model.models", ERR_UNSUPPORTED,
        "base_model.model.models.layers.0.self_attn.q_proj.lora_A.weight"},
    {"base_model.model.", "model.", ERR_UNSUPPORTED,
        "model.model.layers.0.self_attn.q_proj.lora_A.weight"},
    {"layers.0.mlp", "layers.1.mlp", ERR_UNSUPPORTED,
        "base_model.model.model.layers.1.mlp.down_proj.lora_A.weight"},
    {"layers.0.mlp", "layers.00.mlp", ERR_UNSUPPORTED,
        "base_model.model.model.layers.00.mlp.down_proj.lora_A.weight"},
    {"q_proj.lora_A.weight", "q_proj.lora_A.default.weight", ERR_UNSUPPORTED,
        Q "lora_A.default.weight"},
    {"q_proj.lora_A.weight", "q_proj.lora_magnitude_vector", ERR_UNSUPPORTED,
        Q "lora_magnitude_vector"},
    {"layers.0.self_attn.q_proj", "embed_tokens", ERR_UNSUPPORTED,
        "base_model.model.model.embed_tokens.lora_A.weight"},
    {"q_proj.lora_A", "o_proj.lora_A", ERR_FORMAT, Q "lora_B.weight"}, /* no A */
    {"down_proj.lora_B", "o_proj.lora_B", ERR_UNSUPPORTED, MODULE "mlp.o_proj.lora_B.weight"},
    {"q_proj", "k_proj", ERR_FORMAT, MODULE "self_attn.k_proj.lora_B.weight"}, /* 8 outputs */
    {"self_attn.q_proj", "mlp.up_proj", ERR_FORMAT, MODULE "mlp.up_proj.lora_B.weight"},
    {"[2,24]", "[24,2]", ERR_FORMAT, DOWN "lora_A.weight"},
    {"[2,16]", "[2,16,1]", ERR_FORMAT, Q "lora_A.weight"},
    {"[2,16]", "[32]", ERR_FORMAT, Q "lora_A.weight"},
    {"[2,16]", "[1,32]", ERR_FORMAT, Q "lora_A.weight"},
    {"\"F32\",\"shape\":[2,16]", "\"I64\",\"shape\":[2,8]", ERR_UNSUPPORTED, Q "lora_A.weight"},
    {"\"F32\",\"shape\":[2,16]", "\"F16\",\"shape\":[2,32]", ERR_FORMAT, Q "lora_A.weight"},
};

static void test_what_tensors_there_are(void **state)
{
    struct base base;
    base_open(&base);
    for (size_t i = 0; i < ARRAY_COUNT(in_header); i++) {
        const struct change *change = &in_header[i];
        char where[ERR_WHERE_BYTES];
        (void)snprintf(where, sizeof(where), "lora: %.100s", change->where);
        expect(&base, put_folder(&base, false, change->from, change->to), change->to, change->err,
            where);
    }
    const char *path = put_folder(&base, true, NULL, NULL);
    put_weights(&base, "{}", 0);
    expect(&base, path, "no tensors", ERR_FORMAT, "lora");
    base_close(&base);
}

static void test_numbers_are_finite(void **state)
{
    struct base base;
    base_open(&base);
    const char *path = put_folder(&base, true, NULL, NULL);
    size_t count;
    char *file = hub_files_get(&base.files, "lora/adapter_model.safetensors", &count);
    const uint32_t nan = 0x7fc00000;
    const float huge = 3e38F;
    memcpy(file + count - sizeof(nan), &nan, sizeof(nan));
    hub_files_put(&base.files, "lora/adapter_model.safetensors", file, count);
    expect(&base, path, "NaN", ERR_NON_FINITE, "lora: " DOWN "lora_B.weight");
    struct err_info info = {0};
    assert_int_equal(lay(&base, path, true, &info), ERR_OK);  /* no numbers are read */
    memcpy(file + count - sizeof(huge), &huge, sizeof(huge)); /* finite, but not times 4 / 2 */
    hub_files_put(&base.files, "lora/adapter_model.safetensors", file, count);
    expect(&base, path, "overflow", ERR_NON_FINITE, "lora: " DOWN "lora_B.weight");
    free(file);
    base_close(&base);
}

static void test_files_that_are_not_there(void **state)
{
    struct base base;
    char path[128];
    base_open(&base);
    (void)snprintf(path, sizeof(path), "%s/nothing/", base.files.folder);
    expect(&base, path, "no folder", ERR_IO, "nothing: file");
    (void)put_folder(&base, true, NULL, NULL);
    (void)snprintf(path, sizeof(path), "%s/lora", base.files.folder);
    hub_files_remove(&base.files, "lora/adapter_model.safetensors");
    expect(&base, path, "no weights", ERR_IO, "lora: adapter_model.safetensors");
    hub_files_remove(&base.files, "lora/adapter_config.json");
    expect(&base, path, "no config", ERR_IO, "lora: adapter_config.json");
    char where[ERR_WHERE_BYTES];
    (void)snprintf(
        where, sizeof(where), "%.40s: adapter_config.json", strrchr(base.files.folder, '/') + 1);
    expect(&base, base.files.folder, "a model's folder", ERR_IO, where);
    base_close(&base);
}

static uint64_t in_use(void)
{
    return mem_bytes(MEM_WEIGHTS) + mem_bytes(MEM_OTHER);
}

static void test_every_allocation_fails_once(void **state)
{
    struct base base;
    base_open(&base);
    const char *path = put_folder(&base, true, NULL, NULL);
    const struct adapter_base on = {.architecture = {"llama", 5}, .head_dim = 4};
    const uint64_t before = in_use();
    uint64_t nth = 1;
    for (;; nth++) {
        struct adapter adapter = {.gguf = NULL};
        struct err_info info = {0};
        mem_fail_after(nth, 0);
        const enum err err = adapter_open(path, &on, &adapter, &info);
        mem_fail_after(0, 0);
        if (err == ERR_OK) {
            adapter_close(&adapter);
            break;
        }
        assert_int_equal(err, ERR_NO_MEMORY);
        assert_int_equal(strncmp(info.where, "lora: ", 6), 0);
        assert_null(adapter.gguf);
        assert_int_equal(in_use(), before);
    }
    assert_true(nth > 5); /* texts of the files, what they say, names, tensors */
    assert_int_equal(in_use(), before);
    base_close(&base);
}

/* ---- GGUF files ---- */

struct gguf_change {
    const char *what;
    const char *type, *adapter_type, *architecture; /* NULL = right */
    const char *a, *b;                              /* names of tensors; NULL = right */
    const char *key;                                /* one more; NULL = none */
    float alpha;                                    /* 0 = none */
    int64_t rank, inputs;
    enum tensor_type numbers;
    enum err err;
    const char *where; /* behind the adapter's name */
};

#define GGUF_Q "blk.0.attn_q.weight"
static const struct gguf_change gguf_changes[] = {
    {"good", .alpha = 4, .rank = 2, .inputs = 16, .err = ERR_OK},
    {"the widest", .alpha = 4, .rank = 512, .inputs = 16, .err = ERR_OK},
    {"a wider one", .alpha = 4, .rank = 513, .inputs = 16, .err = ERR_LIMIT,
        .where = GGUF_Q ".lora_a"},
    {"F16", .alpha = 4, .rank = 2, .inputs = 16, .numbers = TENSOR_F16, .err = ERR_OK},
    {"Q8_0", .alpha = 4, .rank = 32, .inputs = 32, .numbers = TENSOR_Q8_0, .err = ERR_UNSUPPORTED,
        .where = GGUF_Q ".lora_a"},
    {"a model", .type = "model", .alpha = 4, .rank = 2, .inputs = 16, .err = ERR_UNSUPPORTED,
        .where = "general.type"},
    {"control vector", .adapter_type = "vector", .alpha = 4, .rank = 2, .inputs = 16,
        .err = ERR_UNSUPPORTED, .where = "adapter.type"},
    {"another network", .architecture = "qwen3", .alpha = 4, .rank = 2, .inputs = 16,
        .err = ERR_UNSUPPORTED, .where = "general.architecture"},
    {"no alpha", .rank = 2, .inputs = 16, .err = ERR_FORMAT, .where = "adapter.lora.alpha"},
    {"negative alpha", .alpha = -1, .rank = 2, .inputs = 16, .err = ERR_FORMAT,
        .where = "adapter.lora.alpha"},
    {"another key", .key = "adapter.alora.tokens", .alpha = 4, .rank = 2, .inputs = 16,
        .err = ERR_UNSUPPORTED, .where = "adapter.alora.tokens"},
    {"a key that informs", .key = "adapter.lora.task_name", .alpha = 4, .rank = 2, .inputs = 16,
        .err = ERR_OK},
    {"wrong width", .alpha = 4, .rank = 2, .inputs = 15, .err = ERR_FORMAT,
        .where = GGUF_Q ".lora_a"},
    {"unknown matrix", .a = "blk.0.attn_x.weight.lora_a", .alpha = 4, .rank = 2, .inputs = 16,
        .err = ERR_FORMAT, .where = GGUF_Q ".lora_b"},
    {"unknown tensor", .a = "x.lora_a", .b = "x.lora_b", .alpha = 4, .rank = 2, .inputs = 16,
        .err = ERR_UNSUPPORTED, .where = "x.lora_a"},
    {"the embedding", .a = "token_embd.weight.lora_a", .b = "token_embd.weight.lora_b", .alpha = 4,
        .rank = 2, .inputs = 16, .err = ERR_UNSUPPORTED, .where = "token_embd.weight.lora_a"},
};

static void put_gguf(const struct gguf_change *change, char path[64])
{
    struct gguf_writer w;
    static float zeros[1 << 14];
    const int64_t a[] = {change->inputs, change->rank}, b[] = {change->rank, 16};
    gguf_writer_init(&w);
    gguf_writer_string(&w, "general.type", change->type != NULL ? change->type : "adapter");
    gguf_writer_string(
        &w, "adapter.type", change->adapter_type != NULL ? change->adapter_type : "lora");
    gguf_writer_string(
        &w, "general.architecture", change->architecture != NULL ? change->architecture : "llama");
    if (change->alpha != 0) {
        gguf_writer_f32(&w, "adapter.lora.alpha", change->alpha);
    }
    if (change->key != NULL) {
        gguf_writer_string(&w, change->key, "x");
    }
    gguf_writer_tensor(
        &w, change->a != NULL ? change->a : GGUF_Q ".lora_a", change->numbers, 2, a, zeros);
    gguf_writer_tensor(
        &w, change->b != NULL ? change->b : GGUF_Q ".lora_b", change->numbers, 2, b, zeros);
    gguf_writer_save(&w, path, 64);
    gguf_writer_free(&w);
}

static void test_gguf_adapters(void **state)
{
    struct base base;
    base_open(&base);
    for (size_t i = 0; i < ARRAY_COUNT(gguf_changes); i++) {
        const struct gguf_change *change = &gguf_changes[i];
        char path[64], where[ERR_WHERE_BYTES];
        put_gguf(change, path);
        (void)snprintf(where, sizeof(where), "%.40s: %.100s", strrchr(path, '/') + 1,
            change->where != NULL ? change->where : "");
        expect(&base, path, change->what, change->err, where);
        (void)unlink(path);
    }
    base_close(&base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_a_config_asks_for),
        cmocka_unit_test(test_what_tensors_there_are),
        cmocka_unit_test(test_numbers_are_finite),
        cmocka_unit_test(test_files_that_are_not_there),
        cmocka_unit_test(test_every_allocation_fails_once),
        cmocka_unit_test(test_gguf_adapters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
