/*
 * Goal: no text and no vocabulary makes time grow faster than n log n, and checking a large
 * vocabulary is cheap (R35).
 * Method: processor time of this thread; a neighbour that takes the caches spoils one measurement,
 * slow code spoils each of four. Single words of 256 KB and of 1 MB, each in a shape that has
 * trapped some tokenizer, may differ by a factor of 8 (n log n gives 4.4, quadratic 16).
 * Vocabularies of 256k and 1M tokens with a merge each, and without merges.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "engine/base/mem.h"
#include "tests/scale.h"
#include "tests/unit/text/text_rig.h"

enum {
    SMALL_BYTES = 1 << 18,
    LARGE_BYTES = 1 << 20,
    SMALL_VOCAB = 1 << 18,
    LARGE_VOCAB = 1 << 20,
    PIECE_BYTES = 16,
    ATTEMPTS = 4,
};

static double cpu_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

/* ---- encoding ------------------------------------------------------------------------------- */

enum shape { SHAPE_SAME, SHAPE_RANDOM, SHAPE_SPACES, SHAPE_NEWLINES, SHAPE_MARKS, SHAPE_COUNT };

static const char *const shape_names[SHAPE_COUNT] = {
    "one letter", "random letters", "spaces", "newlines", "marks"};

static void fill(enum shape shape, char *text, size_t bytes)
{
    uint64_t random = 3;
    for (size_t i = 0; i < bytes; i++) {
        random = random * UINT64_C(6364136223846793005) + 1;
        text[i] = 'a';
        if (shape == SHAPE_RANDOM) {
            text[i] = (char)('a' + (random >> 33) % 26);
        } else if (shape == SHAPE_SPACES) {
            text[i] = ' ';
        } else if (shape == SHAPE_NEWLINES) {
            text[i] = '\n';
        } else if (shape == SHAPE_MARKS) { /* classes 230 and 220 in turn */
            text[i] = "\xCC\x81\xCC\xA3"[i % 4];
        }
    }
}

static double encode_ms(const struct tokenizer *tokenizer, const char *text, size_t bytes)
{
    struct token_list list;
    token_list_init(&list, INT32_MAX);
    double start = cpu_ms();
    assert_int_equal(tokenizer_encode(tokenizer, text, bytes, 0, &list, NULL), ERR_OK);
    double spent = cpu_ms() - start;
    token_list_free(&list);
    return spent;
}

static void check_shapes(const struct tokenizer *tokenizer, const char *name)
{
    char *text = malloc(LARGE_BYTES);
    assert_non_null(text);
    for (int32_t shape = 0; shape < SHAPE_COUNT; shape++) {
        fill((enum shape)shape, text, LARGE_BYTES);
        bool good = false;
        for (int32_t attempt = 0; attempt < ATTEMPTS && !good; attempt++) {
            double small = encode_ms(tokenizer, text, SMALL_BYTES);
            double large = encode_ms(tokenizer, text, LARGE_BYTES);
            printf("%s, %s: %.0f ms for 256 KB, %.0f ms for 1 MB\n", name, shape_names[shape],
                small, large);
            good = large < 8 * small + 12 * test_scale() && large < 2000 * test_scale();
        }
        assert_true(good);
    }
    free(text);
}

static void test_long_words(void **state)
{
    (void)state;
    static struct text_rig rig;
    static const char *const pre[] = {"gpt-2", "smollm", "llama-bpe", "qwen2"};
    for (int32_t i = 0; i < 4; i++) {
        text_rig_bpe(&rig, pre[i]);
        text_rig_merge(&rig, "a a", "aa");
        text_rig_merge(&rig, "aa aa", "aaaa");
        text_rig_merge(&rig, "b c", "bc");
        text_rig_merge(&rig, "\xC4\xA0 \xC4\xA0", "\xC4\xA0\xC4\xA0");
        struct tokenizer *tokenizer = text_rig_open(&rig);
        check_shapes(tokenizer, pre[i]);
        tokenizer_close(tokenizer);
    }
    text_rig_spm(&rig, true);
    text_rig_add(&rig, "a", RIG_NORMAL, -9);
    text_rig_add(&rig, "aa", RIG_NORMAL, -1);
    text_rig_add(&rig, "aaaa", RIG_NORMAL, -2);
    text_rig_add(&rig, "bc", RIG_NORMAL, -3);
    text_rig_add(&rig, "\xE2\x96\x81\xE2\x96\x81", RIG_NORMAL, -4);
    struct tokenizer *tokenizer = text_rig_open(&rig);
    check_shapes(tokenizer, "sentencepiece");
    tokenizer_close(tokenizer);
    rig.model = "t5";
    tokenizer = text_rig_open(&rig);
    check_shapes(tokenizer, "unigram");
    tokenizer_close(tokenizer);
    text_rig_spm(&rig, false);
    rig.model = "bert";
    text_rig_u32(&rig, "tokenizer.ggml.unknown_token_id", 0);
    text_rig_add(&rig,
        "\xE2\x96\x81"
        "a",
        RIG_NORMAL, 0);
    text_rig_add(&rig, "aa", RIG_NORMAL, 0);
    tokenizer = text_rig_open(&rig);
    check_shapes(tokenizer, "wordpiece");
    tokenizer_close(tokenizer);
}

