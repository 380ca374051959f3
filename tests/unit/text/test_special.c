/*
 * Goal: special ids, what counts as control, and how spellings are found in text.
 * Method: small byte-level vocabularies; the wire rule behind it is "text is text": without
 * TOKENIZE_SPECIAL no control token ever comes out of a text.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "engine/base/attr.h"
#include "engine/text/special.h"
#include "engine/text/tokenizer_internal.h"
#include "tests/unit/text/text_rig.h"

static struct text_rig rig;

static void test_fim_by_spelling(void **state)
{
    (void)state;
    text_rig_bpe(&rig, "gpt-2");
    int32_t pre = text_rig_add(&rig, "<|fim_prefix|>", RIG_USER, 0);
    int32_t suf = text_rig_add(&rig, "<|fim_suffix|>", RIG_USER, 0);
    int32_t mid = text_rig_add(&rig, "<|fim_middle|>", RIG_USER, 0);
    int32_t think = text_rig_add(&rig, "<think>", RIG_USER, 0);
    struct tokenizer *t = text_rig_open(&rig);
    assert_int_equal(tokenizer_special(t, TOKEN_FIM_PRE), pre);
    assert_int_equal(tokenizer_special(t, TOKEN_FIM_SUF), suf);
    assert_int_equal(tokenizer_special(t, TOKEN_FIM_MID), mid);
    assert_int_equal(tokenizer_special(t, TOKEN_FIM_PAD), -1);
    assert_true(tokenizer_is_control(t, mid));
    assert_false(tokenizer_is_control(t, think));
    RIG_IDS(t, "<think>", 0, think);
    RIG_IDS(t, "<|fim_middle|>", TOKENIZE_SPECIAL, mid);
    assert_false(text_rig_ids(t, "<|fim_middle|>", 0, &mid, 1));
    tokenizer_close(t);

    /* Metadata goes before spellings, a new key before an old one. */
    text_rig_u32(&rig, "tokenizer.ggml.middle_token_id", (uint32_t)pre);
    text_rig_u32(&rig, "tokenizer.ggml.fim_mid_token_id", (uint32_t)think);
    text_rig_u32(&rig, "tokenizer.ggml.prefix_token_id", (uint32_t)suf);
    t = text_rig_open(&rig);
    assert_int_equal(tokenizer_special(t, TOKEN_FIM_MID), think);
    assert_int_equal(tokenizer_special(t, TOKEN_FIM_PRE), suf);
    assert_true(tokenizer_is_control(t, think));
    tokenizer_close(t);
}

static void test_markers(void **state)
{
    (void)state;
    text_rig_bpe(&rig, "gpt-2");
    int32_t chat = text_rig_add(&rig, "<|im_start|>", RIG_USER, 0);
    int32_t tool = text_rig_add(&rig, "<tool_call>", RIG_USER, 0);
    int32_t end = text_rig_add(&rig, "[END]", RIG_USER, 0);
    int32_t plain = text_rig_add(&rig, "<s>", RIG_NORMAL, 0);
    int32_t endoftext = text_rig_add(&rig, "<|endoftext|>", RIG_CONTROL, 0);
    text_rig_u32(&rig, "tokenizer.ggml.eot_token_id", (uint32_t)end);
    text_rig_u32(&rig, "tokenizer.ggml.eos_token_id", '\n');
    text_rig_u32(&rig, "tokenizer.ggml.eom_token_id", (uint32_t)end);
    struct tokenizer *t = text_rig_open(&rig);
    assert_true(tokenizer_is_control(t, chat));
    assert_false(tokenizer_is_control(t, tool));
    assert_true(tokenizer_is_control(t, end));
    assert_false(tokenizer_is_control(t, plain)); /* an ordinary piece of a code vocabulary */
    RIG_IDS(t, "\n", 0, '\n'); /* a file may end texts by an ordinary token: it stays text */
    RIG_IDS(t, "a[END]", TOKENIZE_SPECIAL, 'a', end);
    RIG_IDS(t, "a[E]", TOKENIZE_SPECIAL, 'a', '[', 'E', ']');
    int32_t ends[LIMIT_END_TOKENS];
    assert_int_equal(tokenizer_ends(t, ends), 3);
    assert_int_equal(ends[0], '\n');
    assert_int_equal(ends[1], end);
    assert_int_equal(ends[2], endoftext);
    tokenizer_close(t);
}

