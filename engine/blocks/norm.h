/* Norms of the kind the network has: root mean square (arXiv 1910.07467) or LayerNorm (arXiv
 * 1607.06450). */
#ifndef ENGINE_BLOCKS_NORM_H
#define ENGINE_BLOCKS_NORM_H

#include "engine/model/parts.h"

/* out = norm of x, both [count]; out may be x. */
void norm_row(
    const struct model *model, const struct norm *norm, const float *x, int32_t count, float *out);
/* scratch->h of every row of the tile = norm of x. */
void norm_rows(struct pass *pass, const struct norm *norm);

/* x of every row of the tile = norm of x, and scratch->h too. */
void norm_residual(struct pass *pass, const struct norm *norm);
/* x of every row of the tile += norm of scratch->h, which is overwritten. */
void norm_add(struct pass *pass, const struct norm *norm);

#endif
