/*
 * Opens a tokenizer from GGUF metadata. What the kinds of vocabulary do to a text is the same chain
 * of steps that tokenizer.json spells out; here it follows from a few keys.
 */
#include <math.h>
#include <string.h>

#include "engine/base/assert.h"
#include "engine/base/mem.h"
#include "engine/text/tokenizer_internal.h"

static const char MODEL_KEY[] = "tokenizer.ggml.model";
static const char PRE_KEY[] = "tokenizer.ggml.pre";
static const char TOKENS_KEY[] = "tokenizer.ggml.tokens";
static const char SCORES_KEY[] = "tokenizer.ggml.scores";
static const char LOWERCASE_KEY[] = "tokenizer.ggml.normalizer.lowercase";
static const char CHARSMAP_KEY[] = "tokenizer.ggml.precompiled_charsmap";
static const char SPACE_PREFIX_KEY[] = "tokenizer.ggml.add_space_prefix";
static const char EXTRA_SPACES_KEY[] = "tokenizer.ggml.remove_extra_whitespaces";
static const char ADD_BOS_KEY[] = "tokenizer.ggml.add_bos_token";
static const char ADD_EOS_KEY[] = "tokenizer.ggml.add_eos_token";

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
    static const struct {
        const char *name;
        enum vocab_model model;
    } models[] = {
        {"gpt2", VOCAB_BYTE_BPE},
        {"llama", VOCAB_SENTENCEPIECE},
        {"bert", VOCAB_WORDPIECE},
        {"t5", VOCAB_UNIGRAM},
    };
    for (size_t i = 0; i < ARRAY_COUNT(models); i++) {
        if (string_equals(&name, models[i].name)) {
            *out_model = models[i].model;
            return ERR_OK;
        }
    }
    return err_set(info, ERR_UNSUPPORTED, MODEL_KEY, "tokenizer \"%.*s\" is not supported",
        (int)MIN(name.count, (size_t)64), name.bytes);
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

static enum err read_pretokenizer(
    const struct gguf *gguf, enum pretokenizer *out_scan, struct err_info *info)
{
    struct gguf_string pre = {0};
    enum err err = gguf_get_string(gguf, PRE_KEY, true, &pre, info);
    if (err == ERR_OK && !pretokenize_find(pre.bytes, pre.count, out_scan)) {
        err = err_set(info, ERR_UNSUPPORTED, PRE_KEY, "pre-tokenizer \"%.*s\" is not supported",
            (int)MIN(pre.count, (size_t)64), pre.bytes);
    }
    return err;
}

static enum err read_adds(
    struct tokenizer *tokenizer, const struct gguf *gguf, bool bos, bool eos, struct err_info *info)
{
    const int32_t *special = tokenizer->vocab.special;
    enum err err = read_add(gguf, ADD_BOS_KEY, special[TOKEN_BOS], bos, &tokenizer->adds_bos, info);
    if (err == ERR_OK) {
        err = read_add(gguf, ADD_EOS_KEY, special[TOKEN_EOS], eos, &tokenizer->adds_eos, info);
    }
    return err;
}

/* BERT: [CLS] and [SEP] are what begins and ends a text, under whichever name the file has them. */
static enum err open_wordpiece(
    struct tokenizer *tokenizer, const struct gguf *gguf, struct err_info *info)
{
    enum { CHARACTERS_MAX = 100 }; /* of the reference; files do not say */
    int32_t *special = tokenizer->vocab.special;
    bool lowercase = true;
    special[TOKEN_BOS] = special[TOKEN_BOS] < 0 ? special[TOKEN_CLS] : special[TOKEN_BOS];
    special[TOKEN_EOS] = special[TOKEN_EOS] < 0 ? special[TOKEN_SEP] : special[TOKEN_EOS];
    enum err err = gguf_get_bool(gguf, LOWERCASE_KEY, false, &lowercase, info);
    if (err != ERR_OK || (err = wordpiece_load(&tokenizer->wordpiece, &tokenizer->vocab,
                              special[TOKEN_UNK], CHARACTERS_MAX, TOKENS_KEY, info)) != ERR_OK) {
        return err;
    }
    unsigned flags = NORMAL_BERT_CLEAN | NORMAL_BERT_CJK;
    flags |= lowercase ? NORMAL_BERT_LOWERCASE | NORMAL_BERT_STRIP_ACCENTS : 0;
    tokenizer->normalizer.steps[0] = (struct normal_step){.kind = NORMAL_STEP_BERT, .bert = flags};
    tokenizer->normalizer.count = 1;
    splitter_add_bert(&tokenizer->splitter);
    tokenizer->drops_first_space = true;
    return read_adds(tokenizer, gguf, true, true, info);
}

static enum err read_charsmap(
    struct tokenizer *tokenizer, const struct gguf *gguf, struct err_info *info)
{
    struct gguf_array blob = {0};
    struct normalizer *normalizer = &tokenizer->normalizer;
    if (!gguf_has(gguf, CHARSMAP_KEY)) {
        return ERR_OK;
    }
    enum err err = gguf_get_array(gguf, CHARSMAP_KEY, true, GGUF_U8, &blob, info);
    if (err != ERR_OK) { /* some converters write the bytes as signed */
        err = gguf_get_array(gguf, CHARSMAP_KEY, true, GGUF_I8, &blob, info);
    }
    if (err == ERR_OK) {
        err = charsmap_load(&normalizer->charsmap, blob.data, blob.count, CHARSMAP_KEY, info);
    }
    if (err == ERR_OK && normalizer->charsmap.units != NULL) {
        normalizer->steps[normalizer->count++].kind = NORMAL_STEP_CHARSMAP_SPM;
    }
    return err;
}

