/*
 * Goal: in every vocabulary of the reference data, what a fill begins with behind a space that was
 * moved into it is that space, once, also when it is a token of its own.
 * Method: every token, alone and behind the token that is a space, spelled by the detokenizer, as
 * the engine spells a fill.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "engine/base/attr.h"
#include "engine/sample/border.h"
#include "tests/golden/text/text_golden.h"
#include "tests/skip.h"

/* Whether these tokens spell a text that begins with one space and no more. */
static bool spells_one_space(
    const struct tokenizer *tokenizer, const int32_t *tokens, int32_t count)
{
    char text[2048] = {0};
    size_t bytes = 0;
    struct detokenizer detokenizer;
    detokenizer_init(&detokenizer, tokenizer, false, true);
    assert_true(2 * detokenizer_bound(tokenizer) < sizeof(text));
    for (int32_t i = 0; i < count; i++) {
        bytes +=
            detokenizer_push(&detokenizer, tokens[i], text + bytes, detokenizer_bound(tokenizer));
    }
    return text[0] == ' ' && text[1] != ' ';
}

/* Counts of tokens that may begin a fill, and that may come behind the space. */
static void check(const struct tokenizer *tokenizer, int32_t out_counts[2])
{
    int32_t space = -1;
    out_counts[0] = out_counts[1] = 0;
    for (int32_t id = 0; id < tokenizer_vocab(tokenizer); id++) {
        bool allowed = border_allows(BORDER_SPACE, tokenizer, id);
        assert_int_equal(allowed, spells_one_space(tokenizer, &id, 1));
        if (allowed && border_after(BORDER_SPACE, tokenizer, id) == BORDER_NO_SPACE) {
            space = id;
        }
        out_counts[0] += allowed;
    }
    assert_true(space >= 0);
    for (int32_t id = 0; id < tokenizer_vocab(tokenizer); id++) {
        const int32_t tokens[] = {space, id};
        bool allowed = border_allows(BORDER_NO_SPACE, tokenizer, id);
        assert_int_equal(allowed, spells_one_space(tokenizer, tokens, 2));
        out_counts[1] += allowed;
    }
}

static void test_vocabularies(void **state)
{
    static const char *const names[] = {"", "llama-vocabs/models/ggml-vocab-llama-spm.gguf",
        "llama-vocabs/models/ggml-vocab-phi-3.gguf", "llama-vocabs/models/ggml-vocab-baichuan.gguf",
        "llama-vocabs/models/ggml-vocab-gpt-2.gguf", "llama-vocabs/models/ggml-vocab-refact.gguf",
        "llama-vocabs/models/ggml-vocab-starcoder.gguf"};
    int32_t opened = 0;
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        int32_t counts[2];
        struct tokenizer *tokenizer = text_golden_open(names[i]);
        if (tokenizer == NULL) {
            continue;
        }
        check(tokenizer, counts);
        printf("%s: %d begin with the space, %d may follow it\n", names[i], counts[0], counts[1]);
        assert_true(counts[0] > 1000 && counts[1] > 1000);
        tokenizer_close(tokenizer);
        opened++;
    }
    if (opened == 0) {
        skip_test();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_vocabularies)};
    return skip_status(cmocka_run_group_tests(tests, NULL, NULL), (int)ARRAY_COUNT(tests));
}
