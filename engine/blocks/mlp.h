/* The gated MLP (arXiv 2002.05202). */
#ifndef ENGINE_BLOCKS_MLP_H
#define ENGINE_BLOCKS_MLP_H

#include "engine/model/parts.h"

/* out = f(gate) * up; out may be gate. Of those that the table lets, up may be NULL. */
typedef void mlp_gate_kernel(const float *gate, const float *up, int32_t count, float *out);

/* scratch->gate = f(gate h) * (up h), or f(gate h) with up NULL; h = scratch->h. `kernel` is the
 * one of the table that has the network's f. */
void mlp_gate(
    struct pass *pass, const struct linear *gate, const struct linear *up, mlp_gate_kernel *kernel);

#endif
