/*
 * The reader behind json_in.h: one pass of our own over the bytes for the bounds jansson does not
 * have (its depth limit is 2,048, it has none on elements), then jansson.
 *
 * What surprises: jansson's allocation hooks take no context, so the arena of the parse under way
 * is held in a thread-local pointer, and its free does nothing while one is set: a tree goes away
 * with its arena, in one piece, at any number of nodes. Outside a parse the hooks are the counted
 * allocator's.
 */
#include "api/json_in.h"

#include <jansson.h>
#include <string.h>
#include "engine/base/assert.h"
#include "engine/base/mem.h"
#include "engine/base/utf8.h"

static _Thread_local struct {
    struct arena *arena; /* NULL = no parse under way on this thread */
    bool starved;        /* an allocation of it failed */
} parse;

static void *hook_alloc(size_t bytes)
{
    if (parse.arena == NULL) {
        return mem_alloc(MEM_REQUESTS, bytes);
    }
    void *block = arena_alloc(parse.arena, bytes);
    parse.starved |= block == NULL;
    return block;
}

static void hook_free(void *block)
{
    if (parse.arena == NULL) {
        mem_free(block);
    }
}

void json_in_init(void)
{
    json_object_seed(
        0); /* from the system's randomness; jansson does it lazily and unlocked else */
    json_set_alloc_funcs(hook_alloc, hook_free);
}

/* Without the hooks every tree would be leaked. */
static bool hooks_are_set(void)
{
    json_malloc_t alloc = NULL;
    json_free_t release = NULL;
    json_get_alloc_funcs(&alloc, &release);
    return alloc == hook_alloc && release == hook_free;
}

static enum err fail_at(
    struct err_info *info, const char *bytes, size_t count, size_t offset, const char *text)
{
    offset = offset < count ? offset : count;
    int32_t line = 1;
    size_t line_from = 0;
    for (size_t i = 0; i < offset; i++) {
        if (bytes[i] == '\n') {
            line++;
            line_from = i + 1;
        }
    }
    enum err err = err_set(info, ERR_JSON, NULL, "%s", text);
    if (info != NULL) {
        info->offset = (int64_t)offset;
        info->line = line;
        info->column = (int32_t)utf8_length(bytes + line_from, offset - line_from) + 1;
    }
    return err;
}

/* Depth and elements. Wrong syntax is left to the parser: this only has to count no less than the
 * parser will build before it fails. */
static enum err scan_bounds(const char *bytes, size_t count, struct err_info *info)
{
    int32_t depth = 0;
    int32_t elements = 0;
    bool in_string = false;
    for (size_t i = 0; i < count; i++) {
        char byte = bytes[i];
        if (in_string) {
            i += byte == '\\' ? 1 : 0;
            in_string = byte != '"';
            continue;
        }
        switch (byte) {
        case '"':
            in_string = true;
            break;
        case '{':
        case '[':
            elements++;
            depth++;
            break;
        case '}':
        case ']':
            depth--;
            break;
        case ',':
            elements++;
            break;
        default:
            break;
        }
        if (depth > JSON_IN_DEPTH) {
            return fail_at(info, bytes, count, i, "nested too deeply");
        }
        if (elements > JSON_IN_ELEMENTS) {
            return fail_at(info, bytes, count, i, "too many elements");
        }
    }
    return ERR_OK;
}

/* Our own words: jansson's quote the input. */
static const char *text_of(enum json_error_code code)
{
    switch (code) {
    case json_error_premature_end_of_input:
        return "the JSON text ends too early";
    case json_error_end_of_input_expected:
        return "bytes after the end of the JSON text";
    case json_error_invalid_utf8:
        return "invalid UTF-8";
    case json_error_duplicate_key:
        return "a key occurs twice in an object";
    case json_error_numeric_overflow:
        return "a number is out of range";
    case json_error_null_character:
    case json_error_null_byte_in_key:
        return "\\u0000 is not accepted in strings";
    case json_error_unknown:
    case json_error_out_of_memory:
    case json_error_stack_overflow:
    case json_error_cannot_open_file:
    case json_error_invalid_argument:
    case json_error_invalid_syntax:
    case json_error_invalid_format:
    case json_error_wrong_type:
    case json_error_null_value:
    case json_error_item_not_found:
    case json_error_index_out_of_range:
        break;
    }
    return "invalid JSON";
}

