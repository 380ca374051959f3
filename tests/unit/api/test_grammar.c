/*
 * Goal: an automaton takes exactly the texts that its expression or its form of JSON describes, and
 * a text can always be ended from where it stands. Method: tables of texts; walks by random bytes
 * that must come to an end; expressions that are refused, with the byte they are refused at.
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

static struct arena arena;
static void whole_alphabet(struct grammar_alphabet *alphabet)
{
    memset(alphabet->has, 1, sizeof alphabet->has);
}

static enum err build(const char *pattern, enum grammar_spelling spelling, struct grammar *grammar,
    struct err_info *info)
{
    struct grammar_builder builder;
    struct grammar_alphabet alphabet;
    int32_t end;
    whole_alphabet(&alphabet);
    arena_drop(&arena);
    arena_init(&arena, MEM_REQUESTS, 4096, 64 << 20);
    grammar_begin(&builder, &arena);
    int32_t start = grammar_state(&builder);
    enum err err = grammar_regex(&builder, pattern, strlen(pattern), spelling, start, &end, info);
    if (err != ERR_OK) {
        return err;
    }
    grammar_final(&builder, end);
    return grammar_finish(&builder, start, &alphabet, grammar, info);
}

static bool matches(const struct grammar *grammar, const char *text)
{
    struct grammar_set set, next;
    grammar_start(grammar, &set);
    for (const char *c = text; *c != '\0'; c++) {
        if (!grammar_step(grammar, &set, (uint8_t)*c, &next)) {
            return false;
        }
        set = next;
    }
    return set.accepts;
}

static void expressions_match_whole_texts(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *yes[4], *no[4];
    } rows[] = {
        {"abc", {"abc"}, {"", "ab", "abcd", "xabc"}},
        {"^a|b", {NULL}, {NULL}}, /* refused below */
        {"a|bc|", {"a", "bc", ""}, {"b", "abc"}},
        {"a*b+c?", {"b", "aab", "bbc"}, {"", "a", "bcc"}},
        {"(ab){2,3}", {"abab", "ababab"}, {"ab", "abababab", "aba"}},
        {"x{0}y{2,}", {"yy", "yyyyy"}, {"y", "xyy"}},
        {"[a-c\\d-]+", {"a-9", "-"}, {"d", ""}},
        {"[^a]b",
            {"bb",
                "\xC3\xA4"
                "b",
                "\xF0\x9F\x98\x80"
                "b"},
            {"ab", "b",
                "\xC3"
                "b"}},
        {"[\xC3\xA4-\xC3\xBC]", {"\xC3\xA4", "\xC3\xB6"}, {"\xC3", "\xC3\xA3", "\xC3\xBD"}},
        {"[\\u0800-\\uFFFF]", {"\xE0\xA0\x80", "\xEF\xBF\xBF", "\xED\x9F\xBF"},
            {"\xED\xA0\x80", "\xE0\x9F\xBF", "\xF0\x90\x80\x80"}},
        {".", {"a", "\xE2\x82\xAC"}, {"\n", "", "ab"}},
        {"\\.\\[\\x41", {".[A"}, {"x[A"}},
        {"[^\\s]|\\S", {"a", "\xC3\xA9"}, {"\xC2\xA0", "\xEF\xBB\xBF", " ", "\xE2\x80\xA8"}},
        {"[^\\S]|[\\s]|.", {" ", "\xC2\xA0"}, {"\xE2\x80\xA8", "\xE2\x80\xA9", "aa"}},
        {"(?:a|(b))c", {"ac", "bc"}, {"c", "abc"}},
        {"\\S\\s\\w\\W", {"a a "}, {"  a ", "aaa "}},
        {"(a*)*b", {"b", "aaab"}, {"a"}},
        {"^a+?$", {"a", "aa"}, {""}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct grammar grammar;
        struct err_info info;
        enum err err = build(rows[i].pattern, GRAMMAR_PLAIN, &grammar, &info);
        assert_int_equal(err, rows[i].yes[0] == NULL ? ERR_UNSUPPORTED_FIELD : ERR_OK);
        if (err != ERR_OK) {
            continue;
        }
        assert_true(grammar_valid(&grammar));
        for (size_t k = 0; k < 4; k++) {
            if (rows[i].yes[k] != NULL && !matches(&grammar, rows[i].yes[k])) {
                fail_msg("%s does not match %s", rows[i].pattern, rows[i].yes[k]);
            }
            if (rows[i].no[k] != NULL && matches(&grammar, rows[i].no[k])) {
                fail_msg("%s matches %s", rows[i].pattern, rows[i].no[k]);
            }
        }
    }
}

