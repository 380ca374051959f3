/*
 * A network's tensors as tables: a row says what a tensor is called, its exact shape and where it
 * goes. A tensor of a table must be there. Calls are made twice, first to count
 * (engine/load/weights.h).
 */
#ifndef ENGINE_ARCH_LOAD_H
#define ENGINE_ARCH_LOAD_H

#include "engine/model/parts.h"

struct load_matrix {
    const char *name; /* with its ending: "attn_q.weight" */
    int32_t outputs, inputs;
    struct packed *out;
    int32_t from,
        of; /* of > 0: rows from `from` on of a tensor of `of` rows, which holds several */
};

struct load_vector {
    const char *name;
    int32_t count;
    float **out;
};

/* Names are those below "blk.L." */
int32_t load_rows(const struct weights *weights, int32_t l, const char *name); /* weights_rows */
MUST_USE enum err load_matrices(struct weights *weights, int32_t l, const struct load_matrix *rows,
    size_t row_count, struct err_info *info);
MUST_USE enum err load_vectors(struct weights *weights, int32_t l, const struct load_vector *rows,
    size_t row_count, struct err_info *info);

/* The embedding, and the head, which is the same matrix where the file has no other. */
MUST_USE enum err load_embedding_and_head(
    struct model *model, struct weights *weights, struct err_info *info);

#endif
