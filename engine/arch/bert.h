/* The bert network's parts, for the encoders that are bert with something else in its place. */
#ifndef ENGINE_ARCH_BERT_H
#define ENGINE_ARCH_BERT_H

#include "engine/model/parts.h"

/* Sizes of a network of LayerNorms that makes vectors and nothing else. */
MUST_USE enum err bert_describe_sizes(
    struct model *model, const struct gguf *gguf, struct err_info *info);
/* Embedding, token types where the file has them, and the norm of their sum. */
MUST_USE enum err bert_load_embedding(
    struct model *model, struct weights *weights, struct err_info *info);
/* The two norms of a layer. */
MUST_USE enum err bert_load_norms(
    struct model *model, struct weights *weights, int32_t l, struct err_info *info);
/* A layer with biases, but for what leads into its MLP: attention, Wdown, and the two norms. */
MUST_USE enum err bert_load_sides(
    struct model *model, struct weights *weights, int32_t l, struct err_info *info);

/* x = norm of token, type and position, as far as the network has them. */
void bert_embed(const struct pass *pass, int32_t row);
void bert_store(struct pass *pass, int32_t l);
/* The first of the two lines of bert.c: scratch->h = x = LayerNorm(x + attention). */
void bert_attention(struct pass *pass, int32_t l);
/* The end of the second: x = LayerNorm(x + Wdown scratch->gate + bdown). */
void bert_down(struct pass *pass, int32_t l);

#endif
