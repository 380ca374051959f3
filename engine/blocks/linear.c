/* Linear layers over a tile; engine/blocks/linear.h says how they are cut. */
#include "engine/blocks/linear.h"

#include "engine/base/assert.h"
#include "engine/kernels/int8_row.h"

_Static_assert((int)INT8_BLOCK == (int)SUM_INPUTS, "one width decides about both");

enum {
    /* Weight bytes of one chunk, about: a handful of panels, so that a single row still gives every
     * thread several chunks, yet long against the cost of taking a chunk. Kernels walk four panels
     * side by side if they can, or two: an odd one out takes as long as its neighbours. */
    LINEAR_GROUP_BYTES = 32 * 1024,
    PREPARE_ROWS = 16, /* of one chunk of the preparation */
};

struct linear_grid linear_grid_of(
    const struct packed *weight, int32_t rows, const struct threads *threads)
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
        .threads = threads_count(threads),
    };
    int32_t groups = (grid.panels + grid.panel_step - 1) / grid.panel_step;
    grid.chunk_count = groups * grid.row_blocks;
    return grid;
}

struct linear_cell linear_cell_of(const struct linear_grid *grid, int32_t chunk)
{
    int32_t row_from = chunk % grid->row_blocks * grid->row_step;
    int32_t panel_from = chunk / grid->row_blocks * grid->panel_step;
    int32_t next = chunk + grid->threads;
    return (struct linear_cell){
        .row_from = row_from,
        .row_to = MIN(row_from + grid->row_step, grid->rows),
        .panel_from = panel_from,
        .panel_to = MIN(panel_from + grid->panel_step, grid->panels),
        .panel_next = next < grid->chunk_count ? next / grid->row_blocks * grid->panel_step : 0,
    };
}

struct linear_cell linear_cell_part(const struct linear_cell *cell, int32_t panel_from)
{
    struct linear_cell part = *cell;
    part.panel_from = panel_from;
    part.panel_to = MIN(panel_from + LINEAR_CELL_PANELS, cell->panel_to);
    part.panel_next = part.panel_to < cell->panel_to ? part.panel_to : cell->panel_next;
    return part;
}

/* ---- inputs --------------------------------------------------------------------------------- */

struct prepare_region {
    const struct kernels *kernels;
    const float *x;
    unsigned char *out;
    size_t row_bytes; /* of out */
    int32_t rows, inputs;
    bool in_8_bits;
};

static void prepare_chunk(void *context, int32_t chunk, int32_t thread)
{
    const struct prepare_region *region = context;
    const int32_t to = MIN((chunk + 1) * PREPARE_ROWS, region->rows);
    for (int32_t r = chunk * PREPARE_ROWS; r < to; r++) {
        const float *x = region->x + (size_t)r * (size_t)region->inputs;
        unsigned char *out = region->out + (size_t)r * region->row_bytes;
        if (region->in_8_bits) {
            region->kernels->quantize(x, region->inputs, out);
        } else {
            region->kernels->sum_blocks(x, region->inputs, (float *)(void *)out);
        }
    }
}

struct linear_input linear_prepare(const struct model *model, struct scratch *scratch,
    struct threads *threads, const float *x, int32_t rows, int32_t inputs)
{
    struct linear_input input = {
        .f32 = {ACTIVATION_F32, rows, inputs, (size_t)inputs * sizeof(float), x, NULL},
    };
    struct prepare_region region = {
        .kernels = model->kernels,
        .x = x,
        .out = scratch->prepared,
        .row_bytes = scratch_prepared_bytes(&model->info, inputs),
        .rows = rows,
        .inputs = inputs,
        .in_8_bits = model->info.int8_activations,
    };
    const bool sums = model->sums_wanted && region.kernels->sum_blocks != NULL;
    /* Other widths are those of float formats, which take f32 and no sums. */
    if (inputs % INT8_BLOCK != 0 || !(region.in_8_bits || sums)) {
        return input;
    }
    threads_run(threads, (rows + PREPARE_ROWS - 1) / PREPARE_ROWS, prepare_chunk, &region);
    if (region.in_8_bits) {
        input.int8 = (struct activation){
            ACTIVATION_INT8, rows, inputs, region.row_bytes, scratch->prepared, NULL};
    } else {
        input.f32.sums = (const float *)(const void *)scratch->prepared;
    }
    return input;
}

