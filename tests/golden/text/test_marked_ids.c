/*
 * Goal: text that is a client's in part becomes the ids of the plain text, except that no control
 * token comes out of the client's bytes (U4).
 * Method: the reference vocabularies. Texts are put together of spellings of control tokens and of
 * plain pieces, each either our own or a client's, by a fixed seed. Where the client spells
 * nothing, the ids are those of the reference's way (TOKENIZE_SPECIAL); where all is the client's,
 * those without it; else every control token that comes out lies in our own bytes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "engine/base/attr.h"
#include "tests/dice.h"
#include "tests/golden/text/text_golden.h"
#include "tests/skip.h"

enum { PARTS = 8, ROUNDS = 300, TEXT_BYTES = 4096, CONTROLS = 64 };

static const char *const plain[] = {"Hi", " you ", "\n\n", "don't", "  ", "\xC3\xA9t\xC3\xA9",
    "\xE4\xB8\x96\xE7\x95\x8C", "<|", "|>", "x1234", "</", "[INST", " \t", "e\xCC\x81"};

struct sample {
    char text[TEXT_BYTES];
    uint8_t foreign[TEXT_BYTES];
    size_t bytes;
};

static void add(struct sample *sample, const char *text, bool foreign)
{
    size_t bytes = strlen(text);
    memcpy(sample->text + sample->bytes, text, bytes);
    memset(sample->foreign + sample->bytes, foreign, bytes);
    sample->bytes += bytes;
}

static void encode_plain(const struct tokenizer *tokenizer, const struct sample *sample,
    unsigned flags, struct token_list *list)
{
    token_list_init(list, 1 << 16);
    assert_int_equal(
        tokenizer_encode(tokenizer, sample->text, sample->bytes, flags, list, NULL), ERR_OK);
}

static void encode_marked(
    const struct tokenizer *tokenizer, const struct sample *sample, struct token_list *list)
{
    token_list_init(list, 1 << 16);
    assert_int_equal(tokenizer_encode_marked(tokenizer, sample->text, sample->bytes,
                         sample->foreign, TOKENIZE_SPECIAL, list, NULL),
        ERR_OK);
}

static bool same(const struct token_list *left, const struct token_list *right)
{
    return left->count == right->count &&
           (left->count == 0 ||
               memcmp(left->ids, right->ids, (size_t)left->count * sizeof(int32_t)) == 0);
}

static int32_t count_controls(const struct tokenizer *tokenizer, const struct token_list *list)
{
    int32_t count = 0;
    int32_t unknown = tokenizer_special(tokenizer, TOKEN_UNK);
    for (int32_t i = 0; i < list->count; i++) {
        count += tokenizer_is_control(tokenizer, list->ids[i]) && list->ids[i] != unknown;
    }
    return count;
}

/* Spellings that this vocabulary reads as one control token. */
static int32_t find_controls(
    const struct tokenizer *tokenizer, const char *controls[CONTROLS], int32_t count_max)
{
    int32_t count = 0;
    for (int32_t id = 0; id < tokenizer_vocab(tokenizer) && count < count_max; id++) {
        size_t bytes;
        const char *piece = tokenizer_stored_piece(tokenizer, id);
        (void)tokenizer_piece(tokenizer, id, true, &bytes);
        struct token_list list;
        token_list_init(&list, 1000);
        if (id != tokenizer_special(tokenizer, TOKEN_UNK) && tokenizer_is_control(tokenizer, id) &&
            strlen(piece) == bytes && bytes < 100 &&
            tokenizer_encode(tokenizer, piece, bytes, TOKENIZE_SPECIAL, &list, NULL) == ERR_OK &&
            list.count == 1 && list.ids[0] == id) {
            controls[count++] = piece;
        }
        token_list_free(&list);
    }
    return count;
}

/* kind 0: the client spells nothing; 1: all is the client's; 2: both spell. */
static void check(const struct tokenizer *tokenizer, struct dice *dice, const char *const *controls,
    int32_t control_count, int32_t kind)
{
    struct sample sample = {.bytes = 0};
    struct token_list marked;
    struct token_list wanted;
    int32_t own_controls = 0;
    for (int32_t i = 0; i < PARTS; i++) {
        bool foreign = kind == 1 || roll(dice, 2) == 0;
        bool control = roll(dice, 2) == 0 && (kind != 0 || !foreign);
        own_controls += control && !foreign;
        add(&sample,
            control ? controls[roll(dice, control_count)]
                    : plain[roll(dice, (int32_t)ARRAY_COUNT(plain))],
            foreign);
    }
    encode_marked(tokenizer, &sample, &marked);
    if (kind < 2) {
        encode_plain(tokenizer, &sample, kind == 0 ? TOKENIZE_SPECIAL : 0, &wanted);
        assert_true(same(&marked, &wanted));
        token_list_free(&wanted);
    }
    if (kind > 0) {
        assert_int_equal(count_controls(tokenizer, &marked), kind == 1 ? 0 : own_controls);
    }
    token_list_free(&marked);
}

static const char *const names[] = {"", "llama-vocabs/models/ggml-vocab-llama-spm.gguf",
    "llama-vocabs/models/ggml-vocab-phi-3.gguf", "llama-vocabs/models/ggml-vocab-gpt-2.gguf",
    "llama-vocabs/models/ggml-vocab-bert-bge.gguf"};

static void test_vocabularies(void **state)
{
    (void)state;
    int32_t opened = 0;
    struct dice dice = {.seed = 20251130};
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        const char *controls[CONTROLS];
        struct tokenizer *tokenizer = text_golden_open(names[i]);
        if (tokenizer == NULL) {
            continue;
        }
        int32_t count = find_controls(tokenizer, controls, CONTROLS);
        assert_true(count > 0);
        for (int32_t round = 0; round < ROUNDS; round++) {
            check(tokenizer, &dice, controls, count, round % 3);
        }
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
