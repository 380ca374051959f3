/*
 * Goal: the files of sentence-transformers beside a network become the profile that states the
 * same, or the folder is refused by file and key.
 * Method: a good set of them and what the profile then says; one thing changed per row of a table;
 * prompts at their bounds and one past them; every truncation; every allocation failing once.
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
#include "engine/load/profile.h"
#include "tests/scale.h"
#include "tests/unit/load/hub_check.h"

#define FORMAT ERR_FORMAT
#define UNSUPPORTED ERR_UNSUPPORTED
#define POOLING_FILE "1_Pooling/config.json"
#define LONGEST "1_Pooling_in_a_folder_of_forty-seven_letters_xx"
#define PROMPTS "config_sentence_transformers.json"
#define LENGTH "sentence_bert_config.json"

static void make_sentence(struct hub_files *files)
{
    hub_files_text(files, "modules.json",
        "[{\"idx\":0,\"name\":\"0\",\"path\":\"\","
        "\"type\":\"sentence_transformers.models.Transformer\"},"
        "{\"idx\":1,\"name\":\"1\",\"path\":\"1_Pooling\","
        "\"type\":\"sentence_transformers.models.Pooling\"},"
        "{\"idx\":2,\"name\":\"2\",\"path\":\"2_Normalize\","
        "\"type\":\"sentence_transformers.models.Normalize\"}]");
    hub_files_text(files, "1_Pooling/config.json",
        "{\"word_embedding_dimension\":16,\"pooling_mode_cls_token\":false,"
        "\"pooling_mode_mean_tokens\":false,\"pooling_mode_max_tokens\":false,"
        "\"pooling_mode_lasttoken\":true,\"include_prompt\":true}");
    hub_files_text(
        files, "sentence_bert_config.json", "{\"max_seq_length\":32,\"do_lower_case\":false}");
    hub_files_text(files, "config_sentence_transformers.json",
        "{\"__version__\":{\"pytorch\":\"2\"},\"prompts\":{\"query\":\"Say \\\"x\\\"\\n: \","
        "\"document\":\"\"},\"default_prompt_name\":null,\"similarity_fn_name\":\"cosine\"}");
}

static void read_profile(const struct hub_files *files, struct profile *out, int32_t *out_context)
{
    struct gguf *gguf = NULL;
    struct model_info model;
    struct err_info info;
    if (hub_open_all(files->folder, &gguf, &model, &info) != ERR_OK ||
        profile_read(files->folder, NULL, gguf, out, &info) != ERR_OK) {
        fail_msg("%s: %s", info.where, info.text);
    }
    *out_context = model.context_trained;
    gguf_close(gguf);
}

static void test_sentence(void **state)
{
    static struct profile profile;
    struct hub_files files;
    int32_t context = 0;
    hub_files_open(&files);
    make_sentence(&files);
    read_profile(&files, &profile, &context);
    assert_int_equal(context, 32);
    assert_int_equal(profile.pooling, POOLING_LAST);
    assert_int_equal(profile.embed_attention, ATTENTION_CAUSAL);
    assert_false(profile.pool_skip_instruction);
    assert_true(profile.modes[KIND_GENERATE] && profile.modes[KIND_EMBED]);
    assert_int_equal(profile.prompt_count, 2);
    for (int32_t i = 0; i < 2; i++) {
        const bool query = strcmp(profile.prompts[i].name, "query") == 0;
        assert_string_equal(profile.prompts[i].text, query ? "Say \"x\"\n: {text}" : "{text}");
    }
    assert_string_equal(profile.default_prompt, "");
    hub_files_change(&files, PROMPTS, ":null", ":\"query\"");
    read_profile(&files, &profile, &context);
    assert_string_equal(profile.default_prompt, "query");
    /* Both ways, and another pooling that GGUF has no number for. */
    hub_files_change(&files, "config.json", "\"bos_token_id\"",
        "\"use_bidirectional_attention\":true,\"bos_token_id\"");
    hub_files_text(&files, "1_Pooling/config.json",
        "{\"embedding_dimension\":16,\"pooling_mode\":\"weightedmean\",\"include_prompt\":false}");
    read_profile(&files, &profile, &context);
    assert_int_equal(profile.pooling, POOLING_WEIGHTED_MEAN);
    assert_int_equal(profile.embed_attention, ATTENTION_BIDIRECTIONAL);
    assert_true(profile.pool_skip_instruction);
    hub_files_close(&files);
}

