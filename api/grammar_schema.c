/*
 * JSON Schema, the part that clients use for answers, as a grammar: docs/constrained.md lists it.
 *
 * Every schema that stands under another one becomes a rule of its own, made once and called, so
 * $ref may go in circles and counted repetition costs a call a copy. Rules wait in a list until
 * they are built: nothing here recurses but anyOf, as deep as the request's JSON goes.
 *
 * What surprises: the grammar may be narrower than the schema, and never wider. Members come in the
 * order of `properties`, and others than those only where none are declared.
 */
#include "api/grammar.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "api/json_text.h"

enum {
    RULES_MAX = 2048,
    POINTER_BYTES = ERR_WHERE_BYTES,
    LITERAL_BYTES_MAX = GRAMMAR_STATES, /* a state a byte */
    COUNT_MAX = 1 << 15,                /* of minLength and its like: more states than there are */
};

enum kind_bit {
    IS_NULL = 1,
    IS_BOOLEAN = 2,
    IS_INTEGER = 4,
    IS_NUMBER = 8,
    IS_STRING = 16,
    IS_ARRAY = 32,
    IS_OBJECT = 64,
    IS_ANY = IS_NULL | IS_BOOLEAN | IS_NUMBER | IS_STRING | IS_ARRAY | IS_OBJECT,
};

struct rule {
    const struct json_in *node;
    const char *where;
    int32_t entry, end;
};

struct compiler {
    struct call *call;
    struct grammar_builder builder;
    const struct json_in *root;
    const char *where; /* of the root */
    struct rule *rules;
    int32_t rule_count;
    int32_t any, character; /* entries of rules, -1 = not made yet */
    enum err err;
    struct err_info *info;
};

/* A keyword, and the types it speaks of: one that is alone says the type. */
static const struct {
    const char *word;
    unsigned kinds; /* 0: says nothing of values, or is read by itself */
} KEYWORDS[] = {{"type", 0}, {"enum", 0}, {"const", 0}, {"anyOf", 0}, {"oneOf", 0}, {"allOf", 0},
    {"$ref", 0}, {"nullable", 0}, {"properties", IS_OBJECT}, {"required", IS_OBJECT},
    {"additionalProperties", IS_OBJECT}, {"items", IS_ARRAY}, {"prefixItems", IS_ARRAY},
    {"minItems", IS_ARRAY}, {"maxItems", IS_ARRAY}, {"minLength", IS_STRING},
    {"maxLength", IS_STRING}, {"pattern", IS_STRING}, {"format", IS_STRING},
    {"minimum", IS_INTEGER}, {"maximum", IS_INTEGER}, {"exclusiveMinimum", IS_INTEGER},
    {"exclusiveMaximum", IS_INTEGER}, {"title", 0}, {"description", 0}, {"default", 0},
    {"examples", 0}, {"$schema", 0}, {"$comment", 0}, {"$defs", 0}, {"definitions", 0},
    {"deprecated", 0}, {"readOnly", 0}, {"writeOnly", 0}};
enum { FIRST_ANNOTATION = 23 };

static const struct {
    const char *word;
    unsigned kind;
} TYPES[] = {{"null", IS_NULL}, {"boolean", IS_BOOLEAN}, {"integer", IS_INTEGER},
    {"number", IS_NUMBER}, {"string", IS_STRING}, {"array", IS_ARRAY}, {"object", IS_OBJECT}};

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

static void fail(struct compiler *compiler, enum err err, const char *where, const char *text)
{
    if (compiler->err == ERR_OK) {
        compiler->err = call_fail(compiler->info, err, NULL, where, "%s", text);
    }
}

static bool stopped(const struct compiler *compiler)
{
    return compiler->err != ERR_OK || compiler->builder.failed != ERR_OK;
}

/* where/key, with the escapes of RFC 6901 and cut where it is long. */
static const char *below(struct compiler *compiler, const char *where, const char *key)
{
    char text[POINTER_BYTES];
    size_t count = 0;
    for (const char *at = key; *at != '\0' && count + 3 < sizeof text; at++) {
        if (*at == '~' || *at == '/') {
            text[count++] = '~';
        }
        text[count++] = *at == '~' ? '0' : *at == '/' ? '1' : *at;
    }
    text[count] = '\0';
    char *pointer = arena_printf(compiler->call->arena, "%.*s/%s", POINTER_BYTES, where, text);
    if (pointer == NULL) {
        fail(compiler, ERR_NO_MEMORY, NULL, "out of memory");
        return where;
    }
    return pointer;
}

