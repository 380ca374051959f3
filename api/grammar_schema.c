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
#include "api/grammar_schema.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "api/json_text.h"

enum {
    RULES_MAX = 2048,
    POINTER_BYTES = ERR_WHERE_BYTES,
    LITERAL_BYTES_MAX = GRAMMAR_STATES, /* a state a byte */
    /* Ways, and the values that are open in each, some levels deep. */
    ALTERNATIVES_MAX = GRAMMAR_WAYS / 2,
};
_Static_assert(RULES_MAX == 2048 && ALTERNATIVES_MAX == 128, "errors say so");

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

void grammar_schema_fail(
    struct grammar_schema *compiler, enum err err, const char *where, const char *text)
{
    if (compiler->err == ERR_OK) {
        compiler->err = call_fail(compiler->info, err, NULL, where, "%s", text);
    }
}

bool grammar_schema_stopped(const struct grammar_schema *compiler)
{
    return compiler->err != ERR_OK || compiler->builder.failed != ERR_OK;
}

/* where/key, with the escapes of RFC 6901 and cut where it is long. */
const char *grammar_schema_below(
    struct grammar_schema *compiler, const char *where, const char *key)
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
        grammar_schema_fail(compiler, ERR_NO_MEMORY, NULL, "out of memory");
        return where;
    }
    return pointer;
}

const char *grammar_schema_below_index(
    struct grammar_schema *compiler, const char *where, size_t index)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%zu", index);
    return grammar_schema_below(compiler, where, text);
}

const char *grammar_schema_text(const struct json_in *value)
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
        return json_in_get(value, key);
    }
    char *end;
    unsigned long index = strtoul(key, &end, 10);
    bool counts = json_in_kind(value) == JSON_IN_ARRAY && count > 0 && *end == '\0';
    return counts && index < json_in_count(value) ? json_in_at(value, index) : NULL;
}

static const struct json_in *resolve(
    struct grammar_schema *compiler, const struct json_in *ref, const char *where)
{
    const char *text = grammar_schema_text(ref);
    if (text == NULL || text[0] != '#' || (text[1] != '\0' && text[1] != '/')) {
        grammar_schema_fail(compiler, ERR_UNSUPPORTED_FIELD, where,
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
        grammar_schema_fail(compiler, ERR_INVALID, where, "leads to nothing in the schema");
        return NULL;
    }
    return value;
}

/* ---- rules --------------------------------------------------------------------------------- */

/* Entry of the rule of a schema; it is built later. */
int32_t grammar_schema_rule(
    struct grammar_schema *compiler, const struct json_in *node, const char *where)
{
    for (int32_t i = 0; i < compiler->rule_count; i++) {
        if (compiler->rules[i].node == node) {
            return compiler->rules[i].entry;
        }
    }
    if (compiler->rule_count == RULES_MAX) {
        grammar_schema_fail(compiler, ERR_LIMIT, where, "the schema has more than 2048 parts");
    }
    if (grammar_schema_stopped(compiler)) {
        return 0;
    }
    struct schema_rule *rule = &compiler->rules[compiler->rule_count++];
    *rule = (struct schema_rule){.node = node,
        .where = where,
        .entry = grammar_state(&compiler->builder),
        .end = grammar_state(&compiler->builder)};
    grammar_final(&compiler->builder, rule->end);
    return rule->entry;
}

int32_t grammar_schema_any(struct grammar_schema *compiler)
{
    if (compiler->any < 0) {
        compiler->any = grammar_json_value(&compiler->builder);
    }
    return compiler->any;
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
static unsigned kinds_of(
    struct grammar_schema *compiler, const struct json_in *node, const char *where)
{
    const struct json_in *type = json_in_get(node, "type");
    const struct json_in *nullable = json_in_get(node, "nullable");
    unsigned kinds = 0, hinted = 0;
    bool list = type != NULL && json_in_kind(type) == JSON_IN_ARRAY;
    for (size_t i = 0; type != NULL && i < (list ? json_in_count(type) : 1); i++) {
        unsigned kind = kind_of_word(grammar_schema_text(list ? json_in_at(type, i) : type));
        if (kind == 0) {
            grammar_schema_fail(compiler, ERR_INVALID,
                grammar_schema_below(compiler, where, "type"), "is no type of JSON");
        }
        kinds |= kind;
    }
    for (size_t i = 0; i < sizeof KEYWORDS / sizeof *KEYWORDS; i++) {
        hinted |= json_in_get(node, KEYWORDS[i].word) != NULL ? KEYWORDS[i].kinds : 0;
    }
    if (type == NULL) {
        kinds = hinted != 0 ? hinted : IS_ANY;
    }
    if (nullable != NULL && json_in_kind(nullable) == JSON_IN_BOOL && json_in_bool(nullable)) {
        kinds |= IS_NULL;
    }
    if ((kinds & IS_NUMBER) != 0 && (hinted & IS_INTEGER) != 0) {
        const char *word = json_in_get(node, "minimum") != NULL            ? "minimum"
                           : json_in_get(node, "maximum") != NULL          ? "maximum"
                           : json_in_get(node, "exclusiveMinimum") != NULL ? "exclusiveMinimum"
                                                                           : "exclusiveMaximum";
        grammar_schema_fail(compiler, ERR_UNSUPPORTED_FIELD,
            grammar_schema_below(compiler, where, word), "is built for type integer alone");
    }
    return kinds;
}

static void build_kinds(struct grammar_schema *compiler, const struct json_in *node,
    const char *where, int32_t from, int32_t to)
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
        grammar_schema_integer(compiler, node, where, from, to);
    }
    if ((kinds & IS_STRING) != 0) {
        grammar_schema_string(compiler, node, where, from, to);
    }
    if ((kinds & IS_ARRAY) != 0) {
        grammar_schema_list(compiler, node, where, from, to);
    }
    if ((kinds & IS_OBJECT) != 0) {
        grammar_schema_object(compiler, node, where, from, to);
    }
}

