/* The gated MLP (SwiGLU, arXiv 2002.05202). */
#ifndef ENGINE_BLOCKS_MLP_H
#define ENGINE_BLOCKS_MLP_H

#include "engine/model/parts.h"

/* scratch->gate = silu(gate h) * (up h), h = scratch->h. */
void mlp_gate(struct pass *pass, const struct packed *gate, const struct packed *up);

#endif
