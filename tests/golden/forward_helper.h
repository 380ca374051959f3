/*
 * A model opened for tests, and whole sequences run through it, teacher-forced: what a golden test
 * needs of the engine, below the scheduler. Failures end the test.
 */
#ifndef TESTS_GOLDEN_FORWARD_HELPER_H
#define TESTS_GOLDEN_FORWARD_HELPER_H

#include "engine/model/stack.h"

struct forward {
    struct gguf *gguf;
    struct kernels kernels;
    struct threads *threads;
    struct model *model;
    struct scratch *scratch;
    struct pages pages;
    int32_t width, vocab, layers;
    int32_t rows_max; /* of one batch */
    bool odd;         /* the weights or sizes are: a value that is not finite is no failure */
    int32_t piece;    /* how forward_run cuts what follows a context: 0 = not at all, else pieces of
                         this many rows, each in a batch of its own, as decoding does */
};

/* kernels NULL = the best of this machine. rows_max bounds a batch and its K/V. */
void forward_open(struct forward *forward, const char *path, const char *kernels, enum kv_type type,
    int32_t rows_max);
/* The same with adapters: all of them are stack 1, the first alone is stack 2. */
struct forward_options {
    const char *kernels;
    enum kv_type type;
    int32_t rows_max, threads; /* threads 0 = 2 */
    const char *const *adapters;
    int32_t adapter_count;
};
void forward_open_with(
    struct forward *forward, const char *path, const struct forward_options *options);
/* The rest of opening, once kernels, gguf, threads and model are there; all become its own. */
void forward_begin(struct forward *forward, enum kv_type type, int32_t rows_max);
void forward_close(struct forward *forward);

/* One sequence in slot order and the rows whose final hidden state is wanted. */
struct forward_sequence {
    const int32_t *tokens;
    const int32_t *positions; /* NULL = 0, 1, 2, ... */
    int32_t count, context_count;
    int32_t stack;                 /* of adapters; 0 = none */
    int32_t read_from, read_count; /* consecutive slots */
    float *hidden;                 /* [read_count, width], filled in */
};

/* Runs the sequences, as many at a time in one batch as rows_max takes. */
void forward_run(struct forward *forward, struct forward_sequence *sequences, int32_t count);
/* Head of consecutive hidden rows: logits [count, vocab]. */
void forward_logits(struct forward *forward, const float *hidden, int32_t count, float *logits);

#endif
