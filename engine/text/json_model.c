/*
 * "model" of tokenizer.json: WordPiece, BPE, Unigram. Files of before the "type" key are told apart
 * by what they have. A vocabulary is an object from piece to id, Unigram's a list whose order is
 * the ids.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/assert.h"
#include "engine/base/mem.h"
#include "engine/text/json_parts.h"

enum {
    /* Longest word of WordPiece, in characters: what a file may ask for. The reference has 100. */
    WORD_CHARACTERS_MAX = 1024,
    WORD_CHARACTERS = 100,
};

static enum err read_wordpiece(struct json_model *model, struct err_info *info)
{
    static const char *const keys[] = {"type", "unk_token", "continuing_subword_prefix",
        "max_input_chars_per_word", "vocab", NULL};
    struct json_text prefix = {.bytes = "##", .count = 2};
    int64_t characters = WORD_CHARACTERS;
    const struct json_place *place = &model->place;
    model->kind = VOCAB_WORDPIECE;
    enum err err = json_place_only(place, keys, info);
    if (err != ERR_OK ||
        (err = json_place_text(place, "continuing_subword_prefix", &prefix, info)) != ERR_OK ||
        (err = json_place_integer(place, "max_input_chars_per_word", 1, WORD_CHARACTERS_MAX,
             &characters, info)) != ERR_OK) {
        return err;
    }
    if (prefix.count == 0 || prefix.count >= sizeof(model->continuing)) {
        return err_set(info, ERR_UNSUPPORTED, place->where,
            "\"continuing_subword_prefix\" has %zu bytes; 1 to %zu are supported", prefix.count,
            sizeof(model->continuing) - 1);
    }
    memcpy(model->continuing, prefix.bytes, prefix.count);
    model->characters_max = (size_t)characters;
    return ERR_OK;
}

/* An option that must be off: absent, null or "". */
static enum err refuse_text(const struct json_place *object, const char *key, struct err_info *info)
{
    struct json_text text = {0};
    struct json_place place;
    enum err err = json_place_text(object, key, &text, info);
    if (err == ERR_OK && text.count > 0) {
        json_place_member(object, key, &place);
        err = err_set(info, ERR_UNSUPPORTED, place.where, "is not supported");
    }
    return err;
}

static enum err read_bpe(struct json_model *model, bool bytes, struct err_info *info)
{
    static const char *const keys[] = {"type", "dropout", "unk_token", "continuing_subword_prefix",
        "end_of_word_suffix", "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges",
        NULL};
    const struct json_place *place = &model->place;
    struct json_place dropout;
    model->kind = bytes ? VOCAB_BYTE_BPE : VOCAB_CHAR_BPE;
    json_place_member(place, "dropout", &dropout);
    if (dropout.value != NULL) {
        return err_set(info, ERR_UNSUPPORTED, dropout.where, "chance has no place here");
    }
    enum err err = json_place_only(place, keys, info);
    if (err != ERR_OK || (err = refuse_text(place, "continuing_subword_prefix", info)) != ERR_OK ||
        (err = refuse_text(place, "end_of_word_suffix", info)) != ERR_OK ||
        (err = json_place_bool(place, "fuse_unk", &model->fuse_unknown, info)) != ERR_OK ||
        (err = json_place_bool(place, "byte_fallback", &model->byte_fallback, info)) != ERR_OK) {
        return err;
    }
    return json_place_bool(place, "ignore_merges", &model->ignore_merges, info);
}

static enum err read_unigram(struct json_model *model, struct err_info *info)
{
    static const char *const keys[] = {"type", "unk_id", "vocab", "byte_fallback", NULL};
    model->kind = VOCAB_UNIGRAM;
    enum err err = json_place_only(&model->place, keys, info);
    return err == ERR_OK
               ? json_place_bool(&model->place, "byte_fallback", &model->byte_fallback, info)
               : err;
}

static bool has(const struct json_place *object, const char *key)
{
    struct json_place place;
    json_place_member(object, key, &place);
    return place.value != NULL;
}

