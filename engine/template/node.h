/*
 * A parsed template: nodes in one array, named by index, children linked as lists. Everything that
 * has a name of its own (filters, tests, methods, functions) is resolved when the template is
 * parsed, and so are the arguments of filters, tests and methods: what is not known never runs.
 */
#ifndef ENGINE_TEMPLATE_NODE_H
#define ENGINE_TEMPLATE_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "engine/template/value.h"

enum {
    NODE_NONE = -1,
    NODE_IF_ELIF = 1, /* op of an IF that is the rest of another, not the first of its else */
};

/* What a, b and c are stands beside each; "first of" is the head of a list linked by `next`. */
enum node_kind {
    /* Statements */
    NODE_WORDS,     /* a: constant */
    NODE_PRINT,     /* a: expression */
    NODE_IF,        /* a: condition, b: first of the body, c: first of the else, or an elif */
    NODE_FOR,       /* a: first of the targets, b: iterated, c: FOR_BODY */
    NODE_FOR_BODY,  /* a: condition or none, b: first of the body, c: first of the else */
    NODE_SET,       /* a: first of the targets, b: expression */
    NODE_SET_BLOCK, /* a: target, b: first of the body */
    NODE_MACRO,     /* a: symbol, b: first of the PARAMETERs, c: first of the body */
    NODE_PARAMETER, /* a: symbol, b: its default or none */
    NODE_FILTERED,  /* a: filters over CAPTURED, b: first of the body */
    NODE_SCOPE,     /* b: first of the body */
    NODE_BREAK,
    NODE_CONTINUE,
    /* Targets */
    NODE_TARGET,    /* a: symbol */
    NODE_TARGET_OF, /* a: symbol of a namespace, b: constant */
    /* Expressions */
    NODE_CONSTANT,    /* a: constant */
    NODE_NAME,        /* a: symbol */
    NODE_CAPTURED,    /* what the block around it has printed */
    NODE_LIST,        /* a: first of the elements */
    NODE_TUPLE,       /* the same */
    NODE_DICT,        /* a: first of keys and values, in turns */
    NODE_MEMBER,      /* a: expression, b: constant (a.b) */
    NODE_SUBSCRIPT,   /* a: expression, b: expression (a[b]) */
    NODE_SLICE,       /* a: expression, b: SLICE_ENDS */
    NODE_SLICE_ENDS,  /* a: start, b: stop, c: step, each or none */
    NODE_FUNCTION,    /* op: builtin, a: symbol, b: first of its parameters' values; namespace and
                         dict: of the ARGUMENTs */
    NODE_METHOD,      /* op: builtin, a: expression, b: first of its parameters' values */
    NODE_FILTER,      /* op: builtin, a: expression, b: the same */
    NODE_TEST,        /* op: builtin, a: expression, b: the same */
    NODE_APPLIED,     /* op: builtin, b: the same: a filter or test that a filter is given */
    NODE_CALL,        /* a: symbol of a macro, b: first of the ARGUMENTs */
    NODE_ARGUMENT,    /* a: expression, b: symbol of its name or none */
    NODE_ABSENT,      /* a parameter without a value */
    NODE_AND,         /* a, b */
    NODE_OR,          /* a, b */
    NODE_NOT,         /* a */
    NODE_NEGATE,      /* a */
    NODE_PLUS,        /* a */
    NODE_BINARY,      /* op: enum binary_op, a, b */
    NODE_COMPARE,     /* a: expression, b: first of the COMPAREDs */
    NODE_COMPARED,    /* op: enum compare_op, a: expression */
    NODE_CONDITIONAL, /* a: condition, b: then, c: else or none */
};

enum binary_op {
    BINARY_ADD,
    BINARY_SUBTRACT,
    BINARY_JOIN,
    BINARY_MULTIPLY,
    BINARY_DIVIDE,
    BINARY_FLOOR_DIVIDE,
    BINARY_REMAINDER
};

enum compare_op {
    COMPARE_EQUAL,
    COMPARE_UNEQUAL,
    COMPARE_LESS,
    COMPARE_LESS_EQUAL,
    COMPARE_GREATER,
    COMPARE_GREATER_EQUAL,
    COMPARE_IN,
    COMPARE_NOT_IN
};

struct node {
    uint8_t kind; /* enum node_kind */
    uint8_t op;
    uint16_t height; /* of the tree below, for expressions */
    int32_t line;
    int32_t a, b, c;
    int32_t next;
};

struct template
{
    struct arena arena; /* owns all below */
    struct node *nodes;
    int32_t node_count, node_capacity;
    struct value *constants;
    int32_t constant_count, constant_capacity;
    struct text *symbols;
    int32_t symbol_count, symbol_capacity;
    int32_t first; /* of the statements */
};

#endif
