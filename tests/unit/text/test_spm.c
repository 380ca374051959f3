/*
 * Goal: SentencePiece BPE on vocabularies small enough to follow by hand: order of joins, space
 * prefix, byte fallback, unknown characters, extra spaces.
 * Method: scores are chosen per test; "_" below is U+2581 in the vocabulary.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "engine/base/mem.h"
#include "tests/unit/text/text_rig.h"

#define MARK "\xE2\x96\x81"

static struct text_rig rig;

/* The letters, and a mark, with the lowest scores. */
static int32_t add_letters(const char *const *letters, int32_t count)
{
    int32_t mark = text_rig_add(&rig, MARK, RIG_NORMAL, -1000);
    for (int32_t i = 0; i < count; i++) {
        text_rig_add(&rig, letters[i], RIG_NORMAL, -1000);
    }
    return mark;
}

static const char *const abc[] = {"a", "b", "c"};

static void test_join_order(void **state)
{
    (void)state;
    text_rig_spm(&rig, true);
    int32_t mark = add_letters(abc, 3);
    int32_t a = mark + 1;
    int32_t b = mark + 2;
    int32_t ab = text_rig_add(&rig, "ab", RIG_NORMAL, -2);
    int32_t bc = text_rig_add(&rig, "bc", RIG_NORMAL, -1);
    int32_t mark_a = text_rig_add(&rig, MARK "a", RIG_NORMAL, -2);
    int32_t marks = text_rig_add(&rig, MARK MARK, RIG_NORMAL, -3);
    text_rig_bool(&rig, "tokenizer.ggml.add_space_prefix", false);
    struct tokenizer *t = text_rig_open(&rig);
    RIG_IDS(t, "abc", 0, a, bc); /* the higher score first */
    RIG_IDS(t, "ab", 0, ab);
    RIG_IDS(t, " ab", 0, mark_a, b); /* of equal scores the leftmost */
    RIG_IDS(t, "a b", 0, a, mark, b);
    RIG_IDS(t, "a   b", 0, a, marks, mark, b);
    RIG_IDS(t, MARK "a", 0, mark_a); /* a mark in the text is a space */
    tokenizer_close(t);
}

static void test_prefix(void **state)
{
    (void)state;
    text_rig_spm(&rig, true);
    int32_t mark = add_letters(abc, 3);
    int32_t a = mark + 1;
    int32_t mark_a = text_rig_add(&rig, MARK "a", RIG_NORMAL, -1);
    struct tokenizer *t = text_rig_open(&rig); /* the prefix is the default */
    RIG_IDS(t, "a", 0, mark_a);
    RIG_IDS(t, "a", TOKENIZE_CONTINUES, a);
    RIG_IDS(t, "a", TOKENIZE_ADD, 1, mark_a); /* so is BOS */
    RIG_IDS(t, " a", 0, mark, mark_a);
    RIG_IDS(t, "<s>a</s>a", TOKENIZE_SPECIAL | TOKENIZE_ADD, 1, mark_a, 2, mark_a);
    RIG_IDS(t, "a</s>a", TOKENIZE_SPECIAL | TOKENIZE_CONTINUES, a, 2, mark_a);
    assert_true(text_rig_ids(t, "", 0, NULL, 0)); /* nothing to put a prefix before */
    assert_true(tokenizer_adds_bos(t));
    assert_false(tokenizer_adds_eos(t));
    tokenizer_close(t);
}

static void test_bytes_and_unknown(void **state)
{
    (void)state;
    text_rig_spm(&rig, true);
    int32_t byte = 3;
    int32_t a = text_rig_add(&rig, "a", RIG_NORMAL, -1);
    struct tokenizer *t = text_rig_open(&rig);
    /* Not even the mark has a piece. */
    RIG_IDS(t, "a\xC3\xA9", 0, byte + 0xE2, byte + 0x96, byte + 0x81, a, byte + 0xC3, byte + 0xA9);
    tokenizer_close(t);

    text_rig_spm(&rig, false);
    a = text_rig_add(&rig, "a", RIG_NORMAL, -1);
    text_rig_bool(&rig, "tokenizer.ggml.add_space_prefix", false);
    t = text_rig_open(&rig);
    RIG_IDS(t, "axya z", 0, a, 0, a, 0); /* one unknown token for a run of them */
    tokenizer_close(t);

    rig.types[0] = RIG_NORMAL; /* now there is no unknown token */
    t = text_rig_open(&rig);
    struct token_list list;
    struct err_info info = {0};
    token_list_init(&list, 10);
    assert_int_equal(tokenizer_encode(t, "a", 1, 0, &list, &info), ERR_OK);
    assert_int_equal(tokenizer_encode(t, "aax", 3, 0, &list, &info), ERR_TOKENIZER);
    assert_int_equal(list.count, 1); /* a failed call leaves the list as it was */
    token_list_free(&list);
    tokenizer_close(t);
}

