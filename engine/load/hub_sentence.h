/*
 * What sentence-transformers keeps beside a network: modules.json, the pooling's config.json,
 * sentence_bert_config.json and config_sentence_transformers.json. They say how rows become one
 * vector, how long a text may be and which prompts there are; all of it goes into the keys that a
 * GGUF file has for the same things (pooling_type, magnetd.profile).
 */
#ifndef ENGINE_LOAD_HUB_SENTENCE_H
#define ENGINE_LOAD_HUB_SENTENCE_H

#include "engine/load/hub_config.h"

/* A folder without modules.json only gets the modes its network has. */
MUST_USE enum err hub_sentence_read(int folder, struct hub_config *config, struct err_info *info);

#endif
