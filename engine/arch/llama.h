/* The llama network's parts, for the networks that are llama with something added. */
#ifndef ENGINE_ARCH_LLAMA_H
#define ENGINE_ARCH_LLAMA_H

#include "engine/model/parts.h"

/* The tensors of llama. */
MUST_USE enum err llama_load(struct model *model, struct weights *weights, struct err_info *info);
void llama_store(struct pass *pass, int32_t l);
void llama_attend(struct pass *pass, int32_t l);

#endif
