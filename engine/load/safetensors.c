/*
 * See safetensors.h. The JSON parser refuses duplicate keys, so names are unique within a file; the
 * order of the data is found by sorting, for the header may list tensors in any order.
 */
#include "engine/load/safetensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "engine/base/assert.h"
#include "engine/base/checked.h"
#include "engine/base/mem.h"
#include "engine/engine_limits.h"
#include "engine/load/file.h"
#include "engine/load/meta_json.h"

enum {
    LENGTH_BYTES = 8,
    HEADER_BYTES_MIN = 2, /* {} */
    HEADER_DEPTH = 4,     /* the file, a tensor, its shape; and one to spare */
    HEADER_VALUES = 16 * LIMIT_FILE_TENSORS,
};

static const struct {
    const char *word;
    size_t bytes;
} types[] = {
    [SAFETENSORS_F32] = {"F32", 4},
    [SAFETENSORS_F16] = {"F16", 2},
    [SAFETENSORS_BF16] = {"BF16", 2},
    [SAFETENSORS_I64] = {"I64", 8},
};

const char *safetensors_type_word(enum safetensors_type type)
{
    ASSERT((size_t)type < ARRAY_COUNT(types));
    return types[type].word;
}

/* ---- one tensor ----------------------------------------------------------------------------- */

/* A member of a tensor's entry, of this type. */
static enum err member(const struct meta_json *entry, const char *tensor, const char *key,
    enum meta_json_type type, const struct meta_json **out, struct err_info *info)
{
    const struct meta_json *found = meta_json_get(entry, key);
    if (found == NULL || meta_json_type(found) != type) {
        return err_set(info, ERR_FORMAT, tensor, "its %s is %s", key,
            found == NULL ? "missing" : "of the wrong kind");
    }
    *out = found;
    return ERR_OK;
}

static enum err read_type(
    const struct meta_json *entry, struct safetensors_tensor *tensor, struct err_info *info)
{
    const struct meta_json *dtype = NULL;
    enum err err = member(entry, tensor->name, "dtype", META_JSON_STRING, &dtype, info);
    if (err != ERR_OK) {
        return err;
    }
    for (size_t type = 0; type < ARRAY_COUNT(types); type++) {
        if (strcmp(types[type].word, meta_json_string(dtype)) == 0) {
            tensor->type = (enum safetensors_type)type;
            return ERR_OK;
        }
    }
    return err_set(info, ERR_UNSUPPORTED, tensor->name,
        "its dtype %.32s is unknown or not supported", meta_json_string(dtype));
}

/* *out_bytes = shape times type. */
static enum err read_shape(const struct meta_json *entry, struct safetensors_tensor *tensor,
    size_t *out_bytes, struct err_info *info)
{
    const struct meta_json *shape = NULL;
    size_t bytes = types[tensor->type].bytes;
    enum err err = member(entry, tensor->name, "shape", META_JSON_ARRAY, &shape, info);
    if (err != ERR_OK) {
        return err;
    }
    const size_t dims = meta_json_count(shape);
    if (dims > SAFETENSORS_DIMS) {
        return err_set(info, ERR_UNSUPPORTED, tensor->name, "%zu dimensions, at most %d are read",
            dims, SAFETENSORS_DIMS);
    }
    tensor->shape[0] = 1;
    for (size_t i = 0; i < dims; i++) {
        const struct meta_json *extent = meta_json_at(shape, i);
        if (meta_json_type(extent) != META_JSON_INTEGER || meta_json_integer(extent) < 1) {
            return err_set(
                info, ERR_FORMAT, tensor->name, "dimension %zu is no positive integer", i);
        }
        tensor->shape[i] = meta_json_integer(extent);
        if (!checked_mul(bytes, (size_t)tensor->shape[i], &bytes) || bytes > INT64_MAX) {
            return err_set(info, ERR_FORMAT, tensor->name, "its size in bytes overflows");
        }
    }
    tensor->dims = (int32_t)MAX(dims, (size_t)1);
    *out_bytes = bytes;
    return ERR_OK;
}

