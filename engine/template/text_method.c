/*
 * What templates do with texts, by method or by filter. Every result keeps the marks of the bytes
 * it is made of.
 */
#include "engine/template/run.h"

#include <string.h>
#include "engine/base/utf8.h"

/* Where `part` is in `text` at or after `from`; text.count when nowhere. */
static size_t find(struct text text, size_t from, struct text part)
{
    if (text.count - from < part.count || text.count == 0) {
        return text.count;
    }
    const char *found = memmem(text.bytes + from, text.count - from, part.bytes, part.count);
    return found == NULL ? text.count : (size_t)(found - text.bytes);
}

/* ---- replacing, joining, splitting --------------------------------------------------------- */

static bool integer_argument(const struct arguments *arguments, int32_t place, int64_t *out)
{
    const struct value *value = &arguments->values[place];
    if (!arguments->given[place] || value->kind == VALUE_NONE) {
        return true;
    }
    *out = value->integer;
    return value->kind == VALUE_INTEGER;
}

enum err run_replace(
    struct run *run, struct text text, const struct arguments *arguments, struct value *out_value)
{
    struct text old = arguments->values[0].text;
    struct text new = arguments->values[1].text;
    int64_t left = -1;
    size_t from = run->text.count;
    if (arguments->values[0].kind != VALUE_TEXT || arguments->values[1].kind != VALUE_TEXT ||
        !integer_argument(arguments, 2, &left)) {
        return run_fail(run, "replace takes texts and a count");
    }
    if (old.count == 0) {
        return run_refuse(run, "replace of an empty text");
    }
    enum err err = run_charge_bytes(run, text.count);
    size_t at = 0;
    while (err == ERR_OK && left != 0) {
        size_t found = find(text, at, old);
        if (found == text.count) {
            break;
        }
        err = run_put(run, text_part(text, at, found));
        if (err == ERR_OK) {
            err = run_put(run, new);
        }
        if (err == ERR_OK) {
            err = run_charge(run, 1);
        }
        at = found + old.count;
        left -= left > 0;
    }
    if (err == ERR_OK) {
        err = run_put(run, text_part(text, at, text.count));
    }
    return run_take_value(run, err, from, out_value);
}

enum err run_join(
    struct run *run, struct text separator, const struct list *list, struct value *out_value)
{
    size_t from = run->text.count;
    struct text text;
    enum err err = run_charge(run, list->count);
    for (size_t i = 0; i < list->count && err == ERR_OK; i++) {
        err = i == 0 ? ERR_OK : run_put(run, separator);
        if (err == ERR_OK) {
            err = run_text(run, &list->items[i], &text);
        }
        if (err == ERR_OK) {
            err = run_put(run, text);
        }
    }
    return run_take_value(run, err, from, out_value);
}

/* The next piece of `rest` and what stays behind it; false at the end. Without a separator pieces
 * lie between white space. */
static bool split_off(struct text *rest, const struct text *separator, struct text *out_piece)
{
    size_t end = 0;
    size_t skip = 0;
    if (separator != NULL) {
        end = find(*rest, 0, *separator);
        skip = end < rest->count ? separator->count : 0;
    } else {
        *rest = text_strip(*rest, NULL, true, false);
        while (end < rest->count) {
            int32_t code_point;
            size_t length = (size_t)utf8_decode(rest->bytes + end, rest->count - end, &code_point);
            if (text_space(code_point)) {
                break;
            }
            end += length;
        }
    }
    *out_piece = text_part(*rest, 0, end);
    *rest = text_part(*rest, end + skip, rest->count);
    return separator != NULL ? skip > 0 : end > 0;
}

