/*
 * Opens a tokenizer, answers questions about it, and encodes: special tokens are found in the raw
 * text first, and what stands between them goes to the model of the vocabulary.
 */
#include "engine/text/tokenizer.h"

#include <string.h>

#include "engine/base/assert.h"
#include "engine/base/mem.h"
#include "engine/base/utf8.h"
#include "engine/text/encoding.h"
#include "engine/text/tokenizer_internal.h"

static const char MODEL_KEY[] = "tokenizer.ggml.model";
static const char ADD_BOS_KEY[] = "tokenizer.ggml.add_bos_token";
static const char ADD_EOS_KEY[] = "tokenizer.ggml.add_eos_token";

enum {
    /* Longest text of one call. Offsets are int32_t, and work space is up to 36 times the text. */
    TEXT_BYTES_MAX = 1 << 28,
};

/* ---- opening -------------------------------------------------------------------------------- */

static bool string_equals(const struct gguf_string *string, const char *text)
{
    return string->count == strlen(text) && memcmp(string->bytes, text, string->count) == 0;
}

static enum err read_model(
    const struct gguf *gguf, enum vocab_model *out_model, struct err_info *info)
{
    struct gguf_string name = {0};
    enum err err = gguf_get_string(gguf, MODEL_KEY, true, &name, info);
    if (err != ERR_OK) {
        return err;
    }
    if (string_equals(&name, "gpt2")) {
        *out_model = VOCAB_BYTE_BPE;
    } else if (string_equals(&name, "llama")) {
        *out_model = VOCAB_SENTENCEPIECE;
    } else {
        return err_set(info, ERR_UNSUPPORTED, MODEL_KEY, "tokenizer \"%.*s\" is not supported",
            (int)MIN(name.count, (size_t)64), name.bytes);
    }
    return ERR_OK;
}

/* A file that asks for a token it does not name is broken; a default just does not apply. */
static enum err read_add(const struct gguf *gguf, const char *key, int32_t token, bool fallback,
    bool *out_adds, struct err_info *info)
{
    bool adds = fallback && token >= 0;
    enum err err = gguf_get_bool(gguf, key, false, &adds, info);
    if (err != ERR_OK) {
        return err;
    }
    if (adds && token < 0) {
        return err_set(info, ERR_FORMAT, key, "asks for a token the file does not name");
    }
    *out_adds = adds;
    return ERR_OK;
}

static void add_end(struct tokenizer *tokenizer, int32_t id)
{
    for (int32_t i = 0; i < tokenizer->end_count; i++) {
        if (tokenizer->ends[i] == id) {
            return;
        }
    }
    if (id >= 0) {
        tokenizer->ends[tokenizer->end_count++] = id;
    }
}

static void find_ends(struct tokenizer *tokenizer)
{
    static const char end_of_text[] = "<|endoftext|>";
    const struct vocab *vocab = &tokenizer->vocab;
    add_end(tokenizer, vocab->special[TOKEN_EOS]);
    add_end(tokenizer, vocab->special[TOKEN_EOT]);
    add_end(tokenizer, vocab->special[TOKEN_EOM]);
    int32_t id = pieces_find(&vocab->stored, end_of_text, sizeof(end_of_text) - 1);
    if (id >= 0 && vocab_is_control(vocab, id)) {
        add_end(tokenizer, id);
    }
}

static enum err open_parts(
    struct tokenizer *tokenizer, const struct gguf *gguf, struct err_info *info)
{
    struct vocab *vocab = &tokenizer->vocab;
    enum vocab_model model = VOCAB_BYTE_BPE;
    enum err err = read_model(gguf, &model, info);
    if (err != ERR_OK || (err = vocab_load(vocab, model, gguf, info)) != ERR_OK) {
        return err;
    }
    bool bos_by_default = true;
    if (model == VOCAB_BYTE_BPE) {
        err = bpe_load(&tokenizer->bpe, vocab, gguf, info);
        bos_by_default = tokenizer->bpe.pretokenizer == PRETOKENIZER_LLAMA_BPE;
    } else {
        err = spm_load(&tokenizer->spm, vocab, gguf, info);
    }
    if (err == ERR_OK) {
        err = read_add(gguf, ADD_BOS_KEY, vocab->special[TOKEN_BOS], bos_by_default,
            &tokenizer->adds_bos, info);
    }
    if (err == ERR_OK) {
        err = read_add(
            gguf, ADD_EOS_KEY, vocab->special[TOKEN_EOS], false, &tokenizer->adds_eos, info);
    }
    if (err == ERR_OK) {
        err = special_matcher_init(&tokenizer->matcher, vocab, info);
    }
    if (err == ERR_OK) {
        find_ends(tokenizer);
    }
    return err;
}

