/* See lexer.h. */
#include "engine/template/lexer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "engine/base/utf8.h"

enum err lexer_refuse(struct err_info *info, int32_t line, const char *format, ...)
{
    char text[ERR_TEXT_BYTES];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    return err_set(info, ERR_UNSUPPORTED, NULL, "line %d: %.280s", line, text);
}

enum err lexer_init(struct lexer *lexer, struct arena *arena, const char *source, size_t bytes,
    struct err_info *info)
{
    *lexer = (struct lexer){
        .arena = arena, .line = 1, .tag = TOKEN_TEXT, .line_start = true, .info = info};
    if (!utf8_valid(source, bytes)) {
        return lexer_refuse(info, 1, "the template is not valid UTF-8");
    }
    char *copy = arena_alloc(arena, bytes + 1);
    if (copy == NULL) {
        return err_set(info, ERR_NO_MEMORY, NULL, "no memory for a chat template");
    }
    size_t count = 0;
    for (size_t i = 0; i < bytes; i++) {
        if (source[i] == '\r' && i + 1 < bytes && source[i + 1] == '\n') {
            continue;
        }
        copy[count++] = source[i] == '\r' ? '\n' : source[i];
    }
    if (count > 0 && copy[count - 1] == '\n') {
        count--;
    }
    lexer->source = copy;
    lexer->count = count;
    return ERR_OK;
}

/* Byte at an offset from here; NUL past the end. */
static char peek(const struct lexer *lexer, size_t offset)
{
    return lexer->at + offset < lexer->count ? lexer->source[lexer->at + offset] : '\0';
}

static void advance(struct lexer *lexer, size_t to)
{
    for (; lexer->at < to; lexer->at++) {
        lexer->line += lexer->source[lexer->at] == '\n';
    }
}

static void skip_space(struct lexer *lexer)
{
    while (lexer->at < lexer->count) {
        int32_t code_point;
        size_t length =
            (size_t)utf8_decode(lexer->source + lexer->at, lexer->count - lexer->at, &code_point);
        if (!text_space(code_point)) {
            return;
        }
        advance(lexer, lexer->at + length);
    }
}

/* ---- text between tags --------------------------------------------------------------------- */

static size_t find_tag(const struct lexer *lexer)
{
    for (size_t at = lexer->at; at + 1 < lexer->count; at++) {
        char next = lexer->source[at + 1];
        if (lexer->source[at] == '{' && (next == '%' || next == '{' || next == '#')) {
            return at;
        }
    }
    return lexer->count;
}

/* End of the text before a tag at `tag`, once the tag has taken its white space. */
static size_t text_end(const struct lexer *lexer, size_t tag)
{
    size_t from = lexer->at;
    char sign = tag + 2 < lexer->count ? lexer->source[tag + 2] : '\0';
    struct text text = {.bytes = lexer->source + from, .count = tag - from};
    if (sign == '-') {
        return from + text_strip(text, NULL, false, true).count;
    }
    if (sign == '+' || lexer->source[tag + 1] == '{') {
        return tag;
    }
    size_t line = tag;
    while (line > from && lexer->source[line - 1] != '\n') {
        line--;
    }
    if (line == from && !lexer->line_start) {
        return tag;
    }
    text = (struct text){.bytes = lexer->source + line, .count = tag - line};
    return text_strip(text, NULL, true, false).count == 0 ? line : tag;
}

/* Past the end of a tag: `end` is its last two bytes, at lexer->at or one behind a sign. Blocks and
 * comments take one line break along. */
static void close_tag(struct lexer *lexer, bool takes_line)
{
    char sign = peek(lexer, 0);
    advance(lexer, lexer->at + (sign == '-' || sign == '+' ? 3 : 2));
    if (sign == '-') {
        skip_space(lexer);
    } else if (sign != '+' && takes_line && peek(lexer, 0) == '\n') {
        advance(lexer, lexer->at + 1);
    }
    lexer->tag = TOKEN_TEXT;
    lexer->line_start = lexer->source[lexer->at - 1] == '\n';
}

