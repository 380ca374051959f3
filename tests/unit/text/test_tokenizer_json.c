/*
 * Goal: what a folder's files say about special tokens ends up where the rest of the program looks
 * for it, and texts go through chains with their offsets. (Ids of whole layouts are in
 * tests/golden/text/test_tokenizer_json.c.)
 * Method: files written here, with the expected ids by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "engine/base/mem.h"
#include "engine/text/tokenizer_json.h"
#include "tests/unit/text/text_rig.h"

#define ADDED(id, content, special, more)                                                          \
    "{\"id\":" id ",\"content\":\"" content "\",\"special\":" special more "}"

static const char bert[] = "{\"added_tokens\":[" ADDED("0", "[UNK]", "true", "") "," ADDED(
    "1", "[CLS]", "true", "") "," ADDED("2", "[SEP]", "true", "") "," ADDED("3", "[MASK]", "true",
    ",\"lstrip\":true") "," ADDED("9", "New York", "false",
    ",\"single_word\":true") "],"
                             "\"normalizer\":{\"type\":\"BertNormalizer\"},\"pre_tokenizer\":{"
                             "\"type\":\"BertPreTokenizer\"},"
                             "\"post_processor\":{\"type\":\"BertProcessing\",\"cls\":[\"[CLS]\",1]"
                             ",\"sep\":[\"[SEP]\",2]},"
                             "\"decoder\":{\"type\":\"WordPiece\"},"
                             "\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\",\"vocab\":{"
                             "\"[UNK]\":0,\"[CLS]\":1,"
                             "\"[SEP]\":2,\"[MASK]\":3,\"cafe\":4,\"s\":5,\"##s\":6,\"!\":7,"
                             "\"\u4e00\":8}}}";

/* Words of a, each behind a space. The letters of bytes are not in the vocabulary but for "a". */
static const char roberta[] = "{\"added_tokens\":[" ADDED("0", "<s>", "true", "") "," ADDED("1",
    "</s>", "true",
    "") "],"
        "\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true},"
        "\"post_processor\":{\"type\":\"RobertaProcessing\",\"cls\":[\"<s>\",0],\"sep\":[\"</"
        "s>\",1]},"
        "\"decoder\":{\"type\":\"ByteLevel\"},"
        "\"model\":{\"type\":\"BPE\",\"vocab\":{\"<s>\":0,\"</"
        "s>\":1,\"a\":2,\"\u0120\":3,\"\u0120a\":4},"
        "\"merges\":[\"\u0120 a\"]}}";