static const struct {
    const char *file;
    struct hub_change change;
} sentences[] = {
    {"modules.json", {"unchanged", "[", "[", ERR_OK, NULL}},
    {"modules.json", {"no list", "[", "{}", FORMAT, "modules.json"}},
    {"modules.json", {"a stage that is a number", "[", "[7,", FORMAT, "modules.json: [0]."}},
    {"modules.json", {"a stage that is not built", "models.Normalize", "models.LayerNorm",
                         UNSUPPORTED, "modules.json: [2].type"}},
    {"modules.json", {"no type", "\"type\":\"sentence_transformers.models.Pooling\"", "\"x\":1",
                         FORMAT, "modules.json: [1].type"}},
    {"modules.json", {"the pooling first", "models.Transformer", "models.Pooling", UNSUPPORTED,
                         "modules.json: [0].type"}},
    {"modules.json", {"a path out of the folder", "1_Pooling", "../1_Pooling", FORMAT,
                         "modules.json: [1].path"}},
    {"modules.json", {"the folder above", "1_Pooling", "..", FORMAT, "modules.json: [1].path"}},
    {"modules.json",
        {"a pooling without a folder", "1_Pooling", "", UNSUPPORTED, "modules.json: [1].path"}},
    {"modules.json", {"the longest name", "1_Pooling", LONGEST, ERR_IO, LONGEST "/config.json"}},
    {"modules.json",
        {"one letter more", "1_Pooling", LONGEST "x", FORMAT, "modules.json: [1].path"}},
    {"modules.json", {"the network elsewhere", "\"path\":\"\"", "\"path\":\"0_Transformer\"",
                         UNSUPPORTED, "modules.json: [0].path"}},
    {"modules.json", {"no pooling", "models.Pooling", "models.Normalize", UNSUPPORTED,
                         "modules.json: [1].type"}},
    {"modules.json",
        {"a file that is not there", "1_Pooling", "1_Pool", ERR_IO, "1_Pool/config.json"}},
    {POOLING_FILE,
        {"another width", ":16", ":17", FORMAT, POOLING_FILE ": word_embedding_dimension"}},
    {POOLING_FILE, {"two poolings", "cls_token\":false", "cls_token\":true", UNSUPPORTED,
                       POOLING_FILE ": pooling_mode_lasttoken"}},
    {POOLING_FILE, {"none", "lasttoken\":true", "lasttoken\":false", FORMAT, POOLING_FILE}},
    {POOLING_FILE, {"the largest of each", "pooling_mode_lasttoken", "pooling_mode_max_tokens_",
                       UNSUPPORTED, POOLING_FILE ": pooling_mode_max_tokens_"}},
    {POOLING_FILE,
        {"one that is not built", "pooling_mode_lasttoken", "pooling_mode_mean_sqrt_len_tokens",
            UNSUPPORTED, POOLING_FILE ": pooling_mode_mean_sqrt_len_tokens"}},
    {POOLING_FILE, {"an unknown word", "\"pooling_mode_lasttoken\":true",
                       "\"pooling_mode\":\"best\"", FORMAT, POOLING_FILE}},
    {POOLING_FILE, {"a flag in words", "lasttoken\":true", "lasttoken\":\"yes\"", FORMAT,
                       POOLING_FILE ": pooling_mode_lasttoken"}},
    {LENGTH, {"no length", ":32", ":0", FORMAT, LENGTH ": max_seq_length"}},
    {LENGTH, {"a longer one", ":32", ":100", ERR_OK, NULL}},
    {LENGTH, {"none", ":32", ":null", ERR_OK, NULL}},
    {LENGTH, {"lower case", ":false", ":true", UNSUPPORTED, LENGTH ": do_lower_case"}},
    {LENGTH, {"something else", "{", "{\"max_pixels\":1,", UNSUPPORTED, LENGTH ": max_pixels"}},
    {PROMPTS, {"a prompt that is a number", "\"\"", "7", FORMAT, PROMPTS ": prompts.document"}},
    {PROMPTS, {"a prompt with a place of its own", "Say", "{text}", UNSUPPORTED,
                  PROMPTS ": prompts.query"}},
    {PROMPTS, {"a prompt without a name", "document", "", ERR_LIMIT, PROMPTS ": prompts."}},
    {PROMPTS, {"a default", ":null", ":\"query\"", ERR_OK, NULL}},
    {PROMPTS, {"a default that is none of them", ":null", ":\"queri\"", FORMAT,
                  PROMPTS ": default_prompt_name"}},
    {PROMPTS, {"a default without prompts",
                  "\"prompts\":{\"query\":\"Say \\\"x\\\"\\n: \","
                  "\"document\":\"\"},\"default_prompt_name\":null",
                  "\"default_prompt_name\":\"query\"", FORMAT, PROMPTS ": default_prompt_name"}},
    {PROMPTS,
        {"a default that is a number", ":null", ":1", FORMAT, PROMPTS ": default_prompt_name"}},
    {PROMPTS, {"another place", "Say", "{instruction}", UNSUPPORTED, PROMPTS ": prompts.query"}},
    {PROMPTS, {"prompts in a list", "\"prompts\":{", "\"prompts\":[],\"x\":{", FORMAT,
                  PROMPTS ": prompts"}},
    {PROMPTS, {"no JSON", "{", "", FORMAT, PROMPTS}},
};

