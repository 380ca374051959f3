/*
 * Goal: the dense layers that sentence-transformers keeps behind the pooling become those of the
 * model, with their sizes, or the folder is refused by file and key.
 * Method: a good folder with two of them; one thing changed per row of a table; layers one wider
 * than is possible, one more than there may be; every allocation failing once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "engine/base/mem.h"
#include "tests/unit/load/hub_check.h"

#define MODULE(index, path, type)                                                                  \
    "{\"idx\":" #index ",\"path\":\"" path "\",\"type\":\"sentence_transformers.models." type "\"" \
    "}"
#define FIRST "2_Dense/config.json"
#define SECOND "3_Dense/config.json"
#define WEIGHTS "2_Dense/model.safetensors"

static void put_dense(const struct hub_files *files, int index, int inputs, int outputs, bool bias)
{
    char name[64];
    char text[512];
    size_t count = 0;
    const size_t weight = (size_t)inputs * (size_t)outputs * sizeof(float);
    const size_t end = weight + (bias ? (size_t)outputs * sizeof(float) : 0);
    snprintf(name, sizeof(name), "%d_Dense/config.json", index);
    snprintf(text, sizeof(text),
        "{\"in_features\":%d,\"out_features\":%d,\"bias\":%s,"
        "\"activation_function\":\"torch.nn.modules.%s\"}",
        inputs, outputs, bias ? "true" : "false", bias ? "activation.Tanh" : "linear.Identity");
    hub_files_text(files, name, text);
    int used = snprintf(text, sizeof(text),
        "{\"linear.weight\":{\"dtype\":\"F32\",\"shape\":[%d,%d],\"data_offsets\":[0,%zu]}",
        outputs, inputs, weight);
    if (bias) {
        used += snprintf(text + used, sizeof(text) - (size_t)used,
            ",\"linear.bias\":{\"dtype\":\"F32\",\"shape\":[%d],\"data_offsets\":[%zu,%zu]}",
            outputs, weight, end);
    }
    snprintf(text + used, sizeof(text) - (size_t)used, "}");
    snprintf(name, sizeof(name), "%d_Dense/model.safetensors", index);
    unsigned char *file = hub_files_safetensors(text, end, &count);
    hub_files_put(files, name, file, count);
    free(file);
}

static void make_dense(struct hub_files *files)
{
    hub_files_text(files, "modules.json",
        "[" MODULE(0, "", "Transformer") "," MODULE(1, "1_Pooling", "Pooling") "," MODULE(
            2, "2_Dense", "Dense") "," MODULE(3, "3_Dense", "Dense") "," MODULE(4, "4_Normalize",
            "Normalize") "]");
    hub_files_text(files, "1_Pooling/config.json",
        "{\"word_embedding_dimension\":16,\"pooling_mode_mean_tokens\":true}");
    put_dense(files, 2, 16, 24, false);
    put_dense(files, 3, 24, 8, true);
}

static void test_sizes(void **state)
{
    struct hub_files files;
    struct gguf *gguf = NULL;
    struct model_info model;
    struct err_info info;
    hub_files_open(&files);
    make_dense(&files);
    if (hub_open_all(files.folder, &gguf, &model, &info) != ERR_OK) {
        fail_msg("%s: %s", info.where, info.text);
    }
    assert_int_equal(model.hidden, 16);
    assert_int_equal(model.vector, 8);
    assert_int_equal(model.dense_widest, 24);
    gguf_close(gguf);
    hub_files_close(&files);
}

static const struct {
    const char *file;
    struct hub_change change;
} changes[] = {
    {"modules.json", {"unchanged", "[", "[", ERR_OK, NULL}},
    {"modules.json", {"vectors as long as they are", "," MODULE(4, "4_Normalize", "Normalize"), "",
                         ERR_OK, NULL}},
    {"modules.json",
        {"without a folder", "2_Dense", "", ERR_UNSUPPORTED, "modules.json: [2].path"}},
    {"modules.json",
        {"out of the folder", "2_Dense", "../2_Dense", ERR_FORMAT, "modules.json: [2].path"}},
    {"modules.json", {"one too many", "models.Normalize", "models.Dense", ERR_UNSUPPORTED,
                         "modules.json: [4].type"}},
    {"modules.json", {"length 1 in between", MODULE(3, "3_Dense", "Dense"),
                         MODULE(3, "3", "Normalize"), ERR_UNSUPPORTED, "modules.json: [4].type"}},
    {"modules.json",
        {"a file that is not there", "2_Dense", "2_Dens", ERR_IO, "2_Dens/config.json"}},
    {FIRST, {"another width", ":16", ":17", ERR_FORMAT, FIRST ": in_features"}},
    {FIRST, {"no width", "in_features", "in_featured", ERR_UNSUPPORTED, FIRST ": in_featured"}},
    {FIRST, {"outputs that do not go in", ":24", ":23", ERR_FORMAT, SECOND ": in_features"}},
    {FIRST, {"no outputs", ":24", ":null", ERR_FORMAT, FIRST ": out_features"}},
    {FIRST, {"none at all", ":24", ":0", ERR_FORMAT, FIRST ": out_features"}},
    {FIRST, {"past the widest", ":24", ":65537", ERR_FORMAT, FIRST ": out_features"}},
    {FIRST, {"a bias that is not there", "false", "true", ERR_FORMAT, "dense_2.bias"}},
    {FIRST, {"the usual bias", ",\"bias\":false", "", ERR_FORMAT, "dense_2.bias"}},
    {FIRST, {"another activation", "linear.Identity", "activation.GELU", ERR_UNSUPPORTED,
                FIRST ": activation_function"}},
    {FIRST, {"no activation", ",\"activation_function\":\"torch.nn.modules.linear.Identity\"", "",
                ERR_FORMAT, FIRST ": activation_function"}},
    {FIRST, {"the sentence's vector", "{", "{\"module_input_name\":\"sentence_embedding\",", ERR_OK,
                NULL}},
    {FIRST, {"another vector", "{", "{\"module_input_name\":\"token_embeddings\",", ERR_UNSUPPORTED,
                FIRST ": module_input_name"}},
    {FIRST, {"an unknown key", "{", "{\"dropout\":0,", ERR_UNSUPPORTED, FIRST ": dropout"}},
    {SECOND, {"a bias too many", "true", "false", ERR_UNSUPPORTED,
                 "3_Dense/model.safetensors: linear.bias"}},
    {WEIGHTS, {"no weight", "linear.weight", "linear.weighs", ERR_UNSUPPORTED,
                  WEIGHTS ": linear.weighs"}},
    {WEIGHTS, {"another shape", "[24,16]", "[16,24]", ERR_FORMAT, WEIGHTS ": linear.weight"}},
    {WEIGHTS, {"a bias in its place", "linear.weight\"", "linear.bias\"  ", ERR_FORMAT,
                  WEIGHTS ": linear.weight"}},
};

static void test_changes(void **state)
{
    for (size_t i = 0; i < ARRAY_COUNT(changes); i++) {
        hub_check_change(changes[i].file, &changes[i].change, make_dense);
    }
}

/* Weights of which only pytorch_model.bin is there. */
static void test_no_weights(void **state)
{
    struct hub_files files;
    hub_files_open(&files);
    make_dense(&files);
    hub_files_remove(&files, WEIGHTS);
    hub_expect(&files, "no weights", ERR_IO, WEIGHTS);
    hub_files_close(&files);
}

static void test_every_allocation_fails_once(void **state)
{
    struct hub_files files;
    hub_files_open(&files);
    make_dense(&files);
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
            break;
        }
        assert_int_equal(err, ERR_NO_MEMORY);
    }
    hub_files_close(&files);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_changes),
        cmocka_unit_test(test_no_weights),
        cmocka_unit_test(test_every_allocation_fails_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
