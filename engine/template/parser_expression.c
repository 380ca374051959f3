/*
 * Expressions: precedence climbing for operators, and what operands are made of. parser_call.c has
 * what is called by name.
 */
#include "engine/template/parser.h"

#include <string.h>
#include "engine/base/attr.h"
#include "engine/engine_limits.h"

static struct node *at(struct parser *parser, int32_t node)
{
    return &parser->template->nodes[node];
}

static int32_t height_of(struct parser *parser, int32_t node)
{
    return node == NODE_NONE ? 0 : at(parser, node)->height;
}

/* Sets the children of a node, and its height; trees are walked by recursion. */
static enum err set_children(struct parser *parser, int32_t node, int32_t a, int32_t b, int32_t c)
{
    int32_t height = height_of(parser, a);
    height = MAX(height, height_of(parser, c));
    for (int32_t child = b; child != NODE_NONE; child = at(parser, child)->next) {
        height = MAX(height, at(parser, child)->height);
    }
    if (height + 1 > LIMIT_TEMPLATE_NESTING) {
        return parser_refuse(parser, "an expression that is nested too deep");
    }
    struct node *to = at(parser, node);
    to->a = a;
    to->b = b;
    to->c = c;
    to->height = (uint16_t)(height + 1);
    return ERR_OK;
}

enum err parser_make(struct parser *parser, enum node_kind kind, int32_t op, int32_t a, int32_t b,
    int32_t c, int32_t *out_node)
{
    int32_t node = NODE_NONE;
    enum err err = parser_node(parser, kind, parser->token.line, &node);
    if (err == ERR_OK) {
        at(parser, node)->op = (uint8_t)op;
        err = set_children(parser, node, a, b, c);
    }
    if (err == ERR_OK) {
        *out_node = node;
    }
    return err;
}

void parser_chain_add(struct parser *parser, struct parser_chain *chain, int32_t node)
{
    if (chain->first == NODE_NONE) {
        chain->first = node;
    } else {
        at(parser, chain->last)->next = node;
    }
    chain->last = node;
}
static enum err parse_primary(struct parser *parser, int32_t *out_node);

/* ---- members, subscripts ------------------------------------------------------------------- */
/* Behind [ and before ]: an expression, or a slice. */
static enum err parse_subscript(struct parser *parser, int32_t subject, int32_t *out_node)
{
    int32_t parts[3] = {NODE_NONE, NODE_NONE, NODE_NONE};
    int32_t count = 0;
    int32_t ends = NODE_NONE;
    enum err err = parser_expect(parser, "[");
    while (err == ERR_OK && !parser_at_sign(parser, "]")) {
        if (parser_at_sign(parser, ":")) {
            count++;
            err = count > 2 ? parser_refuse(parser, "a slice of four parts") : parser_next(parser);
        } else if (parts[count] == NODE_NONE) {
            err = parser_expression(parser, &parts[count]);
        } else {
            err = parser_refuse(parser, "a subscript of several values");
        }
    }
    if (err == ERR_OK) {
        err = parser_next(parser);
    }
    if (err != ERR_OK) {
        return err;
    }
    if (count == 0 && parts[0] == NODE_NONE) {
        return parser_refuse(parser, "an empty subscript");
    }
    if (count == 0) {
        return parser_make(parser, NODE_SUBSCRIPT, 0, subject, parts[0], NODE_NONE, out_node);
    }
    err = parser_make(parser, NODE_SLICE_ENDS, 0, parts[0], parts[1], parts[2], &ends);
    return err != ERR_OK ? err
                         : parser_make(parser, NODE_SLICE, 0, subject, ends, NODE_NONE, out_node);
}

