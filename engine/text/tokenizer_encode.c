/*
 * Text to ids: the order of things is that of tokenizer_internal.h.
 */
#include "engine/text/tokenizer.h"

#include <string.h>
#include "engine/base/assert.h"
#include "engine/base/mem.h"
#include "engine/base/utf8.h"
#include "engine/text/encoding.h"
#include "engine/text/tokenizer_internal.h"

enum {
    /* Longest text of one call. Offsets are int32_t, and work space is up to 36 times the text. */
    TEXT_BYTES_MAX = 1 << 28,
};

static enum err encode_word(const struct tokenizer *tokenizer, struct encoding *encoding,
    const char *text, size_t from, size_t to)
{
    const struct vocab *vocab = &tokenizer->vocab;
    switch (vocab->model) {
    case VOCAB_WORDPIECE:
        return wordpiece_encode(&tokenizer->wordpiece, encoding, text, from, to);
    case VOCAB_UNIGRAM:
        return unigram_encode(&tokenizer->unigram, vocab, encoding, text, from, to);
    case VOCAB_BYTE_BPE:
    case VOCAB_CHAR_BPE:
    case VOCAB_SENTENCEPIECE:
        break;
    }
    return bpe_encode(&tokenizer->bpe, vocab, encoding, text, from, to);
}

/* Normalized text between special tokens, at [from, to). Byte-level BPE has one scanner and nothing
 * else in most files; then its words need no list. */
static enum err encode_normalized(const struct tokenizer *tokenizer, struct encoding *encoding,
    const char *text, size_t from, size_t to, bool continues)
{
    const struct splitter *splitter = &tokenizer->splitter;
    const struct normal *map = encoding->map;
    const char *part = text + from;
    size_t bytes = to - from;
    enum err err = ERR_OK;
    encoding->shift = from;
    if (splitter->count == 1 && splitter->steps[0].kind == SPLIT_SCAN) {
        for (size_t at = 0; at < bytes && err == ERR_OK;) {
            size_t end = pretokenize_next(splitter->steps[0].scan, part, bytes, at);
            err = encode_word(tokenizer, encoding, part, at, end);
            at = end;
        }
        return err;
    }
    err = splitter_apply(splitter, encoding, continues && from == 0, &part, bytes);
    for (size_t i = 0; i < encoding->cuts[0].count && err == ERR_OK; i++) {
        const struct cut *word = &encoding->cuts[0].items[i];
        err = encode_word(tokenizer, encoding, part, (size_t)word->from, (size_t)word->to);
    }
    encoding->map = map;
    return err;
}

/* The marks of a fragment as the normalizer left it: a byte is foreign when one that it was made of
 * is. */
static enum err mark_normalized(const struct encoding *encoding, size_t bytes, uint8_t **out_marks)
{
    const struct normal *map = encoding->map;
    const uint8_t *foreign = encoding->foreign + encoding->base;
    uint8_t *marks = mem_alloc(MEM_REQUESTS, bytes);
    if (marks == NULL) {
        return err_set(encoding->info, ERR_NO_MEMORY, NULL, "no memory for %zu marks", bytes);
    }
    for (size_t i = 0; i < bytes; i++) {
        if (map == NULL) {
            marks[i] = foreign[i];
        } else if (i > 0 && map->from[i] == map->from[i - 1] && map->to[i] == map->to[i - 1]) {
            marks[i] = marks[i - 1];
        } else {
            size_t from = (size_t)map->from[i];
            marks[i] = memchr(foreign + from, 1, (size_t)map->to[i] - from) != NULL;
        }
    }
    *out_marks = marks;
    return ERR_OK;
}

