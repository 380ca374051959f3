/*
 * config.json of a dense layer behind the pooling (2_Dense, 3_Dense), put into the keys of
 * engine/model/dense.c: NETWORK.dense_2_feat_in and its like, which are those of GGUF files. Its
 * weights are opened with the network's (checkpoint.c).
 */
#ifndef ENGINE_LOAD_HUB_DENSE_H
#define ENGINE_LOAD_HUB_DENSE_H

#include "engine/load/hub_config.h"

/* Of config->dense[index]. Errors name the file and the key. */
MUST_USE enum err hub_dense_read(
    int folder, struct hub_config *config, int32_t index, struct err_info *info);

#endif
