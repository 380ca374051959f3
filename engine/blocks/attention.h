/* Grouped-query attention over the pages of many sequences at once. A run only ever sees its own
 * sequence's pages; which of their slots a row sees is the mask rule of engine/attn/mask.h. */
#ifndef ENGINE_BLOCKS_ATTENTION_H
#define ENGINE_BLOCKS_ATTENTION_H

#include "engine/model/parts.h"

/* scratch->h of the tile's rows -> K and V, and Q if the halves are joined: projected, normed and
 * rotated as the layer says, K and V stored in layer l of the rows' pages. A value that cannot be
 * stored fails the run and harms no other. */
void attention_store(struct pass *pass, int32_t l);
/* scratch->h -> Q, if attention_store has not. */
void attention_query(struct pass *pass, int32_t l);
/* scratch->attended = attention of Q over layer l. */
void attention_attend(struct pass *pass, int32_t l);

#endif