/* Normalizes a fragment and finds the special tokens that only then can be seen. */
static enum err encode_pieces(const struct tokenizer *tokenizer, struct encoding *encoding,
    const char *text, size_t bytes, bool continues, bool control)
{
    const struct special_matcher *matcher = &tokenizer->normal_matcher;
    const struct vocab *vocab = &tokenizer->vocab;
    enum err err = normalizer_apply(&tokenizer->normalizer, encoding, !continues, &text, &bytes);
    struct special_text special = {.bytes = text, .count = bytes, .control = control};
    uint8_t *marks = NULL;
    if (err == ERR_OK && matcher->count > 0 && encoding->foreign != NULL) {
        err = mark_normalized(encoding, bytes, &marks);
        special.foreign = marks;
    }
    struct special_match match = {0};
    size_t from = 0;
    bool found = true;
    while (err == ERR_OK && found) {
        size_t resume = match.resume;
        match = (struct special_match){.at = bytes};
        found = matcher->count > 0 && special_next(matcher, vocab, &special, from, resume, &match);
        if (from < match.at) {
            err = encode_normalized(tokenizer, encoding, text, from, match.at, continues);
        }
        if (err == ERR_OK && found) {
            encoding->shift = 0;
            err = encoding_add(encoding, match.id, match.at, match.at + match.count);
        }
        from = match.at + match.count;
    }
    mem_free(marks);
    return err;
}

static enum err encode_fragment(const struct tokenizer *tokenizer, struct encoding *encoding,
    const char *text, size_t from, size_t to, bool continues, bool control)
{
    encoding->base = from;
    encoding->map = NULL;
    encoding->shift = 0;
    if (from >= to) { /* past it: the blanks before a token went with the one before */
        return ERR_OK;
    }
    const struct vocab *vocab = &tokenizer->vocab;
    if (vocab->model == VOCAB_SENTENCEPIECE) {
        return spm_encode(&tokenizer->spm, vocab, encoding, text + from, to - from, !continues);
    }
    return encode_pieces(tokenizer, encoding, text + from, to - from, continues, control);
}

/* An id that comes from no fragment, over bytes [from, to) of the text. */
static enum err add_whole(struct encoding *encoding, int32_t id, size_t from, size_t to)
{
    encoding->base = 0;
    encoding->map = NULL;
    encoding->shift = 0;
    return encoding_add(encoding, id, from, to);
}

static enum err encode_text(const struct tokenizer *tokenizer, struct encoding *encoding,
    const char *text, size_t bytes, unsigned flags)
{
    const struct vocab *vocab = &tokenizer->vocab;
    bool control = (flags & TOKENIZE_SPECIAL) != 0;
    struct special_text special = {
        .bytes = text, .count = bytes, .control = control, .foreign = encoding->foreign};
    bool continues = (flags & TOKENIZE_CONTINUES) != 0;
    struct special_match match = {.id = -1};
    size_t from = 0;
    bool found = special_next(&tokenizer->matcher, vocab, &special, 0, 0, &match);
    int32_t bos = vocab->special[TOKEN_BOS];
    /* Where texts are closed too there are no prompts that spell their own beginning, and the
     * reference's ids count. */
    bool has_bos = found && match.at == 0 && match.id == bos && !tokenizer->adds_eos;
    if ((flags & TOKENIZE_ADD) != 0 && tokenizer->adds_bos && !has_bos) {
        enum err err = add_whole(encoding, bos, 0, 0);
        if (err != ERR_OK) {
            return err;
        }
    }
    while (found) {
        size_t end = match.at + match.count;
        enum err err =
            encode_fragment(tokenizer, encoding, text, from, match.at, continues, control);
        if (err != ERR_OK || (err = add_whole(encoding, match.id, match.at, end)) != ERR_OK) {
            return err;
        }
        continues = false;
        from = end;
        found = special_next(&tokenizer->matcher, vocab, &special, from, match.resume, &match);
    }
    enum err err = encode_fragment(tokenizer, encoding, text, from, bytes, continues, control);
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
    /* A word that gets a prefix only at the start of the text must be known to start there. */
    encoding->with_map = encoding->with_spans || splitter_needs_origin(&tokenizer->splitter) ||
                         (encoding->foreign != NULL && tokenizer->normal_matcher.count > 0);
    encoding_bound(encoding, bytes);
    for (int32_t i = 0; i < 2; i++) {
        encoding->normal[i].mapped = encoding->with_map;
        encoding->split[i].mapped = encoding->with_map;
    }
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

enum err tokenizer_encode_marked(const struct tokenizer *tokenizer, const char *text, size_t bytes,
    const uint8_t *foreign, unsigned flags, struct token_list *list, struct err_info *info)
{
    struct encoding encoding = {.list = list, .info = info, .foreign = foreign};
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
