/*
 * Expressions of a template.
 */
#include "engine/template/run.h"

#include <stdio.h>
#include <string.h>
#include "engine/base/assert.h"
#include "engine/base/utf8.h"

static const struct node *at(const struct run *run, int32_t node)
{
    return &run->template->nodes[node];
}

/* ---- values as text, and as elements ------------------------------------------------------- */

const char *run_kind(const struct value *value)
{
    static const char *const kinds[] = {"an undefined value", "none", "a boolean", "an integer",
        "a number", "a text", "a list", "a mapping", "a namespace", "a loop", "a macro",
        "a function"};
    return kinds[value->kind];
}

enum err run_put_real(struct run *run, const struct value *value)
{
    enum { STEPS = 256 }; /* up to 17 times it is printed and read */
    char number[VALUE_REAL_BYTES];
    enum err err = run_charge(run, STEPS);
    if (err == ERR_OK) {
        (void)value_print_real(value->real, number);
        err = run_put_words(run, number, value->foreign);
    }
    return err;
}

enum err run_text(struct run *run, const struct value *value, struct text *out_text)
{
    char number[32];
    size_t from = run->text.count;
    enum err err = ERR_OK;
    switch ((enum value_kind)value->kind) {
    case VALUE_TEXT:
        *out_text = value->text;
        return ERR_OK;
    case VALUE_UNDEFINED:
        *out_text = (struct text){.count = 0};
        return ERR_OK;
    case VALUE_NONE:
        err = run_put_words(run, "None", value->foreign);
        break;
    case VALUE_BOOL:
        err = run_put_words(run, value->boolean ? "True" : "False", value->foreign);
        break;
    case VALUE_INTEGER:
        (void)snprintf(number, sizeof(number), "%lld", (long long)value->integer);
        err = run_put_words(run, number, value->foreign);
        break;
    case VALUE_REAL:
        err = run_put_real(run, value);
        break;
    case VALUE_LIST:
    case VALUE_MAP:
    case VALUE_NAMESPACE:
    case VALUE_LOOP:
    case VALUE_MACRO:
    case VALUE_METHOD:
        return run_refuse(run, "a list, a mapping or a function as text");
    }
    return err == ERR_OK ? run_take(run, from, out_text) : err;
}

static enum err text_elements(struct run *run, struct text text, struct list *list)
{
    enum err err = ERR_OK;
    for (size_t at_byte = 0; at_byte < text.count && err == ERR_OK;) {
        int32_t code_point;
        size_t length =
            (size_t)utf8_decode(text.bytes + at_byte, text.count - at_byte, &code_point);
        err = run_charge(run, 1);
        if (err == ERR_OK &&
            !list_add(run->arena, list, value_text(text_part(text, at_byte, at_byte + length)))) {
            err = run_no_memory(run);
        }
        at_byte += length;
    }
    return err;
}

enum err run_elements(struct run *run, const struct value *value, const struct list **out_list)
{
    if (value->kind == VALUE_LIST) {
        if (value->list->form == LIST_LAZY && value->list->walked) {
            return run_refuse(run, "a result of a filter that is walked twice");
        }
        value->list->walked = true;
        *out_list = value->list;
        return ERR_OK;
    }
    if (value->kind != VALUE_UNDEFINED && value->kind != VALUE_TEXT && value->kind != VALUE_MAP) {
        return run_fail(run, "%s has no elements", run_kind(value));
    }
    struct list *list = list_new(run->arena, LIST_PLAIN);
    enum err err = list == NULL ? run_no_memory(run) : ERR_OK;
    if (err == ERR_OK && value->kind == VALUE_TEXT) {
        err = text_elements(run, value->text, list);
    }
    for (size_t i = 0; err == ERR_OK && value->kind == VALUE_MAP && i < value->map->count; i++) {
        if (!list_add(run->arena, list, value->map->pairs[i].key)) {
            err = run_no_memory(run);
        }
    }
    if (err == ERR_OK) {
        err = run_charge(run, list->count);
        *out_list = list;
    }
    return err;
}

/* ---- names --------------------------------------------------------------------------------- */

static enum err eval_name(struct run *run, const struct node *node, struct value *out_value)
{
    const struct value *value = run_variable(run, node->a);
    enum err err = run_charge(run, (size_t)(run->count - run->base) / 16);
    if (value != NULL) {
        *out_value = *value;
    } else if (builtin_find(BUILTIN_FUNCTION, run->template->symbols[node->a]) >= 0) {
        *out_value = (struct value){.kind = VALUE_METHOD};
    } else {
        *out_value = (struct value){.kind = VALUE_UNDEFINED};
    }
    return err;
}

/* ---- literals ------------------------------------------------------------------------------ */

