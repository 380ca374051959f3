/*
 * Weights by name, whatever file they come from: a network asks for a tensor by name and exact
 * shape and gets it packed in kernel order or as plain floats. What a network never asked for is a
 * load error (weights_unused), so that a file is never run wrongly. A NaN or infinite number in a
 * tensor is ERR_NON_FINITE naming it. Reading goes through one bounded buffer.
 *
 * All tensors lie in one block that the caller owns: a dry pass counts its bytes, a second fills
 * it. One block can be made of huge pages (engine/base/mem.h); hundreds of matrices of a few
 * hundred KiB could not, and reading them costs more translations of addresses.
 */
#ifndef ENGINE_LOAD_WEIGHTS_H
#define ENGINE_LOAD_WEIGHTS_H

#include "engine/base/err.h"
#include "engine/base/threads.h"
#include "engine/kernels/kernels.h"
#include "engine/load/gguf.h"

enum { WEIGHTS_ALIGNMENT = 64 };

/* Where a matrix of the file went: rows [from, from + out->outputs) of its `of`. */
struct weights_matrix {
    int32_t tensor; /* index in the file */
    int32_t from, of;
    struct packed *out;
};

struct weights {
    const struct gguf *gguf;
    const struct kernels *kernels;
    struct threads *threads; /* packing in parallel; NULL = the caller alone */
    unsigned char *block;    /* tensors are cut from it; NULL = dry: only check names, types and
                                shapes, and count bytes */
    uint64_t block_bytes;
    uint64_t bytes;      /* handed out so far, each tensor rounded up to WEIGHTS_ALIGNMENT */
    unsigned char *used; /* [tensor_count] */
    void *read_buffer;
    size_t read_bytes; /* size of read_buffer; grows to the widest 16 rows */
    /* Every matrix handed out so far, in order: what is laid on the weights later (adapters) finds
     * its places by them. Whoever wants to keep the list sets it to NULL here. */
    struct weights_matrix *matrices;
    int32_t matrix_count;
};

MUST_USE enum err weights_init(struct weights *weights, const struct gguf *gguf,
    const struct kernels *kernels, struct threads *threads, unsigned char *block,
    uint64_t block_bytes, struct err_info *info);
void weights_free(struct weights *weights); /* not the block */

bool weights_has(const struct weights *weights, const char *name);
/* A matrix [outputs, inputs] of any type; out->data is in the block. Dry: NULL. */
MUST_USE enum err weights_matrix(struct weights *weights, const char *name, int32_t outputs,
    int32_t inputs, struct packed *out, struct err_info *info);
/* The same for rows [from, from + outputs) of a matrix of `of` rows, which holds several. */
MUST_USE enum err weights_matrix_part(struct weights *weights, const char *name, int32_t from,
    int32_t outputs, int32_t of, int32_t inputs, struct packed *out, struct err_info *info);
/* A vector of `count` numbers of any unblocked type, widened to f32, in the block. Dry: NULL. */
MUST_USE enum err weights_vector(
    struct weights *weights, const char *name, int32_t count, float **out, struct err_info *info);
/* Rows of such numbers, [rows, columns]. */
MUST_USE enum err weights_table(struct weights *weights, const char *name, int32_t rows,
    int32_t columns, float **out, struct err_info *info);
/* Rows of a tensor; 0 if there is none of this name, or more than LIMIT_VOCAB. */
int32_t weights_rows(const struct weights *weights, const char *name);
/* ERR_UNSUPPORTED naming the first tensor nobody asked for. */
MUST_USE enum err weights_unused(const struct weights *weights, struct err_info *info);

#endif
