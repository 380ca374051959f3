/*
 * Owns values of one type as grammars. What surprises: an object is two roads side by side, with
 * nothing written yet and with something, since a comma stands before all members but the first.
 */
#include "api/grammar_schema.h"

#include <math.h>
#include <string.h>

enum {
    COUNT_MAX = 1 << 15, /* of minLength and its like: more states than there are */
    /* What can come next is a way each, and a required member comes behind. */
    OPTIONAL_MAX = GRAMMAR_WAYS - 1,
};
_Static_assert(OPTIONAL_MAX == 255, "an error says so");

/* Days go to the 28th, so that a month of any name has them. */
static const struct {
    const char *word, *pattern;
} FORMATS[] = {
    {"date", "^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])$"},
    {"time", "^([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z$"},
    {"date-time", "^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])T([01][0-9]|2[0-3]):[0-5][0-9]:"
                  "[0-5][0-9]Z$"},
    {"uuid", "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"},
    {"ipv4", "^((25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])\\.){3}(25[0-5]|2[0-4][0-9]|1[0-9]{2}|"
             "[1-9]?[0-9])$"},
};

static int32_t character_rule(struct grammar_schema *compiler)
{
    if (compiler->character < 0) {
        struct grammar_builder *builder = &compiler->builder;
        int32_t end = grammar_state(builder);
        compiler->character = grammar_state(builder);
        grammar_json_character(builder, compiler->character, end);
        grammar_final(builder, end);
    }
    return compiler->character;
}

/* A bound of `node`, `absent` without one. */
static int32_t count_of(struct grammar_schema *compiler, const struct json_in *node,
    const char *where, const char *key, int32_t absent)
{
    const struct json_in *value = json_in_get(node, key);
    if (value == NULL) {
        return absent;
    }
    enum json_in_kind kind = json_in_kind(value);
    double number = kind == JSON_IN_INTEGER || kind == JSON_IN_REAL ? json_in_number(value) : -1;
    if (number < 0 || number != floor(number)) {
        grammar_schema_fail(
            compiler, ERR_INVALID, grammar_schema_below(compiler, where, key), "must be a count");
        return absent;
    }
    return number < COUNT_MAX ? (int32_t)number : COUNT_MAX;
}

/* ---- numbers ------------------------------------------------------------------------------- */

/* A bound as an integer: `up` = the least one that is at least so much. */
static int64_t bound_of(struct grammar_schema *compiler, const struct json_in *node,
    const char *where, const char *key, bool up, int64_t absent)
{
    const struct json_in *value = json_in_get(node, key);
    if (value == NULL) {
        return absent;
    }
    enum json_in_kind kind = json_in_kind(value);
    if (kind != JSON_IN_INTEGER && kind != JSON_IN_REAL) {
        grammar_schema_fail(
            compiler, ERR_INVALID, grammar_schema_below(compiler, where, key), "must be a number");
        return absent;
    }
    double number = up ? ceil(json_in_number(value)) : floor(json_in_number(value));
    if (strncmp(key, "exclusive", 9) == 0 && number == json_in_number(value)) {
        number += up ? 1 : -1;
    }
    return number < -1e15 ? -(int64_t)1e15 : number > 1e15 ? (int64_t)1e15 : (int64_t)number;
}

void grammar_schema_integer(struct grammar_schema *compiler, const struct json_in *node,
    const char *where, int32_t from, int32_t to)
{
    struct grammar_builder *builder = &compiler->builder;
    const int64_t most = (int64_t)1e15 - 1;
    int64_t low = bound_of(compiler, node, where, "minimum", true, -most);
    int64_t above = bound_of(compiler, node, where, "exclusiveMinimum", true, -most);
    int64_t high = bound_of(compiler, node, where, "maximum", false, most);
    int64_t under = bound_of(compiler, node, where, "exclusiveMaximum", false, most);
    low = low > above ? low : above;
    high = high < under ? high : under;
    grammar_json_integer_between(builder, from, low, high, to);
}

/* ---- strings ------------------------------------------------------------------------------- */

static void build_pattern(struct grammar_schema *compiler, const char *pattern, const char *where,
    int32_t from, int32_t to)
{
    struct grammar_builder *builder = &compiler->builder;
    struct err_info why;
    int32_t inside = grammar_text(builder, from, "\"", 1), end = inside;
    enum err err =
        grammar_regex(builder, pattern, strlen(pattern), GRAMMAR_IN_STRING, inside, &end, &why);
    if (err != ERR_OK && compiler->err == ERR_OK) {
        compiler->err = call_fail(
            compiler->info, err, NULL, where, "at byte %lld: %s", (long long)why.offset, why.text);
    }
    grammar_bytes(builder, end, '"', '"', to);
}

