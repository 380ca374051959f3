/*
 * A template's source as tokens: text between tags, and what stands inside them. White space beside
 * tags is taken away here, as Jinja does it with trim_blocks and lstrip_blocks.
 */
#ifndef ENGINE_TEMPLATE_LEXER_H
#define ENGINE_TEMPLATE_LEXER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "engine/base/arena.h"
#include "engine/base/err.h"
#include "engine/template/value.h"

enum token_kind {
    TOKEN_END,
    TOKEN_TEXT,
    TOKEN_BLOCK,     /* {% */
    TOKEN_BLOCK_END, /* %} */
    TOKEN_PRINT,     /* {{ */
    TOKEN_PRINT_END, /* }} */
    TOKEN_NAME,
    TOKEN_STRING,
    TOKEN_INTEGER,
    TOKEN_REAL,
    TOKEN_SIGN, /* an operator or a bracket */
};

struct token {
    enum token_kind kind;
    int32_t line;     /* where it begins, from 1 */
    struct text text; /* TEXT, NAME, STRING (escapes resolved), SIGN */
    int64_t integer;
    double real;
};

struct lexer {
    struct arena *arena;
    const char *source; /* line ends are \n */
    size_t count, at;
    int32_t line;
    enum token_kind tag; /* BLOCK or PRINT inside of such a tag, else TEXT */
    int32_t brackets;    /* open inside the tag: its end is none within them */
    bool line_start;     /* the text at `at` begins a line, as far as tags know */
    struct err_info *info;
};

/* Copies the source into the arena. Errors are ERR_UNSUPPORTED, their text "line N: what it is". */
MUST_USE enum err lexer_init(struct lexer *lexer, struct arena *arena, const char *source,
    size_t bytes, struct err_info *info);
MUST_USE enum err lexer_next(struct lexer *lexer, struct token *out_token);
/* ERR_UNSUPPORTED with that text. */
enum err lexer_refuse(struct err_info *info, int32_t line, const char *format, ...)
    PRINTF_LIKE(3, 4);

#endif
