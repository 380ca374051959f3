/*
 * The borders of a text that is sampled between others: how it may begin, and where it ends.
 *
 * A space that was taken off the text before it must begin it (BORDER_SPACE), alone in a token or
 * with what follows, and not twice.
 *
 * A sentence ends behind its first full stop, question or exclamation mark, together with marks and
 * closing quotes or brackets that follow, if white space follows these; marks of scripts without
 * spaces need none. So "3.14" goes on, and "Mr. " ends. What surprises: only the character behind a
 * sentence tells that it has ended, and yet nothing has to be held back.
 *
 * What stands behind the text (enum behind) may begin as the text ends. Spaces or the sentence's
 * mark are then the text's behind, and not shown.
 */
#ifndef ENGINE_SAMPLE_BORDER_H
#define ENGINE_SAMPLE_BORDER_H

#include <stddef.h>
#include "engine/text/tokenizer.h"
#include "engine/types.h"

/* Whether a text with this border may go on with the token. */
bool border_allows(enum border border, const struct tokenizer *tokenizer, int32_t token);
/* The border of what follows the token. */
enum border border_after(enum border border, const struct tokenizer *tokenizer, int32_t token);

/* What a text begins with, as far as that matters to one before it. */
enum behind border_behind(const char *text, size_t bytes);

struct ending {
    bool sentence; /* one is looked for */
    enum behind behind;
    int32_t at;   /* bytes looked at */
    int32_t mark; /* where the marks begin that the sentence ends with; -1 = it ends with none */
    int32_t end;  /* where the sentence ended; -1 = it did not */
    enum { ENDING_NONE, ENDING_SPACED, ENDING_WIDE } open; /* the last marks, and what they need */
};

void ending_init(struct ending *ending, bool sentence, enum behind behind);
/* The text up to here ends no sentence. */
void ending_skip(struct ending *ending, int32_t bytes);
/* Looks at what is new in a text of whole characters. */
void ending_scan(struct ending *ending, const char *text, int32_t bytes);
/* Bytes of such a text that are shown: never fewer than of a shorter one. */
int32_t ending_shown(const struct ending *ending, const char *text, int32_t bytes);

#endif
