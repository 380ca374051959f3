/*
 * Stop strings across token borders. Text goes in as it is detokenized; what comes out may be
 * shown: bytes that could still be the beginning of a stop string are held back, a stop string and
 * what follows it never come out. The earliest match wins; among matches that begin at the same
 * byte the first in the list. Works on bytes; the bound of held bytes is LIMIT_STOP_BYTES - 1.
 */
#ifndef ENGINE_SAMPLE_STOP_H
#define ENGINE_SAMPLE_STOP_H

#include <stdbool.h>
#include "engine/engine_limits.h"
#include "engine/types.h"

struct stop_matcher {
    const struct stop_string *stops;
    int32_t stop_count;
    char held[LIMIT_STOP_BYTES];
    int32_t held_count;
    int32_t matched; /* index of the stop string that ended the text, -1 = none yet */
};

void stop_init(struct stop_matcher *matcher, const struct stop_string *stops, int32_t stop_count);
/* Appends text; writes what may be released to out (capacity held_count + bytes is enough) and
 * returns its count. After a match everything is swallowed. */
size_t stop_push(struct stop_matcher *matcher, const char *text, size_t bytes, char *out);
/* The text ended without a stop string: releases what was held. */
size_t stop_end(struct stop_matcher *matcher, char *out);

#endif
