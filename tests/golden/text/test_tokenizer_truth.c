/*
 * Goal: ids equal those of four reference tokenizers on all 1,347 hard inputs.
 * Method: inputs.jsonl holds numbered texts, one file a tokenizer the ids. In the llama3 and qwen3
 * files spellings of special tokens were parsed, in the others they are plain text.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "tests/golden/golden_data.h"
#include "tests/golden/text/text_golden.h"
#include "tests/skip.h"

enum { INPUT_COUNT = 1347 };

static bool check_case(const struct tokenizer *tokenizer, const json_t *input, const json_t *truth,
    unsigned flags, const char *name)
{
    const json_t *text = golden_member(input, "text");
    char case_name[128];
    int32_t count;
    int32_t *ids = golden_ints(truth, "ids", &count);
    assert_int_equal(golden_int(input, "id"), golden_int(truth, "id"));
    snprintf(case_name, sizeof(case_name), "%s input %d (%s)", name, golden_int(input, "id"),
        json_string_value(golden_member(input, "src")));
    bool good = text_golden_ids(
        tokenizer, json_string_value(text), json_string_length(text), flags, ids, count, case_name);
    free(ids);
    return good;
}

static void check_truth(const char *vocabulary, const char *name, unsigned flags)
{
    char inputs_path[GOLDEN_PATH_BYTES];
    char truth_path[GOLDEN_PATH_BYTES];
    char file[128];
    snprintf(file, sizeof(file), "tokenizer-truth/%s.jsonl", name);
    struct tokenizer *tokenizer = text_golden_open(vocabulary);
    if (tokenizer == NULL || !golden_reference("tokenizer-truth/inputs.jsonl", inputs_path) ||
        !golden_reference(file, truth_path)) {
        printf("skipped: %s needs tokenizer-truth and its vocabulary\n", name);
        tokenizer_close(tokenizer);
        skip_test();
        return;
    }
    json_t *inputs = golden_json_lines(inputs_path);
    json_t *truth = golden_json_lines(truth_path);
    assert_int_equal(json_array_size(inputs), INPUT_COUNT);
    assert_int_equal(json_array_size(truth), INPUT_COUNT);
    int32_t good = 0;
    for (size_t i = 0; i < INPUT_COUNT; i++) {
        good +=
            check_case(tokenizer, json_array_get(inputs, i), json_array_get(truth, i), flags, name);
    }
    assert_int_equal(good, INPUT_COUNT);
    json_decref(inputs);
    json_decref(truth);
    tokenizer_close(tokenizer);
}

static void test_smollm2(void **state)
{
    (void)state;
    check_truth("", "smollm2", 0);
}

static void test_llama3(void **state)
{
    (void)state;
    check_truth("llama-vocabs/made/ggml-vocab-llama-bpe.gguf", "llama3.hfjs", TOKENIZE_SPECIAL);
}

static void test_qwen3(void **state)
{
    (void)state;
    check_truth("llama-vocabs/made/ggml-vocab-qwen2.gguf", "qwen3.hfjs", TOKENIZE_SPECIAL);
}

static void test_llama2(void **state)
{
    (void)state;
    check_truth("llama-vocabs/models/ggml-vocab-llama-spm.gguf", "llama2-spm", 0);
}

static void test_bert(void **state)
{
    (void)state;
    check_truth("minilm-reference/minilm-q8_0.gguf", "bert", 0);
}

static void test_llama3_json(void **state)
{
    (void)state;
    check_truth("npm-tokenizers/llama3/tokenizer.json", "llama3.hfjs", TOKENIZE_SPECIAL);
}

static void test_qwen3_json(void **state)
{
    (void)state;
    check_truth("npm-tokenizers/qwen3/tokenizer.json", "qwen3.hfjs", TOKENIZE_SPECIAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_smollm2),
        cmocka_unit_test(test_llama3),
        cmocka_unit_test(test_qwen3),
        cmocka_unit_test(test_llama2),
        cmocka_unit_test(test_bert),
        cmocka_unit_test(test_llama3_json),
        cmocka_unit_test(test_qwen3_json),
    };
    return skip_status(
        cmocka_run_group_tests(tests, NULL, NULL), (int)(sizeof tests / sizeof tests[0]));
}