static void build_lengths(
    struct grammar_schema *compiler, int32_t least, int32_t most, int32_t from, int32_t to)
{
    struct grammar_builder *builder = &compiler->builder;
    int32_t character = character_rule(compiler);
    int32_t at = grammar_text(builder, from, "\"", 1), close = grammar_state(builder);
    for (int32_t i = 0; i < (most < 0 ? least : most) && builder->failed == ERR_OK; i++) {
        if (i >= least) {
            grammar_empty(builder, at, close);
        }
        int32_t next = grammar_state(builder);
        grammar_calls(builder, at, character, next);
        at = next;
    }
    if (most < 0) {
        grammar_json_character(builder, at, at);
    }
    if (most < 0 || most >= least) {
        grammar_empty(builder, at, close);
    }
    grammar_bytes(builder, close, '"', '"', to);
}

void grammar_schema_string(struct grammar_schema *compiler, const struct json_in *node,
    const char *where, int32_t from, int32_t to)
{
    const struct json_in *pattern = json_in_get(node, "pattern"),
                         *format = json_in_get(node, "format");
    int32_t least = count_of(compiler, node, where, "minLength", 0);
    int32_t most = count_of(compiler, node, where, "maxLength", -1);
    bool bounded = least > 0 || most >= 0;
    if ((pattern != NULL) + (format != NULL) + bounded > 1) {
        grammar_schema_fail(compiler, ERR_UNSUPPORTED_FIELD,
            grammar_schema_below(compiler, where, pattern ? "pattern" : "format"),
            "is not built together with other bounds of a string");
    } else if (pattern != NULL) {
        const char *place = grammar_schema_below(compiler, where, "pattern"),
                   *text = grammar_schema_text(pattern);
        if (text == NULL) {
            grammar_schema_fail(compiler, ERR_INVALID, place, "must be a string");
        } else {
            build_pattern(compiler, text, place, from, to);
        }
    } else if (format != NULL) {
        const char *word = grammar_schema_text(format);
        for (size_t i = 0; word != NULL && i < sizeof FORMATS / sizeof *FORMATS; i++) {
            if (strcmp(FORMATS[i].word, word) == 0) {
                build_pattern(compiler, FORMATS[i].pattern, where, from, to);
                return;
            }
        }
        grammar_schema_fail(compiler, ERR_UNSUPPORTED_FIELD,
            grammar_schema_below(compiler, where, "format"),
            "must be date, time, date-time, uuid or ipv4: others are not built");
    } else {
        build_lengths(compiler, least, most, from, to);
    }
}

/* ---- objects and lists --------------------------------------------------------------------- */

static bool is_required(const struct json_in *required, const char *key)
{
    for (size_t i = 0; required != NULL && i < json_in_count(required); i++) {
        const char *name = grammar_schema_text(json_in_at(required, i));
        if (name != NULL && strcmp(name, key) == 0) {
            return true;
        }
    }
    return false;
}

static void check_required(struct grammar_schema *compiler, const struct json_in *required,
    const struct json_in *properties, const char *where)
{
    if (required != NULL && json_in_kind(required) != JSON_IN_ARRAY) {
        grammar_schema_fail(compiler, ERR_INVALID, where, "must be a list of names");
        return;
    }
    for (size_t i = 0; required != NULL && i < json_in_count(required); i++) {
        const char *name = grammar_schema_text(json_in_at(required, i));
        if (name == NULL || properties == NULL || json_in_get(properties, name) == NULL) {
            grammar_schema_fail(compiler, ERR_UNSUPPORTED_FIELD,
                grammar_schema_below_index(compiler, where, i),
                "must be one of the names in properties");
        }
    }
}

/* "key": value, from a state to the one behind. */
static int32_t build_member(
    struct grammar_schema *compiler, const char *key, int32_t entry, int32_t from)
{
    struct grammar_builder *builder = &compiler->builder;
    struct buf text;
    struct json_out json;
    buf_init(&text, MEM_REQUESTS, 1 << 20);
    json_out_init(&json, &text);
    json_out_string(&json, key);
    if (text.failed) {
        grammar_schema_fail(compiler, ERR_LIMIT, compiler->where, "a name is too long");
    } else {
        from = grammar_json_mark(builder, grammar_text(builder, from, text.bytes, text.count), ':');
    }
    buf_free(&text);
    int32_t to = grammar_state(builder);
    grammar_calls(builder, from, entry, to);
    return to;
}

/* Two roads side by side: nothing written yet, and something; a comma leads into a member from the
 * second alone. */
