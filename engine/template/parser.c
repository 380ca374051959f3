/* See parser.h: statements, and what both halves share. */
#include "engine/template/parser.h"

#include <string.h>
#include "engine/base/attr.h"
#include "engine/engine_limits.h"

/* ---- what both halves share ---------------------------------------------------------------- */

enum err parser_next(struct parser *parser)
{
    return lexer_next(&parser->lexer, &parser->token);
}

enum err parser_enter(struct parser *parser)
{
    parser->depth++;
    return parser->depth > LIMIT_TEMPLATE_NESTING ? parser_refuse(parser, "what is nested too deep")
                                                  : ERR_OK;
}

enum err parser_refuse(struct parser *parser, const char *what)
{
    return lexer_refuse(parser->info, parser->token.line, "%s", what);
}

bool parser_at_sign(const struct parser *parser, const char *sign)
{
    return parser->token.kind == TOKEN_SIGN && text_is(parser->token.text, sign);
}

bool parser_at_word(const struct parser *parser, const char *word)
{
    return parser->token.kind == TOKEN_NAME && text_is(parser->token.text, word);
}

enum err parser_expect(struct parser *parser, const char *sign_or_word)
{
    if (!parser_at_sign(parser, sign_or_word) && !parser_at_word(parser, sign_or_word)) {
        return lexer_refuse(
            parser->info, parser->token.line, "a place without its '%s'", sign_or_word);
    }
    return parser_next(parser);
}

static enum err no_memory(struct parser *parser)
{
    return err_set(parser->info, ERR_NO_MEMORY, NULL, "no memory for a chat template");
}

/* Room for one more element; arrays double, so the arena holds twice the last one at most. */
static enum err grow(struct parser *parser, void *array_pointer, size_t size, int32_t count,
    int32_t count_max, int32_t *capacity)
{
    void **array = array_pointer;
    if (count < *capacity) {
        return ERR_OK;
    }
    if (count >= count_max) {
        return parser_refuse(parser, "more than a template may hold");
    }
    int32_t larger = MIN(MAX(64, *capacity * 2), count_max);
    void *items = arena_array(&parser->template->arena, (size_t)larger, size);
    if (items == NULL) {
        return no_memory(parser);
    }
    if (count > 0) {
        memcpy(items, *array, (size_t)count * size);
    }
    *array = items;
    *capacity = larger;
    return ERR_OK;
}

enum err parser_node(struct parser *parser, enum node_kind kind, int32_t line, int32_t *out_node)
{
    struct template *template = parser->template;
    enum err err = grow(parser, &template->nodes, sizeof(*template->nodes), template->node_count,
        LIMIT_TEMPLATE_NODES, &template->node_capacity);
    if (err == ERR_OK) {
        *out_node = template->node_count++;
        template->nodes[*out_node] = (struct node){.kind = (uint8_t)kind,
            .line = line,
            .a = NODE_NONE,
            .b = NODE_NONE,
            .c = NODE_NONE,
            .next = NODE_NONE};
    }
    return err;
}

enum err parser_constant(struct parser *parser, struct value value, int32_t *out_constant)
{
    struct template *template = parser->template;
    enum err err = grow(parser, &template->constants, sizeof(*template->constants),
        template->constant_count, LIMIT_TEMPLATE_NODES, &template->constant_capacity);
    if (err == ERR_OK) {
        *out_constant = template->constant_count++;
        template->constants[*out_constant] = value;
    }
    return err;
}

enum err parser_symbol(struct parser *parser, struct text name, int32_t *out_symbol)
{
    struct template *template = parser->template;
    for (int32_t i = 0; i < template->symbol_count; i++) {
        if (text_equal(template->symbols[i], name)) {
            *out_symbol = i;
            return ERR_OK;
        }
    }
    enum err err = grow(parser, &template->symbols, sizeof(*template->symbols),
        template->symbol_count, LIMIT_TEMPLATE_NAMES, &template->symbol_capacity);
    if (err == ERR_OK) {
        *out_symbol = template->symbol_count++;
        template->symbols[*out_symbol] = name;
    }
    return err;
}

static struct node *at(struct parser *parser, int32_t node)
{
    return &parser->template->nodes[node];
}

/* ---- statements ---------------------------------------------------------------------------- */

static enum err parse_body(struct parser *parser, const char *const *ends, int32_t *out_first);

