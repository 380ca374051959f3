/* Root-mean-square norm (arXiv 1910.07467) of every row of a tile. */
#ifndef ENGINE_BLOCKS_NORM_H
#define ENGINE_BLOCKS_NORM_H

#include "engine/model/parts.h"

/* scratch->h = norm of x; weight: [hidden]. */
void norm_rows(struct pass *pass, const float *weight);

#endif