/* ---- adapters ------------------------------------------------------------------------------- */

struct low_region {
    const struct kernels *kernels;
    const struct tile *tile;
    const struct activation *x;
    const struct linear *const *linears;
    int32_t linear_count;
    float *low;
    size_t low_width;
};

/* The rows [from, to) that a span and a block of rows have in common; from >= to: none. */
static struct span span_within(const struct span *span, int32_t row_from, int32_t row_to)
{
    return (struct span){MAX(span->row_from, row_from), MIN(span->row_to, row_to), span->stack};
}

/* A x of a few rows for one linear. */
static void low_chunk(void *context, int32_t chunk, int32_t thread)
{
    const struct low_region *region = context;
    const struct linear *linear = region->linears[chunk % region->linear_count];
    const int32_t row = chunk / region->linear_count * PREPARE_ROWS;
    for (int32_t i = 0; linear->low != NULL && i < region->tile->span_count; i++) {
        const struct span rows = span_within(&region->tile->spans[i], row, row + PREPARE_ROWS);
        const struct low_rank *low = &linear->low[rows.stack - 1];
        if (rows.row_from < rows.row_to && low->a.outputs > 0) {
            region->kernels->linear(&low->a, region->x, rows.row_from, rows.row_to, 0,
                low->a.panels, region->low + low->column, region->low_width);
        }
    }
}

struct linear_input linear_prepare_tile(
    struct pass *pass, const float *x, const struct linear *const *linears, int32_t linear_count)
{
    const struct tile *tile = pass->tile;
    ASSERT(linear_count > 0 && linear_count <= LINEAR_JOBS_MAX);
    struct linear_input input = linear_prepare(
        pass->model, pass->scratch, pass->threads, x, tile->row_count, linears[0]->weight.inputs);
    if (tile->span_count == 0) {
        return input;
    }
    input.tile = tile;
    input.low = pass->scratch->low;
    input.low_width = (size_t)pass->model->info.adapter_width;
    struct low_region region = {
        .kernels = pass->kernels,
        .tile = tile,
        .x = &input.f32,
        .linears = linears,
        .linear_count = linear_count,
        .low = pass->scratch->low,
        .low_width = input.low_width,
    };
    const int32_t blocks = (tile->row_count + PREPARE_ROWS - 1) / PREPARE_ROWS;
    threads_run(pass->threads, blocks * linear_count, low_chunk, &region);
    return input;
}

/* ---- products ------------------------------------------------------------------------------- */

/* A kernel writes to places of the whole output. For a buffer of a few panels it is given the rest
 * of the matrix as a matrix of its own. */
static struct packed panels_from(const struct packed *packed, int32_t panel)
{
    struct packed rest = *packed;
    rest.data += (size_t)panel * packed->panel_bytes;
    rest.outputs -= panel * PANEL_OUTPUTS;
    rest.panels -= panel;
    return rest;
}

/* y += B (A x) of one span; y points at the first row and output of the cell. */
static void add_span(const struct kernels *kernels, const struct low_rank *low,
    const struct linear_input *x, const struct span *rows, const struct linear_cell *cell, float *y,
    size_t y_stride)
{
    _Alignas(64) float sum[LINEAR_CELL_FLOATS];
    const int32_t count = rows->row_to - rows->row_from;
    const struct packed b = panels_from(&low->b, cell->panel_from);
    const int32_t outputs = MIN(LINEAR_CELL_OUTPUTS,
        MIN(cell->panel_to * PANEL_OUTPUTS, low->b.outputs) - cell->panel_from * PANEL_OUTPUTS);
    const struct activation low_rows = {ACTIVATION_F32, count, b.inputs,
        x->low_width * sizeof(float),
        x->low + (size_t)rows->row_from * x->low_width + (size_t)low->column, NULL, 0};
    kernels->linear(
        &b, &low_rows, 0, count, 0, cell->panel_to - cell->panel_from, sum, LINEAR_CELL_OUTPUTS);
    for (int32_t r = 0; r < count; r++) {
        float *out = y + (size_t)(rows->row_from - cell->row_from + r) * y_stride;
        kernels->add(out, sum + (size_t)r * LINEAR_CELL_OUTPUTS, outputs);
    }
}

