/*
 * The list of things that can go wrong, and the note that says where.
 *
 * A function that can fail returns `enum err` and, when a caller has to tell a person about it,
 * fills a `struct err_info`: a stable machine word, the place (JSON pointer of a request field,
 * key or tensor name of a model file) and one sentence. HTTP status numbers live only in
 * api/error_map.c, which maps this list; every switch over it is complete.
 */
#ifndef ENGINE_BASE_ERR_H
#define ENGINE_BASE_ERR_H

#include <stdbool.h>
#include <stdint.h>
#include "engine/base/attr.h"

/* name, word: the word is stable, it is what clients and logs see. */
#define ERR_MAP(X)                                                                                 \
    X(OK, "ok")                                                                                    \
    X(NO_MEMORY, "no_memory") /* an allocation failed or the plan does not fit */                  \
    X(BUSY, "busy")           /* a queue or a pool is full; try again later */                     \
    X(JSON, "json_invalid")   /* request bytes that are not acceptable JSON */                     \
    X(INVALID, "invalid")     /* a field has a wrong type or is out of its range */                \
    X(UNSUPPORTED_FIELD, "unsupported_field") /* known field that would change the answer */       \
    X(EMPTY, "empty")                         /* an input without content */                       \
    X(LIMIT, "limit")                         /* over a limit of the model or the configuration */ \
    X(CONTEXT, "context_length_exceeded")     /* more tokens than the context holds */             \
    X(NOT_CAPABLE, "not_supported")           /* the loaded model cannot do this */                \
    X(NOT_FOUND, "not_found")                 /* unknown path, unknown model name */               \
    X(TOKENIZER, "tokenizer")                 /* text could not be turned into tokens */           \
    X(NON_FINITE, "non_finite")               /* NaN or infinity in a result or in a K/V value */  \
    X(UNSATISFIABLE, "unsatisfiable")         /* no token fits what a request wants and bans */    \
    X(CANCELLED, "cancelled")                 /* the client went away */                           \
    X(DEADLINE, "timeout")                    /* a deadline passed */                              \
    X(SHUTDOWN, "draining")                   /* the server is stopping */                         \
    X(IO, "io")                               /* the operating system refused a read or a write */ \
    X(FORMAT, "format")                       /* a model file breaks its format */                 \
    X(UNSUPPORTED, "unsupported")             /* a model file asks for something not built */      \
    X(CONFIG, "config")                       /* a flag, variable or file of the configuration */  \
    X(INTERNAL, "internal")                   /* a failure of ours */

enum err {
#define X(name, word) ERR_##name,
    ERR_MAP(X)
#undef X
        ERR_COUNT
};

enum {
    ERR_WHERE_BYTES = 160,
    ERR_TEXT_BYTES = 320,
};

/* Filled on failure only. `offset` is a byte offset in the input, -1 when there is none;
 * `line` and `column` count from 1, 0 when there are none; `have`/`limit` are the two counts of an
 * ERR_CONTEXT or ERR_LIMIT (0 otherwise). Never holds user text, paths or addresses. */
struct err_info {
    enum err code;
    char where[ERR_WHERE_BYTES];
    char text[ERR_TEXT_BYTES];
    char word[48]; /* a finer stable word than err_word(code), e.g. "dimensions_too_large"; or "" */
    int64_t offset;
    int32_t line, column;
    int64_t have, limit;
};

/* The stable word of a code ("json_invalid"). */
const char *err_word(enum err code);

/* Clears `info` and fills code, where and text; `info` may be NULL, `where` may be NULL.
 * Returns `code`, so that `return err_set(...)` reads as one line. Long text is cut. */
enum err err_set(struct err_info *info, enum err code, const char *where, const char *format, ...)
    PRINTF_LIKE(4, 5);

/* Adds the byte offset to what err_set filled: return err_at(info, offset, err_set(...)). */
static inline enum err err_at(struct err_info *info, uint64_t offset, enum err code)
{
    if (info != 0) {
        info->offset = offset > INT64_MAX ? INT64_MAX : (int64_t)offset;
    }
    return code;
}

#endif
