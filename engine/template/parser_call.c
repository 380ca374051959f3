/*
 * What expressions call by name: filters, tests, methods, functions and macros. Names are looked up
 * and arguments put into their places here, so that nothing is left to find when a template runs.
 */
#include "engine/template/parser.h"

#include "engine/base/attr.h"
#include "engine/template/builtin.h"

static struct node *at(struct parser *parser, int32_t node)
{
    return &parser->template->nodes[node];
}

/* ---- arguments ----------------------------------------------------------------------------- */

/* name=value, or a value. */
static enum err parse_argument(struct parser *parser, int32_t *out_node)
{
    int32_t value = NODE_NONE;
    int32_t node = NODE_NONE;
    int32_t symbol = NODE_NONE;
    if (parser_at_sign(parser, "*") || parser_at_sign(parser, "**")) {
        return parser_refuse(parser, "arguments from a list or mapping");
    }
    enum err err = parser_expression(parser, &value);
    if (err == ERR_OK && parser_at_sign(parser, "=")) {
        if (at(parser, value)->kind != NODE_NAME) {
            return parser_refuse(parser, "an argument's name that is none");
        }
        symbol = at(parser, value)->a;
        err = parser_next(parser);
        if (err == ERR_OK) {
            err = parser_expression(parser, &value);
        }
    }
    if (err == ERR_OK) {
        err = parser_make(parser, NODE_ARGUMENT, 0, value, NODE_NONE, NODE_NONE, &node);
    }
    if (err == ERR_OK) {
        at(parser, node)->b = symbol;
        *out_node = node;
    }
    return err;
}

/* ( a, b, c=d ), at its bracket. */
static enum err parse_arguments(struct parser *parser, struct parser_chain *arguments)
{
    enum err err = parser_expect(parser, "(");
    while (err == ERR_OK && !parser_at_sign(parser, ")")) {
        int32_t node = NODE_NONE;
        err = parse_argument(parser, &node);
        if (err == ERR_OK) {
            parser_chain_add(parser, arguments, node);
        }
        if (err == ERR_OK && !parser_at_sign(parser, ")")) {
            err = parser_expect(parser, ",");
        }
    }
    return err == ERR_OK ? parser_next(parser) : err;
}

static enum err absent(struct parser *parser, struct parser_chain *chain)
{
    int32_t node = NODE_NONE;
    enum err err = parser_make(parser, NODE_ABSENT, 0, NODE_NONE, NODE_NONE, NODE_NONE, &node);
    if (err == ERR_OK) {
        parser_chain_add(parser, chain, node);
    }
    return err;
}

/* Puts arguments into the places of a builtin's parameters. */
static enum err place_arguments(
    struct parser *parser, int32_t builtin, int32_t first, int32_t *out_first)
{
    int32_t places[BUILTIN_PARAMETERS] = {NODE_NONE, NODE_NONE, NODE_NONE, NODE_NONE};
    int32_t count = builtin_parameters(builtin);
    int32_t place = 0;
    for (int32_t node = first; node != NODE_NONE; node = at(parser, node)->next) {
        int32_t name = at(parser, node)->b;
        int32_t to = name == NODE_NONE
                         ? place++
                         : builtin_parameter(builtin, parser->template->symbols[name]);
        if (to < 0 || to >= count || places[to] != NODE_NONE) {
            return lexer_refuse(parser->info, at(parser, node)->line, "an argument of %s",
                builtin_table[builtin].name);
        }
        places[to] = at(parser, node)->a;
    }
    struct parser_chain chain = {NODE_NONE, NODE_NONE};
    for (int32_t i = 0; i < count; i++) {
        if (places[i] != NODE_NONE) {
            parser_chain_add(parser, &chain, places[i]);
            continue;
        }
        if (i < builtin_table[builtin].needed) {
            return lexer_refuse(parser->info, parser->token.line, "%s without all its arguments",
                builtin_table[builtin].name);
        }
        enum err err = absent(parser, &chain);
        if (err != ERR_OK) {
            return err;
        }
    }
    *out_first = chain.first;
    return ERR_OK;
}

/* ---- filters and tests --------------------------------------------------------------------- */

