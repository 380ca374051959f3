/*
 * Tests (`x is defined`) and functions.
 */
#include "engine/template/run.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include "engine/engine_limits.h"

/* ---- tests --------------------------------------------------------------------------------- */

static bool has_form(const struct value *value, enum list_form form)
{
    return value->kind == VALUE_LIST && value->list->form == form;
}

/* odd, even, divisibleby */
static enum err test_integer(struct run *run, enum builtin_id id, const struct value *subject,
    const struct value *by, bool *out_holds)
{
    struct value divisor = id == BUILTIN_IS_DIVISIBLE ? *by : value_integer(2);
    struct value rest;
    enum err err = run_binary(run, BINARY_REMAINDER, subject, &divisor, &rest);
    *out_holds = err == ERR_OK && value_true(&rest) == (id == BUILTIN_IS_ODD);
    return err;
}

#define KIND(kind) (1U << VALUE_##kind)

/* Tests of what a value is; true, false and sequence ask for more than its kind. */
static const struct {
    enum builtin_id id;
    uint32_t kinds;
} kind_tests[] = {
    {BUILTIN_IS_DEFINED, ~KIND(UNDEFINED)},
    {BUILTIN_IS_UNDEFINED, KIND(UNDEFINED)},
    {BUILTIN_IS_NONE, KIND(NONE)},
    {BUILTIN_IS_STRING, KIND(TEXT)},
    {BUILTIN_IS_MAPPING, KIND(MAP)},
    {BUILTIN_IS_ITERABLE, KIND(UNDEFINED) | KIND(TEXT) | KIND(LIST) | KIND(MAP) | KIND(LOOP)},
    {BUILTIN_IS_SEQUENCE, KIND(UNDEFINED) | KIND(TEXT) | KIND(LIST) | KIND(MAP)},
    {BUILTIN_IS_BOOLEAN, KIND(BOOL)},
    {BUILTIN_IS_TRUE, KIND(BOOL)},
    {BUILTIN_IS_FALSE, KIND(BOOL)},
    {BUILTIN_IS_NUMBER, KIND(BOOL) | KIND(INTEGER) | KIND(REAL)},
    {BUILTIN_IS_INTEGER, KIND(INTEGER)},
    {BUILTIN_IS_FLOAT, KIND(REAL)},
};

/* Tests that are comparisons. */
static const struct {
    enum builtin_id id;
    enum compare_op op;
} compare_tests[] = {
    {BUILTIN_IS_EQUALTO, COMPARE_EQUAL},
    {BUILTIN_IS_EQ, COMPARE_EQUAL},
    {BUILTIN_IS_NE, COMPARE_UNEQUAL},
    {BUILTIN_IS_LT, COMPARE_LESS},
    {BUILTIN_IS_LE, COMPARE_LESS_EQUAL},
    {BUILTIN_IS_GT, COMPARE_GREATER},
    {BUILTIN_IS_GE, COMPARE_GREATER_EQUAL},
    {BUILTIN_IS_IN, COMPARE_IN},
};

/* What a test asks of a value of the right kind. */
static bool holds_of_kind(enum builtin_id id, const struct value *subject)
{
    switch ((int)id) {
    case BUILTIN_IS_TRUE:
        return subject->boolean;
    case BUILTIN_IS_FALSE:
        return !subject->boolean;
    case BUILTIN_IS_SEQUENCE:
        return !has_form(subject, LIST_LAZY) && !has_form(subject, LIST_VIEW);
    default:
        break;
    }
    return true;
}

enum err run_test(struct run *run, enum builtin_id id, const struct value *subject,
    const struct arguments *arguments, bool *out_holds)
{
    for (size_t i = 0; i < ARRAY_COUNT(kind_tests); i++) {
        if (kind_tests[i].id == id) {
            bool of_kind = (kind_tests[i].kinds & (1U << subject->kind)) != 0;
            *out_holds = of_kind && holds_of_kind(id, subject);
            return ERR_OK;
        }
    }
    for (size_t i = 0; i < ARRAY_COUNT(compare_tests); i++) {
        if (compare_tests[i].id == id) {
            return run_compare(run, compare_tests[i].op, subject, &arguments->values[0], out_holds);
        }
    }
    return test_integer(run, id, subject, &arguments->values[0], out_holds);
}

/* ---- functions ----------------------------------------------------------------------------- */

/* The message without the bytes of a client: it goes into replies and logs. */
static enum err raise(struct run *run, const struct value *message)
{
    struct text text;
    char shown[ERR_TEXT_BYTES];
    size_t count = 0;
    bool hidden = false;
    enum err err = run_text(run, message, &text);
    for (size_t i = 0; err == ERR_OK && i < text.count && count + 4 < sizeof(shown); i++) {
        bool foreign = text.foreign != NULL && text.foreign[i] != 0;
        if (!foreign) {
            shown[count++] = text.bytes[i];
        } else if (!hidden) {
            memcpy(shown + count, "...", 3);
            count += 3;
        }
        hidden = foreign;
    }
    shown[count] = '\0';
    return err == ERR_OK ? err_set(run->info, ERR_INVALID, NULL, "%s", shown) : err;
}

