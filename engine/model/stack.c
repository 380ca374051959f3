/*
 * Pairs of small matrices from the tensors of adapters; stack.h. The model remembers where each
 * matrix of its file went, also where it holds several in one (Q, K and V): the rows of B that
 * belong to a part are those of W, and A is the same for all parts. So no network has to be asked.
 */
#include "engine/model/stack.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include "engine/base/assert.h"
#include "engine/base/checked.h"
#include "engine/base/mem.h"
#include "engine/model/parts.h"

_Static_assert(offsetof(struct linear, weight) == 0, "a matrix of a layer is its linear's first");

struct laying {
    struct model *model;
    const struct gguf *gguf;
    const struct stack_set *set;
    struct err_info *info;
    uint64_t used; /* of the block */
};

static const char *matrix_name(const struct laying *laying, const struct weights_matrix *matrix)
{
    return gguf_tensor_at(laying->gguf, matrix->tensor)->name.bytes;
}

/* Embedding and head are no linears of a layer. */
static bool in_layer(const struct laying *laying, const struct weights_matrix *matrix)
{
    return strncmp(matrix_name(laying, matrix), "blk.", strlen("blk.")) == 0;
}

/* ---- checks --------------------------------------------------------------------------------- */

/* What one adapter has for one matrix. */
struct pair {
    const struct gguf_tensor *a, *b; /* both, or neither */
    int32_t rank;
};

static struct pair pair_of(
    const struct laying *laying, const struct adapter *adapter, const struct weights_matrix *matrix)
{
    const char *name = matrix_name(laying, matrix);
    struct pair pair = {
        adapter_find(adapter, name, ".lora_a"), adapter_find(adapter, name, ".lora_b"), 0};
    pair.rank = pair.a == NULL ? 0 : (int32_t)MIN(pair.a->shape[1], (int64_t)INT32_MAX);
    return pair;
}

static enum err check_shape(const struct laying *laying, const struct adapter *adapter,
    const struct gguf_tensor *tensor, int64_t inputs, int64_t outputs)
{
    const int64_t *shape = tensor->shape;
    if (shape[0] == inputs && shape[1] == outputs && shape[2] == 1 && shape[3] == 1) {
        return ERR_OK;
    }
    return adapter_fail(adapter, tensor, ERR_FORMAT, laying->info,
        "its shape is [%" PRId64 ", %" PRId64 "], expected [%" PRId64 ", %" PRId64 "]", shape[1],
        shape[0], outputs, inputs);
}

/* Marks the tensors of the pair in `used`. */
static enum err check_pair(const struct laying *laying, const struct adapter *adapter,
    const struct weights_matrix *matrix, unsigned char *used)
{
    const struct pair pair = pair_of(laying, adapter, matrix);
    if (pair.a == NULL && pair.b == NULL) {
        return ERR_OK;
    }
    if (pair.a == NULL || pair.b == NULL) {
        return adapter_fail(adapter, pair.a == NULL ? pair.b : pair.a, ERR_FORMAT, laying->info,
            "the tensor %s that belongs to it is missing", pair.a == NULL ? "A" : "B");
    }
    if (pair.rank > LIMIT_ADAPTER_RANK) {
        return adapter_fail(adapter, pair.a, ERR_LIMIT, laying->info,
            "its rank is %" PRId64 ", at most %d is possible", pair.a->shape[1],
            LIMIT_ADAPTER_RANK);
    }
    enum err err = check_shape(laying, adapter, pair.a, matrix->out->inputs, pair.rank);
    if (err == ERR_OK) {
        err = check_shape(laying, adapter, pair.b, pair.rank, matrix->of);
    }
    const struct gguf_tensor *first = gguf_tensor_at(adapter->gguf, 0);
    used[pair.a - first] = 1;
    used[pair.b - first] = 1;
    return err;
}

static enum err check_tensors(
    const struct laying *laying, const struct adapter *adapter, unsigned char *used)
{
    enum err err = ERR_OK;
    const struct model *model = laying->model;
    for (int32_t m = 0; m < model->matrix_count && err == ERR_OK; m++) {
        if (in_layer(laying, &model->matrices[m])) {
            err = check_pair(laying, adapter, &model->matrices[m], used);
        }
    }
    for (int32_t i = 0; i < gguf_tensor_count(adapter->gguf) && err == ERR_OK; i++) {
        if (used[i] == 0) {
            err = adapter_fail(adapter, gguf_tensor_at(adapter->gguf, i), ERR_UNSUPPORTED,
                laying->info, "this network has no matrix that such a tensor changes");
        }
    }
    return err;
}

static enum err check_adapter(const struct laying *laying, const struct adapter *adapter)
{
    const int32_t count = gguf_tensor_count(adapter->gguf);
    if (count == 0) {
        return err_set(laying->info, ERR_FORMAT, adapter->name, "the adapter has no tensors");
    }
    unsigned char *used = mem_alloc(MEM_OTHER, (size_t)count);
    if (used == NULL) {
        return err_set(laying->info, ERR_NO_MEMORY, adapter->name, "no memory to check it");
    }
    enum err err = check_tensors(laying, adapter, used);
    mem_free(used);
    return err;
}

