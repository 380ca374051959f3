/*
 * Goal: a mask has exactly the tokens whose bytes the grammar can go on with. Method: walks by
 * random tokens of the mask over two kinds of vocabularies with random pieces; at each place every
 * token of the vocabulary is stepped through the grammar alone and compared, twice (kept masks).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "api/grammar.h"
#include "engine/base/rng.h"
#include "engine/sched/token_mask.h"
#include "tests/unit/text/text_rig.h"

enum { PIECES = 400, WALKS = 6, STEPS = 25 };

static const char *const PATTERNS[] = {"(ab|a)+(\xC3\xA9|[b-d]{2})*\"", "(a|b|c)*abc.",
    "[^a]{3,9}|a+", "\\{\"a\":(\"\\w{0,5}\"|\\d+)\\}"};

static struct tokenizer *open_vocab(bool spm, struct text_rig *rig, char (*pieces)[16])
{
    static const char *const parts[] = {"a", "b", "c", "d", "\"", "1", "{", "}", ":", "x"};
    if (spm) {
        text_rig_spm(rig, true);
    } else {
        text_rig_bpe(rig, "gpt-2");
    }
    for (uint64_t i = 0; i < PIECES; i++) {
        char *piece = pieces[i];
        size_t count = 2 + (size_t)(rng_uniform(1, 0, i) * 5);
        (void)snprintf(piece, 16, "%03u", (unsigned)i); /* no two are the same */
        for (size_t k = 0; i % 8 != 0 && k < count; k++) {
            size_t part = (size_t)(rng_uniform(2, (uint32_t)k, i) * 10);
            (void)strcpy(piece + k, parts[part]);
        }
        bool known = false;
        for (uint64_t k = 0; k < i; k++) {
            known = known || strcmp(pieces[k], piece) == 0;
        }
        if (!known) {
            (void)text_rig_add(rig, piece, i % 50 == 0 ? RIG_CONTROL : RIG_NORMAL, -1);
        }
    }
    return text_rig_open(rig);
}

static bool goes_on(const struct grammar *grammar, const struct grammar_set *from,
    const struct tokenizer *tokenizer, int32_t token)
{
    struct grammar_set set = *from, next;
    size_t bytes;
    const char *text = tokenizer_piece(tokenizer, token, false, &bytes);
    for (size_t i = 0; i < bytes; i++) {
        if (!grammar_step(grammar, &set, (uint8_t)text[i], &next)) {
            return false;
        }
        set = next;
    }
    return bytes > 0 && !tokenizer_is_control(tokenizer, token);
}

static void walk(const struct mask_table *table, const struct grammar *grammar,
    struct mask_state *state, struct mask_walk *scratch, uint32_t which)
{
    mask_state_begin(state, grammar);
    for (uint64_t n = 0; n < STEPS && state->now.count > 0; n++) {
        int32_t allowed[RIG_TOKENS_MAX], count = 0;
        for (int32_t twice = 0; twice < 2; twice++) {
            const uint64_t *bits = mask_state_get(state, table, grammar, scratch);
            count = 0;
            assert_non_null(bits);
            for (int32_t id = 0; id < table->vocab; id++) {
                bool fits = goes_on(grammar, &state->now, table->tokenizer, id);
                assert_int_equal(mask_has(bits, id), fits);
                assert_int_equal(mask_state_allows(state, table, grammar, id), fits);
                if (mask_has(bits, id)) {
                    allowed[count++] = id;
                }
            }
        }
        assert_true(count > 0);
        int32_t token = allowed[(int32_t)(rng_uniform(3, which, n) * count)];
        mask_state_take(state, table, grammar, token);
    }
}

