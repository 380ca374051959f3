/*
 * Statements: what a template prints, decides, repeats and sets. Variables are Jinja's: a loop's
 * body and a macro have their own, `if` has none.
 */
#include "engine/template/run.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "engine/base/assert.h"
#include "engine/engine_limits.h"

/* ---- errors and limits --------------------------------------------------------------------- */

enum err run_fail(struct run *run, const char *format, ...)
{
    char text[ERR_TEXT_BYTES];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    return err_set(run->info, ERR_INVALID, NULL,
        "the chat template cannot render this: line %d: %.240s", run->line, text);
}

enum err run_refuse(struct run *run, const char *what)
{
    return err_set(run->info, ERR_NOT_CAPABLE, NULL,
        "the chat template needs what is not supported: line %d: %s", run->line, what);
}

static enum err too_much(struct run *run, const char *what)
{
    return err_set(run->info, ERR_LIMIT, NULL,
        "the chat template takes more %s than it may: line %d", what, run->line);
}

enum err run_no_memory(struct run *run)
{
    return too_much(run, "memory");
}

enum err run_charge(struct run *run, size_t steps)
{
    enum { CLOCK_STEPS = 4096 }; /* the clock is read once in so many */
    int64_t before = run->steps;
    if (steps > (size_t)(run->limits.steps - before)) {
        return too_much(run, "steps");
    }
    run->steps += (int64_t)steps;
    if (before / CLOCK_STEPS != run->steps / CLOCK_STEPS &&
        clock_now_us(run->limits.clock) > run->deadline_us) {
        return too_much(run, "time");
    }
    return ERR_OK;
}

enum err run_charge_bytes(struct run *run, size_t bytes)
{
    return run_charge(run, 1 + bytes / RUN_STEP_BYTES);
}

enum err run_enter(struct run *run)
{
    run->depth++;
    return run->depth > run->limits.depth ? too_much(run, "depth") : run_charge(run, 1);
}

/* ---- output -------------------------------------------------------------------------------- */

enum err run_put(struct run *run, struct text text)
{
    if (text.count == 0) {
        return ERR_OK;
    }
    enum err err = run_charge_bytes(run, text.count);
    if (err != ERR_OK) {
        return err;
    }
    if (text.count > run->limits.output_bytes - run->text.count) {
        return too_much(run, "output");
    }
    buf_append(&run->text, text.bytes, text.count);
    char *marks = buf_reserve(&run->marks, text.count);
    if (run->text.failed || marks == NULL) {
        return run_no_memory(run);
    }
    if (text.foreign != NULL) {
        memcpy(marks, text.foreign, text.count);
    } else {
        memset(marks, 0, text.count);
    }
    buf_took(&run->marks, text.count);
    return ERR_OK;
}

enum err run_put_words(struct run *run, const char *words, bool foreign)
{
    static const uint8_t ones[64] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
        1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
        1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    struct text text = {.bytes = words, .count = strlen(words)};
    ASSERT(!foreign || text.count <= sizeof(ones));
    text.foreign = foreign ? ones : NULL;
    return run_put(run, text);
}

enum err run_take(struct run *run, size_t from, struct text *out_text)
{
    struct text text = {.count = run->text.count - from};
    if (text.count > 0) {
        const char *marks = run->marks.bytes + from;
        enum err err = run_charge_bytes(run, text.count);
        if (err != ERR_OK) {
            return err;
        }
        text.bytes = arena_copy(run->arena, run->text.bytes + from, text.count);
        if (text.bytes != NULL && memchr(marks, 1, text.count) != NULL) {
            uint8_t *copy = arena_alloc(run->arena, text.count);
            if (copy == NULL) {
                return run_no_memory(run);
            }
            text.foreign = memcpy(copy, marks, text.count);
        }
        if (text.bytes == NULL) {
            return run_no_memory(run);
        }
        run->text.count = from;
        run->marks.count = from;
    }
    *out_text = text;
    return ERR_OK;
}

enum err run_take_value(struct run *run, enum err err, size_t from, struct value *out_value)
{
    struct text text;
    if (err == ERR_OK) {
        err = run_take(run, from, &text);
    }
    if (err == ERR_OK) {
        *out_value = value_text(text);
    }
    return err;
}

/* ---- variables ----------------------------------------------------------------------------- */

