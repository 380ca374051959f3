/* The tables of networks, which hub_networks.c searches; private to it and hub_encoders.c. */
#ifndef ENGINE_LOAD_HUB_TABLES_H
#define ENGINE_LOAD_HUB_TABLES_H

#include "engine/load/hub_config.h"

#define HUB_TABLES(keys, prefix, names)                                                            \
    keys, ARRAY_COUNT(keys),                                                                       \
    {                                                                                              \
        prefix, names, ARRAY_COUNT(names)                                                          \
    }

enum { HUB_ENCODERS = 6 };

extern const struct hub_network hub_encoders[HUB_ENCODERS];

#endif