static enum err eval_list(struct run *run, const struct node *node, struct value *out_value)
{
    struct list *list = list_new(run->arena, node->kind == NODE_LIST ? LIST_PLAIN : LIST_TUPLE);
    if (list == NULL) {
        return run_no_memory(run);
    }
    for (int32_t element = node->a; element != NODE_NONE; element = at(run, element)->next) {
        struct value value;
        enum err err = run_eval(run, element, &value);
        if (err != ERR_OK) {
            return err;
        }
        if (!list_add(run->arena, list, value)) {
            return run_no_memory(run);
        }
    }
    *out_value = value_list(list);
    return ERR_OK;
}

static enum err eval_dict(struct run *run, const struct node *node, struct value *out_value)
{
    struct map *map = map_new(run->arena);
    if (map == NULL) {
        return run_no_memory(run);
    }
    for (int32_t key = node->a; key != NODE_NONE;) {
        int32_t element = at(run, key)->next;
        struct value name;
        struct value value;
        enum err err = run_eval(run, key, &name);
        if (err == ERR_OK) {
            err = run_eval(run, element, &value);
        }
        if (err == ERR_OK && name.kind >= VALUE_LIST) {
            err = run_refuse(run, "a key that is neither text nor number");
        }
        if (err == ERR_OK) {
            err = run_map_set(run, map, name, value);
        }
        if (err != ERR_OK) {
            return err;
        }
        key = at(run, element)->next;
    }
    *out_value = value_map(map);
    return ERR_OK;
}

/* ---- operators ----------------------------------------------------------------------------- */

static enum err eval_logic(struct run *run, const struct node *node, struct value *out_value)
{
    enum err err = run_eval(run, node->a, out_value);
    if (err == ERR_OK && value_true(out_value) == (node->kind == NODE_AND)) {
        err = run_eval(run, node->b, out_value);
    }
    return err;
}

static enum err eval_binary(struct run *run, const struct node *node, struct value *out_value)
{
    struct value left;
    struct value right;
    enum err err = run_eval(run, node->a, &left);
    if (err == ERR_OK) {
        err = run_eval(run, node->b, &right);
    }
    return err == ERR_OK ? run_binary(run, (enum binary_op)node->op, &left, &right, out_value)
                         : err;
}

static enum err eval_signed(struct run *run, const struct node *node, struct value *out_value)
{
    struct value value;
    struct value zero = value_integer(0);
    enum err err = run_eval(run, node->a, &value);
    if (err == ERR_OK && !value_is_number(&value)) {
        return run_fail(run, "a sign before %s", run_kind(&value));
    }
    if (err == ERR_OK && value.kind == VALUE_REAL) {
        *out_value = value_real(node->kind == NODE_NEGATE ? -value.real : value.real);
        return ERR_OK;
    }
    return err == ERR_OK ? run_binary(run, node->kind == NODE_NEGATE ? BINARY_SUBTRACT : BINARY_ADD,
                               &zero, &value, out_value)
                         : err;
}

/* a < b < c: each pair, as long as they hold. */
static enum err eval_compare(struct run *run, const struct node *node, struct value *out_value)
{
    struct value left;
    bool holds = true;
    enum err err = run_eval(run, node->a, &left);
    for (int32_t next = node->b; err == ERR_OK && holds && next != NODE_NONE;
         next = at(run, next)->next) {
        struct value right;
        err = run_eval(run, at(run, next)->a, &right);
        if (err == ERR_OK) {
            err = run_compare(run, (enum compare_op)at(run, next)->op, &left, &right, &holds);
        }
        left = right;
    }
    *out_value = value_bool(holds);
    return err;
}

static enum err eval_conditional(struct run *run, const struct node *node, struct value *out_value)
{
    struct value condition;
    enum err err = run_eval(run, node->a, &condition);
    if (err != ERR_OK) {
        return err;
    }
    int32_t chosen = value_true(&condition) ? node->b : node->c;
    *out_value = (struct value){.kind = VALUE_UNDEFINED};
    return chosen == NODE_NONE ? ERR_OK : run_eval(run, chosen, out_value);
}

/* ---- members and calls --------------------------------------------------------------------- */

static enum err eval_member(struct run *run, const struct node *node, struct value *out_value)
{
    struct value subject;
    struct value ends[3] = {{.kind = VALUE_NONE}, {.kind = VALUE_NONE}, {.kind = VALUE_NONE}};
    enum err err = run_eval(run, node->a, &subject);
    if (err != ERR_OK) {
        return err;
    }
    if (node->kind == NODE_MEMBER) {
        return run_member(run, &subject, run->template->constants[node->b].text, out_value);
    }
    if (node->kind == NODE_SUBSCRIPT) {
        err = run_eval(run, node->b, &ends[0]);
        return err == ERR_OK ? run_subscript(run, &subject, &ends[0], out_value) : err;
    }
    const int32_t parts[3] = {at(run, node->b)->a, at(run, node->b)->b, at(run, node->b)->c};
    for (int32_t i = 0; i < 3 && err == ERR_OK; i++) {
        err = parts[i] == NODE_NONE ? ERR_OK : run_eval(run, parts[i], &ends[i]);
    }
    return err == ERR_OK ? run_slice(run, &subject, ends, out_value) : err;
}