/* Offsets count from the start of the data, which has `data_bytes`. */
static enum err read_offsets(const struct meta_json *entry, uint64_t data_bytes,
    struct safetensors_tensor *tensor, struct err_info *info)
{
    const struct meta_json *offsets = NULL;
    enum err err = member(entry, tensor->name, "data_offsets", META_JSON_ARRAY, &offsets, info);
    if (err != ERR_OK) {
        return err;
    }
    int64_t ends[2] = {0, 0};
    for (size_t i = 0; i < 2; i++) {
        const struct meta_json *end =
            meta_json_count(offsets) == 2 ? meta_json_at(offsets, i) : NULL;
        if (end == NULL || meta_json_type(end) != META_JSON_INTEGER || meta_json_integer(end) < 0) {
            return err_set(
                info, ERR_FORMAT, tensor->name, "its data_offsets are not two integers from 0 on");
        }
        ends[i] = meta_json_integer(end);
    }
    if (ends[1] < ends[0] || (uint64_t)ends[1] > data_bytes) {
        return err_set(info, ERR_FORMAT, tensor->name,
            "its data_offsets are %" PRId64 " and %" PRId64 ", of %" PRIu64 " bytes of data",
            ends[0], ends[1], data_bytes);
    }
    tensor->offset = (uint64_t)ends[0];
    tensor->bytes = (size_t)(ends[1] - ends[0]);
    return ERR_OK;
}

static enum err read_tensor(const struct meta_json *entry, uint64_t data_bytes,
    struct safetensors_tensor *tensor, struct err_info *info)
{
    size_t bytes = 0;
    if (meta_json_type(entry) != META_JSON_OBJECT) {
        return err_set(info, ERR_FORMAT, tensor->name, "its entry is no object");
    }
    if (meta_json_count(entry) > 3) {
        return err_set(info, ERR_FORMAT, tensor->name,
            "its entry holds more than dtype, shape and data_offsets");
    }
    enum err err = read_type(entry, tensor, info);
    if (err == ERR_OK) {
        err = read_shape(entry, tensor, &bytes, info);
    }
    if (err == ERR_OK) {
        err = read_offsets(entry, data_bytes, tensor, info);
    }
    if (err == ERR_OK && bytes != tensor->bytes) {
        return err_set(info, ERR_FORMAT, tensor->name,
            "its shape of %s needs %zu bytes, its data_offsets span %zu", types[tensor->type].word,
            bytes, tensor->bytes);
    }
    return err;
}

/* ---- all tensors ---------------------------------------------------------------------------- */

static bool is_name(const char *name, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (name[i] <= ' ' || name[i] > '~') {
            return false;
        }
    }
    return count > 0;
}

static enum err take_name(size_t index, const char *name, const char *file, struct arena *arena,
    const char **out_name, struct err_info *info)
{
    const size_t count = strlen(name);
    if (count > LIMIT_FILE_TENSOR_NAME_BYTES) {
        return err_set(info, ERR_LIMIT, file, "the name of tensor %zu has %zu bytes, at most %d",
            index, count, LIMIT_FILE_TENSOR_NAME_BYTES);
    }
    if (!is_name(name, count)) {
        return err_set(info, ERR_FORMAT, file,
            "the name of tensor %zu is empty or not printable ASCII", index);
    }
    *out_name = arena_copy(arena, name, count);
    return *out_name == NULL ? err_set(info, ERR_NO_MEMORY, name, "no memory for its name")
                             : ERR_OK;
}

static int compare_offsets(const void *a, const void *b)
{
    const struct safetensors_tensor *left = a;
    const struct safetensors_tensor *right = b;
    return (left->offset > right->offset) - (left->offset < right->offset);
}

/* Every byte of data belongs to exactly one tensor; offsets become those of the file. */
static enum err check_cover(struct safetensors *all, uint64_t data_at, uint64_t data_bytes,
    const char *file, struct err_info *info)
{
    uint64_t covered = 0;
    qsort(all->tensors, all->count, sizeof(*all->tensors), compare_offsets);
    for (size_t i = 0; i < all->count; i++) {
        struct safetensors_tensor *tensor = &all->tensors[i];
        if (tensor->offset != covered) {
            return err_at(info, data_at + tensor->offset,
                err_set(info, ERR_FORMAT, tensor->name, "its data %s",
                    tensor->offset < covered ? "overlaps that of another tensor"
                                             : "begins behind a hole"));
        }
        covered += tensor->bytes;
        tensor->offset += data_at;
    }
    if (covered != data_bytes) {
        return err_at(info, data_at + covered,
            err_set(info, ERR_FORMAT, file, "%" PRIu64 " bytes at its end belong to no tensor",
                data_bytes - covered));
    }
    return ERR_OK;
}

/* The one key that is no tensor: strings by name, which only inform. */
static enum err check_metadata(
    const struct meta_json *metadata, const char *file, struct err_info *info)
{
    void *cursor = NULL;
    const char *key;
    const struct meta_json *value;
    bool strings = meta_json_type(metadata) == META_JSON_OBJECT;
    while (strings && meta_json_next(metadata, &cursor, &key, &value)) {
        strings = meta_json_type(value) == META_JSON_STRING;
    }
    return strings ? ERR_OK
                   : err_set(info, ERR_FORMAT, file, "__metadata__ is no object of strings");
}