static void expressions_within_strings(void **state)
{
    (void)state;
    struct grammar grammar;
    struct err_info info;
    assert_int_equal(build("^[\"-#]\\n\\\\$", GRAMMAR_IN_STRING, &grammar, &info), ERR_OK);
    assert_true(matches(&grammar, "\\\"\\n\\\\"));
    assert_true(matches(&grammar, "#\\n\\\\"));
    assert_false(matches(&grammar, "\"\\n\\\\"));
    assert_int_equal(build("b", GRAMMAR_IN_STRING, &grammar, &info), ERR_OK);
    assert_true(matches(&grammar, "abc"));
    assert_false(matches(&grammar, "ac"));
}

static void bad_expressions_name_a_byte(void **state)
{
    (void)state;
    static const struct {
        const char *pattern;
        enum err err;
        int64_t offset;
    } rows[] = {
        {"ab)", ERR_INVALID, 2},
        {"(a", ERR_INVALID, 2},
        {"[a", ERR_INVALID, 2},
        {"*a", ERR_INVALID, 0},
        {"a**", ERR_UNSUPPORTED_FIELD, 2},
        {"a{2", ERR_INVALID, 3},
        {"a{1001}", ERR_LIMIT, 5},
        {"a{3,2}", ERR_INVALID, 6},
        {"(?=a)", ERR_UNSUPPORTED_FIELD, 2},
        {"(a)\\1", ERR_UNSUPPORTED_FIELD, 4},
        {"a^b", ERR_UNSUPPORTED_FIELD, 1},
        {"a\\", ERR_INVALID, 2},
        {"[b-a]", ERR_INVALID, 4},
        {"\\xZZ", ERR_INVALID, 2},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct grammar grammar;
        struct err_info info;
        enum err err = build(rows[i].pattern, GRAMMAR_PLAIN, &grammar, &info);
        if (err != rows[i].err || info.offset != rows[i].offset) {
            fail_msg("%s: error %d at %d", rows[i].pattern, (int)err, (int)info.offset);
        }
    }
    struct grammar grammar;
    struct err_info info;
    assert_int_equal(build("((a{900}){900}){900}", GRAMMAR_PLAIN, &grammar, &info), ERR_LIMIT);
    assert_int_equal(build("()", GRAMMAR_PLAIN, &grammar, &info), ERR_INVALID);
    assert_int_equal(build("(ab[])?$", GRAMMAR_PLAIN, &grammar, &info), ERR_INVALID);
}

static struct grammar any_value(int32_t *out_levels)
{
    struct grammar_builder builder;
    struct grammar_alphabet alphabet;
    struct grammar grammar;
    whole_alphabet(&alphabet);
    arena_drop(&arena);
    arena_init(&arena, MEM_REQUESTS, 4096, 64 << 20);
    grammar_begin(&builder, &arena);
    int32_t entry = grammar_json_value(&builder);
    assert_int_equal(grammar_finish(&builder, entry, &alphabet, &grammar, NULL), ERR_OK);
    *out_levels = GRAMMAR_DEPTH;
    return grammar;
}

static void json_values(void **state)
{
    (void)state;
    static const char *const yes[] = {"null", "-0.5e+10", "\"a\\u00e9\\n\xC3\xA9\"", "[]", "{}",
        "[1, 2,[3]]", "{\"a\": [true], \"\":{}}", "123456789012345", "0"};
    static const char *const no[] = {"nul", "01", "1.", "+1", "\"\\ud800\"", "\"\n\"", "[1,]",
        "{\"a\"}", "[1 ,2]", "{,}", "1234567890123456", "\"\xED\xA0\x80\"", "\"\xFF\"", "'a'"};
    int32_t levels;
    struct grammar grammar = any_value(&levels);
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++) {
        if (!matches(&grammar, yes[i])) {
            fail_msg("%s is not taken", yes[i]);
        }
    }
    for (size_t i = 0; i < sizeof no / sizeof *no; i++) {
        if (matches(&grammar, no[i])) {
            fail_msg("%s is taken", no[i]);
        }
    }
    char deep[2 * GRAMMAR_DEPTH + 8];
    for (int32_t over = 0; over < 2; over++) { /* the outermost list is no call */
        size_t lists = (size_t)(levels + 1 + over);
        memset(deep, '[', lists);
        memset(deep + lists, ']', lists);
        deep[2 * lists] = '\0';
        assert_int_equal(matches(&grammar, deep), over == 0);
    }
}