static void test_extra_spaces(void **state)
{
    (void)state;
    text_rig_spm(&rig, true);
    int32_t mark = add_letters(abc, 3);
    int32_t a = mark + 1;
    int32_t b = mark + 2;
    text_rig_bool(&rig, "tokenizer.ggml.remove_extra_whitespaces", true);
    struct tokenizer *t = text_rig_open(&rig);
    RIG_IDS(t, "  a   b  ", 0, mark, a, mark, b);
    RIG_IDS(t, " a  b ", TOKENIZE_CONTINUES, mark, a, mark, b);
    assert_true(text_rig_ids(t, "   ", 0, NULL, 0));
    static const int32_t expected[][2] = {{2, 2}, {2, 3}, {3, 4}, {6, 7}};
    struct token_list list;
    int32_t(*spans)[2] = NULL;
    token_list_init(&list, 10);
    assert_int_equal(tokenizer_encode_spans(t, "  a   b  ", 9, 0, &list, &spans, NULL), ERR_OK);
    assert_int_equal(list.count, 4);
    assert_memory_equal(spans, expected, sizeof(expected));
    mem_free(spans);
    token_list_free(&list);
    tokenizer_close(t);
}

/* A piece with a space inside forbids going word by word; ids must not depend on the way. */
static void test_inner_space(void **state)
{
    (void)state;
    text_rig_spm(&rig, true);
    int32_t mark = add_letters(abc, 3);
    int32_t a = mark + 1;
    text_rig_add(&rig, "a" MARK, RIG_NORMAL, -5);
    int32_t phrase = text_rig_add(&rig, "a" MARK "b", RIG_NORMAL, -4);
    text_rig_bool(&rig, "tokenizer.ggml.add_space_prefix", false);
    struct tokenizer *t = text_rig_open(&rig);
    RIG_IDS(t, "a ba", 0, phrase, a);
    tokenizer_close(t);
}

static void test_types(void **state)
{
    (void)state;
    text_rig_spm(&rig, true);
    int32_t mark = add_letters(abc, 3);
    int32_t a = mark + 1;
    int32_t b = mark + 2;
    text_rig_add(&rig, "ab", RIG_UNUSED, 0);
    text_rig_add(&rig, "a ", RIG_NORMAL, 0);
    text_rig_add(&rig, "a b", RIG_NORMAL, 0);             /* a real space: never met in text */
    int32_t tag = text_rig_add(&rig, "<a>", RIG_USER, 0); /* parsed always */
    int32_t gap = text_rig_add(&rig, MARK MARK MARK, RIG_USER, 0);
    text_rig_bool(&rig, "tokenizer.ggml.add_space_prefix", false);
    struct tokenizer *t = text_rig_open(&rig);
    RIG_IDS(t, "ab", 0, a, b);
    RIG_IDS(t, "a b", 0, a, mark, b);
    RIG_IDS(t, "a<a>b", 0, a, tag, b);
    RIG_IDS(t, "a    b", 0, a, gap, mark, b);
    RIG_IDS(t, "a<s", 0, a, 3 + '<', 3 + 's');
    RIG_IDS(t, "<s>", 0, 3 + '<', 3 + 's', 3 + '>'); /* plain text is plain text */
    RIG_IDS(t, "<s>", TOKENIZE_SPECIAL, 1);
    RIG_IDS(t, "<unk>", TOKENIZE_SPECIAL, 0);
    assert_int_equal(tokenizer_type(t, 3 + 'a'), TOKEN_TYPE_BYTE);
    assert_int_equal(tokenizer_type(t, gap), TOKEN_TYPE_USER);
    tokenizer_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_join_order),
        cmocka_unit_test(test_prefix),
        cmocka_unit_test(test_bytes_and_unknown),
        cmocka_unit_test(test_extra_spaces),
        cmocka_unit_test(test_inner_space),
        cmocka_unit_test(test_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
