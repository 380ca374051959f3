/*
 * What the compiler of JSON Schema shares between its files. Private to api/.
 *
 *     grammar_schema.c         rules, references, what joins schemas
 *     grammar_schema_parts.c   numbers, strings, lists and objects
 */
#ifndef API_GRAMMAR_SCHEMA_H
#define API_GRAMMAR_SCHEMA_H

#include "api/grammar.h"
#include "api/json_in.h"

struct schema_rule {
    const struct json_in *node;
    const char *where;
    int32_t entry, end;
};

struct grammar_schema {
    struct call *call;
    struct grammar_builder builder;
    const struct json_in *root;
    const char *where; /* of the root */
    struct schema_rule *rules;
    int32_t rule_count;
    int32_t any, character; /* entries of rules, -1 = not made yet */
    enum err err;
    struct err_info *info;
};

/* The first error stays; all that build look at `stopped` in their loops. */
void grammar_schema_fail(
    struct grammar_schema *compiler, enum err err, const char *where, const char *text);
bool grammar_schema_stopped(const struct grammar_schema *compiler);
/* where/key, with the escapes of RFC 6901 and cut where it is long. */
const char *grammar_schema_below(
    struct grammar_schema *compiler, const char *where, const char *key);
const char *grammar_schema_below_index(
    struct grammar_schema *compiler, const char *where, size_t index);
/* NULL where the value is no string. */
const char *grammar_schema_text(const struct json_in *value);
/* Entry of the rule of a schema, which is built later, and of the one that takes any value. */
int32_t grammar_schema_rule(
    struct grammar_schema *compiler, const struct json_in *node, const char *where);
int32_t grammar_schema_any(struct grammar_schema *compiler);

/* Values of one type, by the keywords of a node: from a state to a state. */
void grammar_schema_integer(struct grammar_schema *compiler, const struct json_in *node,
    const char *where, int32_t from, int32_t to);
void grammar_schema_string(struct grammar_schema *compiler, const struct json_in *node,
    const char *where, int32_t from, int32_t to);
void grammar_schema_list(struct grammar_schema *compiler, const struct json_in *node,
    const char *where, int32_t from, int32_t to);
void grammar_schema_object(struct grammar_schema *compiler, const struct json_in *node,
    const char *where, int32_t from, int32_t to);

#endif