static enum err expect_block_end(struct parser *parser)
{
    return parser->token.kind == TOKEN_BLOCK_END
               ? parser_next(parser)
               : parser_refuse(parser, "a statement with more than belongs to it");
}

/* A body with variables of its own, up to {% end %}. */
static enum err parse_closed(struct parser *parser, const char *end, int32_t *out_first)
{
    const char *const ends[] = {end, NULL};
    bool nested = parser->nested;
    int32_t loops = parser->loops;
    parser->nested = true;
    parser->loops = 0; /* no jump out of it */
    enum err err = expect_block_end(parser);
    if (err == ERR_OK) {
        err = parse_body(parser, ends, out_first);
    }
    if (err == ERR_OK) {
        err = parser_next(parser); /* the name of the end, which parse_body has seen */
    }
    parser->nested = nested;
    parser->loops = loops;
    return err == ERR_OK ? expect_block_end(parser) : err;
}

/* A name that a value may be given to. */
static enum err parse_target_name(struct parser *parser, int32_t *out_symbol)
{
    static const char *const reserved[] = {"true", "false", "none", "True", "False", "None", "and",
        "or", "not", "if", "else", "in", "is", "loop", "self", "super", "caller", "varargs",
        "kwargs"};
    if (parser->token.kind != TOKEN_NAME) {
        return parser_refuse(parser, "a target that is no name");
    }
    for (size_t i = 0; i < ARRAY_COUNT(reserved); i++) {
        if (text_is(parser->token.text, reserved[i])) {
            return parser_refuse(parser, "a target that has a meaning of its own");
        }
    }
    enum err err = parser_symbol(parser, parser->token.text, out_symbol);
    return err == ERR_OK ? parser_next(parser) : err;
}

/* name, or namespace.name where that is allowed. */
static enum err parse_target(struct parser *parser, bool members, int32_t *out_node)
{
    int32_t symbol = NODE_NONE;
    int32_t node = NODE_NONE;
    int32_t line = parser->token.line;
    enum err err = parse_target_name(parser, &symbol);
    bool member = err == ERR_OK && members && parser_at_sign(parser, ".");
    if (err == ERR_OK) {
        err = parser_node(parser, member ? NODE_TARGET_OF : NODE_TARGET, line, &node);
    }
    if (err == ERR_OK && member) {
        err = parser_next(parser);
        if (err == ERR_OK && parser->token.kind != TOKEN_NAME) {
            return parser_refuse(parser, "a member without a name");
        }
        if (err == ERR_OK) {
            err = parser_constant(parser, value_text(parser->token.text), &at(parser, node)->b);
        }
        if (err == ERR_OK) {
            err = parser_next(parser);
        }
    }
    if (err == ERR_OK) {
        at(parser, node)->a = symbol;
        *out_node = node;
    }
    return err;
}

/* a, b, c; with brackets or without. */
static enum err parse_targets(struct parser *parser, bool members, int32_t *out_first)
{
    bool bracket = parser_at_sign(parser, "(");
    int32_t last = NODE_NONE;
    enum err err = bracket ? parser_next(parser) : ERR_OK;
    while (err == ERR_OK) {
        int32_t node = NODE_NONE;
        err = parse_target(parser, members, &node);
        if (err != ERR_OK) {
            break;
        }
        if (last == NODE_NONE) {
            *out_first = node;
        } else {
            at(parser, last)->next = node;
        }
        last = node;
        if (!parser_at_sign(parser, ",")) {
            break;
        }
        err = parser_next(parser);
    }
    return err == ERR_OK && bracket ? parser_expect(parser, ")") : err;
}