enum err json_in_parse(struct arena *arena, const char *bytes, size_t count,
    const struct json_in **out_root, struct err_info *info)
{
    ASSERT(parse.arena == NULL);
    ASSERT(hooks_are_set());
    if (count >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0) {
        return fail_at(info, bytes, count, 0, "a byte order mark is not accepted");
    }
    const char *nul = count > 0 ? memchr(bytes, 0, count) : NULL;
    if (nul != NULL) { /* jansson 2.14 overlooks one that follows a number */
        return fail_at(info, bytes, count, (size_t)(nul - bytes), "a NUL byte is not accepted");
    }
    enum err err = scan_bounds(bytes, count, info);
    if (err != ERR_OK) {
        return err;
    }
    json_error_t error;
    parse.arena = arena;
    parse.starved = false;
    json_t *root = json_loadb(count > 0 ? bytes : "", count, JSON_REJECT_DUPLICATES, &error);
    parse.arena = NULL;
    if (root == NULL) {
        enum json_error_code code = json_error_code(&error);
        if (parse.starved) { /* jansson does not always say so itself */
            return err_set(info, ERR_NO_MEMORY, NULL, "no memory for the JSON text");
        }
        size_t offset = error.position > 0 ? (size_t)error.position : 0;
        return fail_at(info, bytes, count, offset, text_of(code));
    }
    if (!json_is_object(root)) {
        return fail_at(info, bytes, count, 0, "the body must be one JSON object");
    }
    *out_root = (const struct json_in *)root;
    return ERR_OK;
}

/* jansson takes pointers to mutable values even where it only reads. */
static json_t *tree(const struct json_in *value)
{
    return (json_t *)(uintptr_t)value;
}

static const struct json_in *value_of(const json_t *value)
{
    return (const struct json_in *)value;
}

enum json_in_kind json_in_kind(const struct json_in *value)
{
    switch (json_typeof(tree(value))) {
    case JSON_OBJECT:
        return JSON_IN_OBJECT;
    case JSON_ARRAY:
        return JSON_IN_ARRAY;
    case JSON_STRING:
        return JSON_IN_STRING;
    case JSON_INTEGER:
        return JSON_IN_INTEGER;
    case JSON_REAL:
        return JSON_IN_REAL;
    case JSON_TRUE:
    case JSON_FALSE:
        return JSON_IN_BOOL;
    case JSON_NULL:
        break;
    }
    return JSON_IN_NULL;
}

bool json_in_bool(const struct json_in *value)
{
    return json_is_true(tree(value));
}

int64_t json_in_integer(const struct json_in *value)
{
    ASSERT(json_is_integer(tree(value)));
    return json_integer_value(tree(value));
}

double json_in_number(const struct json_in *value)
{
    ASSERT(json_is_number(tree(value)));
    return json_number_value(tree(value));
}

const char *json_in_string(const struct json_in *value, size_t *out_bytes)
{
    ASSERT(json_is_string(tree(value)));
    *out_bytes = json_string_length(tree(value));
    return json_string_value(tree(value));
}

size_t json_in_count(const struct json_in *value)
{
    return json_is_array(tree(value)) ? json_array_size(tree(value))
                                      : json_object_size(tree(value));
}

const struct json_in *json_in_at(const struct json_in *array, size_t index)
{
    return value_of(json_array_get(tree(array), index));
}

const struct json_in *json_in_get(const struct json_in *object, const char *key)
{
    return value_of(json_object_get(tree(object), key));
}

bool json_in_next(const struct json_in *object, struct json_in_member *member)
{
    json_t *map = tree(object);
    void *next = member->iterator == NULL ? json_object_iter(map)
                                          : json_object_iter_next(map, member->iterator);
    if (next == NULL) {
        return false;
    }
    *member = (struct json_in_member){
        .key = json_object_iter_key(next),
        .value = value_of(json_object_iter_value(next)),
        .iterator = next,
    };
    return true;
}