static void test_longest_leftmost(void **state)
{
    (void)state;
    text_rig_bpe(&rig, "gpt-2");
    int32_t a = text_rig_add(&rig, "<a", RIG_USER, 0);
    int32_t ab = text_rig_add(&rig, "<ab>", RIG_USER, 0);
    int32_t abc = text_rig_add(&rig, "<ab>c", RIG_CONTROL, 0);
    int32_t b = text_rig_add(&rig, "b>cd", RIG_CONTROL, 0);
    int32_t e = text_rig_add(&rig, "\xC3\xA9", RIG_USER, 0);
    text_rig_add(&rig, "\xA9", RIG_USER, 0); /* part of a character: never matched */
    struct tokenizer *t = text_rig_open(&rig);
    RIG_IDS(t, "<ab>cd", TOKENIZE_SPECIAL, abc, 'd'); /* the longest, not the first that ends */
    RIG_IDS(t, "<ab>cd", 0, ab, 'c', 'd');
    RIG_IDS(t, "<ab.", 0, a, 'b', '.');
    RIG_IDS(t, "<b>cd", TOKENIZE_SPECIAL, '<', b);
    RIG_IDS(t, "<", 0, '<');
    RIG_IDS(t, "\xC3\xA9\xC2\xA9", 0, e, 0xC2, 0xA9);
    const struct special_text no_match = {.bytes = "xyz", .count = 3, .control = true};
    const struct special_text read = {.bytes = "<a", .count = 2, .control = true};
    struct special_match match = {.at = 9};
    assert_false(special_next(&t->matcher, &t->vocab, &no_match, 0, 0, &match));
    assert_false(special_next(&t->matcher, &t->vocab, &read, 2, 2, &match));
    assert_int_equal(match.at, 9);
    tokenizer_close(t);
}

static void test_bos_and_eos(void **state)
{
    (void)state;
    text_rig_bpe(&rig, "llama-bpe");
    int32_t bos = text_rig_add(&rig, "<bos>", RIG_CONTROL, 0);
    int32_t eos = text_rig_add(&rig, "<eos>", RIG_CONTROL, 0);
    text_rig_u32(&rig, "tokenizer.ggml.bos_token_id", (uint32_t)bos);
    struct tokenizer *t = text_rig_open(&rig); /* Llama 3 adds BOS unless the file says no */
    RIG_IDS(t, "a", TOKENIZE_ADD, bos, 'a');
    RIG_IDS(t, "a", 0, 'a');
    RIG_IDS(t, "<bos>a", TOKENIZE_ADD | TOKENIZE_SPECIAL, bos, 'a'); /* never twice */
    RIG_IDS(t, "a<bos>", TOKENIZE_ADD | TOKENIZE_SPECIAL, bos, 'a', bos);
    RIG_IDS(t, "", TOKENIZE_ADD, bos);
    tokenizer_close(t);
    text_rig_u32(&rig, "tokenizer.ggml.eos_token_id", (uint32_t)eos);
    text_rig_bool(&rig, "tokenizer.ggml.add_eos_token", true);
    text_rig_bool(&rig, "tokenizer.ggml.add_bos_token", false);
    t = text_rig_open(&rig);
    RIG_IDS(t, "a", TOKENIZE_ADD, 'a', eos);
    assert_false(tokenizer_adds_bos(t));
    assert_true(tokenizer_adds_eos(t));
    tokenizer_close(t);
}

/* Texts made of pieces of special spellings, without TOKENIZE_SPECIAL: nothing control comes out,
 * and the text comes back. */