static enum err strftime_now(struct run *run, const struct value *format, struct value *out_value)
{
    char shown[256];
    char copy[128];
    struct tm parts;
    time_t now = (time_t)run->now;
    size_t from = run->text.count;
    if (format->kind != VALUE_TEXT || format->text.count == 0 ||
        format->text.count >= sizeof(copy)) {
        return run_fail(run, "a format of time that is no short text");
    }
    memcpy(copy, format->text.bytes, format->text.count);
    copy[format->text.count] = '\0';
    for (size_t i = 0; copy[i] != '\0'; i++) {
        if (copy[i] != '%') {
            continue;
        }
        i += copy[i + 1] == '-' ? 2 : 1; /* %-d: without its leading zero */
        if (copy[i] == '\0' || strchr("aAbBcdHIjmMpSUwWxXyYZ%", copy[i]) == NULL) {
            return run_refuse(run, "an unusual format of time");
        }
    }
    if (gmtime_r(&now, &parts) == NULL) {
        return run_fail(run, "a time that is none");
    }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral" /* of a template; checked above */
    size_t count = strftime(shown, sizeof(shown), copy, &parts);
#pragma GCC diagnostic pop
    shown[MIN(count, sizeof(shown) - 1)] = '\0';
    bool foreign = format->text.foreign != NULL;
    enum err err = count == 0 ? run_fail(run, "a format of time that gives too much") : ERR_OK;
    for (size_t at = 0; at < count && err == ERR_OK; at++) {
        const char one[2] = {shown[at], '\0'};
        err = run_put_words(run, one, foreign);
    }
    return run_take_value(run, err, from, out_value);
}

static enum err range(struct run *run, const struct arguments *arguments, struct value *out_value)
{
    int64_t bounds[3] = {0, 0, 1};
    for (int32_t i = 0; i < 3; i++) {
        if (arguments->given[i] && arguments->values[i].kind != VALUE_INTEGER) {
            return run_fail(run, "range takes integers");
        }
        bounds[i] = arguments->given[i] ? arguments->values[i].integer : bounds[i];
    }
    int64_t start = arguments->given[1] ? bounds[0] : 0;
    int64_t stop = arguments->given[1] ? bounds[1] : bounds[0];
    int64_t step = bounds[2];
    if (step == 0) {
        return run_fail(run, "range with steps of zero");
    }
    double count = ((double)stop - (double)start) / (double)step;
    if (count > LIMIT_TEMPLATE_RANGE) {
        return err_set(run->info, ERR_LIMIT, NULL,
            "the chat template asks for a range of more than %d: line %d", LIMIT_TEMPLATE_RANGE,
            run->line);
    }
    struct list *list = list_new(run->arena, LIST_PLAIN);
    enum err err = list == NULL ? run_no_memory(run) : ERR_OK;
    for (int64_t at = start; err == ERR_OK && (step > 0 ? at < stop : at > stop);) {
        err = run_charge(run, 1);
        if (err == ERR_OK && !list_add(run->arena, list, value_integer(at))) {
            err = run_no_memory(run);
        }
        if (__builtin_add_overflow(at, step, &at)) {
            break;
        }
    }
    *out_value = value_list(list);
    return err;
}

/* namespace(a=1), dict(a=1), either with a mapping first. */
static enum err make_map(struct run *run, const struct node *node, struct value *out_value)
{
    const struct template *template = run->template;
    struct map *map = map_new(run->arena);
    enum err err = map == NULL ? run_no_memory(run) : ERR_OK;
    for (int32_t next = node->b; err == ERR_OK && next != NODE_NONE;
         next = template->nodes[next].next) {
        const struct node *argument = &template->nodes[next];
        struct value value;
        err = run_eval(run, argument->a, &value);
        if (err == ERR_OK && argument->b != NODE_NONE) {
            struct value name = value_text(template->symbols[argument->b]);
            err = run_map_set(run, map, name, value);
        } else if (err == ERR_OK && (next != node->b || value.kind != VALUE_MAP)) {
            err = run_refuse(run, "namespace or dict of what is no mapping");
        } else if (err == ERR_OK) {
            for (size_t i = 0; i < value.map->count && err == ERR_OK; i++) {
                const struct pair *pair = &value.map->pairs[i];
                err = run_map_set(run, map, pair->key, pair->value);
            }
        }
    }
    *out_value = (struct value){
        .kind = node->op == BUILTIN_NAMESPACE ? VALUE_NAMESPACE : VALUE_MAP, .map = map};
    return err;
}

enum err run_function(struct run *run, const struct node *node, struct value *out_value)
{
    struct arguments arguments;
    if (node->op == BUILTIN_NAMESPACE || node->op == BUILTIN_DICT) {
        return make_map(run, node, out_value);
    }
    enum err err = run_arguments(run, node->b, &arguments);
    if (err != ERR_OK) {
        return err;
    }
    run->line = node->line;
    if (node->op == BUILTIN_RAISE) {
        return raise(run, &arguments.values[0]);
    }
    return node->op == BUILTIN_RANGE ? range(run, &arguments, out_value)
                                     : strftime_now(run, &arguments.values[0], out_value);
}
