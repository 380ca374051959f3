/*
 * Everything a template may call by name: filters, tests, methods and functions, with the names of
 * their parameters. One list for the parser, which refuses what is not in it, and for whoever
 * carries it out.
 */
#ifndef ENGINE_TEMPLATE_BUILTIN_H
#define ENGINE_TEMPLATE_BUILTIN_H

#include <stdbool.h>
#include <stdint.h>
#include "engine/template/value.h"

enum builtin_use {
    BUILTIN_FILTER,
    BUILTIN_TEST,
    BUILTIN_TEXT_METHOD,
    BUILTIN_MAP_METHOD,
    BUILTIN_FUNCTION,
};

enum { BUILTIN_PARAMETERS = 4 };

/* id, use, name, parameters after the subject, how many of them are needed. An id that stands
 * twice has two names. */
#define BUILTIN_MAP(X)                                                                             \
    X(TRIM, FILTER, "trim", "chars", 0)                                                            \
    X(LENGTH, FILTER, "length", "", 0)                                                             \
    X(SIZE, FILTER, "count", "", 0)                                                                \
    X(UPPER, FILTER, "upper", "", 0)                                                               \
    X(LOWER, FILTER, "lower", "", 0)                                                               \
    X(CAPITALIZE, FILTER, "capitalize", "", 0)                                                     \
    X(TITLE, FILTER, "title", "", 0)                                                               \
    X(JOIN, FILTER, "join", "d attribute", 0)                                                      \
    X(DEFAULT, FILTER, "default", "default_value boolean", 0)                                      \
    X(D, FILTER, "d", "default_value boolean", 0)                                                  \
    X(TOJSON, FILTER, "tojson", "ensure_ascii indent separators sort_keys", 0)                     \
    X(LIST, FILTER, "list", "", 0)                                                                 \
    X(ITEMS, FILTER, "items", "", 0)                                                               \
    X(STRING, FILTER, "string", "", 0)                                                             \
    X(FIRST, FILTER, "first", "", 0)                                                               \
    X(LAST, FILTER, "last", "", 0)                                                                 \
    X(REPLACE, FILTER, "replace", "old new count", 2)                                              \
    X(SELECT, FILTER, "select", "", 0)                                                             \
    X(REJECT, FILTER, "reject", "", 0)                                                             \
    X(SELECTATTR, FILTER, "selectattr", "attribute", 1)                                            \
    X(REJECTATTR, FILTER, "rejectattr", "attribute", 1)                                            \
    X(MAP, FILTER, "map", "attribute default", 0)                                                  \
    X(UNIQUE, FILTER, "unique", "case_sensitive attribute", 0)                                     \
    X(REVERSE, FILTER, "reverse", "", 0)                                                           \
    X(INT, FILTER, "int", "default", 0)                                                            \
    X(FLOAT, FILTER, "float", "default", 0)                                                        \
    X(ABS, FILTER, "abs", "", 0)                                                                   \
    X(SAFE, FILTER, "safe", "", 0)                                                                 \
    X(INDENT, FILTER, "indent", "width first blank", 0)                                            \
    X(IS_DEFINED, TEST, "defined", "", 0)                                                          \
    X(IS_UNDEFINED, TEST, "undefined", "", 0)                                                      \
    X(IS_NONE, TEST, "none", "", 0)                                                                \
    X(IS_STRING, TEST, "string", "", 0)                                                            \
    X(IS_MAPPING, TEST, "mapping", "", 0)                                                          \
    X(IS_ITERABLE, TEST, "iterable", "", 0)                                                        \
    X(IS_SEQUENCE, TEST, "sequence", "", 0)                                                        \
    X(IS_BOOLEAN, TEST, "boolean", "", 0)                                                          \
    X(IS_NUMBER, TEST, "number", "", 0)                                                            \
    X(IS_INTEGER, TEST, "integer", "", 0)                                                          \
    X(IS_FLOAT, TEST, "float", "", 0)                                                              \
    X(IS_TRUE, TEST, "true", "", 0)                                                                \
    X(IS_FALSE, TEST, "false", "", 0)                                                              \
    X(IS_ODD, TEST, "odd", "", 0)                                                                  \
    X(IS_EVEN, TEST, "even", "", 0)                                                                \
    X(IS_DIVISIBLE, TEST, "divisibleby", "num", 1)                                                 \
    X(IS_EQUALTO, TEST, "equalto", "other", 1)                                                     \
    X(IS_EQ, TEST, "eq", "other", 1)                                                               \
    X(IS_NE, TEST, "ne", "other", 1)                                                               \
    X(IS_LT, TEST, "lt", "other", 1)                                                               \
    X(IS_LE, TEST, "le", "other", 1)                                                               \
    X(IS_GT, TEST, "gt", "other", 1)                                                               \
    X(IS_GE, TEST, "ge", "other", 1)                                                               \
    X(IS_IN, TEST, "in", "seq", 1)                                                                 \
    X(STRIP, TEXT_METHOD, "strip", "chars", 0)                                                     \
    X(LSTRIP, TEXT_METHOD, "lstrip", "chars", 0)                                                   \
    X(RSTRIP, TEXT_METHOD, "rstrip", "chars", 0)                                                   \
    X(SPLIT, TEXT_METHOD, "split", "sep maxsplit", 0)                                              \
    X(STARTSWITH, TEXT_METHOD, "startswith", "prefix", 1)                                          \
    X(ENDSWITH, TEXT_METHOD, "endswith", "suffix", 1)                                              \
    X(TEXT_REPLACE, TEXT_METHOD, "replace", "old new count", 2)                                    \
    X(TEXT_UPPER, TEXT_METHOD, "upper", "", 0)                                                     \
    X(TEXT_LOWER, TEXT_METHOD, "lower", "", 0)                                                     \
    X(TEXT_TITLE, TEXT_METHOD, "title", "", 0)                                                     \
    X(TEXT_CAPITALIZE, TEXT_METHOD, "capitalize", "", 0)                                           \
    X(TEXT_JOIN, TEXT_METHOD, "join", "iterable", 1)                                               \
    X(REMOVEPREFIX, TEXT_METHOD, "removeprefix", "prefix", 1)                                      \
    X(REMOVESUFFIX, TEXT_METHOD, "removesuffix", "suffix", 1)                                      \
    X(GET, MAP_METHOD, "get", "key default", 1)                                                    \
    X(MAP_ITEMS, MAP_METHOD, "items", "", 0)                                                       \
    X(KEYS, MAP_METHOD, "keys", "", 0)                                                             \
    X(VALUES, MAP_METHOD, "values", "", 0)                                                         \
    X(RAISE, FUNCTION, "raise_exception", "message", 1)                                            \
    X(STRFTIME_NOW, FUNCTION, "strftime_now", "format", 1)                                         \
    X(RANGE, FUNCTION, "range", "start stop step", 1)                                              \
    X(NAMESPACE, FUNCTION, "namespace", "", 0)                                                     \
    X(DICT, FUNCTION, "dict", "", 0)

enum builtin_id {
#define X(id, use, name, parameters, needed) BUILTIN_##id,
    BUILTIN_MAP(X)
#undef X
        BUILTIN_COUNT
};

struct builtin {
    enum builtin_use use;
    const char *name;
    const char *parameters; /* separated by blanks */
    int32_t needed;
};

extern const struct builtin builtin_table[BUILTIN_COUNT];

/* -1 when there is none. */
int32_t builtin_find(enum builtin_use use, struct text name);
int32_t builtin_parameters(int32_t id);
/* Place of a parameter by name, -1 when there is none. */
int32_t builtin_parameter(int32_t id, struct text name);
/* Whether Python's str, dict or list has an attribute of this name that we do not call. */
bool builtin_is_attribute(enum value_kind kind, struct text name);

#endif
