/* See border.h. Marks are few and change with no version of Unicode: they are listed. */
#include "engine/sample/border.h"

#include "engine/base/utf8.h"
#include "engine/text/char_class.h"

/* ---- beginnings ---------------------------------------------------------------------------- */

bool border_allows(enum border border, const struct tokenizer *tokenizer, int32_t token)
{
    size_t bytes;
    const char *piece = tokenizer_piece(tokenizer, token, false, &bytes);
    bool begins = bytes > 0 && piece[0] == ' ';
    switch (border) {
    case BORDER_FREE:
        return true;
    case BORDER_SPACE:
        return begins && (bytes == 1 || piece[1] != ' ');
    case BORDER_NO_SPACE:
        break;
    }
    return !begins;
}

enum border border_after(enum border border, const struct tokenizer *tokenizer, int32_t token)
{
    size_t bytes;
    if (border == BORDER_FREE) {
        return border;
    }
    (void)tokenizer_piece(tokenizer, token, false, &bytes);
    bool alone = border == BORDER_SPACE ? bytes == 1 : bytes == 0;
    return alone ? BORDER_NO_SPACE : BORDER_FREE;
}

/* ---- endings ------------------------------------------------------------------------------- */

static bool is_wide_mark(int32_t c)
{
    return c == 0x3002 || c == 0xFF01 || c == 0xFF1F || c == 0xFF61;
}

/* A mark that a sentence may end with. */
static bool is_mark(int32_t c)
{
    static const int32_t others[] = {0x2026, 0x203D, 0x2047, 0x2048, 0x2049, 0x203C, 0x061F, 0x06D4,
        0x0964, 0x0965, 0x1362, 0x1367, 0xFF0E}; /* ellipsis, doubled, Arabic, Indic, Ethiopic */
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
        if (c == others[i]) {
            return true;
        }
    }
    return c == '.' || c == '!' || c == '?' || is_wide_mark(c);
}

enum behind border_behind(const char *text, size_t bytes)
{
    int32_t c = -1;
    if (bytes > 0) {
        (void)utf8_decode(text, bytes, &c);
    }
    return c == ' ' ? BEHIND_SPACE : is_mark(c) ? BEHIND_MARK : BEHIND_OTHER;
}

void ending_init(struct ending *ending, bool sentence, enum behind behind)
{
    *ending = (struct ending){.sentence = sentence, .behind = behind, .mark = -1, .end = -1};
}

void ending_skip(struct ending *ending, int32_t bytes)
{
    ending->at = bytes;
}

/* One character more. */
static void look(struct ending *ending, int32_t c)
{
    if (is_mark(c)) {
        ending->mark = ending->mark < 0 ? ending->at : ending->mark;
        ending->open = is_wide_mark(c) ? ENDING_WIDE : MAX(ending->open, ENDING_SPACED);
    } else if (ending->open != ENDING_NONE && char_is_closing(c)) {
        ending->mark = -1; /* what was opened within the text is closed there */
    } else if (ending->open == ENDING_WIDE || (ending->open == ENDING_SPACED && char_is_space(c))) {
        ending->end = ending->at;
    } else {
        ending->open = ENDING_NONE;
        ending->mark = -1;
    }
}

void ending_scan(struct ending *ending, const char *text, int32_t bytes)
{
    while (ending->sentence && ending->end < 0 && ending->at < bytes) {
        int32_t c;
        int32_t length = utf8_decode(text + ending->at, (size_t)(bytes - ending->at), &c);
        look(ending, c);
        ending->at += length;
    }
}

int32_t ending_shown(const struct ending *ending, const char *text, int32_t bytes)
{
    int32_t shown = ending->end >= 0 ? MIN(ending->end, bytes) : bytes;
    if (ending->behind == BEHIND_MARK && ending->mark >= 0) {
        return ending->mark;
    }
    while (ending->behind == BEHIND_SPACE && shown > 0 && text[shown - 1] == ' ') {
        shown--;
    }
    return shown;
}
