/*
 * What the tables made from schemas/ are made of. A `struct schema` describes one JSON value: what
 * it may be and where its parts go in a C struct. The generator writes the tables and the structs
 * together; api/bind.c is the one interpreter of both.
 *
 * Bound forms, laid out as the interpreter writes them:
 *     string   struct bound_text             list    {T *items; int32_t count;}
 *     integer  int32_t or int64_t            tuple   a struct, one member an element
 *     number   double                        map     a list of {struct bound_text key; T value;}
 *     boolean  bool                          object  a struct; `has_x` beside every optional x
 *     json     struct bound_text
 *     enum     index of the word             union   {int32_t form; union {...};}
 */
#ifndef API_SCHEMA_H
#define API_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "api/json_in.h"

/* Valid UTF-8 without NUL, NUL-terminated. */
struct bound_text {
    const char *bytes;
    int32_t count;
};

struct bound_texts {
    const struct bound_text *items;
    int32_t count;
};

struct bound_ints {
    const int32_t *items;
    int32_t count;
};

enum schema_type {
    SCHEMA_STRING,
    SCHEMA_INTEGER,
    SCHEMA_NUMBER,
    SCHEMA_BOOLEAN,
    SCHEMA_ENUM,
    SCHEMA_LIST,
    SCHEMA_TUPLE,
    SCHEMA_MAP,
    SCHEMA_OBJECT,
    SCHEMA_UNION,
    SCHEMA_JSON /* an object of any content, bound as its text */
};

struct schema {
    enum schema_type type;
    const char *what; /* "an integer from 1 to 16": completes "must be ..." */
    uint32_t bytes;   /* size of the bound form */
    bool wide;        /* INTEGER: bound as int64_t */
    int64_t integer_min, integer_max;
    double number_min, number_max;
    bool number_min_open;         /* the minimum itself is excluded */
    int32_t count_min, count_max; /* bytes of a string, elements of a list, members of a map */
    const char *const *words;     /* ENUM */
    int32_t word_count;
    bool any_case;
    const struct schema *items;        /* LIST: the elements; MAP: the values */
    uint32_t value_offset;             /* MAP: of the value within an entry */
    uint32_t item_bytes;               /* LIST, MAP: size of an entry */
    const struct schema_field *fields; /* OBJECT; TUPLE: in order */
    int32_t field_count;
    const void *defaults; /* OBJECT: the struct of a request that says nothing */
    const struct schema_alternative *alternatives; /* UNION */
    int32_t alternative_count;
};

enum schema_use {
    SCHEMA_USED,
    SCHEMA_IDLE,   /* accepted, without effect */
    SCHEMA_REFUSED /* known but not built: only a neutral value is accepted */
};

/* A value of a refused field that changes nothing. Lists and objects: only empty ones. */
struct schema_neutral {
    enum json_in_kind kind;
    int64_t value;    /* BOOL, INTEGER */
    const char *text; /* STRING */
};

enum { SCHEMA_NO_OFFSET = -1 };

struct schema_field {
    const char *name;
    enum schema_use use;
    bool required;
    const struct schema *schema; /* USED */
    uint32_t offset;
    int32_t has_offset; /* of the `has_` flag, or SCHEMA_NO_OFFSET */
    const struct schema_neutral *neutrals;
    int32_t neutral_count;
};

struct schema_alternative {
    const struct schema *schema;
    uint32_t offset; /* within the union's struct */
};

/* All requests, by the name of their file. */
struct schema_entry {
    const char *name;
    const struct schema *schema;
};
extern const struct schema_entry schema_requests[];
extern const int32_t schema_request_count;

#endif
