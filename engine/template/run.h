/*
 * A template under way: its variables, its output, what is left of its limits. Private to
 * engine/template.
 *
 * Output is one buffer used as a stack. Whatever needs text of its own (a macro, a block, a filter
 * that builds one) writes at the end and takes off what it wrote.
 */
#ifndef ENGINE_TEMPLATE_RUN_H
#define ENGINE_TEMPLATE_RUN_H

#include "engine/base/buf.h"
#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/template/builtin.h"
#include "engine/template/node.h"
#include "engine/template/template.h"

enum run_jump { JUMP_NONE, JUMP_BREAK, JUMP_CONTINUE };

struct variable {
    int32_t symbol;
    struct value value;
};

/* The state of a loop, as far as templates see it. */
struct loop {
    const struct list *list;
    size_t index; /* from 0 */
};

struct run {
    const struct template *template;
    struct arena *arena;
    struct template_limits limits;
    int64_t steps;       /* done */
    int64_t deadline_us; /* of limits.clock */
    int32_t depth;
    int32_t line; /* of what is under way, for errors */
    struct buf text;
    struct buf marks; /* [text.count] 1 = a client's byte */
    /* A stack: [0, root) are the template's own; a macro sees those and [base, count); what is set
     * now belongs to the frame that begins at `frame`. */
    struct variable *variables;
    int32_t count, capacity, root, base, frame;
    bool in_root;        /* the frame at hand is the template's */
    int32_t loop_symbol; /* of the name `loop`, or none */
    struct value captured;
    enum run_jump jump;
    int64_t now; /* seconds since 1970 */
    struct err_info *info;
};

/* Values of a builtin's parameters. */
struct arguments {
    struct value values[BUILTIN_PARAMETERS];
    bool given[BUILTIN_PARAMETERS];
    int32_t count;
    int32_t applied; /* node of kind APPLIED, or none */
};

/* ---- errors and limits --------------------------------------------------------------------- */

/* ERR_INVALID: these messages cannot be rendered. */
enum err run_fail(struct run *run, const char *format, ...) PRINTF_LIKE(2, 3);
/* ERR_NOT_CAPABLE: a thing that is not built. */
enum err run_refuse(struct run *run, const char *what);
enum err run_no_memory(struct run *run);
enum { RUN_STEP_BYTES = 64 }; /* looked at or copied in about the time of a step */
/* Counts work: ERR_LIMIT past limits.steps or limits.time_us. */
MUST_USE enum err run_charge(struct run *run, size_t steps);
/* Charges for looking at so many bytes, before they are looked at. */
MUST_USE enum err run_charge_bytes(struct run *run, size_t bytes);
/* One level deeper; the caller takes it back with run->depth--. */
MUST_USE enum err run_enter(struct run *run);

/* ---- output -------------------------------------------------------------------------------- */

MUST_USE enum err run_put(struct run *run, struct text text);
MUST_USE enum err run_put_words(struct run *run, const char *words, bool foreign);
MUST_USE enum err run_put_real(struct run *run, const struct value *value); /* as Python's repr */
/* Takes off what was written since text.count was `from`, as a text in the arena. */
MUST_USE enum err run_take(struct run *run, size_t from, struct text *out_text);
/* The same as a value, where nothing failed before: else that is the result. */
MUST_USE enum err run_take_value(
    struct run *run, enum err err, size_t from, struct value *out_value);

/* ---- evaluation ---------------------------------------------------------------------------- */

MUST_USE enum err run_eval(struct run *run, int32_t node, struct value *out_value);
/* Python's str(); lists and mappings are refused. */
MUST_USE enum err run_text(struct run *run, const struct value *value, struct text *out_text);
/* The elements of what can be walked. A lazy list is used up by it. */
MUST_USE enum err run_elements(
    struct run *run, const struct value *value, const struct list **out_list);
/* What a value is called in errors. */
const char *run_kind(const struct value *value);
/* map_get, charged; NULL when there is none. */
MUST_USE enum err run_map_find(
    struct run *run, const struct map *map, struct value key, const struct value **out_found);
/* map_set, charged. */
MUST_USE enum err run_map_set(
    struct run *run, struct map *map, struct value key, struct value value);
/* value.name, value[key]; undefined when there is none. */
MUST_USE enum err run_member(
    struct run *run, const struct value *value, struct text name, struct value *out_value);
MUST_USE enum err run_subscript(
    struct run *run, const struct value *value, const struct value *key, struct value *out_value);
MUST_USE enum err run_slice(struct run *run, const struct value *value, const struct value ends[3],
    struct value *out_value);
MUST_USE enum err run_binary(struct run *run, enum binary_op op, const struct value *left,
    const struct value *right, struct value *out_value);
MUST_USE enum err run_compare(struct run *run, enum compare_op op, const struct value *left,
    const struct value *right, bool *out_holds);
MUST_USE enum err run_equal(
    struct run *run, const struct value *left, const struct value *right, bool *out_equal);
const struct value *run_variable(const struct run *run, int32_t symbol); /* or NULL */
/* A macro with the values of NODE_ARGUMENTs. */
MUST_USE enum err run_macro(
    struct run *run, int32_t macro, int32_t first_argument, struct value *out_value);

/* ---- builtins ------------------------------------------------------------------------------ */

MUST_USE enum err run_arguments(struct run *run, int32_t first, struct arguments *out_arguments);
MUST_USE enum err run_filter(struct run *run, enum builtin_id id, const struct value *subject,
    struct arguments *arguments, struct value *out_value);
MUST_USE enum err run_test(struct run *run, enum builtin_id id, const struct value *subject,
    const struct arguments *arguments, bool *out_holds);
MUST_USE enum err run_text_method(struct run *run, enum builtin_id id, struct text text,
    const struct arguments *arguments, struct value *out_value);
MUST_USE enum err run_map_method(struct run *run, enum builtin_id id, const struct value *subject,
    const struct arguments *arguments, struct value *out_value);
MUST_USE enum err run_function(struct run *run, const struct node *node, struct value *out_value);
/* (key, value) tuples of a mapping. */
MUST_USE enum err run_items(
    struct run *run, const struct value *value, enum list_form form, struct value *out_value);
MUST_USE enum err run_to_json(struct run *run, const struct value *value,
    const struct value *indent, struct value *out_value);
MUST_USE enum err run_replace(
    struct run *run, struct text text, const struct arguments *arguments, struct value *out_value);
MUST_USE enum err run_join(
    struct run *run, struct text separator, const struct list *list, struct value *out_value);
enum run_case { CASE_UPPER, CASE_LOWER, CASE_CAPITALIZE, CASE_TITLE, CASE_WORDS };
/* ASCII only; other text is refused. TITLE is Python's method, WORDS Jinja's filter. */
MUST_USE enum err run_case(
    struct run *run, struct text text, enum run_case which, struct value *out_value);

#endif
