/*
 * Linear layers over a tile, in parallel. The grid of chunks, row blocks times panel groups,
 * follows from the shapes alone. Chunks that share weights are neighbours, so that a panel group
 * is fetched from memory once and then found in a cache by the chunks that follow.
 */
#ifndef ENGINE_BLOCKS_LINEAR_H
#define ENGINE_BLOCKS_LINEAR_H

#include "engine/model/parts.h"

struct linear_grid {
    int32_t rows, row_step, row_blocks;
    int32_t panels, panel_step, chunk_count;
};

/* One cell of a grid: rows [row_from, row_to) times panels [panel_from, panel_to). */
struct linear_cell {
    int32_t row_from, row_to, panel_from, panel_to;
};

struct linear_grid linear_grid_of(const struct packed *weight, int32_t rows);
struct linear_cell linear_cell_of(const struct linear_grid *grid, int32_t chunk);

/* An input of several linears: [rows, inputs], rows next to each other. */
struct activation linear_prepare(const float *x, int32_t rows, int32_t inputs);

/* One output of an input: y [rows, weight->outputs], row distance y_stride. */
struct linear_job {
    const struct packed *weight;
    float *y;
    size_t y_stride;
};

enum { LINEAR_JOBS_MAX = 3 };

/* Every job over the same x, in one region. */
void linear_project(const struct kernels *kernels, struct threads *threads,
    const struct activation *x, const struct linear_job *jobs, int32_t job_count);
/* x of every row of the tile += weight of `input`; scratch->h is overwritten. */
void linear_add(struct pass *pass, const struct packed *weight, const float *input);

#endif
