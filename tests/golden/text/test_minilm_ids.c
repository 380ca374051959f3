/*
 * Goal: the ids all-MiniLM-L6-v2 sees are those that sentence-transformers gave it.
 * Method: minilm-reference holds texts with their ids, [CLS] and [SEP] included, cut to 256 tokens;
 * the vocabulary is the GGUF file beside them, and tokenizer.json of the model's folder where
 * deploy/fetch_model.sh put it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/golden/golden_data.h"
#include "tests/golden/text/text_golden.h"
#include "tests/skip.h"

enum { TOKENS_MAX = 256, TEXT_COUNT = 40 };

static bool check_text(const struct tokenizer *tokenizer, const json_t *line)
{
    const json_t *text = golden_member(line, "text");
    struct token_list list;
    struct err_info info = {0};
    int32_t count;
    int32_t *ids = golden_ints(line, "ids", &count);
    token_list_init(&list, 1 << 20);
    assert_int_equal(tokenizer_encode(tokenizer, json_string_value(text), json_string_length(text),
                         TOKENIZE_ADD | TOKENIZE_SPECIAL, &list, &info),
        ERR_OK);
    if (list.count > TOKENS_MAX) { /* the end of the text goes, [SEP] stays */
        list.ids[TOKENS_MAX - 1] = list.ids[list.count - 1];
        list.count = TOKENS_MAX;
    }
    bool good = list.count == count && memcmp(list.ids, ids, (size_t)count * sizeof(*ids)) == 0;
    if (!good) {
        printf("row %d differs\n", golden_int(line, "row"));
    }
    token_list_free(&list);
    free(ids);
    return good;
}

static void check_all(struct tokenizer *tokenizer)
{
    char path[GOLDEN_PATH_BYTES];
    if (tokenizer == NULL || !golden_reference("minilm-reference/texts.jsonl", path)) {
        tokenizer_close(tokenizer);
        skip_test();
        return;
    }
    json_t *lines = golden_json_lines(path);
    size_t good = 0;
    for (size_t i = 0; i < json_array_size(lines); i++) {
        good += check_text(tokenizer, json_array_get(lines, i));
    }
    assert_int_equal(json_array_size(lines), TEXT_COUNT);
    assert_int_equal(good, TEXT_COUNT);
    json_decref(lines);
    tokenizer_close(tokenizer);
}

static void test_gguf(void **state)
{
    (void)state;
    check_all(text_golden_open("minilm-reference/minilm-q8_0.gguf"));
}

static void test_json(void **state)
{
    (void)state;
    char folder[GOLDEN_PATH_BYTES];
    char path[GOLDEN_PATH_BYTES + 16];
    size_t bytes;
    if (!golden_minilm(folder)) {
        printf("skipped: all-MiniLM-L6-v2 is not there (deploy/fetch_model.sh minilm)\n");
        skip_test();
        return;
    }
    snprintf(path, sizeof(path), "%s/tokenizer.json", folder);
    char *file = (char *)golden_bytes(path, &bytes);
    struct tokenizer *tokenizer = text_golden_json(file, bytes, path);
    free(file);
    check_all(tokenizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_gguf), cmocka_unit_test(test_json)};
    return skip_status(
        cmocka_run_group_tests(tests, NULL, NULL), (int)(sizeof tests / sizeof tests[0]));
}