static void test_sentence_changes(void **state)
{
    for (size_t i = 0; i < ARRAY_COUNT(sentences); i++) {
        hub_check_change(sentences[i].file, &sentences[i].change, make_sentence);
    }
}

/* The most and longest prompts, one more, and one letter more. */
static void test_limit_prompts(void **state)
{
    static const struct {
        int prompts, name_bytes, text_bytes;
        enum err err;
        const char *where;
    } cases[] = {
        {LIMIT_PROMPTS, PROFILE_NAME_BYTES - 1, PROFILE_TEXT_BYTES - 7, ERR_OK, NULL},
        {LIMIT_PROMPTS + 1, 8, 8, ERR_LIMIT, PROMPTS ": prompts"},
        {1, PROFILE_NAME_BYTES, 8, ERR_LIMIT, PROMPTS ": prompts.00nnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"},
        {1, 8, PROFILE_TEXT_BYTES - 6, ERR_LIMIT, PROMPTS ": prompts.00nnnnnn"},
    };
    for (size_t c = 0; c < ARRAY_COUNT(cases); c++) {
        struct hub_files files;
        static struct profile profile;
        static char text[1 << 16];
        size_t used = (size_t)snprintf(text, sizeof(text), "{\"prompts\":{");
        for (int i = 0; i < cases[c].prompts; i++) {
            used += (size_t)snprintf(
                text + used, sizeof(text) - used, "%s\"%02d", i == 0 ? "" : ",", i);
            memset(text + used, 'n', (size_t)cases[c].name_bytes - 2);
            used += (size_t)cases[c].name_bytes - 2;
            used += (size_t)snprintf(text + used, sizeof(text) - used, "\":\"");
            memset(text + used, '\x7f', (size_t)cases[c].text_bytes);
            used += (size_t)cases[c].text_bytes;
            text[used++] = '"';
        }
        snprintf(text + used, sizeof(text) - used, "}}");
        hub_files_open(&files);
        make_sentence(&files);
        hub_files_text(&files, PROMPTS, text);
        hub_expect(&files, "prompts", cases[c].err, cases[c].where);
        if (cases[c].err == ERR_OK) {
            int32_t context = 0;
            read_profile(&files, &profile, &context);
            assert_int_equal(profile.prompt_count, cases[c].prompts);
        }
        hub_files_close(&files);
    }
}

static void test_truncations(void **state)
{
    static const char *const names[] = {"modules.json", POOLING_FILE, LENGTH, PROMPTS};
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        struct hub_files files;
        size_t count = 0;
        hub_files_open(&files);
        make_sentence(&files);
        char *bytes = hub_files_get(&files, names[i], &count);
        const size_t step = MAX(count / (size_t)(60 / test_scale()), (size_t)1);
        for (size_t end = 0; end < count; end += step) {
            hub_files_put(&files, names[i], bytes, end);
            hub_expect(&files, "truncated", ERR_FORMAT, names[i]);
        }
        free(bytes);
        hub_files_close(&files);
    }
}

static void test_every_allocation_fails_once(void **state)
{
    struct hub_files files;
    hub_files_open(&files);
    make_sentence(&files);
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
        cmocka_unit_test(test_sentence),
        cmocka_unit_test(test_sentence_changes),
        cmocka_unit_test(test_limit_prompts),
        cmocka_unit_test(test_truncations),
        cmocka_unit_test(test_every_allocation_fails_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
