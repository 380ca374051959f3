/*
 * Filters, as Jinja defines them. Those that give a generator there give a lazy list here.
 */
#include "engine/template/run.h"

#include <stdlib.h>
#include <string.h>
#include "engine/base/utf8.h"

/* ---- of texts ------------------------------------------------------------------------------ */

static enum err filter_trim(
    struct run *run, struct text text, const struct arguments *arguments, struct value *out_value)
{
    return run_text_method(run, BUILTIN_STRIP, text, arguments, out_value);
}

/* Lines as Python's splitlines has them: the next one of `rest`; false at the end. */
static bool next_line(struct text *rest, struct text *out_line)
{
    for (size_t at = 0; at < rest->count;) {
        int32_t c;
        size_t length = (size_t)utf8_decode(rest->bytes + at, rest->count - at, &c);
        if ((c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
            c == 0x2029) {
            bool both = c == '\r' && at + 1 < rest->count && rest->bytes[at + 1] == '\n';
            *out_line = text_part(*rest, 0, at);
            *rest = text_part(*rest, at + length + (both ? 1 : 0), rest->count);
            return true;
        }
        at += length;
    }
    *out_line = *rest;
    *rest = text_part(*rest, rest->count, rest->count);
    return false;
}

/* The text in front of each line: blanks, or what is given. */
static enum err indentation(
    struct run *run, const struct arguments *arguments, struct text *out_text)
{
    struct value width = arguments->given[0] ? arguments->values[0] : value_integer(4);
    struct value blank = value_words(" ");
    struct value text;
    if (width.kind == VALUE_TEXT) {
        *out_text = width.text;
        return ERR_OK;
    }
    enum err err = run_binary(run, BINARY_MULTIPLY, &blank, &width, &text);
    *out_text = err == ERR_OK ? text.text : (struct text){.count = 0};
    return err;
}

static enum err filter_indent(
    struct run *run, struct text text, const struct arguments *arguments, struct value *out_value)
{
    static const struct text line_break = {.bytes = "\n", .count = 1};
    size_t from = run->text.count;
    struct text indent;
    bool first = value_true(&arguments->values[1]);
    bool blank = value_true(&arguments->values[2]);
    enum err err = indentation(run, arguments, &indent);
    if (err == ERR_OK && first) {
        err = run_put(run, indent);
    }
    bool more = true;
    for (size_t i = 0; more && err == ERR_OK; i++) {
        struct text line;
        more = next_line(&text, &line);
        err = i == 0 ? ERR_OK : run_put(run, line_break);
        if (err == ERR_OK && i > 0 && (blank || line.count > 0)) {
            err = run_put(run, indent);
        }
        if (err == ERR_OK) {
            err = run_put(run, line);
        }
        if (err == ERR_OK) {
            err = run_charge(run, 1);
        }
    }
    return run_take_value(run, err, from, out_value);
}

/* A whole number or real in a text, white space around it allowed; false when it is none. */
static bool read_number(struct text text, bool integer, int64_t *out_integer, double *out_real)
{
    char digits[64];
    char *end;
    text = text_strip(text, NULL, true, true);
    if (text.count == 0 || text.count >= sizeof(digits)) {
        return false;
    }
    memcpy(digits, text.bytes, text.count);
    digits[text.count] = '\0';
    if (strspn(digits, integer ? "+-0123456789" : "+-.0123456789eE") != text.count) {
        return false;
    }
    *out_integer = integer && text.count < 19 ? strtoll(digits, &end, 10) : 0;
    *out_real = strtod(digits, &end);
    return *end == '\0' && (!integer || text.count < 19);
}

/* int and float: of numbers and texts, else the default. */
static enum err filter_number(struct run *run, const struct value *subject, bool integer,
    const struct arguments *arguments, struct value *out_value)
{
    int64_t whole = 0;
    double real = 0;
    *out_value = arguments->given[0] ? arguments->values[0]
                 : integer           ? value_integer(0)
                                     : value_real(0);
    if (subject->kind == VALUE_UNDEFINED) {
        return run_fail(run, "a number of an undefined value");
    }
    if (value_is_number(subject)) {
        real = value_number(subject);
        whole = subject->kind == VALUE_INTEGER ? subject->integer
                : real > -9e18 && real < 9e18  ? (int64_t)real
                                               : 0;
        if (integer && (double)whole != real && subject->kind == VALUE_REAL &&
            !(real > -9e18 && real < 9e18)) {
            return run_refuse(run, "an integer of more than 64 bits");
        }
    } else if (subject->kind == VALUE_TEXT && read_number(subject->text, true, &whole, &real)) {
        /* both are set */
    } else if (subject->kind == VALUE_TEXT && read_number(subject->text, false, &whole, &real)) {
        whole = real > -9e18 && real < 9e18 ? (int64_t)real : 0;
    } else {
        return subject->kind == VALUE_TEXT && subject->text.count > 0
                   ? run_refuse(run, "int or float of an unusual text")
                   : ERR_OK;
    }
    *out_value = integer ? value_integer(whole) : value_real(real);
    return ERR_OK;
}

static enum err filter_abs(struct run *run, const struct value *subject, struct value *out_value)
{
    struct value zero = value_integer(0);
    if (!value_is_number(subject)) {
        return run_fail(run, "abs of %s", run_kind(subject));
    }
    if (value_number(subject) < 0) {
        return run_binary(run, BINARY_SUBTRACT, &zero, subject, out_value);
    }
    return run_binary(run, BINARY_ADD, &zero, subject, out_value);
}

/* Filters whose subject is taken as text. */
static enum err filter_text(struct run *run, enum builtin_id id, const struct value *subject,
    const struct arguments *arguments, struct value *out_value)
{
    struct text text;
    struct arguments texts = *arguments;
    enum err err = run_text(run, subject, &text);
    if (err != ERR_OK) {
        return err;
    }
    switch ((int)id) {
    case BUILTIN_TRIM:
        return filter_trim(run, text, arguments, out_value);
    case BUILTIN_UPPER:
        return run_case(run, text, CASE_UPPER, out_value);
    case BUILTIN_LOWER:
        return run_case(run, text, CASE_LOWER, out_value);
    case BUILTIN_CAPITALIZE:
        return run_case(run, text, CASE_CAPITALIZE, out_value);
    case BUILTIN_TITLE:
        return run_case(run, text, CASE_WORDS, out_value);
    case BUILTIN_INDENT:
        return subject->kind == VALUE_TEXT ? filter_indent(run, text, arguments, out_value)
                                           : run_fail(run, "indent of %s", run_kind(subject));
    case BUILTIN_REPLACE:
        for (int32_t i = 0; i < 2 && err == ERR_OK; i++) {
            err = run_text(run, &arguments->values[i], &text);
            texts.values[i] = value_text(text);
        }
        if (err == ERR_OK) {
            err = run_text(run, subject, &text);
        }
        return err == ERR_OK ? run_replace(run, text, &texts, out_value) : err;
    default:
        break;
    }
    *out_value = value_text(text); /* string, safe */
    out_value->markup = id == BUILTIN_SAFE || subject->markup;
    return ERR_OK;
}

/* ---- of elements --------------------------------------------------------------------------- */

/* a.b.0: each part by subscript. */
static enum err get_attribute(
    struct run *run, const struct value *item, struct text path, struct value *out_value)
{
    struct value value = *item;
    enum err err = ERR_OK;
    for (bool more = true; more && err == ERR_OK;) {
        const char *dot = path.count > 0 ? memchr(path.bytes, '.', path.count) : NULL;
        size_t end = dot == NULL ? path.count : (size_t)(dot - path.bytes);
        struct text part = text_part(path, 0, end);
        struct value key = value_text(part);
        int64_t index;
        double real;
        if (read_number(part, true, &index, &real) && part.bytes[0] >= '0') {
            key = value_integer(index);
        }
        err = run_subscript(run, &value, &key, &value);
        more = dot != NULL;
        path = text_part(path, more ? end + 1 : end, path.count);
    }
    *out_value = value;
    return err;
}

static enum err attribute_of(struct run *run, const struct value *item,
    const struct value *attribute, struct value *out_value)
{
    if (attribute->kind == VALUE_INTEGER) {
        return run_subscript(run, item, attribute, out_value);
    }
    if (attribute->kind != VALUE_TEXT) {
        return run_fail(run, "an attribute that is %s", run_kind(attribute));
    }
    return get_attribute(run, item, attribute->text, out_value);
}

/* The elements of a subject; what is false has none, whatever it is. */
static enum err elements_if_true(
    struct run *run, const struct value *subject, const struct list **out_list)
{
    static const struct list empty = {.form = LIST_PLAIN};
    *out_list = &empty;
    return value_true(subject) ? run_elements(run, subject, out_list) : ERR_OK;
}

/* select, reject, selectattr, rejectattr */
static enum err filter_select(struct run *run, enum builtin_id id, const struct value *subject,
    const struct arguments *arguments, struct value *out_value)
{
    bool by_attribute = id == BUILTIN_SELECTATTR || id == BUILTIN_REJECTATTR;
    bool wanted = id == BUILTIN_SELECT || id == BUILTIN_SELECTATTR;
    const struct node *applied =
        arguments->applied == NODE_NONE ? NULL : &run->template->nodes[arguments->applied];
    struct arguments inner = {.applied = NODE_NONE};
    const struct list *list;
    struct list *kept = list_new(run->arena, LIST_LAZY);
    enum err err = kept == NULL ? run_no_memory(run) : elements_if_true(run, subject, &list);
    if (err == ERR_OK && applied != NULL) {
        err = run_arguments(run, applied->b, &inner);
    }
    for (size_t i = 0; err == ERR_OK && i < list->count; i++) {
        struct value value = list->items[i];
        bool holds;
        err = by_attribute ? attribute_of(run, &list->items[i], &arguments->values[0], &value)
                           : ERR_OK;
        holds = err == ERR_OK && value_true(&value);
        if (err == ERR_OK && applied != NULL) {
            err = run_test(run, (enum builtin_id)applied->op, &value, &inner, &holds);
        }
        if (err == ERR_OK) {
            err = run_charge(run, 1);
        }
        if (err == ERR_OK && holds == wanted && !list_add(run->arena, kept, list->items[i])) {
            err = run_no_memory(run);
        }
    }
    *out_value = value_list(kept);
    return err;
}

static enum err filter_map(struct run *run, const struct value *subject,
    const struct arguments *arguments, struct value *out_value)
{
    const struct node *applied =
        arguments->applied == NODE_NONE ? NULL : &run->template->nodes[arguments->applied];
    struct arguments inner = {.applied = NODE_NONE};
    const struct list *list;
    struct list *made = list_new(run->arena, LIST_LAZY);
    enum err err = made == NULL ? run_no_memory(run) : elements_if_true(run, subject, &list);
    if (err == ERR_OK && applied != NULL) {
        err = run_arguments(run, applied->b, &inner);
    }
    for (size_t i = 0; err == ERR_OK && i < list->count; i++) {
        struct value value;
        if (applied != NULL) {
            struct arguments copy = inner;
            err = run_filter(run, (enum builtin_id)applied->op, &list->items[i], &copy, &value);
        } else {
            err = attribute_of(run, &list->items[i], &arguments->values[0], &value);
            if (err == ERR_OK && value.kind == VALUE_UNDEFINED && arguments->given[1]) {
                value = arguments->values[1];
            }
        }
        if (err == ERR_OK) {
            err = run_charge(run, 1);
        }
        if (err == ERR_OK && !list_add(run->arena, made, value)) {
            err = run_no_memory(run);
        }
    }
    *out_value = value_list(made);
    return err;
}

static enum err filter_unique(struct run *run, const struct value *subject,
    const struct arguments *arguments, struct value *out_value)
{
    bool exact = value_true(&arguments->values[0]);
    const struct list *list;
    struct list *keys = list_new(run->arena, LIST_PLAIN);
    struct list *kept = list_new(run->arena, LIST_LAZY);
    enum err err =
        keys == NULL || kept == NULL ? run_no_memory(run) : run_elements(run, subject, &list);
    for (size_t i = 0; err == ERR_OK && i < list->count; i++) {
        struct value key = list->items[i];
        bool seen = false;
        if (arguments->given[1] && arguments->values[1].kind != VALUE_NONE) {
            err = attribute_of(run, &list->items[i], &arguments->values[1], &key);
        }
        if (err == ERR_OK && key.kind == VALUE_TEXT && !exact) {
            err = run_case(run, key.text, CASE_LOWER, &key);
        }
        for (size_t k = 0; err == ERR_OK && !seen && k < keys->count; k++) {
            err = run_equal(run, &keys->items[k], &key, &seen);
        }
        if (err == ERR_OK && !seen &&
            (!list_add(run->arena, keys, key) || !list_add(run->arena, kept, list->items[i]))) {
            err = run_no_memory(run);
        }
    }
    *out_value = value_list(kept);
    return err;
}

static enum err filter_reverse(
    struct run *run, const struct value *subject, struct value *out_value)
{
    const struct list *list;
    struct list *turned = list_new(run->arena, LIST_LAZY);
    size_t from = run->text.count;
    enum err err = turned == NULL ? run_no_memory(run) : run_elements(run, subject, &list);
    if (err == ERR_OK) {
        err = run_charge(run, list->count);
    }
    for (size_t i = err == ERR_OK ? list->count : 0; i > 0 && err == ERR_OK; i--) {
        if (subject->kind == VALUE_TEXT) {
            err = run_put(run, list->items[i - 1].text);
        } else if (!list_add(run->arena, turned, list->items[i - 1])) {
            err = run_no_memory(run);
        }
    }
    if (subject->kind == VALUE_TEXT) {
        return run_take_value(run, err, from, out_value);
    }
    *out_value = value_list(turned);
    return err;
}

/* list, first, last, length, join: what walks the elements once. */
static enum err filter_elements(struct run *run, enum builtin_id id, const struct value *subject,
    const struct arguments *arguments, struct value *out_value)
{
    bool lazy = subject->kind == VALUE_LIST && subject->list->form == LIST_LAZY;
    const struct list *list;
    if (lazy && (id == BUILTIN_LENGTH || id == BUILTIN_SIZE || id == BUILTIN_LAST)) {
        return run_fail(run, "%s of a result of a filter that is no list", builtin_table[id].name);
    }
    if (id == BUILTIN_LENGTH || id == BUILTIN_SIZE) {
        if (subject->kind == VALUE_TEXT) {
            *out_value = value_integer((int64_t)text_characters(subject->text));
            return run_charge_bytes(run, subject->text.count);
        }
    }
    enum err err = run_elements(run, subject, &list);
    if (err != ERR_OK) {
        return err;
    }
    if (id == BUILTIN_LENGTH || id == BUILTIN_SIZE) {
        *out_value = value_integer((int64_t)list->count);
        return ERR_OK;
    }
    if (id == BUILTIN_FIRST || id == BUILTIN_LAST) {
        size_t index = id == BUILTIN_FIRST || list->count == 0 ? 0 : list->count - 1;
        *out_value = list->count > 0 ? list->items[index] : (struct value){.kind = VALUE_UNDEFINED};
        return ERR_OK;
    }
    struct list *copy = list_new(run->arena, LIST_PLAIN);
    err = copy == NULL ? run_no_memory(run) : run_charge(run, list->count);
    for (size_t i = 0; i < list->count && err == ERR_OK; i++) {
        struct value value = list->items[i];
        if (id == BUILTIN_JOIN && arguments->given[1] && arguments->values[1].kind != VALUE_NONE) {
            err = attribute_of(run, &list->items[i], &arguments->values[1], &value);
        }
        if (err == ERR_OK && id == BUILTIN_JOIN && value.markup) {
            err = run_refuse(run, "join of a text behind 'safe'");
        }
        if (err == ERR_OK && !list_add(run->arena, copy, value)) {
            err = run_no_memory(run);
        }
    }
    *out_value = value_list(copy);
    struct text separator = {.count = 0};
    if (err == ERR_OK && id == BUILTIN_JOIN) {
        err = arguments->given[0] ? run_text(run, &arguments->values[0], &separator) : ERR_OK;
        return err == ERR_OK ? run_join(run, separator, copy, out_value) : err;
    }
    return err;
}

/* ---- all ----------------------------------------------------------------------------------- */

static enum err filter_default(
    const struct value *subject, const struct arguments *arguments, struct value *out_value)
{
    bool missing = subject->kind == VALUE_UNDEFINED ||
                   (value_true(&arguments->values[1]) && !value_true(subject));
    *out_value = !missing ? *subject : arguments->given[0] ? arguments->values[0] : value_words("");
    return ERR_OK;
}

static enum err filter_items(struct run *run, const struct value *subject, struct value *out_value)
{
    if (subject->kind == VALUE_UNDEFINED) {
        struct list *list = list_new(run->arena, LIST_LAZY);
        *out_value = value_list(list);
        return list == NULL ? run_no_memory(run) : ERR_OK;
    }
    if (subject->kind != VALUE_MAP) {
        return run_fail(run, "items of %s", run_kind(subject));
    }
    return run_items(run, subject, LIST_LAZY, out_value);
}

static enum err filter_to_json(struct run *run, const struct value *subject,
    const struct arguments *arguments, struct value *out_value)
{
    bool plain = !value_true(&arguments->values[0]) && !value_true(&arguments->values[2]) &&
                 !value_true(&arguments->values[3]);
    return plain ? run_to_json(run, subject, &arguments->values[1], out_value)
                 : run_refuse(run, "tojson with more than an indentation");
}

enum err run_filter(struct run *run, enum builtin_id id, const struct value *subject,
    struct arguments *arguments, struct value *out_value)
{
    if (subject->markup && id != BUILTIN_SAFE && id != BUILTIN_STRING) {
        return run_refuse(run, "a filter of a text behind 'safe'");
    }
    switch ((int)id) {
    case BUILTIN_LENGTH:
    case BUILTIN_SIZE:
    case BUILTIN_LIST:
    case BUILTIN_FIRST:
    case BUILTIN_LAST:
    case BUILTIN_JOIN:
        return filter_elements(run, id, subject, arguments, out_value);
    case BUILTIN_DEFAULT:
    case BUILTIN_D:
        return filter_default(subject, arguments, out_value);
    case BUILTIN_TOJSON:
        return filter_to_json(run, subject, arguments, out_value);
    case BUILTIN_ITEMS:
        return filter_items(run, subject, out_value);
    case BUILTIN_SELECT:
    case BUILTIN_REJECT:
    case BUILTIN_SELECTATTR:
    case BUILTIN_REJECTATTR:
        return filter_select(run, id, subject, arguments, out_value);
    case BUILTIN_MAP:
        return filter_map(run, subject, arguments, out_value);
    case BUILTIN_UNIQUE:
        return filter_unique(run, subject, arguments, out_value);
    case BUILTIN_REVERSE:
        return filter_reverse(run, subject, out_value);
    case BUILTIN_INT:
    case BUILTIN_FLOAT:
        return filter_number(run, subject, id == BUILTIN_INT, arguments, out_value);
    case BUILTIN_ABS:
        return filter_abs(run, subject, out_value);
    default:
        break;
    }
    return filter_text(run, id, subject, arguments, out_value);
}
