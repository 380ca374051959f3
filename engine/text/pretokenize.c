/*
 * The expressions, L and N being the Unicode categories and \s the White_Space property:
 *
 *     gpt-2      's|'t|'re|'ve|'m|'ll|'d| ?L+| ?N+| ?[^\sLN]+|\s+(?!\S)|\s+
 *     smollm     every N alone, and between them as gpt-2
 *     llama-bpe  (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\nLN]?L+|N{1,3}| ?[^\sLN]+[\r\n]*
 *                |\s*[\r\n]+|\s+(?!\S)|\s+
 *     qwen2      as llama-bpe, with N alone instead of N{1,3}
 *
 * "\s+(?!\S)" is a run of blanks without its last one, unless the text ends there: the last blank
 * goes with the word behind it. Case is ignored for ASCII letters only; engines that fold U+017F
 * to s differ, the references here do not.
 */
#include "engine/text/pretokenize.h"

#include <string.h>
#include <utf8proc.h>

#include "engine/base/assert.h"
#include "engine/base/attr.h"
#include "engine/base/utf8.h"

enum char_class {
    CLASS_OTHER,
    CLASS_LETTER,
    CLASS_NUMBER,
    CLASS_BLANK,
    CLASS_NEWLINE, /* CR or LF: a blank too */
    CLASS_END,     /* no character: the text ends here */
};

struct scanner {
    const char *text;
    size_t bytes;
    bool numbers_end; /* a number character ends the text */
};

static enum char_class class_of(int32_t code_point)
{
    if (code_point == '\n' || code_point == '\r') {
        return CLASS_NEWLINE;
    }
    if (code_point == ' ' || (code_point >= 0x09 && code_point <= 0x0D) || code_point == 0x85) {
        return CLASS_BLANK;
    }
    switch ((int)utf8proc_category(code_point)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
        return CLASS_LETTER;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
        return CLASS_NUMBER;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
        return CLASS_BLANK;
    default:
        return CLASS_OTHER;
    }
}

/* Class of the character at `at` and the offset behind it. */
static enum char_class peek(const struct scanner *scanner, size_t at, size_t *out_after)
{
    if (at >= scanner->bytes) {
        return CLASS_END;
    }
    int32_t code_point;
    int32_t length = utf8_decode(scanner->text + at, scanner->bytes - at, &code_point);
    enum char_class class = class_of(code_point);
    if (class == CLASS_NUMBER && scanner->numbers_end) {
        return CLASS_END;
    }
    *out_after = at + (size_t)length;
    return class;
}

/* End of the run of characters of one class from `at` on, at most `count_max` of them. */
static size_t run_of(
    const struct scanner *scanner, size_t at, enum char_class class, size_t count_max)
{
    size_t after = at;
    for (size_t count = 0; count < count_max && peek(scanner, at, &after) == class; count++) {
        at = after;
    }
    return at;
}

/* End of the contraction that starts with the apostrophe at `at`, or `at`. */
static size_t contraction(const struct scanner *scanner, size_t at, bool ignore_case)
{
    static const char *const endings[] = {"s", "t", "re", "ve", "m", "ll", "d"};
    if (at >= scanner->bytes || scanner->text[at] != '\'') {
        return at;
    }
    const char *rest = scanner->text + at + 1;
    size_t left = scanner->bytes - at - 1;
    for (size_t i = 0; i < ARRAY_COUNT(endings); i++) {
        size_t count = strlen(endings[i]);
        bool equal = count <= left;
        for (size_t k = 0; equal && k < count; k++) {
            char c = rest[k];
            c = ignore_case && c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
            equal = c == endings[i][k];
        }
        if (equal) {
            return at + 1 + count;
        }
    }
    return at;
}

/* The blanks from `at` on, of which there is at least one: "\s*[\r\n]+" first when `newlines`, then
 * "\s+(?!\S)", then "\s+". */
static size_t blanks(const struct scanner *scanner, size_t at, bool newlines)
{
    size_t end = at;
    size_t last_start = at;
    size_t newline_end = 0;
    size_t after = at;
    enum char_class class;
    while ((class = peek(scanner, end, &after)) == CLASS_BLANK || class == CLASS_NEWLINE) {
        last_start = end;
        end = after;
        newline_end = class == CLASS_NEWLINE ? end : newline_end;
    }
    if (newlines && newline_end > 0) {
        return newline_end;
    }
    return class == CLASS_END || last_start == at ? end : last_start;
}

