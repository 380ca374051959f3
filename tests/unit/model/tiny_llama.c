/* Random weights come from the counter-based generator, one stream a tensor, scaled by the square
 * root of the inputs so that activations stay near 1 through any number of layers. */
#include "tests/unit/model/tiny_llama.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "engine/base/half.h"
#include "engine/base/rng.h"

static void need(bool condition, const char *what, const struct err_info *info)
{
    if (!condition) {
        (void)fprintf(stderr, "tiny_llama: %s: %s %s\n", what, info != NULL ? info->where : "",
            info != NULL ? info->text : "");
        abort();
    }
}

struct tiny_options tiny_default(void)
{
    return (struct tiny_options){
        .layers = 3,
        .hidden = 64,
        .heads = 4,
        .heads_kv = 2,
        .ffn = 96,
        .vocab = 80,
        .context = 512,
        .type = TENSOR_F32,
        .seed = 1,
    };
}

static bool wanted(const struct tiny_options *options, const char *name)
{
    return options->omit == NULL || strcmp(options->omit, name) != 0;
}

void tiny_write_keys(struct gguf_writer *writer, const struct tiny_options *options)
{
    const struct {
        const char *key;
        int32_t value;
    } sizes[] = {
        {"llama.block_count", options->layers},
        {"llama.context_length", options->context},
        {"llama.embedding_length", options->hidden},
        {"llama.feed_forward_length", options->ffn},
        {"llama.attention.head_count", options->heads},
        {"llama.attention.head_count_kv", options->heads_kv},
    };
    if (wanted(options, "general.architecture")) {
        gguf_writer_string(writer, "general.architecture", "llama");
    }
    if (wanted(options, "general.name")) {
        gguf_writer_string(writer, "general.name", "tiny llama");
    }
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        if (wanted(options, sizes[i].key)) {
            gguf_writer_u32(writer, sizes[i].key, (uint32_t)sizes[i].value);
        }
    }
    if (wanted(options, "llama.attention.layer_norm_rms_epsilon")) {
        gguf_writer_f32(writer, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    }
}

/* Uniform in [-limit, limit). */
static float random_number(
    const struct tiny_options *options, uint32_t stream, uint64_t index, double limit)
{
    return (float)((rng_uniform(options->seed, stream, index) * 2 - 1) * limit);
}

static void put_half(unsigned char *out, float value)
{
    uint16_t bits = half_to_f16(value);
    memcpy(out, &bits, sizeof(bits));
}

/* Random quants under small scales: any bits are a valid block. */
static void fill_blocks(const struct tiny_options *options, uint32_t stream, enum tensor_type type,
    size_t count, double limit, unsigned char *out)
{
    size_t block = (size_t)tensor_type_block(type), bytes = tensor_type_block_bytes(type);
    for (size_t b = 0; b < count / block; b++) {
        unsigned char *at = out + b * bytes;
        for (size_t i = 0; i < bytes; i++) {
            at[i] = (unsigned char)(rng_uniform(options->seed, stream, b * bytes + i) * 256);
        }
        if (type == TENSOR_Q8_0) {
            put_half(at, (float)(limit / 128));
        } else {
            put_half(at, (float)(limit / 8));
            put_half(at + 2, (float)-limit);
        }
    }
}

static void write_matrix(struct gguf_writer *writer, const struct tiny_options *options,
    const char *name, uint32_t stream, int32_t outputs, int32_t inputs)
{
    size_t count = (size_t)outputs * (size_t)inputs;
    size_t bytes = 0;
    if (!wanted(options, name)) {
        return;
    }
    need(tensor_type_bytes(options->type, count, &bytes), name, NULL);
    unsigned char *data = malloc(bytes);
    need(data != NULL, name, NULL);
    double limit = 2 / sqrt((double)inputs);
    if (options->type == TENSOR_F32 || options->type == TENSOR_F16) {
        for (size_t i = 0; i < count; i++) {
            float value = random_number(options, stream, i, limit);
            if (options->type == TENSOR_F16) {
                put_half(data + 2 * i, value);
            } else {
                memcpy(data + 4 * i, &value, sizeof(value));
            }
        }
    } else {
        fill_blocks(options, stream, options->type, count, limit, data);
    }
    int64_t shape[] = {inputs, outputs};
    gguf_writer_tensor(writer, name, options->type, 2, shape, data);
    free(data);
}

static void write_vector(
    struct gguf_writer *writer, const char *name, const float *numbers, int32_t count)
{
    int64_t shape[] = {count};
    gguf_writer_tensor(writer, name, TENSOR_F32, 1, shape, numbers);
}

