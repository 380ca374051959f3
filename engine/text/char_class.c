/*
 * The list was found by asking the reference implementation about every code point and comparing
 * with the categories of utf8proc; tests/golden/make_tokenizer_fixtures.py asks it again.
 */
#include "engine/text/char_class.h"

#include <stddef.h>
#include <utf8proc.h>

#include "engine/base/attr.h"

/* Punctuation, non-spacing marks and format characters of Unicode 15 that BERT's tables lack.
 * Sorted; what lies between the ends of a range and is not of these classes does not matter. */
static const int32_t younger[][2] = {
    {0x61D, 0x61D},
    {0x7FD, 0x7FD},
    {0x890, 0x8E2},
    {0x9FD, 0x9FE},
    {0xA76, 0xA76},
    {0xAFA, 0xAFF},
    {0xB55, 0xB55},
    {0xC04, 0xC3C},
    {0xC77, 0xC77},
    {0xC84, 0xC84},
    {0xD00, 0xD00},
    {0xD3B, 0xD3C},
    {0xD81, 0xD81},
    {0xEBA, 0xEBA},
    {0xECE, 0xECE},
    {0x180F, 0x1886},
    {0x1ABF, 0x1ACE},
    {0x1B7D, 0x1B7E},
    {0x1DF6, 0x1DFB},
    {0x2E43, 0x2E5D},
    {0xA82C, 0xA82C},
    {0xA8C5, 0xA8C5},
    {0xA8FF, 0xA8FF},
    {0xA9BD, 0xA9BD},
    {0x10D24, 0x10F89},
    {0x11070, 0x11074},
    {0x110C2, 0x110CD},
    {0x111C9, 0x111C9},
    {0x111CF, 0x111CF},
    {0x1123E, 0x11241},
    {0x1133B, 0x1133B},
    {0x11438, 0x1145E},
    {0x11660, 0x1166C},
    {0x116B9, 0x116B9},
    {0x1182F, 0x11FFF},
    {0x12FF1, 0x13455},
    {0x16E97, 0x16F4F},
    {0x16FE2, 0x16FE4},
    {0x1CF00, 0x1CF46},
    {0x1E000, 0x1E4EF},
    {0x1E944, 0x1E95F},
};

static bool is_younger(int32_t code_point)
{
    size_t low = 0;
    size_t high = ARRAY_COUNT(younger);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (younger[middle][1] < code_point) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < ARRAY_COUNT(younger) && younger[low][0] <= code_point;
}

static int category_of(int32_t code_point)
{
    return (int)utf8proc_category(code_point);
}

static bool is_between(int category, int first, int last)
{
    return category >= first && category <= last;
}

/* ORDER utf8proc_category_t */
_Static_assert(UTF8PROC_CATEGORY_MN + 2 == UTF8PROC_CATEGORY_ME, "marks are neighbours");
_Static_assert(UTF8PROC_CATEGORY_ND + 2 == UTF8PROC_CATEGORY_NO, "numbers are neighbours");
_Static_assert(UTF8PROC_CATEGORY_PC + 6 == UTF8PROC_CATEGORY_PO, "punctuation is");
_Static_assert(UTF8PROC_CATEGORY_LU + 4 == UTF8PROC_CATEGORY_LO, "letters are");
_Static_assert(UTF8PROC_CATEGORY_ZS + 2 == UTF8PROC_CATEGORY_ZP, "separators are");

bool char_is_space(int32_t code_point)
{
    if (code_point < 0x80) {
        return code_point == ' ' || (code_point >= 0x09 && code_point <= 0x0D);
    }
    return code_point == 0x85 ||
           is_between(category_of(code_point), UTF8PROC_CATEGORY_ZS, UTF8PROC_CATEGORY_ZP);
}

bool char_is_number(int32_t code_point)
{
    return is_between(category_of(code_point), UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO);
}

static bool is_ascii_sign(int32_t code_point)
{
    return (code_point >= '!' && code_point <= '/') || (code_point >= ':' && code_point <= '@') ||
           (code_point >= '[' && code_point <= '`') || (code_point >= '{' && code_point <= '~');
}

bool char_is_mark(int32_t code_point)
{
    return is_between(category_of(code_point), UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_ME);
}

bool char_is_closing(int32_t code_point)
{
    int category = category_of(code_point);
    return code_point == '"' || code_point == '\'' || category == UTF8PROC_CATEGORY_PE ||
           category == UTF8PROC_CATEGORY_PF;
}

bool char_is_word(int32_t code_point)
{
    /* Symbols that count as alphabetic: letters in circles and squares. */
    static const int32_t alphabetic[][2] = {
        {0x24B6, 0x24E9}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}};
    for (size_t i = 0; i < ARRAY_COUNT(alphabetic); i++) {
        if (code_point >= alphabetic[i][0] && code_point <= alphabetic[i][1]) {
            return true;
        }
    }
    int category = category_of(code_point);
    return is_between(category, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LO) ||
           is_between(category, UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_ME) ||
           category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL ||
           category == UTF8PROC_CATEGORY_PC || code_point == 0x200C || code_point == 0x200D;
}

int32_t char_lower(int32_t code_point, int32_t out[2])
{
    if (code_point == 0x130) { /* the one capital whose small form is two characters */
        out[0] = 'i';
        out[1] = 0x307;
        return 2;
    }
    out[0] = utf8proc_tolower(code_point);
    return 1;
}

bool char_is_bert_removed(int32_t code_point)
{
    if (code_point < 0x80) {
        return code_point == 0x7F ||
               (code_point < ' ' && code_point != '\t' && code_point != '\n' && code_point != '\r');
    }
    int category = category_of(code_point);
    return code_point == 0xFFFD ||
           ((category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF ||
                category == UTF8PROC_CATEGORY_CO) &&
               !is_younger(code_point));
}

bool char_is_punctuation(int32_t code_point)
{
    if (code_point < 0x80) {
        return is_ascii_sign(code_point);
    }
    enum { CANADIAN_CHI = 0x166D }; /* punctuation then, a symbol since Unicode 12 */
    return code_point == CANADIAN_CHI ||
           (is_between(category_of(code_point), UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PO) &&
               !is_younger(code_point));
}

bool char_is_bert_accent(int32_t code_point)
{
    enum { HANUNOO_PAMUDPOD = 0x1734 }; /* non-spacing then, spacing since Unicode 14 */
    return code_point == HANUNOO_PAMUDPOD ||
           (category_of(code_point) == UTF8PROC_CATEGORY_MN && !is_younger(code_point));
}

bool char_is_cjk(int32_t code_point)
{
    static const int32_t blocks[][2] = {{0x4E00, 0x9FFF}, {0x3400, 0x4DBF}, {0x20000, 0x2A6DF},
        {0x2A700, 0x2B81F}, {0x2B920, 0x2CEAF}, {0xF900, 0xFAFF}, {0x2F800, 0x2FA1F}};
    for (size_t i = 0; i < ARRAY_COUNT(blocks); i++) {
        if (code_point >= blocks[i][0] && code_point <= blocks[i][1]) {
            return true;
        }
    }
    return false;
}
