/*
 * Reads tokenizer.ggml.tokens and .token_type. A file without token types (some old byte-level BPE
 * ones) has ordinary tokens only; a SentencePiece file must have them, since its byte tokens cannot
 * be told from text otherwise.
 */
#include "engine/text/vocab.h"

#include <string.h>

#include "engine/base/assert.h"
#include "engine/base/mem.h"
#include "engine/text/byte_alphabet.h"
#include "engine/text/special.h"

static const char TOKENS_KEY[] = "tokenizer.ggml.tokens";
static const char TYPES_KEY[] = "tokenizer.ggml.token_type";

static const char SPACE_MARK[] = "\u2581"; /* U+2581, SentencePiece's visible space */
enum { SPACE_MARK_BYTES = sizeof(SPACE_MARK) - 1 };

/* The numbers of the GGUF format; ORDER TOKEN_TYPE. */
static bool type_of_number(int32_t number, enum token_type *out_type)
{
    static const enum token_type types[] = {
        [1] = TOKEN_TYPE_NORMAL,
        [2] = TOKEN_TYPE_UNKNOWN,
        [3] = TOKEN_TYPE_CONTROL,
        [4] = TOKEN_TYPE_USER,
        [5] = TOKEN_TYPE_UNUSED,
        [6] = TOKEN_TYPE_BYTE,
    };
    if (number < 1 || number >= (int32_t)ARRAY_COUNT(types)) {
        return false;
    }
    *out_type = types[number];
    return true;
}

/* Leaves *out_types empty when the file may do without: all tokens are ordinary. */
static enum err read_types(const struct vocab *vocab, const struct gguf *gguf,
    struct gguf_array *out_types, struct err_info *info)
{
    bool required = vocab->model == VOCAB_SENTENCEPIECE || vocab->model == VOCAB_UNIGRAM;
    if (!required && !gguf_has(gguf, TYPES_KEY)) {
        return ERR_OK;
    }
    enum err err = gguf_get_array(gguf, TYPES_KEY, true, GGUF_I32, out_types, info);
    if (err == ERR_OK && out_types->count != (size_t)vocab->count) {
        err = err_set(info, ERR_FORMAT, TYPES_KEY, "%zu token types for %d tokens",
            out_types->count, vocab->count);
    }
    return err;
}

static enum err type_at(
    const struct gguf_array *types, int32_t id, enum token_type *out_type, struct err_info *info)
{
    int32_t number = types->count == 0 ? 1 : gguf_array_i32(types, (size_t)id);
    if (!type_of_number(number, out_type)) {
        return err_set(info, ERR_FORMAT, TYPES_KEY, "token %d has the unknown type %d", id, number);
    }
    return ERR_OK;
}

