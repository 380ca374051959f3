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

/* The results are small enough to stay in the L1 or L2 cache until they meet. */
static void gate_cell(const struct gate_region *region, const struct linear_cell *cell)
{
    const struct kernels *kernels = region->pass->kernels;
    const int32_t ffn = region->gate->weight.outputs;
    _Alignas(64) float gate[LINEAR_CELL_FLOATS], up[LINEAR_CELL_FLOATS];
    linear_multiply_cell(kernels, region->gate, &region->x, cell, gate);
    if (region->up != NULL) {
        linear_multiply_cell(kernels, region->up, &region->x, cell, up);
    }
    const int32_t from = cell->panel_from * PANEL_OUTPUTS;
    const int32_t to = MIN(cell->panel_to * PANEL_OUTPUTS, ffn);
    for (int32_t r = cell->row_from; r < cell->row_to; r++) {
        const size_t at = (size_t)(r - cell->row_from) * LINEAR_CELL_OUTPUTS;
        float *out = region->pass->scratch->gate + (size_t)r * (size_t)ffn + (size_t)from;
        region->kernel(gate + at, region->up == NULL ? NULL : up + at, to - from, out);
    }
}

static void gate_chunk(void *context, int32_t chunk, int32_t thread)
{
    const struct gate_region *region = context;
    const struct linear_cell whole = linear_cell_of(&region->grid, chunk);
    struct linear_cell cell = whole;
    for (; cell.panel_from < whole.panel_to; cell.panel_from = cell.panel_to) {
        cell = linear_cell_part(&whole, cell.panel_from);
        gate_cell(region, &cell);
    }
}

void mlp_gate(
    struct pass *pass, const struct linear *gate, const struct linear *up, mlp_gate_kernel *kernel)
{
    const struct packed *weight = &gate->weight;
    ASSERT(up == NULL || weight->outputs == up->weight.outputs);
    ASSERT(up == NULL || weight->inputs == up->weight.inputs);
    ASSERT(weight->outputs == pass->model->info.ffn);
    const struct linear *const linears[] = {gate, up};
    struct gate_region region = {
        .pass = pass,
        .gate = gate,
        .up = up,
        .kernel = kernel,
        .x = linear_prepare_tile(pass, pass->scratch->h, linears, up == NULL ? 1 : 2),
        .grid = linear_grid_of(weight, pass->tile->row_count, pass->threads),
    };
    threads_run(pass->threads, region.grid.chunk_count, gate_chunk, &region);
}
