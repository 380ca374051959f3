/*
 * Goal: what is shown and which stop string is reported follow stop.h for every text, however the
 * text is cut into pieces; and no more is held back than must be.
 * Method: all texts of up to 7 letters over {a, b} and all sets of two stop strings of up to 3
 * letters, and all of up to 6 over {a, space, end of line} with each indent, cut in every way,
 * against a matcher that searches the whole text; hand-made cases for the limits.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>
#include "engine/sample/stop.h"

enum { TEXT_MAX = 7, STOP_MAX = 3, STOP_KINDS = 2 + 4 + 8 };

/* The word number n over {a, b} in order of length: a, b, aa, ab, ... Returns its length. */
static int32_t word(int32_t n, char *out)
{
    int32_t length = 1;
    while (n >= 1 << length) {
        n -= 1 << length;
        length++;
    }
    for (int32_t i = 0; i < length; i++) {
        out[i] = (char)('a' + (n >> (length - 1 - i) & 1));
    }
    return length;
}

static bool ends_with(const char *text, int32_t count, const struct stop_string *stop)
{
    return count >= stop->count &&
           memcmp(text + count - stop->count, stop->bytes, (size_t)stop->count) == 0;
}

/* Where the last line of the text begins; *out_blanks = how many blanks it begins with. */
static int32_t last_line(const char *text, int32_t n, int32_t *out_blanks)
{
    int32_t line = n;
    while (line > 0 && text[line - 1] != '\n') {
        line--;
    }
    *out_blanks = 0;
    while (line + *out_blanks < n && strchr(" \t", text[line + *out_blanks]) != NULL) {
        ++*out_blanks;
    }
    return line;
}

struct ends {
    const struct stop_string *stops;
    int32_t stop_count, indent_min;
};

/* The definition: the first end of any match; there the longest, then the first in the list; or the
 * first ink of a later line that stands too far left. Returns how much of the text may be shown in
 * the end. */
static int32_t search(const struct ends *ends, const char *text, int32_t n, int32_t *out)
{
    const struct stop_string *stops = ends->stops;
    int32_t stop_count = ends->stop_count;
    *out = -1;
    for (int32_t end = 1; end <= n && *out < 0; end++) {
        int32_t best = 0;
        for (int32_t s = 0; s < stop_count; s++) {
            if (ends_with(text, end, &stops[s]) && stops[s].count > best) {
                best = stops[s].count;
                *out = s;
            }
        }
        if (*out >= 0) {
            return end - best;
        }
        int32_t blanks, line = last_line(text, end, &blanks);
        bool ink = line + blanks == end - 1 && strchr("\r\n", text[end - 1]) == NULL;
        if (line > 0 && ink && blanks < ends->indent_min) {
            return line;
        }
    }
    return n;
}

/* Length of the longest ending of the text that is a proper beginning of a stop string, or of a
 * line whose blanks are too few yet. */
static int32_t must_hold(const struct ends *ends, const char *text, int32_t n)
{
    int32_t blanks, line = last_line(text, n, &blanks);
    bool open = line > 0 && line + blanks == n && blanks < ends->indent_min;
    for (int32_t held = n; held > (open ? blanks : 0); held--) {
        for (int32_t s = 0; s < ends->stop_count; s++) {
            const struct stop_string *stop = &ends->stops[s];
            if (held < stop->count && memcmp(text + n - held, stop->bytes, (size_t)held) == 0) {
                return held;
            }
        }
    }
    return open ? blanks : 0;
}

