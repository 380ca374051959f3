/*
 * Number formats of tensors in model files, and their exact values.
 *
 * Block formats are those of GGUF (ggml-org/ggml, docs/gguf.md and the block structs it names): a
 * row is a sequence of blocks, `block` numbers in `block_bytes` bytes. tensor_type_unpack gives
 * the float32 each format defines, e.g. Q4_1: fl(fl(d * q) + m) with f16 d and m.
 */
#ifndef ENGINE_KERNELS_TENSOR_TYPE_H
#define ENGINE_KERNELS_TENSOR_TYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "engine/base/attr.h"

/* name, word, GGUF type id, numbers per block, bytes per block */
#define TENSOR_TYPE_MAP(X)                                                                         \
    X(F32, "f32", 0, 1, 4)                                                                         \
    X(F16, "f16", 1, 1, 2)                                                                         \
    X(Q4_0, "q4_0", 2, 32, 18)                                                                     \
    X(Q4_1, "q4_1", 3, 32, 20)                                                                     \
    X(Q5_0, "q5_0", 6, 32, 22)                                                                     \
    X(Q5_1, "q5_1", 7, 32, 24)                                                                     \
    X(Q8_0, "q8_0", 8, 32, 34)                                                                     \
    X(Q4_K, "q4_k", 12, 256, 144)                                                                  \
    X(Q5_K, "q5_k", 13, 256, 176)                                                                  \
    X(Q6_K, "q6_k", 14, 256, 210)                                                                  \
    X(BF16, "bf16", 30, 1, 2)

enum tensor_type {
#define X(name, word, id, block, bytes) TENSOR_##name,
    TENSOR_TYPE_MAP(X)
#undef X
        TENSOR_TYPE_COUNT
};

const char *tensor_type_word(enum tensor_type type);
int32_t tensor_type_block(enum tensor_type type);
size_t tensor_type_block_bytes(enum tensor_type type);
/* Whether weights are a q + b with a b of their own: products then want sums of their inputs. */
bool tensor_type_has_minima(enum tensor_type type);
/* From a GGUF type id; false for ids that are unknown, removed or not supported. */
MUST_USE bool tensor_type_from_gguf(uint32_t id, enum tensor_type *out_type);
/* Bytes of `count` numbers (a multiple of the block); false on overflow or a broken block. */
MUST_USE bool tensor_type_bytes(enum tensor_type type, size_t count, size_t *out_bytes);
/* Exact float32 values of `count` numbers (a multiple of the block). Plain C; the reference. */
void tensor_type_unpack(enum tensor_type type, const void *blocks, size_t count, float *out);
/* False when one of `count` numbers (a multiple of the block) is NaN or infinite. Reads only the
 * scales of block formats. */
MUST_USE bool tensor_type_finite(enum tensor_type type, const void *blocks, size_t count);

#endif
