/*
 * Products of one to four rows (AVX-512: eight), straight from the panels: decoding. Weights become
 * floats in registers, are used for the rows at hand and dropped; nothing is written but the sums.
 *
 * A sum is a chain of FMAs, so at least four chains must be under way to hide its latency: four
 * panels are walked side by side for one row, two for two rows, one for three or four; AVX-512 has
 * the registers for four panels of up to four rows, and two of eight. Each is its own stream of
 * cache lines, asked for ahead of use. For one row memory is the limit, and lines are asked for one
 * by one: a burst would fill the buffers of the first-level cache, and loads would wait. For more
 * rows arithmetic is, which a burst disturbs less.
 */
#include "engine/base/assert.h"
#include "engine/kernels/lanes/isa.h"
#include "engine/kernels/unroll.h"
#include "engine/kernels/lanes/panel_lanes.h"

enum {
    ROWS_MAX = FEW_ROWS,
    PANELS_MAX = 4,
    VECTORS_MAX = PANELS_MAX * PANEL_VECTORS,
    AHEAD_BYTES = 2048, /* prefetched before use */
    SUB_QUADS = 2 * PART_QUADS,
};

/* Asks for bytes [at, at + count) of each panel's stream, AHEAD_BYTES later.
 * Past a panel's end come the panels that are read next. */
ALWAYS_INLINE void prefetch(const struct few_job *job, int panels, size_t at, size_t count)
{
    const size_t ahead = at + AHEAD_BYTES;
    const bool past = ahead >= job->panel_bytes;
    const unsigned char *first = past ? job->next + (ahead - job->panel_bytes) : job->panel + ahead;
    UNROLL
    for (int p = 0; p < panels; p++) {
        const unsigned char *stream = first + (size_t)p * job->panel_bytes;
        for (size_t line = 0; line < count; line += 64) {
            PREFETCH_L1(stream + line);
        }
    }
}

/* Four inputs of one quad of each vector. A single row keeps its four inputs in
 * registers, so that one vector after another can be converted; several rows
 * take one input after another. */
ALWAYS_INLINE void add_quad(enum tensor_type type, const struct sub_block at[VECTORS_MAX], int part,
    int quad, const float *const x[ROWS_MAX], size_t input, const int rows, const int vectors,
    floats sums[ROWS_MAX][VECTORS_MAX])
{
    if (rows == 1) {
        floats ones[QUAD];
        UNROLL
        for (int i = 0; i < QUAD; i++) {
            ones[i] = floats_all(x[0][input + i]);
        }
        UNROLL
        for (int v = 0; v < vectors; v++) {
            const ints q = panel_quad(type, &at[v], part, quad);
            UNROLL
            for (int i = 0; i < QUAD; i++) {
                sums[0][v] = floats_fma(ones[i], panel_number(type, q, i), sums[0][v]);
            }
        }
        return;
    }
    ints q[VECTORS_MAX];
    UNROLL
    for (int v = 0; v < vectors; v++) {
        q[v] = panel_quad(type, &at[v], part, quad);
    }
    UNROLL
    for (int i = 0; i < QUAD; i++) {
        UNROLL
        for (int v = 0; v < vectors; v++) {
            const floats c = panel_number(type, q[v], i);
            UNROLL
            for (int r = 0; r < rows; r++) {
                const floats one = floats_all(x[r][input + i]);
                sums[r][v] = floats_fma(one, c, sums[r][v]);
            }
        }
    }
}

ALWAYS_INLINE void clear(const int rows, const int vectors, floats sums[ROWS_MAX][VECTORS_MAX])
{
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int v = 0; v < vectors; v++) {
            sums[r][v] = floats_zero();
        }
    }
}

/* What y holds before the chain that begins at `input`. */
ALWAYS_INLINE floats sum_so_far(const float *y, size_t input)
{
    return input > 0 ? floats_load(y) : floats_zero();
}

/* y += a sum(c x) + b sum(x) at the end of the chain that began at `input`. */
ALWAYS_INLINE void put_chain(enum tensor_type type, const struct few_job *job, const int rows,
    const int vectors, const struct sub_block at[VECTORS_MAX], int part, size_t input,
    floats sums[ROWS_MAX][VECTORS_MAX])
{
    UNROLL
    for (int v = 0; v < vectors; v++) {
        const struct affine f = panel_affine(type, &at[v], part);
        UNROLL
        for (int r = 0; r < rows; r++) {
            float *y = job->y + (size_t)r * job->y_stride + v * LANES;
            floats sum = sum_so_far(y, input);
            if (panel_has_minima(type)) {
                const float *x_sums = job->x_sums + (size_t)r * job->x_sums_stride;
                sum = floats_fma(f.b, floats_all(x_sums[input / SUB_BLOCK]), sum);
            }
            floats_store(y, floats_fma(f.a, sums[r][v], sum));
        }
    }
}