static void check_vocab(bool spm)
{
    static struct text_rig rig;
    static char pieces[PIECES][16];
    static struct mask_walk scratch;
    static struct mask_state state;
    struct arena arena;
    memset(&rig, 0, sizeof rig);
    struct tokenizer *tokenizer = open_vocab(spm, &rig, pieces);
    struct mask_table table;
    struct grammar_alphabet alphabet;
    memset(alphabet.has, 1, sizeof alphabet.has);
    assert_int_equal(mask_table_open(&table, tokenizer, NULL, 0), ERR_OK);
    memset(&state, 0, sizeof state);
    assert_int_equal(mask_state_open(&state, table.vocab), ERR_OK);
    arena_init(&arena, MEM_REQUESTS, 4096, 64 << 20);
    for (size_t i = 0; i < sizeof PATTERNS / sizeof *PATTERNS; i++) {
        struct grammar_builder builder;
        struct grammar grammar;
        int32_t end;
        grammar_begin(&builder, &arena);
        int32_t start = grammar_state(&builder);
        assert_int_equal(grammar_regex(&builder, PATTERNS[i], strlen(PATTERNS[i]), GRAMMAR_PLAIN,
                             start, &end, NULL),
            ERR_OK);
        grammar_final(&builder, end);
        assert_int_equal(grammar_finish(&builder, start, &alphabet, &grammar, NULL), ERR_OK);
        for (uint32_t which = 0; which < WALKS; which++) {
            walk(&table, &grammar, &state, &scratch, which);
        }
    }
    arena_drop(&arena);
    mask_state_close(&state);
    mask_table_close(&table);
    tokenizer_close(tokenizer);
}

static void masks_of_byte_level_tokens(void **state)
{
    (void)state;
    check_vocab(false);
}

static void masks_of_sentencepiece_tokens(void **state)
{
    (void)state;
    check_vocab(true);
}

/* A token as long as one may be is used, and one byte more is not: nor in a mask, nor alone. */
static void tokens_at_the_bound_of_their_length(void **unused)
{
    (void)unused;
    static struct text_rig rig;
    static struct mask_walk scratch;
    static struct mask_state state;
    char pieces[2][MASK_TOKEN_BYTES + 2];
    struct arena arena;
    struct mask_table table;
    struct grammar_builder builder;
    struct grammar grammar;
    struct grammar_alphabet alphabet;
    int32_t ids[2], end;
    memset(alphabet.has, 1, sizeof alphabet.has);
    text_rig_bpe(&rig, "gpt-2");
    for (size_t i = 0; i < 2; i++) {
        memset(pieces[i], 'a', MASK_TOKEN_BYTES + i);
        pieces[i][MASK_TOKEN_BYTES + i] = '\0';
        ids[i] = text_rig_add(&rig, pieces[i], RIG_NORMAL, -1);
    }
    struct tokenizer *tokenizer = text_rig_open(&rig);
    assert_int_equal(mask_table_open(&table, tokenizer, NULL, 0), ERR_OK);
    assert_int_equal(mask_state_open(&state, table.vocab), ERR_OK);
    arena_init(&arena, MEM_REQUESTS, 4096, 64 << 20);
    grammar_begin(&builder, &arena);
    int32_t start = grammar_state(&builder);
    assert_int_equal(grammar_regex(&builder, "a+", 2, GRAMMAR_PLAIN, start, &end, NULL), ERR_OK);
    grammar_final(&builder, end);
    assert_int_equal(grammar_finish(&builder, start, &alphabet, &grammar, NULL), ERR_OK);
    mask_state_begin(&state, &grammar);
    const uint64_t *bits = mask_state_get(&state, &table, &grammar, &scratch);
    for (int32_t i = 0; i < 2; i++) {
        assert_int_equal(mask_has(bits, ids[i]), i == 0);
        assert_int_equal(mask_state_allows(&state, &table, &grammar, ids[i]), i == 0);
    }
    arena_drop(&arena);
    mask_state_close(&state);
    mask_table_close(&table);
    tokenizer_close(tokenizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks_of_byte_level_tokens),
        cmocka_unit_test(masks_of_sentencepiece_tokens),
        cmocka_unit_test(tokens_at_the_bound_of_their_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
