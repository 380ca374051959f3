/*
 * Operators, comparisons, members and slices, as Python and Jinja define them. Integers are those
 * of 64 bits: past them there is an error, and never another number.
 */
#include "engine/template/run.h"

#include <math.h>
#include <string.h>
#include "engine/base/assert.h"
#include "engine/base/utf8.h"

/* ---- arithmetic ---------------------------------------------------------------------------- */

static int64_t integer_of(const struct value *value)
{
    return value->kind == VALUE_BOOL ? value->boolean : value->integer;
}

static bool is_integer(const struct value *value)
{
    return value->kind == VALUE_BOOL || value->kind == VALUE_INTEGER;
}

/* Python's // and % round towards minus infinity. */
static enum err divide_integers(
    struct run *run, enum binary_op op, int64_t a, int64_t b, struct value *out_value)
{
    if (a == INT64_MIN && b == -1) {
        return run_refuse(run, "an integer of more than 64 bits");
    }
    int64_t quotient = a / b;
    int64_t rest = a % b;
    if (rest != 0 && (rest < 0) != (b < 0)) {
        quotient--;
        rest += b;
    }
    *out_value = value_integer(op == BINARY_FLOOR_DIVIDE ? quotient : rest);
    return ERR_OK;
}

static enum err integers(struct run *run, enum binary_op op, const struct value *left,
    const struct value *right, struct value *out_value)
{
    int64_t a = integer_of(left);
    int64_t b = integer_of(right);
    int64_t result = 0;
    bool overflow;
    if (op == BINARY_FLOOR_DIVIDE || op == BINARY_REMAINDER) {
        return divide_integers(run, op, a, b, out_value);
    }
    if (op == BINARY_ADD) {
        overflow = __builtin_add_overflow(a, b, &result);
    } else if (op == BINARY_SUBTRACT) {
        overflow = __builtin_sub_overflow(a, b, &result);
    } else {
        overflow = __builtin_mul_overflow(a, b, &result);
    }
    if (overflow) {
        return run_refuse(run, "an integer of more than 64 bits");
    }
    *out_value = value_integer(result);
    return ERR_OK;
}

static enum err reals(enum binary_op op, double a, double b, struct value *out_value)
{
    double result = 0;
    double rest;
    switch (op) {
    case BINARY_ADD:
        result = a + b;
        break;
    case BINARY_SUBTRACT:
        result = a - b;
        break;
    case BINARY_MULTIPLY:
        result = a * b;
        break;
    case BINARY_DIVIDE:
        result = a / b;
        break;
    case BINARY_FLOOR_DIVIDE:
    case BINARY_REMAINDER:
        rest = fmod(a, b);
        if (rest != 0 && (rest < 0) != (b < 0)) {
            rest += b;
        }
        result = op == BINARY_REMAINDER ? rest : floor((a - rest) / b + 0.5);
        break;
    case BINARY_JOIN:
        break;
    }
    *out_value = value_real(result);
    return ERR_OK;
}

static enum err arithmetic(struct run *run, enum binary_op op, const struct value *left,
    const struct value *right, struct value *out_value)
{
    bool divides = op == BINARY_DIVIDE || op == BINARY_FLOOR_DIVIDE || op == BINARY_REMAINDER;
    if (divides && value_number(right) == 0) {
        return run_fail(run, "a division by zero");
    }
    if (is_integer(left) && is_integer(right) && op != BINARY_DIVIDE) {
        return integers(run, op, left, right, out_value);
    }
    return reals(op, value_number(left), value_number(right), out_value);
}

/* ---- texts and lists ----------------------------------------------------------------------- */

/* What markupsafe makes of a text that joins one behind `safe`. */
static enum err put_escaped(struct run *run, struct text text)
{
    static const struct {
        char byte;
        const char *words;
    } escapes[] = {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'\'', "&#39;"}, {'"', "&#34;"}};
    enum err err = ERR_OK;
    for (size_t i = 0; i < text.count && err == ERR_OK; i++) {
        const char *words = NULL;
        for (size_t k = 0; k < ARRAY_COUNT(escapes); k++) {
            words = text.bytes[i] == escapes[k].byte ? escapes[k].words : words;
        }
        bool foreign = text.foreign != NULL && text.foreign[i] != 0;
        err = words != NULL ? run_put_words(run, words, foreign)
                            : run_put(run, text_part(text, i, i + 1));
    }
    return err;
}