static enum err parse_member(struct parser *parser, int32_t subject, int32_t *out_node)
{
    struct text name = parser->token.text;
    int32_t constant = NODE_NONE;
    enum err err = ERR_OK;
    if (parser->token.kind != TOKEN_NAME) {
        return parser_refuse(parser, "a member without a name");
    }
    if (name.count >= 2 && name.bytes[0] == '_' && name.bytes[1] == '_') {
        return parser_refuse(parser, "a member that begins with __");
    }
    err = parser_constant(parser, value_text(name), &constant);
    if (err == ERR_OK) {
        err = parser_next(parser);
    }
    if (err == ERR_OK) {
        err = parser_make(parser, NODE_MEMBER, 0, subject, NODE_NONE, NODE_NONE, out_node);
    }
    if (err == ERR_OK) {
        at(parser, *out_node)->b = constant;
    }
    return err;
}

/* .name, [..] and calls. */
static enum err parse_postfix(struct parser *parser, int32_t subject, int32_t *out_node)
{
    enum err err = ERR_OK;
    while (err == ERR_OK) {
        if (parser_at_sign(parser, ".")) {
            err = parser_next(parser);
            if (err == ERR_OK) {
                err = parse_member(parser, subject, &subject);
            }
        } else if (parser_at_sign(parser, "[")) {
            err = parse_subscript(parser, subject, &subject);
        } else if (parser_at_sign(parser, "(")) {
            err = parser_call(parser, subject, &subject);
        } else {
            break;
        }
    }
    if (err == ERR_OK) {
        *out_node = subject;
    }
    return err;
}

enum err parser_operand(struct parser *parser, int32_t *out_node)
{
    int32_t node = NODE_NONE;
    enum err err = parse_primary(parser, &node);
    return err == ERR_OK ? parse_postfix(parser, node, out_node) : err;
}

/* ---- primaries ----------------------------------------------------------------------------- */

static enum err constant_node(struct parser *parser, struct value value, int32_t *out_node)
{
    int32_t constant = NODE_NONE;
    enum err err = parser_constant(parser, value, &constant);
    if (err == ERR_OK) {
        err = parser_make(parser, NODE_CONSTANT, 0, NODE_NONE, NODE_NONE, NODE_NONE, out_node);
    }
    if (err == ERR_OK) {
        at(parser, *out_node)->a = constant;
    }
    return err;
}

/* Strings that follow each other are one. */
static enum err parse_strings(struct parser *parser, int32_t *out_node)
{
    struct text text = parser->token.text;
    char *all = NULL;
    size_t room = 0; /* doubles, so that many strings are not copied many times */
    enum err err = parser_next(parser);
    while (err == ERR_OK && parser->token.kind == TOKEN_STRING) {
        struct text more = parser->token.text;
        if (text.count + more.count > room || all == NULL) {
            room = 2 * (text.count + more.count) + 1;
            all = arena_alloc(&parser->template->arena, room);
            if (all == NULL) {
                return err_set(parser->info, ERR_NO_MEMORY, NULL, "no memory for a chat template");
            }
            memcpy(all, text.bytes, text.count);
        }
        memcpy(all + text.count, more.bytes, more.count);
        text = (struct text){.bytes = all, .count = text.count + more.count};
        err = parser_next(parser);
    }
    return err == ERR_OK ? constant_node(parser, value_text(text), out_node) : err;
}

/* Elements up to a closing bracket. A dict has them in twos. */
static enum err parse_elements(struct parser *parser, const char *close, bool dict,
    struct parser_chain *chain, bool *out_comma)
{
    enum err err = ERR_OK;
    *out_comma = false;
    while (err == ERR_OK && !parser_at_sign(parser, close)) {
        for (int32_t i = 0; i < (dict ? 2 : 1) && err == ERR_OK; i++) {
            int32_t node = NODE_NONE;
            err = i == 1 ? parser_expect(parser, ":") : ERR_OK;
            if (err == ERR_OK) {
                err = parser_expression(parser, &node);
            }
            if (err == ERR_OK) {
                parser_chain_add(parser, chain, node);
            }
        }
        if (err == ERR_OK && !parser_at_sign(parser, close)) {
            err = parser_expect(parser, ",");
            *out_comma = true;
        }
    }
    return err == ERR_OK ? parser_next(parser) : err;
}

