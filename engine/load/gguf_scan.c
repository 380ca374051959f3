/*
 * First pass over a GGUF file: header, metadata pairs and tensor directory, in file order. Nothing
 * is believed: a count or a length is compared with the bytes left (and with our own bounds) before
 * anything is read, skipped or allocated by it.
 *
 *     "GGUF" | version u32 | tensor_count u64 | metadata_kv_count u64
 *     pairs:   name string | type u32 | value          string = length u64 | bytes
 *     tensors: name string | n_dims u32 | dims u64 x n | type u32 | offset u64
 *     padding to general.alignment | data
 *
 * The size of metadata is stated nowhere, so the buffer grows as the scan reaches its end and
 * everything remembered is a position.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "engine/base/checked.h"
#include "engine/base/mem.h"
#include "engine/base/utf8.h"
#include "engine/engine_limits.h"
#include "engine/load/file.h"
#include "engine/load/gguf_internal.h"

enum {
    READ_BYTES_FIRST = 1 << 20,    /* first read of a file: most small models' metadata */
    KEY_BYTES_MIN = 8 + 1 + 4 + 1, /* smallest pair: one-letter name, a u8 */
    TENSOR_BYTES_MIN = 8 + 1 + 4 + 8 + 4 + 8, /* smallest directory entry: one dimension */
    STRING_BYTES_MIN = 8,
    VERSION_MIN = 2, /* version 1 has 32-bit counts and is no longer written by anything */
    VERSION_MAX = 3,
};

struct scan {
    struct gguf *gguf;
    uint64_t at;
    const char *where; /* the key or tensor being read, for errors */
    size_t string_count;
    struct err_info *info;
};

#define FAIL(scan, code, ...) gguf_fail((scan)->info, code, (scan)->where, (scan)->at, __VA_ARGS__)

static uint64_t bytes_left(const struct scan *scan)
{
    return scan->gguf->file_bytes - scan->at;
}

/* Makes bytes [0, end) of the file available; end <= file_bytes. */
static enum err hold(struct scan *scan, uint64_t end)
{
    struct gguf *gguf = scan->gguf;
    if (end > LIMIT_FILE_META_BYTES) {
        return FAIL(scan, ERR_LIMIT, "metadata is larger than %d MiB", LIMIT_FILE_META_BYTES >> 20);
    }
    if (end <= gguf->held) {
        return ERR_OK;
    }
    ASSERT(gguf->fd_count == 1); /* bytes in memory are held from the start */
    uint64_t target = MAX(end, MAX((uint64_t)READ_BYTES_FIRST, 2 * (uint64_t)gguf->held));
    target = MIN(target, MIN(gguf->file_bytes, (uint64_t)LIMIT_FILE_META_BYTES));
    unsigned char *grown = gguf->buffer == NULL ? mem_alloc(MEM_OTHER, target)
                                                : mem_grow(MEM_OTHER, gguf->buffer, target);
    if (grown == NULL) {
        return FAIL(scan, ERR_NO_MEMORY, "no memory for %" PRIu64 " bytes of metadata", target);
    }
    gguf->buffer = grown;
    gguf->bytes = grown;
    enum err err = file_read(
        gguf->fds[0], gguf->held, target - gguf->held, grown + gguf->held, "metadata", scan->info);
    if (err == ERR_OK) {
        gguf->held = target;
    }
    return err;
}

/* `count` more bytes exist and are in memory at bytes + at. */
static enum err need(struct scan *scan, uint64_t count)
{
    if (count > bytes_left(scan)) {
        return FAIL(scan, ERR_FORMAT, "needs %" PRIu64 " bytes where the file has %" PRIu64 " left",
            count, bytes_left(scan));
    }
    return hold(scan, scan->at + count);
}

static const unsigned char *here(const struct scan *scan)
{
    return scan->gguf->bytes + scan->at;
}

static enum err take_number(struct scan *scan, size_t bytes, uint64_t *out)
{
    enum err err = need(scan, bytes);
    if (err != ERR_OK) {
        return err;
    }
    uint64_t value = 0;
    memcpy(&value, here(scan), bytes);
    scan->at += bytes;
    *out = value;
    return ERR_OK;
}