/* Nothing that says more of values than the keywords of `with`, NULL-terminated. */
static bool alone(struct grammar_schema *compiler, const struct json_in *node, const char *where,
    const char *const with[])
{
    for (size_t i = 0; i < FIRST_ANNOTATION; i++) {
        bool allowed = false;
        for (size_t k = 0; with[k] != NULL; k++) {
            allowed = allowed || strcmp(with[k], KEYWORDS[i].word) == 0;
        }
        if (!allowed && json_in_get(node, KEYWORDS[i].word) != NULL) {
            grammar_schema_fail(compiler, ERR_UNSUPPORTED_FIELD,
                grammar_schema_below(compiler, where, KEYWORDS[i].word),
                "is not built beside $ref, enum, const, anyOf, oneOf or allOf");
            return false;
        }
    }
    return true;
}

/* A value as it is written, in the call's arena. */
static struct grammar_word literal(struct grammar_schema *compiler, const struct json_in *value)
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
        grammar_schema_fail(compiler, text.failed ? ERR_LIMIT : ERR_NO_MEMORY, compiler->where,
            text.failed ? "a value is too long" : "out of memory");
    }
    buf_free(&text);
    return word;
}

static void build_enum(struct grammar_schema *compiler, const struct json_in *node,
    const char *where, int32_t from, int32_t to)
{
    static const char *const with[] = {"enum", "type", "nullable", NULL};
    const struct json_in *values = json_in_get(node, "enum");
    if (json_in_kind(values) != JSON_IN_ARRAY || json_in_count(values) == 0) {
        grammar_schema_fail(compiler, ERR_INVALID, grammar_schema_below(compiler, where, "enum"),
            "must be a list of values");
        return;
    }
    unsigned kinds = alone(compiler, node, where, with) ? kinds_of(compiler, node, where) : 0;
    struct grammar_word *words = NULL;
    size_t count = 0;
    enum err err =
        call_array(compiler->call, json_in_count(values), sizeof *words, &words, compiler->info);
    compiler->err = compiler->err == ERR_OK ? err : compiler->err;
    for (size_t i = 0; i < json_in_count(values) && !grammar_schema_stopped(compiler); i++) {
        if ((kinds & kind_of_value(json_in_at(values, i))) != 0) {
            words[count++] = literal(compiler, json_in_at(values, i));
        }
    }
    if (!grammar_schema_stopped(compiler)) {
        grammar_words(&compiler->builder, from, words, count, to);
    }
}

static void build_schema(struct grammar_schema *compiler, const struct json_in *node,
    const char *where, int32_t from, int32_t to);

/* The kinds of JSON an alternative of oneOf can be, by its own words. */
static unsigned kinds_within(
    struct grammar_schema *compiler, const struct json_in *node, const char *where)
{
    bool plain = json_in_kind(node) == JSON_IN_OBJECT && json_in_get(node, "type") != NULL;
    unsigned kinds = plain ? kinds_of(compiler, node, where) : IS_ANY;
    return (kinds & IS_INTEGER) != 0 ? kinds | IS_NUMBER : kinds;
}