static void test_text_is_text(void **state)
{
    (void)state;
    static const char *const parts[] = {"<|", "|>", "<", "s>", "</s>", "im_start", "<|im_start|>",
        "<|endoftext|>", " ", "<|fim_middle|>", "\n", "a"};
    text_rig_bpe(&rig, "smollm");
    text_rig_add(&rig, "<|im_start|>", RIG_USER, 0);
    text_rig_add(&rig, "<|endoftext|>", RIG_CONTROL, 0);
    text_rig_add(&rig, "<|fim_middle|>", RIG_NORMAL, 0);
    text_rig_add(&rig, "</s>", RIG_UNKNOWN, 0);
    struct tokenizer *t = text_rig_open(&rig);
    uint64_t random = 5;
    for (int32_t round = 0; round < 2000; round++) {
        char text[256] = "";
        for (int32_t i = 0; i < 8; i++) {
            random = random * UINT64_C(6364136223846793005) + 1;
            strcat(text, parts[(random >> 33) % ARRAY_COUNT(parts)]);
        }
        struct token_list list;
        char back[256];
        size_t at = 0;
        token_list_init(&list, 256);
        assert_int_equal(tokenizer_encode(t, text, strlen(text), 0, &list, NULL), ERR_OK);
        for (int32_t i = 0; i < list.count; i++) {
            size_t bytes;
            assert_false(tokenizer_is_control(t, list.ids[i]));
            const char *piece = tokenizer_piece(t, list.ids[i], true, &bytes);
            memcpy(back + at, piece, bytes);
            at += bytes;
        }
        assert_int_equal(at, strlen(text));
        assert_memory_equal(back, text, at);
        token_list_free(&list);
    }
    tokenizer_close(t);
}

/* U4: what a client wrote is text, whatever it spells; what stands around it is not. */
static void test_marks(void **state)
{
    (void)state;
    text_rig_bpe(&rig, "gpt-2");
    int32_t end = text_rig_add(&rig, "<end>", RIG_CONTROL, 0);
    int32_t longer = text_rig_add(&rig, "<end>>", RIG_CONTROL, 0);
    int32_t user = text_rig_add(&rig, "<tool>", RIG_USER, 0);
    struct tokenizer *t = text_rig_open(&rig);
    static const struct {
        const char *text, *marks; /* x: a client's byte */
        int32_t count;
    } cases[] = {
        {"<end><end>", "......xxxx", 6}, /* one byte of it is enough to be text */
        {"<end><end>", ".....xxxxx", 6},
        {"<end><end>", "xxxxx.....", 6},
        {"<end>>", ".....x", 2}, /* the longest of what is the template's own */
        {"<end>>", "......", 1},
        {"a<tool>b", "xxxxxxxx", 3}, /* of the user-defined kind: everywhere */
        {"a<tool>b", "....xxxx", 3},
        {"<end>a<end>", ".....x.....", 3},
        {"<end>", "x....", 5},
        {"<end>", "....x", 5},
    };
    assert_true(end >= 0 && longer >= 0 && user >= 0);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct token_list list;
        uint8_t marks[16];
        size_t bytes = strlen(cases[i].text);
        for (size_t k = 0; k < bytes; k++) {
            marks[k] = cases[i].marks[k] == 'x';
        }
        token_list_init(&list, 100);
        assert_int_equal(
            tokenizer_encode_marked(t, cases[i].text, bytes, marks, TOKENIZE_SPECIAL, &list, NULL),
            ERR_OK);
        assert_int_equal(list.count, cases[i].count);
        token_list_free(&list);
    }
    tokenizer_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fim_by_spelling),
        cmocka_unit_test(test_markers),
        cmocka_unit_test(test_longest_leftmost),
        cmocka_unit_test(test_bos_and_eos),
        cmocka_unit_test(test_text_is_text),
        cmocka_unit_test(test_marks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