static int32_t hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'A' && c <= 'F') {
        return c - 'A' + 10;
    }
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte that "<0x0A>" names, -1 for any other spelling. */
static int32_t byte_of_spelling(const char *piece, size_t count)
{
    if (count != 6 || memcmp(piece, "<0x", 3) != 0 || piece[5] != '>') {
        return -1;
    }
    int32_t high = hex_digit(piece[3]);
    int32_t low = hex_digit(piece[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

static size_t replace_space_marks(const char *piece, size_t count, char *out)
{
    size_t written = 0;
    for (size_t at = 0; at < count;) {
        if (count - at >= SPACE_MARK_BYTES &&
            memcmp(piece + at, SPACE_MARK, SPACE_MARK_BYTES) == 0) {
            out[written++] = ' ';
            at += SPACE_MARK_BYTES;
        } else {
            out[written++] = piece[at++];
        }
    }
    return written;
}

/* Text of a token that is no byte, and whether plain text may become it. Models have ordinary
 * pieces that nothing matches: one that is not of the byte alphabet, and one with a real space,
 * which SentencePiece never sees because every space became U+2581 (in our text form it is the
 * other way round, so such a piece would match by mistake). Unigram and BPE over characters match
 * the stored form, where the two differ. */
static size_t text_of(enum vocab_model model, uint8_t type, const char *piece, size_t count,
    char out[VOCAB_TEXT_BYTES_MAX], bool *out_spellable)
{
    size_t written;
    bool ordinary = type == TOKEN_TYPE_NORMAL || type == TOKEN_TYPE_UNUSED;
    *out_spellable = false;
    if (model == VOCAB_BYTE_BPE) {
        if (ordinary && byte_alphabet_decode(piece, count, out, &written)) {
            *out_spellable = type == TOKEN_TYPE_NORMAL;
            return written;
        }
    } else if (model == VOCAB_WORDPIECE) {
        *out_spellable = type == TOKEN_TYPE_NORMAL && memchr(piece + 1, ' ', count - 1) == NULL;
    } else if (ordinary || type == TOKEN_TYPE_USER) {
        bool by_stored = model == VOCAB_UNIGRAM || model == VOCAB_CHAR_BPE;
        *out_spellable =
            type == TOKEN_TYPE_NORMAL && (by_stored || memchr(piece, ' ', count) == NULL);
        return replace_space_marks(piece, count, out);
    }
    memcpy(out, piece, count);
    return count;
}

static enum err byte_text(struct vocab *vocab, int32_t id, const char *piece, size_t count,
    const char *where, char *out, struct err_info *info)
{
    int32_t byte = byte_of_spelling(piece, count);
    if (byte < 0) {
        return err_set(
            info, ERR_FORMAT, where, "token %d is of type byte but is not spelled as one", id);
    }
    if (vocab->byte_ids[byte] >= 0) {
        return err_set(info, ERR_FORMAT, where, "tokens %d and %d are the same byte",
            vocab->byte_ids[byte], id);
    }
    vocab->byte_ids[byte] = id;
    out[0] = (char)byte;
    return ERR_OK;
}

enum err vocab_add(struct vocab *vocab, enum token_type type, const char *piece, size_t count,
    const char *stored, size_t stored_count, const char *where, struct err_info *info)
{
    char text[VOCAB_TEXT_BYTES_MAX];
    size_t text_count = 1;
    bool spellable = false;
    int32_t id = vocab->stored.count;
    if (type == TOKEN_TYPE_BYTE) {
        enum err err = byte_text(vocab, id, piece, count, where, text, info);
        if (err != ERR_OK) {
            return err;
        }
    } else {
        text_count = text_of(vocab->model, (uint8_t)type, piece, count, text, &spellable);
    }
    pieces_append(&vocab->stored, stored, stored_count);
    pieces_append(&vocab->text, text, text_count);
    vocab->types[id] = (uint8_t)type;
    vocab->flags[id] = spellable ? VOCAB_SPELLABLE : 0;
    vocab->text_longest = MAX(vocab->text_longest, text_count);
    return ERR_OK;
}

static enum err check_tokens(
    const struct gguf_array *tokens, size_t *out_bytes, struct err_info *info)
{
    size_t bytes = 0; /* no more than the file has */
    for (size_t i = 0; i < tokens->count; i++) {
        size_t count = tokens->strings[i].count;
        if (count == 0 || count > VOCAB_PIECE_BYTES_MAX) {
            return err_set(info, ERR_FORMAT, TOKENS_KEY,
                "token %zu has %zu bytes; 1 to %d are "
                "supported",
                i, count, VOCAB_PIECE_BYTES_MAX);
        }
        bytes += count;
    }
    *out_bytes = bytes;
    return ERR_OK;
}

/* Byte tokens of SentencePiece come all or not at all; in byte-level BPE every byte is ordinary
 * text of one byte, though a vocabulary may lack some. */
static enum err find_bytes(struct vocab *vocab, const char *where, struct err_info *info)
{
    if (vocab->model == VOCAB_BYTE_BPE) {
        for (int32_t byte = 0; byte < 256; byte++) {
            char text = (char)byte;
            int32_t id = pieces_find(&vocab->text, &text, 1);
            vocab->byte_ids[byte] = id >= 0 ? id : vocab->byte_ids[byte];
        }
        return ERR_OK;
    }
    int32_t count = 0;
    for (int32_t byte = 0; byte < 256; byte++) {
        count += vocab->byte_ids[byte] >= 0;
    }
    if (count != 0 && count != 256) {
        return err_set(info, ERR_FORMAT, where, "%d byte tokens, not none or 256", count);
    }
    vocab->byte_fallback = count == 256;
    return ERR_OK;
}

enum err vocab_begin(struct vocab *vocab, enum vocab_model model, size_t count, size_t bytes,
    const char *where, struct err_info *info)
{
    memset(vocab, 0, sizeof(*vocab));
    vocab->model = model;
    memset(vocab->byte_ids, -1, sizeof(vocab->byte_ids));
    memset(vocab->special, -1, sizeof(vocab->special));
    if (count == 0 || count > LIMIT_VOCAB) {
        return err_set(
            info, ERR_FORMAT, where, "%zu tokens; 1 to %d are supported", count, LIMIT_VOCAB);
    }
    vocab->types = mem_alloc(MEM_TOKENIZER, count);
    vocab->flags = mem_alloc(MEM_TOKENIZER, count);
    if (vocab->types == NULL || vocab->flags == NULL) {
        return err_set(info, ERR_NO_MEMORY, where, "no memory for the vocabulary");
    }
    vocab->count = (int32_t)count;
    /* The text of a token is never longer than its spelling. */
    enum err err = pieces_init(&vocab->stored, vocab->count, bytes);
    if (err == ERR_OK) {
        err = pieces_init(&vocab->text, vocab->count, bytes);
    }
    return err == ERR_OK ? ERR_OK
                         : err_set(info, err, where, "no room for %zu bytes of tokens", bytes);
}

enum err vocab_finish(struct vocab *vocab, const char *where, struct err_info *info)
{
    pieces_index(&vocab->text, vocab->flags, VOCAB_SPELLABLE); /* and not VOCAB_CONTROL */
    return find_bytes(vocab, where, info);
}

/* WordPiece: U+2581 before what begins a word, and the same elsewhere is a character. */
static size_t word_text(const struct gguf_string *token, char out[VOCAB_PIECE_BYTES_MAX])
{
    bool begins =
        token->count > SPACE_MARK_BYTES && memcmp(token->bytes, SPACE_MARK, SPACE_MARK_BYTES) == 0;
    size_t skipped = begins ? SPACE_MARK_BYTES : 0;
    out[0] = ' ';
    memcpy(out + begins, token->bytes + skipped, token->count - skipped);
    return begins + token->count - skipped;
}

static enum err load(
    struct vocab *vocab, enum vocab_model model, const struct gguf *gguf, struct err_info *info)
{
    struct gguf_array tokens = {0};
    struct gguf_array types = {0};
    size_t bytes = 0;
    enum err err = gguf_get_array(gguf, TOKENS_KEY, true, GGUF_STRING, &tokens, info);
    if (err != ERR_OK || (err = check_tokens(&tokens, &bytes, info)) != ERR_OK ||
        (err = vocab_begin(vocab, model, tokens.count, bytes, TOKENS_KEY, info)) != ERR_OK ||
        (err = read_types(vocab, gguf, &types, info)) != ERR_OK) {
        return err;
    }
    for (int32_t id = 0; id < vocab->count; id++) {
        const struct gguf_string *token = &tokens.strings[id];
        enum token_type type = TOKEN_TYPE_NORMAL;
        if ((err = type_at(&types, id, &type, info)) != ERR_OK) {
            return err;
        }
        char text[VOCAB_PIECE_BYTES_MAX];
        const char *piece = token->bytes;
        size_t count = token->count;
        if (model == VOCAB_WORDPIECE && type == TOKEN_TYPE_NORMAL) {
            count = word_text(token, text);
            piece = text;
        }
        err = vocab_add(vocab, type, piece, count, token->bytes, token->count, TOKENS_KEY, info);
        if (err != ERR_OK) {
            return err;
        }
    }
    pieces_index(&vocab->stored, NULL, 0);
    if ((err = special_load(vocab, gguf, info)) != ERR_OK) {
        return err;
    }
    return vocab_finish(vocab, TYPES_KEY, info);
}

enum err vocab_load(
    struct vocab *vocab, enum vocab_model model, const struct gguf *gguf, struct err_info *info)
{
    enum err err = load(vocab, model, gguf, info);
    if (err != ERR_OK) {
        vocab_free(vocab);
    }
    return err;
}

void vocab_free(struct vocab *vocab)
{
    pieces_free(&vocab->stored);
    pieces_free(&vocab->text);
    mem_free(vocab->types);
    mem_free(vocab->flags);
    memset(vocab, 0, sizeof(*vocab));
}

size_t vocab_memory(const struct vocab *vocab)
{
    return pieces_memory(&vocab->stored) + pieces_memory(&vocab->text) + 2 * (size_t)vocab->count;
}