static enum err add_texts(
    struct run *run, const struct value *left, const struct value *right, struct value *out_value)
{
    bool markup = left->markup || right->markup;
    size_t from = run->text.count;
    enum err err =
        markup && !left->markup ? put_escaped(run, left->text) : run_put(run, left->text);
    if (err == ERR_OK) {
        err = markup && !right->markup ? put_escaped(run, right->text) : run_put(run, right->text);
    }
    err = run_take_value(run, err, from, out_value);
    if (err == ERR_OK) {
        out_value->markup = markup;
    }
    return err;
}

static enum err join_texts(
    struct run *run, const struct value *left, const struct value *right, struct value *out_value)
{
    struct value texts[2] = {value_words(""), value_words("")};
    if (left->markup || right->markup) {
        return run_refuse(run, "~ with a text behind 'safe'");
    }
    enum err err = run_text(run, left, &texts[0].text);
    if (err == ERR_OK) {
        err = run_text(run, right, &texts[1].text);
    }
    return err == ERR_OK ? add_texts(run, &texts[0], &texts[1], out_value) : err;
}

static enum err append_all(struct run *run, struct list *to, const struct list *from)
{
    enum err err = run_charge(run, from->count);
    for (size_t i = 0; i < from->count && err == ERR_OK; i++) {
        err = list_add(run->arena, to, from->items[i]) ? ERR_OK : run_no_memory(run);
    }
    return err;
}

static bool is_sequence(const struct value *value)
{
    return value->kind == VALUE_LIST &&
           (value->list->form == LIST_PLAIN || value->list->form == LIST_TUPLE);
}

static enum err add_lists(
    struct run *run, const struct list *left, const struct list *right, struct value *out_value)
{
    struct list *list = list_new(run->arena, left->form);
    enum err err = list == NULL ? run_no_memory(run) : append_all(run, list, left);
    if (err == ERR_OK) {
        err = append_all(run, list, right);
    }
    *out_value = value_list(list);
    return err;
}

/* text * n, list * n */
static enum err repeat(
    struct run *run, const struct value *value, int64_t times, struct value *out_value)
{
    size_t from = run->text.count;
    struct list *list = list_new(run->arena, is_sequence(value) ? value->list->form : LIST_PLAIN);
    bool is_text = value->kind == VALUE_TEXT;
    enum err err = list == NULL ? run_no_memory(run) : ERR_OK;
    for (int64_t i = 0; i < times && err == ERR_OK; i++) {
        err = is_text ? run_put(run, value->text) : append_all(run, list, value->list);
        if (err == ERR_OK) {
            err = run_charge(run, 1);
        }
    }
    if (is_text) {
        return run_take_value(run, err, from, out_value);
    }
    *out_value = value_list(list);
    return err;
}

enum err run_binary(struct run *run, enum binary_op op, const struct value *left,
    const struct value *right, struct value *out_value)
{
    bool texts = left->kind == VALUE_TEXT && right->kind == VALUE_TEXT;
    if (op == BINARY_JOIN) {
        return join_texts(run, left, right, out_value);
    }
    if (value_is_number(left) && value_is_number(right)) {
        return arithmetic(run, op, left, right, out_value);
    }
    if (op == BINARY_ADD && texts) {
        return add_texts(run, left, right, out_value);
    }
    if (op == BINARY_ADD && is_sequence(left) && is_sequence(right) &&
        left->list->form == right->list->form) {
        return add_lists(run, left->list, right->list, out_value);
    }
    if (op == BINARY_MULTIPLY) {
        bool turned = is_integer(left);
        const struct value *value = turned ? right : left;
        const struct value *times = turned ? left : right;
        if (is_integer(times) && (is_sequence(value) || value->kind == VALUE_TEXT)) {
            return value->markup ? run_refuse(run, "* with a text behind 'safe'")
                                 : repeat(run, value, integer_of(times), out_value);
        }
    }
    if (op == BINARY_REMAINDER && left->kind == VALUE_TEXT) {
        return run_refuse(run, "% behind a text");
    }
    return run_fail(run, "an operator between %s and %s", run_kind(left), run_kind(right));
}

/* ---- comparisons --------------------------------------------------------------------------- */

static enum err lists_equal(
    struct run *run, const struct list *left, const struct list *right, bool *out_equal)
{
    enum err err = ERR_OK;
    *out_equal = left->count == right->count && left->form == right->form;
    for (size_t i = 0; *out_equal && err == ERR_OK && i < left->count; i++) {
        err = run_equal(run, &left->items[i], &right->items[i], out_equal);
    }
    return err;
}

