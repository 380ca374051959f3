/*
 * Which adapters are loaded and in which modes they apply: what the profile's key `adapters` and
 * the flag --adapter say, resolved into files, stacks and a table.
 *
 *     the profile has a list for a mode   it lies on all rows of the mode; an empty list: nothing
 *     it has none                         those of --adapter, in order, lie on rows that see each
 *                                         other in /embed and /infill, and on no others
 *
 * A profile's entry is a path from the profile's folder on; a --adapter with that last name goes
 * before it. An adapter of --adapter that no mode uses is an error.
 */
#ifndef ENGINE_ADAPTERS_H
#define ENGINE_ADAPTERS_H

#include "engine/engine.h"
#include "engine/load/gguf.h"
#include "engine/model/model.h"

/* Reads the profile's lists, opens the adapters and lays their stacks on the model; fills in what
 * model_info says of them, and lets `auto` of /infill prefer hybrid where one lies on it and the
 * profile does not say otherwise. Once, after profile_apply and before any scratch is sized; `gguf`
 * is the file the model was opened from. Errors name the flag, the profile's key, or the adapter
 * and its key or tensor. */
MUST_USE enum err adapters_load(const struct engine_config *config, const struct gguf *gguf,
    struct model *model, struct err_info *info);

#endif
