/*
 * Goal: ids equal those of the vocabulary pairs that llama.cpp tests itself with.
 * Method: each .inp file holds 47 texts between separators, each .out file a line of ids for each.
 * No BOS or EOS is added there; no text holds the spelling of a special token.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "engine/base/attr.h"
#include "tests/golden/golden_data.h"
#include "tests/golden/text/text_golden.h"
#include "tests/skip.h"

enum { CASE_COUNT = 47, IDS_MAX = 4096 };

static const char SEPARATOR[] = "\n__ggml_vocab_test__\n";

/* Ids of one line; moves *line behind it. */
static int32_t read_ids(char **line, int32_t ids[IDS_MAX])
{
    int32_t count = 0;
    char *at = *line;
    while (*at != '\n' && *at != '\0') {
        char *end;
        long id = strtol(at, &end, 10);
        if (end == at) { /* blanks at the end of the line */
            at++;
            continue;
        }
        assert_true(count < IDS_MAX);
        ids[count++] = (int32_t)id;
        at = end;
        at += *at == ' ';
    }
    *line = *at == '\n' ? at + 1 : at;
    return count;
}

static void check_pair(const char *folder, const char *name)
{
    char path[256];
    size_t inputs_bytes;
    size_t outputs_bytes;
    snprintf(path, sizeof(path), "llama-vocabs/%s/ggml-vocab-%s.gguf", folder, name);
    struct tokenizer *tokenizer = text_golden_open(path);
    snprintf(path, sizeof(path), "llama-vocabs/models/ggml-vocab-%s.gguf.inp", name);
    char *inputs = text_golden_file(path, &inputs_bytes);
    snprintf(path, sizeof(path), "llama-vocabs/models/ggml-vocab-%s.gguf.out", name);
    char *outputs = text_golden_file(path, &outputs_bytes);
    if (tokenizer == NULL || inputs == NULL || outputs == NULL) {
        tokenizer_close(tokenizer);
        free(inputs);
        free(outputs);
        skip_test();
        return;
    }
    int32_t good = 0;
    int32_t cases = 0;
    char *line = outputs;
    for (char *text = inputs; text != NULL; cases++) {
        char *end = strstr(text, SEPARATOR);
        size_t bytes = end != NULL ? (size_t)(end - text) : strlen(text);
        int32_t ids[IDS_MAX];
        int32_t count = read_ids(&line, ids);
        snprintf(path, sizeof(path), "%s case %d", name, cases);
        good += text_golden_ids(tokenizer, text, bytes, 0, ids, count, path);
        good += text_golden_ids(tokenizer, text, bytes, TOKENIZE_SPECIAL, ids, count, path);
        text = end != NULL ? end + strlen(SEPARATOR) : NULL;
    }
    assert_int_equal(cases, CASE_COUNT);
    assert_int_equal(good, 2 * CASE_COUNT);
    tokenizer_close(tokenizer);
    free(inputs);
    free(outputs);
}

static void test_gpt2(void **state)
{
    (void)state;
    check_pair("models", "gpt-2");
}

static void test_llama_spm(void **state)
{
    (void)state;
    check_pair("models", "llama-spm");
}

static void test_phi3(void **state)
{
    (void)state;
    check_pair("models", "phi-3");
}

static void test_llama_bpe(void **state)
{
    (void)state;
    check_pair("made", "llama-bpe");
}

static void test_qwen2(void **state)
{
    (void)state;
    check_pair("made", "qwen2");
}

static void test_starcoder(void **state)
{
    (void)state;
    check_pair("models", "starcoder");
}

static void test_refact(void **state)
{
    (void)state;
    check_pair("models", "refact");
}

static void test_bert(void **state)
{
    (void)state;
    check_pair("models", "bert-bge");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpt2),
        cmocka_unit_test(test_llama_spm),
        cmocka_unit_test(test_phi3),
        cmocka_unit_test(test_llama_bpe),
        cmocka_unit_test(test_qwen2),
        cmocka_unit_test(test_starcoder),
        cmocka_unit_test(test_refact),
        cmocka_unit_test(test_bert),
    };
    return skip_status(
        cmocka_run_group_tests(tests, NULL, NULL), (int)(sizeof tests / sizeof tests[0]));
}