/* ---- vocabularies --------------------------------------------------------------------------- */

/* Word number `number` of all words over 26 letters, the short ones first. */
static void name_word(int32_t number, char out[PIECE_BYTES])
{
    int32_t length = 1;
    int32_t words = 26;
    for (; number >= words; length++, words *= 26) {
        number -= words;
    }
    out[length] = '\0';
    for (int32_t i = length - 1; i >= 0; i--, number /= 26) {
        out[i] = (char)('a' + number % 26);
    }
}

struct big {
    char (*words)[PIECE_BYTES];
    char (*merges)[PIECE_BYTES];
    const char **list;
    int32_t *types;
    float *scores;
};

static void big_free(struct big *big)
{
    free(big->words);
    free(big->merges);
    free(big->list);
    free(big->types);
    free(big->scores);
}

/* A word of more than one letter is the merge of itself without its last letter, and that. */
static void big_init(struct big *big, int32_t count)
{
    big->words = calloc((size_t)count, PIECE_BYTES);
    big->merges = calloc((size_t)count, PIECE_BYTES);
    big->list = calloc((size_t)count, sizeof(*big->list));
    big->types = calloc((size_t)count, sizeof(*big->types));
    big->scores = calloc((size_t)count, sizeof(*big->scores));
    assert_true(big->words != NULL && big->merges != NULL && big->list != NULL &&
                big->types != NULL && big->scores != NULL);
    for (int32_t i = 0; i < count; i++) {
        name_word(i, big->words[i]);
        size_t length = strlen(big->words[i]);
        snprintf(big->merges[i], PIECE_BYTES, "%.*s %c", (int)length - 1, big->words[i],
            big->words[i][length - 1]);
        big->types[i] = RIG_NORMAL;
        big->scores[i] = (float)-i;
    }
}

static struct gguf *big_file(struct big *big, int32_t count, bool bpe, unsigned char **out_file)
{
    struct gguf_writer writer;
    gguf_writer_init(&writer);
    gguf_writer_string(&writer, "tokenizer.ggml.model", bpe ? "gpt2" : "llama");
    gguf_writer_string(&writer, "tokenizer.ggml.pre", "gpt-2");
    for (int32_t i = 0; i < count; i++) {
        big->list[i] = big->words[i];
    }
    gguf_writer_strings(&writer, "tokenizer.ggml.tokens", big->list, (size_t)count);
    gguf_writer_array(&writer, "tokenizer.ggml.token_type", GGUF_I32, big->types, (size_t)count,
        (size_t)count * sizeof(*big->types));
    if (bpe) {
        for (int32_t i = 26; i < count; i++) {
            big->list[i - 26] = big->merges[i];
        }
        gguf_writer_strings(&writer, "tokenizer.ggml.merges", big->list, (size_t)count - 26);
    } else {
        gguf_writer_array(&writer, "tokenizer.ggml.scores", GGUF_F32, big->scores, (size_t)count,
            (size_t)count * sizeof(*big->scores));
    }
    size_t bytes;
    struct gguf *gguf = NULL;
    *out_file = gguf_writer_finish(&writer, &bytes);
    gguf_writer_free(&writer);
    assert_int_equal(gguf_open_memory(*out_file, bytes, &gguf, NULL), ERR_OK);
    return gguf;
}

static double open_ms(int32_t count, bool bpe)
{
    struct big big;
    unsigned char *file;
    big_init(&big, count);
    struct gguf *gguf = big_file(&big, count, bpe, &file);
    struct tokenizer *tokenizer = NULL;
    double start = cpu_ms();
    assert_int_equal(tokenizer_open_gguf(gguf, &tokenizer, NULL), ERR_OK);
    double spent = cpu_ms() - start;
    assert_int_equal(tokenizer_vocab(tokenizer), count);
    tokenizer_close(tokenizer);
    gguf_close(gguf);
    free(file);
    big_free(&big);
    return spent;
}

static void test_vocabularies(void **state)
{
    (void)state;
    for (int32_t bpe = 0; bpe < 2; bpe++) {
        bool good = false;
        for (int32_t attempt = 0; attempt < ATTEMPTS && !good; attempt++) {
            double small = open_ms(SMALL_VOCAB, bpe != 0);
            double large = open_ms(LARGE_VOCAB, bpe != 0);
            printf("%s: %.0f ms for 256k tokens, %.0f ms for 1M\n", bpe ? "bpe" : "sentencepiece",
                small, large);
            good = small < 300 * test_scale() && large < 5 * small + 100 * test_scale();
        }
        assert_true(good);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_long_words),
        cmocka_unit_test(test_vocabularies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