static enum err maps_equal(
    struct run *run, const struct map *left, const struct map *right, bool *out_equal)
{
    enum err err = ERR_OK;
    *out_equal = left->count == right->count;
    for (size_t i = 0; *out_equal && err == ERR_OK && i < left->count; i++) {
        const struct value *other = NULL;
        err = run_map_find(run, right, left->pairs[i].key, &other);
        *out_equal = other != NULL;
        if (err == ERR_OK && other != NULL) {
            err = run_equal(run, &left->pairs[i].value, other, out_equal);
        }
    }
    return err;
}

enum err run_equal(
    struct run *run, const struct value *left, const struct value *right, bool *out_equal)
{
    enum err err = run_enter(run);
    bool lists = left->kind == VALUE_LIST && right->kind == VALUE_LIST;
    if (err == ERR_OK && left->kind == VALUE_TEXT) {
        err = run_charge_bytes(run, left->text.count);
    }
    bool equal = err == ERR_OK && value_equal(left, right);
    if (err == ERR_OK && lists && !equal) {
        bool plain = is_sequence(left) && is_sequence(right);
        err = plain ? lists_equal(run, left->list, right->list, &equal)
                    : run_refuse(run, "a comparison of results of filters");
    } else if (err == ERR_OK && left->kind == VALUE_MAP && right->kind == VALUE_MAP && !equal) {
        err = maps_equal(run, left->map, right->map, &equal);
    }
    run->depth--;
    *out_equal = equal;
    return err;
}

static enum err is_in(
    struct run *run, const struct value *left, const struct value *right, bool *out_holds)
{
    const struct list *list;
    enum err err;
    if (right->kind == VALUE_TEXT) {
        if (left->kind != VALUE_TEXT) {
            return run_fail(run, "%s in a text", run_kind(left));
        }
        *out_holds = left->text.count == 0 || (right->text.count >= left->text.count &&
                                                  memmem(right->text.bytes, right->text.count,
                                                      left->text.bytes, left->text.count) != NULL);
        return run_charge_bytes(run, right->text.count);
    }
    if (right->kind == VALUE_MAP) {
        const struct value *found = NULL;
        err = run_map_find(run, right->map, *left, &found);
        *out_holds = found != NULL;
        return err;
    }
    err = run_elements(run, right, &list);
    *out_holds = false;
    for (size_t i = 0; err == ERR_OK && !*out_holds && i < list->count; i++) {
        err = run_equal(run, &list->items[i], left, out_holds);
    }
    return err;
}

/* Less than zero, zero, more; *out_ordered is false when one is not a number. */
static enum err order(struct run *run, const struct value *left, const struct value *right,
    int32_t *out_order, bool *out_ordered)
{
    *out_ordered = true;
    if (value_is_number(left) && value_is_number(right)) {
        double a = value_number(left);
        double b = value_number(right);
        *out_ordered = !isnan(a) && !isnan(b);
        *out_order = (a > b) - (a < b);
        if (is_integer(left) && is_integer(right)) {
            int64_t x = integer_of(left);
            int64_t y = integer_of(right);
            *out_order = (x > y) - (x < y);
        }
        return ERR_OK;
    }
    if (left->kind == VALUE_TEXT && right->kind == VALUE_TEXT) {
        size_t shared = MIN(left->text.count, right->text.count);
        int32_t first =
            shared == 0 ? 0 : (int32_t)memcmp(left->text.bytes, right->text.bytes, shared);
        *out_order = first != 0 ? first
                                : (left->text.count > right->text.count) -
                                      (left->text.count < right->text.count);
        return run_charge_bytes(run, shared);
    }
    if (is_sequence(left) && is_sequence(right)) {
        return run_refuse(run, "an order of lists");
    }
    return run_fail(run, "an order between %s and %s", run_kind(left), run_kind(right));
}

enum err run_compare(struct run *run, enum compare_op op, const struct value *left,
    const struct value *right, bool *out_holds)
{
    int32_t sign = 0;
    bool ordered;
    enum err err;
    if (op == COMPARE_EQUAL || op == COMPARE_UNEQUAL) {
        err = run_equal(run, left, right, out_holds);
        *out_holds = *out_holds == (op == COMPARE_EQUAL);
        return err;
    }
    if (op == COMPARE_IN || op == COMPARE_NOT_IN) {
        err = is_in(run, left, right, out_holds);
        *out_holds = *out_holds == (op == COMPARE_IN);
        return err;
    }
    err = order(run, left, right, &sign, &ordered);
    *out_holds =
        ordered &&
        ((op == COMPARE_LESS && sign < 0) || (op == COMPARE_LESS_EQUAL && sign <= 0) ||
            (op == COMPARE_GREATER && sign > 0) || (op == COMPARE_GREATER_EQUAL && sign >= 0));
    return err;
}

