/* See gguf_writer.h. Kept apart from engine/load on purpose: reader and writer share no code, so a
 * misreading of the format shows as a failed test. */
#include "tests/unit/load/gguf_writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void need(bool condition)
{
    if (!condition) {
        perror("gguf_writer");
        abort();
    }
}

static void append(struct gguf_writer_bytes *out, const void *bytes, size_t count)
{
    if (count > out->capacity - out->count) {
        out->capacity = 2 * out->capacity + count;
        out->bytes = realloc(out->bytes, out->capacity);
        need(out->bytes != NULL);
    }
    if (count > 0) {
        memcpy(out->bytes + out->count, bytes, count);
        out->count += count;
    }
}

static void append_u32(struct gguf_writer_bytes *out, uint32_t value)
{
    append(out, &value, sizeof(value));
}

static void append_u64(struct gguf_writer_bytes *out, uint64_t value)
{
    append(out, &value, sizeof(value));
}

static void append_string(struct gguf_writer_bytes *out, const char *text)
{
    append_u64(out, strlen(text));
    append(out, text, strlen(text));
}

static void pad(struct gguf_writer_bytes *out, size_t multiple)
{
    while (out->count % multiple != 0) {
        append(out, "", 1);
    }
}

void gguf_writer_init(struct gguf_writer *writer)
{
    *writer = (struct gguf_writer){.alignment = 32};
}

void gguf_writer_free(struct gguf_writer *writer)
{
    free(writer->pairs.bytes);
    free(writer->directory.bytes);
    free(writer->data.bytes);
    gguf_writer_init(writer);
}

void gguf_writer_raw(
    struct gguf_writer *writer, const char *key, uint32_t type_id, const void *value, size_t bytes)
{
    append_string(&writer->pairs, key);
    append_u32(&writer->pairs, type_id);
    append(&writer->pairs, value, bytes);
    writer->pair_count++;
}

void gguf_writer_u32(struct gguf_writer *writer, const char *key, uint32_t value)
{
    if (strcmp(key, "general.alignment") == 0) {
        writer->alignment = value;
    }
    gguf_writer_raw(writer, key, GGUF_U32, &value, sizeof(value));
}

void gguf_writer_f32(struct gguf_writer *writer, const char *key, float value)
{
    gguf_writer_raw(writer, key, GGUF_F32, &value, sizeof(value));
}

void gguf_writer_bool(struct gguf_writer *writer, const char *key, bool value)
{
    const unsigned char byte = value;
    gguf_writer_raw(writer, key, GGUF_BOOL, &byte, 1);
}

void gguf_writer_string(struct gguf_writer *writer, const char *key, const char *value)
{
    gguf_writer_raw(writer, key, GGUF_STRING, NULL, 0);
    append_string(&writer->pairs, value);
}

void gguf_writer_strings(
    struct gguf_writer *writer, const char *key, const char *const *values, size_t count)
{
    gguf_writer_array(writer, key, GGUF_STRING, NULL, count, 0);
    for (size_t i = 0; i < count; i++) {
        append_string(&writer->pairs, values[i]);
    }
}

void gguf_writer_array(struct gguf_writer *writer, const char *key, enum gguf_type type,
    const void *values, size_t count, size_t bytes)
{
    gguf_writer_raw(writer, key, GGUF_ARRAY, NULL, 0);
    append_u32(&writer->pairs, type);
    append_u64(&writer->pairs, count);
    append(&writer->pairs, values, bytes);
}

void gguf_writer_tensor(struct gguf_writer *writer, const char *name, enum tensor_type type,
    int32_t dims, const int64_t *shape, const void *data)
{
    static const uint32_t ids[TENSOR_TYPE_COUNT] = {
#define X(name, word, id, block, bytes) [TENSOR_##name] = id,
        TENSOR_TYPE_MAP(X)
#undef X
    };
    size_t count = 1;
    append_string(&writer->directory, name);
    append_u32(&writer->directory, (uint32_t)dims);
    for (int32_t i = 0; i < dims; i++) {
        append_u64(&writer->directory, (uint64_t)shape[i]);
        count *= (size_t)shape[i];
    }
    append_u32(&writer->directory, ids[type]);
    pad(&writer->data, writer->alignment);
    append_u64(&writer->directory, writer->data.count);
    append(&writer->data, data,
        count / (size_t)tensor_type_block(type) * tensor_type_block_bytes(type));
    writer->tensor_count++;
}

unsigned char *gguf_writer_finish(const struct gguf_writer *writer, size_t *out_count)
{
    struct gguf_writer_bytes file = {0};
    append(&file, "GGUF", 4);
    append_u32(&file, 3);
    append_u64(&file, writer->tensor_count);
    append_u64(&file, writer->pair_count);
    append(&file, writer->pairs.bytes, writer->pairs.count);
    append(&file, writer->directory.bytes, writer->directory.count);
    if (writer->tensor_count > 0) {
        pad(&file, writer->alignment);
    }
    append(&file, writer->data.bytes, writer->data.count);
    unsigned char *exact = malloc(file.count); /* so that a sanitizer sees the first byte past it */
    need(exact != NULL);
    memcpy(exact, file.bytes, file.count);
    free(file.bytes);
    *out_count = file.count;
    return exact;
}

void gguf_writer_save(const struct gguf_writer *writer, char *path, size_t path_bytes)
{
    const char *folder = getenv("TMPDIR");
    snprintf(path, path_bytes, "%s/gguf-XXXXXX", folder == NULL ? "/tmp" : folder);
    const int fd = mkstemp(path);
    need(fd >= 0);
    size_t count = 0;
    unsigned char *bytes = gguf_writer_finish(writer, &count);
    need(write(fd, bytes, count) == (ssize_t)count);
    need(close(fd) == 0);
    free(bytes);
}
