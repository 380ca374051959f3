/* See draw.h. Masses are relative to the greatest one of a block, bans or not. */
#include "engine/sample/draw.h"

#include <math.h>
#include <string.h>
#include "engine/base/attr.h"

struct block {
    const float *logits;
    const uint8_t *banned;
    int32_t count;
};

static struct block block_of(
    const float *logits, int32_t vocab, const uint8_t *banned, int32_t index)
{
    int32_t from = index * DRAW_BLOCK;
    return (struct block){logits + from, banned + from, MIN(DRAW_BLOCK, vocab - from)};
}

static double mass_of(const struct block *block, int32_t i, double top)
{
    return block->banned[i] != 0 ? 0 : exp((double)block->logits[i] - top);
}

/* Replaces logarithms by masses and returns their sum. */
static double weigh(
    const float *logits, int32_t vocab, const uint8_t *banned, double top, double *masses)
{
    double sum = 0;
    for (int32_t b = 0; b < draw_blocks(vocab); b++) {
        struct block block = block_of(logits, vocab, banned, b);
        if (memchr(block.banned, 1, (size_t)block.count) == NULL) {
            masses[b] = exp(masses[b] - top);
        } else {
            masses[b] = 0;
            for (int32_t i = 0; i < block.count; i++) {
                masses[b] += mass_of(&block, i, top);
            }
        }
        sum += masses[b];
    }
    return sum;
}

bool draw_token(const struct kernels *kernels, const float *logits, int32_t vocab,
    const uint8_t *banned, double u, double *masses, int32_t *out_token)
{
    int32_t blocks = draw_blocks(vocab);
    double top = -INFINITY;
    for (int32_t b = 0; b < blocks; b++) {
        struct block block = block_of(logits, vocab, banned, b);
        masses[b] = kernels->log_sum_exp(block.logits, block.count);
        if (!isfinite(masses[b])) {
            return false;
        }
        top = fmax(top, masses[b]);
    }
    double target = weigh(logits, vocab, banned, top, masses) * u;
    double mass = 0;
    int32_t chosen = -1; /* rounding may leave the target out of reach: the last with a mass */
    for (int32_t b = 0; b < blocks; b++) {
        if (masses[b] > 0) {
            chosen = b;
        }
        if (mass + masses[b] > target) {
            break;
        }
        mass += masses[b];
    }
    if (chosen < 0) {
        return false; /* all that has a mass is banned */
    }
    struct block block = block_of(logits, vocab, banned, chosen);
    int32_t drawn = -1;
    for (int32_t i = 0; i < block.count && mass <= target; i++) {
        double own = mass_of(&block, i, top);
        drawn = own > 0 ? i : drawn;
        mass += own;
    }
    if (drawn < 0) {
        return false; /* the block has a mass that none of its tokens has alone */
    }
    *out_token = chosen * DRAW_BLOCK + drawn;
    return true;
}
