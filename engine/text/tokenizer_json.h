/*
 * Opens the tokenizer.json of a model hub's folder (the format of the Hugging Face tokenizers
 * library) as an ordinary tokenizer. What of the format is built, docs/tokenizers.md says; all else
 * is ERR_UNSUPPORTED with its place, "tokenizer.json#/pre_tokenizer/type".
 *
 * What the post-processor puts before and behind a text is TOKEN_BOS and TOKEN_EOS of the result,
 * whatever the other files call it ([CLS] and [SEP], <s> and </s>). `truncation` and `padding` are
 * not looked at: how long a text may be is the model's business, and nothing is ever padded.
 */
#ifndef ENGINE_TEXT_TOKENIZER_JSON_H
#define ENGINE_TEXT_TOKENIZER_JSON_H

#include <stddef.h>
#include <stdint.h>
#include "engine/base/err.h"
#include "engine/engine_limits.h"
#include "engine/text/tokenizer.h"

/* The bytes are the caller's, and not needed afterwards. */
struct tokenizer_json {
    const char *tokenizer; /* tokenizer.json */
    size_t tokenizer_bytes;
    const char *config; /* tokenizer_config.json, NULL: there is none. Names special tokens */
    size_t config_bytes;
    /* Rows of the embedding table: ids past the vocabulary are unused tokens. 0 = as many as there
     * are tokens; fewer than that is ERR_FORMAT. */
    int32_t rows;
    /* Of config.json and generation_config.json: bos_token_id, -1 for none; every eos_token_id. */
    int32_t bos;
    int32_t ends[LIMIT_END_TOKENS];
    int32_t end_count;
};

/* ERR_FORMAT, ERR_UNSUPPORTED or ERR_LIMIT name the file and the JSON pointer. */
MUST_USE enum err tokenizer_open_json(
    const struct tokenizer_json *files, struct tokenizer **out_tokenizer, struct err_info *info);

#endif
