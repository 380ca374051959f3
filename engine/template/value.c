/* See value.h. */
#include "engine/template/value.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "engine/base/utf8.h"

/* ---- making -------------------------------------------------------------------------------- */

struct value value_bool(bool boolean)
{
    return (struct value){.kind = VALUE_BOOL, .boolean = boolean};
}

struct value value_integer(int64_t integer)
{
    return (struct value){.kind = VALUE_INTEGER, .integer = integer};
}

struct value value_real(double real)
{
    return (struct value){.kind = VALUE_REAL, .real = real};
}

struct value value_none(void)
{
    return (struct value){.kind = VALUE_NONE};
}

struct value value_text(struct text text)
{
    return (struct value){.kind = VALUE_TEXT, .text = text};
}

struct value value_words(const char *words)
{
    return value_text((struct text){.bytes = words, .count = strlen(words)});
}

bool value_foreign(struct arena *arena, const char *bytes, size_t count, struct value *out_value)
{
    uint8_t *marks = NULL;
    if (count > 0) {
        marks = arena_alloc(arena, count);
        if (marks == NULL) {
            return false;
        }
        memset(marks, 1, count);
    }
    *out_value = value_text((struct text){.bytes = bytes, .foreign = marks, .count = count});
    return true;
}

struct list *list_new(struct arena *arena, enum list_form form)
{
    struct list *list = arena_alloc(arena, sizeof(*list));
    if (list != NULL) {
        list->form = form;
    }
    return list;
}

/* Room for one more element of `size` bytes in an array that grows by copying. */
static bool grow(
    struct arena *arena, void *array_pointer, size_t size, size_t count, size_t *capacity)
{
    void **array = array_pointer;
    if (count < *capacity) {
        return true;
    }
    size_t larger = *capacity < 4 ? 4 : *capacity * 2;
    void *items = arena_array(arena, larger, size);
    if (items == NULL) {
        return false;
    }
    if (count > 0) {
        memcpy(items, *array, count * size);
    }
    *array = items;
    *capacity = larger;
    return true;
}

bool list_add(struct arena *arena, struct list *list, struct value value)
{
    if (!grow(arena, &list->items, sizeof(*list->items), list->count, &list->capacity)) {
        return false;
    }
    list->items[list->count++] = value;
    return true;
}

struct value value_list(struct list *list)
{
    return (struct value){.kind = VALUE_LIST, .list = list};
}

struct map *map_new(struct arena *arena)
{
    return arena_alloc(arena, sizeof(struct map));
}

bool map_set(struct arena *arena, struct map *map, struct value key, struct value value)
{
    for (size_t i = 0; i < map->count; i++) {
        if (value_equal(&map->pairs[i].key, &key)) {
            map->pairs[i].value = value;
            return true;
        }
    }
    if (!grow(arena, &map->pairs, sizeof(*map->pairs), map->count, &map->capacity)) {
        return false;
    }
    map->pairs[map->count++] = (struct pair){key, value};
    return true;
}

const struct value *map_get(const struct map *map, struct value key)
{
    for (size_t i = 0; i < map->count; i++) {
        if (value_equal(&map->pairs[i].key, &key)) {
            return &map->pairs[i].value;
        }
    }
    return NULL;
}

const struct value *map_find(const struct map *map, const char *key)
{
    return map_get(map, value_words(key));
}

struct value value_map(struct map *map)
{
    return (struct value){.kind = VALUE_MAP, .map = map};
}

/* ---- asking -------------------------------------------------------------------------------- */

bool value_is_number(const struct value *value)
{
    return value->kind == VALUE_BOOL || value->kind == VALUE_INTEGER || value->kind == VALUE_REAL;
}

double value_number(const struct value *value)
{
    if (value->kind == VALUE_BOOL) {
        return value->boolean ? 1 : 0;
    }
    return value->kind == VALUE_INTEGER ? (double)value->integer : value->real;
}

bool value_true(const struct value *value)
{
    switch ((enum value_kind)value->kind) {
    case VALUE_UNDEFINED:
    case VALUE_NONE:
        return false;
    case VALUE_BOOL:
        return value->boolean;
    case VALUE_INTEGER:
        return value->integer != 0;
    case VALUE_REAL:
        return value->real != 0;
    case VALUE_TEXT:
        return value->text.count > 0;
    case VALUE_LIST:
        return value->list->form == LIST_LAZY || value->list->count > 0;
    case VALUE_MAP:
        return value->map->count > 0;
    case VALUE_NAMESPACE:
    case VALUE_LOOP:
    case VALUE_MACRO:
    case VALUE_METHOD:
        break;
    }
    return true;
}