/* Bit i of cuts: a piece ends after byte i. */
static void check_split(const struct ends *ends, const char *text, int32_t n, uint32_t cuts)
{
    struct stop_matcher matcher;
    char shown[TEXT_MAX + 1];
    size_t count = 0;
    stop_init(&matcher, ends->stops, ends->stop_count, ends->indent_min);
    for (int32_t from = 0, i = 0; i < n; i++) {
        if (i + 1 < n && !(cuts >> i & 1)) {
            continue;
        }
        size_t bytes = (size_t)(i + 1 - from);
        char out[2 * TEXT_MAX];
        size_t released = stop_push(&matcher, text + from, bytes, out);
        assert_true(count + released <= (size_t)n);
        memcpy(shown + count, out, released);
        count += released;
        from = i + 1;
        int32_t matched;
        int32_t visible = search(ends, text, from, &matched);
        bool ended = matched >= 0 || visible < from;
        assert_int_equal(matcher.matched, matched);
        assert_int_equal(matcher.outdented, ended && matched < 0);
        int32_t held = ended ? 0 : must_hold(ends, text, from);
        assert_int_equal(matcher.held_count, held);
        assert_int_equal(count, visible - held);
        assert_memory_equal(shown, text, count);
    }
    char out[LIMIT_STOP_BYTES];
    size_t released = stop_end(&matcher, out);
    assert_memory_equal(out, text + count, released);
    int32_t matched;
    assert_int_equal(count + released, search(ends, text, n, &matched));
    assert_int_equal(stop_end(&matcher, out), 0);
}

static void test_every_split_of_every_text(void **state)
{
    char first[STOP_MAX], second[STOP_MAX], text[TEXT_MAX];
    for (int32_t a = 0; a < STOP_KINDS; a++) {
        for (int32_t b = 0; b < STOP_KINDS; b++) {
            struct stop_string stops[2] = {{first, word(a, first)}, {second, word(b, second)}};
            const struct ends ends = {stops, 2, 0};
            for (int32_t t = 0; t < (2 << TEXT_MAX) - 2; t++) {
                int32_t n = word(t, text);
                for (uint32_t cuts = 0; cuts < 1u << (n - 1); cuts++) {
                    check_split(&ends, text, n, cuts);
                }
            }
        }
    }
}

/* Borders longer than a letter: the automaton must fall back more than one step. */
static void test_periodic_stops(void **state)
{
    static const char *const lists[][3] = {
        {"aabaaa", "aab", "ba"}, {"abaabab", "bab", "aaa"}, {"aaaaab", "aaaab", "aaab"}};
    char text[14];
    for (size_t l = 0; l < sizeof(lists) / sizeof(lists[0]); l++) {
        struct stop_string stops[3];
        for (int32_t s = 0; s < 3; s++) {
            stops[s] = (struct stop_string){lists[l][s], (int32_t)strlen(lists[l][s])};
        }
        for (int32_t count = 1; count <= 3; count++) {
            const struct ends ends = {stops, count, 0};
            for (int32_t t = (1 << TEXT_MAX) - 2; t < (2 << TEXT_MAX) - 2; t++) {
                int32_t n = word(t, text);
                check_split(&ends, text, n, 0);
                check_split(&ends, text, n, UINT32_MAX);
            }
        }
    }
}

/* Each indent, with no stop string, one that a line's ink ends and one that a line's end begins. */
static void test_every_split_of_every_indent(void **state)
{
    static const struct stop_string stops[2] = {{" a", 2}, {"\n \n", 3}};
    static const char letters[] = "a \n\r";
    (void)state;
    for (int32_t n = 1; n <= 6; n++) {
        for (int32_t t = 0; t < 1 << (2 * n); t++) {
            char text[TEXT_MAX];
            for (int32_t i = 0; i < n; i++) {
                text[i] = letters[t >> (2 * i) & 3];
            }
            for (int32_t k = 0; k < 12; k++) { /* indents 0 to 3 with the stops: none, each alone */
                const struct ends ends = {stops + k % 3 / 2, k % 3 > 0, k / 3};
                check_split(&ends, text, n, 0);
                check_split(&ends, text, n, UINT32_MAX);
                check_split(&ends, text, n, (uint32_t)t);
            }
        }
    }
}

