/*
 * Text to token ids and back, exactly as the checkpoint's own tokenizer does it.
 *
 * A tokenizer is built once from a model file's metadata and then read-only: any thread may use it.
 * Tokens of type control are parsed from text only on request; user-defined tokens always, except
 * those that serve as FIM, chat or end markers, which count as control.
 */
#ifndef ENGINE_TEXT_TOKENIZER_H
#define ENGINE_TEXT_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "engine/base/arena.h"
#include "engine/base/err.h"
#include "engine/engine_limits.h"

struct gguf;
struct tokenizer;

/* A growing list of ids with a bound (memory of pool MEM_REQUESTS). */
struct token_list {
    int32_t *ids;
    int32_t count, capacity;
    int32_t count_max; /* past it: ERR_LIMIT */
};

enum token_special {
    TOKEN_BOS,
    TOKEN_EOS,
    TOKEN_EOT,
    TOKEN_EOM,
    TOKEN_UNK,
    TOKEN_SEP,
    TOKEN_PAD,
    TOKEN_CLS,
    TOKEN_MASK,
    TOKEN_FIM_PRE,
    TOKEN_FIM_SUF,
    TOKEN_FIM_MID,
    TOKEN_FIM_PAD,
    TOKEN_FIM_REP,
    TOKEN_FIM_SEP,
    TOKEN_SPECIAL_COUNT
};

enum token_type {
    TOKEN_TYPE_NORMAL,
    TOKEN_TYPE_UNKNOWN,
    TOKEN_TYPE_CONTROL,
    TOKEN_TYPE_USER,
    TOKEN_TYPE_UNUSED,
    TOKEN_TYPE_BYTE
};

/* ERR_FORMAT / ERR_UNSUPPORTED name the metadata key. The gguf may be closed afterwards. */
MUST_USE enum err tokenizer_open_gguf(
    const struct gguf *gguf, struct tokenizer **out_tokenizer, struct err_info *info);
void tokenizer_close(struct tokenizer *tokenizer); /* NULL allowed */
size_t tokenizer_bytes(const struct tokenizer *tokenizer);

int32_t tokenizer_vocab(const struct tokenizer *tokenizer);
/* -1 when the vocabulary has none. FIM tokens are found by metadata, else by the well-known
 * spellings of the families. */
int32_t tokenizer_special(const struct tokenizer *tokenizer, enum token_special which);
/* Tokens that end a text: eos, eot, eom of the file and <|endoftext|> if it is control. */
int32_t tokenizer_ends(const struct tokenizer *tokenizer, int32_t out[LIMIT_END_TOKENS]);
bool tokenizer_adds_bos(const struct tokenizer *tokenizer);
bool tokenizer_adds_eos(const struct tokenizer *tokenizer);
enum token_type tokenizer_type(const struct tokenizer *tokenizer, int32_t token);
/* True for tokens that are never shown as text: control and unknown ones, and those counted as
 * control. */
bool tokenizer_is_control(const struct tokenizer *tokenizer, int32_t token);
/* Id of an exact piece as stored in the vocabulary, -1 if there is none. */
int32_t tokenizer_find(const struct tokenizer *tokenizer, const char *piece, size_t bytes);
/* The stored spelling, NUL-terminated (byte-level BPE: in its own alphabet). */
const char *tokenizer_stored_piece(const struct tokenizer *tokenizer, int32_t token);

enum tokenize_flags {
    TOKENIZE_SPECIAL = 1, /* parse spellings of control tokens */
    TOKENIZE_ADD = 2,     /* add BOS/EOS as the metadata says */
    /* The text follows other text: no SentencePiece space prefix at its start (behind a special
     * token inside it there still is one, as in the reference). */
    TOKENIZE_CONTINUES = 4,
};

/* Appends the ids of valid UTF-8 text (other bytes: ERR_TOKENIZER). With TOKENIZE_ADD a text that
 * itself begins with BOS gets no second one, unless EOS is added as well (encoders).
 *
 * A character the vocabulary cannot spell: SentencePiece gives its byte tokens, else the unknown
 * token, else ERR_TOKENIZER. Byte-level BPE leaves out bytes it has no token for, as the reference
 * tokenizer does (SmolLM2: some control characters and unassigned planes; never the unknown token,
 * which is <|endoftext|> there).
 *
 * ERR_LIMIT past list->count_max, ERR_NO_MEMORY. On failure the list keeps what it held before.
 * Time is O(n log n) in the bytes. */
MUST_USE enum err tokenizer_encode(const struct tokenizer *tokenizer, const char *text,
    size_t bytes, unsigned flags, struct token_list *list, struct err_info *info);
/* Same, for text that is somebody else's in part: foreign[i] = 1 says that no control token may
 * take byte i, whatever the flags. Without such spellings the ids are those of tokenizer_encode:
 * borders between own and foreign bytes are none to the models. Other marks are 0; NULL = all is
 * own. */
MUST_USE enum err tokenizer_encode_marked(const struct tokenizer *tokenizer, const char *text,
    size_t bytes, const uint8_t *foreign, unsigned flags, struct token_list *list,
    struct err_info *info);
/* Same as tokenizer_encode, and for each id appended the byte range of `text` it came from, for
 * /tokenize: *out_spans is a new array with one pair per appended id, freed with mem_free (NULL
 * when there is none).
 *
 * Starts never fall. BOS, EOS and a lone space prefix are empty at their border. Where the text was
 * rewritten first (Form C for qwen2, a run of unknown characters), each token made of a rewritten
 * stretch has the whole stretch as its range, so neighbours may overlap. */
MUST_USE enum err tokenizer_encode_spans(const struct tokenizer *tokenizer, const char *text,
    size_t bytes, unsigned flags, struct token_list *list, int32_t (**out_spans)[2],
    struct err_info *info);

/* Raw bytes of one token in running text: control tokens give none unless show_control. Not
 * NUL-terminated; valid as long as the tokenizer; may be part of a character. */
const char *tokenizer_piece(
    const struct tokenizer *tokenizer, int32_t token, bool show_control, size_t *out_bytes);

void token_list_init(struct token_list *list, int32_t count_max);
MUST_USE enum err token_list_add(struct token_list *list, int32_t id, struct err_info *info);
void token_list_free(struct token_list *list);

/* ---- detokenizer: ids to text piece by piece, holding back what is not whole UTF-8 yet ---- */

struct detokenizer {
    const struct tokenizer *tokenizer;
    bool show_control;
    bool first; /* SentencePiece: the very first space of a whole text is dropped */
    char held[8];
    int32_t held_count;
};

/* continues = true: the text follows a prompt, so a leading space is kept. */
void detokenizer_init(
    struct detokenizer *d, const struct tokenizer *tokenizer, bool show_control, bool continues);
/* Writes whole characters to out and returns the count in bytes. Bytes that can never become a
 * character are written as U+FFFD; so is an unfinished one at detokenizer_end when `replace`, else
 * it is dropped. A capacity below detokenizer_bound() is safe, but text that does not fit is lost,
 * from the first character that does not. */
size_t detokenizer_push(struct detokenizer *d, int32_t token, char *out, size_t capacity);
size_t detokenizer_end(struct detokenizer *d, bool replace, char *out, size_t capacity);
/* Most bytes one push can write for this tokenizer. */
size_t detokenizer_bound(const struct tokenizer *tokenizer);

#endif