static enum err skip_comment(struct lexer *lexer)
{
    int32_t line = lexer->line;
    size_t from = lexer->at + 2;
    if (peek(lexer, 2) == '-' || peek(lexer, 2) == '+') {
        from++;
    }
    const char *end =
        from < lexer->count ? memmem(lexer->source + from, lexer->count - from, "#}", 2) : NULL;
    if (end == NULL) {
        return lexer_refuse(lexer->info, line, "a comment that does not end");
    }
    size_t to = (size_t)(end - lexer->source);
    if (to > from && (end[-1] == '-' || end[-1] == '+')) {
        to--;
    }
    advance(lexer, to);
    close_tag(lexer, true);
    return ERR_OK;
}

static enum err next_outside(struct lexer *lexer, struct token *out_token)
{
    while (lexer->at < lexer->count) {
        size_t tag = find_tag(lexer);
        size_t end = tag < lexer->count ? text_end(lexer, tag) : tag;
        size_t from = lexer->at;
        *out_token = (struct token){.kind = TOKEN_TEXT,
            .line = lexer->line,
            .text = {.bytes = lexer->source + from, .count = end - from}};
        advance(lexer, tag);
        lexer->line_start = false;
        if (end > from) {
            return ERR_OK;
        }
        if (peek(lexer, 1) != '#') {
            break;
        }
        enum err err = skip_comment(lexer);
        if (err != ERR_OK) {
            return err;
        }
    }
    *out_token = (struct token){.kind = TOKEN_END, .line = lexer->line};
    if (lexer->at < lexer->count) {
        lexer->tag = peek(lexer, 1) == '%' ? TOKEN_BLOCK : TOKEN_PRINT;
        lexer->brackets = 0;
        out_token->kind = lexer->tag;
        bool sign = peek(lexer, 2) == '-' || peek(lexer, 2) == '+';
        advance(lexer, lexer->at + (sign ? 3 : 2));
    }
    return ERR_OK;
}

/* ---- inside tags --------------------------------------------------------------------------- */

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Hexadecimal digits of \x, \u and \U; -1 when they are none. */
static int32_t read_hex(const char *digits, size_t count)
{
    int64_t code = 0;
    for (size_t i = 0; i < count; i++) {
        char c = digits[i];
        int32_t digit = is_digit(c)            ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
        if (digit < 0) {
            return -1;
        }
        code = code * 16 + digit;
    }
    return code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF) ? (int32_t)code : -1;
}

/* One escape at from[0] == '\\'; returns its length, 0 when it is none we know. */
static size_t read_escape(const char *from, size_t count, char out[4], size_t *out_count)
{
    static const char named[] = "n\nt\tr\rb\bf\fv\va\a\\\\''\"\"";
    char c = count > 1 ? from[1] : '\0';
    for (size_t i = 0; c != '\0' && i + 1 < sizeof(named); i += 2) {
        if (named[i] == c) {
            out[0] = named[i + 1];
            *out_count = 1;
            return 2;
        }
    }
    size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (c == '\n') {
        *out_count = 0;
        return 2;
    }
    int32_t code = digits > 0 && count >= 2 + digits ? read_hex(from + 2, digits) : -1;
    if (code < 0) {
        return 0;
    }
    *out_count = (size_t)utf8_encode(code, out);
    return 2 + digits;
}

static enum err read_string(struct lexer *lexer, struct token *token)
{
    char quote = peek(lexer, 0);
    const char *from = lexer->source + lexer->at + 1;
    const char *end = lexer->source + lexer->count;
    size_t length = 0;
    while (from + length < end && from[length] != quote) {
        length += from[length] == '\\' && from + length + 1 < end ? 2 : 1;
    }
    if (from + length >= end) {
        return lexer_refuse(lexer->info, token->line, "a string that does not end");
    }
    char *text = arena_alloc(lexer->arena, length + 1);
    if (text == NULL) {
        return err_set(lexer->info, ERR_NO_MEMORY, NULL, "no memory for a chat template");
    }
    size_t used = 0;
    for (size_t i = 0; i < length;) {
        size_t count = 1;
        size_t step = 1;
        text[used] = from[i];
        if (from[i] == '\\') {
            step = read_escape(from + i, length - i, text + used, &count);
            if (step == 0) {
                return lexer_refuse(lexer->info, token->line, "an unusual escape in a string");
            }
        }
        used += count;
        i += step;
    }
    token->kind = TOKEN_STRING;
    token->text = (struct text){.bytes = text, .count = used};
    advance(lexer, lexer->at + length + 2);
    return ERR_OK;
}