enum err json_model_read(
    struct json_model *model, const struct json_place *place, bool bytes, struct err_info *info)
{
    struct json_text type = {0};
    *model = (struct json_model){.place = *place, .unknown = -1};
    enum err err = json_place_expect(place, META_JSON_OBJECT, info);
    if (err != ERR_OK || (err = json_place_text(place, "type", &type, info)) != ERR_OK) {
        return err;
    }
    bool untyped = type.bytes == NULL;
    if (json_text_is(&type, "BPE") || (untyped && has(place, "merges"))) {
        err = read_bpe(model, bytes, info);
    } else if (json_text_is(&type, "WordPiece") ||
               (untyped && has(place, "max_input_chars_per_word"))) {
        err = read_wordpiece(model, info);
    } else if (json_text_is(&type, "Unigram") || (untyped && has(place, "unk_id"))) {
        err = read_unigram(model, info);
    } else {
        return err_set(info, ERR_UNSUPPORTED, place->where, "the model \"%.64s\" is not supported",
            untyped ? "" : type.bytes);
    }
    if (err == ERR_OK && bytes && model->kind != VOCAB_BYTE_BPE) {
        err = err_set(info, ERR_UNSUPPORTED, place->where, "\"ByteLevel\" goes with BPE only");
    }
    return err;
}

/* ---- vocabulary ----------------------------------------------------------------------------- */

static enum err vocabulary(
    const struct json_model *model, struct json_place *out, struct err_info *info)
{
    json_place_member(&model->place, "vocab", out);
    bool is_list = model->kind == VOCAB_UNIGRAM;
    return json_place_expect(out, is_list ? META_JSON_ARRAY : META_JSON_OBJECT, info);
}

enum err json_model_last_id(const struct json_model *model, int64_t *out_id, struct err_info *info)
{
    struct json_place vocab;
    enum err err = vocabulary(model, &vocab, info);
    if (err != ERR_OK) {
        return err;
    }
    int64_t last = -1;
    if (model->kind == VOCAB_UNIGRAM) {
        last = (int64_t)meta_json_count(vocab.value) - 1;
    } else {
        void *cursor = NULL;
        const char *piece;
        const struct meta_json *id;
        while (meta_json_next(vocab.value, &cursor, &piece, &id)) {
            if (meta_json_type(id) != META_JSON_INTEGER) {
                return err_set(info, ERR_FORMAT, vocab.where, "an id is not an integer");
            }
            last = MAX(last, meta_json_integer(id));
        }
    }
    *out_id = last;
    return ERR_OK;
}

enum err json_tokens_add(struct json_tokens *tokens, int64_t id, const char *piece, size_t count,
    const char *where, struct err_info *info)
{
    if (id < 0 || (uint64_t)id >= tokens->count) {
        return err_set(info, ERR_FORMAT, where, "the id %lld is out of range", (long long)id);
    }
    if (count == 0 || count > VOCAB_PIECE_BYTES_MAX) {
        return err_set(info, ERR_FORMAT, where, "token %lld has %zu bytes; 1 to %d are supported",
            (long long)id, count, VOCAB_PIECE_BYTES_MAX);
    }
    struct json_token *token = &tokens->items[id];
    if (token->piece != NULL) {
        return err_set(info, ERR_FORMAT, where, "two tokens have the id %lld", (long long)id);
    }
    token->piece = piece;
    token->count = (uint32_t)count;
    token->type = TOKEN_TYPE_NORMAL;
    return ERR_OK;
}

/* "<0x0A>"; the digits are checked when the token becomes a byte. */
static bool looks_like_byte(const char *piece, size_t count)
{
    return count == 6 && memcmp(piece, "<0x", 3) == 0 && piece[5] == '>';
}

/* The number as the reference reads it: the digits as one integer, rounded, then divided by a power
 * of ten, rounded again. That is off by one bit for some of 16 digits or more, and among ways to
 * spell a run of equal characters, whose sums differ in rounding alone, it decides. The file's
 * digits are the shortest that give the number, as every writer of these files prints them. */
