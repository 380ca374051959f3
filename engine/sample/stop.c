/*
 * Owns the matching of stop strings: one automaton a stop string, all fed the same bytes; and the
 * indent of the running line.
 *
 * What is held back is the longest progress of any automaton: those bytes are a proper beginning of
 * some stop string, and no longer ending of the text is one; or, if there are more of them, the
 * blanks of a line that are not enough yet. An end therefore always lies within what is held plus
 * the byte at hand, and nothing of it was ever released.
 */
#include "engine/sample/stop.h"

#include <string.h>
#include "engine/base/assert.h"
#include "engine/base/attr.h"

_Static_assert(LIMIT_STOP_BYTES - 1 <= UINT8_MAX, "a border is shorter than its stop string");

/* Progress after one more byte: falls back border by border until the byte fits. A complete match
 * (n == count) cannot occur as input: the matcher stops there. */
static int32_t advance(const struct stop_string *stop, const uint8_t *border, int32_t n, char byte)
{
    while (n > 0 && stop->bytes[n] != byte) {
        n = border[n - 1];
    }
    return stop->bytes[n] == byte ? n + 1 : 0;
}

void stop_init(struct stop_matcher *matcher, const struct stop_string *stops, int32_t stop_count,
    int32_t indent_min)
{
    ASSERT(indent_min >= 0);
    ASSERT(indent_min <= LIMIT_STOP_BYTES);
    ASSERT(stop_count >= 0);
    ASSERT(stop_count <= LIMIT_STOPS);
    *matcher = (struct stop_matcher){.stops = stops,
        .stop_count = stop_count,
        .matched = -1,
        .indent_min = indent_min,
        .indent = -1};
    for (int32_t s = 0; s < stop_count; s++) {
        ASSERT(stops[s].count >= 1);
        ASSERT(stops[s].count <= LIMIT_STOP_BYTES);
        /* The string is run through its own automaton, which is complete as far as it is needed. */
        uint8_t *border = matcher->border[s];
        for (int32_t n = 1; n < stops[s].count; n++) {
            border[n] = (uint8_t)advance(&stops[s], border, border[n - 1], stops[s].bytes[n]);
        }
    }
}

/* Feeds one byte to all automata. Returns the longest progress; *out_matched is the winning stop
 * string or -1. */
static int32_t feed(struct stop_matcher *matcher, char byte, int32_t *out_matched)
{
    int32_t longest = 0, matched = -1;
    for (int32_t s = 0; s < matcher->stop_count; s++) {
        const struct stop_string *stop = &matcher->stops[s];
        int32_t n = advance(stop, matcher->border[s], matcher->progress[s], byte);
        matcher->progress[s] = n;
        longest = MAX(longest, n);
        if (n == stop->count && (matched < 0 || n > matcher->stops[matched].count)) {
            matched = s;
        }
    }
    *out_matched = matched;
    return longest;
}

/* Follows the line. True when the byte is the first ink of one that is indented too little. */
static bool shows_outdent(struct stop_matcher *matcher, char byte)
{
    if (byte == '\n') {
        matcher->indent = 0;
    } else if (matcher->indent >= 0 && (byte == ' ' || byte == '\t')) {
        matcher->indent++;
    } else if (matcher->indent >= 0) {
        if (byte != '\r' && matcher->indent < matcher->indent_min) {
            return true;
        }
        matcher->indent = -1;
    }
    return false;
}

/* Blanks of the running line that may yet be too few. */
static int32_t open_blanks(const struct stop_matcher *matcher)
{
    return matcher->indent < matcher->indent_min ? MAX(matcher->indent, 0) : 0;
}

size_t stop_push(struct stop_matcher *matcher, const char *text, size_t bytes, char *out)
{
    if (matcher->matched >= 0 || matcher->outdented) {
        return 0;
    }
    size_t count = (size_t)matcher->held_count;
    size_t held = count;
    memcpy(out, matcher->held, count);
    matcher->held_count = 0;
    for (size_t i = 0; i < bytes; i++) {
        int32_t matched;
        out[count++] = text[i];
        int32_t longest = feed(matcher, text[i], &matched);
        if (matched >= 0) {
            matcher->matched = matched;
            return count - (size_t)matcher->stops[matched].count;
        }
        if (shows_outdent(matcher, text[i])) {
            matcher->outdented = true;
            return count - 1 - (size_t)matcher->indent;
        }
        held = (size_t)MAX(longest, open_blanks(matcher));
    }
    ASSERT(held < LIMIT_STOP_BYTES);
    ASSERT(held <= count);
    memcpy(matcher->held, out + count - held, held);
    matcher->held_count = (int32_t)held;
    return count - held;
}

size_t stop_end(struct stop_matcher *matcher, char *out)
{
    size_t count = (size_t)matcher->held_count;
    memcpy(out, matcher->held, count);
    matcher->held_count = 0;
    return count;
}
