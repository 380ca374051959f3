/*
 * The interpreter of the schema tables: walks JSON and schema together and writes the C struct.
 *
 * What surprises: members are written with memcpy at offsets the generator took with offsetof, so
 * that one loop serves every struct. The recursion is as deep as the schema, never as deep as the
 * input: below a value the schema does not describe nothing is looked at.
 */
#include "api/bind.h"

#include <stdio.h>
#include <string.h>
#include "api/json_text.h"
#include "api/validate.h"
#include "engine/base/assert.h"

enum {
    IGNORED_NAMES = 32, /* named in the reply; the rest only counted */
    IGNORED_NAME_BYTES = 64,
    SCRATCH_BLOCK_BYTES = 64 << 10
};

struct binder {
    struct arena *arena;
    struct err_info *info;
    char ignored[IGNORED_NAMES][IGNORED_NAME_BYTES + 1];
    int32_t ignored_named, ignored_count;
};

static enum err no_memory(struct binder *binder)
{
    return err_set(binder->info, ERR_NO_MEMORY, NULL, "no memory for the request");
}

/* ---- unknown fields ------------------------------------------------------------------------ */

/* The dotted name of an unknown field; false when it holds a byte a header must not. */
static bool dotted_name(const struct path *path, char *out, size_t capacity)
{
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
    if (path->parent == NULL) {
        out[0] = '\0';
    } else if (!dotted_name(path->parent, out, capacity)) {
        return false;
    }
    if (path->key == NULL) {
        return true; /* elements of lists have no name of their own */
    }
    size_t count = strlen(out);
    size_t bytes = strlen(path->key);
    size_t dot = count > 0 ? 1 : 0;
    if (bytes == 0 || strspn(path->key, allowed) != bytes || count + dot + bytes >= capacity) {
        return false;
    }
    (void)snprintf(out + count, capacity - count, "%s%s", dot == 1 ? "." : "", path->key);
    return true;
}

static void note_ignored(struct binder *binder, const struct path *path)
{
    char name[IGNORED_NAME_BYTES + 1];
    binder->ignored_count++;
    if (binder->ignored_named == IGNORED_NAMES || !dotted_name(path, name, sizeof(name))) {
        return;
    }
    for (int32_t i = 0; i < binder->ignored_named; i++) {
        if (strcmp(binder->ignored[i], name) == 0) {
            return;
        }
    }
    (void)snprintf(binder->ignored[binder->ignored_named++], sizeof(name), "%s", name);
}

static enum err take_ignored(struct binder *binder, struct bound *bound)
{
    bound->ignored_count = binder->ignored_count;
    if (binder->ignored_named == 0) {
        bound->ignored_fields = NULL;
        return ERR_OK;
    }
    char text[IGNORED_NAMES * (IGNORED_NAME_BYTES + 1)];
    size_t count = 0;
    for (int32_t i = 0; i < binder->ignored_named; i++) {
        size_t bytes = strlen(binder->ignored[i]);
        if (i > 0) {
            text[count++] = ',';
        }
        memcpy(text + count, binder->ignored[i], bytes);
        count += bytes;
    }
    bound->ignored_fields = arena_copy(binder->arena, text, count);
    return bound->ignored_fields != NULL ? ERR_OK : no_memory(binder);
}

/* ---- values -------------------------------------------------------------------------------- */

static enum err bind_value(struct binder *binder, const struct schema *schema,
    const struct json_in *value, const struct path *path, char *out);

static enum err bind_text(
    struct binder *binder, const char *bytes, size_t count, struct bound_text *out)
{
    char *copy = arena_copy(binder->arena, bytes, count);
    if (copy == NULL) {
        return no_memory(binder);
    }
    *out = (struct bound_text){copy, (int32_t)count}; /* a body is far below 2 GiB */
    return ERR_OK;
}

static enum err bind_string(struct binder *binder, const struct json_in *value, char *out)
{
    struct bound_text text;
    size_t bytes;
    const char *string = json_in_string(value, &bytes);
    enum err err = bind_text(binder, string, bytes, &text);
    if (err == ERR_OK) {
        memcpy(out, &text, sizeof(text));
    }
    return err;
}

/* A value of any content, as text. */
static enum err bind_json(struct binder *binder, const struct json_in *value, char *out)
{
    struct buf text;
    struct bound_text bound;
    buf_init(&text, MEM_REQUESTS, JSON_TEXT_MAX);
    json_text_write(value, &text);
    enum err err =
        text.failed ? no_memory(binder) : bind_text(binder, text.bytes, text.count, &bound);
    buf_free(&text);
    if (err == ERR_OK) {
        memcpy(out, &bound, sizeof(bound));
    }
    return err;
}

