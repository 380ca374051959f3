/*
 * The vocabulary of a model file: spelling, text and type of every token, checked once here so that
 * everything behind it may trust it.
 *
 * A token has two strings. `stored` is what the file says and what people name it by. `text` is
 * the bytes it stands for in running text: byte-level BPE spells bytes in an alphabet of its own,
 * SentencePiece writes a space as U+2581 and a byte as <0x0A>, WordPiece marks what goes on a word
 * (in tokenizer.json, as "##ing") or what starts one (in GGUF, by U+2581). Only ordinary tokens can
 * be found by their text, which is why no plain text ever becomes a control token.
 *
 * Filled by vocab_load from GGUF, or by whoever reads another format: vocab_begin, vocab_add for
 * every token in order, then `special`, special_mark, vocab_finish.
 */
#ifndef ENGINE_TEXT_VOCAB_H
#define ENGINE_TEXT_VOCAB_H

#include <stdbool.h>
#include <stdint.h>
#include "engine/base/err.h"
#include "engine/load/gguf.h"
#include "engine/text/pieces.h"
#include "engine/text/tokenizer.h"

enum {
    /* Longest token of a file. The longest known are 1,024 spaces (GPT-NeoX); the bound keeps the
     * reply buffer of one token small. */
    VOCAB_PIECE_BYTES_MAX = 4096,
    /* Its text: WordPiece of tokenizer.json is shown with a space that it is not spelled with. */
    VOCAB_TEXT_BYTES_MAX = VOCAB_PIECE_BYTES_MAX + 1,
};

enum vocab_model {
    VOCAB_BYTE_BPE,      /* tokenizer.ggml.model "gpt2" */
    VOCAB_SENTENCEPIECE, /* tokenizer.ggml.model "llama": joined by score */
    VOCAB_CHAR_BPE,      /* tokenizer.json only: characters joined by a list of merges */
    VOCAB_WORDPIECE,     /* "bert" */
    VOCAB_UNIGRAM,       /* "t5" */
};

enum vocab_flag {
    VOCAB_CONTROL = 1,   /* never shown, parsed from text only on request */
    VOCAB_SPELLABLE = 2, /* an ordinary token whose text is made of what text is made of */
};

struct vocab {
    enum vocab_model model;
    int32_t count;
    struct pieces stored; /* all are indexed */
    struct pieces text;   /* only those plain text may become are indexed */
    uint8_t *types;       /* enum token_type */
    uint8_t *flags;       /* enum vocab_flag */
    int32_t special[TOKEN_SPECIAL_COUNT];
    int32_t byte_ids[256]; /* -1 where a byte has no token of its own */
    bool byte_fallback;    /* all 256 byte tokens are there (not byte-level BPE) */
    size_t text_longest;   /* bytes of the longest text of any token */
};

static inline bool vocab_is_control(const struct vocab *vocab, int32_t id)
{
    return (vocab->flags[id] & VOCAB_CONTROL) != 0;
}

/* On failure *vocab is left freed. */
MUST_USE enum err vocab_load(
    struct vocab *vocab, enum vocab_model model, const struct gguf *gguf, struct err_info *info);

/* Room for `count` tokens of `bytes` bytes together; `where` names the list in errors. On failure
 * of this or of what follows *vocab is the caller's to free. */
MUST_USE enum err vocab_begin(struct vocab *vocab, enum vocab_model model, size_t count,
    size_t bytes, const char *where, struct err_info *info);
/* One token as the file spells it (`stored`), 1 to VOCAB_PIECE_BYTES_MAX bytes. `piece` is the
 * same, but for an ordinary one of WordPiece: that is its text, with a space before it if it begins
 * a word. */
MUST_USE enum err vocab_add(struct vocab *vocab, enum token_type type, const char *piece,
    size_t count, const char *stored, size_t stored_count, const char *where,
    struct err_info *info);
/* What plain text may become is now known (special_mark): makes it findable. */
MUST_USE enum err vocab_finish(struct vocab *vocab, const char *where, struct err_info *info);
void vocab_free(struct vocab *vocab); /* zeroed and half-built ones are allowed */
size_t vocab_memory(const struct vocab *vocab);

#endif