/* Random bytes among those that may follow, openings preferred: never a place without one. */
static void walks_never_end_in_nothing(void **state)
{
    (void)state;
    int32_t levels;
    struct grammar grammar = any_value(&levels);
    for (uint64_t walk = 0; walk < 20; walk++) {
        struct grammar_set set, next;
        grammar_start(&grammar, &set);
        for (uint64_t n = 0; n < 400 && set.count > 0; n++) {
            uint8_t start = (uint8_t)(rng_uniform(7, (uint32_t)walk, n) * 256);
            int32_t tried = 0;
            uint8_t byte = n < 60 ? '[' : start;
            while (!grammar_step(&grammar, &set, byte, &next) && tried < 256) {
                byte = (uint8_t)(start + tried++);
            }
            assert_true(tried < 256 || set.accepts);
            set = next;
        }
    }
}

/* A rule that calls itself first, and one that never ends. */
static void rules_without_a_text_are_refused(void **state)
{
    (void)state;
    struct grammar_alphabet alphabet;
    whole_alphabet(&alphabet);
    for (int32_t before = 0; before < 2; before++) {
        struct grammar_builder builder;
        struct grammar grammar;
        arena_drop(&arena);
        arena_init(&arena, MEM_REQUESTS, 4096, 64 << 20);
        grammar_begin(&builder, &arena);
        int32_t entry = grammar_state(&builder);
        int32_t from = before ? grammar_text(&builder, entry, "a", 1) : entry;
        int32_t end = grammar_state(&builder);
        grammar_calls(&builder, from, entry, end);
        grammar_final(&builder, end);
        assert_int_equal(grammar_finish(&builder, entry, &alphabet, &grammar, NULL), ERR_INVALID);
    }
}

/* As many words as a request may have, of one beginning: none is forgotten. */
static void words_share_their_beginnings(void **state)
{
    (void)state;
    enum { WORDS = 1024 };
    static char texts[WORDS][16];
    static struct grammar_word words[WORDS + 2];
    struct grammar_builder builder;
    struct grammar_alphabet alphabet;
    struct grammar grammar;
    whole_alphabet(&alphabet);
    arena_drop(&arena);
    arena_init(&arena, MEM_REQUESTS, 4096, 64 << 20);
    for (int32_t i = 0; i < WORDS; i++) {
        (void)snprintf(texts[i], sizeof texts[i], "label %d", (int)(i * 7 % WORDS));
        words[i] = (struct grammar_word){texts[i], strlen(texts[i])};
    }
    words[WORDS] = words[3]; /* twice */
    words[WORDS + 1] = (struct grammar_word){"la", 2};
    grammar_begin(&builder, &arena);
    int32_t start = grammar_state(&builder), end = grammar_state(&builder);
    grammar_words(&builder, start, words, WORDS + 2, end);
    grammar_final(&builder, end);
    assert_int_equal(grammar_finish(&builder, start, &alphabet, &grammar, NULL), ERR_OK);
    for (int32_t i = 0; i < WORDS; i++) {
        assert_true(matches(&grammar, texts[i]));
    }
    assert_true(matches(&grammar, "la"));
    assert_false(matches(&grammar, "label "));
    assert_false(matches(&grammar, "label 1024"));
}

/* States and moves at their bounds, and one past them. */
static void bounds_of_a_grammar(void **state)
{
    (void)state;
    for (int32_t kind = 0; kind < 2; kind++) {
        for (int32_t over = 0; over < 2; over++) {
            struct grammar_builder builder;
            struct grammar_alphabet alphabet;
            struct grammar grammar;
            whole_alphabet(&alphabet);
            arena_drop(&arena);
            arena_init(&arena, MEM_REQUESTS, 4096, 64 << 20);
            grammar_begin(&builder, &arena);
            int32_t start = grammar_state(&builder), end = grammar_state(&builder);
            grammar_bytes(&builder, start, 'a', 'a', end);
            grammar_final(&builder, end);
            for (int32_t i = 2; kind == 0 && i < GRAMMAR_STATES + over; i++) {
                (void)grammar_state(&builder);
            }
            for (int32_t i = 1; kind == 1 && i < GRAMMAR_EDGES + over; i++) {
                grammar_bytes(&builder, start, 'a', 'a', end);
            }
            assert_int_equal(grammar_finish(&builder, start, &alphabet, &grammar, NULL),
                over ? ERR_LIMIT : ERR_OK);
        }
    }
}