static void build_alternatives(struct grammar_schema *compiler, const struct json_in *node,
    const char *where, const char *key, int32_t from, int32_t to)
{
    const char *const with[] = {key, NULL};
    const struct json_in *list = json_in_get(node, key);
    const char *place = grammar_schema_below(compiler, where, key);
    unsigned seen = 0;
    if (json_in_kind(list) != JSON_IN_ARRAY || json_in_count(list) == 0) {
        grammar_schema_fail(compiler, ERR_INVALID, place, "must be a list of schemas");
        return;
    }
    if (json_in_count(list) > ALTERNATIVES_MAX) {
        grammar_schema_fail(compiler, ERR_LIMIT, place, "must have at most 128 alternatives");
    }
    if (!alone(compiler, node, where, with)) {
        return;
    }
    if (strcmp(key, "allOf") == 0 && json_in_count(list) > 1) {
        grammar_schema_fail(
            compiler, ERR_UNSUPPORTED_FIELD, place, "is built with one schema in it alone");
    }
    for (size_t i = 0; i < json_in_count(list) && !grammar_schema_stopped(compiler); i++) {
        const struct json_in *one = json_in_at(list, i);
        const char *at = grammar_schema_below_index(compiler, place, i);
        unsigned kinds = kinds_within(compiler, one, at);
        if (strcmp(key, "oneOf") == 0 && json_in_count(list) > 1 && (kinds & seen) != 0) {
            grammar_schema_fail(compiler, ERR_UNSUPPORTED_FIELD, place,
                "is built for alternatives of different types; anyOf takes any");
        }
        seen |= kinds;
        build_schema(compiler, one, at, from, to);
    }
}

static void check_keywords(
    struct grammar_schema *compiler, const struct json_in *node, const char *where)
{
    struct json_in_member word = {0};
    while (json_in_next(node, &word)) {
        bool known = node == compiler->root && strcmp(word.key, "$id") == 0;
        for (size_t i = 0; !known && i < sizeof KEYWORDS / sizeof *KEYWORDS; i++) {
            known = strcmp(KEYWORDS[i].word, word.key) == 0;
        }
        if (!known) {
            grammar_schema_fail(compiler, ERR_UNSUPPORTED_FIELD,
                grammar_schema_below(compiler, where, word.key), "this keyword is not built");
        }
    }
}

/* All that a schema takes, from a state to a state. */
static void build_schema(struct grammar_schema *compiler, const struct json_in *node,
    const char *where, int32_t from, int32_t to)
{
    static const char *const ref_alone[] = {"$ref", NULL};
    static const char *const const_with[] = {"const", "type", NULL};
    static const char *const lists[] = {"anyOf", "oneOf", "allOf"};
    if (json_in_kind(node) == JSON_IN_BOOL) {
        if (json_in_bool(node)) { /* false: nothing, and no state leads on */
            grammar_calls(&compiler->builder, from, grammar_schema_any(compiler), to);
        }
        return;
    }
    if (json_in_kind(node) != JSON_IN_OBJECT) {
        grammar_schema_fail(compiler, ERR_INVALID, where, "must be a schema");
        return;
    }
    check_keywords(compiler, node, where);
    for (size_t i = 0; i < sizeof lists / sizeof *lists && !grammar_schema_stopped(compiler); i++) {
        if (json_in_get(node, lists[i]) != NULL) {
            build_alternatives(compiler, node, where, lists[i], from, to);
            return;
        }
    }
    const struct json_in *ref = json_in_get(node, "$ref"), *value = json_in_get(node, "const");
    if (grammar_schema_stopped(compiler)) {
        return;
    }
    if (ref != NULL) {
        const struct json_in *target =
            alone(compiler, node, where, ref_alone)
                ? resolve(compiler, ref, grammar_schema_below(compiler, where, "$ref"))
                : NULL;
        if (target != NULL) {
            grammar_calls(&compiler->builder, from,
                grammar_schema_rule(
                    compiler, target, grammar_schema_below(compiler, where, "$ref")),
                to);
        }
    } else if (value != NULL) {
        if (alone(compiler, node, where, const_with) &&
            (kinds_of(compiler, node, where) & kind_of_value(value)) != 0) {
            struct grammar_word word = literal(compiler, value);
            grammar_words(&compiler->builder, from, &word, 1, to);
        }
    } else if (json_in_get(node, "enum") != NULL) {
        build_enum(compiler, node, where, from, to);
    } else {
        build_kinds(compiler, node, where, from, to);
    }
}

enum err grammar_of_schema(struct call *call, const struct bound_text *schema, const char *where,
    const struct grammar **out_grammar, struct err_info *info)
{
    struct grammar_schema compiler = {
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
    int32_t start = grammar_schema_rule(&compiler, compiler.root, where);
    for (int32_t i = 0; i < compiler.rule_count && !grammar_schema_stopped(&compiler); i++) {
        struct schema_rule rule = compiler.rules[i];
        build_schema(&compiler, rule.node, rule.where, rule.entry, rule.end);
    }
    return compiler.err != ERR_OK
               ? compiler.err
               : grammar_close(call, &compiler.builder, start, where, out_grammar, info);
}
