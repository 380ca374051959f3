/*
 * What templates compute with: values as Python has them, in memory of one arena, immutable once
 * made (a namespace excepted). Nothing here knows templates.
 *
 * A text remembers for each byte whether a client supplied it. Whoever makes a text of others keeps
 * the marks beside the bytes, so that in the end only the template's own words can be special
 * tokens.
 */
#ifndef ENGINE_TEMPLATE_VALUE_H
#define ENGINE_TEMPLATE_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "engine/base/arena.h"

enum value_kind {
    VALUE_UNDEFINED,
    VALUE_NONE,
    VALUE_BOOL,
    VALUE_INTEGER,
    VALUE_REAL,
    VALUE_TEXT,
    VALUE_LIST,
    VALUE_MAP,
    VALUE_NAMESPACE,
    VALUE_LOOP,   /* what `loop` is inside of one */
    VALUE_MACRO,  /* code of the template */
    VALUE_METHOD, /* `text.strip`, `map.items` or a function, not called: it can only be defined */
};

/* Python's kinds of things that have elements, as far as they differ. */
enum list_form {
    LIST_PLAIN,
    LIST_TUPLE,
    LIST_VIEW, /* of a mapping: has no subscripts */
    LIST_LAZY, /* a generator: has neither subscripts nor a length, is true, is walked once */
};

struct text {
    const char *bytes;      /* valid UTF-8, not NUL-terminated */
    const uint8_t *foreign; /* [count] 1 = a client's; NULL = none is */
    size_t count;
};

struct list;
struct map;
struct loop;

struct value {
    uint8_t kind;  /* enum value_kind */
    bool foreign;  /* a client's number, word or structure: so is what is printed of it */
    bool markup;   /* text behind `safe`: what is added to it is escaped for HTML */
    int32_t macro; /* MACRO: the node */
    union {
        bool boolean;
        int64_t integer;
        double real;
        struct text text;
        struct list *list;
        struct map *map; /* MAP, NAMESPACE */
        const struct loop *loop;
    };
};

struct list {
    struct value *items;
    size_t count, capacity;
    enum list_form form;
    bool walked; /* LIST_LAZY */
};

struct pair {
    struct value key, value;
};

struct map {
    struct pair *pairs; /* in order of insertion */
    size_t count, capacity;
};

struct value value_bool(bool boolean);
struct value value_integer(int64_t integer);
struct value value_real(double real);
struct value value_none(void);
struct value value_text(struct text text);
/* The program's or the template's own words, NUL-terminated; not copied. */
struct value value_words(const char *words);
/* Text of a client: every byte is marked. `bytes` stay the caller's. False without memory. */
MUST_USE bool value_foreign(
    struct arena *arena, const char *bytes, size_t count, struct value *out_value);
/* An empty one; NULL without memory. */
MUST_USE struct list *list_new(struct arena *arena, enum list_form form);
MUST_USE bool list_add(struct arena *arena, struct list *list, struct value value);
struct value value_list(struct list *list);
MUST_USE struct map *map_new(struct arena *arena);
/* Replaces the value of a key that is there. Keys are texts, numbers, words. */
MUST_USE bool map_set(struct arena *arena, struct map *map, struct value key, struct value value);
const struct value *map_get(const struct map *map, struct value key); /* or NULL */
const struct value *map_find(const struct map *map, const char *key);
struct value value_map(struct map *map);

bool value_is_number(const struct value *value); /* bool, integer, real */
double value_number(const struct value *value);  /* of a number */
bool value_true(const struct value *value);
/* Equality as Python has it: True == 1 == 1.0. Lists and mappings are equal to themselves only
 * (run_equal compares what they hold). */
bool value_equal(const struct value *left, const struct value *right);
bool text_equal(struct text left, struct text right);
bool text_is(struct text text, const char *words);
/* Bytes [from, to). */
struct text text_part(struct text text, size_t from, size_t to);
/* What Python calls white space (str.isspace). */
bool text_space(int32_t code_point);
/* `text` without white space at its ends, or without the characters of `*chars`. */
struct text text_strip(struct text text, const struct text *chars, bool left, bool right);
size_t text_characters(struct text text);

/* Python's repr of a float; returns the count of bytes. */
enum { VALUE_REAL_BYTES = 40 };
size_t value_print_real(double real, char out[VALUE_REAL_BYTES]);

#endif