static const char llama[] = "{\"added_tokens\":[" ADDED("0", "<unk>", "true", "") "," ADDED(
    "1", "<s>", "true", "") "," ADDED("2", "</s>", "true",
    "") "],"
        "\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"Metaspace\",\"prepend_scheme\":"
        "\"first\","
        "\"split\":false},\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":["
        "{\"SpecialToken\":{\"id\":\"<s>\",\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":"
        "0}}],"
        "\"special_tokens\":{\"<s>\":{\"ids\":[1]}}},"
        "\"decoder\":{\"type\":\"Metaspace\",\"prepend_scheme\":\"first\"},"
        "\"model\":{\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"vocab\":{\"<unk>\":0,\"<s>\":1,\"</"
        "s>\":2,"
        "\"\u2581\":3,\"a\":4,\"\u2581a\":5},\"merges\":[[\"\u2581\",\"a\"]]}}";

static struct tokenizer *opened(const struct tokenizer_json *files)
{
    struct tokenizer *tokenizer = NULL;
    struct err_info info = {0};
    if (tokenizer_open_json(files, &tokenizer, &info) != ERR_OK) {
        printf("does not open: %s: %s\n", info.where, info.text);
        abort();
    }
    return tokenizer;
}

static struct tokenizer_json files_of(const char *text)
{
    return (struct tokenizer_json){.tokenizer = text, .tokenizer_bytes = strlen(text), .bos = -1};
}

static void test_specials(void **state)
{
    (void)state;
    static const char config[] =
        "{\"mask_token\":\"[MASK]\",\"pad_token\":{\"content\":\"s\",\"lstrip\":false},"
        "\"cls_token\":\"[CLS]\",\"bos_token\":null,\"unk_token\":\"\",\"other\":[1]}";
    struct tokenizer_json files = files_of(bert);
    files.config = config;
    files.config_bytes = strlen(config);
    files.rows = 12;
    struct tokenizer *t = opened(&files);
    assert_int_equal(tokenizer_vocab(t), 12);
    assert_int_equal(tokenizer_special(t, TOKEN_BOS), 1);
    assert_int_equal(tokenizer_special(t, TOKEN_EOS), 2);
    assert_int_equal(tokenizer_special(t, TOKEN_UNK), 0);
    assert_int_equal(tokenizer_special(t, TOKEN_CLS), 1);
    assert_int_equal(tokenizer_special(t, TOKEN_SEP), -1);
    assert_int_equal(tokenizer_special(t, TOKEN_PAD), 5);
    assert_int_equal(tokenizer_special(t, TOKEN_MASK), 3);
    assert_true(tokenizer_adds_bos(t) && tokenizer_adds_eos(t));
    assert_int_equal(tokenizer_type(t, 1), TOKEN_TYPE_CONTROL);
    assert_int_equal(tokenizer_type(t, 0), TOKEN_TYPE_UNKNOWN);
    assert_int_equal(tokenizer_type(t, 9), TOKEN_TYPE_USER);
    assert_int_equal(tokenizer_type(t, 11), TOKEN_TYPE_UNUSED);
    assert_string_equal(tokenizer_stored_piece(t, 11), "[PAD11]");
    assert_string_equal(tokenizer_stored_piece(t, 6), "##s");
    assert_int_equal(tokenizer_find(t, "##s", 3), 6);
    RIG_IDS(t, "[PAD11]", TOKENIZE_SPECIAL, 0, 0, 0);
    RIG_IDS(t, "[CLS]s", TOKENIZE_ADD | TOKENIZE_SPECIAL, 1, 1, 5, 2);
    RIG_IDS(t, "[CLS]", 0, 0, 0, 0); /* spelled out, it is text */
    tokenizer_close(t);
}

static void test_ends(void **state)
{
    (void)state;
    int32_t ends[LIMIT_END_TOKENS];
    struct tokenizer_json files = files_of(llama);
    files.ends[0] = 2;
    files.ends[1] = 4;
    files.end_count = 2;
    files.bos = 4; /* what the template says goes before */
    struct tokenizer *t = opened(&files);
    assert_int_equal(tokenizer_special(t, TOKEN_BOS), 1);
    assert_int_equal(tokenizer_special(t, TOKEN_EOS), 2);
    assert_true(tokenizer_adds_bos(t) && !tokenizer_adds_eos(t));
    assert_int_equal(tokenizer_ends(t, ends), 2);
    assert_int_equal(ends[0], 2);
    assert_int_equal(ends[1], 4);
    RIG_IDS(t, "<s>a", TOKENIZE_ADD | TOKENIZE_SPECIAL, 1, 4); /* no second one */
    tokenizer_close(t);

    /* An end by name, another appended: both end a text. */
    static const char config[] = "{\"eos_token\":\"[MASK]\"}";
    files = files_of(bert);
    files.config = config;
    files.config_bytes = strlen(config);
    t = opened(&files);
    assert_int_equal(tokenizer_special(t, TOKEN_EOS), 2);
    assert_int_equal(tokenizer_ends(t, ends), 2);
    assert_int_equal(ends[0], 3);
    assert_int_equal(ends[1], 2);
    tokenizer_close(t);
}

static void test_prefixes(void **state)
{
    (void)state;
    struct tokenizer_json files = files_of(llama);
    struct tokenizer *t = opened(&files);
    RIG_IDS(t, "a", 0, 5);
    RIG_IDS(t, "a", TOKENIZE_CONTINUES, 4);
    RIG_IDS(t, "a a", TOKENIZE_CONTINUES, 4, 5);
    RIG_IDS(t, "a</s>a", TOKENIZE_SPECIAL, 5, 2, 4); /* "first" is of the text */
    RIG_IDS(t, "", TOKENIZE_ADD, 1);
    tokenizer_close(t);
    files = files_of(roberta);
    t = opened(&files);
    RIG_IDS(t, "a", 0, 4);
    RIG_IDS(t, "a", TOKENIZE_CONTINUES, 2);
    RIG_IDS(t, "a</s>a", TOKENIZE_SPECIAL, 4, 1, 4); /* each fragment has its own */
    RIG_IDS(t, "a</s>a", TOKENIZE_SPECIAL | TOKENIZE_CONTINUES, 2, 1, 4);
    tokenizer_close(t);
}

static void check_spans(const struct tokenizer *t, const char *text, int32_t count,
    const int32_t *ids, int32_t (*expected)[2])
{
    struct token_list list;
    int32_t(*spans)[2] = NULL;
    token_list_init(&list, 100);
    assert_int_equal(tokenizer_encode_spans(t, text, strlen(text), TOKENIZE_ADD | TOKENIZE_SPECIAL,
                         &list, &spans, NULL),
        ERR_OK);
    assert_int_equal(list.count, count);
    assert_memory_equal(list.ids, ids, (size_t)count * sizeof(*ids));
    assert_memory_equal(spans, expected, (size_t)count * sizeof(*expected));
    mem_free(spans);
    token_list_free(&list);
}

static void test_spans(void **state)
{
    (void)state;
    struct tokenizer_json files = files_of(bert);
    struct tokenizer *t = opened(&files);
    /* Accents, a control character and case go, an ideograph stands alone. */
    check_spans(t, "CAF\xC3\x89s!\x01  \xE4\xB8\x80s", 7, (const int32_t[]){1, 4, 6, 7, 8, 5, 2},
        (int32_t[][2]){{0, 0}, {0, 5}, {5, 6}, {6, 7}, {10, 13}, {13, 14}, {14, 14}});
    /* A mask takes the blank before it; "New York" is found in normalized text, as whole words. */
    check_spans(t, "s [MASK] NEW york", 5, (const int32_t[]){1, 5, 3, 9, 2},
        (int32_t[][2]){{0, 0}, {0, 1}, {1, 8}, {9, 17}, {17, 17}});
    check_spans(t, "new yorks", 4, (const int32_t[]){1, 0, 0, 2},
        (int32_t[][2]){{0, 0}, {0, 3}, {4, 9}, {9, 9}});
    tokenizer_close(t);
}

/* Blanks that one token took along may be another token's again, as in the reference; and a long
 * run of them is not looked through once for each. */
static void test_blanks(void **state)
{
    (void)state;
    enum { BLANKS = 1 << 20 };
    static const char file[] = "{\"added_tokens\":[" ADDED(
        "0", "  ", "false", ",\"normalized\":false,\"rstrip\":true") "," ADDED("1", " b", "false",
        ",\"normalized\":false,\"lstrip\":true,\"rstrip\":true") "],"
                                                                 "\"model\":{\"type\":\"BPE\","
                                                                 "\"vocab\":{\"a\":2,\" "
                                                                 "\":3},\"merges\":[]}}";
    struct tokenizer_json files = files_of(file);
    struct tokenizer *t = opened(&files);
    RIG_IDS(t, "a    a", 0, 2, 0, 0, 2);
    RIG_IDS(t, "a b b a", 0, 2, 1, 1, 2);
    RIG_IDS(t, "a \t b\n a", 0, 2, 1, 2);
    char *text = malloc(BLANKS);
    assert_non_null(text);
    memset(text, ' ', BLANKS);
    struct token_list list;
    token_list_init(&list, INT32_MAX);
    assert_int_equal(tokenizer_encode(t, text, BLANKS, 0, &list, NULL), ERR_OK);
    assert_int_equal(list.count, BLANKS / 2);
    token_list_free(&list);
    free(text);
    tokenizer_close(t);
}

static void test_back(void **state)
{
    (void)state;
    static const int32_t ids[] = {1, 4, 6, 7, 9, 8, 2};
    struct tokenizer_json files = files_of(bert);
    struct tokenizer *t = opened(&files);
    struct detokenizer d;
    char out[64] = {0};
    size_t count = 0;
    detokenizer_init(&d, t, false, false);
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        count += detokenizer_push(&d, ids[i], out + count, sizeof(out) - count);
    }
    assert_string_equal(out, "cafes !New York \u4e00");
    detokenizer_init(&d, t, false, true); /* behind other text the space counts */
    memset(out, 0, sizeof(out));
    (void)detokenizer_push(&d, 4, out, sizeof(out));
    assert_string_equal(out, " cafe");
    tokenizer_close(t);
}

/* A chain that lengthens every text 32 times a step stops at a bound. */
static void test_growth(void **state)
{
    (void)state;
    static const char front[] = "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[";
    static const char step[] = "{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":"
                               "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}";
    static const char back[] = "]},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}";
    char text[4096];
    char many[1000];
    snprintf(text, sizeof(text), "%s%s,%s,%s%s", front, step, step, step, back);
    memset(many, 'a', sizeof(many));
    struct tokenizer_json files = files_of(text);
    struct tokenizer *t = opened(&files);
    struct token_list list;
    struct err_info info = {0};
    token_list_init(&list, INT32_MAX);
    assert_int_equal(tokenizer_encode(t, many, sizeof(many), 0, &list, &info), ERR_LIMIT);
    assert_int_equal(list.count, 0);
    assert_int_equal(tokenizer_encode(t, "", 0, 0, &list, &info), ERR_OK);
    token_list_free(&list);
    tokenizer_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_specials),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_prefixes),
        cmocka_unit_test(test_spans),
        cmocka_unit_test(test_blanks),
        cmocka_unit_test(test_back),
        cmocka_unit_test(test_growth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