static void write_norm(struct gguf_writer *writer, const struct tiny_options *options,
    const char *name, uint32_t stream, float first)
{
    if (!wanted(options, name)) {
        return;
    }
    float *numbers = malloc((size_t)options->hidden * sizeof(float));
    need(numbers != NULL, name, NULL);
    for (int32_t i = 0; i < options->hidden; i++) {
        numbers[i] = 1 + random_number(options, stream, (uint64_t)i, 0.2);
    }
    if (first > 0) {
        numbers[0] = first;
    }
    write_vector(writer, name, numbers, options->hidden);
    free(numbers);
}

static void write_embedding(struct gguf_writer *writer, const struct tiny_options *options)
{
    if (!options->bomb) {
        write_matrix(writer, options, "token_embd.weight", 0, options->vocab, options->hidden);
        return;
    }
    size_t count = (size_t)options->vocab * (size_t)options->hidden;
    float *numbers = malloc(count * sizeof(float));
    need(numbers != NULL, "token_embd.weight", NULL);
    for (size_t i = 0; i < count; i++) {
        bool first = i % (size_t)options->hidden == 0;
        numbers[i] = first ? 0 : random_number(options, 0, i, 1);
    }
    numbers[options->hidden] = 1;
    int64_t shape[] = {options->hidden, options->vocab};
    gguf_writer_tensor(writer, "token_embd.weight", TENSOR_F32, 2, shape, numbers);
    free(numbers);
}

static void write_layer(struct gguf_writer *writer, const struct tiny_options *options, int32_t l)
{
    int32_t hidden = options->hidden, ffn = options->ffn;
    int32_t width_kv = hidden / options->heads * options->heads_kv;
    const struct {
        const char *name;
        int32_t outputs, inputs;
    } matrices[] = {
        {"attn_q", hidden, hidden},
        {"attn_k", width_kv, hidden},
        {"attn_v", width_kv, hidden},
        {"attn_output", hidden, hidden},
        {"ffn_gate", ffn, hidden},
        {"ffn_up", ffn, hidden},
        {"ffn_down", hidden, ffn},
    };
    char name[64];
    uint32_t stream = 100 + 16 * (uint32_t)l;
    for (size_t i = 0; i < ARRAY_COUNT(matrices); i++) {
        (void)snprintf(name, sizeof(name), "blk.%d.%s.weight", l, matrices[i].name);
        write_matrix(
            writer, options, name, stream + (uint32_t)i, matrices[i].outputs, matrices[i].inputs);
    }
    (void)snprintf(name, sizeof(name), "blk.%d.attn_norm.weight", l);
    write_norm(writer, options, name, stream + 8, options->bomb && l == 0 ? 1e8f : 0);
    (void)snprintf(name, sizeof(name), "blk.%d.ffn_norm.weight", l);
    write_norm(writer, options, name, stream + 9, 0);
}

void tiny_write_tensors(struct gguf_writer *writer, const struct tiny_options *options)
{
    write_embedding(writer, options);
    if (options->untied) {
        write_matrix(writer, options, "output.weight", 1, options->vocab, options->hidden);
    }
    write_norm(writer, options, "output_norm.weight", 2, 0);
    if (options->rope_divisors) {
        float divisors[LIMIT_HEAD_DIM / 2];
        int32_t count = options->hidden / options->heads / 2;
        for (int32_t i = 0; i < count; i++) {
            divisors[i] = 1 + (float)i;
        }
        write_vector(writer, "rope_freqs.weight", divisors, count);
    }
    for (int32_t l = 0; l < options->layers; l++) {
        write_layer(writer, options, l);
    }
}

void tiny_write(struct gguf_writer *writer, const struct tiny_options *options)
{
    gguf_writer_init(writer);
    tiny_write_keys(writer, options);
    tiny_write_tensors(writer, options);
}

void tiny_open(
    struct tiny *tiny, const struct tiny_options *options, const char *rung, int32_t threads)
{
    struct gguf_writer writer;
    struct err_info info = {0};
    size_t count = 0;
    *tiny = (struct tiny){0};
    tiny_write(&writer, options);
    tiny->bytes = gguf_writer_finish(&writer, &count);
    gguf_writer_free(&writer);
    need(gguf_open_memory(tiny->bytes, count, &tiny->gguf, &info) == ERR_OK, "gguf", &info);
    need(kernels_select(rung, &tiny->kernels, &info) == ERR_OK, "kernels", &info);
    need(threads_open(threads, &tiny->threads) == ERR_OK, "threads", NULL);
    need(
        model_open(tiny->gguf, &tiny->kernels, tiny->threads, false, &tiny->model, &info) == ERR_OK,
        "model", &info);
}

void tiny_close(struct tiny *tiny)
{
    model_close(tiny->model);
    threads_close(tiny->threads);
    gguf_close(tiny->gguf);
    free(tiny->bytes);
}