static void bind_integer(const struct schema *schema, const struct json_in *value, char *out)
{
    int64_t wide;
    bool integral = validate_integer(value, &wide);
    ASSERT(integral);
    if (schema->wide) {
        memcpy(out, &wide, sizeof(wide));
    } else {
        int32_t narrow = (int32_t)wide; /* in range: the generator chose the width by it */
        memcpy(out, &narrow, sizeof(narrow));
    }
}

/* A list is {T *items; int32_t count;} for every T. */
static void write_list(char *out, const void *items, size_t count)
{
    int32_t count32 = (int32_t)count;
    memcpy(out, &items, sizeof(items));
    memcpy(out + sizeof(items), &count32, sizeof(count32));
}

static enum err bind_list(struct binder *binder, const struct schema *schema,
    const struct json_in *value, const struct path *path, char *out)
{
    size_t count = json_in_count(value);
    char *items = arena_array(binder->arena, count, schema->item_bytes);
    if (items == NULL) {
        return no_memory(binder);
    }
    for (size_t i = 0; i < count; i++) {
        struct path here = {.parent = path, .index = i};
        enum err err = bind_value(
            binder, schema->items, json_in_at(value, i), &here, items + i * schema->item_bytes);
        if (err != ERR_OK) {
            return err;
        }
    }
    write_list(out, items, count);
    return ERR_OK;
}

static enum err bind_tuple(struct binder *binder, const struct schema *schema,
    const struct json_in *value, const struct path *path, char *out)
{
    for (int32_t i = 0; i < schema->field_count; i++) {
        struct path here = {.parent = path, .index = (size_t)i};
        enum err err = bind_value(binder, schema->fields[i].schema, json_in_at(value, (size_t)i),
            &here, out + schema->fields[i].offset);
        if (err != ERR_OK) {
            return err;
        }
    }
    return ERR_OK;
}

/* Keys of a map are the client's text, so an error names the map, not the key. Here too a null
 * value is the same as no key. */
static enum err bind_map(struct binder *binder, const struct schema *schema,
    const struct json_in *value, const struct path *path, char *out)
{
    size_t count = 0;
    char *entries = arena_array(binder->arena, json_in_count(value), schema->item_bytes);
    if (entries == NULL) {
        return no_memory(binder);
    }
    struct json_in_member member = {0};
    while (json_in_next(value, &member)) {
        if (json_in_kind(member.value) == JSON_IN_NULL) {
            continue;
        }
        struct bound_text key;
        char *entry = entries + count++ * schema->item_bytes;
        enum err err = bind_text(binder, member.key, strlen(member.key), &key);
        if (err == ERR_OK) {
            memcpy(entry, &key, sizeof(key));
            err =
                bind_value(binder, schema->items, member.value, path, entry + schema->value_offset);
        }
        if (err != ERR_OK) {
            return err;
        }
    }
    write_list(out, entries, count);
    return ERR_OK;
}

/* The one alternative of the value's JSON type, which says best what is wrong inside; or -1. */
static int32_t only_of_type(const struct schema *schema, const struct json_in *value)
{
    int32_t found = -1;
    for (int32_t form = 0; form < schema->alternative_count; form++) {
        if (validate_type(schema->alternatives[form].schema, value)) {
            if (found >= 0) {
                return -1;
            }
            found = form;
        }
    }
    return found;
}

static enum err bind_form(struct binder *binder, const struct schema *schema, int32_t form,
    const struct json_in *value, const struct path *path, char *out)
{
    const struct schema_alternative *alternative = &schema->alternatives[form];
    memcpy(out, &form, sizeof(form));
    return bind_value(binder, alternative->schema, value, path, out + alternative->offset);
}

static enum err bind_union(struct binder *binder, const struct schema *schema,
    const struct json_in *value, const struct path *path, char *out)
{
    for (int32_t form = 0; form < schema->alternative_count; form++) {
        if (validate_matches(schema->alternatives[form].schema, value)) {
            return bind_form(binder, schema, form, value, path, out);
        }
    }
    int32_t near = only_of_type(schema, value);
    return near >= 0 ? bind_form(binder, schema, near, value, path, out)
                     : validate_value(schema, value, path, binder->info);
}

/* ---- objects ------------------------------------------------------------------------------- */

static const struct schema_field *find_field(const struct schema *schema, const char *name)
{
    for (int32_t i = 0; i < schema->field_count; i++) {
        if (strcmp(schema->fields[i].name, name) == 0) {
            return &schema->fields[i];
        }
    }
    return NULL;
}

