/* Norms of a tile's rows: gathers scattered residuals into consecutive rows of scratch. */
#include "engine/blocks/norm.h"

#include <string.h>

enum { NORM_ROWS = 16 }; /* of one chunk: a decode step of few rows runs inline */

void norm_row(
    const struct model *model, const struct norm *norm, const float *x, int32_t count, float *out)
{
    const struct kernels *kernels = model->kernels;
    if (norm->weight == NULL) {
        if (out != x) {
            memcpy(out, x, (size_t)count * sizeof(*out));
        }
    } else if (model->hyper.norm_kind == NORM_LAYER) {
        kernels->layer_norm(x, norm->weight, norm->bias, model->hyper.norm_eps, count, out);
    } else {
        kernels->rms_norm(x, norm->weight, model->hyper.norm_eps, count, out);
    }
}

struct norm_region {
    const struct pass *pass;
    const struct norm *norm;
    /* x and h [hidden] of one row */
    void (*work)(const struct pass *pass, const struct norm *norm, float *x, float *h);
};

static void norm_chunk(void *context, int32_t chunk, int32_t thread)
{
    const struct norm_region *region = context;
    const struct pass *pass = region->pass;
    size_t hidden = (size_t)pass->model->info.hidden;
    int32_t to = MIN((chunk + 1) * NORM_ROWS, pass->tile->row_count);
    for (int32_t r = chunk * NORM_ROWS; r < to; r++) {
        region->work(pass, region->norm, pass->batch->x[pass->tile->rows[r]],
            pass->scratch->h + (size_t)r * hidden);
    }
}

static void each_row(struct norm_region *region)
{
    const struct pass *pass = region->pass;
    int32_t chunk_count = (pass->tile->row_count + NORM_ROWS - 1) / NORM_ROWS;
    threads_run(pass->threads, chunk_count, norm_chunk, region);
}

static void gather(const struct pass *pass, const struct norm *norm, float *x, float *h)
{
    norm_row(pass->model, norm, x, pass->model->info.hidden, h);
}

void norm_rows(struct pass *pass, const struct norm *norm)
{
    each_row(&(struct norm_region){.pass = pass, .norm = norm, .work = gather});
}

static void replace(const struct pass *pass, const struct norm *norm, float *x, float *h)
{
    size_t hidden = (size_t)pass->model->info.hidden;
    norm_row(pass->model, norm, x, (int32_t)hidden, x);
    memcpy(h, x, hidden * sizeof(*h));
}

void norm_residual(struct pass *pass, const struct norm *norm)
{
    each_row(&(struct norm_region){.pass = pass, .norm = norm, .work = replace});
}

static void add(const struct pass *pass, const struct norm *norm, float *x, float *h)
{
    norm_row(pass->model, norm, h, pass->model->info.hidden, h);
    pass->kernels->add(x, h, pass->model->info.hidden);
}

void norm_add(struct pass *pass, const struct norm *norm)
{
    each_row(&(struct norm_region){.pass = pass, .norm = norm, .work = add});
}
