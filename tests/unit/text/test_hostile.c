/*
 * Goal: a model file cannot make a tokenizer that misbehaves: each broken vocabulary is refused
 * with the key that is to blame; running out of memory is an error wherever it happens; and limits
 * hold.
 * Method: a good vocabulary, broken in one place per case; every allocation made to fail once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "engine/base/attr.h"
#include "engine/base/mem.h"
#include "engine/text/vocab.h"
#include "tests/unit/text/text_rig.h"

static struct text_rig rig;
static char long_piece[VOCAB_PIECE_BYTES_MAX + 2];

static void reset_bpe(void)
{
    text_rig_bpe(&rig, "gpt-2");
    text_rig_merge(&rig, "a b", "ab");
    text_rig_add(&rig, "<|end|>", RIG_CONTROL, 0);
}

static void reset_spm(void)
{
    text_rig_spm(&rig, true);
    text_rig_add(&rig, "a", RIG_NORMAL, -1);
}

static void refused(enum err code, const char *key)
{
    struct tokenizer *tokenizer = NULL;
    struct err_info info = {0};
    uint64_t held = mem_bytes(MEM_TOKENIZER);
    assert_int_equal(text_rig_try(&rig, &tokenizer, &info), code);
    assert_null(tokenizer);
    assert_int_equal(info.code, code);
    assert_string_equal(info.where, key);
    assert_int_equal(mem_bytes(MEM_TOKENIZER), held);
}

static void test_models(void **state)
{
    (void)state;
    reset_bpe();
    rig.model = "rwkv";
    refused(ERR_UNSUPPORTED, "tokenizer.ggml.model");
    rig.model = NULL;
    refused(ERR_FORMAT, "tokenizer.ggml.model");
    reset_bpe();
    rig.pre = "gpt-4o";
    refused(ERR_UNSUPPORTED, "tokenizer.ggml.pre");
    rig.pre = NULL;
    refused(ERR_FORMAT, "tokenizer.ggml.pre");
    reset_spm();
    text_rig_u32(&rig, "tokenizer.ggml.precompiled_charsmap", 1);
    refused(ERR_UNSUPPORTED, "tokenizer.ggml.precompiled_charsmap");
}

static void test_tokens(void **state)
{
    (void)state;
    reset_bpe();
    rig.count = 0;
    refused(ERR_FORMAT, "tokenizer.ggml.tokens");
    reset_bpe();
    text_rig_add(&rig, "", RIG_NORMAL, 0);
    refused(ERR_FORMAT, "tokenizer.ggml.tokens");
    reset_bpe();
    memset(long_piece, 'x', sizeof(long_piece) - 1);
    text_rig_add(&rig, long_piece, RIG_NORMAL, 0);
    refused(ERR_FORMAT, "tokenizer.ggml.tokens");
    long_piece[VOCAB_PIECE_BYTES_MAX] = '\0'; /* at the limit */
    struct tokenizer *tokenizer = text_rig_open(&rig);
    assert_int_equal(detokenizer_bound(tokenizer), 3 * (VOCAB_PIECE_BYTES_MAX + 1));
    tokenizer_close(tokenizer);
}

static void test_types_and_scores(void **state)
{
    (void)state;
    reset_bpe();
    rig.type_count = rig.count - 1;
    refused(ERR_FORMAT, "tokenizer.ggml.token_type");
    reset_bpe();
    rig.types[5] = 7;
    refused(ERR_FORMAT, "tokenizer.ggml.token_type");
    rig.types[5] = 0;
    refused(ERR_FORMAT, "tokenizer.ggml.token_type");
    rig.types[5] = RIG_BYTE; /* but it is not spelled as a byte */
    refused(ERR_FORMAT, "tokenizer.ggml.tokens");
    reset_spm();
    rig.no_types = true;
    refused(ERR_FORMAT, "tokenizer.ggml.token_type");
    reset_spm();
    rig.no_scores = true;
    refused(ERR_FORMAT, "tokenizer.ggml.scores");
    reset_spm();
    rig.score_count = rig.count + 1;
    refused(ERR_FORMAT, "tokenizer.ggml.scores");
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        reset_spm();
        rig.scores[rig.count - 1] = bad[i];
        refused(ERR_FORMAT, "tokenizer.ggml.scores");
    }
}

static void test_bytes(void **state)
{
    (void)state;
    static const char *const bad[] = {"<0x100>", "<0xG0>", "<0x0>", "0x00", "<0x00> "};
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        reset_spm();
        rig.tokens[3] = bad[i];
        refused(ERR_FORMAT, "tokenizer.ggml.tokens");
    }
    reset_spm();
    rig.tokens[3] = rig.tokens[4]; /* one byte twice */
    refused(ERR_FORMAT, "tokenizer.ggml.tokens");
    reset_spm();
    rig.types[3] = RIG_NORMAL; /* 255 of 256 */
    refused(ERR_FORMAT, "tokenizer.ggml.token_type");
}

