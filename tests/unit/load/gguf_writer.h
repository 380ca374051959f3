/*
 * Writes small GGUF files into memory for tests: metadata and tensors in the order of the calls,
 * version 3, data aligned as general.alignment says (32 unless gguf_writer_u32 sets that key).
 * Running out of memory ends the program: it is a test.
 */
#ifndef TESTS_UNIT_LOAD_GGUF_WRITER_H
#define TESTS_UNIT_LOAD_GGUF_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "engine/kernels/tensor_type.h"
#include "engine/load/gguf.h"

struct gguf_writer_bytes {
    unsigned char *bytes;
    size_t count, capacity;
};

struct gguf_writer {
    struct gguf_writer_bytes pairs, directory, data;
    uint64_t pair_count, tensor_count;
    uint32_t alignment;
};

void gguf_writer_init(struct gguf_writer *writer);
void gguf_writer_free(struct gguf_writer *writer);

void gguf_writer_u32(struct gguf_writer *writer, const char *key, uint32_t value);
void gguf_writer_f32(struct gguf_writer *writer, const char *key, float value);
void gguf_writer_bool(struct gguf_writer *writer, const char *key, bool value);
void gguf_writer_string(struct gguf_writer *writer, const char *key, const char *value);
void gguf_writer_strings(
    struct gguf_writer *writer, const char *key, const char *const *values, size_t count);
/* Numbers of any type from `bytes` bytes of their little-endian form. */
void gguf_writer_array(struct gguf_writer *writer, const char *key, enum gguf_type type,
    const void *values, size_t count, size_t bytes);
/* A pair whose value is these very bytes: any type id, any value, right or wrong. */
void gguf_writer_raw(
    struct gguf_writer *writer, const char *key, uint32_t type_id, const void *value, size_t bytes);

/* `data` is in the tensor's own format, exactly tensor_type_bytes long; shape[0] = inputs. */
void gguf_writer_tensor(struct gguf_writer *writer, const char *name, enum tensor_type type,
    int32_t dims, const int64_t *shape, const void *data);

/* The whole file: malloc'ed to its exact size, the caller's to free. The writer stays usable. */
unsigned char *gguf_writer_finish(const struct gguf_writer *writer, size_t *out_count);
/* Same into a new temporary file; `path` is filled in (at least 64 bytes), the caller unlinks. */
void gguf_writer_save(const struct gguf_writer *writer, char *path, size_t path_bytes);

#endif