const struct value *run_variable(const struct run *run, int32_t symbol)
{
    for (int32_t i = run->count - 1; i >= run->base; i--) {
        if (run->variables[i].symbol == symbol) {
            return &run->variables[i].value;
        }
    }
    for (int32_t i = run->root - 1; run->base > 0 && i >= 0; i--) {
        if (run->variables[i].symbol == symbol) {
            return &run->variables[i].value;
        }
    }
    return NULL;
}

static enum err push_variable(struct run *run, int32_t symbol, struct value value)
{
    if (run->count == run->capacity) {
        int32_t larger = run->capacity < 32 ? 32 : run->capacity * 2;
        if (larger > LIMIT_TEMPLATE_NODES) {
            return run_no_memory(run);
        }
        struct variable *variables =
            arena_array(run->arena, (size_t)larger, sizeof(*run->variables));
        if (variables == NULL) {
            return run_no_memory(run);
        }
        if (run->count > 0) {
            memcpy(variables, run->variables, (size_t)run->count * sizeof(*variables));
        }
        run->variables = variables;
        run->capacity = larger;
    }
    run->variables[run->count++] = (struct variable){symbol, value};
    return ERR_OK;
}

static enum err set_variable(struct run *run, int32_t symbol, struct value value)
{
    for (int32_t i = run->frame; i < run->count; i++) {
        if (run->variables[i].symbol == symbol) {
            run->variables[i].value = value;
            return ERR_OK;
        }
    }
    return push_variable(run, symbol, value);
}

/* What a frame is left with. */
struct frame {
    int32_t count, root, base, frame;
    bool in_root;
};

static struct frame open_frame(struct run *run)
{
    struct frame before = {run->count, run->root, run->base, run->frame, run->in_root};
    if (run->in_root) {
        run->root = run->count;
    }
    run->in_root = false;
    run->frame = run->count;
    return before;
}

static void close_frame(struct run *run, const struct frame *before)
{
    run->count = before->count;
    run->root = before->root;
    run->base = before->base;
    run->frame = before->frame;
    run->in_root = before->in_root;
}

/* ---- statements ---------------------------------------------------------------------------- */

static enum err run_body(struct run *run, int32_t first);

static const struct node *at(const struct run *run, int32_t node)
{
    return &run->template->nodes[node];
}

static enum err assign(struct run *run, int32_t target, const struct value *value)
{
    const struct node *node = at(run, target);
    if (node->kind == NODE_TARGET) {
        return set_variable(run, node->a, *value);
    }
    const struct value *space = run_variable(run, node->a);
    if (space == NULL || space->kind != VALUE_NAMESPACE) {
        return run_fail(run, "a member is set of what is no namespace");
    }
    return run_map_set(run, space->map, run->template->constants[node->b], *value);
}

/* One target takes the value, several take its elements. */
static enum err assign_all(struct run *run, int32_t first, const struct value *value)
{
    const struct list *list;
    if (at(run, first)->next == NODE_NONE) {
        return assign(run, first, value);
    }
    if (value->kind == VALUE_UNDEFINED) {
        return run_fail(run, "an undefined value has no elements");
    }
    enum err err = run_elements(run, value, &list);
    size_t count = 0;
    for (int32_t target = first; err == ERR_OK && target != NODE_NONE;
         target = at(run, target)->next, count++) {
        err = count < list->count ? assign(run, target, &list->items[count])
                                  : run_fail(run, "fewer values than targets");
    }
    return err == ERR_OK && count < list->count ? run_fail(run, "more values than targets") : err;
}

/* The elements for which the condition holds, with the targets set to each. */
static enum err filter_elements(
    struct run *run, const struct node *node, int32_t condition, const struct list **list)
{
    struct list *kept = list_new(run->arena, LIST_PLAIN);
    enum err err = kept == NULL ? run_no_memory(run) : ERR_OK;
    for (size_t i = 0; i < (*list)->count && err == ERR_OK; i++) {
        struct frame frame = open_frame(run);
        struct value holds;
        err = assign_all(run, node->a, &(*list)->items[i]);
        if (err == ERR_OK) {
            err = run_eval(run, condition, &holds);
        }
        close_frame(run, &frame);
        if (err == ERR_OK && value_true(&holds) && !list_add(run->arena, kept, (*list)->items[i])) {
            err = run_no_memory(run);
        }
    }
    *list = kept;
    return err;
}