/* Ranges of a class at their bound, and one past it. */
static void bounds_of_a_class(void **state)
{
    (void)state;
    for (int32_t over = 0; over < 2; over++) {
        char pattern[2 * 257 + 3] = "[";
        for (int32_t i = 0; i < 256 + over; i++) {
            (void)snprintf(pattern + 1 + 2 * i, 4, "%c%c]", 0xC4 + i / 64, 0x80 + i % 64);
        }
        struct grammar grammar;
        struct err_info info;
        enum err err = build(pattern, GRAMMAR_PLAIN, &grammar, &info);
        assert_int_equal(err, over ? ERR_LIMIT : ERR_OK);
        assert_true(over ? strstr(info.text, "256") != NULL : matches(&grammar, "\xC4\x80"));
    }
}

/* `count` chains "a" then "b" side by side; calls: each "b" in a rule of its own. */
static enum err side_by_side(int32_t count, bool calls, struct grammar *out_grammar)
{
    struct grammar_builder builder;
    struct grammar_alphabet alphabet;
    whole_alphabet(&alphabet);
    arena_drop(&arena);
    arena_init(&arena, MEM_REQUESTS, 4096, 64 << 20);
    grammar_begin(&builder, &arena);
    int32_t start = grammar_state(&builder), end = grammar_state(&builder);
    int32_t rule = grammar_state(&builder), rule_end = grammar_text(&builder, rule, "b", 1);
    grammar_final(&builder, rule_end);
    for (int32_t i = 0; i < count; i++) {
        int32_t from = calls ? start : grammar_text(&builder, start, "a", 1);
        int32_t to = calls ? grammar_state(&builder) : end;
        if (calls) {
            grammar_calls(&builder, from, rule, to);
            grammar_empty(&builder, to, end);
        } else {
            grammar_bytes(&builder, from, 'b', 'b', to);
        }
    }
    grammar_final(&builder, end);
    return grammar_finish(&builder, start, &alphabet, out_grammar, NULL);
}

/* One way more than a set holds loses it, and it says so; at the start it is refused. */
static void ways_and_moves_at_their_bounds(void **state)
{
    (void)state;
    struct grammar grammar;
    struct grammar_set set, next;
    for (int32_t over = 0; over < 2; over++) {
        assert_int_equal(side_by_side(GRAMMAR_WAYS + over, false, &grammar), ERR_OK);
        grammar_start(&grammar, &set);
        assert_false(set.lost);
        assert_int_equal(grammar_step(&grammar, &set, 'a', &next), over == 0);
        assert_int_equal(next.lost, over);
        assert_int_equal(next.count, GRAMMAR_WAYS);
        assert_int_equal(
            side_by_side(GRAMMAR_WAYS + over, true, &grammar), over ? ERR_LIMIT : ERR_OK);
    }
    assert_int_equal(side_by_side(GRAMMAR_MOVES, true, &grammar), ERR_LIMIT);
}

/* A byte that leads to no end, or that no token has, does not hold a text open. */
static void bytes_without_an_end_are_none(void **state)
{
    (void)state;
    struct grammar_builder builder;
    struct grammar_alphabet alphabet;
    struct grammar grammar;
    struct grammar_set set, next;
    whole_alphabet(&alphabet);
    alphabet.has['c'] = false;
    arena_drop(&arena);
    arena_init(&arena, MEM_REQUESTS, 4096, 64 << 20);
    grammar_begin(&builder, &arena);
    int32_t start = grammar_state(&builder), end;
    assert_int_equal(
        grammar_regex(&builder, "a(b[^\\d\\D])?(c)?", 16, GRAMMAR_PLAIN, start, &end, NULL),
        ERR_OK);
    grammar_final(&builder, end);
    assert_int_equal(grammar_finish(&builder, start, &alphabet, &grammar, NULL), ERR_OK);
    grammar_start(&grammar, &set);
    assert_int_equal(set.count, 1);
    assert_true(grammar_step(&grammar, &set, 'a', &next));
    assert_true(next.accepts);
    assert_int_equal(next.count, 0);
}

static int teardown(void **state)
{
    (void)state;
    arena_drop(&arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(expressions_match_whole_texts),
        cmocka_unit_test(expressions_within_strings),
        cmocka_unit_test(bad_expressions_name_a_byte),
        cmocka_unit_test(json_values),
        cmocka_unit_test(walks_never_end_in_nothing),
        cmocka_unit_test(rules_without_a_text_are_refused),
        cmocka_unit_test(words_share_their_beginnings),
        cmocka_unit_test(bounds_of_a_grammar),
        cmocka_unit_test(bounds_of_a_class),
        cmocka_unit_test(ways_and_moves_at_their_bounds),
        cmocka_unit_test(bytes_without_an_end_are_none),
    };
    arena_init(&arena, MEM_REQUESTS, 4096, 64 << 20);
    return cmocka_run_group_tests(tests, NULL, teardown);
}