/* ---- members ------------------------------------------------------------------------------- */

/* Every key may be as long as the one that is looked for. */
static enum err charge_key(struct run *run, const struct map *map, const struct value *key)
{
    size_t bytes = key->kind == VALUE_TEXT ? key->text.count : 0;
    return run_charge(run, 1 + map->count * (1 + bytes / RUN_STEP_BYTES));
}

enum err run_map_find(
    struct run *run, const struct map *map, struct value key, const struct value **out_found)
{
    enum err err = charge_key(run, map, &key);
    if (err == ERR_OK) {
        *out_found = map_get(map, key);
    }
    return err;
}

enum err run_map_set(struct run *run, struct map *map, struct value key, struct value value)
{
    enum err err = charge_key(run, map, &key);
    if (err != ERR_OK) {
        return err;
    }
    return map_set(run->arena, map, key, value) ? ERR_OK : run_no_memory(run);
}

static struct value loop_member(const struct loop *loop, struct text name)
{
    int64_t index = (int64_t)loop->index;
    int64_t count = (int64_t)loop->list->count;
    const struct {
        const char *name;
        struct value value;
    } members[] = {
        {"index", value_integer(index + 1)},
        {"index0", value_integer(index)},
        {"revindex", value_integer(count - index)},
        {"revindex0", value_integer(count - index - 1)},
        {"first", value_bool(index == 0)},
        {"last", value_bool(index + 1 == count)},
        {"length", value_integer(count)},
        {"depth", value_integer(1)}, /* of recursive loops, which there are none */
        {"depth0", value_integer(0)},
        {"cycle", {.kind = VALUE_METHOD}},
        {"changed", {.kind = VALUE_METHOD}},
    };
    for (size_t i = 0; i < ARRAY_COUNT(members); i++) {
        if (text_is(name, members[i].name)) {
            return members[i].value;
        }
    }
    if (text_is(name, "previtem") && index > 0) {
        return loop->list->items[index - 1];
    }
    if (text_is(name, "nextitem") && index + 1 < count) {
        return loop->list->items[index + 1];
    }
    return (struct value){.kind = VALUE_UNDEFINED};
}

/* `attribute_first`: whether Python's own attributes hide the keys of a mapping (a.b), or the other
 * way round (a['b']). */
static enum err find_member(struct run *run, const struct value *value, struct text name,
    bool attribute_first, struct value *out_value)
{
    struct value method = {.kind = VALUE_METHOD};
    struct value none = {.kind = VALUE_UNDEFINED};
    bool attribute = builtin_is_attribute((enum value_kind)value->kind, name);
    const struct value *found = NULL;
    if (value->kind == VALUE_UNDEFINED) {
        return name.foreign != NULL ? run_fail(run, "a member of an undefined value")
                                    : run_fail(run, "a member '%.*s' of an undefined value",
                                          (int)MIN(name.count, 64), name.bytes);
    }
    if (value->kind == VALUE_LOOP) {
        *out_value = loop_member(value->loop, name);
        return ERR_OK;
    }
    if (value->kind == VALUE_MACRO) {
        return run_refuse(run, "a member of a macro");
    }
    if (attribute && attribute_first) {
        *out_value = method;
        return ERR_OK;
    }
    if (value->kind == VALUE_MAP || value->kind == VALUE_NAMESPACE) {
        enum err err = run_map_find(run, value->map, value_text(name), &found);
        if (err != ERR_OK) {
            return err;
        }
    }
    *out_value = found != NULL ? *found : attribute ? method : none;
    return ERR_OK;
}

enum err run_member(
    struct run *run, const struct value *value, struct text name, struct value *out_value)
{
    return find_member(run, value, name, true, out_value);
}

/* Byte range of the character at `index`, which may count from the end; false when there is none.
 */
static bool find_character(struct text text, int64_t index, size_t *out_from, size_t *out_to)
{
    int64_t count = (int64_t)text_characters(text);
    size_t at = 0;
    int32_t code_point;
    index = index < 0 ? index + count : index;
    if (index < 0 || index >= count) {
        return false;
    }
    for (; index > 0; index--) {
        at += (size_t)utf8_decode(text.bytes + at, text.count - at, &code_point);
    }
    *out_from = at;
    *out_to = at + (size_t)utf8_decode(text.bytes + at, text.count - at, &code_point);
    return true;
}