/* What adapters add to a cell of at most LINEAR_CELL_PANELS panels. */
static void add_low(const struct kernels *kernels, const struct linear *linear,
    const struct linear_input *x, const struct linear_cell *cell, float *y, size_t y_stride)
{
    if (x->tile == NULL || linear->low == NULL) {
        return;
    }
    for (int32_t i = 0; i < x->tile->span_count; i++) {
        const struct span rows = span_within(&x->tile->spans[i], cell->row_from, cell->row_to);
        const struct low_rank *low = &linear->low[rows.stack - 1];
        if (rows.row_from < rows.row_to && low->a.outputs > 0) {
            add_span(kernels, low, x, &rows, cell, y, y_stride);
        }
    }
}

/* y of one cell: kernels->linear or linear_int8 and the bias; y points at row 0, output 0. */
static void multiply(const struct kernels *kernels, const struct linear *linear,
    const struct linear_input *x, const struct linear_cell *cell, float *y, size_t y_stride)
{
    const struct packed *weight = &linear->weight;
    const bool in_8_bits = x->int8.data != NULL && tensor_type_block(weight->type) > 1;
    struct activation rows = in_8_bits ? x->int8 : x->f32;
    rows.panel_next = cell->panel_next;
    (in_8_bits ? kernels->linear_int8 : kernels->linear)(
        weight, &rows, cell->row_from, cell->row_to, cell->panel_from, cell->panel_to, y, y_stride);
    if (linear->bias != NULL) {
        const int32_t from = cell->panel_from * PANEL_OUTPUTS;
        const int32_t to = MIN(cell->panel_to * PANEL_OUTPUTS, weight->outputs);
        for (int32_t r = cell->row_from; r < cell->row_to; r++) {
            kernels->add(y + (size_t)r * y_stride + from, linear->bias + from, to - from);
        }
    }
}

/* The rows of an input from `row` on. */
static struct activation rows_from(const struct activation *x, int32_t row)
{
    struct activation rows = *x;
    rows.rows -= row;
    if (x->data != NULL) {
        rows.data = (const unsigned char *)x->data + (size_t)row * x->row_bytes;
    }
    if (x->sums != NULL) {
        rows.sums = x->sums + (size_t)row * (size_t)(x->inputs / SUM_INPUTS);
    }
    return rows;
}

void linear_multiply_cell(const struct kernels *kernels, const struct linear *linear,
    const struct linear_input *x, const struct linear_cell *cell, float out[LINEAR_CELL_FLOATS])
{
    ASSERT(cell->row_to - cell->row_from <= LINEAR_ROWS);
    ASSERT(cell->panel_to - cell->panel_from <= LINEAR_CELL_PANELS);
    const int32_t output = cell->panel_from * PANEL_OUTPUTS;
    struct linear rest = *linear;
    rest.weight = panels_from(&linear->weight, cell->panel_from);
    if (rest.bias != NULL) {
        rest.bias += output;
    }
    const struct linear_input rows = {
        .f32 = rows_from(&x->f32, cell->row_from), .int8 = rows_from(&x->int8, cell->row_from)};
    const struct linear_cell part = {
        .row_to = cell->row_to - cell->row_from,
        .panel_to = cell->panel_to - cell->panel_from,
        .panel_next = MAX(cell->panel_next - cell->panel_from, 0),
    };
    multiply(kernels, &rest, &rows, &part, out, LINEAR_CELL_OUTPUTS);
    add_low(kernels, linear, x, cell, out, LINEAR_CELL_OUTPUTS);
}