static void build_members(struct grammar_schema *compiler, const struct json_in *properties,
    const struct json_in *required, const char *where, int32_t from, int32_t to)
{
    struct grammar_builder *builder = &compiler->builder;
    int32_t empty = grammar_text(builder, from, "{", 1), some = grammar_state(builder);
    struct json_in_member property = {0};
    int32_t optional = 0; /* in a row */
    while (json_in_next(properties, &property) && !grammar_schema_stopped(compiler)) {
        int32_t entry = grammar_schema_rule(
            compiler, property.value, grammar_schema_below(compiler, where, property.key));
        int32_t key = grammar_state(builder), next_empty = grammar_state(builder);
        int32_t next_some = grammar_state(builder);
        grammar_empty(builder, empty, key);
        grammar_empty(builder, grammar_json_mark(builder, some, ','), key);
        grammar_empty(builder, build_member(compiler, property.key, entry, key), next_some);
        if (is_required(required, property.key)) {
            optional = 0;
        } else {
            grammar_empty(builder, empty, next_empty);
            grammar_empty(builder, some, next_some);
            optional++;
        }
        if (optional > OPTIONAL_MAX) {
            grammar_schema_fail(
                compiler, ERR_LIMIT, where, "more than 255 members in a row are not required");
        }
        empty = next_empty;
        some = next_some;
    }
    grammar_bytes(builder, empty, '}', '}', to);
    grammar_bytes(builder, some, '}', '}', to);
}

void grammar_schema_object(struct grammar_schema *compiler, const struct json_in *node,
    const char *where, int32_t from, int32_t to)
{
    const struct json_in *properties = json_in_get(node, "properties");
    const struct json_in *others = json_in_get(node, "additionalProperties");
    const struct json_in *required = json_in_get(node, "required");
    if (properties != NULL && json_in_kind(properties) != JSON_IN_OBJECT) {
        grammar_schema_fail(compiler, ERR_INVALID,
            grammar_schema_below(compiler, where, "properties"), "must be an object");
        return;
    }
    check_required(
        compiler, required, properties, grammar_schema_below(compiler, where, "required"));
    int32_t other = -1;
    if (others != NULL) { /* read for its errors, even where it is not used */
        other = grammar_schema_rule(
            compiler, others, grammar_schema_below(compiler, where, "additionalProperties"));
    }
    bool declared = properties != NULL && json_in_count(properties) > 0;
    if (grammar_schema_stopped(compiler)) {
        return;
    }
    if (declared) {
        build_members(compiler, properties, required,
            grammar_schema_below(compiler, where, "properties"), from, to);
    } else {
        grammar_json_map(
            &compiler->builder, from, others != NULL ? other : grammar_schema_any(compiler), to);
    }
}

static int32_t item_rule(
    struct grammar_schema *compiler, const struct json_in *node, const char *where, size_t index)
{
    const struct json_in *prefix = json_in_get(node, "prefixItems"),
                         *items = json_in_get(node, "items");
    if (prefix != NULL && index < json_in_count(prefix)) {
        return grammar_schema_rule(compiler, json_in_at(prefix, index),
            grammar_schema_below_index(
                compiler, grammar_schema_below(compiler, where, "prefixItems"), index));
    }
    return items != NULL ? grammar_schema_rule(
                               compiler, items, grammar_schema_below(compiler, where, "items"))
                         : grammar_schema_any(compiler);
}

void grammar_schema_list(struct grammar_schema *compiler, const struct json_in *node,
    const char *where, int32_t from, int32_t to)
{
    struct grammar_builder *builder = &compiler->builder;
    const struct json_in *prefix = json_in_get(node, "prefixItems");
    int32_t least = count_of(compiler, node, where, "minItems", 0);
    int32_t most = count_of(compiler, node, where, "maxItems", -1);
    if (prefix != NULL && json_in_kind(prefix) != JSON_IN_ARRAY) {
        grammar_schema_fail(compiler, ERR_INVALID,
            grammar_schema_below(compiler, where, "prefixItems"), "must be a list");
        return;
    }
    int32_t named = prefix != NULL ? (int32_t)json_in_count(prefix) : 0;
    int32_t counted = most >= 0 ? most : least > named ? least : named;
    int32_t at = grammar_text(builder, from, "[", 1);
    for (int32_t i = 0; i < counted && !grammar_schema_stopped(compiler); i++) {
        int32_t behind = grammar_state(builder);
        if (i >= least) {
            grammar_bytes(builder, at, ']', ']', to);
        }
        at = i > 0 ? grammar_json_mark(builder, at, ',') : at;
        grammar_calls(builder, at, item_rule(compiler, node, where, (size_t)i), behind);
        at = behind;
    }
    if (most < 0 || most >= least) {
        grammar_bytes(builder, at, ']', ']', to);
    }
    if (most < 0 && !grammar_schema_stopped(compiler)) {
        int32_t behind = grammar_state(builder);
        int32_t comma = grammar_json_mark(builder, behind, ',');
        int32_t first = counted > 0 ? grammar_json_mark(builder, at, ',') : at;
        int32_t entry = item_rule(compiler, node, where, (size_t)counted);
        grammar_calls(builder, first, entry, behind);
        grammar_calls(builder, comma, entry, behind);
        grammar_bytes(builder, behind, ']', ']', to);
    }
}
