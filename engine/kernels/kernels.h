/*
 * The kernel table: what differs between CPUs. A plain C rung (ref/) is the reference and fills
 * every entry; faster rungs overwrite entries on CPUs that have the instructions. ISA flags belong
 * to the ISA's own static library.
 *
 * Determinism (docs/numerics.md): for one output number, every kernel here reduces in an order
 * fixed by the shapes of that row alone. linear: one sum per (row, output), inputs in ascending
 * order in chains of fixed length, whatever the number of rows, panels or threads. No kernel reads
 * lanes past a row's own length. `blas` does not promise this and says so.
 *
 * All kernels are leaves: no allocation, no locks, callable from any thread on disjoint output.
 * Unless said otherwise pointers may have any alignment of their type.
 */
#ifndef ENGINE_KERNELS_KERNELS_H
#define ENGINE_KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "engine/base/err.h"
#include "engine/kernels/tensor_type.h"

enum {
    PANEL_OUTPUTS = 16, /* outputs of one packed panel: two AVX2 registers, one AVX-512 */
    SUM_INPUTS = 32,    /* of one sum of an activation */
    KV_TILE = 16,       /* slots of one transposed K tile */
    /* Slots of one part of attention: few enough that a few hundred slots feed several threads,
     * many enough that putting parts together costs about 1 %. */
    ATTENTION_PART = 256,
    HEAD_DIM_MAX = 512,
};

/* A weight matrix [outputs, inputs] in kernel order: panels of PANEL_OUTPUTS outputs, the last
 * panel filled up with zeros. The layout inside a panel belongs to the rung that packed it. */
struct packed {
    enum tensor_type type;
    int32_t outputs, inputs;
    int32_t panels;
    size_t panel_bytes;
    unsigned char *data; /* 64-byte aligned, panels * panel_bytes, in the block of weights */
};

/* An input prepared once and consumed by several linears. F32 aliases the caller's rows; rows of
 * INT8 are told in int8_row.h. */
enum activation_format { ACTIVATION_F32, ACTIVATION_INT8 };

struct activation {
    enum activation_format format;
    int32_t rows, inputs;
    size_t row_bytes; /* distance between rows */
    const void *data;
    /* F32 whose inputs are whole blocks, on a rung that has sum_blocks: its sums of every row,
     * [rows][inputs / SUM_INPUTS]. Formats with minima need them. */
    const float *sums;
    /* Where the caller will probably go on after the panels of a call, for the cache; 0 = right
     * behind them. */
    int32_t panel_next;
};

enum kv_type { KV_F16, KV_F32 };

/* One layer's and one K/V head's view of a sequence's pages. A page holds page_slots slots (a
 * multiple of KV_TILE). At pages[p] + head_offset lie, for this (layer, head):
 *     K: page_slots / KV_TILE tiles of [head_dim][KV_TILE]      (slots run fastest)
 *     V: [page_slots][head_dim]
 * of kv_type numbers. Slots not yet stored hold any bits, NaN included. */
struct kv_view {
    enum kv_type type;
    int32_t page_slots, head_dim;
    unsigned char *const *pages;
    size_t head_offset;
};

/* Attention of one run of rows (consecutive slots of one sequence) for one query head. */
struct attention_args {
    const float *q; /* row r's head at q + r * q_stride, [head_dim], rotated, not scaled */
    float *out;     /* row r's head at out + r * out_stride, [head_dim] */
    size_t q_stride, out_stride;     /* in floats */
    int32_t slot_from;               /* slot of row 0 */
    int32_t context_count;           /* mask rule, engine/attn/mask.h */
    struct kv_view kv;               /* of the K/V head this query head uses */
    float scale;                     /* 1/sqrt(head_dim) for llama */
    const int32_t *positions;        /* of every slot; used only with a reach or a slope */
    int32_t reach_left, reach_right; /* in positions; REACH_ALL = no window */
    float alibi_slope;               /* added: -slope * |position difference|; 0 = none */
};

enum rope_style { ROPE_INTERLEAVED, ROPE_HALF };

struct kernels {
    const char *name; /* "ref", "avx2", "avxvnni", "avx512", "avx512vnni", "neon", "blas" */
    bool deterministic;

    /* ---- weights ---- */
    /* Bytes of a panel of `inputs` numbers; 0 if the rung cannot hold this type or width. */
    size_t (*panel_bytes)(enum tensor_type type, int32_t inputs);
    /* Packs rows [output_from, output_from + output_count) from the file's own consecutive rows.
     * output_from is a multiple of PANEL_OUTPUTS; output_count is one too, or ends the matrix. */
    void (*pack)(const struct packed *packed, int32_t output_from, int32_t output_count,
        const void *file_rows);
    /* The exact float32 values of one row (token embeddings of a tied head): [inputs]. */
    void (*unpack_row)(const struct packed *packed, int32_t output, float *out);