static void test_merges(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "", " ", "a", "ab", "a ", " a", "a zz", "zz a", "b a", "a b "};
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        reset_bpe();
        rig.merges[0] = bad[i];
        refused(ERR_FORMAT, "tokenizer.ggml.merges");
    }
    reset_bpe();
    text_rig_merge(&rig, "a c", "ac");
    rig.types[rig.count - 1] = RIG_CONTROL; /* plain text would speak it */
    refused(ERR_FORMAT, "tokenizer.ggml.merges");
    reset_bpe();
    rig.no_merges = true;
    refused(ERR_FORMAT, "tokenizer.ggml.merges");
}

static void test_ids(void **state)
{
    (void)state;
    static const char *const keys[] = {"tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id",
        "tokenizer.ggml.fim_pre_token_id", "tokenizer.ggml.suffix_token_id"};
    for (size_t i = 0; i < ARRAY_COUNT(keys); i++) {
        reset_bpe();
        text_rig_u32(&rig, keys[i], (uint32_t)rig.count);
        refused(ERR_FORMAT, keys[i]);
        reset_bpe();
        text_rig_u32(&rig, keys[i], UINT32_MAX);
        refused(ERR_FORMAT, keys[i]);
        reset_bpe();
        text_rig_u32(&rig, keys[i], (uint32_t)rig.count - 1);
        tokenizer_close(text_rig_open(&rig));
    }
    reset_bpe();
    text_rig_bool(&rig, "tokenizer.ggml.add_bos_token", true);
    refused(ERR_FORMAT, "tokenizer.ggml.add_bos_token");
    reset_bpe();
    text_rig_bool(&rig, "tokenizer.ggml.add_eos_token", true);
    refused(ERR_FORMAT, "tokenizer.ggml.add_eos_token");
}

static void test_limits(void **state)
{
    (void)state;
    reset_bpe();
    struct tokenizer *t = text_rig_open(&rig);
    struct token_list list;
    struct err_info info = {0};
    token_list_init(&list, 3);
    assert_int_equal(tokenizer_encode(t, "xyz", 3, 0, &list, &info), ERR_OK); /* at the limit */
    assert_int_equal(list.count, 3);
    list.count = 1;
    assert_int_equal(tokenizer_encode(t, "xyz", 3, 0, &list, &info), ERR_LIMIT);
    assert_int_equal(info.limit, 3);
    assert_int_equal(list.count, 1);
    /* Nothing of an overlong or broken text is looked at. */
    assert_int_equal(tokenizer_encode(t, "", (size_t)1 << 40, 0, &list, &info), ERR_LIMIT);
    assert_int_equal(tokenizer_encode(t, "a\xFF", 2, 0, &list, &info), ERR_TOKENIZER);
    assert_int_equal(tokenizer_encode(t, "\xED\xA0\x80", 3, 0, &list, &info), ERR_TOKENIZER);
    assert_int_equal(list.count, 1);
    token_list_free(&list);
    tokenizer_close(t);
}

/* Opening with the nth allocation failing, until none fails any more. */
static void fail_opening(void)
{
    size_t bytes;
    unsigned char *file = text_rig_file(&rig, &bytes);
    struct gguf *gguf = NULL;
    assert_int_equal(gguf_open_memory(file, bytes, &gguf, NULL), ERR_OK);
    uint64_t held = mem_bytes(MEM_TOKENIZER);
    enum err err = ERR_NO_MEMORY;
    for (uint64_t nth = 1; err != ERR_OK; nth++) {
        struct tokenizer *tokenizer = NULL;
        mem_fail_after(nth, 0);
        err = tokenizer_open_gguf(gguf, &tokenizer, NULL);
        mem_fail_after(0, 0);
        assert_true(err == ERR_OK || err == ERR_NO_MEMORY);
        assert_true((err == ERR_OK) == (tokenizer != NULL));
        if (tokenizer != NULL) { /* what tokenizer_bytes says is what it holds */
            assert_int_equal(tokenizer_bytes(tokenizer), mem_bytes(MEM_TOKENIZER) - held);
        }
        tokenizer_close(tokenizer);
        assert_int_equal(mem_bytes(MEM_TOKENIZER), held);
        assert_true(nth < 100);
    }
    gguf_close(gguf);
    free(file);
}