static enum err run_for(struct run *run, const struct node *node)
{
    const struct node *parts = at(run, node->c);
    struct value iterated;
    const struct list *list = NULL;
    enum err err = run_eval(run, node->b, &iterated);
    if (err == ERR_OK) {
        err = run_elements(run, &iterated, &list);
    }
    if (err == ERR_OK && parts->a != NODE_NONE) {
        err = filter_elements(run, node, parts->a, &list);
    }
    /* In the arena, for a namespace may keep it beyond its end. */
    struct loop *loop = err == ERR_OK ? arena_alloc(run->arena, sizeof(*loop)) : NULL;
    if (err == ERR_OK && loop == NULL) {
        err = run_no_memory(run);
    }
    bool ends = false;
    bool whole = false; /* Jinja's else is for loops no round of which comes to its end */
    for (size_t i = 0; err == ERR_OK && !ends && i < list->count; i++) {
        struct frame frame = open_frame(run);
        struct value shown = {.kind = VALUE_LOOP, .loop = loop};
        *loop = (struct loop){.list = list, .index = i};
        err = run->loop_symbol == NODE_NONE ? ERR_OK : push_variable(run, run->loop_symbol, shown);
        if (err == ERR_OK) {
            err = assign_all(run, node->a, &list->items[i]);
        }
        if (err == ERR_OK) {
            err = run_charge(run, 1);
        }
        if (err == ERR_OK) {
            err = run_body(run, parts->b);
        }
        close_frame(run, &frame);
        whole = whole || run->jump == JUMP_NONE;
        ends = run->jump == JUMP_BREAK;
        run->jump = JUMP_NONE;
    }
    if (err == ERR_OK && !whole && parts->c != NODE_NONE) {
        struct frame frame = open_frame(run);
        err = run_body(run, parts->c);
        close_frame(run, &frame);
    }
    return err;
}

/* A body with variables of its own, and what it prints as a text. */
static enum err capture(struct run *run, int32_t first, struct text *out_text)
{
    size_t from = run->text.count;
    struct frame frame = open_frame(run);
    enum err err = run_body(run, first);
    close_frame(run, &frame);
    return err == ERR_OK ? run_take(run, from, out_text) : err;
}

static enum err run_set(struct run *run, const struct node *node)
{
    struct value value;
    struct text text;
    enum err err;
    if (node->kind == NODE_SET) {
        err = run_eval(run, node->b, &value);
    } else {
        err = capture(run, node->b, &text);
        value = err == ERR_OK ? value_text(text) : value_none();
    }
    return err == ERR_OK ? assign_all(run, node->a, &value) : err;
}

static enum err print(struct run *run, int32_t expression)
{
    struct value value;
    struct text text;
    enum err err = run_eval(run, expression, &value);
    if (err == ERR_OK) {
        err = run_text(run, &value, &text);
    }
    return err == ERR_OK ? run_put(run, text) : err;
}

static enum err run_if(struct run *run, const struct node *node)
{
    for (;;) {
        struct value condition;
        enum err err = run_eval(run, node->a, &condition);
        if (err != ERR_OK) {
            return err;
        }
        if (value_true(&condition)) {
            return run_body(run, node->b);
        }
        if (node->c == NODE_NONE || at(run, node->c)->kind != NODE_IF ||
            at(run, node->c)->op != NODE_IF_ELIF) {
            return run_body(run, node->c);
        }
        node = at(run, node->c);
    }
}

static enum err run_filtered(struct run *run, const struct node *node)
{
    struct text text;
    struct value before = run->captured;
    enum err err = capture(run, node->b, &text);
    if (err == ERR_OK) {
        struct value value;
        run->captured = value_text(text);
        err = run_eval(run, node->a, &value);
        if (err == ERR_OK && value.kind != VALUE_TEXT && value.kind != VALUE_UNDEFINED) {
            err = run_fail(run, "a filter of a block gives %s", run_kind(&value));
        }
        if (err == ERR_OK && value.kind == VALUE_TEXT) {
            err = run_put(run, value.text);
        }
    }
    run->captured = before;
    return err;
}

static enum err run_scope(struct run *run, int32_t first)
{
    struct frame frame = open_frame(run);
    enum err err = run_body(run, first);
    close_frame(run, &frame);
    return err;
}

