/* Embeddings are rows of a packed matrix, for the head may be the same one. */
#include "engine/blocks/embed.h"

void embed_token(const struct pass *pass, int32_t row)
{
    const struct batch *batch = pass->batch;
    pass->kernels->unpack_row(&pass->model->embedding.weight, batch->tokens[row], batch->x[row]);
}