enum err tokenizer_open_gguf(
    const struct gguf *gguf, struct tokenizer **out_tokenizer, struct err_info *info)
{
    struct tokenizer *tokenizer = mem_alloc(MEM_TOKENIZER, sizeof(*tokenizer));
    if (tokenizer == NULL) {
        return err_set(info, ERR_NO_MEMORY, NULL, "no memory for the tokenizer");
    }
    enum err err = open_parts(tokenizer, gguf, info);
    if (err != ERR_OK) {
        tokenizer_close(tokenizer);
        return err;
    }
    *out_tokenizer = tokenizer;
    return ERR_OK;
}

void tokenizer_close(struct tokenizer *tokenizer)
{
    if (tokenizer == NULL) {
        return;
    }
    special_matcher_free(&tokenizer->matcher);
    bpe_free(&tokenizer->bpe);
    spm_free(&tokenizer->spm);
    vocab_free(&tokenizer->vocab);
    mem_free(tokenizer);
}

size_t tokenizer_bytes(const struct tokenizer *tokenizer)
{
    return sizeof(*tokenizer) + vocab_memory(&tokenizer->vocab) + bpe_memory(&tokenizer->bpe) +
           spm_memory(&tokenizer->spm, &tokenizer->vocab) +
           (size_t)tokenizer->matcher.count * sizeof(*tokenizer->matcher.entries);
}

/* ---- questions ------------------------------------------------------------------------------ */

int32_t tokenizer_vocab(const struct tokenizer *tokenizer)
{
    return tokenizer->vocab.count;
}

int32_t tokenizer_special(const struct tokenizer *tokenizer, enum token_special which)
{
    ASSERT((int)which >= 0 && which < TOKEN_SPECIAL_COUNT);
    return tokenizer->vocab.special[which];
}

int32_t tokenizer_ends(const struct tokenizer *tokenizer, int32_t out[LIMIT_END_TOKENS])
{
    memcpy(out, tokenizer->ends, (size_t)tokenizer->end_count * sizeof(*out));
    return tokenizer->end_count;
}

bool tokenizer_adds_bos(const struct tokenizer *tokenizer)
{
    return tokenizer->adds_bos;
}

bool tokenizer_adds_eos(const struct tokenizer *tokenizer)
{
    return tokenizer->adds_eos;
}

static bool is_token(const struct tokenizer *tokenizer, int32_t token)
{
    return token >= 0 && token < tokenizer->vocab.count;
}

enum token_type tokenizer_type(const struct tokenizer *tokenizer, int32_t token)
{
    ASSERT(is_token(tokenizer, token));
    return (enum token_type)tokenizer->vocab.types[token];
}

bool tokenizer_is_control(const struct tokenizer *tokenizer, int32_t token)
{
    ASSERT(is_token(tokenizer, token));
    return vocab_is_control(&tokenizer->vocab, token);
}

int32_t tokenizer_find(const struct tokenizer *tokenizer, const char *piece, size_t bytes)
{
    return pieces_find(&tokenizer->vocab.stored, piece, bytes);
}

const char *tokenizer_stored_piece(const struct tokenizer *tokenizer, int32_t token)
{
    ASSERT(is_token(tokenizer, token));
    size_t count;
    return pieces_get(&tokenizer->vocab.stored, token, &count);
}

const char *tokenizer_piece(
    const struct tokenizer *tokenizer, int32_t token, bool show_control, size_t *out_bytes)
{
    ASSERT(is_token(tokenizer, token));
    if (vocab_is_control(&tokenizer->vocab, token) && !show_control) {
        *out_bytes = 0;
        return "";
    }
    return pieces_get(&tokenizer->vocab.text, token, out_bytes);
}