static enum err run_statement(struct run *run, int32_t index)
{
    const struct node *node = at(run, index);
    run->line = node->line;
    switch ((int)node->kind) {
    case NODE_WORDS:
        return run_put(run, run->template->constants[node->a].text);
    case NODE_PRINT:
        return print(run, node->a);
    case NODE_IF:
        return run_if(run, node);
    case NODE_FOR:
        return run_for(run, node);
    case NODE_SET:
    case NODE_SET_BLOCK:
        return run_set(run, node);
    case NODE_MACRO:
        return set_variable(run, node->a, (struct value){.kind = VALUE_MACRO, .macro = index});
    case NODE_FILTERED:
        return run_filtered(run, node);
    case NODE_SCOPE:
        return run_scope(run, node->b);
    case NODE_BREAK:
        run->jump = JUMP_BREAK;
        return ERR_OK;
    case NODE_CONTINUE:
        run->jump = JUMP_CONTINUE;
        return ERR_OK;
    default:
        break;
    }
    ASSERT(false);
    return ERR_INTERNAL;
}

static enum err run_body(struct run *run, int32_t first)
{
    enum err err = run_enter(run);
    for (int32_t node = first; err == ERR_OK && node != NODE_NONE && run->jump == JUMP_NONE;
         node = at(run, node)->next) {
        err = run_statement(run, node);
        if (err == ERR_OK) {
            err = run_charge(run, 1);
        }
    }
    run->depth--;
    return err;
}

/* ---- macros -------------------------------------------------------------------------------- */

/* The argument for a parameter: by place, else by name; none if there is none. */
static int32_t find_argument(
    const struct run *run, int32_t first_argument, int32_t place, int32_t symbol)
{
    for (int32_t node = first_argument; node != NODE_NONE; node = at(run, node)->next) {
        int32_t name = at(run, node)->b;
        if (name == symbol || (name == NODE_NONE && place-- == 0)) {
            return node;
        }
    }
    return NODE_NONE;
}

static enum err check_arguments(struct run *run, int32_t macro, int32_t first_argument)
{
    int32_t given = 0;
    int32_t used = 0;
    int32_t place = 0;
    for (int32_t node = first_argument; node != NODE_NONE; node = at(run, node)->next) {
        given++;
    }
    for (int32_t node = at(run, macro)->b; node != NODE_NONE; node = at(run, node)->next) {
        used += find_argument(run, first_argument, place++, at(run, node)->a) != NODE_NONE;
    }
    return used == given ? ERR_OK
                         : run_fail(run, "a macro is given arguments that it does not take");
}

/* What the caller gives, in the order of the parameters: NULL where it gives nothing. */
static enum err eval_arguments(
    struct run *run, int32_t macro, int32_t first_argument, struct value **out_values)
{
    struct list *values = list_new(run->arena, LIST_PLAIN);
    int32_t place = 0;
    for (int32_t node = at(run, macro)->b; values != NULL && node != NODE_NONE;
         node = at(run, node)->next) {
        int32_t argument = find_argument(run, first_argument, place++, at(run, node)->a);
        struct value value = {.kind = VALUE_UNDEFINED};
        enum err err = argument == NODE_NONE ? ERR_OK : run_eval(run, at(run, argument)->a, &value);
        if (err != ERR_OK) {
            return err;
        }
        if (!list_add(run->arena, values, value)) {
            return run_no_memory(run);
        }
    }
    *out_values = values != NULL ? values->items : NULL;
    return values != NULL ? ERR_OK : run_no_memory(run);
}

/* Defaults are made within the macro, where earlier parameters are known. */
static enum err push_parameters(
    struct run *run, int32_t macro, int32_t first_argument, const struct value *values)
{
    int32_t place = 0;
    enum err err = ERR_OK;
    for (int32_t node = at(run, macro)->b; err == ERR_OK && node != NODE_NONE;
         node = at(run, node)->next, place++) {
        struct value value = values[place];
        if (at(run, node)->b != NODE_NONE &&
            find_argument(run, first_argument, place, at(run, node)->a) == NODE_NONE) {
            err = run_eval(run, at(run, node)->b, &value);
        }
        if (err == ERR_OK) {
            err = push_variable(run, at(run, node)->a, value);
        }
    }
    return err;
}