bool value_equal(const struct value *left, const struct value *right)
{
    if (value_is_number(left) && value_is_number(right)) {
        if (left->kind == VALUE_INTEGER && right->kind == VALUE_INTEGER) {
            return left->integer == right->integer;
        }
        return value_number(left) == value_number(right);
    }
    if (left->kind != right->kind) {
        return false;
    }
    switch ((enum value_kind)left->kind) {
    case VALUE_TEXT:
        return text_equal(left->text, right->text);
    case VALUE_LIST:
        return left->list == right->list;
    case VALUE_MAP:
    case VALUE_NAMESPACE:
        return left->map == right->map;
    case VALUE_LOOP:
        return left->loop == right->loop;
    case VALUE_MACRO:
        return left->macro == right->macro;
    case VALUE_UNDEFINED:
    case VALUE_NONE:
        return true;
    case VALUE_METHOD:
    case VALUE_BOOL:
    case VALUE_INTEGER:
    case VALUE_REAL:
        break;
    }
    return false;
}

/* ---- text ---------------------------------------------------------------------------------- */

bool text_equal(struct text left, struct text right)
{
    return left.count == right.count &&
           (left.count == 0 || memcmp(left.bytes, right.bytes, left.count) == 0);
}

bool text_is(struct text text, const char *words)
{
    return text_equal(text, (struct text){.bytes = words, .count = strlen(words)});
}

struct text text_part(struct text text, size_t from, size_t to)
{
    struct text part = {.count = to - from};
    if (part.count > 0) {
        part.bytes = text.bytes + from;
        part.foreign = text.foreign != NULL ? text.foreign + from : NULL;
    }
    return part;
}

bool text_space(int32_t code_point)
{
    return (code_point >= 0x09 && code_point <= 0x0D) ||
           (code_point >= 0x1C && code_point <= 0x20) || code_point == 0x85 || code_point == 0xA0 ||
           code_point == 0x1680 || (code_point >= 0x2000 && code_point <= 0x200A) ||
           code_point == 0x2028 || code_point == 0x2029 || code_point == 0x202F ||
           code_point == 0x205F || code_point == 0x3000;
}

/* Whether the character at bytes [at, at + length) is to be stripped. */
static bool is_stripped(struct text text, size_t at, size_t length, const struct text *chars)
{
    int32_t code_point;
    if (chars == NULL) {
        (void)utf8_decode(text.bytes + at, length, &code_point);
        return text_space(code_point);
    }
    return chars->count >= length && memmem(chars->bytes, chars->count, text.bytes + at, length);
}

struct text text_strip(struct text text, const struct text *chars, bool left, bool right)
{
    size_t from = 0;
    size_t to = text.count;
    int32_t code_point;
    while (left && from < to) {
        size_t length = (size_t)utf8_decode(text.bytes + from, to - from, &code_point);
        if (!is_stripped(text, from, length, chars)) {
            break;
        }
        from += length;
    }
    while (right && from < to) {
        size_t at = to - 1;
        while (at > from && ((unsigned char)text.bytes[at] & 0xC0) == 0x80) {
            at--;
        }
        if (!is_stripped(text, at, to - at, chars)) {
            break;
        }
        to = at;
    }
    return text_part(text, from, to);
}

size_t text_characters(struct text text)
{
    return text.count == 0 ? 0 : utf8_length(text.bytes, text.count);
}

/* ---- numbers ------------------------------------------------------------------------------- */

/* The shortest digits that read back, as "d.ddde+xx". */
static void shortest(double real, char out[VALUE_REAL_BYTES])
{
    for (int32_t digits = 0; digits < 17; digits++) {
        (void)snprintf(out, VALUE_REAL_BYTES, "%.*e", digits, real);
        if (strtod(out, NULL) == real) {
            return;
        }
    }
}

size_t value_print_real(double real, char out[VALUE_REAL_BYTES])
{
    char form[VALUE_REAL_BYTES];
    if (isnan(real) || isinf(real)) {
        return (size_t)snprintf(out, VALUE_REAL_BYTES, "%s",
            isnan(real) ? "nan"
            : real < 0  ? "-inf"
                        : "inf");
    }
    shortest(real, form);
    const char *mark = strchr(form, 'e');
    int32_t exponent = (int32_t)strtol(mark + 1, NULL, 10);
    int32_t digits = (int32_t)(mark - form) - (form[0] == '-') - (strchr(form, '.') != NULL);
    if (exponent < -4 || exponent >= 16) {
        return (size_t)snprintf(out, VALUE_REAL_BYTES, "%.*e", digits - 1, real);
    }
    int32_t decimals = digits - 1 - exponent;
    return (size_t)snprintf(out, VALUE_REAL_BYTES, "%.*f", decimals > 1 ? decimals : 1, real);
}