static enum err parse_brackets(struct parser *parser, int32_t *out_node)
{
    bool list = parser_at_sign(parser, "[");
    bool dict = parser_at_sign(parser, "{");
    struct parser_chain chain = {NODE_NONE, NODE_NONE};
    bool comma;
    enum err err = parser_next(parser);
    if (err == ERR_OK) {
        err = parse_elements(parser, list ? "]" : dict ? "}" : ")", dict, &chain, &comma);
    }
    if (err == ERR_OK && !list && !dict && !comma && chain.first != NODE_NONE) {
        *out_node = chain.first;
        return ERR_OK;
    }
    enum node_kind kind = list ? NODE_LIST : dict ? NODE_DICT : NODE_TUPLE;
    /* As `b` for the height; the elements are then `a`'s. */
    if (err == ERR_OK) {
        err = parser_make(parser, kind, 0, NODE_NONE, chain.first, NODE_NONE, out_node);
    }
    if (err == ERR_OK) {
        at(parser, *out_node)->a = chain.first;
        at(parser, *out_node)->b = NODE_NONE;
    }
    return err;
}

static enum err parse_name(struct parser *parser, int32_t *out_node)
{
    static const struct {
        const char *words[2];
        struct value value;
    } constants[] = {
        {{"true", "True"}, {.kind = VALUE_BOOL, .boolean = true}},
        {{"false", "False"}, {.kind = VALUE_BOOL, .boolean = false}},
        {{"none", "None"}, {.kind = VALUE_NONE}},
    };
    static const char *const reserved[] = {"and", "else", "if", "in", "is", "not", "or", "varargs",
        "kwargs", "caller", "self", "super"};
    struct text name = parser->token.text;
    int32_t symbol = NODE_NONE;
    for (size_t i = 0; i < ARRAY_COUNT(reserved); i++) {
        if (text_is(name, reserved[i])) {
            return lexer_refuse(parser->info, parser->token.line, "'%s' as a value", reserved[i]);
        }
    }
    enum err err = parser_next(parser);
    for (size_t i = 0; i < ARRAY_COUNT(constants) && err == ERR_OK; i++) {
        if (text_is(name, constants[i].words[0]) || text_is(name, constants[i].words[1])) {
            return constant_node(parser, constants[i].value, out_node);
        }
    }
    if (err == ERR_OK) {
        err = parser_symbol(parser, name, &symbol);
    }
    if (err == ERR_OK) {
        err = parser_make(parser, NODE_NAME, 0, NODE_NONE, NODE_NONE, NODE_NONE, out_node);
    }
    if (err == ERR_OK) {
        at(parser, *out_node)->a = symbol;
    }
    return err;
}

static enum err parse_primary(struct parser *parser, int32_t *out_node)
{
    const struct token *token = &parser->token;
    enum err err;
    struct value value;
    switch (token->kind) {
    case TOKEN_NAME:
        return parse_name(parser, out_node);
    case TOKEN_STRING:
        return parse_strings(parser, out_node);
    case TOKEN_INTEGER:
    case TOKEN_REAL:
        value = token->kind == TOKEN_REAL ? value_real(token->real) : value_integer(token->integer);
        err = parser_next(parser);
        return err == ERR_OK ? constant_node(parser, value, out_node) : err;
    case TOKEN_SIGN:
        if (parser_at_sign(parser, "(") || parser_at_sign(parser, "[") ||
            parser_at_sign(parser, "{")) {
            return parse_brackets(parser, out_node);
        }
        break;
    case TOKEN_END:
    case TOKEN_TEXT:
    case TOKEN_BLOCK:
    case TOKEN_BLOCK_END:
    case TOKEN_PRINT:
    case TOKEN_PRINT_END:
        break;
    }
    return parser_refuse(parser, "an expression that is not one");
}

