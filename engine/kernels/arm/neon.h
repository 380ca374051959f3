/*
 * The NEON kernels, for any AArch64 CPU. Contracts are those of struct kernels. Every sum runs in
 * the order of the AVX2 rung (docs/kernels.md), so both give the same bits. Private to
 * engine/kernels.
 *
 * Written for 32 registers of four floats. Checked under emulation, never timed on real hardware:
 * blocking follows reasoning alone, and there is no prefetching.
 */
#ifndef ENGINE_KERNELS_ARM_NEON_H
#define ENGINE_KERNELS_ARM_NEON_H

#include "engine/kernels/kernels.h"

enum {
    FEW_ROWS = 4,
    FEW_PANELS = 2,    /* the most that few_neon takes at once */
    CHAIN_INPUTS = 64, /* of one chain of sums of float formats */
};

/*
 * y[r][o] (+)= sum over k of x[r][k] * w[k][o], o < 16, by FMA with k ascending and one accumulator
 * per (r, o), which starts anew every `chain` k's. The bits of a sum therefore do not depend on
 * the rows, nor on where a long k is cut and resumed (at whole chains).
 */
struct tile_job {
    const float *x;
    size_t x_stride; /* floats from row to row */
    const float *w;
    size_t w_stride; /* floats from k to k */
    int32_t count;   /* of k */
    float *y;
    size_t y_stride;
    bool resume;   /* add to what y holds instead of zero */
    int32_t chain; /* k's of one chain, whose sum is then added to y; 0 = a single chain, which with
                      `resume` begins at y */
    /* Tiles of block formats hold the integers c of weights a c + b, and a chain is one over which
     * a and b hold (panel_neon.h): y += a (sum of the chain) + b (sum of its x). a and b are
     * [chains][16]; a NULL: a plain tile; b NULL: no second term. */
    const float *a, *b;
    const float *x_sums;  /* sums of x, chain after chain; with b */
    size_t x_sums_stride; /* floats from row to row */
};

void tile_neon(const struct tile_job *job, int32_t rows);

/* A piece of a panel as tile_neon takes it. */
struct unpacked {
    float *tile;  /* [count][16] */
    float *a, *b; /* [count / chain][16]; of block formats */
};

/* Numbers [from, from + count) of all outputs of a panel, exactly. from and count are multiples of
 * 32 for the block formats. */
void unpack_neon(enum tensor_type type, const unsigned char *panel, int32_t from, int32_t count,
    const struct unpacked *out);
/* Inputs of one chain of sums of a type. */
int32_t unpack_neon_chain(enum tensor_type type);
bool unpack_neon_has_minima(enum tensor_type type);

/* y[r][16 p + o] = sum over inputs of x[r][i] * w[p][o][i] for 1 to FEW_ROWS rows, by the same
 * chains of FMAs as tile_neon, straight from consecutive panels. */
struct few_job {
    const float *x;
    size_t x_stride;
    int32_t inputs;
    const unsigned char *panel; /* the first */
    size_t panel_bytes;
    const float *x_sums; /* of each row and 32 inputs; only for formats with minima */
    size_t x_sums_stride;
    float *y; /* whole panels are written */
    size_t y_stride;
    bool resume; /* add to what y holds instead of zero */
};

/* Takes one or more of the `panels` panels that are there and returns how many. */
int32_t few_neon(enum tensor_type type, const struct few_job *job, int32_t rows, int32_t panels);

void linear_neon(const struct packed *packed, const struct activation *x, int32_t row_from,
    int32_t row_to, int32_t panel_from, int32_t panel_to, float *y, size_t y_stride);
void attention_neon(const struct attention_args *args, int32_t row_from, int32_t row_to);
void attention_part_neon(
    const struct attention_args *args, int32_t row, int32_t part, float *state);
void attention_merge_neon(const float *states, int32_t part_count, int32_t head_dim, float *out);
bool kv_neon_store(enum kv_type type, int32_t page_slots, int32_t heads_kv, int32_t head_dim,
    unsigned char *page, size_t layer_offset, size_t head_bytes, int32_t slot_in_page,
    const float *k, const float *v);
void vector_neon_rms_norm(
    const float *x, const float *weight, float eps, int32_t count, float *out);
void vector_neon_rope(enum rope_style style, float *x, int32_t heads, int32_t head_dim,
    int32_t rotary_dim, const float *cos_sin);
void vector_neon_silu_mul(const float *gate, const float *up, int32_t count, float *out);
void vector_neon_add(float *x, const float *y, int32_t count);
int32_t vector_neon_argmax(const float *x, int32_t count);
double vector_neon_log_sum_exp(const float *x, int32_t count);
bool vector_neon_all_finite(const float *x, int32_t count);
/* exp of each element; the tests' door to exp_neon.h. */
void vector_neon_exp(const float *x, int32_t count, float *out);

#endif
