/*
 * Regular expressions: the part of their syntax that every dialect shares, as automata.
 *
 * What surprises: what a quantifier repeats is read again for every copy; nothing is kept of it but
 * where it stands. It is first read without building, to find its end and the quantifier behind, so
 * reading takes time in the square of the nesting, which is bounded, and building ends at the
 * builder's bounds.
 */
#include "api/grammar.h"

#include <string.h>
#include "engine/base/utf8.h"

enum {
    NESTING_MAX = 64,
    REPEAT_MAX = 1000,
    RANGES_MAX = 256, /* of one class */
    CODE_POINT_MAX = 0x10FFFF,
    ENDLESS = -1,
};

struct reader {
    struct grammar_builder *builder;
    const char *text;
    size_t count, at;
    enum grammar_spelling spelling;
    bool dry;     /* read, and build nothing */
    bool negated; /* within [^ ] */
    int32_t depth;
    enum err err;
    struct err_info *info;
};

struct range {
    int32_t low, high;
};

struct set {
    struct range ranges[RANGES_MAX];
    int32_t count;
};

static void fail(struct reader *reader, enum err err, const char *text)
{
    if (reader->err == ERR_OK) {
        reader->err =
            err_at(reader->info, reader->at, err_set(reader->info, err, NULL, "%s", text));
    }
}

static bool stopped(const struct reader *reader)
{
    return reader->err != ERR_OK || reader->builder->failed != ERR_OK;
}

static bool at_end(const struct reader *reader)
{
    return reader->at >= reader->count;
}

static char peek(const struct reader *reader)
{
    return at_end(reader) ? '\0' : reader->text[reader->at];
}

static bool take(struct reader *reader, char c)
{
    bool is = !at_end(reader) && reader->text[reader->at] == c;
    reader->at += is;
    return is;
}

/* ---- sets of characters -------------------------------------------------------------------- */

static void set_add(struct reader *reader, struct set *set, int32_t low, int32_t high)
{
    if (low > high) {
        fail(reader, ERR_INVALID, "the range is backwards");
    } else if (set->count == RANGES_MAX) {
        fail(reader, ERR_LIMIT, "a class has at most 256 ranges");
    } else {
        set->ranges[set->count++] = (struct range){low, high};
    }
}

/* The ranges in order, none of which touch. */
static void set_sort(struct set *set)
{
    for (int32_t i = 1; i < set->count; i++) {
        struct range range = set->ranges[i];
        int32_t place = i;
        for (; place > 0 && set->ranges[place - 1].low > range.low; place--) {
            set->ranges[place] = set->ranges[place - 1];
        }
        set->ranges[place] = range;
    }
    int32_t kept = 0;
    for (int32_t i = 0; i < set->count; i++) {
        struct range *last = kept > 0 ? &set->ranges[kept - 1] : NULL;
        if (last != NULL && set->ranges[i].low <= last->high + 1) {
            last->high = last->high > set->ranges[i].high ? last->high : set->ranges[i].high;
        } else {
            set->ranges[kept++] = set->ranges[i];
        }
    }
    set->count = kept;
}

static void set_negate(struct reader *reader, struct set *set)
{
    struct set other = {.count = 0};
    int32_t from = 1; /* no text has a NUL */
    set_sort(set);
    for (int32_t i = 0; i < set->count; i++) {
        if (set->ranges[i].low > from) {
            set_add(reader, &other, from, set->ranges[i].low - 1);
        }
        from = set->ranges[i].high + 1;
    }
    if (from <= CODE_POINT_MAX) {
        set_add(reader, &other, from, CODE_POINT_MAX);
    }
    *set = other;
}

/* What some reader takes for a space beside those of ASCII. They are in neither \s nor \S, and in a
 * class that is negated in both, so that a text is of the expression for every reader. */