static enum err read_scores(
    const struct vocab *vocab, const struct gguf *gguf, double **out_scores, struct err_info *info)
{
    struct gguf_array array = {0};
    enum err err = gguf_get_array(gguf, SCORES_KEY, true, GGUF_F32, &array, info);
    if (err != ERR_OK) {
        return err;
    }
    if (array.count != (size_t)vocab->count) {
        return err_set(
            info, ERR_FORMAT, SCORES_KEY, "%zu scores for %d tokens", array.count, vocab->count);
    }
    double *scores = mem_array(MEM_TOKENIZER, array.count, sizeof(*scores));
    if (scores == NULL) {
        return err_set(info, ERR_NO_MEMORY, SCORES_KEY, "no memory for %zu scores", array.count);
    }
    for (size_t i = 0; i < array.count; i++) {
        scores[i] = (double)gguf_array_f32(&array, i);
        if (!isfinite(scores[i])) {
            mem_free(scores);
            return err_set(info, ERR_FORMAT, SCORES_KEY, "the score of token %zu is not finite", i);
        }
    }
    *out_scores = scores;
    return ERR_OK;
}

static enum err open_unigram(
    struct tokenizer *tokenizer, const struct gguf *gguf, struct err_info *info)
{
    struct normalizer *normalizer = &tokenizer->normalizer;
    const struct vocab *vocab = &tokenizer->vocab;
    double *scores = NULL;
    bool prefix = true;
    bool extra = true;
    enum err err = read_charsmap(tokenizer, gguf, info);
    if (err == ERR_OK) {
        err = gguf_get_bool(gguf, SPACE_PREFIX_KEY, false, &prefix, info);
    }
    if (err == ERR_OK) {
        err = gguf_get_bool(gguf, EXTRA_SPACES_KEY, false, &extra, info);
    }
    if (err == ERR_OK) {
        err = read_scores(vocab, gguf, &scores, info);
    }
    if (err == ERR_OK) {
        err = unigram_load(
            &tokenizer->unigram, vocab, scores, vocab->special[TOKEN_UNK], TOKENS_KEY, info);
    }
    if (err != ERR_OK) {
        return err;
    }
    tokenizer->unigram.single = true;
    normalizer->steps[normalizer->count++] = (struct normal_step){.kind = NORMAL_STEP_SPACES_SPM,
        .spm = (prefix ? NORMAL_SPM_PREFIX : 0) | (extra ? NORMAL_SPM_EXTRA_SPACES : 0)};
    tokenizer->drops_first_space = prefix;
    return read_adds(tokenizer, gguf, false, true, info);
}

static enum err open_bpe(
    struct tokenizer *tokenizer, const struct gguf *gguf, struct err_info *info)
{
    enum pretokenizer scan = PRETOKENIZER_GPT2;
    enum err err = read_pretokenizer(gguf, &scan, info);
    if (err != ERR_OK ||
        (err = bpe_load(&tokenizer->bpe, &tokenizer->vocab, gguf, info)) != ERR_OK) {
        return err;
    }
    tokenizer->bpe.whole_first = scan == PRETOKENIZER_LLAMA_BPE;
    tokenizer->splitter.steps[0] = (struct split_step){.kind = SPLIT_SCAN, .scan = scan};
    tokenizer->splitter.count = 1;
    if (scan == PRETOKENIZER_QWEN2) {
        tokenizer->normalizer.steps[0] =
            (struct normal_step){.kind = NORMAL_STEP_FORM, .form = NORMAL_NFC};
        tokenizer->normalizer.count = 1;
    }
    return read_adds(tokenizer, gguf, scan == PRETOKENIZER_LLAMA_BPE, false, info);
}

static enum err open_spm(
    struct tokenizer *tokenizer, const struct gguf *gguf, struct err_info *info)
{
    enum err err = spm_load(&tokenizer->spm, &tokenizer->vocab, gguf, info);
    if (err != ERR_OK) {
        return err;
    }
    tokenizer->drops_first_space = tokenizer->spm.add_space_prefix;
    return read_adds(tokenizer, gguf, true, false, info);
}

static enum err open_parts(
    struct tokenizer *tokenizer, const struct gguf *gguf, struct err_info *info)
{
    enum vocab_model model = VOCAB_BYTE_BPE;
    enum err err = read_model(gguf, &model, info);
    if (err != ERR_OK || (err = vocab_load(&tokenizer->vocab, model, gguf, info)) != ERR_OK) {
        return err;
    }
    switch (model) {
    case VOCAB_BYTE_BPE:
        err = open_bpe(tokenizer, gguf, info);
        break;
    case VOCAB_WORDPIECE:
        err = open_wordpiece(tokenizer, gguf, info);
        break;
    case VOCAB_UNIGRAM:
        err = open_unigram(tokenizer, gguf, info);
        break;
    case VOCAB_SENTENCEPIECE:
    case VOCAB_CHAR_BPE:
        err = open_spm(tokenizer, gguf, info);
        break;
    }
    return err == ERR_OK ? tokenizer_finish(tokenizer, info) : err;
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