/* ---- operators ----------------------------------------------------------------------------- */

/* A sign, a primary, what follows it, filters and tests: -x.y(z)|filter is test. */
static enum err parse_unary(struct parser *parser, bool filters, int32_t *out_node)
{
    bool minus = parser_at_sign(parser, "-");
    int32_t node = NODE_NONE;
    enum err err = parser_enter(parser);
    if (err == ERR_OK && (minus || parser_at_sign(parser, "+"))) {
        err = parser_next(parser);
        if (err == ERR_OK) {
            err = parse_unary(parser, false, &node);
        }
        if (err == ERR_OK) {
            err = parser_make(
                parser, minus ? NODE_NEGATE : NODE_PLUS, 0, node, NODE_NONE, NODE_NONE, &node);
        }
    } else if (err == ERR_OK) {
        err = parser_operand(parser, &node);
    }
    while (err == ERR_OK && filters) {
        if (parser_at_sign(parser, "|")) {
            err = parser_filters(parser, node, false, &node);
        } else if (parser_at_word(parser, "is")) {
            err = parser_next(parser);
            if (err == ERR_OK) {
                err = parser_test(parser, node, &node);
            }
        } else {
            break;
        }
    }
    parser->depth--;
    if (err == ERR_OK && parser_at_sign(parser, "**")) {
        return parser_refuse(parser, "the operator **");
    }
    if (err == ERR_OK) {
        *out_node = node;
    }
    return err;
}

/* Levels of precedence, loosest first; `or`, `and`, `not` and comparisons are above them. */
static const struct {
    const char *sign;
    int32_t level;
    enum binary_op op;
} operators[] = {
    {"+", 0, BINARY_ADD},
    {"-", 0, BINARY_SUBTRACT},
    {"~", 1, BINARY_JOIN},
    {"*", 2, BINARY_MULTIPLY},
    {"/", 2, BINARY_DIVIDE},
    {"//", 2, BINARY_FLOOR_DIVIDE},
    {"%", 2, BINARY_REMAINDER},
};

static int32_t operator_at(const struct parser *parser, int32_t level_min)
{
    for (int32_t i = 0; i < (int32_t)ARRAY_COUNT(operators); i++) {
        if (operators[i].level >= level_min && parser_at_sign(parser, operators[i].sign)) {
            return i;
        }
    }
    return -1;
}

static enum err parse_binary(struct parser *parser, int32_t level, int32_t *out_node)
{
    int32_t left = NODE_NONE;
    enum err err = parse_unary(parser, true, &left);
    while (err == ERR_OK) {
        int32_t found = operator_at(parser, level);
        int32_t right = NODE_NONE;
        if (found < 0) {
            break;
        }
        err = parser_next(parser);
        if (err == ERR_OK) {
            err = parse_binary(parser, operators[found].level + 1, &right);
        }
        if (err == ERR_OK) {
            err = parser_make(
                parser, NODE_BINARY, (int32_t)operators[found].op, left, right, NODE_NONE, &left);
        }
    }
    if (err == ERR_OK) {
        *out_node = left;
    }
    return err;
}

/* Whether a comparison follows, and which; moves past `not` of `not in`. */
static enum err compare_at(struct parser *parser, bool *out_found, enum compare_op *out_op)
{
    static const struct {
        const char *sign;
        enum compare_op op;
    } signs[] = {{"==", COMPARE_EQUAL}, {"!=", COMPARE_UNEQUAL}, {"<", COMPARE_LESS},
        {"<=", COMPARE_LESS_EQUAL}, {">", COMPARE_GREATER}, {">=", COMPARE_GREATER_EQUAL}};
    *out_found = true;
    for (size_t i = 0; i < ARRAY_COUNT(signs); i++) {
        if (parser_at_sign(parser, signs[i].sign)) {
            *out_op = signs[i].op;
            return ERR_OK;
        }
    }
    if (parser_at_word(parser, "in")) {
        *out_op = COMPARE_IN;
        return ERR_OK;
    }
    *out_found = parser_at_word(parser, "not");
    if (*out_found) {
        *out_op = COMPARE_NOT_IN;
        enum err err = parser_next(parser);
        return err == ERR_OK && !parser_at_word(parser, "in")
                   ? parser_refuse(parser, "'not' behind a value")
                   : err;
    }
    return ERR_OK;
}