static const char *below_index(struct compiler *compiler, const char *where, size_t index)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%zu", index);
    return below(compiler, where, text);
}

static const struct json_in *member(const struct json_in *node, const char *key)
{
    return json_in_get(node, key);
}

static const char *text_of(const struct json_in *value)
{
    size_t bytes;
    return value != NULL && json_in_kind(value) == JSON_IN_STRING ? json_in_string(value, &bytes)
                                                                  : NULL;
}

/* ---- references ---------------------------------------------------------------------------- */

/* One step of a JSON pointer from a value; *at moves behind it. NULL = it leads nowhere. */
static const struct json_in *pointer_step(const struct json_in *value, const char **at)
{
    char key[POINTER_BYTES];
    size_t count = 0;
    for (; **at != '\0' && **at != '/' && count + 1 < sizeof key; (*at)++) {
        char c = **at;
        if (c == '~' && ((*at)[1] == '0' || (*at)[1] == '1')) {
            (*at)++;
            c = **at == '0' ? '~' : '/';
        }
        key[count++] = c;
    }
    key[count] = '\0';
    if (json_in_kind(value) == JSON_IN_OBJECT) {
        return member(value, key);
    }
    char *end;
    unsigned long index = strtoul(key, &end, 10);
    bool counts = json_in_kind(value) == JSON_IN_ARRAY && count > 0 && *end == '\0';
    return counts && index < json_in_count(value) ? json_in_at(value, index) : NULL;
}

static const struct json_in *resolve(
    struct compiler *compiler, const struct json_in *ref, const char *where)
{
    const char *text = text_of(ref);
    if (text == NULL || text[0] != '#' || (text[1] != '\0' && text[1] != '/')) {
        fail(compiler, ERR_UNSUPPORTED_FIELD, where,
            "must be # or #/ and a pointer into the schema");
        return NULL;
    }
    const struct json_in *value = compiler->root;
    const char *at = text + 1;
    while (value != NULL && *at == '/') {
        at++;
        value = pointer_step(value, &at);
    }
    if (value == NULL || *at != '\0') {
        fail(compiler, ERR_INVALID, where, "leads to nothing in the schema");
        return NULL;
    }
    return value;
}

/* ---- rules --------------------------------------------------------------------------------- */

/* Entry of the rule of a schema; it is built later. */
static int32_t rule_of(struct compiler *compiler, const struct json_in *node, const char *where)
{
    for (int32_t i = 0; i < compiler->rule_count; i++) {
        if (compiler->rules[i].node == node) {
            return compiler->rules[i].entry;
        }
    }
    if (compiler->rule_count == RULES_MAX) {
        fail(compiler, ERR_LIMIT, where, "the schema has more than 2048 parts");
    }
    if (stopped(compiler)) {
        return 0;
    }
    struct rule *rule = &compiler->rules[compiler->rule_count++];
    *rule = (struct rule){.node = node,
        .where = where,
        .entry = grammar_state(&compiler->builder),
        .end = grammar_state(&compiler->builder)};
    grammar_final(&compiler->builder, rule->end);
    return rule->entry;
}

static int32_t any_rule(struct compiler *compiler)
{
    if (compiler->any < 0) {
        compiler->any = grammar_json_value(&compiler->builder);
    }
    return compiler->any;
}

static int32_t character_rule(struct compiler *compiler)
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
static int32_t count_of(struct compiler *compiler, const struct json_in *node, const char *where,
    const char *key, int32_t absent)
{
    const struct json_in *value = member(node, key);
    if (value == NULL) {
        return absent;
    }
    enum json_in_kind kind = json_in_kind(value);
    double number = kind == JSON_IN_INTEGER || kind == JSON_IN_REAL ? json_in_number(value) : -1;
    if (number < 0 || number != floor(number)) {
        fail(compiler, ERR_INVALID, below(compiler, where, key), "must be a count");
        return absent;
    }
    return number < COUNT_MAX ? (int32_t)number : COUNT_MAX;
}

