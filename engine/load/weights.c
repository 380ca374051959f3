/*
 * Tensors by name and shape, read in slices and packed as they come. A slice is a few megabytes of
 * whole rows, so memory beyond the packed weights stays bounded and the bytes are still in cache
 * when they are packed. One thread reads, all pack: with the file in the page cache packing is
 * the larger part.
 */
#include "engine/load/weights.h"

#include <inttypes.h>
#include <stdatomic.h>
#include "engine/base/assert.h"
#include "engine/base/checked.h"
#include "engine/base/mem.h"
#include "engine/engine_limits.h"

enum {
    READ_BYTES = 4 << 20,              /* of a slice; more only where 16 rows need more */
    CHUNK_OUTPUTS = 4 * PANEL_OUTPUTS, /* packed by one thread at a time */
};

enum err weights_init(struct weights *weights, const struct gguf *gguf,
    const struct kernels *kernels, struct threads *threads, unsigned char *block,
    uint64_t block_bytes, struct err_info *info)
{
    ASSERT((uintptr_t)block % WEIGHTS_ALIGNMENT == 0);
    unsigned char *used = mem_alloc(MEM_OTHER, (size_t)gguf_tensor_count(gguf));
    if (used == NULL) {
        return err_set(info, ERR_NO_MEMORY, "weights", "no memory for the list of tensors");
    }
    *weights = (struct weights){.gguf = gguf,
        .kernels = kernels,
        .threads = threads,
        .block = block,
        .block_bytes = block_bytes,
        .used = used};
    return ERR_OK;
}

void weights_free(struct weights *weights)
{
    mem_free(weights->used);
    mem_free(weights->read_buffer);
    mem_free(weights->matrices);
    weights->matrices = NULL;
    weights->matrix_count = 0;
    weights->used = NULL;
    weights->read_buffer = NULL;
    weights->read_bytes = 0;
}

bool weights_has(const struct weights *weights, const char *name)
{
    return gguf_find_tensor(weights->gguf, name) != NULL;
}

/* The next `bytes` of the block, which the caller makes its own by adding them to weights->bytes;
 * the dry pass has asked for the same. */
static void *next_part(const struct weights *weights, uint64_t bytes)
{
    ASSERT(bytes <= weights->block_bytes - weights->bytes);
    return weights->block + weights->bytes;
}

static uint64_t rounded_up(uint64_t bytes)
{
    return (bytes + WEIGHTS_ALIGNMENT - 1) / WEIGHTS_ALIGNMENT * WEIGHTS_ALIGNMENT;
}

/* Finds a tensor of exactly this shape and marks it as used. */
static enum err take(struct weights *weights, const char *name, int64_t inputs, int64_t outputs,
    const struct gguf_tensor **out_tensor, struct err_info *info)
{
    const struct gguf_tensor *tensor = gguf_find_tensor(weights->gguf, name);
    if (tensor == NULL) {
        return err_set(info, ERR_FORMAT, name, "the tensor is missing");
    }
    const int64_t *shape = tensor->shape;
    if (shape[0] != inputs || shape[1] != outputs || shape[2] != 1 || shape[3] != 1) {
        return err_set(info, ERR_FORMAT, name,
            "its shape is [%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 "], expected [%" PRId64
            ", %" PRId64 "]",
            shape[0], shape[1], shape[2], shape[3], inputs, outputs);
    }
    weights->used[tensor - gguf_tensor_at(weights->gguf, 0)] = 1;
    *out_tensor = tensor;
    return ERR_OK;
}

static enum err hold_buffer(
    struct weights *weights, size_t bytes, const char *name, struct err_info *info)
{
    if (bytes <= weights->read_bytes) {
        return ERR_OK;
    }
    mem_free(weights->read_buffer);
    weights->read_bytes = 0;
    weights->read_buffer = mem_alloc(MEM_OTHER, bytes);
    if (weights->read_buffer == NULL) {
        return err_set(info, ERR_NO_MEMORY, name, "no memory to read %zu bytes", bytes);
    }
    weights->read_bytes = bytes;
    return ERR_OK;
}

static enum err non_finite(const char *name, struct err_info *info)
{
    return err_set(info, ERR_NON_FINITE, name, "the tensor holds a NaN or an infinite number");
}

