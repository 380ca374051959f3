/*
 * Linear layers over a tile, in parallel. The grid of chunks, row blocks times panel groups,
 * follows from the shapes alone. Chunks that share weights are neighbours, so that a panel group
 * is fetched from memory once and then found in a cache by the chunks that follow.
 */
#ifndef ENGINE_BLOCKS_LINEAR_H
#define ENGINE_BLOCKS_LINEAR_H

#include "engine/model/parts.h"

enum {
    /* Rows of one chunk: enough that the weights, read once a chunk, are no longer what a chunk
     * waits for; few enough that the rows' inputs stay in a second-level cache. Whole register
     * tiles of every rung. */
    LINEAR_ROWS = 120,
    /* Panels that are multiplied into a buffer on the stack, where what follows finds them in the
     * L1 or L2 cache: 30 KiB. */
    LINEAR_CELL_PANELS = 4,
    LINEAR_CELL_OUTPUTS = LINEAR_CELL_PANELS * PANEL_OUTPUTS,
    LINEAR_CELL_FLOATS = LINEAR_ROWS * LINEAR_CELL_OUTPUTS,
};

struct linear_grid {
    int32_t rows, row_step, row_blocks;
    int32_t panels, panel_step, chunk_count;
    int32_t threads;
};

/* One cell of a grid: rows [row_from, row_to) times panels [panel_from, panel_to). */
struct linear_cell {
    int32_t row_from, row_to, panel_from, panel_to;
    int32_t panel_next; /* where a thread that takes turns with the others goes on; 0 = unknown */
};

struct linear_grid linear_grid_of(
    const struct packed *weight, int32_t rows, const struct threads *threads);
struct linear_cell linear_cell_of(const struct linear_grid *grid, int32_t chunk);
/* At most LINEAR_CELL_PANELS panels of a cell, from `panel_from` on. */
struct linear_cell linear_cell_part(const struct linear_cell *cell, int32_t panel_from);

/* An input of several linears. Each takes the form its weights are multiplied with: matrices of
 * float formats always f32. */
struct linear_input {
    struct activation f32;
    struct activation int8; /* data NULL: the model multiplies f32 only */
    /* Rows that adapters lie on, and what these make of them; tile NULL: there are none. */
    const struct tile *tile;
    const float *low; /* [rows, low_width] */
    size_t low_width;
};

enum { LINEAR_JOBS_MAX = 3 };

/* x is [rows, inputs], rows next to each other; it and scratch->prepared stay in use until the
 * next call. What a row becomes, its 8 bits or its sums, follows from that row alone. */
struct linear_input linear_prepare(const struct model *model, struct scratch *scratch,
    struct threads *threads, const float *x, int32_t rows, int32_t inputs);

/* The same for rows of the tile that all of these linears are going to multiply, at most
 * LINEAR_JOBS_MAX, with what adapters need of them: A x, in scratch->low. It costs nothing in a
 * tile without adapters, and no row without one anything in any. */
struct linear_input linear_prepare_tile(
    struct pass *pass, const float *x, const struct linear *const *linears, int32_t linear_count);

/* x times the weights of a cell of at most LINEAR_CELL_PANELS panels, the bias, and what
 * adapters add: out[row in the cell][its output]. */
void linear_multiply_cell(const struct kernels *kernels, const struct linear *linear,
    const struct linear_input *x, const struct linear_cell *cell, float out[LINEAR_CELL_FLOATS]);

/* One output of an input: y [rows, outputs], row distance y_stride. */
struct linear_job {
    const struct linear *linear;
    float *y;
    size_t y_stride;
};

/* Every job over the same x, in one region. */
void linear_project(const struct kernels *kernels, struct threads *threads,
    const struct linear_input *x, const struct linear_job *jobs, int32_t job_count);
/* scratch->h = linear of `input`, whose rows are those of the tile. */
void linear_rows(struct pass *pass, const struct linear *linear, const float *input);
/* x of every row of the tile += linear of `input`. */
void linear_add(struct pass *pass, const struct linear *linear, const float *input);

#endif