static enum err bind_member(struct binder *binder, const struct schema *schema,
    const struct json_in_member *member, const struct path *path, char *out)
{
    struct path here = {.parent = path, .key = member->key};
    const struct schema_field *field = find_field(schema, member->key);
    if (field == NULL) {
        note_ignored(binder, &here);
        return ERR_OK;
    }
    if (field->use == SCHEMA_IDLE || json_in_kind(member->value) == JSON_IN_NULL) {
        return ERR_OK;
    }
    if (field->use == SCHEMA_REFUSED) {
        return validate_neutral(field, member->value)
                   ? ERR_OK
                   : validate_fail(binder->info, ERR_UNSUPPORTED_FIELD, &here, NULL,
                         "this field is not supported");
    }
    enum err err = bind_value(binder, field->schema, member->value, &here, out + field->offset);
    if (err == ERR_OK && field->has_offset != SCHEMA_NO_OFFSET) {
        const bool yes = true;
        memcpy(out + field->has_offset, &yes, sizeof(yes));
    }
    return err;
}

static enum err bind_object(struct binder *binder, const struct schema *schema,
    const struct json_in *value, const struct path *path, char *out)
{
    memcpy(out, schema->defaults, schema->bytes);
    struct json_in_member member = {0};
    while (json_in_next(value, &member)) {
        enum err err = bind_member(binder, schema, &member, path, out);
        if (err != ERR_OK) {
            return err;
        }
    }
    for (int32_t i = 0; i < schema->field_count; i++) {
        const struct schema_field *field = &schema->fields[i];
        const struct json_in *given = field->required ? json_in_get(value, field->name) : NULL;
        if (field->required && (given == NULL || json_in_kind(given) == JSON_IN_NULL)) {
            struct path here = {.parent = path, .key = field->name};
            return validate_fail(
                binder->info, ERR_INVALID, &here, "required", "this field is required");
        }
    }
    return ERR_OK;
}

static enum err bind_value(struct binder *binder, const struct schema *schema,
    const struct json_in *value, const struct path *path, char *out)
{
    if (schema->type == SCHEMA_UNION) {
        return bind_union(binder, schema, value, path, out);
    }
    enum err err = validate_value(schema, value, path, binder->info);
    if (err != ERR_OK) {
        return err;
    }
    switch (schema->type) {
    case SCHEMA_STRING:
        return bind_string(binder, value, out);
    case SCHEMA_INTEGER:
        bind_integer(schema, value, out);
        return ERR_OK;
    case SCHEMA_NUMBER: {
        double number = json_in_number(value);
        memcpy(out, &number, sizeof(number));
        return ERR_OK;
    }
    case SCHEMA_BOOLEAN: {
        bool truth = json_in_bool(value);
        memcpy(out, &truth, sizeof(truth));
        return ERR_OK;
    }
    case SCHEMA_ENUM: {
        int32_t word = validate_word(schema, value);
        memcpy(out, &word, sizeof(word));
        return ERR_OK;
    }
    case SCHEMA_LIST:
        return bind_list(binder, schema, value, path, out);
    case SCHEMA_TUPLE:
        return bind_tuple(binder, schema, value, path, out);
    case SCHEMA_MAP:
        return bind_map(binder, schema, value, path, out);
    case SCHEMA_OBJECT:
        return bind_object(binder, schema, value, path, out);
    case SCHEMA_JSON:
        return bind_json(binder, value, out);
    case SCHEMA_UNION:
        break;
    }
    return ERR_INTERNAL;
}

static enum err bind_root(struct binder *binder, const struct schema *schema,
    const struct json_in *root, struct bound *bound)
{
    ASSERT(schema->type == SCHEMA_OBJECT);
    bound->request = arena_alloc(binder->arena, schema->bytes);
    if (bound->request == NULL) {
        return no_memory(binder);
    }
    enum err err = bind_object(binder, schema, root, NULL, bound->request);
    return err != ERR_OK ? err : take_ignored(binder, bound);
}

enum err bind_request(struct arena *arena, const struct schema *schema, const char *body,
    size_t bytes, struct bound *out_bound, struct err_info *info)
{
    struct arena scratch;
    struct bound bound = {0};
    struct binder binder = {.arena = arena, .info = info};
    const struct json_in *root = NULL;
    arena_init(&scratch, MEM_REQUESTS, SCRATCH_BLOCK_BYTES, JSON_IN_TREE_BYTES);
    enum err err = json_in_parse(&scratch, body, bytes, &root, info);
    if (err == ERR_OK) {
        err = bind_root(&binder, schema, root, &bound);
    }
    arena_drop(&scratch);
    if (err == ERR_OK) {
        *out_bound = bound;
    }
    return err;
}
