/*
 * What ends a text, across token borders: stop strings, and lines that are indented too little.
 * Text goes in as it is detokenized; what comes out may be shown: bytes that could still be the
 * beginning of a stop string or of such a line are held back, a stop string and what follows it
 * never come out, nor does the line.
 *
 * A stop string counts the moment its last byte arrives, so that decoding never goes on for a
 * longer or better one: the match that ends first wins; among those that end at the same byte the
 * longest, so that nothing of it was shown; among equals the first in the list. Works on bytes, so
 * the answer does not depend on how the text was cut into tokens. At most LIMIT_STOP_BYTES - 1
 * bytes are held.
 *
 * Each stop string is followed by its own Knuth-Morris-Pratt automaton (SIAM J. Comput. 6(2),
 * 1977): time is O(stop_count) a byte, amortised, for any text and any stops.
 *
 * A line is indented by its spaces and tabs, a column each. The first line never ends the text, for
 * nobody knows what it continues; nor does a blank one. A stop string that ends with the very byte
 * that shows a line's indent wins.
 */
#ifndef ENGINE_SAMPLE_STOP_H
#define ENGINE_SAMPLE_STOP_H

#include <stddef.h>
#include "engine/engine_limits.h"
#include "engine/types.h"

struct stop_matcher {
    const struct stop_string *stops;
    int32_t stop_count;
    int32_t matched; /* index of the stop string that ended the text, -1 = none yet */
    int32_t indent_min;
    int32_t indent; /* blanks the running line begins with; -1 = it has ink, or is the first */
    bool outdented; /* a line with too few of them ended the text */
    int32_t held_count;
    char held[LIMIT_STOP_BYTES];
    int32_t progress[LIMIT_STOPS]; /* bytes of each stop string that the text ends with */
    /* border[s][n - 1]: longest proper prefix of stop s that its first n bytes also end with. */
    uint8_t border[LIMIT_STOPS][LIMIT_STOP_BYTES];
};

/* `stops` stay the caller's; at most LIMIT_STOPS of 1..LIMIT_STOP_BYTES bytes. indent_min: what
 * lines must be indented by, at most LIMIT_STOP_BYTES; 0 = nothing. */
void stop_init(struct stop_matcher *matcher, const struct stop_string *stops, int32_t stop_count,
    int32_t indent_min);
/* Appends text; writes what may be released to out (capacity held_count + bytes; apart from text)
 * and returns its count. After the end everything is swallowed. */
size_t stop_push(struct stop_matcher *matcher, const char *text, size_t bytes, char *out);
/* The text ended by itself: releases what was held (held_count bytes). */
size_t stop_end(struct stop_matcher *matcher, char *out);

#endif