/* One sub-block of 32 inputs from `input` on. */
ALWAYS_INLINE void add_sub_block(enum tensor_type type, const struct few_job *job,
    const float *const x[ROWS_MAX], const int rows, const int vectors, size_t input)
{
    const size_t sub_bytes = panel_block_bytes(type) / (panel_is_k(type) ? SUPER_SUBS : 1);
    const size_t sub_at = input / SUB_BLOCK * sub_bytes;
    if (rows > 1) {
        prefetch(job, vectors / PANEL_VECTORS, sub_at, sub_bytes);
    }
    struct sub_block at[VECTORS_MAX];
    UNROLL
    for (int v = 0; v < vectors; v++) {
        const unsigned char *panel = job->panel + (size_t)(v / PANEL_VECTORS) * job->panel_bytes;
        at[v] = panel_sub_block(type, panel, (int32_t)(input / SUB_BLOCK), v % PANEL_VECTORS);
    }
    floats sums[ROWS_MAX][VECTORS_MAX];
    clear(rows, vectors, sums);
    UNROLL
    for (int part = 0; part < 2; part++) {
        NO_UNROLL
        for (int quad = 0; quad < PART_QUADS; quad++) {
            if (rows == 1) {
                const size_t whole = (size_t)(part * PART_QUADS + quad);
                prefetch(job, vectors / PANEL_VECTORS, sub_at + whole * (sub_bytes / SUB_QUADS), 1);
            }
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

ALWAYS_INLINE void add_float(enum tensor_type type, const struct few_job *job,
    const float *const x[ROWS_MAX], const int rows, const int vectors, size_t input,
    floats sums[ROWS_MAX][VECTORS_MAX])
{
    UNROLL
    for (int v = 0; v < vectors; v++) {
        const unsigned char *panel = job->panel + (size_t)(v / PANEL_VECTORS) * job->panel_bytes;
        const floats w = panel_float(type, panel, input, v % PANEL_VECTORS);
        UNROLL
        for (int r = 0; r < rows; r++) {
            const floats one = floats_all(x[r][input]);
            sums[r][v] = floats_fma(one, w, sums[r][v]);
        }
    }
}

/* One chain of float panels: inputs [from, to). */
ALWAYS_INLINE void add_floats(enum tensor_type type, const struct few_job *job,
    const float *const x[ROWS_MAX], const int rows, const int panels, size_t from, size_t to)
{
    const size_t number_bytes = type == TENSOR_F32 ? WORD_BYTES : F16_BYTES;
    const size_t line_inputs = 64 / number_bytes;
    const int vectors = PANEL_VECTORS * panels;
    floats sums[ROWS_MAX][VECTORS_MAX];
    clear(rows, vectors, sums);
    for (size_t input = from; input < to; input++) {
        if (input % line_inputs == 0) {
            prefetch(job, panels, input * number_bytes, 64);
        }
        add_float(type, job, x, rows, vectors, input, sums);
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int v = 0; v < vectors; v++) {
            float *y = job->y + (size_t)r * job->y_stride + v * LANES;
            if (from > 0) { /* the first chain's sum may be -0, which adding to 0 would lose */
                sums[r][v] += floats_load(y);
            }
            floats_store(y, sums[r][v]);
        }
    }
}

ALWAYS_INLINE void run(
    enum tensor_type type, const struct few_job *job, const int rows, const int panels)
{
    const float *x[ROWS_MAX];
    UNROLL
    for (int r = 0; r < rows; r++) {
        x[r] = job->x + (size_t)r * job->x_stride;
    }
    const size_t inputs = (size_t)job->inputs;
    if (panel_is_float(type)) {
        for (size_t from = 0; from < inputs; from += CHAIN_INPUTS) {
            add_floats(type, job, x, rows, panels, from, MIN(inputs, from + CHAIN_INPUTS));
        }
        return;
    }
    for (size_t input = 0; input < inputs; input += SUB_BLOCK) {
        add_sub_block(type, job, x, rows, PANEL_VECTORS * panels, input);
    }
}

/* type, rows, panels side by side */
#define FEW_BOTH(X, type)                                                                          \
    X(type, 1, 1)                                                                                  \
    X(type, 1, 2) X(type, 1, 4) X(type, 2, 1) X(type, 2, 2) X(type, 3, 1) X(type, 4, 1)
#if defined(KERNELS_AVX512)
#define FEW_WIDE(X, type) X(type, 2, 4) X(type, 3, 2) X(type, 3, 4) X(type, 4, 2) X(type, 4, 4)
#define FEW_EIGHT(X, type)                                                                         \
    X(type, 5, 1)                                                                                  \
    X(type, 5, 2)                                                                                  \
    X(type, 6, 1) X(type, 6, 2) X(type, 7, 1) X(type, 7, 2) X(type, 8, 1) X(type, 8, 2)
#define FEW_MAP(X, type) FEW_BOTH(X, type) FEW_WIDE(X, type) FEW_EIGHT(X, type)
#else
#define FEW_MAP(X, type) FEW_BOTH(X, type)
#endif

#define FEW(type, rows, panels)                                                                    \
    static void few_##type##_##rows##_##panels(const struct few_job *job)                          \
    {                                                                                              \
        run(TENSOR_##type, job, rows, panels);                                                     \
    }
#define X(type, word, id, block, bytes) FEW_MAP(FEW, type)
TENSOR_TYPE_MAP(X)
#undef X

int32_t ISA(few)(enum tensor_type type, const struct few_job *job, int32_t rows, int32_t panels)
{
    typedef void few_fn(const struct few_job *job);
#define ENTRY(type, rows, panels) [rows][panels] = few_##type##_##rows##_##panels,
#define X(type, word, id, block, bytes) [TENSOR_##type] = {FEW_MAP(ENTRY, type)},
    static few_fn *const table[TENSOR_TYPE_COUNT][ROWS_MAX + 1][PANELS_MAX + 1] = {
        TENSOR_TYPE_MAP(X)};
#undef X
#undef ENTRY
    ASSERT(rows >= 1 && rows <= ROWS_MAX && panels >= 1);
    int32_t taken = MIN(panels, PANELS_MAX);
    while (table[type][rows][taken] == NULL) {
        taken--;
    }
    struct few_job step = *job;
    if (taken < panels) {
        step.next = job->panel + (size_t)taken * job->panel_bytes;
    }
    table[type][rows][taken](&step);
    return taken;
}
