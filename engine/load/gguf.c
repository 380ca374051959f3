/*
 * Opens GGUF files and answers questions about them. The reading itself is in gguf_scan.c and
 * gguf_check.c; once a file is open every position in it has been checked, and only the operating
 * system can still fail (a file cut short while it is read is ERR_IO).
 */
#include "engine/load/gguf.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "engine/base/mem.h"
#include "engine/engine_limits.h"
#include "engine/load/file.h"
#include "engine/load/gguf_internal.h"
#include "engine/load/hub_names.h"

enum {
    ARENA_BLOCK_BYTES = 1 << 16,
    ARENA_TABLE_BYTES = 1 << 25, /* keys, tensors and their indices at their limits */
};

static const struct {
    const char *word;
    size_t bytes;
} types[] = {
    [GGUF_U8] = {"u8", 1},
    [GGUF_I8] = {"i8", 1},
    [GGUF_U16] = {"u16", 2},
    [GGUF_I16] = {"i16", 2},
    [GGUF_U32] = {"u32", 4},
    [GGUF_I32] = {"i32", 4},
    [GGUF_F32] = {"f32", 4},
    [GGUF_BOOL] = {"bool", 1},
    [GGUF_STRING] = {"string", 0},
    [GGUF_ARRAY] = {"array", 0},
    [GGUF_U64] = {"u64", 8},
    [GGUF_I64] = {"i64", 8},
    [GGUF_F64] = {"f64", 8},
};

size_t gguf_type_bytes(enum gguf_type type)
{
    ASSERT((size_t)type < ARRAY_COUNT(types));
    return types[type].bytes;
}

const char *gguf_type_word(enum gguf_type type)
{
    ASSERT((size_t)type < ARRAY_COUNT(types));
    return types[type].word;
}

