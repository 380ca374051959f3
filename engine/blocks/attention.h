/* Grouped-query attention over the pages of many sequences at once. A run only ever sees its own
 * sequence's pages; which of their slots a row sees is the mask rule of engine/attn/mask.h. */
#ifndef ENGINE_BLOCKS_ATTENTION_H
#define ENGINE_BLOCKS_ATTENTION_H

#include "engine/model/parts.h"

/* Rotates scratch->k of the tile's rows and stores it with scratch->v in layer l of their pages.
 * A value that cannot be stored fails the run and harms no other. rotate_q: scratch->q is there too
 * and is rotated on the way. */
void attention_store(struct pass *pass, int32_t l, bool rotate_q);
/* Rotates scratch->q, if attention_store has not. */
void attention_rotate_q(struct pass *pass);
/* scratch->attended = attention of scratch->q over layer l. */
void attention_attend(struct pass *pass, int32_t l);

#endif
