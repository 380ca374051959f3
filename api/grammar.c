/*
 * Owns the parts of JSON as grammars, lists of choices, and the end of building. What surprises:
 * numbers have bounded digits, so that a model cannot go on with one for ever, and no escape makes
 * a surrogate, since half a pair would be no text.
 */
#include "api/grammar.h"

#include <stdio.h>
#include <string.h>

enum {
    DIGITS_MAX = 15, /* integers of so many are exact in every reader */
    EXPONENT_DIGITS_MAX = 2,
};

static void read_alphabet(const struct call *call, struct grammar_alphabet *alphabet)
{
    *alphabet = (struct grammar_alphabet){0};
    for (int32_t id = 0; id < tokenizer_vocab(call->tokenizer); id++) {
        size_t bytes;
        const char *text = tokenizer_piece(call->tokenizer, id, false, &bytes);
        if (bytes == 1 && !tokenizer_is_control(call->tokenizer, id)) {
            alphabet->has[(unsigned char)text[0]] = true;
        }
    }
}

enum err grammar_close(struct call *call, struct grammar_builder *builder, int32_t start,
    const char *where, const struct grammar **out_grammar, struct err_info *info)
{
    struct grammar *grammar = NULL;
    struct grammar_alphabet alphabet;
    read_alphabet(call, &alphabet);
    enum err err = call_array(call, 1, sizeof(*grammar), &grammar, info);
    if (err == ERR_OK) {
        struct err_info why;
        err = grammar_finish(builder, start, &alphabet, grammar, &why);
        if (err != ERR_OK) {
            return call_fail(info, err, NULL, where, "%s", why.text);
        }
        *out_grammar = grammar;
    }
    return err;
}

/* ---- JSON ---------------------------------------------------------------------------------- */

int32_t grammar_json_mark(struct grammar_builder *builder, int32_t from, char mark)
{
    int32_t bare = grammar_text(builder, from, &mark, 1);
    int32_t to = grammar_text(builder, bare, " ", 1);
    grammar_empty(builder, bare, to);
    return to;
}

static void hex_digit(struct grammar_builder *builder, int32_t from, int32_t to)
{
    grammar_bytes(builder, from, '0', '9', to);
    grammar_bytes(builder, from, 'a', 'f', to);
    grammar_bytes(builder, from, 'A', 'F', to);
}

/* \uXXXX, without the surrogates D800 to DFFF. */
static void hex_escape(struct grammar_builder *builder, int32_t from, int32_t to)
{
    int32_t first = grammar_text(builder, from, "u", 1);
    int32_t second = grammar_state(builder), after_d = grammar_state(builder);
    int32_t third = grammar_state(builder), fourth = grammar_state(builder);
    grammar_bytes(builder, first, '0', '9', second);
    grammar_bytes(builder, first, 'a', 'c', second);
    grammar_bytes(builder, first, 'A', 'C', second);
    grammar_bytes(builder, first, 'e', 'f', second);
    grammar_bytes(builder, first, 'E', 'F', second);
    grammar_bytes(builder, first, 'd', 'd', after_d);
    grammar_bytes(builder, first, 'D', 'D', after_d);
    hex_digit(builder, second, third);
    grammar_bytes(builder, after_d, '0', '7', third);
    hex_digit(builder, third, fourth);
    hex_digit(builder, fourth, to);
}

void grammar_json_character(struct grammar_builder *builder, int32_t from, int32_t to)
{
    static const char escapes[] = "\"\\/bfnrt";
    grammar_range(builder, from, ' ', '"' - 1, to);
    grammar_range(builder, from, '"' + 1, '\\' - 1, to);
    grammar_range(builder, from, '\\' + 1, 0x7E, to);
    grammar_range(builder, from, 0x80, 0x10FFFF, to);
    int32_t escape = grammar_text(builder, from, "\\", 1);
    for (const char *c = escapes; *c != '\0'; c++) {
        grammar_bytes(builder, escape, (uint8_t)*c, (uint8_t)*c, to);
    }
    hex_escape(builder, escape, to);
}

