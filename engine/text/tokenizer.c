/* What every way to open a tokenizer ends with, closing, and the questions about one. */
#include "engine/text/tokenizer.h"

#include <string.h>

#include "engine/base/assert.h"
#include "engine/base/mem.h"
#include "engine/text/tokenizer_internal.h"

void tokenizer_add_end(struct tokenizer *tokenizer, int32_t id)
{
    for (int32_t i = 0; i < tokenizer->end_count; i++) {
        if (tokenizer->ends[i] == id) {
            return;
        }
    }
    if (id >= 0 && tokenizer->end_count < LIMIT_END_TOKENS) {
        tokenizer->ends[tokenizer->end_count++] = id;
    }
}

static void find_ends(struct tokenizer *tokenizer)
{
    static const char end_of_text[] = "<|endoftext|>";
    const struct vocab *vocab = &tokenizer->vocab;
    tokenizer_add_end(tokenizer, vocab->special[TOKEN_EOS]);
    tokenizer_add_end(tokenizer, vocab->special[TOKEN_EOT]);
    tokenizer_add_end(tokenizer, vocab->special[TOKEN_EOM]);
    int32_t id = pieces_find(&vocab->stored, end_of_text, sizeof(end_of_text) - 1);
    if (id >= 0 && vocab_is_control(vocab, id)) {
        tokenizer_add_end(tokenizer, id);
    }
}

enum err tokenizer_finish(struct tokenizer *tokenizer, struct err_info *info)
{
    const struct vocab *vocab = &tokenizer->vocab;
    const uint8_t *rules = tokenizer->rules;
    find_ends(tokenizer);
    enum err err = special_matcher_init(&tokenizer->matcher, vocab, rules, NULL, info);
    if (err == ERR_OK && rules != NULL) {
        err = special_matcher_init(
            &tokenizer->normal_matcher, vocab, rules, &tokenizer->normalizer, info);
    }
    return err;
}

void tokenizer_close(struct tokenizer *tokenizer)
{
    if (tokenizer == NULL) {
        return;
    }
    special_matcher_free(&tokenizer->matcher);
    special_matcher_free(&tokenizer->normal_matcher);
    normalizer_free(&tokenizer->normalizer);
    bpe_free(&tokenizer->bpe);
    spm_free(&tokenizer->spm);
    wordpiece_free(&tokenizer->wordpiece);
    unigram_free(&tokenizer->unigram);
    mem_free(tokenizer->rules);
    vocab_free(&tokenizer->vocab);
    mem_free(tokenizer);
}

size_t tokenizer_bytes(const struct tokenizer *tokenizer)
{
    const struct vocab *vocab = &tokenizer->vocab;
    return sizeof(*tokenizer) + vocab_memory(vocab) + bpe_memory(&tokenizer->bpe) +
           spm_memory(&tokenizer->spm, vocab) + wordpiece_memory(&tokenizer->wordpiece) +
           unigram_memory(&tokenizer->unigram, vocab) + normalizer_memory(&tokenizer->normalizer) +
           special_matcher_memory(&tokenizer->matcher) +
           special_matcher_memory(&tokenizer->normal_matcher) +
           (tokenizer->rules != NULL ? (size_t)vocab->count : 0);
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
