/*
 * Source of a template to nodes. The grammar is Jinja's, less what chat templates do not use; what
 * is left out is refused here with its line, never skipped.
 */
#ifndef ENGINE_TEMPLATE_PARSER_H
#define ENGINE_TEMPLATE_PARSER_H

#include "engine/template/lexer.h"
#include "engine/template/node.h"

/* Fills *template, whose arena is set up; ERR_UNSUPPORTED with "line N: what", ERR_NO_MEMORY. */
MUST_USE enum err parser_run(
    struct template *template, const char *source, size_t bytes, struct err_info *info);

/* ---- between parser.c (statements), parser_expression.c and parser_call.c ------------------ */

struct parser {
    struct lexer lexer;
    struct token token; /* the one at hand */
    struct template *template;
    int32_t depth; /* of what is open: expressions and blocks */
    int32_t loops; /* loops around the statement at hand, within its macro */
    bool in_macro;
    bool nested; /* within a block that has variables of its own, or a macro */
    struct err_info *info;
};

MUST_USE enum err parser_next(struct parser *parser);
/* Goes in one level; the caller takes it back with parser->depth--. */
MUST_USE enum err parser_enter(struct parser *parser);
enum err parser_refuse(struct parser *parser, const char *what);
bool parser_at_sign(const struct parser *parser, const char *sign);
bool parser_at_word(const struct parser *parser, const char *word);
/* Past a sign or word that must be here. */
MUST_USE enum err parser_expect(struct parser *parser, const char *sign_or_word);
MUST_USE enum err parser_node(
    struct parser *parser, enum node_kind kind, int32_t line, int32_t *out_node);
MUST_USE enum err parser_constant(struct parser *parser, struct value value, int32_t *out_constant);
/* Id of a name. */
MUST_USE enum err parser_symbol(struct parser *parser, struct text name, int32_t *out_symbol);

/* A whole expression. */
MUST_USE enum err parser_expression(struct parser *parser, int32_t *out_node);
/* One without `a if b else c`: what a loop iterates, where `if` begins the loop's condition. */
MUST_USE enum err parser_plain(struct parser *parser, int32_t *out_node);
/* `| filter | filter` behind a node; `first`: at the name of a filter, the sign has been read. */
MUST_USE enum err parser_filters(
    struct parser *parser, int32_t subject, bool first, int32_t *out_node);

/* A node with its children; `b` may be the first of a list. */
MUST_USE enum err parser_make(struct parser *parser, enum node_kind kind, int32_t op, int32_t a,
    int32_t b, int32_t c, int32_t *out_node);
/* A list under construction: starts with NODE_NONE in both. */
struct parser_chain {
    int32_t first, last;
};
void parser_chain_add(struct parser *parser, struct parser_chain *chain, int32_t node);
/* A value with its members, subscripts and calls, without operators and filters. */
MUST_USE enum err parser_operand(struct parser *parser, int32_t *out_node);
/* Behind `is`: a test of a node. */
MUST_USE enum err parser_test(struct parser *parser, int32_t subject, int32_t *out_node);
/* At ( behind a node: a function, a macro or a method. */
MUST_USE enum err parser_call(struct parser *parser, int32_t subject, int32_t *out_node);

#endif