enum err run_arguments(struct run *run, int32_t first, struct arguments *out_arguments)
{
    struct arguments arguments = {.applied = NODE_NONE};
    for (int32_t node = first; node != NODE_NONE; node = at(run, node)->next) {
        if (at(run, node)->kind == NODE_APPLIED) {
            arguments.applied = node;
            break;
        }
        int32_t place = arguments.count++;
        arguments.values[place].kind = VALUE_UNDEFINED;
        if (at(run, node)->kind != NODE_ABSENT) {
            enum err err = run_eval(run, node, &arguments.values[place]);
            if (err != ERR_OK) {
                return err;
            }
            arguments.given[place] = true;
        }
    }
    *out_arguments = arguments;
    return ERR_OK;
}

static enum err eval_applied(struct run *run, const struct node *node, struct value *out_value)
{
    struct value subject;
    struct arguments arguments;
    bool holds = false;
    enum builtin_id id = (enum builtin_id)node->op;
    enum err err = run_eval(run, node->a, &subject);
    if (err == ERR_OK) {
        err = run_arguments(run, node->b, &arguments);
    }
    if (err != ERR_OK) {
        return err;
    }
    run->line = node->line;
    if (node->kind == NODE_FILTER) {
        return run_filter(run, id, &subject, &arguments, out_value);
    }
    if (node->kind == NODE_TEST) {
        err = run_test(run, id, &subject, &arguments, &holds);
        *out_value = value_bool(holds);
        return err;
    }
    if (subject.kind == VALUE_TEXT && builtin_table[id].use == BUILTIN_TEXT_METHOD) {
        return subject.markup ? run_refuse(run, "a method of a text behind 'safe'")
                              : run_text_method(run, id, subject.text, &arguments, out_value);
    }
    if (subject.kind == VALUE_MAP && builtin_table[id].use == BUILTIN_MAP_METHOD) {
        return run_map_method(run, id, &subject, &arguments, out_value);
    }
    return run_fail(run, "%s has no method '%s'", run_kind(&subject), builtin_table[id].name);
}

static enum err eval_call(struct run *run, const struct node *node, struct value *out_value)
{
    const struct value *macro = run_variable(run, node->a);
    if (node->kind == NODE_FUNCTION) {
        return macro == NULL ? run_function(run, node, out_value)
                             : run_refuse(run, "a call of a variable");
    }
    if (macro == NULL || macro->kind != VALUE_MACRO) {
        return run_fail(run, "a call of what is no macro");
    }
    return run_macro(run, macro->macro, node->b, out_value);
}

/* ---- all ----------------------------------------------------------------------------------- */

static enum err eval_node(struct run *run, const struct node *node, struct value *out_value)
{
    enum err err;
    switch ((int)node->kind) {
    case NODE_CONSTANT:
        *out_value = run->template->constants[node->a];
        return ERR_OK;
    case NODE_NAME:
        return eval_name(run, node, out_value);
    case NODE_CAPTURED:
        *out_value = run->captured;
        return ERR_OK;
    case NODE_LIST:
    case NODE_TUPLE:
        return eval_list(run, node, out_value);
    case NODE_DICT:
        return eval_dict(run, node, out_value);
    case NODE_MEMBER:
    case NODE_SUBSCRIPT:
    case NODE_SLICE:
        return eval_member(run, node, out_value);
    case NODE_METHOD:
    case NODE_FILTER:
    case NODE_TEST:
        return eval_applied(run, node, out_value);
    case NODE_FUNCTION:
    case NODE_CALL:
        return eval_call(run, node, out_value);
    case NODE_AND:
    case NODE_OR:
        return eval_logic(run, node, out_value);
    case NODE_NOT:
        err = run_eval(run, node->a, out_value);
        *out_value = value_bool(err == ERR_OK && !value_true(out_value));
        return err;
    case NODE_NEGATE:
    case NODE_PLUS:
        return eval_signed(run, node, out_value);
    case NODE_BINARY:
        return eval_binary(run, node, out_value);
    case NODE_COMPARE:
        return eval_compare(run, node, out_value);
    case NODE_CONDITIONAL:
        return eval_conditional(run, node, out_value);
    default:
        break;
    }
    ASSERT(false);
    return ERR_INTERNAL;
}

enum err run_eval(struct run *run, int32_t index, struct value *out_value)
{
    const struct node *node = at(run, index);
    struct value value;
    enum err err = run_enter(run);
    if (err == ERR_OK) {
        run->line = node->line;
        err = eval_node(run, node, &value);
    }
    run->depth--;
    if (err == ERR_OK) {
        *out_value = value;
    }
    return err;
}