/* ---- numbers ------------------------------------------------------------------------------- */

/* A bound as an integer: `up` = the least one that is at least so much. */
static int64_t bound_of(struct compiler *compiler, const struct json_in *node, const char *where,
    const char *key, bool up, int64_t absent)
{
    const struct json_in *value = member(node, key);
    if (value == NULL) {
        return absent;
    }
    enum json_in_kind kind = json_in_kind(value);
    if (kind != JSON_IN_INTEGER && kind != JSON_IN_REAL) {
        fail(compiler, ERR_INVALID, below(compiler, where, key), "must be a number");
        return absent;
    }
    double number = up ? ceil(json_in_number(value)) : floor(json_in_number(value));
    if (strncmp(key, "exclusive", 9) == 0 && number == json_in_number(value)) {
        number += up ? 1 : -1;
    }
    return number < -1e15 ? -(int64_t)1e15 : number > 1e15 ? (int64_t)1e15 : (int64_t)number;
}

static void build_integer(struct compiler *compiler, const struct json_in *node, const char *where,
    int32_t from, int32_t to)
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

static void build_pattern(
    struct compiler *compiler, const char *pattern, const char *where, int32_t from, int32_t to)
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
    struct compiler *compiler, int32_t least, int32_t most, int32_t from, int32_t to)
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

static void build_string(struct compiler *compiler, const struct json_in *node, const char *where,
    int32_t from, int32_t to)
{
    const struct json_in *pattern = member(node, "pattern"), *format = member(node, "format");
    int32_t least = count_of(compiler, node, where, "minLength", 0);
    int32_t most = count_of(compiler, node, where, "maxLength", -1);
    bool bounded = least > 0 || most >= 0;
    if ((pattern != NULL) + (format != NULL) + bounded > 1) {
        fail(compiler, ERR_UNSUPPORTED_FIELD,
            below(compiler, where, pattern ? "pattern" : "format"),
            "is not built together with other bounds of a string");
    } else if (pattern != NULL) {
        const char *place = below(compiler, where, "pattern"), *text = text_of(pattern);
        if (text == NULL) {
            fail(compiler, ERR_INVALID, place, "must be a string");
        } else {
            build_pattern(compiler, text, place, from, to);
        }
    } else if (format != NULL) {
        const char *word = text_of(format);
        for (size_t i = 0; word != NULL && i < sizeof FORMATS / sizeof *FORMATS; i++) {
            if (strcmp(FORMATS[i].word, word) == 0) {
                build_pattern(compiler, FORMATS[i].pattern, where, from, to);
                return;
            }
        }
        fail(compiler, ERR_UNSUPPORTED_FIELD, below(compiler, where, "format"),
            "must be date, time, date-time, uuid or ipv4: others are not built");
    } else {
        build_lengths(compiler, least, most, from, to);
    }
}

/* ---- objects and lists --------------------------------------------------------------------- */

static bool is_required(const struct json_in *required, const char *key)
{
    for (size_t i = 0; required != NULL && i < json_in_count(required); i++) {
        const char *name = text_of(json_in_at(required, i));
        if (name != NULL && strcmp(name, key) == 0) {
            return true;
        }
    }
    return false;
}

static void check_required(struct compiler *compiler, const struct json_in *required,
    const struct json_in *properties, const char *where)
{
    if (required != NULL && json_in_kind(required) != JSON_IN_ARRAY) {
        fail(compiler, ERR_INVALID, where, "must be a list of names");
        return;
    }
    for (size_t i = 0; required != NULL && i < json_in_count(required); i++) {
        const char *name = text_of(json_in_at(required, i));
        if (name == NULL || properties == NULL || member(properties, name) == NULL) {
            fail(compiler, ERR_UNSUPPORTED_FIELD, below_index(compiler, where, i),
                "must be one of the names in properties");
        }
    }
}

