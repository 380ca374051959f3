/*
 * A tiny llama with random weights, built in memory: enough network for every test that needs a
 * model but no knowledge. Equal options give equal bytes.
 */
#ifndef TESTS_UNIT_MODEL_TINY_LLAMA_H
#define TESTS_UNIT_MODEL_TINY_LLAMA_H

#include "engine/base/threads.h"
#include "engine/model/model.h"
#include "tests/unit/load/gguf_writer.h"

struct tiny_options {
    int32_t layers, hidden, heads, heads_kv, ffn, vocab, context;
    enum tensor_type type; /* of the matrices: F32, F16, Q8_0 or Q4_1 */
    bool untied, rope_divisors;
    /* The embedding of token 1 drives a key of layer 0 past what f16 holds; others do not. */
    bool bomb;
    const char *omit; /* a key or tensor that is left out, or NULL */
    uint64_t seed;
};

/* 3 layers, width 64, 4 heads on 2, F32. */
struct tiny_options tiny_default(void);
void tiny_write(struct gguf_writer *writer, const struct tiny_options *options);
/* The parts, for files that are not quite right. */
void tiny_write_keys(struct gguf_writer *writer, const struct tiny_options *options);
void tiny_write_tensors(struct gguf_writer *writer, const struct tiny_options *options);

struct tiny {
    unsigned char *bytes;
    struct gguf *gguf;
    struct kernels kernels;
    struct threads *threads;
    struct model *model;
};

/* Ends the test on failure. rung NULL = the best of this machine. */
void tiny_open(
    struct tiny *tiny, const struct tiny_options *options, const char *rung, int32_t threads);
void tiny_close(struct tiny *tiny);

#endif