/* {% if %} and {% elif %}: their word has been read. */
static enum err parse_if(struct parser *parser, int32_t *out_node)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    static const char *const last[] = {"endif", NULL};
    int32_t previous = NODE_NONE;
    enum err err = ERR_OK;
    for (bool more = true; more && err == ERR_OK;) { /* a chain, not a tree: elif nests nothing */
        int32_t node = NODE_NONE;
        err = parser_node(parser, NODE_IF, parser->token.line, &node);
        if (err == ERR_OK && previous == NODE_NONE) {
            *out_node = node;
        } else if (err == ERR_OK) {
            at(parser, previous)->c = node;
            at(parser, node)->op = NODE_IF_ELIF;
        }
        int32_t condition = NODE_NONE;
        int32_t body = NODE_NONE;
        int32_t other = NODE_NONE;
        if (err == ERR_OK) {
            err = parser_plain(parser, &condition);
        }
        if (err == ERR_OK) {
            err = expect_block_end(parser);
        }
        if (err == ERR_OK) {
            err = parse_body(parser, ends, &body);
        }
        more = err == ERR_OK && parser_at_word(parser, "elif");
        bool otherwise = err == ERR_OK && parser_at_word(parser, "else");
        if (err == ERR_OK) {
            err = parser_next(parser);
        }
        if (err == ERR_OK && !more) {
            err = expect_block_end(parser);
        }
        if (err == ERR_OK && otherwise) {
            err = parse_body(parser, last, &other);
            if (err == ERR_OK) {
                err = parser_next(parser);
            }
            if (err == ERR_OK) {
                err = expect_block_end(parser);
            }
        }
        if (err == ERR_OK) {
            at(parser, node)->a = condition;
            at(parser, node)->b = body;
            at(parser, node)->c = other;
            previous = node;
        }
    }
    return err;
}

static enum err parse_for_bodies(struct parser *parser, struct node *parts)
{
    static const char *const ends[] = {"else", "endfor", NULL};
    static const char *const last[] = {"endfor", NULL};
    bool nested = parser->nested;
    parser->nested = true;
    parser->loops++;
    enum err err = parse_body(parser, ends, &parts->b);
    parser->loops--;
    bool otherwise = err == ERR_OK && parser_at_word(parser, "else");
    if (err == ERR_OK) {
        err = parser_next(parser);
    }
    if (err == ERR_OK) {
        err = expect_block_end(parser);
    }
    if (err == ERR_OK && otherwise) {
        err = parse_body(parser, last, &parts->c);
        if (err == ERR_OK) {
            err = parser_next(parser);
        }
        if (err == ERR_OK) {
            err = expect_block_end(parser);
        }
    }
    parser->nested = nested;
    return err;
}

static enum err parse_for(struct parser *parser, int32_t *out_node)
{
    int32_t node = NODE_NONE;
    int32_t body = NODE_NONE;
    int32_t targets = NODE_NONE;
    int32_t iterated = NODE_NONE;
    struct node parts = {.a = NODE_NONE, .b = NODE_NONE, .c = NODE_NONE};
    enum err err = parser_node(parser, NODE_FOR, parser->token.line, &node);
    if (err == ERR_OK) {
        err = parser_node(parser, NODE_FOR_BODY, parser->token.line, &body);
    }
    if (err == ERR_OK) {
        err = parse_targets(parser, false, &targets);
    }
    if (err == ERR_OK) {
        err = parser_expect(parser, "in");
    }
    if (err == ERR_OK) {
        err = parser_plain(parser, &iterated);
    }
    if (err == ERR_OK && parser_at_word(parser, "if")) {
        err = parser_next(parser);
        if (err == ERR_OK) {
            err = parser_plain(parser, &parts.a);
        }
    }
    if (err == ERR_OK && parser_at_word(parser, "recursive")) {
        return parser_refuse(parser, "a recursive loop");
    }
    if (err == ERR_OK) {
        err = expect_block_end(parser);
    }
    if (err == ERR_OK) {
        err = parse_for_bodies(parser, &parts);
    }
    if (err == ERR_OK) {
        struct node *to = at(parser, body);
        to->a = parts.a;
        to->b = parts.b;
        to->c = parts.c;
        to = at(parser, node);
        to->a = targets;
        to->b = iterated;
        to->c = body;
        *out_node = node;
    }
    return err;
}

static enum err parse_set(struct parser *parser, int32_t *out_node)
{
    int32_t node = NODE_NONE;
    int32_t targets = NODE_NONE;
    int32_t value = NODE_NONE;
    enum err err = parser_node(parser, NODE_SET, parser->token.line, &node);
    if (err == ERR_OK) {
        err = parse_targets(parser, true, &targets);
    }
    if (err == ERR_OK && parser_at_sign(parser, "=")) {
        err = parser_next(parser);
        if (err == ERR_OK) {
            err = parser_expression(parser, &value);
        }
        if (err == ERR_OK) {
            err = expect_block_end(parser);
        }
    } else if (err == ERR_OK) {
        if (at(parser, targets)->next != NODE_NONE) {
            return parser_refuse(parser, "a block for several targets");
        }
        at(parser, node)->kind = NODE_SET_BLOCK;
        err = parse_closed(parser, "endset", &value);
    }
    if (err == ERR_OK) {
        at(parser, node)->a = targets;
        at(parser, node)->b = value;
        *out_node = node;
    }
    return err;
}

