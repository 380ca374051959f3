/* Norm of a tile's rows: gathers scattered residuals into consecutive rows of scratch. */
#include "engine/blocks/norm.h"

#include <string.h>

enum { NORM_ROWS = 16 }; /* of one chunk: a decode step of few rows runs inline */

void norm_row(
    const struct model *model, const struct norm *norm, const float *x, int32_t count, float *out)
{
    if (norm->weight != NULL) {
        model->kernels->rms_norm(x, norm->weight, model->hyper.norm_eps, count, out);
    } else if (out != x) {
        memcpy(out, x, (size_t)count * sizeof(*out));
    }
}

struct norm_region {
    const struct pass *pass;
    const struct norm *norm;
};

static void norm_chunk(void *context, int32_t chunk, int32_t thread)
{
    const struct norm_region *region = context;
    const struct pass *pass = region->pass;
    int32_t hidden = pass->model->info.hidden;
    int32_t to = MIN((chunk + 1) * NORM_ROWS, pass->tile->row_count);
    for (int32_t r = chunk * NORM_ROWS; r < to; r++) {
        const float *x = pass->batch->x[pass->tile->rows[r]];
        norm_row(
            pass->model, region->norm, x, hidden, pass->scratch->h + (size_t)r * (size_t)hidden);
    }
}

void norm_rows(struct pass *pass, const struct norm *norm)
{
    struct norm_region region = {.pass = pass, .norm = norm};
    int32_t chunk_count = (pass->tile->row_count + NORM_ROWS - 1) / NORM_ROWS;
    threads_run(pass->threads, chunk_count, norm_chunk, &region);
}
