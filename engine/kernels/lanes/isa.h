/*
 * The kernels written in lanes: AVX2, AVX-512 and NEON. Contracts are those of struct kernels; the
 * shared pieces are tile (products) and unpack (panels to float). Private to engine/kernels.
 *
 * Each file of this folder is compiled once for each rung (lanes.h). ISA(name) is a name with the
 * rung's at its end.
 */
#ifndef ENGINE_KERNELS_LANES_ISA_H
#define ENGINE_KERNELS_LANES_ISA_H

#include "engine/kernels/kernels.h"

#if defined(__aarch64__)
#define ISA(name) name##_neon
#define ISA_NAME "neon"
#elif defined(KERNELS_AVX512)
#define ISA(name) name##_avx512
#define ISA_NAME "avx512"
#else
#define ISA(name) name##_avx2
#define ISA_NAME "avx2"
#endif

/*
 * The one inner kernel: y[r][16 p + o] (+)= sum over k of x[r][k] * w[p][k][o], o < 16, by FMA with
 * k ascending and one accumulator per (r, p, o), which starts anew every `chain` k's. The bits of a
 * sum therefore depend on neither rows nor panels, nor on where a long k is cut and resumed (at
 * whole chains).
 */
struct tile_job {
    const float *x;
    size_t x_stride; /* floats from row to row */
    /* Where the rows that come after these begin, for the cache; NULL: not known. */
    const float *x_next;
    const float *w;
    size_t w_stride; /* floats from k to k */
    size_t w_panel;  /* floats from panel to panel */
    int32_t count;   /* of k */
    float *y;
    size_t y_stride;
    bool resume;   /* add to what y holds instead of zero */
    int32_t chain; /* k's of one chain, whose sum is then added to y; 0 = a single chain, which with
                      `resume` begins at y */
    /* Tiles of block formats hold the integers c of weights a c + b, and a chain is one over which
     * a and b hold (panel_lanes.h): y += a (sum of the chain) + b (sum of its x). a and b are
     * [chains][16]; a NULL: a plain tile; b NULL: no second term. */
    const float *a, *b;
    size_t a_panel;       /* floats from panel to panel, of a and of b */
    const float *x_sums;  /* sums of x, chain after chain; with b */
    size_t x_sums_stride; /* floats from row to row */
    /* Memory wanted next: a piece for each panel, fetched into the L1 cache evenly over the run.
     * May be 0 bytes. */
    const unsigned char *ahead;
    size_t ahead_bytes; /* of a piece */
    size_t ahead_panel; /* bytes from piece to piece */
};

void ISA(tile)(const struct tile_job *job, int32_t rows, int32_t panels);

/* A piece of a panel as tile takes it. */
struct unpacked {
    float *tile;  /* [count][16] */
    float *a, *b; /* [count / chain][16]; of block formats */
};

/* Numbers [from, from + count) of all outputs of a panel, exactly. from and count are multiples of
 * 32 for the block formats. */
void ISA(unpack)(enum tensor_type type, const unsigned char *panel, int32_t from, int32_t count,
    const struct unpacked *out);
/* Inputs of one chain of sums of a type. */
int32_t ISA(unpack_chain)(enum tensor_type type);
bool ISA(unpack_has_minima)(enum tensor_type type);

/* y[r][16 p + o] = sum over inputs of x[r][i] * w[p][o][i] for 1 to FEW_ROWS rows, by the same
 * chains of FMAs as tile, straight from consecutive panels. */
struct few_job {
    const float *x;
    size_t x_stride;
    int32_t inputs;
    const unsigned char *panel; /* the first */
    size_t panel_bytes;
    const unsigned char *next; /* read after these panels, for the cache */
    const float *x_sums;       /* of each row and 32 inputs; only for formats with minima */
    size_t x_sums_stride;
    float *y; /* whole panels are written */
    size_t y_stride;
};

enum {
/* As many rows as few.c has registers for. */
#if defined(KERNELS_AVX512)
    FEW_ROWS = 8,
#else
    FEW_ROWS = 4,
#endif
    /* Inputs of one chain of a linear: short chains round less (a sum of n floats in chains of c
     * errs by about sqrt(c) + sqrt(n / c) roundings instead of sqrt(n)). */
    CHAIN_INPUTS = 64,
};

/* Takes one or more of the `panels` panels that are there and returns how many. */
int32_t ISA(few)(enum tensor_type type, const struct few_job *job, int32_t rows, int32_t panels);

/* scores[16 t + o] = sum over d of q[d] * tiles[t][d][o]: one row and `count` tiles of keys. */
void ISA(decode_scores)(enum kv_type type, const float *q, int32_t dims, const void *const tiles[],
    int32_t count, float *scores);
/* sums[d] += sum over slots of p[slot] * values[slot][d]; dims a multiple of the lanes. */
void ISA(decode_values)(enum kv_type type, const float *p, int32_t slots, const void *values,
    int32_t dims, float *sums);

void ISA(linear)(const struct packed *packed, const struct activation *x, int32_t row_from,
    int32_t row_to, int32_t panel_from, int32_t panel_to, float *y, size_t y_stride);
void ISA(linear_sums)(const float *x, int32_t inputs, float *out);
void ISA(attention)(const struct attention_args *args, int32_t row_from, int32_t row_to);
void ISA(attention_part)(
    const struct attention_args *args, int32_t row, int32_t part, float *state);
void ISA(attention_merge)(const float *states, int32_t part_count, int32_t head_dim, float *out);
bool ISA(kv_store)(enum kv_type type, int32_t page_slots, int32_t heads_kv, int32_t head_dim,
    unsigned char *page, size_t layer_offset, size_t head_bytes, int32_t slot_in_page,
    const float *k, const float *v);
void ISA(vector_rms_norm)(
    const float *x, const float *weight, float eps, int32_t count, float *out);
void ISA(vector_rope)(enum rope_style style, float *x, int32_t heads, int32_t head_dim,
    int32_t rotary_dim, const float *cos_sin);
void ISA(vector_silu_mul)(const float *gate, const float *up, int32_t count, float *out);
void ISA(layer_norm)(
    const float *x, const float *weight, const float *bias, float eps, int32_t count, float *out);
void ISA(gelu_erf)(const float *gate, const float *up, int32_t count, float *out);
void ISA(gelu_tanh)(const float *gate, const float *up, int32_t count, float *out);
void ISA(vector_add)(float *x, const float *y, int32_t count);
int32_t ISA(vector_argmax)(const float *x, int32_t count);
double ISA(vector_log_sum_exp)(const float *x, int32_t count);
bool ISA(vector_all_finite)(const float *x, int32_t count);
/* exp of each element; the tests' door to lanes_exp.h. */
void vector_exp_avx2(const float *x, int32_t count, float *out);
void vector_exp_avx512(const float *x, int32_t count, float *out);
void vector_exp_neon(const float *x, int32_t count, float *out);

#endif
