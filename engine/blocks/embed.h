/* The first rows of a pass. */
#ifndef ENGINE_BLOCKS_EMBED_H
#define ENGINE_BLOCKS_EMBED_H

#include "engine/model/parts.h"

/* x of a row of the batch = the embedding of its token. */
void embed_token(const struct pass *pass, int32_t row);

#endif