enum err run_subscript(
    struct run *run, const struct value *value, const struct value *key, struct value *out_value)
{
    struct value result = {.kind = VALUE_UNDEFINED};
    enum err err = ERR_OK;
    if (key->kind == VALUE_TEXT || value->kind == VALUE_UNDEFINED) {
        struct text name = key->kind == VALUE_TEXT ? key->text : value_words("").text;
        return find_member(run, value, name, false, out_value);
    }
    if (value->kind == VALUE_MAP) {
        const struct value *found = NULL;
        err = run_map_find(run, value->map, *key, &found);
        result = found != NULL ? *found : result;
    } else if (is_integer(key) && value->kind == VALUE_TEXT) {
        size_t from;
        size_t to;
        if (find_character(value->text, integer_of(key), &from, &to)) {
            result = value_text(text_part(value->text, from, to));
        }
        err = run_charge_bytes(run, value->text.count);
    } else if (is_integer(key) && is_sequence(value)) {
        int64_t count = (int64_t)value->list->count;
        int64_t index = integer_of(key);
        index = index < 0 ? index + count : index;
        if (index >= 0 && index < count) {
            result = value->list->items[index];
        }
    }
    *out_value = result;
    return err;
}

/* ---- slices -------------------------------------------------------------------------------- */

struct range {
    int64_t start, step, count;
};

/* Python's slice.indices. */
static enum err slice_range(
    struct run *run, const struct value ends[3], int64_t count, struct range *out_range)
{
    for (int32_t i = 0; i < 3; i++) {
        if (ends[i].kind != VALUE_NONE && !is_integer(&ends[i])) {
            return run_fail(run, "a slice by %s", run_kind(&ends[i]));
        }
    }
    int64_t step = ends[2].kind == VALUE_NONE ? 1 : integer_of(&ends[2]);
    if (step == 0) {
        return run_fail(run, "a slice with steps of zero");
    }
    step = MAX(MIN(step, INT32_MAX), -INT32_MAX);
    int64_t least = step < 0 ? -1 : 0;
    int64_t most = step < 0 ? count - 1 : count;
    int64_t bounds[2] = {step < 0 ? most : least, step < 0 ? least : most};
    for (int32_t i = 0; i < 2; i++) {
        if (ends[i].kind != VALUE_NONE) {
            int64_t value = integer_of(&ends[i]);
            value = value < 0 ? value + count : value;
            bounds[i] = MAX(least, MIN(value, most));
        }
    }
    int64_t length = step > 0 ? bounds[1] - bounds[0] : bounds[0] - bounds[1];
    int64_t stride = step > 0 ? step : -step;
    *out_range = (struct range){bounds[0], step, length > 0 ? (length + stride - 1) / stride : 0};
    return ERR_OK;
}

/* Most slices of texts take a piece as it is. */
static enum err slice_text(
    struct run *run, struct text text, const struct range *range, struct value *out_value)
{
    size_t bounds[2] = {0, 0};
    size_t ignored;
    enum err err = run_charge_bytes(run, text.count);
    if (err != ERR_OK || range->count == 0) {
        *out_value = value_words("");
        return err;
    }
    if (range->step == 1) {
        (void)find_character(text, range->start, &bounds[0], &ignored);
        (void)find_character(text, range->start + range->count - 1, &ignored, &bounds[1]);
        *out_value = value_text(text_part(text, bounds[0], bounds[1]));
        return ERR_OK;
    }
    const struct list *characters;
    struct value whole = value_text(text);
    size_t from = run->text.count;
    err = run_elements(run, &whole, &characters);
    for (int64_t i = 0; i < range->count && err == ERR_OK; i++) {
        err = run_put(run, characters->items[range->start + i * range->step].text);
    }
    return run_take_value(run, err, from, out_value);
}

enum err run_slice(
    struct run *run, const struct value *value, const struct value ends[3], struct value *out_value)
{
    struct range range = {0};
    bool text = value->kind == VALUE_TEXT;
    if (!text && !is_sequence(value)) {
        return run_fail(run, "a slice of %s", run_kind(value));
    }
    size_t count = text ? text_characters(value->text) : value->list->count;
    enum err err = slice_range(run, ends, (int64_t)count, &range);
    if (err != ERR_OK) {
        return err;
    }
    if (text) {
        return slice_text(run, value->text, &range, out_value);
    }
    struct list *list = list_new(run->arena, value->list->form);
    err = list == NULL ? run_no_memory(run) : run_charge(run, (size_t)range.count);
    for (int64_t i = 0; i < range.count && err == ERR_OK; i++) {
        if (!list_add(run->arena, list, value->list->items[range.start + i * range.step])) {
            err = run_no_memory(run);
        }
    }
    *out_value = value_list(list);
    return err;
}