static const struct range OTHER_SPACES[] = {{0x1C, 0x1F}, {0x85, 0x85}, {0xA0, 0xA0},
    {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
    {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};

/* \d and its like; false when the letter is none of them. */
static bool named_class(struct reader *reader, char letter, struct set *out_set)
{
    struct set set = {.count = 0};
    switch (letter | 0x20) {
    case 'd':
        set_add(reader, &set, '0', '9');
        break;
    case 'w':
        set_add(reader, &set, '0', '9');
        set_add(reader, &set, 'A', 'Z');
        set_add(reader, &set, '_', '_');
        set_add(reader, &set, 'a', 'z');
        break;
    case 's':
        set_add(reader, &set, '\t', '\r');
        set_add(reader, &set, ' ', ' ');
        break;
    default:
        return false;
    }
    for (size_t i = 0;
         (letter == 'S') != reader->negated && i < sizeof OTHER_SPACES / sizeof *OTHER_SPACES;
         i++) {
        set_add(reader, &set, OTHER_SPACES[i].low, OTHER_SPACES[i].high);
    }
    if ((letter & 0x20) == 0) {
        set_negate(reader, &set);
    }
    *out_set = set;
    return true;
}

static int32_t read_hex(struct reader *reader, int32_t digits)
{
    int32_t value = 0;
    for (int32_t i = 0; i < digits; i++) {
        static const char hex[] = "0123456789abcdef";
        char c = peek(reader);
        c = c >= 'A' && c <= 'F' ? (char)(c | 0x20) : c;
        const char *found = c != '\0' ? strchr(hex, c) : NULL;
        if (found == NULL) {
            fail(reader, ERR_INVALID, "the escape needs more hexadecimal digits");
            return 1;
        }
        value = value * 16 + (int32_t)(found - hex);
        reader->at++;
    }
    if (value == 0 || (value >= 0xD800 && value <= 0xDFFF)) {
        fail(reader, ERR_INVALID, "is no character that a text can hold");
        return 1;
    }
    return value;
}

static int32_t read_character(struct reader *reader)
{
    int32_t code_point;
    reader->at +=
        (size_t)utf8_decode(reader->text + reader->at, reader->count - reader->at, &code_point);
    if (code_point < 1) {
        fail(reader, ERR_INVALID, "is no character that a text can hold");
        return 1;
    }
    return code_point;
}

/* Behind a backslash: a class into `out_set` (returns -1), or one character. */
static int32_t read_escape(struct reader *reader, struct set *out_set)
{
    static const char letters[] = "tnrfv", controls[] = "\t\n\r\f\v";
    char c = peek(reader);
    const char *letter = c != '\0' ? strchr(letters, c) : NULL;
    if (at_end(reader)) {
        fail(reader, ERR_INVALID, "a backslash ends the expression");
        return 1;
    }
    if (named_class(reader, c, out_set)) {
        reader->at++;
        return -1;
    }
    if (letter != NULL) {
        reader->at++;
        return controls[letter - letters];
    }
    if (c == 'x' || c == 'u') {
        reader->at++;
        return read_hex(reader, c == 'x' ? 2 : 4);
    }
    bool alphanumeric = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
    if (alphanumeric) {
        fail(reader, ERR_UNSUPPORTED_FIELD, "back references and this escape are not built");
        return 1;
    }
    return read_character(reader);
}

/* One end of a range, or a class of its own (-1, added to the set). */
static int32_t read_member(struct reader *reader, struct set *set)
{
    if (!take(reader, '\\')) {
        return read_character(reader);
    }
    if (take(reader, 'b')) {
        return '\b';
    }
    struct set named;
    int32_t c = read_escape(reader, &named);
    for (int32_t i = 0; c < 0 && i < named.count; i++) {
        set_add(reader, set, named.ranges[i].low, named.ranges[i].high);
    }
    return c;
}

/* Behind a `[`. */
static void read_class(struct reader *reader, struct set *set)
{
    bool negated = reader->negated = take(reader, '^');
    while (!stopped(reader) && peek(reader) != ']') {
        if (at_end(reader)) {
            fail(reader, ERR_INVALID, "a class is not closed");
            return;
        }
        if (peek(reader) == '[' && reader->at + 1 < reader->count &&
            reader->text[reader->at + 1] == ':') {
            fail(reader, ERR_UNSUPPORTED_FIELD, "classes by name are not built");
        }
        int32_t low = read_member(reader, set);
        bool ranges = peek(reader) == '-' && reader->at + 1 < reader->count &&
                      reader->text[reader->at + 1] != ']';
        if (ranges && low >= 0) {
            reader->at++;
            int32_t high = read_member(reader, set);
            if (high < 0) {
                fail(reader, ERR_INVALID, "a range ends in a class");
            }
            set_add(reader, set, low, high);
        } else if (low >= 0) {
            set_add(reader, set, low, low);
        }
    }
    if (!take(reader, ']')) {
        fail(reader, ERR_INVALID, "a class is not closed");
    }
    reader->negated = false;
    if (negated) {
        set_negate(reader, set);
    }
    set_sort(set);
}

/* ---- building ------------------------------------------------------------------------------ */

/* A character that a string of JSON spells by an escape. */
static void build_escaped(struct reader *reader, int32_t c, int32_t from, int32_t to)
{
    static const char hex[] = "0123456789abcdef", letters[] = "btnfr", controls[] = "\b\t\n\f\r";
    char text[7] = {'\\', 'u', '0', '0', hex[c >> 4 & 15], hex[c & 15], '\0'};
    const char *control = strchr(controls, c);
    if (c == '"' || c == '\\' || control != NULL) {
        text[1] = control != NULL ? letters[control - controls] : (char)c;
        text[2] = '\0';
    }
    int32_t last = grammar_text(reader->builder, from, text, strlen(text));
    grammar_empty(reader->builder, last, to);
}

static void build_range(struct reader *reader, struct range range, int32_t from, int32_t to)
{
    if (reader->spelling == GRAMMAR_PLAIN) {
        grammar_range(reader->builder, from, range.low, range.high, to);
        return;
    }
    int32_t low = range.low;
    for (int32_t c = range.low; c <= range.high && c <= '\\'; c++) {
        if (c < ' ' || c == '"' || c == '\\') {
            grammar_range(reader->builder, from, low, c - 1, to);
            build_escaped(reader, c, from, to);
            low = c + 1;
        }
    }
    grammar_range(reader->builder, from, low, range.high, to);
}

static int32_t build_set(struct reader *reader, const struct set *set, int32_t from)
{
    if (reader->dry) {
        return from;
    }
    int32_t to = grammar_state(reader->builder);
    for (int32_t i = 0; i < set->count && !stopped(reader); i++) {
        build_range(reader, set->ranges[i], from, to);
    }
    return to;
}

static int32_t read_alternatives(struct reader *reader, int32_t from);

static int32_t read_group(struct reader *reader, int32_t from)
{
    if (take(reader, '?') && !take(reader, ':')) {
        fail(
            reader, ERR_UNSUPPORTED_FIELD, "groups that look around, name or switch are not built");
    }
    if (++reader->depth > NESTING_MAX) {
        fail(reader, ERR_LIMIT, "groups are nested too deep");
    }
    int32_t to = stopped(reader) ? from : read_alternatives(reader, from);
    reader->depth--;
    if (!stopped(reader) && !take(reader, ')')) {
        fail(reader, ERR_INVALID, "a group is not closed");
    }
    return to;
}

/* Reads what a quantifier may follow, and builds it unless dry; returns the state behind. */
static int32_t read_atom(struct reader *reader, int32_t from)
{
    struct set set = {.count = 0};
    char c = peek(reader);
    if (take(reader, '(')) {
        return read_group(reader, from);
    }
    if (take(reader, '[')) {
        read_class(reader, &set);
    } else if (take(reader, '.')) {
        set_add(reader, &set, '\n', '\n');
        set_add(reader, &set, '\r', '\r');
        set_add(reader, &set, 0x2028, 0x2029);
        set_negate(reader, &set);
    } else if (take(reader, '\\')) {
        int32_t escaped = read_escape(reader, &set);
        if (escaped >= 0) {
            set_add(reader, &set, escaped, escaped);
        }
    } else if (c == '*' || c == '+' || c == '?' || c == '{') {
        fail(reader, ERR_INVALID, "there is nothing to repeat");
    } else if (c == '^' || c == '$') {
        fail(reader, ERR_UNSUPPORTED_FIELD, "anchors within an expression are not built");
    } else {
        int32_t literal = read_character(reader);
        set_add(reader, &set, literal, literal);
    }
    return stopped(reader) ? from : build_set(reader, &set, from);
}

static int32_t read_number(struct reader *reader)
{
    if (peek(reader) < '0' || peek(reader) > '9') {
        fail(reader, ERR_INVALID, "a repetition needs a number");
    }
    int32_t value = 0;
    while (peek(reader) >= '0' && peek(reader) <= '9' && !stopped(reader)) {
        value = value * 10 + (peek(reader) - '0');
        if (value > REPEAT_MAX) {
            fail(reader, ERR_LIMIT, "at most 1000 repetitions are counted");
        }
        reader->at++;
    }
    return value;
}

/* At most `*out_most` copies, ENDLESS = any number. */
static void read_quantifier(struct reader *reader, int32_t *out_least, int32_t *out_most)
{
    *out_least = *out_most = 1;
    if (take(reader, '*')) {
        *out_least = 0;
        *out_most = ENDLESS;
    } else if (take(reader, '+')) {
        *out_most = ENDLESS;
    } else if (take(reader, '?')) {
        *out_least = 0;
    } else if (take(reader, '{')) {
        *out_least = *out_most = read_number(reader);
        if (take(reader, ',')) {
            *out_most = peek(reader) == '}' ? ENDLESS : read_number(reader);
        }
        if (!stopped(reader) && !take(reader, '}')) {
            fail(reader, ERR_INVALID, "a repetition is not closed");
        }
        if (*out_most != ENDLESS && *out_most < *out_least) {
            fail(reader, ERR_INVALID, "the repetition is backwards");
        }
    } else {
        return;
    }
    (void)take(reader, '?'); /* whole texts are matched: lazy or not is one */
    char c = peek(reader);
    if (c == '*' || c == '+' || c == '?' || c == '{') {
        fail(reader, ERR_UNSUPPORTED_FIELD, "a repetition of a repetition needs a group");
    }
}

static int32_t read_repeated(struct reader *reader, int32_t from)
{
    bool dry = reader->dry;
    size_t begin = reader->at;
    int32_t least, most;
    reader->dry = true;
    (void)read_atom(reader, from);
    reader->dry = dry;
    if (!stopped(reader)) {
        read_quantifier(reader, &least, &most);
    }
    if (dry || stopped(reader)) {
        return from;
    }
    size_t end = reader->at;
    struct grammar_builder *builder = reader->builder;
    int32_t to = grammar_state(builder), at = from;
    for (int32_t i = 0; !stopped(reader) && i < (most == ENDLESS ? least : most); i++) {
        if (i >= least) {
            grammar_empty(builder, at, to);
        }
        int32_t copy = grammar_state(builder); /* one more even where the atom is empty */
        grammar_empty(builder, at, copy);
        reader->at = begin;
        at = read_atom(reader, copy);
    }
    if (most == ENDLESS && !stopped(reader)) {
        int32_t loop = grammar_state(builder);
        grammar_empty(builder, at, loop);
        reader->at = begin;
        grammar_empty(builder, read_atom(reader, loop), loop);
        at = loop;
    }
    grammar_empty(builder, at, to);
    reader->at = end;
    return to;
}

static int32_t read_alternatives(struct reader *reader, int32_t from)
{
    int32_t to = reader->dry ? from : grammar_state(reader->builder);
    do {
        int32_t at = from;
        while (!stopped(reader) && !at_end(reader) && peek(reader) != '|' && peek(reader) != ')' &&
               !(reader->depth == 0 && peek(reader) == '$' && reader->at + 1 == reader->count)) {
            at = read_repeated(reader, at);
        }
        if (!reader->dry && !stopped(reader)) {
            grammar_empty(reader->builder, at, to);
        }
    } while (!stopped(reader) && take(reader, '|'));
    return to;
}

/* An unanchored side of an expression that is searched for. */
static int32_t build_any(struct reader *reader, int32_t from)
{
    int32_t loop = grammar_state(reader->builder);
    grammar_empty(reader->builder, from, loop);
    grammar_json_character(reader->builder, loop, loop);
    return loop;
}

/* An anchor belongs to one alternative alone; at the top there must be one only then. */
static bool has_bars(const struct reader *reader)
{
    int32_t depth = 0;
    bool in_class = false;
    for (size_t i = 0; i < reader->count; i++) {
        char c = reader->text[i];
        if (c == '\\') {
            i++;
        } else if (c == '[' || c == ']') {
            in_class = c == '[';
        } else if (!in_class) {
            depth += (c == '(') - (c == ')');
            if (c == '|' && depth == 0) {
                return true;
            }
        }
    }
    return false;
}

enum err grammar_regex(struct grammar_builder *builder, const char *pattern, size_t bytes,
    enum grammar_spelling spelling, int32_t from, int32_t *out_to, struct err_info *info)
{
    struct reader reader = {
        .builder = builder, .text = pattern, .count = bytes, .spelling = spelling, .info = info};
    bool begins = take(&reader, '^');
    if (!begins && spelling == GRAMMAR_IN_STRING) {
        from = build_any(&reader, from);
    }
    int32_t to = read_alternatives(&reader, from);
    bool ends = !stopped(&reader) && take(&reader, '$');
    if (!stopped(&reader) && (begins || ends) && has_bars(&reader)) {
        fail(&reader, ERR_UNSUPPORTED_FIELD, "anchors of one alternative are not built");
    }
    if (!stopped(&reader) && !at_end(&reader)) {
        fail(&reader, ERR_INVALID, "a group is closed that was not opened");
    }
    if (!ends && spelling == GRAMMAR_IN_STRING && !stopped(&reader)) {
        to = build_any(&reader, to);
    }
    if (reader.err == ERR_OK) {
        *out_to = to; /* what the builder lacks is told when it is finished */
    }
    return reader.err;
}
