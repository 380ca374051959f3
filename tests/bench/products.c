/* The products of a decode step, from the parts that the engine makes it of. */
#include "tests/bench/products.h"

#include <stdio.h>
#include <stdlib.h>
#include "engine/base/mem.h"
#include "engine/blocks/linear.h"
#include "engine/load/checkpoint.h"

struct products {
    struct gguf *gguf;
    struct kernels kernels;
    struct threads *threads;
    struct model *model;
    struct scratch *scratch;
    float *y; /* [rows_max, the widest of a region's results] */
};

static void fill(float *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        numbers[i] = (float)(i % 61) / 61 - 0.5f;
    }
}

struct products *products_open(const struct engine_config *config, int32_t rows_max)
{
    struct err_info info = {0};
    struct products *products = mem_alloc(MEM_OTHER, sizeof *products);
    if (products == NULL || kernels_select(config->kernels, &products->kernels, &info) != ERR_OK ||
        checkpoint_open(config->model_path, &products->gguf, &info) != ERR_OK ||
        threads_open(config->threads, &products->threads) != ERR_OK ||
        model_open(products->gguf, &products->kernels, products->threads, false, &products->model,
            &info) != ERR_OK ||
        (config->int8_activations && model_use_int8(products->model, &info) != ERR_OK) ||
        scratch_open(products->model, rows_max, &products->scratch) != ERR_OK) {
        (void)fprintf(stderr, "products: %s: %s\n", info.where, info.text);
        exit(1);
    }
    const struct model_info *sizes = model_info(products->model);
    const size_t rows = (size_t)rows_max;
    const int32_t heads = (sizes->heads + 2 * sizes->heads_kv) * sizes->head_dim;
    const int32_t widest = MAX(MAX(sizes->vocab, 2 * sizes->ffn), MAX(heads, sizes->hidden));
    products->y = mem_alloc(MEM_OTHER, rows * (size_t)widest * sizeof(float));
    if (products->y == NULL) {
        (void)fprintf(stderr, "products: no memory for results\n");
        exit(1);
    }
    fill(products->scratch->h, rows * (size_t)sizes->hidden);
    fill(products->scratch->attended, rows * (size_t)sizes->heads * (size_t)sizes->head_dim);
    fill(products->scratch->gate, rows * (size_t)sizes->ffn);
    return products;
}

void products_close(struct products *products)
{
    mem_free(products->y);
    scratch_close(products->scratch);
    model_close(products->model);
    threads_close(products->threads);
    gguf_close(products->gguf);
    mem_free(products);
}

/* y = W x of one or more matrices that read the same rows, in one region. */
static void multiply(struct products *products, const float *x, int32_t rows,
    const struct linear *const *linears, int32_t count, float *y)
{
    struct linear_job jobs[LINEAR_JOBS_MAX];
    for (int32_t i = 0; i < count; i++) {
        jobs[i] = (struct linear_job){linears[i], y, (size_t)linears[i]->weight.outputs};
        y += (size_t)rows * (size_t)linears[i]->weight.outputs;
    }
    const struct linear_input input = linear_prepare(
        products->model, products->scratch, products->threads, x, rows, linears[0]->weight.inputs);
    linear_project(&products->kernels, products->threads, &input, jobs, count);
}

/* Nobody reads the results. */
void products_step(struct products *products, int32_t rows)
{
    const struct scratch *scratch = products->scratch;
    const struct model *model = products->model;
    for (int32_t l = 0; l < model->info.layers; l++) {
        const struct layer *layer = &model->layers[l];
        const struct linear *in[] = {&layer->k, &layer->v, &layer->q};
        const struct linear *output = &layer->output, *down = &layer->down;
        const struct linear *gate[] = {&layer->gate, &layer->up};
        multiply(products, scratch->h, rows, in, ARRAY_COUNT(in), products->y);
        multiply(products, scratch->attended, rows, &output, 1, products->y);
        multiply(products, scratch->h, rows, gate, ARRAY_COUNT(gate), products->y);
        multiply(products, scratch->gate, rows, &down, 1, products->y);
    }
    multiply(products, scratch->h, rows, &model->head, 1, products->y);
}
