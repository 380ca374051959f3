/*
 * The dense head: up to two linear layers from a pooled vector to the vector that is handed out, as
 * sentence-transformers trains them (EmbeddingGemma: 768 to 3072 to 768). Any network may have one.
 *
 * It is called for all vectors that a step completes, side by side: each layer's weights, 9 MB of
 * EmbeddingGemma's, are then read once for all of them. A vector's numbers follow from that vector
 * alone, as everything that kernels->linear computes.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "engine/base/assert.h"
#include "engine/blocks/linear.h"

/* 32 of EmbeddingGemma's widest rows are 400 KB, which still lie in a second-level cache. */
enum { DENSE_ROWS = 32 };

int32_t dense_rows(int32_t tile_rows)
{
    return MIN(tile_rows, DENSE_ROWS);
}

/* ---- keys and tensors ----------------------------------------------------------------------- */

static const char *key_of(const struct model *model, int32_t i, const char *name, char key[96])
{
    (void)snprintf(key, 96, "%s.dense_%" PRId32 "_%s", model->network->name, DENSE_FIRST + i, name);
    return key;
}

/* "identity", which is also what no word means, or "tanh". */
static enum err read_activation(
    struct dense *dense, const struct gguf *gguf, const char *key, struct err_info *info)
{
    struct gguf_string word = {.bytes = "identity", .count = strlen("identity")};
    enum err err = gguf_get_string(gguf, key, false, &word, info);
    if (err != ERR_OK) {
        return err;
    }
    dense->tanh = word.count == 4 && memcmp(word.bytes, "tanh", 4) == 0;
    if (!dense->tanh && (word.count != 8 || memcmp(word.bytes, "identity", 8) != 0)) {
        return err_set(info, ERR_UNSUPPORTED, key, "only identity and tanh are built");
    }
    return ERR_OK;
}

static enum err describe_layer(
    struct model *model, const struct gguf *gguf, int32_t i, struct err_info *info)
{
    struct dense *dense = &model->dense[i];
    int64_t inputs = 0;
    int64_t outputs = 0;
    char key[96];
    enum err err =
        gguf_get_i64(gguf, key_of(model, i, "feat_in", key), true, 1, LIMIT_HIDDEN, &inputs, info);
    if (err == ERR_OK && inputs != model->info.vector) {
        return err_set(info, ERR_FORMAT, key,
            "%" PRId64 " numbers go in, but %" PRId32 " are there", inputs, model->info.vector);
    }
    if (err == ERR_OK) {
        err = gguf_get_i64(
            gguf, key_of(model, i, "feat_out", key), true, 1, LIMIT_HIDDEN, &outputs, info);
    }
    if (err == ERR_OK) {
        err = gguf_get_bool(gguf, key_of(model, i, "bias", key), false, &dense->biased, info);
    }
    if (err == ERR_OK) {
        err = read_activation(dense, gguf, key_of(model, i, "activation", key), info);
    }
    if (err == ERR_OK) {
        dense->inputs = (int32_t)inputs;
        dense->outputs = (int32_t)outputs;
        model->info.vector = dense->outputs;
        model->info.dense_widest =
            MAX(model->info.dense_widest, MAX(dense->inputs, dense->outputs));
        model->dense_count = i + 1;
    }
    return err;
}

/* Layers are numbered without a gap; one key of a layer asks for all that have no default. */
enum err dense_describe(struct model *model, const struct gguf *gguf, struct err_info *info)
{
    static const char *const names[] = {"feat_in", "feat_out", "bias", "activation"};
    enum err err = ERR_OK;
    model->info.vector = model->info.hidden;
    model->info.dense_widest = model->dense_count = 0;
    for (int32_t i = 0; i < DENSE_MAX && err == ERR_OK; i++) {
        const char *stated = NULL;
        char key[96];
        for (size_t n = 0; n < ARRAY_COUNT(names) && stated == NULL; n++) {
            stated = gguf_has(gguf, key_of(model, i, names[n], key)) ? key : NULL;
        }
        if (stated != NULL && model->dense_count < i) {
            return err_set(info, ERR_FORMAT, stated, "the dense layer before it is missing");
        }
        if (stated != NULL) {
            err = describe_layer(model, gguf, i, info);
        }
    }
    return err;
}

enum err dense_load(struct model *model, struct weights *weights, struct err_info *info)
{
    enum err err = ERR_OK;
    for (int32_t i = 0; i < model->dense_count && err == ERR_OK; i++) {
        struct dense *dense = &model->dense[i];
        char name[32];
        (void)snprintf(name, sizeof(name), "dense_%" PRId32 ".weight", DENSE_FIRST + i);
        err = weights_matrix(
            weights, name, dense->outputs, dense->inputs, &dense->linear.weight, info);
        if (err == ERR_OK && dense->biased) {
            (void)snprintf(name, sizeof(name), "dense_%" PRId32 ".bias", DENSE_FIRST + i);
            err = weights_vector(weights, name, dense->outputs, &dense->linear.bias, info);
        }
    }
    return err;
}

/* ---- the pass ------------------------------------------------------------------------------- */

/* scratch->dense[0] -> scratch->dense[1], and the other way round for the next layer. */
static void run_layer(const struct model *model, struct scratch *scratch, struct threads *threads,
    int32_t layer, int32_t rows)
{
    const struct dense *dense = &model->dense[layer];
    const float *x = scratch->dense[layer % 2];
    float *y = scratch->dense[(layer + 1) % 2];
    struct linear_input input = linear_prepare(model, scratch, threads, x, rows, dense->inputs);
    struct linear_job job = {.linear = &dense->linear, .y = y, .y_stride = (size_t)dense->outputs};
    linear_project(model->kernels, threads, &input, &job, 1);
    const size_t count = (size_t)rows * (size_t)dense->outputs;
    for (size_t i = 0; dense->tanh && i < count; i++) {
        y[i] = (float)tanh((double)y[i]);
    }
}

void model_dense(const struct model *model, struct scratch *scratch, struct threads *threads,
    double *const *rows, int32_t count)
{
    ASSERT(!model->dry && model->dense_count > 0);
    const size_t hidden = (size_t)model->info.hidden;
    const size_t vector = (size_t)model->info.vector;
    const int32_t step = dense_rows(scratch->tile_rows);
    for (int32_t from = 0; from < count; from += step) {
        const int32_t some = MIN(step, count - from);
        for (int32_t r = 0; r < some; r++) {
            for (size_t i = 0; i < hidden; i++) {
                scratch->dense[0][(size_t)r * hidden + i] = (float)rows[from + r][i];
            }
        }
        for (int32_t layer = 0; layer < model->dense_count; layer++) {
            run_layer(model, scratch, threads, layer, some);
        }
        const float *out = scratch->dense[model->dense_count % 2];
        for (int32_t r = 0; r < some; r++) {
            for (size_t i = 0; i < vector; i++) {
                rows[from + r][i] = (double)out[(size_t)r * vector + i];
            }
        }
    }
}