/* ---- encoding ------------------------------------------------------------------------------- */

static enum err encode_fragment(const struct tokenizer *tokenizer, struct encoding *encoding,
    const char *text, size_t from, size_t to, bool starts)
{
    encoding->base = from;
    encoding->is_mapped = false;
    if (from == to) {
        return ERR_OK;
    }
    const struct vocab *vocab = &tokenizer->vocab;
    if (vocab->model == VOCAB_BYTE_BPE) {
        return bpe_encode(&tokenizer->bpe, vocab, encoding, text + from, to - from);
    }
    return spm_encode(&tokenizer->spm, vocab, encoding, text + from, to - from, starts);
}

/* An id that comes from no fragment, over bytes [from, to) of the text. */
static enum err add_whole(struct encoding *encoding, int32_t id, size_t from, size_t to)
{
    encoding->base = 0;
    encoding->is_mapped = false;
    return encoding_add(encoding, id, from, to);
}

static enum err encode_text(const struct tokenizer *tokenizer, struct encoding *encoding,
    const char *text, size_t bytes, unsigned flags)
{
    const struct vocab *vocab = &tokenizer->vocab;
    bool control = (flags & TOKENIZE_SPECIAL) != 0;
    bool starts = (flags & TOKENIZE_CONTINUES) == 0;
    struct special_match match = {.id = -1};
    size_t from = 0;
    bool found = special_next(&tokenizer->matcher, vocab, text, bytes, from, control, &match);
    int32_t bos = vocab->special[TOKEN_BOS];
    bool has_bos = found && match.at == 0 && match.id == bos;
    if ((flags & TOKENIZE_ADD) != 0 && tokenizer->adds_bos && !has_bos) {
        enum err err = add_whole(encoding, bos, 0, 0);
        if (err != ERR_OK) {
            return err;
        }
    }
    while (found) {
        size_t end = match.at + match.count;
        enum err err = encode_fragment(tokenizer, encoding, text, from, match.at, starts);
        if (err != ERR_OK || (err = add_whole(encoding, match.id, match.at, end)) != ERR_OK) {
            return err;
        }
        starts = true;
        from = end;
        found = special_next(&tokenizer->matcher, vocab, text, bytes, from, control, &match);
    }
    enum err err = encode_fragment(tokenizer, encoding, text, from, bytes, starts);
    if (err == ERR_OK && (flags & TOKENIZE_ADD) != 0 && tokenizer->adds_eos) {
        err = add_whole(encoding, vocab->special[TOKEN_EOS], bytes, bytes);
    }
    return err;
}

static enum err encode(const struct tokenizer *tokenizer, struct encoding *encoding,
    const char *text, size_t bytes, unsigned flags)
{
    if (bytes > TEXT_BYTES_MAX) {
        return err_set(encoding->info, ERR_LIMIT, NULL, "a text of %zu bytes; at most %d", bytes,
            TEXT_BYTES_MAX);
    }
    if (!utf8_valid(text, bytes)) {
        return err_set(encoding->info, ERR_TOKENIZER, NULL, "the text is not valid UTF-8");
    }
    int32_t count_before = encoding->list->count;
    encoding->normal.mapped = encoding->with_spans;
    enum err err = encode_text(tokenizer, encoding, text, bytes, flags);
    encoding_free(encoding);
    if (err != ERR_OK) {
        encoding->list->count = count_before;
    }
    return err;
}

enum err tokenizer_encode(const struct tokenizer *tokenizer, const char *text, size_t bytes,
    unsigned flags, struct token_list *list, struct err_info *info)
{
    struct encoding encoding = {.list = list, .info = info};
    return encode(tokenizer, &encoding, text, bytes, flags);
}

enum err tokenizer_encode_spans(const struct tokenizer *tokenizer, const char *text, size_t bytes,
    unsigned flags, struct token_list *list, int32_t (**out_spans)[2], struct err_info *info)
{
    struct encoding encoding = {.list = list, .info = info, .with_spans = true};
    enum err err = encode(tokenizer, &encoding, text, bytes, flags);
    if (err != ERR_OK) {
        mem_free(encoding.spans);
        return err;
    }
    *out_spans = encoding.spans;
    return ERR_OK;
}