static size_t next_gpt2(const struct scanner *scanner, size_t from)
{
    size_t end = contraction(scanner, from, false);
    if (end > from) {
        return end;
    }
    size_t start = from + (scanner->text[from] == ' ');
    size_t after;
    enum char_class class = peek(scanner, start, &after);
    if (class == CLASS_LETTER || class == CLASS_NUMBER || class == CLASS_OTHER) {
        return run_of(scanner, start, class, SIZE_MAX);
    }
    return blanks(scanner, from, false);
}

static size_t next_smollm(struct scanner *scanner, size_t from)
{
    size_t after;
    if (peek(scanner, from, &after) == CLASS_NUMBER) {
        return after;
    }
    scanner->numbers_end = true;
    return next_gpt2(scanner, from);
}

static size_t next_llama(const struct scanner *scanner, size_t from, size_t numbers_max)
{
    size_t end = contraction(scanner, from, true);
    if (end > from) {
        return end;
    }
    size_t after = from;
    enum char_class class = peek(scanner, from, &after);
    if (class == CLASS_LETTER) {
        return run_of(scanner, from, CLASS_LETTER, SIZE_MAX);
    }
    if (class == CLASS_NUMBER) {
        return run_of(scanner, from, CLASS_NUMBER, numbers_max);
    }
    if (class != CLASS_NEWLINE) { /* one character of any other kind may lead a word */
        end = run_of(scanner, after, CLASS_LETTER, SIZE_MAX);
        if (end > after) {
            return end;
        }
    }
    size_t start = from + (scanner->text[from] == ' ');
    end = run_of(scanner, start, CLASS_OTHER, SIZE_MAX);
    if (end > start) {
        return run_of(scanner, end, CLASS_NEWLINE, SIZE_MAX);
    }
    return blanks(scanner, from, true);
}

bool pretokenize_find(const char *name, size_t count, enum pretokenizer *out_pretokenizer)
{
    static const struct {
        const char *name;
        enum pretokenizer pretokenizer;
    } names[] = {
        {"gpt-2", PRETOKENIZER_GPT2},
        {"smollm", PRETOKENIZER_SMOLLM},
        {"starcoder", PRETOKENIZER_SMOLLM},
        {"refact", PRETOKENIZER_SMOLLM},
        {"llama-bpe", PRETOKENIZER_LLAMA_BPE},
        {"qwen2", PRETOKENIZER_QWEN2},
    };
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        if (strlen(names[i].name) == count && memcmp(names[i].name, name, count) == 0) {
            *out_pretokenizer = names[i].pretokenizer;
            return true;
        }
    }
    return false;
}

/* Spellings of the same expressions: possessive quantifiers and "\\s*[\\r\\n]" for
 * "\\s*[\\r\\n]+" match the same pieces here. */
bool pretokenize_find_regex(const char *regex, enum pretokenizer *out_pretokenizer)
{
    static const struct {
        const char *regex;
        enum pretokenizer pretokenizer;
    } known[] = {
        {"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
            PRETOKENIZER_GPT2},
        {"'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
            PRETOKENIZER_GPT2},
        {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"
         " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
            PRETOKENIZER_LLAMA_BPE},
        {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,3}|"
         " ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+",
            PRETOKENIZER_LLAMA_BPE},
        {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|"
         " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
            PRETOKENIZER_QWEN2},
    };
    for (size_t i = 0; i < ARRAY_COUNT(known); i++) {
        if (strcmp(known[i].regex, regex) == 0) {
            *out_pretokenizer = known[i].pretokenizer;
            return true;
        }
    }
    return false;
}

size_t pretokenize_next(enum pretokenizer pretokenizer, const char *text, size_t bytes, size_t from)
{
    ASSERT(from < bytes);
    struct scanner scanner = {.text = text, .bytes = bytes};
    size_t end = from;
    switch (pretokenizer) {
    case PRETOKENIZER_GPT2:
        end = next_gpt2(&scanner, from);
        break;
    case PRETOKENIZER_SMOLLM:
        end = next_smollm(&scanner, from);
        break;
    case PRETOKENIZER_LLAMA_BPE:
        end = next_llama(&scanner, from, 3);
        break;
    case PRETOKENIZER_QWEN2:
        end = next_llama(&scanner, from, 1);
        break;
    case PRETOKENIZER_COUNT:
        break;
    }
    ASSERT(end > from && end <= bytes);
    return end;
}