static double reference_number(double exact)
{
    enum { EXACT_DIGITS = 15, DIGITS_MAX = 17, EXACT_POWER = 22 };
    char text[40];
    int digits = EXACT_DIGITS - 1;
    do {
        digits++;
        snprintf(text, sizeof(text), "%.*e", digits - 1, fabs(exact));
    } while (digits < DIGITS_MAX && strtod(text, NULL) != fabs(exact));
    char *end;
    uint64_t integer = (uint64_t)(text[0] - '0');
    for (int i = 1; i < digits; i++) {
        integer = 10 * integer + (uint64_t)(text[i + 1] - '0'); /* text[1] is the point */
    }
    long power = digits - 1 - strtol(strchr(text, 'e') + 1, &end, 10);
    if (digits == EXACT_DIGITS || power < 0 || power > EXACT_POWER) {
        return exact;
    }
    double divisor = 1;
    for (long i = 0; i < power; i++) {
        divisor *= 10; /* exact up to 10^22 */
    }
    return copysign((double)integer / divisor, exact);
}

/* Unigram: [piece, score]. */
static enum err read_scored(
    struct json_tokens *tokens, const struct json_place *vocab, size_t id, struct err_info *info)
{
    struct json_place pair;
    json_place_element(vocab, id, &pair);
    enum err err = json_place_expect(&pair, META_JSON_ARRAY, info);
    if (err != ERR_OK) {
        return err;
    }
    const struct meta_json *piece =
        meta_json_count(pair.value) == 2 ? meta_json_at(pair.value, 0) : NULL;
    if (piece == NULL || meta_json_type(piece) != META_JSON_STRING) {
        return err_set(info, ERR_FORMAT, pair.where, "is not a piece and its score");
    }
    const struct meta_json *score = meta_json_at(pair.value, 1);
    enum meta_json_type type = meta_json_type(score);
    if (type != META_JSON_REAL && type != META_JSON_INTEGER) {
        return err_set(info, ERR_FORMAT, pair.where, "is not a piece and its score");
    }
    err = json_tokens_add(
        tokens, (int64_t)id, meta_json_string(piece), meta_json_count(piece), pair.where, info);
    if (err == ERR_OK) {
        tokens->items[id].score = reference_number(meta_json_number(score));
    }
    return err;
}

static enum err mark_unknown(struct json_model *model, struct json_tokens *tokens, int64_t id,
    const char *key, struct err_info *info)
{
    if (id < 0 || (uint64_t)id >= tokens->count || tokens->items[id].piece == NULL) {
        struct json_place place;
        json_place_member(&model->place, key, &place);
        return err_set(info, ERR_FORMAT, place.where, "is not in the vocabulary");
    }
    tokens->items[id].type = TOKEN_TYPE_UNKNOWN;
    model->unknown = (int32_t)id;
    return ERR_OK;
}

static enum err read_pieces(struct json_model *model, struct json_tokens *tokens,
    const struct json_place *vocab, int64_t *out_unknown, struct err_info *info)
{
    struct json_text unknown = {0};
    void *cursor = NULL;
    const char *piece;
    const struct meta_json *id;
    enum err err = json_place_text(&model->place, "unk_token", &unknown, info);
    *out_unknown = unknown.count > 0 ? INT64_MAX : -1; /* "" is none, as in GPT-2's file */
    while (err == ERR_OK && meta_json_next(vocab->value, &cursor, &piece, &id)) {
        err = json_tokens_add(
            tokens, meta_json_integer(id), piece, strlen(piece), vocab->where, info);
        if (json_text_is(&unknown, piece)) {
            *out_unknown = meta_json_integer(id);
        }
    }
    return err;
}