/* ---- numbers -------------------------------------------------------------------------------- */

/* The whole tensor as f32. */
static enum err read_numbers(const struct laying *laying, const struct adapter *adapter,
    const struct gguf_tensor *tensor, float **out_numbers)
{
    const size_t count = (size_t)(tensor->shape[0] * tensor->shape[1]); /* the file holds as many */
    unsigned char *bytes = mem_alloc(MEM_OTHER, tensor->bytes);
    float *numbers = mem_array(MEM_OTHER, count, sizeof(*numbers));
    enum err err = ERR_OK;
    if (bytes == NULL || numbers == NULL) {
        err = adapter_fail(adapter, tensor, ERR_NO_MEMORY, laying->info, "no memory to read it");
    } else {
        err = gguf_read(adapter->gguf, tensor, 0, tensor->bytes, bytes, laying->info);
    }
    if (err == ERR_OK && !tensor_type_finite(tensor->type, bytes, count)) {
        err = adapter_fail(adapter, tensor, ERR_NON_FINITE, laying->info,
            "the tensor holds a NaN or an infinite number");
    }
    if (err == ERR_OK) {
        tensor_type_unpack(tensor->type, bytes, count, numbers);
        *out_numbers = numbers;
    } else {
        mem_free(numbers);
    }
    mem_free(bytes);
    return err;
}

/* Where one adapter's numbers go: from `column` on of the ranks side by side. */
struct place {
    float *a, *b; /* [rank of all, inputs], [outputs, rank of all] */
    int32_t column, rank_all;
};

static enum err place_pair(const struct laying *laying, const struct adapter *adapter,
    const struct weights_matrix *matrix, const struct pair *pair, const struct place *place)
{
    const size_t rank = (size_t)pair->rank, inputs = (size_t)matrix->out->inputs;
    const double scale = adapter_scale(adapter, pair->rank);
    float *a = NULL, *b = NULL;
    enum err err = read_numbers(laying, adapter, pair->a, &a);
    if (err == ERR_OK) {
        err = read_numbers(laying, adapter, pair->b, &b);
    }
    if (err == ERR_OK) {
        memcpy(place->a + (size_t)place->column * inputs, a, rank * inputs * sizeof(*a));
    }
    for (int32_t o = 0; err == ERR_OK && o < matrix->out->outputs; o++) {
        const float *from = b + (size_t)(matrix->from + o) * rank;
        float *to = place->b + (size_t)o * (size_t)place->rank_all + place->column;
        for (size_t r = 0; r < rank; r++) {
            to[r] = (float)(scale * (double)from[r]);
        }
        for (size_t r = 0; err == ERR_OK && r < rank; r++) {
            if (!isfinite(to[r])) {
                err = adapter_fail(adapter, pair->b, ERR_NON_FINITE, laying->info,
                    "a number times the scale %g is infinite", scale);
            }
        }
    }
    mem_free(a);
    mem_free(b);
    return err;
}

static enum err place_all(const struct laying *laying, const struct stack *stack,
    const struct weights_matrix *matrix, struct place *place)
{
    enum err err = ERR_OK;
    for (int32_t i = 0; i < stack->count && err == ERR_OK; i++) {
        const struct adapter *adapter = &laying->set->adapters[stack->adapters[i]];
        const struct pair pair = pair_of(laying, adapter, matrix);
        if (pair.a != NULL) {
            err = place_pair(laying, adapter, matrix, &pair, place);
        }
        place->column += pair.rank;
    }
    return err;
}

static enum err fill(const struct laying *laying, const struct stack *stack,
    const struct weights_matrix *matrix, const struct low_rank *low)
{
    const struct kernels *kernels = laying->model->kernels;
    const size_t rank = (size_t)low->a.outputs;
    struct place place = {
        .a = mem_array(MEM_OTHER, rank, (size_t)low->a.inputs * sizeof(float)),
        .b = mem_array(MEM_OTHER, rank, (size_t)low->b.outputs * sizeof(float)),
        .rank_all = low->a.outputs,
    };
    enum err err = ERR_OK;
    if (place.a == NULL || place.b == NULL) {
        err = err_set(
            laying->info, ERR_NO_MEMORY, matrix_name(laying, matrix), "no memory for its adapters");
    } else {
        err = place_all(laying, stack, matrix, &place);
    }
    if (err == ERR_OK) {
        kernels->pack(&low->a, 0, low->a.outputs, place.a);
        kernels->pack(&low->b, 0, low->b.outputs, place.b);
    }
    mem_free(place.a);
    mem_free(place.b);
    return err;
}

/* ---- pairs ---------------------------------------------------------------------------------- */

