/*
 * A tiny random llama whose vocabulary is bytes and fill-in-the-middle tokens, or tokens that begin
 * with spaces instead, and what /infill answers with it: decode, plan, engine, more, ..., encode,
 * in one job slot that is renewed between jobs as the server does.
 */
#ifndef TESTS_GOLDEN_API_BYTE_LLAMA_H
#define TESTS_GOLDEN_API_BYTE_LLAMA_H

#include <jansson.h>

#include "engine/engine.h"

/* Writes the model to a new file, which is the caller's to remove, and its name to path. */
void byte_llama_save(bool with_fim, char *path, size_t path_bytes);
/* NULL, after saying why, when it cannot be opened. */
struct engine *byte_llama_open(bool with_fim);
/* The reply to a body; *out_jobs = how many it took. Fails the test on an error. */
json_t *byte_llama_answer(struct engine *engine, const char *body, int32_t *out_jobs);

#endif