/* "key": value, from a state to the one behind. */
static int32_t build_member(struct compiler *compiler, const char *key, int32_t entry, int32_t from)
{
    struct grammar_builder *builder = &compiler->builder;
    struct buf text;
    struct json_out json;
    buf_init(&text, MEM_REQUESTS, 1 << 20);
    json_out_init(&json, &text);
    json_out_string(&json, key);
    if (text.failed) {
        fail(compiler, ERR_LIMIT, compiler->where, "a name is too long");
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
static void build_members(struct compiler *compiler, const struct json_in *properties,
    const struct json_in *required, const char *where, int32_t from, int32_t to)
{
    struct grammar_builder *builder = &compiler->builder;
    int32_t empty = grammar_text(builder, from, "{", 1), some = grammar_state(builder);
    struct json_in_member property = {0};
    while (json_in_next(properties, &property) && !stopped(compiler)) {
        int32_t entry = rule_of(compiler, property.value, below(compiler, where, property.key));
        int32_t key = grammar_state(builder), next_empty = grammar_state(builder);
        int32_t next_some = grammar_state(builder);
        grammar_empty(builder, empty, key);
        grammar_empty(builder, grammar_json_mark(builder, some, ','), key);
        grammar_empty(builder, build_member(compiler, property.key, entry, key), next_some);
        if (!is_required(required, property.key)) {
            grammar_empty(builder, empty, next_empty);
            grammar_empty(builder, some, next_some);
        }
        empty = next_empty;
        some = next_some;
    }
    grammar_bytes(builder, empty, '}', '}', to);
    grammar_bytes(builder, some, '}', '}', to);
}

static void build_object(struct compiler *compiler, const struct json_in *node, const char *where,
    int32_t from, int32_t to)
{
    const struct json_in *properties = member(node, "properties");
    const struct json_in *others = member(node, "additionalProperties");
    const struct json_in *required = member(node, "required");
    if (properties != NULL && json_in_kind(properties) != JSON_IN_OBJECT) {
        fail(compiler, ERR_INVALID, below(compiler, where, "properties"), "must be an object");
        return;
    }
    check_required(compiler, required, properties, below(compiler, where, "required"));
    int32_t other = -1;
    if (others != NULL) { /* read for its errors, even where it is not used */
        other = rule_of(compiler, others, below(compiler, where, "additionalProperties"));
    }
    bool declared = properties != NULL && json_in_count(properties) > 0;
    if (stopped(compiler)) {
        return;
    }
    if (declared) {
        build_members(
            compiler, properties, required, below(compiler, where, "properties"), from, to);
    } else {
        grammar_json_map(&compiler->builder, from, others != NULL ? other : any_rule(compiler), to);
    }
}

static int32_t item_rule(
    struct compiler *compiler, const struct json_in *node, const char *where, size_t index)
{
    const struct json_in *prefix = member(node, "prefixItems"), *items = member(node, "items");
    if (prefix != NULL && index < json_in_count(prefix)) {
        return rule_of(compiler, json_in_at(prefix, index),
            below_index(compiler, below(compiler, where, "prefixItems"), index));
    }
    return items != NULL ? rule_of(compiler, items, below(compiler, where, "items"))
                         : any_rule(compiler);
}

static void build_list(struct compiler *compiler, const struct json_in *node, const char *where,
    int32_t from, int32_t to)
{
    struct grammar_builder *builder = &compiler->builder;
    const struct json_in *prefix = member(node, "prefixItems");
    int32_t least = count_of(compiler, node, where, "minItems", 0);
    int32_t most = count_of(compiler, node, where, "maxItems", -1);
    if (prefix != NULL && json_in_kind(prefix) != JSON_IN_ARRAY) {
        fail(compiler, ERR_INVALID, below(compiler, where, "prefixItems"), "must be a list");
        return;
    }
    int32_t named = prefix != NULL ? (int32_t)json_in_count(prefix) : 0;
    int32_t counted = most >= 0 ? most : least > named ? least : named;
    int32_t at = grammar_text(builder, from, "[", 1);
    for (int32_t i = 0; i < counted && !stopped(compiler); i++) {
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
    if (most < 0 && !stopped(compiler)) {
        int32_t behind = grammar_state(builder);
        int32_t comma = grammar_json_mark(builder, behind, ',');
        int32_t first = counted > 0 ? grammar_json_mark(builder, at, ',') : at;
        int32_t entry = item_rule(compiler, node, where, (size_t)counted);
        grammar_calls(builder, first, entry, behind);
        grammar_calls(builder, comma, entry, behind);
        grammar_bytes(builder, behind, ']', ']', to);
    }
}

/* ---- schemas ------------------------------------------------------------------------------- */

static unsigned kind_of_word(const char *word)
{
    for (size_t i = 0; word != NULL && i < sizeof TYPES / sizeof *TYPES; i++) {
        if (strcmp(TYPES[i].word, word) == 0) {
            return TYPES[i].kind;
        }
    }
    return 0;
}

static unsigned kind_of_value(const struct json_in *value)
{
    static const unsigned kinds[] = {[JSON_IN_NULL] = IS_NULL,
        [JSON_IN_BOOL] = IS_BOOLEAN,
        [JSON_IN_INTEGER] = IS_INTEGER | IS_NUMBER,
        [JSON_IN_REAL] = IS_NUMBER,
        [JSON_IN_STRING] = IS_STRING,
        [JSON_IN_ARRAY] = IS_ARRAY,
        [JSON_IN_OBJECT] = IS_OBJECT};
    if (json_in_kind(value) == JSON_IN_REAL &&
        json_in_number(value) == floor(json_in_number(value))) {
        return IS_INTEGER | IS_NUMBER;
    }
    return kinds[json_in_kind(value)];
}

/* `type`, else the type that the other keywords speak of, else all. */
static unsigned kinds_of(struct compiler *compiler, const struct json_in *node, const char *where)
{
    const struct json_in *type = member(node, "type");
    const struct json_in *nullable = member(node, "nullable");
    unsigned kinds = 0, hinted = 0;
    bool list = type != NULL && json_in_kind(type) == JSON_IN_ARRAY;
    for (size_t i = 0; type != NULL && i < (list ? json_in_count(type) : 1); i++) {
        unsigned kind = kind_of_word(text_of(list ? json_in_at(type, i) : type));
        if (kind == 0) {
            fail(compiler, ERR_INVALID, below(compiler, where, "type"), "is no type of JSON");
        }
        kinds |= kind;
    }
    for (size_t i = 0; i < sizeof KEYWORDS / sizeof *KEYWORDS; i++) {
        hinted |= member(node, KEYWORDS[i].word) != NULL ? KEYWORDS[i].kinds : 0;
    }
    if (type == NULL) {
        kinds = hinted != 0 ? hinted : IS_ANY;
    }
    if (nullable != NULL && json_in_kind(nullable) == JSON_IN_BOOL && json_in_bool(nullable)) {
        kinds |= IS_NULL;
    }
    if ((kinds & IS_NUMBER) != 0 && (hinted & IS_INTEGER) != 0) {
        const char *word = member(node, "minimum") != NULL            ? "minimum"
                           : member(node, "maximum") != NULL          ? "maximum"
                           : member(node, "exclusiveMinimum") != NULL ? "exclusiveMinimum"
                                                                      : "exclusiveMaximum";
        fail(compiler, ERR_UNSUPPORTED_FIELD, below(compiler, where, word),
            "is built for type integer alone");
    }
    return kinds;
}

static void build_kinds(struct compiler *compiler, const struct json_in *node, const char *where,
    int32_t from, int32_t to)
{
    struct grammar_builder *builder = &compiler->builder;
    unsigned kinds = kinds_of(compiler, node, where);
    if ((kinds & IS_NULL) != 0) {
        grammar_empty(builder, grammar_text(builder, from, "null", 4), to);
    }
    if ((kinds & IS_BOOLEAN) != 0) {
        grammar_empty(builder, grammar_text(builder, from, "true", 4), to);
        grammar_empty(builder, grammar_text(builder, from, "false", 5), to);
    }
    if ((kinds & IS_NUMBER) != 0) {
        grammar_empty(builder, grammar_json_number(builder, from), to);
    } else if ((kinds & IS_INTEGER) != 0) {
        build_integer(compiler, node, where, from, to);
    }
    if ((kinds & IS_STRING) != 0) {
        build_string(compiler, node, where, from, to);
    }
    if ((kinds & IS_ARRAY) != 0) {
        build_list(compiler, node, where, from, to);
    }
    if ((kinds & IS_OBJECT) != 0) {
        build_object(compiler, node, where, from, to);
    }
}

/* Nothing that says more of values than the keywords of `with`, NULL-terminated. */
static bool alone(struct compiler *compiler, const struct json_in *node, const char *where,
    const char *const with[])
{
    for (size_t i = 0; i < FIRST_ANNOTATION; i++) {
        bool allowed = false;
        for (size_t k = 0; with[k] != NULL; k++) {
            allowed = allowed || strcmp(with[k], KEYWORDS[i].word) == 0;
        }
        if (!allowed && member(node, KEYWORDS[i].word) != NULL) {
            fail(compiler, ERR_UNSUPPORTED_FIELD, below(compiler, where, KEYWORDS[i].word),
                "is not built beside $ref, enum, const, anyOf, oneOf or allOf");
            return false;
        }
    }
    return true;
}

/* A value as it is written, in the call's arena. */
static struct grammar_word literal(struct compiler *compiler, const struct json_in *value)
{
    struct grammar_word word = {0};
    struct buf text;
    buf_init(&text, MEM_REQUESTS, LITERAL_BYTES_MAX);
    json_text_write(value, &text);
    char *copy = text.failed ? NULL : arena_array(compiler->call->arena, text.count + 1, 1);
    if (copy != NULL) {
        memcpy(copy, text.bytes, text.count);
        word = (struct grammar_word){copy, text.count};
    } else {
        fail(compiler, text.failed ? ERR_LIMIT : ERR_NO_MEMORY, compiler->where,
            text.failed ? "a value is too long" : "out of memory");
    }
    buf_free(&text);
    return word;
}

static void build_enum(struct compiler *compiler, const struct json_in *node, const char *where,
    int32_t from, int32_t to)
{
    static const char *const with[] = {"enum", "type", "nullable", NULL};
    const struct json_in *values = member(node, "enum");
    if (json_in_kind(values) != JSON_IN_ARRAY || json_in_count(values) == 0) {
        fail(compiler, ERR_INVALID, below(compiler, where, "enum"), "must be a list of values");
        return;
    }
    unsigned kinds = alone(compiler, node, where, with) ? kinds_of(compiler, node, where) : 0;
    struct grammar_word *words = NULL;
    size_t count = 0;
    enum err err =
        call_array(compiler->call, json_in_count(values), sizeof *words, &words, compiler->info);
    compiler->err = compiler->err == ERR_OK ? err : compiler->err;
    for (size_t i = 0; i < json_in_count(values) && !stopped(compiler); i++) {
        if ((kinds & kind_of_value(json_in_at(values, i))) != 0) {
            words[count++] = literal(compiler, json_in_at(values, i));
        }
    }
    if (!stopped(compiler)) {
        grammar_words(&compiler->builder, from, words, count, to);
    }
}

static void build_schema(struct compiler *compiler, const struct json_in *node, const char *where,
    int32_t from, int32_t to);

/* The kinds of JSON an alternative of oneOf can be, by its own words. */
static unsigned kinds_within(
    struct compiler *compiler, const struct json_in *node, const char *where)
{
    bool plain = json_in_kind(node) == JSON_IN_OBJECT && member(node, "type") != NULL;
    unsigned kinds = plain ? kinds_of(compiler, node, where) : IS_ANY;
    return (kinds & IS_INTEGER) != 0 ? kinds | IS_NUMBER : kinds;
}

static void build_alternatives(struct compiler *compiler, const struct json_in *node,
    const char *where, const char *key, int32_t from, int32_t to)
{
    const char *const with[] = {key, NULL};
    const struct json_in *list = member(node, key);
    const char *place = below(compiler, where, key);
    unsigned seen = 0;
    if (json_in_kind(list) != JSON_IN_ARRAY || json_in_count(list) == 0) {
        fail(compiler, ERR_INVALID, place, "must be a list of schemas");
        return;
    }
    if (!alone(compiler, node, where, with)) {
        return;
    }
    if (strcmp(key, "allOf") == 0 && json_in_count(list) > 1) {
        fail(compiler, ERR_UNSUPPORTED_FIELD, place, "is built with one schema in it alone");
    }
    for (size_t i = 0; i < json_in_count(list) && !stopped(compiler); i++) {
        const struct json_in *one = json_in_at(list, i);
        const char *at = below_index(compiler, place, i);
        unsigned kinds = kinds_within(compiler, one, at);
        if (strcmp(key, "oneOf") == 0 && json_in_count(list) > 1 && (kinds & seen) != 0) {
            fail(compiler, ERR_UNSUPPORTED_FIELD, place,
                "is built for alternatives of different types; anyOf takes any");
        }
        seen |= kinds;
        build_schema(compiler, one, at, from, to);
    }
}

static void check_keywords(struct compiler *compiler, const struct json_in *node, const char *where)
{
    struct json_in_member word = {0};
    while (json_in_next(node, &word)) {
        bool known = node == compiler->root && strcmp(word.key, "$id") == 0;
        for (size_t i = 0; !known && i < sizeof KEYWORDS / sizeof *KEYWORDS; i++) {
            known = strcmp(KEYWORDS[i].word, word.key) == 0;
        }
        if (!known) {
            fail(compiler, ERR_UNSUPPORTED_FIELD, below(compiler, where, word.key),
                "this keyword is not built");
        }
    }
}

/* All that a schema takes, from a state to a state. */
static void build_schema(struct compiler *compiler, const struct json_in *node, const char *where,
    int32_t from, int32_t to)
{
    static const char *const ref_alone[] = {"$ref", NULL};
    static const char *const const_with[] = {"const", "type", NULL};
    static const char *const lists[] = {"anyOf", "oneOf", "allOf"};
    if (json_in_kind(node) == JSON_IN_BOOL) {
        if (json_in_bool(node)) { /* false: nothing, and no state leads on */
            grammar_calls(&compiler->builder, from, any_rule(compiler), to);
        }
        return;
    }
    if (json_in_kind(node) != JSON_IN_OBJECT) {
        fail(compiler, ERR_INVALID, where, "must be a schema");
        return;
    }
    check_keywords(compiler, node, where);
    for (size_t i = 0; i < sizeof lists / sizeof *lists && !stopped(compiler); i++) {
        if (member(node, lists[i]) != NULL) {
            build_alternatives(compiler, node, where, lists[i], from, to);
            return;
        }
    }
    const struct json_in *ref = member(node, "$ref"), *value = member(node, "const");
    if (stopped(compiler)) {
        return;
    }
    if (ref != NULL) {
        const struct json_in *target = alone(compiler, node, where, ref_alone)
                                           ? resolve(compiler, ref, below(compiler, where, "$ref"))
                                           : NULL;
        if (target != NULL) {
            grammar_calls(&compiler->builder, from,
                rule_of(compiler, target, below(compiler, where, "$ref")), to);
        }
    } else if (value != NULL) {
        if (alone(compiler, node, where, const_with) &&
            (kinds_of(compiler, node, where) & kind_of_value(value)) != 0) {
            struct grammar_word word = literal(compiler, value);
            grammar_words(&compiler->builder, from, &word, 1, to);
        }
    } else if (member(node, "enum") != NULL) {
        build_enum(compiler, node, where, from, to);
    } else {
        build_kinds(compiler, node, where, from, to);
    }
}

enum err grammar_of_schema(struct call *call, const struct bound_text *schema, const char *where,
    const struct grammar **out_grammar, struct err_info *info)
{
    struct compiler compiler = {
        .call = call, .where = where, .any = -1, .character = -1, .info = info};
    struct err_info why;
    enum err err =
        json_in_parse(call->arena, schema->bytes, (size_t)schema->count, &compiler.root, &why);
    if (err != ERR_OK) {
        return call_fail(info, err == ERR_JSON ? ERR_INVALID : err, NULL, where, "%s", why.text);
    }
    err = call_array(call, RULES_MAX, sizeof(*compiler.rules), &compiler.rules, info);
    if (err != ERR_OK) {
        return err;
    }
    grammar_begin(&compiler.builder, call->arena);
    int32_t start = rule_of(&compiler, compiler.root, where);
    for (int32_t i = 0; i < compiler.rule_count && !stopped(&compiler); i++) {
        struct rule rule = compiler.rules[i];
        build_schema(&compiler, rule.node, rule.where, rule.entry, rule.end);
    }
    return compiler.err != ERR_OK
               ? compiler.err
               : grammar_close(call, &compiler.builder, start, where, out_grammar, info);
}