static enum err read_all(const struct meta_json *root, uint64_t data_bytes, const char *file,
    struct arena *arena, struct safetensors *out, struct err_info *info)
{
    if (meta_json_type(root) != META_JSON_OBJECT) {
        return err_set(info, ERR_FORMAT, file, "the header is no object");
    }
    if (meta_json_count(root) > LIMIT_FILE_TENSORS) {
        return err_set(info, ERR_LIMIT, file, "%zu tensors, at most %d are read",
            meta_json_count(root), LIMIT_FILE_TENSORS);
    }
    out->count = 0;
    out->tensors = arena_array(arena, meta_json_count(root), sizeof(*out->tensors));
    if (out->tensors == NULL) {
        return err_set(info, ERR_NO_MEMORY, file, "no memory for the table of tensors");
    }
    enum err err = ERR_OK;
    void *cursor = NULL;
    const char *key;
    const struct meta_json *entry;
    while (err == ERR_OK && meta_json_next(root, &cursor, &key, &entry)) {
        if (strcmp(key, "__metadata__") == 0) {
            err = check_metadata(entry, file, info);
            continue;
        }
        struct safetensors_tensor *tensor = &out->tensors[out->count];
        err = take_name(out->count, key, file, arena, &tensor->name, info);
        if (err == ERR_OK) {
            err = read_tensor(entry, data_bytes, tensor, info);
        }
        out->count++;
    }
    return err;
}

static enum err read_header(const char *header, size_t count, uint64_t file_bytes, const char *file,
    struct arena *arena, struct safetensors *out, struct err_info *info)
{
    static const struct meta_json_limits limits = {
        .bytes = LIMIT_FILE_HEADER_BYTES, .depth = HEADER_DEPTH, .values = HEADER_VALUES};
    const uint64_t data_at = LENGTH_BYTES + count;
    struct meta_json *root = NULL;
    if (header[0] != '{') {
        return err_at(info, LENGTH_BYTES,
            err_set(info, ERR_FORMAT, file, "the header does not begin with {"));
    }
    enum err err = meta_json_parse(header, count, &limits, file, &root, info);
    if (err != ERR_OK) {
        return err;
    }
    err = read_all(root, file_bytes - data_at, file, arena, out, info);
    if (err == ERR_OK) {
        err = check_cover(out, data_at, file_bytes - data_at, file, info);
    }
    meta_json_free(root);
    return err;
}

static enum err check_length(
    uint64_t length, uint64_t file_bytes, const char *file, struct err_info *info)
{
    if (length < HEADER_BYTES_MIN || length > file_bytes - LENGTH_BYTES) {
        return err_at(info, 0,
            err_set(info, ERR_FORMAT, file, "a header of %" PRIu64 " bytes in a file of %" PRIu64,
                length, file_bytes));
    }
    if (length > LIMIT_FILE_HEADER_BYTES) {
        return err_at(info, 0,
            err_set(info, ERR_LIMIT, file, "a header of %" PRIu64 " bytes, at most %d are read",
                length, LIMIT_FILE_HEADER_BYTES));
    }
    return ERR_OK;
}

static enum err too_short(const char *file, struct err_info *info)
{
    return err_at(info, 0, err_set(info, ERR_FORMAT, file, "is too short for a safetensors file"));
}

enum err safetensors_read(int fd, uint64_t file_bytes, const char *file, struct arena *arena,
    struct safetensors *out, struct err_info *info)
{
    uint64_t length = 0;
    if (file_bytes < LENGTH_BYTES) {
        return too_short(file, info);
    }
    enum err err = file_read(fd, 0, sizeof(length), &length, file, info);
    if (err == ERR_OK) {
        err = check_length(length, file_bytes, file, info);
    }
    if (err != ERR_OK) {
        return err;
    }
    char *header = mem_alloc(MEM_OTHER, (size_t)length);
    if (header == NULL) {
        return err_set(info, ERR_NO_MEMORY, file, "no memory for its header");
    }
    err = file_read(fd, LENGTH_BYTES, (size_t)length, header, file, info);
    if (err == ERR_OK) {
        err = read_header(header, (size_t)length, file_bytes, file, arena, out, info);
    }
    mem_free(header);
    return err;
}

enum err safetensors_read_memory(const void *bytes, size_t count, const char *file,
    struct arena *arena, struct safetensors *out, struct err_info *info)
{
    uint64_t length = 0;
    if (count < LENGTH_BYTES) {
        return too_short(file, info);
    }
    memcpy(&length, bytes, sizeof(length));
    enum err err = check_length(length, count, file, info);
    return err == ERR_OK ? read_header((const char *)bytes + LENGTH_BYTES, (size_t)length, count,
                               file, arena, out, info)
                         : err;
}
