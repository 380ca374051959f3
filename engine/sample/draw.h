/*
 * A draw from all tokens by their softmax, where no filter and no change of logits asks for a list
 * of them.
 *
 * The vocabulary is cut into blocks, whose masses a kernel finds; then only the tokens of the block
 * that the draw falls into are looked at one by one. What surprises: the masses carry the rounding
 * of the kernel's exponentials (about 1e-7), so that where u falls within that of a border between
 * two tokens, another one of the two may be drawn than by the definition in doubles.
 */
#ifndef ENGINE_SAMPLE_DRAW_H
#define ENGINE_SAMPLE_DRAW_H

#include <stdbool.h>
#include "engine/kernels/kernels.h"

enum { DRAW_BLOCK = 512 };

/* Blocks of a vocabulary: doubles that `masses` must hold. */
static inline int32_t draw_blocks(int32_t vocab)
{
    return (vocab + DRAW_BLOCK - 1) / DRAW_BLOCK;
}

/* The first token in ascending id whose cumulative mass exceeds u of the whole; tokens with a mark
 * in `banned` [vocab] have none. False, and nothing written, when this cannot tell: a block has a
 * NaN, an infinity or nothing but -INFINITY, or masses vanish. */
bool draw_token(const struct kernels *kernels, const float *logits, int32_t vocab,
    const uint8_t *banned, double u, double *masses, int32_t *out_token);

#endif
