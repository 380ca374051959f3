/* Linear layers over a tile; engine/blocks/linear.h says how they are cut. */
#include "engine/blocks/linear.h"

#include "engine/base/assert.h"

enum {
    /* Rows of one chunk: enough that the weights, read once a chunk, are no longer what a chunk
     * waits for; few enough that the rows' inputs stay in a second-level cache. */
    LINEAR_ROWS = 64,
    /* Weight bytes of one chunk, about: a handful of panels, so that a single row still gives every
     * thread several chunks, yet long against the cost of taking a chunk. Kernels walk four panels
     * side by side if they can, or two: an odd one out takes as long as its neighbours. */
    LINEAR_GROUP_BYTES = 32 * 1024,
};

struct linear_grid linear_grid_of(const struct packed *weight, int32_t rows)
{
    ASSERT(rows > 0);
    size_t group = LINEAR_GROUP_BYTES / MAX(weight->panel_bytes, (size_t)1);
    group = group >= 3 ? (group + 1) / 4 * 4 : 2;
    struct linear_grid grid = {
        .rows = rows,
        .row_step = LINEAR_ROWS,
        .row_blocks = (rows + LINEAR_ROWS - 1) / LINEAR_ROWS,
        .panels = weight->panels,
        .panel_step = (int32_t)MIN(group, (size_t)weight->panels),
    };
    int32_t groups = (grid.panels + grid.panel_step - 1) / grid.panel_step;
    grid.chunk_count = groups * grid.row_blocks;
    return grid;
}

struct linear_cell linear_cell_of(const struct linear_grid *grid, int32_t chunk)
{
    int32_t row_from = chunk % grid->row_blocks * grid->row_step;
    int32_t panel_from = chunk / grid->row_blocks * grid->panel_step;
    return (struct linear_cell){
        .row_from = row_from,
        .row_to = MIN(row_from + grid->row_step, grid->rows),
        .panel_from = panel_from,
        .panel_to = MIN(panel_from + grid->panel_step, grid->panels),
    };
}

struct activation linear_prepare(const float *x, int32_t rows, int32_t inputs)
{
    return (struct activation){
        .format = ACTIVATION_F32,
        .rows = rows,
        .inputs = inputs,
        .row_bytes = (size_t)inputs * sizeof(float),
        .data = x,
    };
}

/* ---- several outputs of one input ---------------------------------------------------------- */

struct project_region {
    const struct kernels *kernels;
    const struct activation *x;
    const struct linear_job *jobs;
    int32_t job_count;
    struct linear_grid grids[LINEAR_JOBS_MAX];
};

static void project_chunk(void *context, int32_t chunk, int32_t thread)
{
    const struct project_region *region = context;
    int32_t job = 0;
    while (chunk >= region->grids[job].chunk_count) {
        chunk -= region->grids[job].chunk_count;
        job++;
        ASSERT(job < region->job_count);
    }
    const struct linear_job *it = &region->jobs[job];
    struct linear_cell cell = linear_cell_of(&region->grids[job], chunk);
    region->kernels->linear(it->weight, region->x, cell.row_from, cell.row_to, cell.panel_from,
        cell.panel_to, it->y, it->y_stride);
}

void linear_project(const struct kernels *kernels, struct threads *threads,
    const struct activation *x, const struct linear_job *jobs, int32_t job_count)
{
    ASSERT(job_count > 0 && job_count <= LINEAR_JOBS_MAX);
    struct project_region region = {
        .kernels = kernels,
        .x = x,
        .jobs = jobs,
        .job_count = job_count,
    };
    int32_t chunk_count = 0;
    for (int32_t i = 0; i < job_count; i++) {
        ASSERT(jobs[i].weight->inputs == x->inputs);
        region.grids[i] = linear_grid_of(jobs[i].weight, x->rows);
        chunk_count += region.grids[i].chunk_count;
    }
    threads_run(threads, chunk_count, project_chunk, &region);
}

/* ---- added to the residual ----------------------------------------------------------------- */

struct add_region {
    const struct pass *pass;
    const struct packed *weight;
    struct activation x;
    struct linear_grid grid;
};

static void add_chunk(void *context, int32_t chunk, int32_t thread)
{
    const struct add_region *region = context;
    const struct pass *pass = region->pass;
    const struct tile *tile = pass->tile;
    struct linear_cell cell = linear_cell_of(&region->grid, chunk);
    size_t hidden = (size_t)region->weight->outputs;
    float *h = pass->scratch->h;
    pass->kernels->linear(region->weight, &region->x, cell.row_from, cell.row_to, cell.panel_from,
        cell.panel_to, h, hidden);
    int32_t from = cell.panel_from * PANEL_OUTPUTS;
    int32_t to = MIN(cell.panel_to * PANEL_OUTPUTS, region->weight->outputs);
    for (int32_t r = cell.row_from; r < cell.row_to; r++) {
        float *x = pass->batch->x[tile->rows[r]];
        pass->kernels->add(x + from, h + (size_t)r * hidden + from, to - from);
    }
}

void linear_add(struct pass *pass, const struct packed *weight, const float *input)
{
    ASSERT(weight->outputs == pass->model->info.hidden);
    struct add_region region = {
        .pass = pass,
        .weight = weight,
        .x = linear_prepare(input, pass->tile->row_count, weight->inputs),
        .grid = linear_grid_of(weight, pass->tile->row_count),
    };
    threads_run(pass->threads, region.grid.chunk_count, add_chunk, &region);
}
