/*
 * The way in for whatever --model names: a GGUF file, or a folder as a model hub lays it out
 * (config.json, *.safetensors, and the files of sentence-transformers). Both become the same
 * struct: keys and tensors by the names GGUF gives them. The tensors of a folder stay in its files
 * and are read from there piece by piece.
 */
#ifndef ENGINE_LOAD_CHECKPOINT_H
#define ENGINE_LOAD_CHECKPOINT_H

#include "engine/load/gguf.h"

/* What a folder's config.json and generation_config.json say of tokens: the one that begins a text,
 * an integer, and those that end one, an array of i32. Either may be absent. */
#define HUB_BEGIN_KEY "tokenizer.ggml.bos_token_id"
#define HUB_ENDS_KEY "tokenizer.ggml.eos_token_ids"

/* Errors name the key or tensor as the files do. Closed with gguf_close. */
MUST_USE enum err checkpoint_open(const char *path, struct gguf **out_gguf, struct err_info *info);

#endif