/* Moves past a string and says where its bytes lie. */
static enum err take_string(
    struct scan *scan, uint64_t bytes_max, size_t *out_at, size_t *out_bytes)
{
    uint64_t bytes = 0;
    enum err err = take_number(scan, 8, &bytes);
    if (err != ERR_OK) {
        return err;
    }
    if (bytes > bytes_max && bytes <= bytes_left(scan)) {
        return FAIL(scan, ERR_LIMIT, "a string of %" PRIu64 " bytes, at most %" PRIu64 " are read",
            bytes, bytes_max);
    }
    err = need(scan, bytes);
    if (err != ERR_OK) {
        return err;
    }
    *out_at = scan->at;
    *out_bytes = bytes;
    scan->at += bytes;
    return ERR_OK;
}

static bool is_text(const unsigned char *bytes, size_t count)
{
    return count == 0 ||
           (memchr(bytes, 0, count) == NULL && utf8_valid((const char *)bytes, count));
}

/* Keys are printable ASCII by the format; names of tensors are held to the same. */
static bool is_name(const unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] <= ' ' || bytes[i] > '~') {
            return false;
        }
    }
    return count > 0;
}

static enum err take_name(struct scan *scan, uint64_t bytes_max, const char **out_name)
{
    size_t at = 0;
    size_t bytes = 0;
    enum err err = take_string(scan, bytes_max, &at, &bytes);
    if (err != ERR_OK) {
        return err;
    }
    const unsigned char *name = scan->gguf->bytes + at;
    if (!is_name(name, bytes)) {
        return FAIL(scan, ERR_FORMAT, "its name is empty or not printable ASCII");
    }
    *out_name = arena_copy(&scan->gguf->arena, (const char *)name, bytes);
    return *out_name == NULL ? FAIL(scan, ERR_NO_MEMORY, "no memory for its name") : ERR_OK;
}

/* ---- metadata ------------------------------------------------------------------------------- */

static enum err check_bools(struct scan *scan, const struct gguf_key *key, size_t count)
{
    const unsigned char *values = scan->gguf->bytes + key->value_at;
    for (size_t i = 0; i < count; i++) {
        if (values[i] > 1) {
            return FAIL(scan, ERR_FORMAT, "a bool is neither 0 nor 1");
        }
    }
    return ERR_OK;
}

/* Token pieces are bytes: a vocabulary may hold parts of characters. */
static bool holds_pieces(const char *name)
{
    return strcmp(name, "tokenizer.ggml.tokens") == 0 || strcmp(name, "tokenizer.ggml.merges") == 0;
}

static enum err scan_strings(struct scan *scan, const struct gguf_key *key)
{
    const bool text = !holds_pieces(key->name);
    for (size_t i = 0; i < key->count; i++) {
        size_t at = 0;
        size_t bytes = 0;
        enum err err = take_string(scan, LIMIT_FILE_STRING_BYTES, &at, &bytes);
        if (err != ERR_OK) {
            return err;
        }
        if (text && !is_text(scan->gguf->bytes + at, bytes)) {
            return FAIL(scan, ERR_FORMAT, "element %zu is not UTF-8 text", i);
        }
    }
    return ERR_OK;
}

static enum err scan_array(struct scan *scan, struct gguf_key *key)
{
    uint64_t element = 0;
    uint64_t count = 0;
    enum err err = take_number(scan, 4, &element);
    if (err != ERR_OK) {
        return err;
    }
    if (element == GGUF_ARRAY) {
        return FAIL(scan, ERR_UNSUPPORTED, "an array of arrays");
    }
    if (element > GGUF_F64) {
        return FAIL(scan, ERR_FORMAT, "unknown element type %" PRIu64, element);
    }
    err = take_number(scan, 8, &count);
    if (err != ERR_OK) {
        return err;
    }
    key->element = (enum gguf_type)element;
    key->value_at = scan->at;
    const bool strings = key->element == GGUF_STRING;
    const size_t bytes = strings ? STRING_BYTES_MIN : gguf_type_bytes(key->element);
    if (count > bytes_left(scan) / bytes) {
        return FAIL(scan, ERR_FORMAT,
            "%" PRIu64 " elements where the file has %" PRIu64 " bytes left", count,
            bytes_left(scan));
    }
    key->count = count;
    if (strings) {
        scan->string_count += count; /* no overflow: count <= file size / 8 */
        if (scan->string_count > LIMIT_FILE_STRINGS) {
            return FAIL(scan, ERR_LIMIT, "more than %d strings in arrays", LIMIT_FILE_STRINGS);
        }
        return scan_strings(scan, key);
    }
    err = need(scan, count * bytes);
    if (err != ERR_OK) {
        return err;
    }
    if (key->element == GGUF_BOOL) {
        err = check_bools(scan, key, count);
    }
    scan->at += count * bytes;
    return err;
}