/* ---- several outputs of one input ---------------------------------------------------------- */

struct project_region {
    const struct kernels *kernels;
    const struct linear_input *x;
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
    const struct linear_cell cell = linear_cell_of(&region->grids[job], chunk);
    multiply(region->kernels, it->linear, region->x, &cell, it->y, it->y_stride);
    for (struct linear_cell part = cell; part.panel_from < cell.panel_to;
         part.panel_from = part.panel_to) {
        part = linear_cell_part(&cell, part.panel_from);
        float *y =
            it->y + (size_t)part.row_from * it->y_stride + (size_t)part.panel_from * PANEL_OUTPUTS;
        add_low(region->kernels, it->linear, region->x, &part, y, it->y_stride);
    }
}

void linear_project(const struct kernels *kernels, struct threads *threads,
    const struct linear_input *x, const struct linear_job *jobs, int32_t job_count)
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
        ASSERT(jobs[i].linear->weight.inputs == x->f32.inputs);
        region.grids[i] = linear_grid_of(&jobs[i].linear->weight, x->f32.rows, threads);
        chunk_count += region.grids[i].chunk_count;
    }
    threads_run(threads, chunk_count, project_chunk, &region);
}

void linear_rows(struct pass *pass, const struct linear *linear, const float *input)
{
    ASSERT(linear->weight.outputs == pass->model->info.hidden);
    struct linear_input x = linear_prepare_tile(pass, input, &linear, 1);
    struct linear_job job = {linear, pass->scratch->h, (size_t)linear->weight.outputs};
    linear_project(pass->kernels, pass->threads, &x, &job, 1);
}

/* ---- added to the residual ----------------------------------------------------------------- */

struct add_region {
    const struct pass *pass;
    const struct linear *linear;
    struct linear_input x;
    struct linear_grid grid;
};

static void add_cell(const struct add_region *region, const struct linear_cell *cell)
{
    const struct pass *pass = region->pass;
    _Alignas(64) float y[LINEAR_CELL_FLOATS];
    const int32_t from = cell->panel_from * PANEL_OUTPUTS;
    const int32_t to = MIN(cell->panel_to * PANEL_OUTPUTS, region->linear->weight.outputs);
    for (int32_t r = cell->row_from; r < cell->row_to; r++) { /* of use when y is there */
        const float *x = pass->batch->x[pass->tile->rows[r]];
        for (int32_t output = from; output < to; output += PANEL_OUTPUTS) {
            __builtin_prefetch(x + output, 1, 2);
        }
    }
    linear_multiply_cell(pass->kernels, region->linear, &region->x, cell, y);
    for (int32_t r = cell->row_from; r < cell->row_to; r++) {
        float *x = pass->batch->x[pass->tile->rows[r]];
        const float *sum = y + (size_t)(r - cell->row_from) * LINEAR_CELL_OUTPUTS;
        pass->kernels->add(x + from, sum, to - from);
    }
}

static void add_chunk(void *context, int32_t chunk, int32_t thread)
{
    const struct add_region *region = context;
    const struct linear_cell whole = linear_cell_of(&region->grid, chunk);
    struct linear_cell cell = whole;
    for (; cell.panel_from < whole.panel_to; cell.panel_from = cell.panel_to) {
        cell = linear_cell_part(&whole, cell.panel_from);
        add_cell(region, &cell);
    }
}

void linear_add(struct pass *pass, const struct linear *linear, const float *input)
{
    const struct packed *weight = &linear->weight;
    ASSERT(weight->outputs == pass->model->info.hidden);
    struct add_region region = {
        .pass = pass,
        .linear = linear,
        .x = linear_prepare_tile(pass, input, &linear, 1),
        .grid = linear_grid_of(weight, pass->tile->row_count, pass->threads),
    };
    threads_run(pass->threads, region.grid.chunk_count, add_chunk, &region);
}