static void fail_encoding(void)
{
    static const char text[] = "ab e\xCC\x81 <|end|> \xE2\x96\x81 ba";
    struct tokenizer *t = text_rig_open(&rig);
    uint64_t held = mem_bytes(MEM_REQUESTS);
    enum err err = ERR_NO_MEMORY;
    for (uint64_t nth = 1; err != ERR_OK; nth++) {
        struct token_list list;
        int32_t(*spans)[2] = NULL;
        token_list_init(&list, 1000);
        mem_fail_after(nth, 0);
        err = tokenizer_encode_spans(
            t, text, sizeof(text) - 1, TOKENIZE_SPECIAL, &list, &spans, NULL);
        mem_fail_after(0, 0);
        assert_true(err == ERR_OK || err == ERR_NO_MEMORY);
        assert_true(err == ERR_OK ? list.count > 0 : list.count == 0 && spans == NULL);
        mem_free(spans);
        token_list_free(&list);
        assert_int_equal(mem_bytes(MEM_REQUESTS), held);
        assert_true(nth < 100);
    }
    tokenizer_close(t);
}

static void reset_unigram(void)
{
    reset_spm();
    rig.model = "t5";
    rig.pre = NULL;
    text_rig_add(&rig, "\u2581", RIG_NORMAL, -2);
}

/* Without byte tokens, whose spelling is nothing to BERT. */
static void reset_wordpiece(void)
{
    text_rig_spm(&rig, false);
    rig.model = "bert";
    rig.pre = NULL;
    rig.no_scores = true;
    text_rig_add(&rig, "\u2581ab", RIG_NORMAL, 0);
    text_rig_add(&rig, "ba", RIG_NORMAL, 0);
}

static void test_unigram(void **state)
{
    (void)state;
    reset_unigram();
    rig.no_types = true;
    refused(ERR_FORMAT, "tokenizer.ggml.token_type");
    reset_unigram();
    rig.no_scores = true;
    refused(ERR_FORMAT, "tokenizer.ggml.scores");
    reset_unigram();
    rig.score_count = rig.count - 1;
    refused(ERR_FORMAT, "tokenizer.ggml.scores");
    reset_unigram();
    rig.scores[5] = NAN;
    refused(ERR_FORMAT, "tokenizer.ggml.scores");
    static const char *const keys[] = {"tokenizer.ggml.precompiled_charsmap",
        "tokenizer.ggml.add_space_prefix", "tokenizer.ggml.remove_extra_whitespaces"};
    for (size_t i = 0; i < ARRAY_COUNT(keys); i++) {
        reset_unigram();
        text_rig_u32(&rig, keys[i], 1);
        refused(ERR_FORMAT, keys[i]);
    }
    reset_unigram();
    struct tokenizer *t = text_rig_open(&rig); /* EOS is never asked for where it is not named */
    assert_false(tokenizer_adds_eos(t));
    RIG_IDS(t, "a \xC3\xA9", 0, 260, 259, 260, 3 + 0xC3, 3 + 0xA9);
    tokenizer_close(t);
}

static void test_wordpiece(void **state)
{
    (void)state;
    reset_wordpiece();
    text_rig_u32(&rig, "tokenizer.ggml.normalizer.lowercase", 1);
    refused(ERR_FORMAT, "tokenizer.ggml.normalizer.lowercase");
    reset_wordpiece();
    text_rig_bool(&rig, "tokenizer.ggml.add_bos_token", true);
    refused(ERR_FORMAT, "tokenizer.ggml.add_bos_token");
    reset_wordpiece();
    struct tokenizer *t = text_rig_open(&rig);
    RIG_IDS(t, "ABBA ab", 0, 3, 4, 3);
    struct token_list list;
    token_list_init(&list, 10);
    assert_int_equal(tokenizer_encode(t, "ab x", 4, 0, &list, NULL), ERR_TOKENIZER);
    assert_int_equal(list.count, 0); /* no unknown token is named */
    token_list_free(&list);
    tokenizer_close(t);
    text_rig_u32(&rig, "tokenizer.ggml.unknown_token_id", 0);
    text_rig_u32(&rig, "tokenizer.ggml.cls_token_id", 1);
    text_rig_u32(&rig, "tokenizer.ggml.seperator_token_id", 2);
    t = text_rig_open(&rig);
    RIG_IDS(t, "ab abx", TOKENIZE_ADD, 1, 3, 0, 2);
    tokenizer_close(t);
    text_rig_bool(&rig, "tokenizer.ggml.normalizer.lowercase", false);
    t = text_rig_open(&rig);
    RIG_IDS(t, "ab AB", 0, 3, 0);
    tokenizer_close(t);
}

static void test_no_memory(void **state)
{
    (void)state;
    reset_bpe();
    rig.pre = "qwen2";
    fail_opening();
    fail_encoding();
    reset_spm();
    fail_opening();
    fail_encoding();
    reset_unigram();
    fail_opening();
    fail_encoding();
    reset_wordpiece();
    text_rig_u32(&rig, "tokenizer.ggml.unknown_token_id", 0);
    fail_opening();
    fail_encoding();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_models),
        cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_types_and_scores),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_merges),
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_unigram),
        cmocka_unit_test(test_wordpiece),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
