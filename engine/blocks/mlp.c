/* The gate of the MLP in one region: a chunk computes the same outputs of both matrices and
 * multiplies them while they are in its cache. Chunks end at panel borders, so that an output's
 * place within the elementwise loop does not depend on the number of rows. */
#include "engine/blocks/mlp.h"

#include "engine/base/assert.h"
#include "engine/blocks/linear.h"

struct gate_region {
    const struct pass *pass;
    const struct linear *gate, *up;
    mlp_gate_kernel *kernel;
    struct linear_input x;
    struct linear_grid grid;
};

static void gate_chunk(void *context, int32_t chunk, int32_t thread)
{
    const struct gate_region *region = context;
    const struct pass *pass = region->pass;
    struct linear_cell cell = linear_cell_of(&region->grid, chunk);
    size_t ffn = (size_t)region->gate->weight.outputs;
    float *gate = pass->scratch->gate, *up = region->up == NULL ? NULL : pass->scratch->up;
    linear_multiply(pass->kernels, region->gate, &region->x, &cell, gate, ffn);
    if (up != NULL) {
        linear_multiply(pass->kernels, region->up, &region->x, &cell, up, ffn);
    }
    int32_t from = cell.panel_from * PANEL_OUTPUTS;
    int32_t to = MIN(cell.panel_to * PANEL_OUTPUTS, region->gate->weight.outputs);
    for (int32_t r = cell.row_from; r < cell.row_to; r++) {
        size_t at = (size_t)r * ffn + (size_t)from;
        region->kernel(gate + at, up == NULL ? NULL : up + at, to - from, gate + at);
    }
}

void mlp_gate(
    struct pass *pass, const struct linear *gate, const struct linear *up, mlp_gate_kernel *kernel)
{
    const struct packed *weight = &gate->weight;
    ASSERT(up == NULL || weight->outputs == up->weight.outputs);
    ASSERT(up == NULL || weight->inputs == up->weight.inputs);
    ASSERT(weight->outputs == pass->model->info.ffn);
    struct gate_region region = {
        .pass = pass,
        .gate = gate,
        .up = up,
        .kernel = kernel,
        .x = linear_prepare(pass->model, pass->scratch, pass->threads, pass->scratch->h,
            pass->tile->row_count, weight->inputs),
        .grid = linear_grid_of(weight, pass->tile->row_count),
    };
    threads_run(pass->threads, region.grid.chunk_count, gate_chunk, &region);
}
