/*
 * Small vocabularies for tests: tokens, merges and keys are collected, written as a GGUF file in
 * memory and opened as a tokenizer. Running out of memory ends the program.
 */
#ifndef TESTS_UNIT_TEXT_TEXT_RIG_H
#define TESTS_UNIT_TEXT_TEXT_RIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "engine/base/err.h"
#include "engine/text/tokenizer.h"
#include "tests/unit/load/gguf_writer.h"

enum { RIG_TOKENS_MAX = 1024, RIG_MERGES_MAX = 64, RIG_NUMBERS_MAX = 16 };

/* Token types as the GGUF format numbers them. */
enum { RIG_NORMAL = 1, RIG_UNKNOWN, RIG_CONTROL, RIG_USER, RIG_UNUSED, RIG_BYTE };

struct rig_number {
    const char *key;
    uint32_t value;
    bool is_bool;
};

struct text_rig {
    const char *model, *pre; /* NULL: the key is left out */
    const char *tokens[RIG_TOKENS_MAX];
    int32_t types[RIG_TOKENS_MAX];
    float scores[RIG_TOKENS_MAX];
    int32_t count;
    const char *merges[RIG_MERGES_MAX];
    int32_t merge_count;
    struct rig_number numbers[RIG_NUMBERS_MAX];
    int32_t number_count;
    /* What a hostile file does: counts written instead of the true ones, -1 = true. */
    int32_t type_count, score_count;
    bool no_types, no_scores, no_merges;
    char spare[RIG_TOKENS_MAX][8]; /* spellings of bytes */
};

/* Byte-level BPE: ids 0-255 are the bytes, in order. */
void text_rig_bpe(struct text_rig *rig, const char *pre);
/* SentencePiece: <unk> <s> </s>, then ids 3-258 are the bytes if `bytes`. */
void text_rig_spm(struct text_rig *rig, bool bytes);
/* The id of the new token; `piece` must outlive the rig. */
int32_t text_rig_add(struct text_rig *rig, const char *piece, int32_t type, float score);
/* "left right", and the joined token, whose id is returned. */
int32_t text_rig_merge(struct text_rig *rig, const char *merge, const char *joined);
void text_rig_u32(struct text_rig *rig, const char *key, uint32_t value);
void text_rig_bool(struct text_rig *rig, const char *key, bool value);

/* The file, malloc'ed. */
unsigned char *text_rig_file(const struct text_rig *rig, size_t *out_bytes);
/* Opens; the file is gone when it returns. */
MUST_USE enum err text_rig_try(
    const struct text_rig *rig, struct tokenizer **out_tokenizer, struct err_info *info);
/* Opens a file that must be good. */
struct tokenizer *text_rig_open(const struct text_rig *rig);

/* Encodes and compares with `count` ids; prints both on a difference. */
bool text_rig_ids(const struct tokenizer *tokenizer, const char *text, unsigned flags,
    const int32_t *expected, int32_t count);
#define RIG_IDS(tokenizer, text, flags, ...)                                                       \
    assert_true(text_rig_ids(tokenizer, text, flags, (const int32_t[]){__VA_ARGS__},               \
        (int32_t)(sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t))))

#endif
