/*
 * A loaded network, and the forward pass over packed rows of many sequences at once.
 *
 * A pass is code, not a graph: model_forward runs a batch through a range of *units*, where unit
 * 2l is layer l's first half (norm, K and V, rotate, store) and unit 2l + 1 its second (norm, Q,
 * rotate, attention, output, MLP). No row of a context block attends in layer l before the K/V of
 * the whole block are stored; running a long block unit by unit in several steps is how it is
 * sliced for fairness. Between units a row is only its residual, batch->x.
 *
 *     unit:   0        1        2        3      ...  2L-1
 *          [embed, K/V 0][attend 0][K/V 1][attend 1] ... [attend L-1, final norm of rows read]
 */
#ifndef ENGINE_MODEL_MODEL_H
#define ENGINE_MODEL_MODEL_H

#include "engine/base/threads.h"
#include "engine/cache/pages.h"
#include "engine/engine_limits.h"
#include "engine/kernels/kernels.h"
#include "engine/load/gguf.h"
#include "engine/types.h"

struct model;
struct scratch;

enum {
    /* Positions a row may have: gaps reserve positions that no slot fills, so they can pass the
     * slots of the longest context, here up to twice as many. */
    MODEL_POSITIONS = 2 * LIMIT_CONTEXT,
};

/* Consecutive slots of one sequence. */
struct run {
    int32_t row_from, row_count; /* rows of the batch */
    int32_t slot_from;           /* slot of its first row */
    int32_t context_count;
    /* Pages and positions are held and written for [0, slot_from + row_count), and for the whole
     * context of a context row. They may be of a pool of one layer, if all rows of the sequence go
     * through each unit before any goes through the next, in one pass or in slices. */
    struct slots *slots;
    /* K/V of its rows are in the pages already, which may be shared: the rows run for what is read
     * from them alone. */
    bool stored;
    int32_t stack;    /* of adapters that lies on its rows (stack.h); 0 = none */
    int32_t steering; /* 0 = none; nothing else exists yet */
    enum err err;     /* written by each pass: ERR_OK, or ERR_NON_FINITE when a K/V or hidden value
                     was: then its reads and pages hold nothing of use, and later units must not
                     run */
};

/* What is read from a row after the final norm. */
struct row_read {
    int32_t row;   /* of the batch */
    int32_t layer; /* -1 = after the final norm; else the residual after that layer */
    float *hidden; /* [hidden], written when the pass reaches it. May be the row's own x, if this is
                      the row's only read, after the final norm. */
};

/* Rows in run order: the runs cover [0, row_count) one after the other. */
struct batch {
    int32_t row_count;
    const int32_t *tokens;    /* [row_count], each within the vocabulary */
    const int32_t *positions; /* [row_count], each in [0, model_positions) */
    float **x;                /* [row_count] -> [hidden]: the residual of each row, kept by the
                                 caller between units */
    struct run *runs;
    int32_t run_count;
    struct row_read *reads;
    int32_t read_count;
};

/* Opens the network named by general.architecture. `dry` checks names, types and shapes and counts
 * bytes without loading data. Errors name the key or tensor. */
MUST_USE enum err model_open(const struct gguf *gguf, const struct kernels *kernels,
    struct threads *threads, bool dry, struct model **out_model, struct err_info *info);
void model_close(struct model *model); /* NULL allowed */
const struct model_info *model_info(const struct model *model);
struct model_info *model_info_mutable(struct model *model); /* profile and engine fill it in */
uint64_t model_bytes(const struct model *model);            /* weights in kernel order */
/* From now on matrices of block formats are multiplied with inputs in 8 bits: before any scratch is
 * sized. ERR_CONFIG, naming `activations`, where no matrix is of such a format or the kernels have
 * no such product: the option would do nothing. */
MUST_USE enum err model_use_int8(struct model *model, struct err_info *info);

/* Scratch for passes of any size: rows are worked on in tiles of `tile_rows`, 1..4096. */
MUST_USE enum err scratch_open(
    const struct model *model, int32_t tile_rows, struct scratch **out_scratch);
void scratch_close(struct scratch *scratch); /* NULL allowed */
uint64_t scratch_bytes(const struct model_info *info, int32_t tile_rows);

int32_t model_units(const struct model *model); /* 2 * layers */
/* Positions a row may have: MODEL_POSITIONS, or as many as the network has learned. */
int32_t model_positions(const struct model *model);
/* Runs every row of the batch through units [unit_from, unit_to). When unit_from is 0 the token
 * embeddings are written to x first; reads happen when their layer is reached. The last unit skips
 * rows that nothing is read from: their x is then of no further use. The caller must have stored,
 * or have in the same batch, every slot that a row sees in a layer before that row attends. */
void model_forward(const struct model *model, struct scratch *scratch, struct threads *threads,
    struct batch *batch, int32_t unit_from, int32_t unit_to);
/* Only of a model whose info does not say embeds_only.
 * logits[r] = head of hidden row r: rows [count] -> [vocab] each at logits + r * vocab. */
void model_logits(const struct model *model, struct scratch *scratch, struct threads *threads,
    const float *const *hidden, int32_t count, float *logits);

/* Only of a model whose info has a dense_widest: the dense head of pooled vectors, in place. Row r
 * is [max(hidden, vector)]: hidden numbers go in, vector come out. */
void model_dense(const struct model *model, struct scratch *scratch, struct threads *threads,
    double *const *rows, int32_t count);

#endif