static void test_nothing_after_an_outdent(void **state)
{
    (void)state;
    struct stop_matcher matcher;
    char out[16];
    stop_init(&matcher, NULL, 0, 4);
    assert_int_equal(stop_push(&matcher, "a\n  ", 4, out), 2);
    assert_int_equal(stop_push(&matcher, "  b\n  ", 6, out), 6);
    assert_memory_equal(out, "    b\n", 6);
    assert_int_equal(stop_push(&matcher, " c", 2, out), 0);
    assert_true(matcher.outdented);
    assert_int_equal(stop_push(&matcher, "\n    d", 6, out), 0);
    assert_int_equal(stop_end(&matcher, out), 0);
}

static void test_nothing_after_a_match(void **state)
{
    const struct stop_string stops[1] = {{"\n\n", 2}};
    struct stop_matcher matcher;
    char out[16];
    stop_init(&matcher, stops, 1, 0);
    assert_int_equal(stop_push(&matcher, "one\n", 4, out), 3);
    assert_int_equal(stop_push(&matcher, "\ntwo", 4, out), 0);
    assert_int_equal(matcher.matched, 0);
    assert_int_equal(stop_push(&matcher, "three", 5, out), 0);
    assert_int_equal(stop_end(&matcher, out), 0);
}

static void test_without_stops_all_passes(void **state)
{
    struct stop_matcher matcher;
    char out[4];
    stop_init(&matcher, NULL, 0, 0);
    assert_int_equal(stop_push(&matcher, "text", 4, out), 4);
    assert_memory_equal(out, "text", 4);
    assert_int_equal(stop_push(&matcher, "", 0, out), 0);
    assert_int_equal(stop_end(&matcher, out), 0);
}

/* The longest stop string, every one of the most stop strings, and bytes that are no text. */
static void test_limits(void **state)
{
    static char longest[LIMIT_STOP_BYTES];
    struct stop_string stops[LIMIT_STOPS];
    memset(longest, 0xff, sizeof(longest));
    longest[0] = '\0';
    for (int32_t s = 0; s < LIMIT_STOPS; s++) {
        stops[s] = (struct stop_string){longest + s, LIMIT_STOP_BYTES - s};
    }
    struct stop_matcher matcher;
    static char out[2 * LIMIT_STOP_BYTES];
    stop_init(&matcher, stops, 1, 0);
    assert_int_equal(stop_push(&matcher, longest, LIMIT_STOP_BYTES - 1, out), 0);
    assert_int_equal(matcher.held_count, LIMIT_STOP_BYTES - 1);
    assert_int_equal(stop_push(&matcher, "x", 1, out), LIMIT_STOP_BYTES);
    assert_memory_equal(out, longest, LIMIT_STOP_BYTES - 1);
    assert_int_equal(stop_push(&matcher, longest, LIMIT_STOP_BYTES, out), 0);
    assert_int_equal(matcher.matched, 0);

    stop_init(&matcher, stops, LIMIT_STOPS, 0);
    assert_int_equal(stop_push(&matcher, longest, LIMIT_STOP_BYTES, out), 15 - 14);
    assert_int_equal(matcher.matched, LIMIT_STOPS - 1); /* the shortest of them ends first */

    /* As many blanks are held as the longest indent asks for, but for the last. */
    memset(longest, ' ', sizeof(longest));
    stop_init(&matcher, NULL, 0, LIMIT_STOP_BYTES);
    assert_int_equal(stop_push(&matcher, "\n", 1, out), 1);
    assert_int_equal(stop_push(&matcher, longest, LIMIT_STOP_BYTES - 1, out), 0);
    assert_int_equal(stop_push(&matcher, " ", 1, out), LIMIT_STOP_BYTES);
    assert_int_equal(stop_push(&matcher, "x", 1, out), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_split_of_every_text),
        cmocka_unit_test(test_periodic_stops),
        cmocka_unit_test(test_every_split_of_every_indent),
        cmocka_unit_test(test_nothing_after_an_outdent),
        cmocka_unit_test(test_nothing_after_a_match),
        cmocka_unit_test(test_without_stops_all_passes),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