/* ---- matrices ------------------------------------------------------------------------------- */

/* Rows [output_from, output_from + output_count) of a matrix, read and waiting to be packed. */
struct slice {
    const struct kernels *kernels;
    const struct packed *packed;
    const unsigned char *rows;
    size_t row_bytes;
    int32_t output_from, output_count;
    _Atomic bool bad;
};

static void pack_chunk(void *context, int32_t chunk, int32_t thread)
{
    struct slice *slice = context;
    const int32_t from = chunk * CHUNK_OUTPUTS;
    const int32_t count = MIN(CHUNK_OUTPUTS, slice->output_count - from);
    const unsigned char *rows = slice->rows + (size_t)from * slice->row_bytes;
    const size_t numbers = (size_t)count * (size_t)slice->packed->inputs;
    if (!tensor_type_finite(slice->packed->type, rows, numbers)) {
        atomic_store(&slice->bad, true);
        return;
    }
    slice->kernels->pack(slice->packed, slice->output_from + from, count, rows);
}

static void run_chunks(struct weights *weights, struct slice *slice)
{
    const int32_t chunks = (slice->output_count + CHUNK_OUTPUTS - 1) / CHUNK_OUTPUTS;
    if (weights->threads != NULL) {
        threads_run(weights->threads, chunks, pack_chunk, slice);
        return;
    }
    for (int32_t chunk = 0; chunk < chunks; chunk++) {
        pack_chunk(slice, chunk, 0);
    }
}

/* `skip`: rows of the tensor before the first. */
static enum err pack_all(struct weights *weights, const struct gguf_tensor *tensor, int32_t skip,
    const struct packed *packed, struct err_info *info)
{
    const char *name = tensor->name.bytes;
    const size_t row_bytes = tensor->bytes / (size_t)tensor->shape[1];
    const size_t rows_fit =
        MAX((size_t)PANEL_OUTPUTS, READ_BYTES / row_bytes / PANEL_OUTPUTS * PANEL_OUTPUTS);
    const int32_t step = (int32_t)MIN(rows_fit, (size_t)packed->outputs);
    enum err err = hold_buffer(weights, (size_t)step * row_bytes, name, info);
    for (int32_t from = 0; from < packed->outputs && err == ERR_OK; from += step) {
        struct slice slice = {.kernels = weights->kernels,
            .packed = packed,
            .rows = weights->read_buffer,
            .row_bytes = row_bytes,
            .output_from = from,
            .output_count = MIN(step, packed->outputs - from)};
        err = gguf_read(weights->gguf, tensor, ((size_t)skip + (size_t)from) * row_bytes,
            (size_t)slice.output_count * row_bytes, weights->read_buffer, info);
        if (err == ERR_OK) {
            run_chunks(weights, &slice);
            err = atomic_load(&slice.bad) ? non_finite(name, info) : ERR_OK;
        }
    }
    return err;
}

/* The list doubles whenever it is full, at powers of two. */
static enum err note_matrix(
    struct weights *weights, const struct weights_matrix *matrix, struct err_info *info)
{
    const size_t count = (size_t)weights->matrix_count;
    if (count == 0 || (count & (count - 1)) == 0) {
        const size_t bytes = MAX(2 * count, (size_t)1) * sizeof(*matrix);
        struct weights_matrix *grown = weights->matrices == NULL
                                           ? mem_alloc(MEM_OTHER, bytes)
                                           : mem_grow(MEM_OTHER, weights->matrices, bytes);
        if (grown == NULL) {
            return err_set(info, ERR_NO_MEMORY, "weights", "no memory for the list of matrices");
        }
        weights->matrices = grown;
    }
    weights->matrices[weights->matrix_count++] = *matrix;
    return ERR_OK;
}

enum err weights_matrix(struct weights *weights, const char *name, int32_t outputs, int32_t inputs,
    struct packed *out, struct err_info *info)
{
    return weights_matrix_part(weights, name, 0, outputs, outputs, inputs, out, info);
}