/* A matrix that will take the next part of the block. */
static enum err size_packed(
    struct laying *laying, const char *name, int32_t outputs, int32_t inputs, struct packed *out)
{
    struct packed packed = {.type = TENSOR_F32,
        .outputs = outputs,
        .inputs = inputs,
        .panels = (outputs + PANEL_OUTPUTS - 1) / PANEL_OUTPUTS,
        .panel_bytes = laying->model->kernels->panel_bytes(TENSOR_F32, inputs)};
    size_t bytes;
    if (packed.panel_bytes == 0 ||
        !checked_mul((size_t)packed.panels, packed.panel_bytes, &bytes) ||
        !checked_align(bytes, WEIGHTS_ALIGNMENT, &bytes)) {
        return err_set(laying->info, ERR_UNSUPPORTED, name,
            "%s kernels cannot hold %d inputs of an adapter", laying->model->kernels->name, inputs);
    }
    if (laying->model->stacked != NULL) {
        packed.data = laying->model->stacked + laying->used;
    }
    laying->used += bytes;
    *out = packed;
    return ERR_OK;
}

static enum err lay_pair(struct laying *laying, const struct stack *stack,
    const struct weights_matrix *matrix, struct low_rank *low)
{
    int32_t rank = 0;
    for (int32_t i = 0; i < stack->count; i++) {
        rank += pair_of(laying, &laying->set->adapters[stack->adapters[i]], matrix).rank;
    }
    if (rank == 0) {
        return ERR_OK;
    }
    const char *name = matrix_name(laying, matrix);
    enum err err = size_packed(laying, name, rank, matrix->out->inputs, &low->a);
    if (err == ERR_OK) {
        err = size_packed(laying, name, matrix->out->outputs, rank, &low->b);
    }
    return err == ERR_OK && laying->model->stacked != NULL ? fill(laying, stack, matrix, low) : err;
}

/* Called twice: to count bytes, then to fill the block. */
static enum err lay_all(struct laying *laying)
{
    const struct model *model = laying->model;
    const int32_t stacks = laying->set->stack_count;
    enum err err = ERR_OK;
    laying->used = 0;
    for (int32_t m = 0; m < model->matrix_count; m++) {
        const struct weights_matrix *matrix = &model->matrices[m];
        struct low_rank *low = model->low_ranks + (size_t)m * (size_t)stacks;
        if (!in_layer(laying, matrix)) {
            continue;
        }
        ((struct linear *)(void *)matrix->out)->low = low;
        for (int32_t s = 0; s < stacks && err == ERR_OK; s++) {
            err = lay_pair(laying, &laying->set->stacks[s], matrix, &low[s]);
        }
    }
    return err;
}

/* Places side by side in a row of scratch->low for linears that read the same rows. Returns the
 * numbers such a row has. */
static int32_t place_columns(struct linear *const *linears, size_t linear_count, int32_t stacks)
{
    int32_t widest = 0;
    for (int32_t s = 0; s < stacks; s++) {
        int32_t column = 0;
        for (size_t i = 0; i < linear_count; i++) {
            if (linears[i]->low != NULL) {
                struct low_rank *low = &linears[i]->low[s];
                low->column = column;
                column += low->a.outputs;
            }
        }
        widest = MAX(widest, column);
    }
    return widest;
}

static void place_layers(struct model *model)
{
    int32_t width = 0;
    for (int32_t l = 0; l < model->info.layers; l++) {
        struct layer *layer = &model->layers[l];
        struct linear *const sides[] = {&layer->q, &layer->k, &layer->v};
        struct linear *const gates[] = {&layer->gate, &layer->up};
        struct linear *const single[] = {&layer->output, &layer->down};
        width = MAX(width, place_columns(sides, ARRAY_COUNT(sides), model->stack_count));
        width = MAX(width, place_columns(gates, ARRAY_COUNT(gates), model->stack_count));
        width = MAX(width, place_columns(&single[0], 1, model->stack_count));
        width = MAX(width, place_columns(&single[1], 1, model->stack_count));
    }
    model->info.adapter_width = (width + PANEL_OUTPUTS - 1) / PANEL_OUTPUTS * PANEL_OUTPUTS;
}

enum err model_lay_stacks(struct model *model, const struct gguf *gguf, const struct stack_set *set,
    struct err_info *info)
{
    struct laying laying = {.model = model, .gguf = gguf, .set = set, .info = info};
    ASSERT(model->stack_count == 0);
    enum err err = ERR_OK;
    for (int32_t i = 0; i < set->adapter_count && err == ERR_OK; i++) {
        err = check_adapter(&laying, &set->adapters[i]);
    }
    if (err != ERR_OK || set->stack_count == 0) {
        return err;
    }
    model->low_ranks = mem_array(MEM_OTHER, (size_t)model->matrix_count,
        (size_t)set->stack_count * sizeof(*model->low_ranks));
    if (model->low_ranks == NULL) {
        return err_set(info, ERR_NO_MEMORY, "adapters", "no memory for the list of pairs");
    }
    model->stack_count = set->stack_count;
    err = lay_all(&laying);
    model->stacked_bytes = laying.used;
    if (err == ERR_OK && !model->dry) {
        model->stacked = mem_alloc(MEM_WEIGHTS, laying.used);
        err = model->stacked == NULL ? err_set(info, ERR_NO_MEMORY, "adapters",
                                           "no memory for their %" PRIu64 " bytes", laying.used)
                                     : lay_all(&laying);
    }
    place_layers(model);
    return err;
}

uint64_t model_stack_bytes(const struct model *model)
{
    return model->stacked_bytes;
}