static enum err find_builtin(
    struct parser *parser, enum builtin_use use, struct text name, int32_t *out_builtin)
{
    static const char *const words[] = {"filter", "test", "method", "method", "function"};
    int32_t found = builtin_find(use, name);
    if (found < 0) {
        (void)lexer_refuse(parser->info, parser->token.line, "the %s '%.*s'", words[use],
            (int)MIN(name.count, 64), name.bytes);
        return ERR_UNSUPPORTED;
    }
    *out_builtin = found;
    return ERR_OK;
}

/* select('test', ...), selectattr(attribute, 'test', ...), map('filter', ...): what is applied is
 * named by a string, and is known when the template is parsed. `first` is where the name is. */
static enum err parse_applied(
    struct parser *parser, int32_t builtin, int32_t first, struct parser_chain *chain)
{
    const struct node *argument = at(parser, first);
    const struct node *value = at(parser, argument->a);
    int32_t applied = 0;
    int32_t places = NODE_NONE;
    int32_t node = NODE_NONE;
    const struct value *name =
        value->kind == NODE_CONSTANT ? &parser->template->constants[value->a] : NULL;
    if (argument->b != NODE_NONE || name == NULL || name->kind != VALUE_TEXT) {
        return lexer_refuse(parser->info, argument->line, "%s with a name that is no string",
            builtin_table[builtin].name);
    }
    enum err err = find_builtin(
        parser, builtin == BUILTIN_MAP ? BUILTIN_FILTER : BUILTIN_TEST, name->text, &applied);
    if (err != ERR_OK) {
        return err;
    }
    bool nested = applied == BUILTIN_SELECT || applied == BUILTIN_REJECT ||
                  applied == BUILTIN_SELECTATTR || applied == BUILTIN_REJECTATTR ||
                  applied == BUILTIN_MAP;
    if (builtin_table[applied].use == BUILTIN_FILTER && nested) {
        return lexer_refuse(
            parser->info, argument->line, "the filter '%s' in map", builtin_table[applied].name);
    }
    err = place_arguments(parser, applied, at(parser, first)->next, &places);
    if (err == ERR_OK) {
        err = parser_make(parser, NODE_APPLIED, applied, NODE_NONE, places, NODE_NONE, &node);
    }
    if (err == ERR_OK) {
        parser_chain_add(parser, chain, node);
    }
    return err;
}

/* The values of a filter's parameters; select and its like have an APPLIED at the end. */
static enum err filter_arguments(
    struct parser *parser, int32_t builtin, int32_t first, int32_t *out_first)
{
    bool by_name = builtin == BUILTIN_SELECT || builtin == BUILTIN_REJECT;
    bool by_attribute = builtin == BUILTIN_SELECTATTR || builtin == BUILTIN_REJECTATTR;
    bool map = builtin == BUILTIN_MAP && first != NODE_NONE && at(parser, first)->b == NODE_NONE;
    struct parser_chain chain = {NODE_NONE, NODE_NONE};
    if (map) { /* the parameters of map by attribute stay empty */
        enum err err = absent(parser, &chain);
        if (err == ERR_OK) {
            err = absent(parser, &chain);
        }
        if (err == ERR_OK) {
            err = parse_applied(parser, builtin, first, &chain);
        }
        *out_first = chain.first;
        return err;
    }
    if (builtin == BUILTIN_MAP && first == NODE_NONE) {
        return parser_refuse(parser, "map without an argument");
    }
    if ((!by_name && !by_attribute) || first == NODE_NONE) {
        return place_arguments(parser, builtin, first, out_first);
    }
    int32_t test = by_name ? first : at(parser, first)->next;
    if (by_attribute) {
        if (at(parser, first)->b != NODE_NONE) {
            return parser_refuse(parser, "an attribute by name");
        }
        parser_chain_add(parser, &chain, at(parser, first)->a);
    }
    enum err err = test == NODE_NONE ? ERR_OK : parse_applied(parser, builtin, test, &chain);
    *out_first = chain.first;
    return err;
}