enum err run_macro(struct run *run, int32_t macro, int32_t first_argument, struct value *out_value)
{
    size_t from = run->text.count;
    struct value *values = NULL;
    enum err err = run_enter(run);
    if (err == ERR_OK) {
        err = check_arguments(run, macro, first_argument);
    }
    if (err == ERR_OK) {
        err = eval_arguments(run, macro, first_argument, &values);
    }
    struct frame caller = open_frame(run);
    run->base = run->frame;
    if (err == ERR_OK) {
        err = push_parameters(run, macro, first_argument, values);
    }
    if (err == ERR_OK) {
        err = run_body(run, at(run, macro)->c);
    }
    close_frame(run, &caller);
    run->depth--;
    return run_take_value(run, err, from, out_value);
}

/* ---- the whole ----------------------------------------------------------------------------- */

static enum err push_values(struct run *run, const struct map *values)
{
    enum err err = ERR_OK;
    run->loop_symbol = NODE_NONE;
    for (int32_t symbol = 0; symbol < run->template->symbol_count; symbol++) {
        if (text_is(run->template->symbols[symbol], "loop")) {
            run->loop_symbol = symbol;
        }
    }
    for (size_t i = 0; i < values->count && err == ERR_OK; i++) {
        for (int32_t symbol = 0; symbol < run->template->symbol_count; symbol++) {
            if (text_equal(run->template->symbols[symbol], values->pairs[i].key.text)) {
                err = push_variable(run, symbol, values->pairs[i].value);
            }
        }
    }
    return err;
}

/* A machine that is busy with other things is no reason to refuse a template. */
static const struct clock computing = {clock_thread_us, NULL};

static struct template_limits standard_limits(const struct template_limits *limits)
{
    struct template_limits full = limits != NULL ? *limits : (struct template_limits){0};
    full.steps = full.steps != 0 ? full.steps : LIMIT_TEMPLATE_STEPS;
    full.time_us = full.time_us != 0 ? full.time_us : LIMIT_TEMPLATE_TIME_US;
    full.output_bytes = full.output_bytes != 0 ? full.output_bytes : LIMIT_TEMPLATE_OUTPUT_BYTES;
    full.memory_bytes = full.memory_bytes != 0 ? full.memory_bytes : LIMIT_TEMPLATE_MEMORY_BYTES;
    full.depth = full.depth != 0 ? full.depth : LIMIT_TEMPLATE_DEPTH;
    full.clock = full.clock != NULL ? full.clock : &computing;
    return full;
}

/* The output, copied into the caller's arena. */
static enum err hand_over(const struct run *run, struct arena *arena, struct rendered *out_rendered)
{
    size_t count = run->text.count;
    char *bytes = arena_alloc(arena, count + 1);
    uint8_t *marks = arena_alloc(arena, count + 1);
    if (bytes == NULL || marks == NULL) {
        return err_set(run->info, ERR_NO_MEMORY, NULL, "no memory for a prompt");
    }
    if (count > 0) {
        memcpy(bytes, run->text.bytes, count);
        memcpy(marks, run->marks.bytes, count);
    }
    *out_rendered = (struct rendered){.bytes = bytes, .foreign = marks, .count = count};
    return ERR_OK;
}

enum err template_render(const struct template *template, const struct map *values, int64_t now,
    const struct template_limits *limits, struct arena *arena, struct rendered *out_rendered,
    struct err_info *info)
{
    struct arena work;
    struct run run = {.template = template,
        .arena = &work,
        .limits = standard_limits(limits),
        .in_root = true,
        .now = now,
        .info = info};
    arena_init(&work, MEM_REQUESTS, 1 << 14, run.limits.memory_bytes);
    buf_init(&run.text, MEM_REQUESTS, run.limits.output_bytes);
    buf_init(&run.marks, MEM_REQUESTS, run.limits.output_bytes);
    run.deadline_us = clock_now_us(run.limits.clock) + run.limits.time_us;
    enum err err = push_values(&run, values);
    if (err == ERR_OK) {
        err = run_body(&run, template->first);
    }
    if (err == ERR_OK) {
        err = hand_over(&run, arena, out_rendered);
    }
    buf_free(&run.text);
    buf_free(&run.marks);
    arena_drop(&work);
    return err;
}
