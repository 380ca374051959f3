/*
 * The header audit: what a request's head must satisfy before anything looks at it. Pure: fed with
 * the request line and each field, it ends with either the few facts the server needs or a status
 * and a reason. It is stricter than the HTTP library beneath, on purpose: every way of hiding one
 * request in the body of another starts with a head that two parsers read differently.
 */
#ifndef SERVER_AUDIT_H
#define SERVER_AUDIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum method { METHOD_GET, METHOD_HEAD, METHOD_POST, METHOD_OTHER };

/* Why a head was refused; the word is the metric label http_malformed_total{reason}. */
#define AUDIT_REASON_MAP(X)                                                                        \
    X(NONE, "none")                                                                                \
    X(PARSER, "parser") /* the library's own complaint */                                          \
    X(TARGET, "target")                                                                            \
    X(VERSION, "version")                                                                          \
    X(FIELD, "field")                                                                              \
    X(FRAMING, "framing")                                                                          \
    X(HOST, "host")                                                                                \
    X(EXPECT, "expect")                                                                            \
    X(SIZE, "size")

enum audit_reason {
#define X(name, word) AUDIT_##name,
    AUDIT_REASON_MAP(X)
#undef X
        AUDIT_REASON_COUNT
};

struct field {
    const char *bytes; /* NULL = absent; not NUL-terminated */
    size_t count;
};

struct head {
    const char *path; /* as sent, without the query */
    enum method method;
    bool version_10;
    bool chunked, expect;
    int64_t content_length; /* -1 = none stated */
    struct field content_type, content_encoding, accept, request_id, traceparent, priority;

    int status; /* 0 = acceptable so far */
    enum audit_reason reason;
    const char *text;
    size_t fields, bytes;
    int hosts, lengths, codings;
};

const char *audit_reason_word(enum audit_reason reason);
/* Checks the target's bytes: 0, 400 or 414. */
int audit_target(const char *target);
void audit_begin(struct head *head, const char *method, const char *version);
void audit_field(
    struct head *head, const char *name, size_t name_bytes, const char *value, size_t value_bytes);
/* What only shows once all fields are known. */
void audit_end(struct head *head);

/* Whether a media range list admits one of the types this server sends. */
bool audit_accepts(struct field accept);
/* Absent or application/json, with any parameters. */
bool audit_is_json(struct field content_type);
/* [A-Za-z0-9._-]{1,64} */
bool audit_request_id_valid(struct field id);

#endif