enum err parser_filters(struct parser *parser, int32_t subject, bool first, int32_t *out_node)
{
    enum err err = ERR_OK;
    for (; err == ERR_OK && (first || parser_at_sign(parser, "|")); first = false) {
        int32_t builtin = NODE_NONE;
        int32_t places = NODE_NONE;
        struct parser_chain arguments = {NODE_NONE, NODE_NONE};
        err = first ? ERR_OK : parser_next(parser);
        if (err == ERR_OK && parser->token.kind != TOKEN_NAME) {
            return parser_refuse(parser, "a filter without a name");
        }
        if (err == ERR_OK) {
            err = find_builtin(parser, BUILTIN_FILTER, parser->token.text, &builtin);
        }
        if (err == ERR_OK) {
            err = parser_next(parser);
        }
        if (err == ERR_OK && parser_at_sign(parser, "(")) {
            err = parse_arguments(parser, &arguments);
        }
        if (err == ERR_OK) {
            err = filter_arguments(parser, builtin, arguments.first, &places);
        }
        if (err == ERR_OK) {
            err = parser_make(parser, NODE_FILTER, builtin, subject, places, NODE_NONE, &subject);
        }
    }
    if (err == ERR_OK) {
        *out_node = subject;
    }
    return err;
}
/* `is` has been read. */
enum err parser_test(struct parser *parser, int32_t subject, int32_t *out_node)
{
    int32_t builtin = NODE_NONE;
    int32_t places = NODE_NONE;
    struct parser_chain arguments = {NODE_NONE, NODE_NONE};
    bool negated = parser_at_word(parser, "not");
    enum err err = negated ? parser_next(parser) : ERR_OK;
    if (err == ERR_OK && parser->token.kind != TOKEN_NAME) {
        return parser_refuse(parser, "a test without a name");
    }
    if (err == ERR_OK) {
        err = find_builtin(parser, BUILTIN_TEST, parser->token.text, &builtin);
    }
    if (err == ERR_OK) {
        err = parser_next(parser);
    }
    if (err == ERR_OK && parser_at_sign(parser, "(")) {
        err = parse_arguments(parser, &arguments);
    } else if (err == ERR_OK && builtin_table[builtin].needed > 0) { /* x is equalto y */
        int32_t value = NODE_NONE;
        int32_t node = NODE_NONE;
        err = parser_operand(parser, &value);
        if (err == ERR_OK) {
            err = parser_make(parser, NODE_ARGUMENT, 0, value, NODE_NONE, NODE_NONE, &node);
        }
        if (err == ERR_OK) {
            parser_chain_add(parser, &arguments, node);
        }
    }
    if (err == ERR_OK) {
        err = place_arguments(parser, builtin, arguments.first, &places);
    }
    if (err == ERR_OK) {
        err = parser_make(parser, NODE_TEST, builtin, subject, places, NODE_NONE, out_node);
    }
    if (err == ERR_OK && negated) {
        err = parser_make(parser, NODE_NOT, 0, *out_node, NODE_NONE, NODE_NONE, out_node);
    }
    return err;
}

/* ---- calls -------------------------------------------------------------------------------- */

/* ( of a call behind `subject`: a function, a macro or a method. */
enum err parser_call(struct parser *parser, int32_t subject, int32_t *out_node)
{
    struct node called = *at(parser, subject);
    struct parser_chain arguments = {NODE_NONE, NODE_NONE};
    int32_t builtin = NODE_NONE;
    int32_t places;
    if (called.kind != NODE_NAME && called.kind != NODE_MEMBER) {
        return parser_refuse(parser, "a call of what is no name");
    }
    enum err err = parse_arguments(parser, &arguments);
    if (err != ERR_OK) {
        return err;
    }
    if (called.kind == NODE_MEMBER) {
        struct text name = parser->template->constants[called.b].text;
        builtin = builtin_find(BUILTIN_TEXT_METHOD, name);
        if (builtin < 0) {
            err = find_builtin(parser, BUILTIN_MAP_METHOD, name, &builtin);
        }
        if (err == ERR_OK) {
            err = place_arguments(parser, builtin, arguments.first, &places);
        }
        return err != ERR_OK ? err
                             : parser_make(parser, NODE_METHOD, builtin, called.a, places,
                                   NODE_NONE, out_node);
    }
    builtin = builtin_find(BUILTIN_FUNCTION, parser->template->symbols[called.a]);
    places = arguments.first;
    if (builtin >= 0 && builtin != BUILTIN_NAMESPACE && builtin != BUILTIN_DICT) {
        err = place_arguments(parser, builtin, arguments.first, &places);
    }
    if (err == ERR_OK) {
        err = parser_make(parser, builtin >= 0 ? NODE_FUNCTION : NODE_CALL, MAX(builtin, 0),
            NODE_NONE, places, NODE_NONE, out_node);
    }
    if (err == ERR_OK) {
        at(parser, *out_node)->a = called.a;
    }
    return err;
}