enum err weights_matrix_part(struct weights *weights, const char *name, int32_t from,
    int32_t outputs, int32_t of, int32_t inputs, struct packed *out, struct err_info *info)
{
    ASSERT(outputs > 0);
    ASSERT(inputs > 0);
    ASSERT(from >= 0 && from <= of - outputs);
    const struct gguf_tensor *tensor = NULL;
    enum err err = take(weights, name, inputs, of, &tensor, info);
    if (err != ERR_OK) {
        return err;
    }
    const int32_t panels = outputs / PANEL_OUTPUTS + (outputs % PANEL_OUTPUTS != 0);
    struct packed packed = {.type = tensor->type,
        .outputs = outputs,
        .inputs = inputs,
        .panels = panels,
        .panel_bytes = weights->kernels->panel_bytes(tensor->type, inputs)};
    size_t bytes;
    if (packed.panel_bytes == 0 || !checked_mul((size_t)panels, packed.panel_bytes, &bytes)) {
        return err_set(info, ERR_UNSUPPORTED, name,
            "%s kernels cannot hold %" PRId32 " inputs of %s", weights->kernels->name, inputs,
            tensor_type_word(tensor->type));
    }
    if (weights->block != NULL) {
        packed.data = next_part(weights, bytes);
        err = pack_all(weights, tensor, from, &packed, info);
        if (err != ERR_OK) {
            return err;
        }
    }
    const struct weights_matrix matrix = {
        (int32_t)(tensor - gguf_tensor_at(weights->gguf, 0)), from, of, out};
    err = note_matrix(weights, &matrix, info);
    if (err != ERR_OK) {
        return err;
    }
    weights->bytes += rounded_up(bytes);
    *out = packed;
    return ERR_OK;
}

/* ---- vectors -------------------------------------------------------------------------------- */

static enum err read_vector(struct weights *weights, const struct gguf_tensor *tensor, size_t count,
    float *numbers, struct err_info *info)
{
    const char *name = tensor->name.bytes;
    enum err err = hold_buffer(weights, tensor->bytes, name, info);
    if (err == ERR_OK) {
        err = gguf_read(weights->gguf, tensor, 0, tensor->bytes, weights->read_buffer, info);
    }
    if (err != ERR_OK) {
        return err;
    }
    if (!tensor_type_finite(tensor->type, weights->read_buffer, count)) {
        return non_finite(name, info);
    }
    tensor_type_unpack(tensor->type, weights->read_buffer, count, numbers);
    for (size_t i = 0; tensor->less_one && i < count; i++) {
        numbers[i] += 1;
    }
    return ERR_OK;
}

enum err weights_vector(
    struct weights *weights, const char *name, int32_t count, float **out, struct err_info *info)
{
    return weights_table(weights, name, 1, count, out, info);
}

int32_t weights_rows(const struct weights *weights, const char *name)
{
    const struct gguf_tensor *tensor = gguf_find_tensor(weights->gguf, name);
    return tensor != NULL && tensor->shape[1] <= LIMIT_VOCAB ? (int32_t)tensor->shape[1] : 0;
}

enum err weights_table(struct weights *weights, const char *name, int32_t rows, int32_t columns,
    float **out, struct err_info *info)
{
    ASSERT(rows > 0);
    ASSERT(columns > 0);
    const struct gguf_tensor *tensor = NULL;
    enum err err = take(weights, name, columns, rows, &tensor, info);
    if (err != ERR_OK) {
        return err;
    }
    if (tensor_type_block(tensor->type) != 1) {
        return err_set(
            info, ERR_UNSUPPORTED, name, "a vector of type %s", tensor_type_word(tensor->type));
    }
    float *numbers = NULL;
    const size_t count = (size_t)rows * (size_t)columns; /* the file holds as many */
    const uint64_t bytes = (uint64_t)count * sizeof(*numbers);
    if (weights->block != NULL) {
        numbers = next_part(weights, bytes);
        err = read_vector(weights, tensor, count, numbers, info);
        if (err != ERR_OK) {
            return err;
        }
    }
    weights->bytes += rounded_up(bytes);
    *out = numbers;
    return ERR_OK;
}

enum err weights_unused(const struct weights *weights, struct err_info *info)
{
    for (int32_t i = 0; i < gguf_tensor_count(weights->gguf); i++) {
        if (weights->used[i] == 0) {
            return err_set(info, ERR_UNSUPPORTED, gguf_tensor_at(weights->gguf, i)->name.bytes,
                "this network has no use for the tensor");
        }
    }
    return ERR_OK;
}
