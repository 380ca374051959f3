/*
 * config.json and generation_config.json of a folder, put into GGUF's keys. Networks are described
 * by tables (hub_networks.c): what each key of config.json is called here, and which values the
 * network computes. A key that no table knows, and a value that asks for other arithmetic, are
 * errors naming file and key: a model is run rightly or not at all.
 */
#ifndef ENGINE_LOAD_HUB_CONFIG_H
#define ENGINE_LOAD_HUB_CONFIG_H

#include "engine/load/gguf_internal.h"
#include "engine/load/hub_json.h"
#include "engine/load/hub_names.h"

enum {
    HUB_DENSE_MAX = 2,
    HUB_FOLDER_BYTES = 47, /* of a stage's folder: "1_Pooling" */
};

struct hub_config {
    struct hub_json json; /* config.json */
    struct gguf *gguf;
    const struct hub_network *network;
    bool headed;          /* the architecture ends in a head over the vocabulary */
    bool tied;            /* which is the embedding */
    bool encoder;         /* sees both ways unless it says otherwise */
    int64_t context;      /* positions the network has; other files may want fewer used */
    int64_t turned_rows;  /* of a head, for names with `turned` */
    int64_t skipped_rows; /* for names with `skips` */
    /* Folders of the dense layers behind the pooling, dense_2 and dense_3 of the network. */
    char dense[HUB_DENSE_MAX][HUB_FOLDER_BYTES + 1];
    int32_t dense_count;
};

enum hub_use {
    HUB_INFORMS, /* anything: tells how the checkpoint came to be or was trained */
    HUB_READ,    /* by `read` of its network or for all networks */
    HUB_CONTEXT, /* -> context_length and hub_config.context */
    HUB_INTEGER, /* 1..max -> key, of the network unless it begins with "tokenizer." */
    HUB_REAL,    /* -> key */
    /* Asks for arithmetic that is not built unless it has this one value. */
    HUB_IS_INTEGER,
    HUB_IS_REAL,
    HUB_IS_BOOL,
    HUB_IS_WORD,     /* one of "silu|swish" */
    HUB_IS_ALL_WORD, /* a list of nothing but that word */
};

struct hub_key {
    const char *name; /* in config.json */
    enum hub_use use;
    const char *to; /* key without the network's name, or words */
    int32_t number; /* max, or the one value */
    bool required;
};

/* What config.json says under use_bidirectional_attention may make it another network. */
enum hub_ways { HUB_WAYS_ANY, HUB_WAYS_ONE, HUB_WAYS_BOTH };

struct hub_network {
    const char *model_type; /* in config.json */
    const char *name;       /* general.architecture */
    const char *architectures[4];
    const struct hub_key *keys;
    size_t key_count;
    struct hub_names names;
    enum err (*read)(struct hub_config *config); /* what a table does not say */
    enum hub_ways ways;
};

/* NULL when there is none; *out_known = there is one of this model_type. */
const struct hub_network *hub_network_find(
    const char *model_type, const char *architecture, bool both_ways, bool *out_known);
/* The name of a tensor in folders of any network with this general.architecture (hub_names_find);
 * NULL when none of them has it. */
const struct hub_name *hub_network_tensor(
    const char *name, const char *theirs, char out_ours[HUB_OURS_BYTES]);
/* Keys of every network. NULL when none has this name. */
const struct hub_key *hub_common_find(const char *name);

/* Puts keys into gguf. *out is closed by hub_config_close. */
MUST_USE enum err hub_config_open(
    int folder, struct gguf *gguf, struct hub_config *out, struct err_info *info);
/* Same of a config.json in memory, without the other file (tests, fuzzing). */
MUST_USE enum err hub_config_parse(const char *bytes, size_t count, const char *file,
    struct gguf *gguf, struct hub_config *out, struct err_info *info);
void hub_config_close(struct hub_config *config);

/* Puts "NETWORK.key" as found under `name` in a file. */
MUST_USE enum err hub_put_i64(struct hub_config *config, const struct hub_json *json,
    const char *name, const char *key, int64_t value);
MUST_USE enum err hub_put_f64(struct hub_config *config, const struct hub_json *json,
    const char *name, const char *key, double value);
MUST_USE enum err hub_put_bool(struct hub_config *config, const struct hub_json *json,
    const char *name, const char *key, bool value);

#endif
