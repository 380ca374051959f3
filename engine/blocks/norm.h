/* Root-mean-square norms (arXiv 1910.07467). */
#ifndef ENGINE_BLOCKS_NORM_H
#define ENGINE_BLOCKS_NORM_H

#include "engine/model/parts.h"

/* out = norm of x, both [count]; out may be x. */
void norm_row(
    const struct model *model, const struct norm *norm, const float *x, int32_t count, float *out);
/* scratch->h = norm of x, for every row of the tile. */
void norm_rows(struct pass *pass, const struct norm *norm);

#endif