enum err json_model_tokens(
    struct json_model *model, struct json_tokens *tokens, struct err_info *info)
{
    struct json_place vocab;
    int64_t unknown = -1;
    bool is_list = model->kind == VOCAB_UNIGRAM;
    enum err err = vocabulary(model, &vocab, info);
    if (err == ERR_OK && is_list) {
        err = json_place_integer(&model->place, "unk_id", 0, INT32_MAX, &unknown, info);
        for (size_t id = 0; err == ERR_OK && id < meta_json_count(vocab.value); id++) {
            err = read_scored(tokens, &vocab, id, info);
        }
    } else if (err == ERR_OK) {
        err = read_pieces(model, tokens, &vocab, &unknown, info);
    }
    bool has_bytes = model->byte_fallback && model->kind != VOCAB_BYTE_BPE;
    for (size_t id = 0; err == ERR_OK && has_bytes && id < tokens->count; id++) {
        struct json_token *token = &tokens->items[id];
        if (token->piece != NULL && looks_like_byte(token->piece, token->count)) {
            token->type = TOKEN_TYPE_BYTE;
        }
    }
    if (err == ERR_OK && unknown >= 0) {
        err = mark_unknown(model, tokens, unknown, is_list ? "unk_id" : "unk_token", info);
    }
    return err;
}

/* ---- building ------------------------------------------------------------------------------- */

static bool split_merge(const char *line, size_t count, struct bpe_halves *out)
{
    const char *space = memchr(line, ' ', count);
    if (space == NULL) {
        return false;
    }
    *out = (struct bpe_halves){.left = line,
        .left_count = (size_t)(space - line),
        .right = space + 1,
        .right_count = count - (size_t)(space - line) - 1};
    return true;
}

/* "left right", or in newer files ["left", "right"]. */
static bool get_merge(const void *context, size_t index, struct bpe_halves *out)
{
    const struct meta_json *merge = meta_json_at(context, index);
    if (meta_json_type(merge) == META_JSON_STRING) {
        return split_merge(meta_json_string(merge), meta_json_count(merge), out);
    }
    if (meta_json_type(merge) != META_JSON_ARRAY || meta_json_count(merge) != 2) {
        return false;
    }
    const struct meta_json *left = meta_json_at(merge, 0);
    const struct meta_json *right = meta_json_at(merge, 1);
    if (meta_json_type(left) != META_JSON_STRING || meta_json_type(right) != META_JSON_STRING) {
        return false;
    }
    *out = (struct bpe_halves){.left = meta_json_string(left),
        .left_count = meta_json_count(left),
        .right = meta_json_string(right),
        .right_count = meta_json_count(right)};
    return true;
}

static enum err build_bpe(
    const struct json_model *model, struct tokenizer *tokenizer, struct err_info *info)
{
    struct json_place list;
    json_place_member(&model->place, "merges", &list);
    enum err err = json_place_expect(&list, META_JSON_ARRAY, info);
    if (err != ERR_OK) {
        return err;
    }
    struct bpe_merges merges = {get_merge, list.value, meta_json_count(list.value), list.where};
    err = bpe_set_merges(&tokenizer->bpe, &tokenizer->vocab, &merges, info);
    tokenizer->bpe.whole_first = model->ignore_merges;
    tokenizer->bpe.fuse_unknown = model->fuse_unknown;
    tokenizer->bpe.unknown = model->unknown;
    return err;
}

static enum err build_unigram(const struct json_model *model, const struct json_tokens *tokens,
    struct tokenizer *tokenizer, struct err_info *info)
{
    double *scores = mem_array(MEM_TOKENIZER, tokens->count, sizeof(*scores));
    if (scores == NULL) {
        return err_set(
            info, ERR_NO_MEMORY, model->place.where, "no memory for %zu scores", tokens->count);
    }
    for (size_t id = 0; id < tokens->count; id++) {
        scores[id] = tokens->items[id].score; /* JSON has finite numbers only */
    }
    return unigram_load(
        &tokenizer->unigram, &tokenizer->vocab, scores, model->unknown, model->place.where, info);
}

enum err json_model_build(const struct json_model *model, const struct json_tokens *tokens,
    struct tokenizer *tokenizer, struct err_info *info)
{
    if (model->kind == VOCAB_WORDPIECE) {
        return wordpiece_load(&tokenizer->wordpiece, &tokenizer->vocab, model->unknown,
            model->characters_max, model->place.where, info);
    }
    if (model->kind == VOCAB_UNIGRAM) {
        return build_unigram(model, tokens, tokenizer, info);
    }
    return build_bpe(model, tokenizer, info);
}
