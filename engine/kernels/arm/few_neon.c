/*
 * Products of one to four rows, straight from the panels: decoding. Weights become floats in
 * registers, are used for the rows at hand and dropped; nothing is written but the sums.
 *
 * A sum is a chain of FMAs, whose latency only other chains hide. A panel has four (times rows);
 * for one row two panels are walked side by side.
 */
#include "engine/base/assert.h"
#include "engine/base/attr.h"
#include "engine/kernels/arm/neon.h"
#include "engine/kernels/arm/panel_neon.h"

enum {
    PANEL_VECTORS = PANEL_OUTPUTS / LANES,
    VECTORS_MAX = FEW_PANELS * PANEL_VECTORS,
};

ALWAYS_INLINE void clear(const int rows, const int vectors, float32x4_t sums[FEW_ROWS][VECTORS_MAX])
{
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int v = 0; v < vectors; v++) {
            sums[r][v] = vdupq_n_f32(0);
        }
    }
}

/* What y holds before the chain that begins at `input`. */
ALWAYS_INLINE float32x4_t sum_so_far(const struct few_job *job, const float *y, size_t input)
{
    return input > 0 || job->resume ? vld1q_f32(y) : vdupq_n_f32(0);
}

/* y += a sum(c x) + b sum(x) at the end of the chain that began at `input`. */
ALWAYS_INLINE void put_chain(enum tensor_type type, const struct few_job *job, const int rows,
    const int vectors, const struct sub_block at[VECTORS_MAX], int part, size_t input,
    float32x4_t sums[FEW_ROWS][VECTORS_MAX])
{
    UNROLL
    for (int v = 0; v < vectors; v++) {
        const struct affine f = panel_affine(type, &at[v], part);
        UNROLL
        for (int r = 0; r < rows; r++) {
            float *y = job->y + (size_t)r * job->y_stride + v * LANES;
            float32x4_t sum = sum_so_far(job, y, input);
            if (panel_has_minima(type)) {
                const float *x_sums = job->x_sums + (size_t)r * job->x_sums_stride;
                sum = vfmaq_n_f32(sum, f.b, x_sums[input / SUB_BLOCK]);
            }
            vst1q_f32(y, vfmaq_f32(sum, f.a, sums[r][v]));
        }
    }
}

/* Four inputs from `input` on. */
ALWAYS_INLINE void add_quad(enum tensor_type type, const struct sub_block at[VECTORS_MAX], int part,
    int quad, const float *const x[FEW_ROWS], size_t input, const int rows, const int vectors,
    float32x4_t sums[FEW_ROWS][VECTORS_MAX])
{
    UNROLL
    for (int v = 0; v < vectors; v++) {
        const uint32x4_t q = panel_quad(type, &at[v], part, quad);
        UNROLL
        for (int i = 0; i < QUAD; i++) {
            const float32x4_t c = panel_number(type, q, i);
            UNROLL
            for (int r = 0; r < rows; r++) {
                sums[r][v] = vfmaq_n_f32(sums[r][v], c, x[r][input + (size_t)i]);
            }
        }
    }
}

/* One sub-block of 32 inputs from `input` on. */
ALWAYS_INLINE void add_sub_block(enum tensor_type type, const struct few_job *job,
    const float *const x[FEW_ROWS], const int rows, const int vectors, size_t input)
{
    struct sub_block at[VECTORS_MAX];
    UNROLL
    for (int v = 0; v < vectors; v++) {
        const unsigned char *panel = job->panel + (size_t)(v / PANEL_VECTORS) * job->panel_bytes;
        at[v] = panel_sub_block(type, panel, (int32_t)(input / SUB_BLOCK), v % PANEL_VECTORS);
    }
    float32x4_t sums[FEW_ROWS][VECTORS_MAX];
    clear(rows, vectors, sums);
    UNROLL
    for (int part = 0; part < 2; part++) {
        NO_UNROLL
        for (int quad = 0; quad < PART_QUADS; quad++) {
            const size_t first = input + (size_t)((part * PART_QUADS + quad) * QUAD);
            add_quad(type, at, part, quad, x, first, rows, vectors, sums);
        }
        if (part == 1 || panel_chain(type) < SUB_BLOCK) {
            const size_t from = part == 1 && panel_chain(type) < SUB_BLOCK ? input + 16 : input;
            put_chain(type, job, rows, vectors, at, part, from, sums);
            clear(rows, vectors, sums);
        }
    }
}

/* One chain of float panels: inputs [from, to). */
ALWAYS_INLINE void add_floats(enum tensor_type type, const struct few_job *job,
    const float *const x[FEW_ROWS], const int rows, const int vectors, size_t from, size_t to)
{
    float32x4_t sums[FEW_ROWS][VECTORS_MAX];
    clear(rows, vectors, sums);
    for (size_t input = from; input < to; input++) {
        UNROLL
        for (int v = 0; v < vectors; v++) {
            const unsigned char *panel =
                job->panel + (size_t)(v / PANEL_VECTORS) * job->panel_bytes;
            const float32x4_t w = panel_float(type, panel, input, v % PANEL_VECTORS);
            UNROLL
            for (int r = 0; r < rows; r++) {
                sums[r][v] = vfmaq_n_f32(sums[r][v], w, x[r][input]);
            }
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int v = 0; v < vectors; v++) {
            float *y = job->y + (size_t)r * job->y_stride + v * LANES;
            vst1q_f32(y, vaddq_f32(sum_so_far(job, y, from), sums[r][v]));
        }
    }
}

ALWAYS_INLINE void run(
    enum tensor_type type, const struct few_job *job, const int rows, const int panels)
{
    const float *x[FEW_ROWS];
    UNROLL
    for (int r = 0; r < rows; r++) {
        x[r] = job->x + (size_t)r * job->x_stride;
    }
    const size_t inputs = (size_t)job->inputs;
    const size_t step = panel_is_float(type) ? CHAIN_INPUTS : SUB_BLOCK;
    for (size_t from = 0; from < inputs; from += step) {
        if (panel_is_float(type)) {
            add_floats(type, job, x, rows, panels * PANEL_VECTORS, from, MIN(inputs, from + step));
        } else {
            add_sub_block(type, job, x, rows, panels * PANEL_VECTORS, from);
        }
    }
}

/* type, rows, panels side by side */
#define FEW_MAP(X, type) X(type, 1, 1) X(type, 1, 2) X(type, 2, 1) X(type, 3, 1) X(type, 4, 1)

#define FEW(type, rows, panels)                                                                    \
    static void few_##type##_##rows##_##panels(const struct few_job *job)                          \
    {                                                                                              \
        run(TENSOR_##type, job, rows, panels);                                                     \
    }
#define X(type, word, id, block, bytes) FEW_MAP(FEW, type)
TENSOR_TYPE_MAP(X)
#undef X

int32_t few_neon(enum tensor_type type, const struct few_job *job, int32_t rows, int32_t panels)
{
    typedef void few_fn(const struct few_job *job);
#define ENTRY(type, rows, panels) [rows][panels] = few_##type##_##rows##_##panels,
#define X(type, word, id, block, bytes) [TENSOR_##type] = {FEW_MAP(ENTRY, type)},
    static few_fn *const table[TENSOR_TYPE_COUNT][FEW_ROWS + 1][FEW_PANELS + 1] = {
        TENSOR_TYPE_MAP(X)};
#undef X
#undef ENTRY
    ASSERT(rows >= 1 && rows <= FEW_ROWS && panels >= 1);
    const int32_t taken = rows == 1 ? MIN(panels, FEW_PANELS) : 1;
    table[type][rows][taken](job);
    return taken;
}