static enum err scan_value(struct scan *scan, struct gguf_key *key)
{
    if (key->type == GGUF_ARRAY) {
        return scan_array(scan, key);
    }
    if (key->type == GGUF_STRING) {
        enum err err = take_string(scan, LIMIT_FILE_STRING_BYTES, &key->value_at, &key->count);
        if (err == ERR_OK && !is_text(scan->gguf->bytes + key->value_at, key->count)) {
            return FAIL(scan, ERR_FORMAT, "the string is not UTF-8 text");
        }
        return err;
    }
    const size_t bytes = gguf_type_bytes(key->type);
    enum err err = need(scan, bytes);
    if (err != ERR_OK) {
        return err;
    }
    key->value_at = scan->at;
    if (key->type == GGUF_BOOL) {
        err = check_bools(scan, key, 1);
    }
    scan->at += bytes;
    return err;
}

static enum err scan_key(struct scan *scan, int32_t index)
{
    struct gguf_key *key = &scan->gguf->keys[index];
    char number[32];
    snprintf(number, sizeof(number), "key %" PRId32, index);
    scan->where = number;
    key->at = scan->at;
    enum err err = take_name(scan, LIMIT_FILE_KEY_BYTES, &key->name);
    if (err != ERR_OK) {
        return err;
    }
    scan->where = key->name;
    uint64_t type = 0;
    err = take_number(scan, 4, &type);
    if (err != ERR_OK) {
        return err;
    }
    if (type > GGUF_F64) {
        return FAIL(scan, ERR_FORMAT, "unknown value type %" PRIu64, type);
    }
    key->type = (enum gguf_type)type;
    return scan_value(scan, key);
}

/* ---- tensor directory ----------------------------------------------------------------------- */

static enum err scan_shape(struct scan *scan, struct gguf_tensor *tensor, size_t *out_count)
{
    uint64_t dims = 0;
    size_t product = 1;
    enum err err = take_number(scan, 4, &dims);
    if (err != ERR_OK) {
        return err;
    }
    if (dims < 1 || dims > ARRAY_COUNT(tensor->shape)) {
        return FAIL(scan, ERR_FORMAT, "%" PRIu64 " dimensions, 1 to 4 are possible", dims);
    }
    tensor->dims = (int32_t)dims;
    for (size_t i = 0; i < ARRAY_COUNT(tensor->shape); i++) {
        uint64_t extent = 1;
        if (i < dims) {
            err = take_number(scan, 8, &extent);
            if (err != ERR_OK) {
                return err;
            }
        }
        if (extent < 1 || extent > INT64_MAX) {
            return FAIL(
                scan, ERR_FORMAT, "dimension %zu is %" PRId64 ", not positive", i, (int64_t)extent);
        }
        if (!checked_mul(product, extent, &product) || product > INT64_MAX) {
            return FAIL(scan, ERR_FORMAT, "the product of its dimensions overflows");
        }
        tensor->shape[i] = (int64_t)extent;
    }
    *out_count = product;
    return ERR_OK;
}

static enum err check_type(
    struct scan *scan, struct gguf_tensor *tensor, uint64_t type_id, size_t count)
{
    if (!tensor_type_from_gguf((uint32_t)type_id, &tensor->type)) {
        return FAIL(scan, ERR_UNSUPPORTED, "tensor type %" PRId32 " is unknown or not supported",
            (int32_t)type_id);
    }
    if (tensor->shape[0] % tensor_type_block(tensor->type) != 0) {
        return FAIL(scan, ERR_FORMAT,
            "%" PRId64 " inputs are no multiple of the %" PRId32 " of a %s block", tensor->shape[0],
            tensor_type_block(tensor->type), tensor_type_word(tensor->type));
    }
    if (!tensor_type_bytes(tensor->type, count, &tensor->bytes)) {
        return FAIL(scan, ERR_FORMAT, "its size in bytes overflows");
    }
    return ERR_OK;
}