/* ( name, name=default ), as a list. */
static enum err parse_parameters(struct parser *parser, int32_t *out_first)
{
    int32_t last = NODE_NONE;
    enum err err = parser_expect(parser, "(");
    while (err == ERR_OK && !parser_at_sign(parser, ")")) {
        int32_t symbol = NODE_NONE;
        int32_t node = NODE_NONE;
        int32_t standard = NODE_NONE;
        err = parse_target_name(parser, &symbol);
        if (err == ERR_OK && parser_at_sign(parser, "=")) {
            err = parser_next(parser);
            if (err == ERR_OK) {
                err = parser_expression(parser, &standard);
            }
        }
        if (err == ERR_OK) {
            err = parser_node(parser, NODE_PARAMETER, parser->token.line, &node);
        }
        if (err == ERR_OK) {
            at(parser, node)->a = symbol;
            at(parser, node)->b = standard;
            if (last == NODE_NONE) {
                *out_first = node;
            } else {
                at(parser, last)->next = node;
            }
            last = node;
        }
        if (err == ERR_OK && !parser_at_sign(parser, ")")) {
            err = parser_expect(parser, ",");
        }
    }
    return err == ERR_OK ? parser_next(parser) : err;
}

/* Macros see the variables of the template, not those of a block around them: so there is none. */
static enum err parse_macro(struct parser *parser, int32_t *out_node)
{
    int32_t node = NODE_NONE;
    int32_t symbol = NODE_NONE;
    int32_t parameters = NODE_NONE;
    int32_t body = NODE_NONE;
    if (parser->nested) {
        return parser_refuse(parser, "a macro within a block");
    }
    enum err err = parser_node(parser, NODE_MACRO, parser->token.line, &node);
    if (err == ERR_OK) {
        err = parse_target_name(parser, &symbol);
    }
    if (err == ERR_OK) {
        err = parse_parameters(parser, &parameters);
    }
    if (err == ERR_OK) {
        err = parse_closed(parser, "endmacro", &body);
    }
    if (err == ERR_OK) {
        at(parser, node)->a = symbol;
        at(parser, node)->b = parameters;
        at(parser, node)->c = body;
        *out_node = node;
    }
    return err;
}

/* {% filter a | b %}, {% generation %} */
static enum err parse_block(struct parser *parser, bool filter, int32_t *out_node)
{
    int32_t node = NODE_NONE;
    int32_t filters = NODE_NONE;
    int32_t body = NODE_NONE;
    enum err err =
        parser_node(parser, filter ? NODE_FILTERED : NODE_SCOPE, parser->token.line, &node);
    if (err == ERR_OK && filter) {
        err = parser_node(parser, NODE_CAPTURED, parser->token.line, &filters);
        if (err == ERR_OK) {
            err = parser_filters(parser, filters, true, &filters);
        }
    }
    if (err == ERR_OK) {
        err = parse_closed(parser, filter ? "endfilter" : "endgeneration", &body);
    }
    if (err == ERR_OK) {
        at(parser, node)->a = filters;
        at(parser, node)->b = body;
        *out_node = node;
    }
    return err;
}

static enum err parse_jump(struct parser *parser, bool ends, int32_t *out_node)
{
    if (parser->loops == 0) {
        return parser_refuse(parser, "break or continue outside of a loop");
    }
    enum err err =
        parser_node(parser, ends ? NODE_BREAK : NODE_CONTINUE, parser->token.line, out_node);
    return err == ERR_OK ? expect_block_end(parser) : err;
}

/* The word behind {% has been read and is in `name`. */
static enum err parse_statement(struct parser *parser, struct text name, int32_t *out_node)
{
    if (text_is(name, "if")) {
        return parse_if(parser, out_node);
    }
    if (text_is(name, "for")) {
        return parse_for(parser, out_node);
    }
    if (text_is(name, "set")) {
        return parse_set(parser, out_node);
    }
    if (text_is(name, "macro")) {
        return parse_macro(parser, out_node);
    }
    if (text_is(name, "filter") || text_is(name, "generation")) {
        return parse_block(parser, text_is(name, "filter"), out_node);
    }
    if (text_is(name, "break") || text_is(name, "continue")) {
        return parse_jump(parser, text_is(name, "break"), out_node);
    }
    return lexer_refuse(parser->info, parser->token.line, "the statement '%.*s'",
        (int)MIN(name.count, 64), name.bytes);
}