static enum err split(
    struct run *run, struct text text, const struct arguments *arguments, struct value *out_value)
{
    int64_t left = -1;
    const struct value *given = &arguments->values[0];
    bool separated = arguments->given[0] && given->kind != VALUE_NONE;
    if ((separated && (given->kind != VALUE_TEXT || given->text.count == 0)) ||
        !integer_argument(arguments, 1, &left)) {
        return run_fail(run, "split takes a text that is not empty, and a count");
    }
    struct list *list = list_new(run->arena, LIST_PLAIN);
    enum err err = list == NULL ? run_no_memory(run) : run_charge_bytes(run, text.count);
    bool more = true;
    while (err == ERR_OK && more) {
        struct text piece;
        if (left == 0) { /* what is left stays whole */
            piece = separated ? text : text_strip(text, NULL, true, false);
            more = false;
        } else {
            more = split_off(&text, separated ? &given->text : NULL, &piece);
            left -= left > 0;
        }
        err = run_charge(run, 1);
        if (err == ERR_OK && (separated || piece.count > 0) &&
            !list_add(run->arena, list, value_text(piece))) {
            err = run_no_memory(run);
        }
    }
    *out_value = value_list(list);
    return err;
}

/* ---- case ---------------------------------------------------------------------------------- */

static char upper(char c)
{
    return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool is_letter(char c)
{
    return upper(c) != lower(c);
}

/* Whether the next letter begins a word, after byte c. */
static bool begins_word(enum run_case which, char c)
{
    return which == CASE_TITLE ? !is_letter(c)
                               : which == CASE_WORDS && c != '\0' && strchr("-({[< \t\n\r\f\v", c);
}

enum err run_case(struct run *run, struct text text, enum run_case which, struct value *out_value)
{
    char *bytes = arena_alloc(run->arena, text.count + 1);
    enum err err = bytes == NULL ? run_no_memory(run) : run_charge_bytes(run, text.count);
    bool begins = true;
    for (size_t i = 0; i < text.count && err == ERR_OK; i++) {
        char c = text.bytes[i];
        if ((unsigned char)c >= 0x80) {
            return run_refuse(run, "upper or lower case of text that is not ASCII");
        }
        bool up = which == CASE_UPPER || (which != CASE_LOWER && begins);
        bytes[i] = up ? upper(c) : lower(c);
        begins = begins_word(which, c);
    }
    *out_value =
        value_text((struct text){.bytes = bytes, .foreign = text.foreign, .count = text.count});
    return err;
}

/* ---- methods ------------------------------------------------------------------------------- */

static bool has_end(struct text text, struct text part, bool front)
{
    size_t from = front || text.count < part.count ? 0 : text.count - part.count;
    return text.count >= part.count && text_equal(text_part(text, from, from + part.count), part);
}

/* startswith and endswith take a text or a tuple of them. */
static enum err test_end(struct run *run, struct text text, const struct value *wanted, bool front,
    struct value *out_value)
{
    bool tuple = wanted->kind == VALUE_LIST && wanted->list->form == LIST_TUPLE;
    const struct value *items = tuple ? wanted->list->items : wanted;
    size_t count = tuple ? wanted->list->count : 1;
    bool holds = false;
    enum err err = ERR_OK;
    for (size_t i = 0; i < count && err == ERR_OK; i++) {
        if (items[i].kind != VALUE_TEXT) {
            return run_fail(run, "startswith and endswith take texts");
        }
        err = run_charge_bytes(run, items[i].text.count);
        holds = holds || (err == ERR_OK && has_end(text, items[i].text, front));
    }
    *out_value = value_bool(holds);
    return err;
}

static enum err remove_end(struct run *run, struct text text, const struct value *part, bool front,
    struct value *out_value)
{
    if (part->kind != VALUE_TEXT) {
        return run_fail(run, "removeprefix and removesuffix take a text");
    }
    enum err err = run_charge_bytes(run, part->text.count);
    if (err == ERR_OK && has_end(text, part->text, front)) {
        text = front ? text_part(text, part->text.count, text.count)
                     : text_part(text, 0, text.count - part->text.count);
    }
    *out_value = value_text(text);
    return err;
}

static enum err strip(struct run *run, struct text text, const struct arguments *arguments,
    bool left, bool right, struct value *out_value)
{
    const struct value *chars = &arguments->values[0];
    bool given = arguments->given[0] && chars->kind != VALUE_NONE;
    if (given && chars->kind != VALUE_TEXT) {
        return run_fail(run, "strip takes a text");
    }
    /* Each character that goes may be the last of `chars`. */
    enum err err = run_charge_bytes(run, text.count * (given ? 1 + chars->text.count / 16 : 1));
    if (err == ERR_OK) {
        *out_value = value_text(text_strip(text, given ? &chars->text : NULL, left, right));
    }
    return err;
}

static enum err join_elements(
    struct run *run, struct text text, const struct value *elements, struct value *out_value)
{
    const struct list *list;
    enum err err = run_elements(run, elements, &list);
    for (size_t i = 0; err == ERR_OK && i < list->count; i++) {
        err = list->items[i].kind == VALUE_TEXT ? ERR_OK : run_fail(run, "join takes texts");
    }
    return err == ERR_OK ? run_join(run, text, list, out_value) : err;
}

enum err run_text_method(struct run *run, enum builtin_id id, struct text text,
    const struct arguments *arguments, struct value *out_value)
{
    const struct value *first = &arguments->values[0];
    switch ((int)id) {
    case BUILTIN_STRIP:
        return strip(run, text, arguments, true, true, out_value);
    case BUILTIN_LSTRIP:
        return strip(run, text, arguments, true, false, out_value);
    case BUILTIN_RSTRIP:
        return strip(run, text, arguments, false, true, out_value);
    case BUILTIN_SPLIT:
        return split(run, text, arguments, out_value);
    case BUILTIN_STARTSWITH:
        return test_end(run, text, first, true, out_value);
    case BUILTIN_ENDSWITH:
        return test_end(run, text, first, false, out_value);
    case BUILTIN_TEXT_REPLACE:
        return run_replace(run, text, arguments, out_value);
    case BUILTIN_TEXT_UPPER:
        return run_case(run, text, CASE_UPPER, out_value);
    case BUILTIN_TEXT_LOWER:
        return run_case(run, text, CASE_LOWER, out_value);
    case BUILTIN_TEXT_TITLE:
        return run_case(run, text, CASE_TITLE, out_value);
    case BUILTIN_TEXT_CAPITALIZE:
        return run_case(run, text, CASE_CAPITALIZE, out_value);
    case BUILTIN_TEXT_JOIN:
        return join_elements(run, text, first, out_value);
    case BUILTIN_REMOVEPREFIX:
        return remove_end(run, text, first, true, out_value);
    case BUILTIN_REMOVESUFFIX:
        return remove_end(run, text, first, false, out_value);
    default:
        break;
    }
    return run_refuse(run, "a method");
}

enum err run_items(
    struct run *run, const struct value *value, enum list_form form, struct value *out_value)
{
    struct list *list = list_new(run->arena, form);
    enum err err = list == NULL ? run_no_memory(run) : run_charge(run, value->map->count);
    for (size_t i = 0; i < value->map->count && err == ERR_OK; i++) {
        struct list *pair = list_new(run->arena, LIST_TUPLE);
        if (pair == NULL || !list_add(run->arena, pair, value->map->pairs[i].key) ||
            !list_add(run->arena, pair, value->map->pairs[i].value) ||
            !list_add(run->arena, list, value_list(pair))) {
            err = run_no_memory(run);
        }
    }
    *out_value = value_list(list);
    return err;
}

enum err run_map_method(struct run *run, enum builtin_id id, const struct value *subject,
    const struct arguments *arguments, struct value *out_value)
{
    const struct map *map = subject->map;
    enum err err;
    if (id == BUILTIN_GET) {
        const struct value *found = NULL;
        err = run_map_find(run, map, arguments->values[0], &found);
        *out_value = found != NULL         ? *found
                     : arguments->given[1] ? arguments->values[1]
                                           : value_none();
        return err;
    }
    if (id == BUILTIN_MAP_ITEMS) {
        return run_items(run, subject, LIST_VIEW, out_value);
    }
    struct list *list = list_new(run->arena, LIST_VIEW);
    err = list == NULL ? run_no_memory(run) : run_charge(run, map->count);
    for (size_t i = 0; i < map->count && err == ERR_OK; i++) {
        const struct pair *pair = &map->pairs[i];
        err = list_add(run->arena, list, id == BUILTIN_KEYS ? pair->key : pair->value)
                  ? ERR_OK
                  : run_no_memory(run);
    }
    *out_value = value_list(list);
    return err;
}