int32_t grammar_json_string(struct grammar_builder *builder, int32_t from)
{
    int32_t inside = grammar_text(builder, from, "\"", 1);
    grammar_json_character(builder, inside, inside);
    return grammar_text(builder, inside, "\"", 1);
}

/* Up to `most` digits and no less than one. */
static int32_t digits(struct grammar_builder *builder, int32_t from, int32_t most)
{
    int32_t to = grammar_state(builder);
    for (int32_t i = 0; i < most; i++) {
        int32_t next = grammar_state(builder);
        grammar_bytes(builder, from, '0', '9', next);
        grammar_empty(builder, next, to);
        from = next;
    }
    return to;
}

int32_t grammar_json_integer(struct grammar_builder *builder, int32_t from)
{
    int32_t to = grammar_state(builder), unsigned_from = grammar_state(builder);
    int32_t rest = grammar_state(builder);
    grammar_empty(builder, from, unsigned_from);
    grammar_bytes(builder, from, '-', '-', unsigned_from);
    grammar_bytes(builder, unsigned_from, '0', '0', to);
    grammar_bytes(builder, unsigned_from, '1', '9', rest);
    grammar_empty(builder, rest, to);
    grammar_empty(builder, digits(builder, rest, DIGITS_MAX - 1), to);
    return to;
}

/* The digits of the numbers between low and high, which have `count` digits; `at_low`:
 * those before are those of low, and so for high. */
static void digits_between(struct grammar_builder *builder, int32_t from, const char *low,
    const char *high, int32_t count, bool at_low, bool at_high, int32_t to)
{
    if (count == 0) {
        grammar_empty(builder, from, to);
        return;
    }
    char least = at_low ? *low : '0', most = at_high ? *high : '9';
    for (char digit = least; digit <= most && builder->failed == ERR_OK; digit++) {
        bool edge = (at_low && digit == least) || (at_high && digit == most);
        char last = edge ? digit : at_high ? (char)(most - 1) : most;
        int32_t next = grammar_state(builder);
        grammar_bytes(builder, from, (uint8_t)digit, (uint8_t)last, next);
        digits_between(builder, next, low + 1, high + 1, count - 1, at_low && digit == least,
            at_high && digit == most, to);
        digit = last;
    }
}

static void magnitudes(
    struct grammar_builder *builder, int32_t from, int64_t low, int64_t high, int32_t to)
{
    int64_t first = 0, last = 9;
    for (int32_t count = 1; count <= DIGITS_MAX; count++) {
        int64_t least = low > first ? low : first, most = high < last ? high : last;
        if (least <= most) {
            char low_text[24], high_text[24];
            (void)snprintf(low_text, sizeof low_text, "%lld", (long long)least);
            (void)snprintf(high_text, sizeof high_text, "%lld", (long long)most);
            digits_between(builder, from, low_text, high_text, count, true, true, to);
        }
        first = last + 1;
        last = 10 * last + 9;
    }
}

void grammar_json_integer_between(
    struct grammar_builder *builder, int32_t from, int64_t low, int64_t high, int32_t to)
{
    if (high >= 0) {
        magnitudes(builder, from, low > 0 ? low : 0, high, to);
    }
    if (low < 0) {
        int32_t minus = grammar_text(builder, from, "-", 1);
        magnitudes(builder, minus, high < 0 ? -high : 1, -low, to);
    }
}

int32_t grammar_json_number(struct grammar_builder *builder, int32_t from)
{
    int32_t whole = grammar_json_integer(builder, from);
    int32_t point = grammar_text(builder, whole, ".", 1);
    int32_t fraction = digits(builder, point, DIGITS_MAX);
    grammar_empty(builder, whole, fraction);
    int32_t exponent = grammar_state(builder), sign = grammar_state(builder);
    grammar_bytes(builder, fraction, 'e', 'e', exponent);
    grammar_bytes(builder, fraction, 'E', 'E', exponent);
    grammar_bytes(builder, exponent, '+', '+', sign);
    grammar_bytes(builder, exponent, '-', '-', sign);
    grammar_empty(builder, exponent, sign);
    int32_t to = digits(builder, sign, EXPONENT_DIGITS_MAX);
    grammar_empty(builder, fraction, to);
    return to;
}

