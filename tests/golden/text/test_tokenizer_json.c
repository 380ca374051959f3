/*
 * Goal: tokenizer.json files give the ids that the reference library gives, whatever components
 * they use.
 * Method: fixtures/tokenizers.json holds small tokenizers of the layouts of model families, made by
 * make_tokenizer_fixtures.py, and the ids of 34 texts: with special tokens added and parsed, and as
 * plain text (null where the reference's model would find a special token's spelling).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "engine/text/tokenizer.h"
#include "tests/golden/golden_data.h"
#include "tests/golden/text/text_golden.h"

enum { TOKENIZER_COUNT = 19, TEXT_COUNT = 34, IDS_MAX = 4096 };

static struct tokenizer *open_row(const json_t *row)
{
    char *file = json_dumps(golden_member(row, "file"), 0);
    assert_non_null(file);
    struct tokenizer *tokenizer =
        text_golden_json(file, strlen(file), json_string_value(golden_member(row, "name")));
    free(file);
    return tokenizer;
}

static bool check_ids(const struct tokenizer *tokenizer, const json_t *text, const json_t *expected,
    unsigned flags, const char *case_name)
{
    static int32_t ids[IDS_MAX];
    size_t count = json_array_size(expected);
    assert_true(count <= IDS_MAX);
    for (size_t i = 0; i < count; i++) {
        ids[i] = (int32_t)json_integer_value(json_array_get(expected, i));
    }
    return text_golden_ids(tokenizer, json_string_value(text), json_string_length(text), flags, ids,
        (int32_t)count, case_name);
}

/* Encodes and decodes; plain text comes back but for what the normalizer does to it, so only texts
 * of "a" are compared. */
static void check_back(const struct tokenizer *tokenizer)
{
    static const char text[] = "a a aa";
    struct token_list list;
    struct detokenizer detokenizer;
    char *out = malloc(detokenizer_bound(tokenizer));
    char back[64] = {0};
    size_t count = 0;
    assert_non_null(out);
    token_list_init(&list, IDS_MAX);
    assert_int_equal(
        tokenizer_encode(tokenizer, text, strlen(text), TOKENIZE_ADD, &list, NULL), ERR_OK);
    detokenizer_init(&detokenizer, tokenizer, false, false);
    for (int32_t i = 0; i < list.count; i++) {
        size_t bytes =
            detokenizer_push(&detokenizer, list.ids[i], out, detokenizer_bound(tokenizer));
        assert_true(count + bytes < sizeof(back));
        memcpy(back + count, out, bytes);
        count += bytes;
    }
    /* A prefix that the decoder does not drop, or a text whose words alone are kept. */
    assert_string_equal(back + (back[0] == ' '), text);
    token_list_free(&list);
    free(out);
}

static void test_all(void **state)
{
    (void)state;
    char path[GOLDEN_PATH_BYTES];
    assert_true(golden_fixture("tokenizers.json", path));
    json_t *root = golden_json(path);
    const json_t *texts = golden_member(root, "texts");
    const json_t *rows = golden_member(root, "tokenizers");
    int32_t good = 0;
    int32_t cases = 0;
    assert_int_equal(json_array_size(rows), TOKENIZER_COUNT);
    assert_int_equal(json_array_size(texts), TEXT_COUNT);
    for (size_t i = 0; i < TOKENIZER_COUNT; i++) {
        const json_t *row = json_array_get(rows, i);
        const char *name = json_string_value(golden_member(row, "name"));
        struct tokenizer *tokenizer = open_row(row);
        for (size_t k = 0; k < TEXT_COUNT; k++) {
            char case_name[128];
            const json_t *text = json_array_get(texts, k);
            const json_t *plain = json_array_get(golden_member(row, "plain"), k);
            snprintf(case_name, sizeof(case_name), "%s, text %zu", name, k);
            good += check_ids(tokenizer, text, json_array_get(golden_member(row, "ids"), k),
                TOKENIZE_ADD | TOKENIZE_SPECIAL, case_name);
            good += json_is_null(plain) || check_ids(tokenizer, text, plain, 0, case_name);
            cases += 2;
        }
        check_back(tokenizer);
        tokenizer_close(tokenizer);
    }
    assert_int_equal(cases, 2 * TOKENIZER_COUNT * TEXT_COUNT);
    assert_int_equal(good, cases);
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