/* {{ expression }} or text, at its first token. */
static enum err parse_output(struct parser *parser, int32_t *out_node)
{
    bool words = parser->token.kind == TOKEN_TEXT;
    int32_t a = NODE_NONE;
    enum err err =
        parser_node(parser, words ? NODE_WORDS : NODE_PRINT, parser->token.line, out_node);
    if (err == ERR_OK && words) {
        err = parser_constant(parser, value_text(parser->token.text), &a);
    }
    if (err == ERR_OK) {
        err = parser_next(parser);
    }
    if (err == ERR_OK && !words) {
        err = parser_expression(parser, &a);
        if (err == ERR_OK && parser->token.kind != TOKEN_PRINT_END) {
            return parser_refuse(parser, "an expression with more than belongs to it");
        }
        if (err == ERR_OK) {
            err = parser_next(parser);
        }
    }
    if (err == ERR_OK) {
        at(parser, *out_node)->a = a;
    }
    return err;
}

/* One statement, or *out_end when it is one of `ends`, whose word is then at hand. */
static enum err parse_block_tag(
    struct parser *parser, const char *const *ends, bool *out_end, int32_t *out_node)
{
    enum err err = parser_next(parser);
    if (err != ERR_OK) {
        return err;
    }
    if (parser->token.kind != TOKEN_NAME) {
        return parser_refuse(parser, "a statement without a name");
    }
    for (; *ends != NULL; ends++) {
        if (parser_at_word(parser, *ends)) {
            *out_end = true;
            return ERR_OK;
        }
    }
    struct text name = parser->token.text;
    err = parser_next(parser);
    return err == ERR_OK ? parse_statement(parser, name, out_node) : err;
}

/* Statements up to {% and one of the words `ends`, which ends in NULL; without words, up to the end
 * of the template. */
static enum err parse_body(struct parser *parser, const char *const *ends, int32_t *out_first)
{
    int32_t last = NODE_NONE;
    bool end = false;
    enum err err = parser_enter(parser);
    *out_first = NODE_NONE;
    while (err == ERR_OK && !end) {
        int32_t node = NODE_NONE;
        if (parser->token.kind == TOKEN_END) {
            end = true;
            err = *ends == NULL ? ERR_OK : parser_refuse(parser, "a block that does not end");
        } else if (parser->token.kind == TOKEN_BLOCK) {
            err = parse_block_tag(parser, ends, &end, &node);
        } else {
            err = parse_output(parser, &node);
        }
        if (err == ERR_OK && node != NODE_NONE) {
            if (last == NODE_NONE) {
                *out_first = node;
            } else {
                at(parser, last)->next = node;
            }
            last = node;
        }
    }
    parser->depth--;
    return err;
}

/* ---- the whole ----------------------------------------------------------------------------- */

/* A macro may be called before it stands: only now is it known that each one stands somewhere. */
static enum err check_calls(struct parser *parser)
{
    const struct template *template = parser->template;
    bool known[LIMIT_TEMPLATE_NAMES] = {false};
    for (int32_t i = 0; i < template->node_count; i++) {
        if (template->nodes[i].kind == NODE_MACRO) {
            known[template->nodes[i].a] = true;
        }
    }
    for (int32_t i = 0; i < template->node_count; i++) {
        const struct node *node = &template->nodes[i];
        if (node->kind == NODE_CALL && !known[node->a]) {
            struct text name = template->symbols[node->a];
            return lexer_refuse(parser->info, node->line, "the function '%.*s'",
                (int)MIN(name.count, 64), name.bytes);
        }
    }
    return ERR_OK;
}

enum err parser_run(
    struct template *template, const char *source, size_t bytes, struct err_info *info)
{
    static const char *const none[] = {NULL};
    struct parser parser = {.template = template, .info = info};
    if (bytes > LIMIT_TEMPLATE_BYTES) {
        return lexer_refuse(info, 1, "%zu bytes; at most %d", bytes, LIMIT_TEMPLATE_BYTES);
    }
    enum err err = lexer_init(&parser.lexer, &template->arena, source, bytes, info);
    if (err == ERR_OK) {
        err = parser_next(&parser);
    }
    if (err == ERR_OK) {
        err = parse_body(&parser, none, &template->first);
    }
    return err == ERR_OK ? check_calls(&parser) : err;
}