    /* ---- linear ---- */
    /* y[r, o] = sum_i x[r, i] * w[o, i] for rows [row_from, row_to) and panels [panel_from,
     * panel_to); y points at row 0, output 0; row distance y_stride floats. Writes exactly the
     * outputs of those panels that exist (< outputs). */
    void (*linear)(const struct packed *packed, const struct activation *x, int32_t row_from,
        int32_t row_to, int32_t panel_from, int32_t panel_to, float *y, size_t y_stride);
    /* The same for an input in 8 bits and a matrix of a block format; float formats have no such
     * product. Bits are equal on all rungs. NULL, with quantize: the rung has none. */
    void (*linear_int8)(const struct packed *packed, const struct activation *x, int32_t row_from,
        int32_t row_to, int32_t panel_from, int32_t panel_to, float *y, size_t y_stride);
    /* One row of ACTIVATION_INT8 from `inputs` floats, a multiple of 32; out is 64-byte aligned. */
    void (*quantize)(const float *x, int32_t inputs, void *out);
    /* Sums of one row for `linear`: out[i] = x[32 i] + ... + x[32 i + 31]. NULL: it wants none. */
    void (*sum_blocks)(const float *x, int32_t inputs, float *out);

    /* ---- K/V cache ---- */
    /* Stores one slot's K and V [heads_kv, head_dim] into a page; head h of this layer begins at
     * page + layer_offset + h * head_bytes. False when a value is NaN, infinite or does not fit
     * the type: the caller fails the sequence with ERR_NON_FINITE. */
    bool (*kv_store)(enum kv_type type, int32_t page_slots, int32_t heads_kv, int32_t head_dim,
        unsigned char *page, size_t layer_offset, size_t head_bytes, int32_t slot_in_page,
        const float *k, const float *v);
    /* Online softmax (Milakov & Gimelshein, arXiv 1805.02867) over tiles anchored at slot 0, for
     * rows [row_from, row_to) of the run. */
    void (*attention)(const struct attention_args *args, int32_t row_from, int32_t row_to);
    /* The same bits for one row, so that several threads can share a long sequence: the state
     * after slots [part, part + 1) * ATTENTION_PART alone, [attention_state_floats]; then, from
     * the states of all parts that the row sees, one after the other, its output [head_dim].
     * NULL: this rung has no parts. */
    void (*attention_part)(
        const struct attention_args *args, int32_t row, int32_t part, float *state);
    void (*attention_merge)(const float *states, int32_t part_count, int32_t head_dim, float *out);

    /* ---- elementwise and norms, one row a call ---- */
    /* out = x / sqrt(mean(x^2) + eps) * weight; out may be x. */
    void (*rms_norm)(const float *x, const float *weight, float eps, int32_t count, float *out);
    /* out = (x - mean) / sqrt(variance + eps) * weight + bias; bias NULL: none; out may be x. */
    void (*layer_norm)(const float *x, const float *weight, const float *bias, float eps,
        int32_t count, float *out);
    /* Rotates `heads` heads of head_dim in place; the first rotary_dim of each take part.
     * cos_sin: [rotary_dim / 2][2]. */
    void (*rope)(enum rope_style style, float *x, int32_t heads, int32_t head_dim,
        int32_t rotary_dim, const float *cos_sin);
    /* out = silu(gate) * up; out may be gate. */
    void (*silu_mul)(const float *gate, const float *up, int32_t count, float *out);
    /* out = gelu(gate) * up, gelu exact or by tanh; up NULL: gelu(gate); out may be gate. */
    void (*gelu_erf)(const float *gate, const float *up, int32_t count, float *out);
    void (*gelu_tanh)(const float *gate, const float *up, int32_t count, float *out);
    /* x += y */
    void (*add)(float *x, const float *y, int32_t count);

    /* ---- scans over logits ---- */
    /* Index of the greatest value, the lowest index among equals. NaN never wins. */
    int32_t (*argmax)(const float *x, int32_t count);
    /* log(sum(exp(x))) with its reduction order fixed by count. */
    double (*log_sum_exp)(const float *x, int32_t count);
    bool (*all_finite)(const float *x, int32_t count);
};

/* Bytes of one (layer, K/V head) region of a page: K then V. */
static inline size_t kv_head_bytes(enum kv_type type, int32_t page_slots, int32_t head_dim)
{
    return (size_t)2 * (size_t)page_slots * (size_t)head_dim * (type == KV_F16 ? 2 : 4);
}

static inline size_t attention_state_floats(int32_t head_dim)
{
    return ((size_t)head_dim + PANEL_OUTPUTS - 1) / PANEL_OUTPUTS * PANEL_OUTPUTS + PANEL_OUTPUTS;
}

/* Fills the table. name NULL = the best rung that this CPU runs and that docs/kernels.md calls a
 * default; else that rung or ERR_CONFIG naming what this machine lacks. */
MUST_USE enum err kernels_select(const char *name, struct kernels *out, struct err_info *info);
/* Names of all rungs this machine can run, NULL-terminated, slowest first. */
const char *const *kernels_available(void);

#endif
