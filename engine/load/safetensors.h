/*
 * The directory of one safetensors file (huggingface/safetensors, README "Format"):
 *
 *     header length u64 | header: JSON | data
 *     {"NAME": {"dtype": "F32", "shape": [outputs, inputs], "data_offsets": [begin, end]}, ...}
 *
 * Everything is checked before it is believed: the header lies within the file and our bound, sizes
 * are shape times type, and the tensors cover the data from its first byte to its last without
 * holes or overlaps. An error names the tensor, or the file where it has none.
 */
#ifndef ENGINE_LOAD_SAFETENSORS_H
#define ENGINE_LOAD_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>
#include "engine/base/arena.h"
#include "engine/base/err.h"

enum safetensors_type { SAFETENSORS_F32, SAFETENSORS_F16, SAFETENSORS_BF16, SAFETENSORS_I64 };

enum { SAFETENSORS_DIMS = 4 };

struct safetensors_tensor {
    const char *name; /* printable ASCII, NUL-terminated, in the arena */
    enum safetensors_type type;
    int32_t dims; /* a scalar has 1 */
    /* As the file has them, outermost first. */
    int64_t shape[SAFETENSORS_DIMS];
    uint64_t offset; /* from the start of the file */
    size_t bytes;
};

struct safetensors {
    struct safetensors_tensor *tensors; /* in the order of their data */
    size_t count;
};

/* Reads the directory of an open file; everything is in the arena. `file` names it in errors. */
MUST_USE enum err safetensors_read(int fd, uint64_t file_bytes, const char *file,
    struct arena *arena, struct safetensors *out, struct err_info *info);
/* Same over a whole file in memory (tests, fuzzing). */
MUST_USE enum err safetensors_read_memory(const void *bytes, size_t count, const char *file,
    struct arena *arena, struct safetensors *out, struct err_info *info);

const char *safetensors_type_word(enum safetensors_type type);

#endif