static enum err scan_tensor(struct scan *scan, int32_t index)
{
    struct gguf_tensor *tensor = &scan->gguf->tensors[index];
    char number[32];
    snprintf(number, sizeof(number), "tensor %" PRId32, index);
    scan->where = number;
    const char *name = NULL;
    enum err err = take_name(scan, LIMIT_FILE_NAME_BYTES, &name);
    if (err != ERR_OK) {
        return err;
    }
    scan->where = name;
    tensor->name = (struct gguf_string){name, strlen(name)};
    tensor->part = scan->gguf->fd_count - 1;
    size_t count = 0;
    err = scan_shape(scan, tensor, &count);
    if (err != ERR_OK) {
        return err;
    }
    uint64_t type_id = 0;
    err = take_number(scan, 4, &type_id);
    if (err != ERR_OK) {
        return err;
    }
    err = check_type(scan, tensor, type_id, count);
    if (err != ERR_OK) {
        return err;
    }
    return take_number(scan, 8, &tensor->offset);
}

/* ---- header --------------------------------------------------------------------------------- */

static enum err scan_version(struct scan *scan)
{
    scan->where = "magic";
    enum err err = need(scan, 4);
    if (err != ERR_OK) {
        return err;
    }
    if (memcmp(here(scan), "GGUF", 4) != 0) {
        return FAIL(scan, ERR_FORMAT, "not a GGUF file");
    }
    scan->at += 4;
    scan->where = "version";
    uint64_t version = 0;
    err = take_number(scan, 4, &version);
    if (err != ERR_OK) {
        return err;
    }
    scan->at -= 4; /* errors point at the field */
    const uint32_t swapped = __builtin_bswap32((uint32_t)version);
    if (swapped >= 1 && swapped <= VERSION_MAX) {
        return FAIL(scan, ERR_UNSUPPORTED, "a big-endian file");
    }
    if (version < VERSION_MIN || version > VERSION_MAX) {
        return FAIL(scan, ERR_UNSUPPORTED, "GGUF version %" PRIu64 ", 2 and 3 are read", version);
    }
    scan->at += 4;
    return ERR_OK;
}

/* A count of records of at least `record_bytes` each, so that tables may be sized by it. */
static enum err take_count(struct scan *scan, const char *where, uint64_t record_bytes,
    uint64_t count_max, int32_t *out_count)
{
    uint64_t count = 0;
    scan->where = where;
    enum err err = take_number(scan, 8, &count);
    if (err != ERR_OK) {
        return err;
    }
    scan->at -= 8; /* errors point at the field */
    if (count > (bytes_left(scan) - 8) / record_bytes) {
        return FAIL(scan, ERR_FORMAT, "%" PRIu64 " records cannot fit into %" PRIu64 " bytes",
            count, bytes_left(scan));
    }
    if (count > count_max) {
        return FAIL(
            scan, ERR_LIMIT, "%" PRIu64 " records, at most %" PRIu64 " are read", count, count_max);
    }
    scan->at += 8;
    *out_count = (int32_t)count;
    return ERR_OK;
}

enum err gguf_scan(struct gguf *gguf, struct err_info *info)
{
    struct scan scan = {.gguf = gguf, .info = info};
    int32_t tensor_count = 0;
    int32_t key_count = 0;
    enum err err = scan_version(&scan);
    if (err == ERR_OK) {
        err =
            take_count(&scan, "tensor_count", TENSOR_BYTES_MIN, LIMIT_FILE_TENSORS, &tensor_count);
    }
    if (err == ERR_OK) {
        err = take_count(&scan, "metadata_kv_count", KEY_BYTES_MIN, LIMIT_FILE_KEYS, &key_count);
    }
    if (err != ERR_OK) {
        return err;
    }
    gguf->keys = arena_array(&gguf->arena, (size_t)key_count, sizeof(*gguf->keys));
    gguf->tensors = arena_array(&gguf->arena, (size_t)tensor_count, sizeof(*gguf->tensors));
    if (gguf->keys == NULL || gguf->tensors == NULL) {
        return FAIL(&scan, ERR_NO_MEMORY, "no memory for the tables");
    }
    for (; gguf->key_count < key_count; gguf->key_count++) {
        err = scan_key(&scan, gguf->key_count);
        if (err != ERR_OK) {
            return err;
        }
    }
    for (; gguf->tensor_count < tensor_count; gguf->tensor_count++) {
        err = scan_tensor(&scan, gguf->tensor_count);
        if (err != ERR_OK) {
            return err;
        }
    }
    gguf->directory_end = scan.at;
    return ERR_OK;
}
