/* The memory plan and a model's description for people: --print-plan, --check-model, start-up. */
#ifndef SERVER_PLAN_TEXT_H
#define SERVER_PLAN_TEXT_H

#include <stdio.h>
#include "engine/engine.h"

void plan_text_model(FILE *file, const struct model_info *model);
void plan_text_tokenizer(FILE *file, const struct tokenizer *tokenizer);
/* NULL: the checkpoint has none. */
void plan_text_chat(FILE *file, const struct chat_template *template);
/* What the checkpoint is for, by its profile or without one. */
void plan_text_profile(FILE *file, const struct model_info *model);
void plan_text_memory(FILE *file, const struct memory_plan *plan);
/* What a file or a profile calls something, with ? for what could steer a terminal. */
void plan_text_shown(FILE *file, const char *text);

/* As /info has them. */
const char *plan_text_pooling(enum pooling pooling);
const char *plan_text_attention(enum attention attention);
const char *plan_text_kind(enum kind kind);

#endif