static enum err parse_compare(struct parser *parser, int32_t *out_node)
{
    int32_t left = NODE_NONE;
    struct parser_chain chain = {NODE_NONE, NODE_NONE};
    enum err err = parse_binary(parser, 0, &left);
    while (err == ERR_OK) {
        enum compare_op op = COMPARE_EQUAL;
        bool found;
        int32_t right = NODE_NONE;
        err = compare_at(parser, &found, &op);
        if (err != ERR_OK || !found) {
            break;
        }
        err = parser_next(parser);
        if (err == ERR_OK) {
            err = parse_binary(parser, 0, &right);
        }
        if (err == ERR_OK) {
            err = parser_make(
                parser, NODE_COMPARED, (int32_t)op, right, NODE_NONE, NODE_NONE, &right);
        }
        if (err == ERR_OK) {
            parser_chain_add(parser, &chain, right);
        }
    }
    if (err == ERR_OK && chain.first != NODE_NONE) {
        err = parser_make(parser, NODE_COMPARE, 0, left, chain.first, NODE_NONE, &left);
    }
    if (err == ERR_OK) {
        *out_node = left;
    }
    return err;
}

static enum err parse_not(struct parser *parser, int32_t *out_node)
{
    if (!parser_at_word(parser, "not")) {
        return parse_compare(parser, out_node);
    }
    enum err err = parser_enter(parser);
    if (err == ERR_OK) {
        err = parser_next(parser);
    }
    if (err == ERR_OK) {
        err = parse_not(parser, out_node);
    }
    parser->depth--;
    return err == ERR_OK
               ? parser_make(parser, NODE_NOT, 0, *out_node, NODE_NONE, NODE_NONE, out_node)
               : err;
}

static enum err parse_logic(struct parser *parser, bool any, int32_t *out_node)
{
    int32_t left = NODE_NONE;
    enum err err = any ? parse_logic(parser, false, &left) : parse_not(parser, &left);
    while (err == ERR_OK && parser_at_word(parser, any ? "or" : "and")) {
        int32_t right = NODE_NONE;
        err = parser_next(parser);
        if (err == ERR_OK) {
            err = any ? parse_logic(parser, false, &right) : parse_not(parser, &right);
        }
        if (err == ERR_OK) {
            err = parser_make(parser, any ? NODE_OR : NODE_AND, 0, left, right, NODE_NONE, &left);
        }
    }
    if (err == ERR_OK) {
        *out_node = left;
    }
    return err;
}

enum err parser_plain(struct parser *parser, int32_t *out_node)
{
    return parse_logic(parser, true, out_node);
}

enum err parser_expression(struct parser *parser, int32_t *out_node)
{
    int32_t node = NODE_NONE;
    enum err err = parser_enter(parser);
    if (err == ERR_OK) {
        err = parser_plain(parser, &node);
    }
    while (err == ERR_OK && parser_at_word(parser, "if")) {
        int32_t condition = NODE_NONE;
        int32_t other = NODE_NONE;
        err = parser_next(parser);
        if (err == ERR_OK) {
            err = parser_plain(parser, &condition);
        }
        if (err == ERR_OK && parser_at_word(parser, "else")) {
            err = parser_next(parser);
            if (err == ERR_OK) {
                err = parser_expression(parser, &other);
            }
        }
        if (err == ERR_OK) {
            err = parser_make(parser, NODE_CONDITIONAL, 0, condition, node, other, &node);
        }
    }
    parser->depth--;
    if (err == ERR_OK) {
        *out_node = node;
    }
    return err;
}
