/*
 * GGUF versions 2 and 3 (ggml-org/ggml, docs/gguf.md): metadata and the tensor directory, with
 * every count, length, offset and type checked against the bytes left before use. Metadata is read
 * whole into memory; tensor data is read with pread, never mapped, so a file that shrinks is a load
 * error. An error names the key or the tensor.
 *
 * GGUF is two things: a way to lay out bytes, and names and types for what a checkpoint says and
 * holds. The engine speaks the second. A folder of safetensors is put into the same struct when it
 * is opened (checkpoint.h), so that whoever reads keys and tensors knows one kind of checkpoint.
 */
#ifndef ENGINE_LOAD_GGUF_H
#define ENGINE_LOAD_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "engine/base/assert.h"
#include "engine/base/err.h"
#include "engine/kernels/tensor_type.h"

struct gguf;

enum gguf_type {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64
}; /* ids of the format */

struct gguf_string {
    const char *bytes; /* valid UTF-8 unless it is a token piece; not NUL-terminated */
    size_t count;
};

struct gguf_array {
    enum gguf_type type; /* of the elements; never GGUF_ARRAY */
    size_t count;
    const unsigned char *data;         /* packed little-endian numbers, or NULL for strings */
    const struct gguf_string *strings; /* [count] for strings */
};

/* Element `index` of an array of that very type; the data may have any alignment. */
static inline float gguf_array_f32(const struct gguf_array *array, size_t index)
{
    float value;
    ASSERT(array->type == GGUF_F32 && index < array->count);
    memcpy(&value, array->data + index * sizeof(value), sizeof(value));
    return value;
}

static inline int32_t gguf_array_i32(const struct gguf_array *array, size_t index)
{
    int32_t value;
    ASSERT(array->type == GGUF_I32 && index < array->count);
    memcpy(&value, array->data + index * sizeof(value), sizeof(value));
    return value;
}

struct gguf_tensor {
    struct gguf_string name;
    enum tensor_type type;
    int32_t dims;
    int64_t shape[4]; /* shape[0] = inputs (runs fastest), unused ones are 1 */
    uint64_t offset;  /* from the start of its file */
    size_t bytes;
    int32_t part; /* which file; -1 = bytes in memory */
    /* Rows of a head whose halves the file keeps one after the other, while networks expect them
     * interleaved (rotary positions); gguf_read turns them. 0 = rows lie as they are read. */
    int32_t turned_rows;
    bool less_one;     /* the file keeps the numbers of a vector less 1 (weights_vector adds it) */
    const char *shown; /* its name in the file; NULL = `name` */
};

/* An error that names a key or a tensor in our terms gets the name it has in the files, where that
 * is another: "config.json: num_attention_heads". Returns `err`. */
enum err gguf_name_error(const struct gguf *gguf, enum err err, struct err_info *info);

/* Opens a regular file and checks the whole directory. */
MUST_USE enum err gguf_open(const char *path, struct gguf **out_gguf, struct err_info *info);
/* Same over bytes in memory (tests, fuzzing); the bytes stay the caller's. */
MUST_USE enum err gguf_open_memory(
    const void *bytes, size_t count, struct gguf **out_gguf, struct err_info *info);
void gguf_close(struct gguf *gguf); /* NULL allowed */
uint64_t gguf_file_bytes(const struct gguf *gguf);
bool gguf_is_folder(const struct gguf *gguf); /* checkpoint.h */

/* Longest sequence the checkpoint is for, an integer, where that is less than its positions:
 * max_seq_length of sentence-transformers. */
#define GGUF_SEQUENCE_KEY "magnetd.sequence_length"

bool gguf_has(const struct gguf *gguf, const char *key);
/* Each returns OK and writes, or leaves *out as it was (the caller's default) and returns OK when
 * the key is absent and !required; ERR_FORMAT naming the key when absent and required, of another
 * type (integers of any width are one family, checked for range) or not finite. */
MUST_USE enum err gguf_get_i64(const struct gguf *gguf, const char *key, bool required, int64_t min,
    int64_t max, int64_t *out, struct err_info *info);
MUST_USE enum err gguf_get_f64(
    const struct gguf *gguf, const char *key, bool required, double *out, struct err_info *info);
MUST_USE enum err gguf_get_bool(
    const struct gguf *gguf, const char *key, bool required, bool *out, struct err_info *info);
MUST_USE enum err gguf_get_string(const struct gguf *gguf, const char *key, bool required,
    struct gguf_string *out, struct err_info *info);
MUST_USE enum err gguf_get_array(const struct gguf *gguf, const char *key, bool required,
    enum gguf_type type, struct gguf_array *out, struct err_info *info);

/* Keys in file order, for checks that every known prefix key is understood. */
int32_t gguf_key_count(const struct gguf *gguf);
const char *gguf_key(const struct gguf *gguf, int32_t index);

int32_t gguf_tensor_count(const struct gguf *gguf);
const struct gguf_tensor *gguf_tensor_at(const struct gguf *gguf, int32_t index);
const struct gguf_tensor *gguf_find_tensor(const struct gguf *gguf, const char *name);
/* Reads bytes [from, from + count) of a tensor; ERR_IO naming the tensor on a short read. Where
 * turned_rows is set these are bytes of the interleaved tensor. */
MUST_USE enum err gguf_read(const struct gguf *gguf, const struct gguf_tensor *tensor, size_t from,
    size_t count, void *out, struct err_info *info);

#endif
