/*
 * An HTTP reply from bytes, in any pieces, strictly: a client of ours must notice a server that
 * frames badly. llhttp parses; what its strict mode still accepts and we do not (folded header
 * lines, odd transfer codings, other versions, floods between chunks) is checked here.
 *
 * The body is collected, or handed on piece by piece when `on_body` is set (event streams).
 */
#ifndef TESTS_HTTP_CLIENT_REPLY_PARSER_H
#define TESTS_HTTP_CLIENT_REPLY_PARSER_H

#include <llhttp.h>
#include <stdbool.h>
#include <stddef.h>
#include "engine/base/buf.h"
#include "engine/base/err.h"

enum {
    REPLY_HEAD_BYTES = 64 * 1024,
    REPLY_FIELDS = 100,
    REPLY_BETWEEN_CHUNKS = 16 * 1024, /* extensions and trailers */
};

struct reply_parser {
    llhttp_t llhttp;
    llhttp_settings_t settings;
    bool head_only; /* the reply to a HEAD */
    bool done;      /* the message is complete */
    bool in_head;
    bool head_seen; /* the empty line began: what follows is no header line */
    char last;      /* byte before, for folds that cross pieces */
    size_t head_bytes, between_bytes;
    int fields, lengths, codings, chunked;
    int status;
    bool keep_alive;
    struct buf field;   /* NAME:VALUE of the line being read */
    struct buf headers; /* "name: value\n", names in small letters */
    struct buf body;
    void (*on_body)(void *context, const char *bytes, size_t count);
    void *context;
};

void reply_parser_init(struct reply_parser *parser, bool head_only);
void reply_parser_free(struct reply_parser *parser);
/* Takes bytes of one reply; *out_used says how many: those behind the end belong to the next one.
 * ERR_FORMAT for anything that is not a well-framed reply. */
MUST_USE enum err reply_parser_feed(
    struct reply_parser *parser, const char *bytes, size_t count, size_t *out_used);
/* The peer has closed: completes a reply that is delimited so; ERR_FORMAT inside any other. */
MUST_USE enum err reply_parser_end(struct reply_parser *parser);
/* Value of a field by its name in small letters, or NULL. Not NUL-terminated: ends at '\n'. */
const char *reply_parser_field(const struct reply_parser *parser, const char *name);

#endif
