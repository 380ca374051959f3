/*
 * Goal: text -> ids -> text gives the same bytes for the Big List of Naughty Strings, and for the
 * 1,347 inputs of tokenizer-truth.
 * Method: encode without parsing specials, push the ids through a detokenizer whose output is whole
 * UTF-8 after every token. Exceptions are stated: Qwen's text comes back in Form C; SentencePiece
 * cannot tell U+2581 from a space; SmolLM2 has no token for some bytes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "engine/base/buf.h"
#include "engine/base/utf8.h"
#include "engine/text/normalize.h"
#include "tests/golden/golden_data.h"
#include "tests/golden/text/text_golden.h"
#include "tests/skip.h"

enum { TEXT_MAX = 1 << 20 };

enum exception { NONE, FORM_C, SPACE_MARK, MISSING_BYTES };

/* What the text must come back as. */
static void expect(enum exception exception, const char *text, size_t bytes, struct buf *out)
{
    struct normal normal = {0};
    switch (exception) {
    case NONE:
        buf_append(out, text, bytes);
        break;
    case FORM_C:
        assert_int_equal(normal_append_form(&normal, NORMAL_NFC, text, bytes, NULL), ERR_OK);
        buf_append(out, normal.bytes, normal.count);
        normal_free(&normal);
        break;
    case SPACE_MARK:
        for (size_t at = 0; at < bytes; at++) {
            bool mark = bytes - at >= 3 && memcmp(text + at, "\xE2\x96\x81", 3) == 0;
            buf_char(out, mark ? ' ' : text[at]);
            at += mark ? 2 : 0;
        }
        break;
    case MISSING_BYTES:
        for (size_t at = 0; at < bytes; at++) {
            if (text[at] == '\0' || strchr("\x04\x06\x13\x14\x16\x1D\xF1\xF2", text[at]) == NULL) {
                buf_char(out, text[at]);
            }
        }
        break;
    }
    assert_false(out->failed);
}

static bool comes_back(
    const struct tokenizer *tokenizer, const char *text, size_t bytes, enum exception exception)
{
    struct token_list list;
    struct buf got;
    struct buf expected;
    struct detokenizer d;
    struct err_info info = {0};
    token_list_init(&list, TEXT_MAX);
    buf_init(&got, MEM_OTHER, TEXT_MAX);
    buf_init(&expected, MEM_OTHER, TEXT_MAX);
    expect(exception, text, bytes, &expected);
    assert_int_equal(tokenizer_encode(tokenizer, text, bytes, 0, &list, &info), ERR_OK);
    detokenizer_init(&d, tokenizer, false, false);
    size_t bound = detokenizer_bound(tokenizer);
    for (int32_t i = 0; i < list.count; i++) {
        char *out = buf_reserve(&got, bound);
        assert_non_null(out);
        size_t count = detokenizer_push(&d, list.ids[i], out, bound);
        assert_true(utf8_valid(out, count));
        buf_took(&got, count);
    }
    char end[8];
    assert_int_equal(detokenizer_end(&d, true, end, sizeof(end)), 0);
    bool same = got.count == expected.count &&
                (got.count == 0 || memcmp(got.bytes, expected.bytes, got.count) == 0);
    token_list_free(&list);
    buf_free(&got);
    buf_free(&expected);
    return same;
}

/* The strings of a JSON list, or the "text" members of a list of objects. */
static void check_all(
    const struct tokenizer *tokenizer, const json_t *list, enum exception exception, size_t count)
{
    assert_int_equal(json_array_size(list), count);
    size_t good = 0;
    for (size_t i = 0; i < count; i++) {
        const json_t *entry = json_array_get(list, i);
        const json_t *text = json_is_string(entry) ? entry : golden_member(entry, "text");
        bool same =
            comes_back(tokenizer, json_string_value(text), json_string_length(text), exception);
        if (!same) {
            printf("string %zu does not come back\n", i);
        }
        good += same;
    }
    assert_int_equal(good, count);
}

static void check(const char *vocabulary, enum exception exception)
{
    char naughty[GOLDEN_PATH_BYTES];
    char inputs[GOLDEN_PATH_BYTES];
    struct tokenizer *tokenizer = text_golden_open(vocabulary);
    if (tokenizer == NULL || !golden_reference("naughty-strings/blns.json", naughty) ||
        !golden_reference("tokenizer-truth/inputs.jsonl", inputs)) {
        printf("skipped: needs naughty-strings, tokenizer-truth and a vocabulary\n");
        tokenizer_close(tokenizer);
        skip_test();
        return;
    }
    json_t *list = golden_json(naughty);
    check_all(tokenizer, list, exception, 515);
    json_decref(list);
    list = golden_json_lines(inputs);
    check_all(tokenizer, list, exception, 1347);
    json_decref(list);
    tokenizer_close(tokenizer);
}

static void test_gpt2(void **state)
{
    (void)state;
    check("llama-vocabs/models/ggml-vocab-gpt-2.gguf", NONE);
}

static void test_smollm2(void **state)
{
    (void)state;
    check("", MISSING_BYTES);
}

static void test_llama3(void **state)
{
    (void)state;
    check("llama-vocabs/made/ggml-vocab-llama-bpe.gguf", NONE);
}

static void test_qwen2(void **state)
{
    (void)state;
    check("llama-vocabs/made/ggml-vocab-qwen2.gguf", FORM_C);
}

static void test_llama_spm(void **state)
{
    (void)state;
    check("llama-vocabs/models/ggml-vocab-llama-spm.gguf", SPACE_MARK);
}

static void test_stories(void **state)
{
    (void)state;
    check("stories260K/gguf/stories260K-f32.gguf", SPACE_MARK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpt2),
        cmocka_unit_test(test_smollm2),
        cmocka_unit_test(test_llama3),
        cmocka_unit_test(test_qwen2),
        cmocka_unit_test(test_llama_spm),
        cmocka_unit_test(test_stories),
    };
    return skip_status(
        cmocka_run_group_tests(tests, NULL, NULL), (int)(sizeof tests / sizeof tests[0]));
}