void grammar_json_map(struct grammar_builder *builder, int32_t from, int32_t entry, int32_t to)
{
    int32_t open = grammar_text(builder, from, "{", 1);
    int32_t key = grammar_state(builder);
    grammar_empty(builder, open, key);
    int32_t value = grammar_json_mark(builder, grammar_json_string(builder, key), ':');
    int32_t behind = grammar_state(builder);
    grammar_calls(builder, value, entry, behind);
    grammar_empty(builder, grammar_json_mark(builder, behind, ','), key);
    grammar_bytes(builder, open, '}', '}', to);
    grammar_bytes(builder, behind, '}', '}', to);
}

void grammar_json_list(struct grammar_builder *builder, int32_t from, int32_t entry, int32_t to)
{
    int32_t open = grammar_text(builder, from, "[", 1);
    int32_t value = grammar_state(builder), behind = grammar_state(builder);
    grammar_empty(builder, open, value);
    grammar_calls(builder, value, entry, behind);
    grammar_empty(builder, grammar_json_mark(builder, behind, ','), value);
    grammar_bytes(builder, open, ']', ']', to);
    grammar_bytes(builder, behind, ']', ']', to);
}

int32_t grammar_json_value(struct grammar_builder *builder)
{
    static const char *const words[] = {"true", "false", "null"};
    int32_t entry = grammar_state(builder), to = grammar_state(builder);
    grammar_final(builder, to);
    grammar_empty(builder, grammar_json_string(builder, entry), to);
    grammar_empty(builder, grammar_json_number(builder, entry), to);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        grammar_empty(builder, grammar_text(builder, entry, words[i], strlen(words[i])), to);
    }
    grammar_json_map(builder, entry, entry, to);
    grammar_json_list(builder, entry, entry, to);
    return entry;
}

enum err grammar_of_any_object(
    struct call *call, const char *where, const struct grammar **out_grammar, struct err_info *info)
{
    struct grammar_builder builder;
    grammar_begin(&builder, call->arena);
    int32_t start = grammar_state(&builder), end = grammar_state(&builder);
    grammar_json_map(&builder, start, grammar_json_value(&builder), end);
    grammar_final(&builder, end);
    return grammar_close(call, &builder, start, where, out_grammar, info);
}

/* ---- texts --------------------------------------------------------------------------------- */

enum err grammar_of_choices(struct call *call, const struct bound_texts *choices, const char *where,
    const struct grammar **out_grammar, struct err_info *info)
{
    struct grammar_builder builder;
    grammar_begin(&builder, call->arena);
    int32_t start = grammar_state(&builder), end = grammar_state(&builder);
    struct grammar_word *words = NULL;
    enum err err = call_array(call, (size_t)choices->count, sizeof *words, &words, info);
    if (err != ERR_OK) {
        return err;
    }
    for (int32_t i = 0; i < choices->count; i++) {
        words[i] = (struct grammar_word){choices->items[i].bytes, (size_t)choices->items[i].count};
    }
    grammar_words(&builder, start, words, (size_t)choices->count, end);
    grammar_final(&builder, end);
    return grammar_close(call, &builder, start, where, out_grammar, info);
}

enum err grammar_of_regex(struct call *call, const struct bound_text *pattern, const char *where,
    const struct grammar **out_grammar, struct err_info *info)
{
    struct grammar_builder builder;
    struct err_info why;
    grammar_begin(&builder, call->arena);
    int32_t start = grammar_state(&builder), end = start;
    enum err err = grammar_regex(
        &builder, pattern->bytes, (size_t)pattern->count, GRAMMAR_PLAIN, start, &end, &why);
    if (err != ERR_OK) {
        return call_fail(
            info, err, NULL, where, "at byte %lld: %s", (long long)why.offset, why.text);
    }
    grammar_final(&builder, end);
    return grammar_close(call, &builder, start, where, out_grammar, info);
}
