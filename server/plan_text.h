/* The memory plan and a model's description for people: --print-plan, --check-model, start-up. */
#ifndef SERVER_PLAN_TEXT_H
#define SERVER_PLAN_TEXT_H

#include <stdio.h>
#include "engine/engine.h"

void plan_text_model(FILE *file, const struct model_info *model);
void plan_text_memory(FILE *file, const struct memory_plan *plan);

#endif
