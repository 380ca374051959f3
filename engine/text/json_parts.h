/* The parts of reading tokenizer.json, for engine/text/tokenizer_json.c. */
#ifndef ENGINE_TEXT_JSON_PARTS_H
#define ENGINE_TEXT_JSON_PARTS_H

#include <stdbool.h>
#include <stdint.h>
#include "engine/base/err.h"
#include "engine/text/json_place.h"
#include "engine/text/tokenizer_internal.h"

enum { JSON_DEPTH_MAX = 16 }; /* Sequences in Sequences; the JSON text itself may be no deeper */

/* One token of the list that vocabulary and added tokens give together. */
struct json_token {
    const char *piece; /* NULL: no token has this id */
    uint32_t count;
    uint8_t type;  /* enum token_type */
    uint8_t rules; /* enum special_rule */
    bool added;    /* "added_tokens" has it */
    double score;  /* Unigram */
};

struct json_tokens {
    struct json_token *items;
    size_t count;
};

struct json_model {
    struct json_place place; /* of the model */
    enum vocab_model kind;
    int32_t unknown; /* -1 = none */
    size_t characters_max;
    char continuing[16]; /* WordPiece: what marks a piece that goes on a word */
    bool fuse_unknown, byte_fallback, ignore_merges;
};

/* Appends the steps of a "normalizer" (absent: none). */
MUST_USE enum err json_normalizer_read(
    struct normalizer *normalizer, const struct json_place *place, struct err_info *info);
/* Appends the steps of a "pre_tokenizer". *out_bytes = it maps text to the byte alphabet. */
MUST_USE enum err json_splitter_read(struct splitter *splitter, const struct json_place *place,
    bool *out_bytes, struct err_info *info);

/* What the model is; not yet its vocabulary. `bytes` as above. */
MUST_USE enum err json_model_read(
    struct json_model *model, const struct json_place *place, bool bytes, struct err_info *info);
/* The greatest id of the vocabulary, -1 when it is empty. */
MUST_USE enum err json_model_last_id(
    const struct json_model *model, int64_t *out_id, struct err_info *info);
/* Enters the vocabulary into the list, which has room for it, and finds the unknown token. */
MUST_USE enum err json_model_tokens(
    struct json_model *model, struct json_tokens *tokens, struct err_info *info);
/* Builds what encodes from the finished vocabulary. */
MUST_USE enum err json_model_build(const struct json_model *model, const struct json_tokens *tokens,
    struct tokenizer *tokenizer, struct err_info *info);
/* Enters one token. ERR_FORMAT when the id is taken or the length not supported. */
MUST_USE enum err json_tokens_add(struct json_tokens *tokens, int64_t id, const char *piece,
    size_t count, const char *where, struct err_info *info);

/* What is put before and behind a text, -1 for nothing. */
struct json_ends {
    int32_t before, behind;
};

/* Reads a "post_processor" (absent: changes nothing); ids are below `count`. */
MUST_USE enum err json_ends_read(
    struct json_ends *ends, const struct json_place *place, int32_t count, struct err_info *info);
/* Checks that a "decoder" does what the text of tokens says anyway. *out_drops = the space that
 * starts a text is dropped. */
MUST_USE enum err json_decoder_read(
    const struct json_place *place, enum vocab_model model, bool *out_drops, struct err_info *info);

#endif