enum err gguf_fail(struct err_info *info, enum err code, const char *where, uint64_t offset,
    const char *format, ...)
{
    char text[ERR_TEXT_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return err_at(info, offset, err_set(info, code, where, "%s", text));
}

/* ---- open and close ------------------------------------------------------------------------- */

struct gguf *gguf_create(void)
{
    struct gguf *gguf = mem_alloc(MEM_OTHER, sizeof(*gguf));
    if (gguf != NULL) {
        arena_init(&gguf->arena, MEM_OTHER, ARENA_BLOCK_BYTES,
            LIMIT_FILE_META_BYTES + ARENA_TABLE_BYTES +
                LIMIT_FILE_STRINGS * sizeof(struct gguf_string));
    }
    return gguf;
}

static enum err finish(struct gguf *gguf, struct gguf **out_gguf, struct err_info *info)
{
    enum err err = gguf_scan(gguf, info);
    if (err == ERR_OK) {
        err = gguf_check(gguf, info);
    }
    if (err != ERR_OK) {
        gguf_close(gguf);
        return err;
    }
    *out_gguf = gguf;
    return ERR_OK;
}

enum err gguf_open(const char *path, struct gguf **out_gguf, struct err_info *info)
{
    struct gguf *gguf = gguf_create();
    if (gguf == NULL) {
        return err_set(info, ERR_NO_MEMORY, "file", "no memory to open it");
    }
    enum err err = file_open(path, "file", &gguf->fds[0], &gguf->file_bytes, info);
    if (err != ERR_OK) {
        gguf_close(gguf);
        return err;
    }
    gguf->fd_count = 1;
    return finish(gguf, out_gguf, info);
}

enum err gguf_open_memory(
    const void *bytes, size_t count, struct gguf **out_gguf, struct err_info *info)
{
    struct gguf *gguf = gguf_create();
    if (gguf == NULL) {
        return err_set(info, ERR_NO_MEMORY, "file", "no memory to open it");
    }
    gguf->bytes = bytes;
    gguf->held = count;
    gguf->file_bytes = count;
    return finish(gguf, out_gguf, info);
}

void gguf_close(struct gguf *gguf)
{
    if (gguf == NULL) {
        return;
    }
    for (int32_t part = 0; part < gguf->fd_count; part++) {
        close(gguf->fds[part]);
    }
    arena_drop(&gguf->arena);
    mem_free(gguf->buffer);
    mem_free(gguf);
}

uint64_t gguf_file_bytes(const struct gguf *gguf)
{
    return gguf->file_bytes;
}

bool gguf_is_folder(const struct gguf *gguf)
{
    return gguf->names != NULL;
}

/* ---- metadata ------------------------------------------------------------------------------- */

static int compare_key(const void *name, const void *element)
{
    const struct gguf_key *const *key = element;
    return strcmp(name, (*key)->name);
}

const struct gguf_key *gguf_find_key(const struct gguf *gguf, const char *name)
{
    const struct gguf_key *const *found = bsearch(name, gguf->keys_by_name, (size_t)gguf->key_count,
        sizeof(*gguf->keys_by_name), compare_key);
    return found == NULL ? NULL : *found;
}

bool gguf_has(const struct gguf *gguf, const char *key)
{
    return gguf_find_key(gguf, key) != NULL;
}

static enum err wrong_type(const struct gguf_key *key, const char *wanted, struct err_info *info)
{
    return gguf_fail(
        info, ERR_FORMAT, key->name, key->at, "is %s, not %s", gguf_type_word(key->type), wanted);
}

/* *out_key is NULL for a key that may be absent and is. */
static enum err look_up(const struct gguf *gguf, const char *name, bool required,
    const struct gguf_key **out_key, struct err_info *info)
{
    *out_key = gguf_find_key(gguf, name);
    if (*out_key == NULL && required) {
        return err_set(info, ERR_FORMAT, name, "the key is missing");
    }
    return ERR_OK;
}

/* False when the value is no integer or does not fit an int64_t. */
static bool load_integer(const struct gguf *gguf, const struct gguf_key *key, int64_t *out)
{
    uint64_t bits = 0;
    const size_t bytes = gguf_type_bytes(key->type);
    memcpy(&bits, gguf->bytes + key->value_at, bytes);
    switch (key->type) {
    case GGUF_I8:
        *out = (int8_t)bits;
        return true;
    case GGUF_I16:
        *out = (int16_t)bits;
        return true;
    case GGUF_I32:
        *out = (int32_t)bits;
        return true;
    case GGUF_U8:
    case GGUF_U16:
    case GGUF_U32:
    case GGUF_I64:
        *out = (int64_t)bits;
        return true;
    case GGUF_U64:
        *out = (int64_t)bits;
        return bits <= INT64_MAX;
    case GGUF_F32:
    case GGUF_BOOL:
    case GGUF_STRING:
    case GGUF_ARRAY:
    case GGUF_F64:
        break;
    }
    return false;
}

static bool is_integer(enum gguf_type type)
{
    return type <= GGUF_I32 || type == GGUF_U64 || type == GGUF_I64;
}

enum err gguf_get_i64(const struct gguf *gguf, const char *key, bool required, int64_t min,
    int64_t max, int64_t *out, struct err_info *info)
{
    const struct gguf_key *found;
    enum err err = look_up(gguf, key, required, &found, info);
    if (err != ERR_OK || found == NULL) {
        return err;
    }
    if (!is_integer(found->type)) {
        return wrong_type(found, "an integer", info);
    }
    int64_t value = 0;
    if (!load_integer(gguf, found, &value) || value < min || value > max) {
        return gguf_fail(info, ERR_FORMAT, key, found->at,
            "the value is outside %" PRId64 " to %" PRId64, min, max);
    }
    *out = value;
    return ERR_OK;
}

enum err gguf_get_f64(
    const struct gguf *gguf, const char *key, bool required, double *out, struct err_info *info)
{
    const struct gguf_key *found;
    enum err err = look_up(gguf, key, required, &found, info);
    if (err != ERR_OK || found == NULL) {
        return err;
    }
    double value = 0;
    if (found->type == GGUF_F32) {
        float narrow;
        memcpy(&narrow, gguf->bytes + found->value_at, sizeof(narrow));
        value = (double)narrow;
    } else if (found->type == GGUF_F64) {
        memcpy(&value, gguf->bytes + found->value_at, sizeof(value));
    } else {
        return wrong_type(found, "f32 or f64", info);
    }
    if (!isfinite(value)) {
        return gguf_fail(info, ERR_FORMAT, key, found->at, "the value is not finite");
    }
    *out = value;
    return ERR_OK;
}

enum err gguf_get_bool(
    const struct gguf *gguf, const char *key, bool required, bool *out, struct err_info *info)
{
    const struct gguf_key *found;
    enum err err = look_up(gguf, key, required, &found, info);
    if (err != ERR_OK || found == NULL) {
        return err;
    }
    if (found->type != GGUF_BOOL) {
        return wrong_type(found, "bool", info);
    }
    *out = gguf->bytes[found->value_at] != 0;
    return ERR_OK;
}

enum err gguf_get_string(const struct gguf *gguf, const char *key, bool required,
    struct gguf_string *out, struct err_info *info)
{
    const struct gguf_key *found;
    enum err err = look_up(gguf, key, required, &found, info);
    if (err != ERR_OK || found == NULL) {
        return err;
    }
    if (found->type != GGUF_STRING) {
        return wrong_type(found, "string", info);
    }
    *out = (struct gguf_string){(const char *)gguf->bytes + found->value_at, found->count};
    return ERR_OK;
}

enum err gguf_get_array(const struct gguf *gguf, const char *key, bool required,
    enum gguf_type type, struct gguf_array *out, struct err_info *info)
{
    const struct gguf_key *found;
    enum err err = look_up(gguf, key, required, &found, info);
    if (err != ERR_OK || found == NULL) {
        return err;
    }
    if (found->type != GGUF_ARRAY) {
        return wrong_type(found, "an array", info);
    }
    if (found->element != type) {
        return gguf_fail(info, ERR_FORMAT, key, found->at, "is an array of %s, not %s",
            gguf_type_word(found->element), gguf_type_word(type));
    }
    const bool strings = type == GGUF_STRING;
    *out = (struct gguf_array){.type = type,
        .count = found->count,
        .data = strings ? NULL : gguf->bytes + found->value_at,
        .strings = found->strings};
    return ERR_OK;
}

int32_t gguf_key_count(const struct gguf *gguf)
{
    return gguf->key_count;
}

const char *gguf_key(const struct gguf *gguf, int32_t index)
{
    ASSERT(index >= 0 && index < gguf->key_count);
    return gguf->keys[index].name;
}

/* ---- tensors -------------------------------------------------------------------------------- */

int32_t gguf_tensor_count(const struct gguf *gguf)
{
    return gguf->tensor_count;
}

const struct gguf_tensor *gguf_tensor_at(const struct gguf *gguf, int32_t index)
{
    ASSERT(index >= 0 && index < gguf->tensor_count);
    return &gguf->tensors[index];
}

static int compare_tensor(const void *name, const void *element)
{
    const struct gguf_tensor *const *tensor = element;
    return strcmp(name, (*tensor)->name.bytes);
}

const struct gguf_tensor *gguf_find_tensor(const struct gguf *gguf, const char *name)
{
    const struct gguf_tensor *const *found = bsearch(name, gguf->tensors_by_name,
        (size_t)gguf->tensor_count, sizeof(*gguf->tensors_by_name), compare_tensor);
    return found == NULL ? NULL : *found;
}

static enum err read_bytes(const struct gguf *gguf, const struct gguf_tensor *tensor, size_t from,
    size_t count, void *out, struct err_info *info)
{
    if (tensor->part < 0) {
        memcpy(out, gguf->bytes + tensor->offset + from, count);
        return ERR_OK;
    }
    return file_read(
        gguf->fds[tensor->part], tensor->offset + from, count, out, tensor->name.bytes, info);
}

/* Where the file keeps a row: the even rows of a head lie in its first half. */
static size_t row_in_file(const struct gguf_tensor *tensor, size_t row)
{
    const size_t head = (size_t)tensor->turned_rows;
    const size_t in_head = row % head;
    return row - in_head + in_head % 2 * (head / 2) + in_head / 2;
}

static enum err read_turned(const struct gguf *gguf, const struct gguf_tensor *tensor, size_t from,
    size_t count, unsigned char *out, struct err_info *info)
{
    const size_t row_bytes = tensor->bytes / (size_t)tensor->shape[1];
    enum err err = ERR_OK;
    for (size_t done = 0; done < count && err == ERR_OK;) {
        const size_t in_row = (from + done) % row_bytes;
        const size_t piece = MIN(row_bytes - in_row, count - done);
        const size_t row = row_in_file(tensor, (from + done) / row_bytes);
        err = read_bytes(gguf, tensor, row * row_bytes + in_row, piece, out + done, info);
        done += piece;
    }
    return err;
}

enum err gguf_read(const struct gguf *gguf, const struct gguf_tensor *tensor, size_t from,
    size_t count, void *out, struct err_info *info)
{
    ASSERT(from <= tensor->bytes);
    ASSERT(count <= tensor->bytes - from);
    if (count == 0) {
        return ERR_OK;
    }
    return tensor->turned_rows > 0 ? read_turned(gguf, tensor, from, count, out, info)
                                   : read_bytes(gguf, tensor, from, count, out, info);
}

/* ---- names ---------------------------------------------------------------------------------- */

enum err gguf_name_error(const struct gguf *gguf, enum err err, struct err_info *info)
{
    if (err == ERR_OK || info == NULL || gguf->names == NULL) {
        return err;
    }
    const struct gguf_key *key = gguf_find_key(gguf, info->where);
    const struct gguf_tensor *tensor = gguf_find_tensor(gguf, info->where);
    char shown[ERR_WHERE_BYTES] = "";
    if (key != NULL && key->shown != NULL) {
        snprintf(shown, sizeof(shown), "%s", key->shown);
    } else if (tensor != NULL && tensor->shown != NULL) {
        snprintf(shown, sizeof(shown), "%s", tensor->shown);
    } else {
        hub_names_back(gguf->names, info->where, shown, sizeof(shown));
    }
    if (shown[0] != '\0') {
        memcpy(info->where, shown, sizeof(shown));
    }
    return err;
}