static enum err read_number(struct lexer *lexer, struct token *token)
{
    char digits[64];
    size_t count = 0;
    bool real = false;
    for (;; count++) {
        char c = peek(lexer, count);
        bool point = c == '.' && !real && is_digit(peek(lexer, count + 1));
        if ((!is_digit(c) && !point) || count + 1 >= sizeof(digits)) {
            break;
        }
        real = real || point;
        digits[count] = c;
    }
    digits[count] = '\0';
    if (is_name(peek(lexer, count)) || (digits[0] == '0' && count > 1 && !real)) {
        return lexer_refuse(lexer->info, token->line, "an unusual way to write a number");
    }
    token->kind = real ? TOKEN_REAL : TOKEN_INTEGER;
    token->real = strtod(digits, NULL);
    if (!real && count > 18) {
        return lexer_refuse(lexer->info, token->line, "a number of %zu digits", count);
    }
    token->integer = real ? 0 : strtoll(digits, NULL, 10);
    advance(lexer, lexer->at + count);
    return ERR_OK;
}

static enum err read_sign(struct lexer *lexer, struct token *token)
{
    static const char *const two[] = {"//", "**", "==", "!=", ">=", "<="};
    char c = peek(lexer, 0);
    size_t count = 1;
    for (size_t i = 0; i < ARRAY_COUNT(two); i++) {
        if (c == two[i][0] && peek(lexer, 1) == two[i][1]) {
            count = 2;
        }
    }
    if (c == '\0' || strchr("+-/*%~[](){}=!<>.:|,", c) == NULL) {
        return lexer_refuse(lexer->info, token->line, "a character that belongs to no expression");
    }
    if (strchr("([{", c) != NULL) {
        lexer->brackets++;
    } else if (strchr(")]}", c) != NULL) {
        lexer->brackets--;
    }
    token->kind = TOKEN_SIGN;
    token->text = (struct text){.bytes = lexer->source + lexer->at, .count = count};
    advance(lexer, lexer->at + count);
    return ERR_OK;
}

/* Whether the tag that is open ends here. */
static bool ends_tag(const struct lexer *lexer)
{
    char c = peek(lexer, 0);
    char last = lexer->tag == TOKEN_BLOCK ? '%' : '}';
    size_t sign = c == '-' || (c == '+' && last == '%') ? 1 : 0;
    return lexer->brackets <= 0 && peek(lexer, sign) == last && peek(lexer, sign + 1) == '}';
}

static enum err next_inside(struct lexer *lexer, struct token *out_token)
{
    skip_space(lexer);
    struct token token = {.line = lexer->line};
    enum err err = ERR_OK;
    char c = peek(lexer, 0);
    if (lexer->at >= lexer->count) {
        return lexer_refuse(lexer->info, token.line, "a tag that does not end");
    }
    if (ends_tag(lexer)) {
        bool block = lexer->tag == TOKEN_BLOCK;
        token.kind = block ? TOKEN_BLOCK_END : TOKEN_PRINT_END;
        close_tag(lexer, block);
    } else if (is_digit(c)) {
        err = read_number(lexer, &token);
    } else if (is_name(c)) {
        size_t count = 0;
        while (is_name(peek(lexer, count))) {
            count++;
        }
        token.kind = TOKEN_NAME;
        token.text = (struct text){.bytes = lexer->source + lexer->at, .count = count};
        advance(lexer, lexer->at + count);
    } else if (c == '"' || c == '\'') {
        err = read_string(lexer, &token);
    } else {
        err = read_sign(lexer, &token);
    }
    if (err == ERR_OK) {
        *out_token = token;
    }
    return err;
}

enum err lexer_next(struct lexer *lexer, struct token *out_token)
{
    return lexer->tag == TOKEN_TEXT ? next_outside(lexer, out_token)
                                    : next_inside(lexer, out_token);
}
