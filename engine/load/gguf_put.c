/*
 * Keys and tensors that come from somewhere else than a GGUF file, put into the same struct: see
 * gguf.h. Values lie in the buffer as a file would hold them, so that everything behind reads both
 * alike.
 */
#include <string.h>
#include "engine/base/checked.h"
#include "engine/load/gguf_internal.h"

enum { BUFFER_BYTES_FIRST = 4096 };

static enum err no_memory(struct err_info *info, const char *where)
{
    return err_set(info, ERR_NO_MEMORY, where, "no memory to keep it");
}

enum err gguf_put_room(struct gguf *gguf, size_t tensors, struct err_info *info)
{
    struct gguf_tensor *room = arena_array(&gguf->arena, tensors, sizeof(*room));
    if (room == NULL) {
        return no_memory(info, "tensors");
    }
    if (gguf->tensor_count > 0) {
        memcpy(room, gguf->tensors, (size_t)gguf->tensor_count * sizeof(*room));
    }
    gguf->tensors = room;
    gguf->tensor_room = tensors;
    return ERR_OK;
}

/* Appends bytes to the buffer and says where they lie. */
static enum err put_bytes(struct gguf *gguf, const char *where, const void *bytes, size_t count,
    size_t *out_at, struct err_info *info)
{
    size_t end;
    if (!checked_add(gguf->held, count, &end) || end > LIMIT_FILE_META_BYTES) {
        return err_set(
            info, ERR_LIMIT, where, "metadata is larger than %d MiB", LIMIT_FILE_META_BYTES >> 20);
    }
    if (end > gguf->buffer_bytes) {
        const size_t target = MAX((size_t)BUFFER_BYTES_FIRST, 2 * end);
        unsigned char *grown = gguf->buffer == NULL ? mem_alloc(MEM_OTHER, target)
                                                    : mem_grow(MEM_OTHER, gguf->buffer, target);
        if (grown == NULL) {
            return no_memory(info, where);
        }
        gguf->buffer = grown;
        gguf->bytes = grown;
        gguf->buffer_bytes = target;
    }
    if (count > 0) {
        memcpy(gguf->buffer + gguf->held, bytes, count);
    }
    *out_at = gguf->held;
    gguf->held = end;
    return ERR_OK;
}

static enum err put_key(struct gguf *gguf, const char *name, const char *shown,
    const struct gguf_key *like, const void *bytes, size_t count, struct err_info *info)
{
    if (gguf->keys == NULL) {
        gguf->keys = arena_array(&gguf->arena, LIMIT_PUT_KEYS, sizeof(*gguf->keys));
    }
    if (gguf->keys == NULL) {
        return no_memory(info, shown);
    }
    if (gguf->key_count == LIMIT_PUT_KEYS) {
        return err_set(info, ERR_LIMIT, shown, "more than %d keys", LIMIT_PUT_KEYS);
    }
    struct gguf_key key = *like;
    enum err err = put_bytes(gguf, shown, bytes, count, &key.value_at, info);
    if (err != ERR_OK) {
        return err;
    }
    key.name = arena_copy(&gguf->arena, name, strlen(name));
    key.shown = arena_copy(&gguf->arena, shown, strlen(shown));
    if (key.name == NULL || key.shown == NULL) {
        return no_memory(info, shown);
    }
    gguf->keys[gguf->key_count++] = key;
    return ERR_OK;
}

enum err gguf_put_i64(
    struct gguf *gguf, const char *key, const char *shown, int64_t value, struct err_info *info)
{
    const struct gguf_key like = {.type = GGUF_I64};
    return put_key(gguf, key, shown, &like, &value, sizeof(value), info);
}

enum err gguf_put_f64(
    struct gguf *gguf, const char *key, const char *shown, double value, struct err_info *info)
{
    const struct gguf_key like = {.type = GGUF_F64};
    return put_key(gguf, key, shown, &like, &value, sizeof(value), info);
}

enum err gguf_put_bool(
    struct gguf *gguf, const char *key, const char *shown, bool value, struct err_info *info)
{
    const struct gguf_key like = {.type = GGUF_BOOL};
    const unsigned char byte = value;
    return put_key(gguf, key, shown, &like, &byte, 1, info);
}

enum err gguf_put_string(struct gguf *gguf, const char *key, const char *shown, const char *bytes,
    size_t count, struct err_info *info)
{
    const struct gguf_key like = {.type = GGUF_STRING, .count = count};
    return put_key(gguf, key, shown, &like, bytes, count, info);
}

enum err gguf_put_i32s(struct gguf *gguf, const char *key, const char *shown, const int32_t *values,
    size_t count, struct err_info *info)
{
    const struct gguf_key like = {.type = GGUF_ARRAY, .element = GGUF_I32, .count = count};
    return put_key(gguf, key, shown, &like, values, count * sizeof(*values), info);
}

enum err gguf_put_tensor(struct gguf *gguf, const struct gguf_tensor *tensor, struct err_info *info)
{
    if (gguf->tensors == NULL) {
        enum err err = gguf_put_room(gguf, 1, info);
        if (err != ERR_OK) {
            return err;
        }
    }
    ASSERT((size_t)gguf->tensor_count < gguf->tensor_room);
    struct gguf_tensor put = *tensor;
    put.name.bytes = arena_copy(&gguf->arena, tensor->name.bytes, tensor->name.count);
    if (put.name.bytes == NULL) {
        return no_memory(info, tensor->name.bytes);
    }
    gguf->tensors[gguf->tensor_count++] = put;
    return ERR_OK;
}

enum err gguf_put_vector(
    struct gguf *gguf, const char *name, const float *values, size_t count, struct err_info *info)
{
    size_t at = 0;
    enum err err = put_bytes(gguf, name, values, count * sizeof(*values), &at, info);
    const struct gguf_tensor tensor = {.name = {name, strlen(name)},
        .type = TENSOR_F32,
        .dims = 1,
        .shape = {(int64_t)count, 1, 1, 1},
        .offset = at,
        .bytes = count * sizeof(*values),
        .part = -1};
    return err == ERR_OK ? gguf_put_tensor(gguf, &tensor, info) : err;
}
