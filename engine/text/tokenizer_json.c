/*
 * Reads the files in the order in which one part needs another: the chains, the model's kind, the
 * list of tokens (vocabulary and added ones together), the vocabulary made of it, the special ids,
 * the model.
 */
#include "engine/text/tokenizer_json.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/assert.h"
#include "engine/base/mem.h"
#include "engine/text/json_parts.h"

static const char FILE_NAME[] = "tokenizer.json";
static const char CONFIG_NAME[] = "tokenizer_config.json";

/* The largest files in use (Gemma's, of 262,144 tokens) have 33 MB and two million values. */
static const struct meta_json_limits limits = {
    .bytes = LIMIT_TOKENIZER_BYTES,
    .depth = JSON_DEPTH_MAX,
    .values = LIMIT_TOKENIZER_VALUES,
};

struct opening {
    const struct tokenizer_json *files;
    struct tokenizer *tokenizer;
    struct json_place root, config; /* config.value is NULL without that file */
    struct json_tokens tokens;
    struct json_model model;
};

/* ---- added tokens --------------------------------------------------------------------------- */

static enum err read_added_rules(const struct json_place *added, struct json_token *token,
    bool is_unknown, struct err_info *info)
{
    static const char *const keys[] = {
        "id", "content", "single_word", "lstrip", "rstrip", "normalized", "special", NULL};
    bool special = false;
    bool single = false;
    bool left = false;
    bool right = false;
    enum err err = json_place_only(added, keys, info);
    if (err != ERR_OK || (err = json_place_bool(added, "special", &special, info)) != ERR_OK ||
        (err = json_place_bool(added, "single_word", &single, info)) != ERR_OK ||
        (err = json_place_bool(added, "lstrip", &left, info)) != ERR_OK ||
        (err = json_place_bool(added, "rstrip", &right, info)) != ERR_OK) {
        return err;
    }
    bool normalized = !special;
    err = json_place_bool(added, "normalized", &normalized, info);
    token->rules =
        (uint8_t)((left ? SPECIAL_LEFT_STRIP : 0) | (right ? SPECIAL_RIGHT_STRIP : 0) |
                  (single ? SPECIAL_SINGLE_WORD : 0) | (normalized ? SPECIAL_NORMALIZED : 0));
    if (!is_unknown) {
        token->type = special ? TOKEN_TYPE_CONTROL : TOKEN_TYPE_USER;
    }
    return err;
}

static enum err read_added(
    struct opening *opening, const struct json_place *added, struct err_info *info)
{
    struct json_tokens *tokens = &opening->tokens;
    struct json_text content = {0};
    int64_t id = -1;
    enum err err = json_place_text(added, "content", &content, info);
    if (err != ERR_OK || (err = json_place_integer(
                              added, "id", 0, (int64_t)tokens->count - 1, &id, info)) != ERR_OK) {
        return err;
    }
    if (content.bytes == NULL || id < 0) {
        return err_set(info, ERR_FORMAT, added->where, "needs an \"id\" and a \"content\"");
    }
    struct json_token *token = &tokens->items[id];
    if (token->added) { /* which of the two rules would hold? */
        return err_set(info, ERR_FORMAT, added->where, "the id %lld appears twice", (long long)id);
    }
    token->added = true;
    if (token->piece == NULL) {
        err = json_tokens_add(tokens, id, content.bytes, content.count, added->where, info);
    } else if (token->count != content.count ||
               memcmp(token->piece, content.bytes, content.count) != 0) {
        err =
            err_set(info, ERR_FORMAT, added->where, "another token has the id %lld", (long long)id);
    }
    if (err != ERR_OK) {
        return err;
    }
    return read_added_rules(added, token, id == opening->model.unknown, info);
}

/* The list of added tokens, whose value is NULL when there is none. */
static enum err added_list(
    const struct opening *opening, struct json_place *out, struct err_info *info)
{
    json_place_member(&opening->root, "added_tokens", out);
    return out->value == NULL ? ERR_OK : json_place_expect(out, META_JSON_ARRAY, info);
}

static enum err last_added_id(const struct json_place *list, int64_t *last, struct err_info *info)
{
    enum err err = ERR_OK;
    size_t count = list->value == NULL ? 0 : meta_json_count(list->value);
    for (size_t i = 0; i < count && err == ERR_OK; i++) {
        struct json_place added;
        int64_t id = -1;
        json_place_element(list, i, &added);
        err = json_place_expect(&added, META_JSON_OBJECT, info);
        if (err == ERR_OK) {
            err = json_place_integer(&added, "id", 0, LIMIT_VOCAB - 1, &id, info);
        }
        *last = MAX(*last, id);
    }
    return err;
}

/* ---- the vocabulary ------------------------------------------------------------------------- */

static enum err read_tokens(struct opening *opening, struct err_info *info)
{
    struct json_place list;
    int64_t last = -1;
    enum err err = added_list(opening, &list, info);
    if (err != ERR_OK || (err = json_model_last_id(&opening->model, &last, info)) != ERR_OK ||
        (err = last_added_id(&list, &last, info)) != ERR_OK) {
        return err;
    }
    int32_t rows = opening->files->rows;
    if (last < 0 || last >= LIMIT_VOCAB) {
        return err_set(info, ERR_FORMAT, opening->model.place.where,
            "the greatest id is %lld; 0 to %d are supported", (long long)last, LIMIT_VOCAB - 1);
    }
    if (rows > 0 && last >= rows) {
        return err_set(info, ERR_FORMAT, opening->model.place.where,
            "the greatest id is %lld, but the model has embeddings for %d", (long long)last, rows);
    }
    struct json_tokens *tokens = &opening->tokens;
    tokens->count = rows > 0 ? (size_t)rows : (size_t)last + 1;
    tokens->items = mem_array(MEM_TOKENIZER, tokens->count, sizeof(*tokens->items));
    if (tokens->items == NULL) {
        return err_set(info, ERR_NO_MEMORY, opening->model.place.where, "no memory for %zu tokens",
            tokens->count);
    }
    err = json_model_tokens(&opening->model, tokens, info);
    size_t count = list.value == NULL ? 0 : meta_json_count(list.value);
    for (size_t i = 0; i < count && err == ERR_OK; i++) {
        struct json_place added;
        json_place_element(&list, i, &added);
        err = read_added(opening, &added, info);
    }
    return err;
}

enum { PAD_BYTES = 32 };

/* The text of a piece of WordPiece: bare if it goes on a word, else behind a space. */
static size_t word_text(const struct json_model *model, const struct json_token *token,
    char out[VOCAB_PIECE_BYTES_MAX + PAD_BYTES])
{
    size_t mark = strlen(model->continuing);
    bool continues = token->count > mark && memcmp(token->piece, model->continuing, mark) == 0;
    size_t skipped = continues ? mark : 0;
    size_t written = continues ? 0 : 1;
    out[0] = ' ';
    memcpy(out + written, token->piece + skipped, token->count - skipped);
    return written + token->count - skipped;
}

static enum err add_token(struct opening *opening, size_t id, struct err_info *info)
{
    const struct json_model *model = &opening->model;
    const struct json_token *token = &opening->tokens.items[id];
    const char *where = model->place.where;
    char spelling[VOCAB_PIECE_BYTES_MAX + PAD_BYTES];
    if (token->piece == NULL) { /* a row without a token; converters to GGUF write it so */
        size_t count = (size_t)snprintf(spelling, PAD_BYTES, "[PAD%zu]", id);
        return vocab_add(&opening->tokenizer->vocab, TOKEN_TYPE_UNUSED, spelling, count, spelling,
            count, where, info);
    }
    enum token_type type = (enum token_type)token->type;
    const char *piece = token->piece;
    size_t count = token->count;
    if (model->kind == VOCAB_WORDPIECE && type == TOKEN_TYPE_NORMAL) {
        count = word_text(model, token, spelling);
        /* A space that the file has is none of ours: no word holds one. */
        type = memchr(piece, ' ', token->count) == NULL ? type : TOKEN_TYPE_UNUSED;
        piece = spelling;
    }
    return vocab_add(
        &opening->tokenizer->vocab, type, piece, count, token->piece, token->count, where, info);
}

/* Two tokens spelled alike could not be told apart; in the vocabulary alone the last one counts. */
static enum err check_added(const struct vocab *vocab, const char *where, struct err_info *info)
{
    for (int32_t id = 0; id < vocab->count; id++) {
        size_t count;
        const char *piece = pieces_get(&vocab->stored, id, &count);
        int32_t found = pieces_find(&vocab->stored, piece, count);
        bool added =
            vocab->types[id] == TOKEN_TYPE_CONTROL || vocab->types[id] == TOKEN_TYPE_USER ||
            vocab->types[found] == TOKEN_TYPE_CONTROL || vocab->types[found] == TOKEN_TYPE_USER;
        if (found != id && added) {
            return err_set(
                info, ERR_FORMAT, where, "tokens %d and %d are spelled alike", id, found);
        }
    }
    return ERR_OK;
}

static enum err build_vocab(struct opening *opening, struct err_info *info)
{
    struct vocab *vocab = &opening->tokenizer->vocab;
    const struct json_tokens *tokens = &opening->tokens;
    size_t bytes = 0; /* with room for a space before each; no more than 2^33 */
    for (size_t id = 0; id < tokens->count; id++) {
        const struct json_token *token = &tokens->items[id];
        bytes += token->piece == NULL ? (size_t)PAD_BYTES : token->count + (size_t)1;
    }
    enum err err = vocab_begin(
        vocab, opening->model.kind, tokens->count, bytes, opening->model.place.where, info);
    for (size_t id = 0; id < tokens->count && err == ERR_OK; id++) {
        err = add_token(opening, id, info);
    }
    if (err != ERR_OK) {
        return err;
    }
    pieces_index(&vocab->stored, NULL, 0);
    opening->tokenizer->rules = mem_alloc(MEM_TOKENIZER, tokens->count);
    if (opening->tokenizer->rules == NULL) {
        return err_set(info, ERR_NO_MEMORY, NULL, "no memory for the added tokens");
    }
    for (size_t id = 0; id < tokens->count; id++) {
        opening->tokenizer->rules[id] = tokens->items[id].rules;
    }
    return check_added(vocab, opening->model.place.where, info);
}

/* ---- special tokens ------------------------------------------------------------------------- */

/* "bos_token" and its kind: a string, or an object with "content". */
static enum err read_named(
    const struct opening *opening, const char *key, int32_t *out_id, struct err_info *info)
{
    struct json_text text = {0};
    struct json_place place;
    json_place_member(&opening->config, key, &place);
    if (place.value == NULL) {
        return ERR_OK;
    }
    bool is_object = meta_json_type(place.value) == META_JSON_OBJECT;
    enum err err = is_object ? json_place_text(&place, "content", &text, info)
                             : json_place_text(&opening->config, key, &text, info);
    if (err != ERR_OK || text.count == 0) {
        return err;
    }
    int32_t id = pieces_find(&opening->tokenizer->vocab.stored, text.bytes, text.count);
    if (id < 0) {
        return err_set(info, ERR_FORMAT, place.where, "names a token that is not in %s", FILE_NAME);
    }
    *out_id = id;
    return ERR_OK;
}

static enum err read_names(const struct opening *opening, struct err_info *info)
{
    static const struct {
        const char *key;
        enum token_special which;
    } names[] = {
        {"bos_token", TOKEN_BOS},
        {"eos_token", TOKEN_EOS},
        {"unk_token", TOKEN_UNK},
        {"sep_token", TOKEN_SEP},
        {"pad_token", TOKEN_PAD},
        {"cls_token", TOKEN_CLS},
        {"mask_token", TOKEN_MASK},
    };
    int32_t *special = opening->tokenizer->vocab.special;
    if (opening->model.unknown >= 0) {
        special[TOKEN_UNK] = opening->model.unknown;
    }
    enum err err = ERR_OK;
    for (size_t i = 0; opening->config.value != NULL && i < ARRAY_COUNT(names) && err == ERR_OK;
         i++) {
        err = read_named(opening, names[i].key, &special[names[i].which], info);
    }
    return err;
}

/* The ids of the other files; a name is better than a number, since the numbers may be those of
 * another model the file was made from. */
static enum err read_numbers(const struct opening *opening, struct err_info *info)
{
    const struct tokenizer_json *files = opening->files;
    struct vocab *vocab = &opening->tokenizer->vocab;
    int32_t *special = vocab->special;
    for (int32_t i = -1; i < files->end_count; i++) {
        int32_t id = i < 0 ? files->bos : files->ends[i];
        if (id >= vocab->count) {
            return err_set(info, ERR_FORMAT, i < 0 ? "bos_token_id" : "eos_token_id",
                "%d is not an id of %s", id, FILE_NAME);
        }
        if (i < 0) {
            special[TOKEN_BOS] = special[TOKEN_BOS] < 0 ? id : special[TOKEN_BOS];
        } else {
            special[TOKEN_EOS] = special[TOKEN_EOS] < 0 ? id : special[TOKEN_EOS];
            tokenizer_add_end(opening->tokenizer, id);
        }
    }
    return ERR_OK;
}

/* Puts what the post-processor adds into the places of BOS and EOS. An end that is not what is
 * appended stays an end. */
static void take_places(struct tokenizer *tokenizer, const struct json_ends *ends)
{
    int32_t *special = tokenizer->vocab.special;
    tokenizer->adds_bos = ends->before >= 0;
    tokenizer->adds_eos = ends->behind >= 0;
    if (tokenizer->adds_bos) {
        special[TOKEN_BOS] = ends->before;
    }
    if (tokenizer->adds_eos) {
        tokenizer_add_end(tokenizer, special[TOKEN_EOS]);
        special[TOKEN_EOS] = ends->behind;
    }
}

/* ---- opening -------------------------------------------------------------------------------- */

static enum err read_chains(struct opening *opening, bool *out_bytes, struct err_info *info)
{
    struct json_place place;
    json_place_member(&opening->root, "normalizer", &place);
    enum err err = json_normalizer_read(&opening->tokenizer->normalizer, &place, info);
    if (err == ERR_OK) {
        json_place_member(&opening->root, "pre_tokenizer", &place);
        err = json_splitter_read(&opening->tokenizer->splitter, &place, out_bytes, info);
    }
    return err;
}

/* tokenizer_config.json repeats options of BertNormalizer, and what reads both files takes one or
 * the other: where they differ there is no telling which. */
static enum err check_config(const struct opening *opening, struct err_info *info)
{
    static const struct {
        const char *key;
        enum normal_bert_flag flag;
    } options[] = {
        {"do_lower_case", NORMAL_BERT_LOWERCASE},
        {"strip_accents", NORMAL_BERT_STRIP_ACCENTS},
        {"tokenize_chinese_chars", NORMAL_BERT_CJK},
    };
    const struct normalizer *normalizer = &opening->tokenizer->normalizer;
    bool has_bert = normalizer->count == 1 && normalizer->steps[0].kind == NORMAL_STEP_BERT;
    for (size_t i = 0; has_bert && opening->config.value != NULL && i < ARRAY_COUNT(options); i++) {
        struct json_place place;
        bool is = (normalizer->steps[0].bert & options[i].flag) != 0;
        bool said = is;
        enum err err = json_place_bool(&opening->config, options[i].key, &said, info);
        if (err != ERR_OK) {
            return err;
        }
        if (said != is) {
            json_place_member(&opening->config, options[i].key, &place);
            return err_set(
                info, ERR_UNSUPPORTED, place.where, "contradicts tokenizer.json#/normalizer");
        }
    }
    return ERR_OK;
}

/* Pieces of WordPiece are told apart by a space before them, so words may hold none. */
static enum err check_words(const struct opening *opening, struct err_info *info)
{
    const struct splitter *splitter = &opening->tokenizer->splitter;
    bool cut = opening->model.kind != VOCAB_WORDPIECE;
    for (int32_t i = 0; i < splitter->count; i++) {
        const struct split_step *step = &splitter->steps[i];
        cut = cut || (step->kind == SPLIT_MATCHES && step->behavior == SPLIT_REMOVED &&
                         (step->match == SPLIT_MATCH_SPACE || step->match == SPLIT_MATCH_WORDS));
    }
    return cut ? ERR_OK
               : err_set(info, ERR_UNSUPPORTED, "tokenizer.json#/pre_tokenizer",
                     "WordPiece is supported over words without spaces only");
}

static enum err build(struct opening *opening, struct err_info *info)
{
    static const char *const keys[] = {"version", "truncation", "padding", "added_tokens",
        "normalizer", "pre_tokenizer", "post_processor", "decoder", "model", NULL};
    struct tokenizer *tokenizer = opening->tokenizer;
    struct json_ends ends = {-1, -1};
    struct json_place place;
    bool bytes = false;
    enum err err = json_place_expect(&opening->root, META_JSON_OBJECT, info);
    if (err != ERR_OK || (err = json_place_only(&opening->root, keys, info)) != ERR_OK ||
        (err = read_chains(opening, &bytes, info)) != ERR_OK ||
        (err = check_config(opening, info)) != ERR_OK) {
        return err;
    }
    json_place_member(&opening->root, "model", &place);
    if ((err = json_model_read(&opening->model, &place, bytes, info)) != ERR_OK ||
        (err = check_words(opening, info)) != ERR_OK ||
        (err = read_tokens(opening, info)) != ERR_OK ||
        (err = build_vocab(opening, info)) != ERR_OK ||
        (err = read_names(opening, info)) != ERR_OK ||
        (err = read_numbers(opening, info)) != ERR_OK) {
        return err;
    }
    json_place_member(&opening->root, "post_processor", &place);
    if ((err = json_ends_read(&ends, &place, tokenizer->vocab.count, info)) != ERR_OK) {
        return err;
    }
    take_places(tokenizer, &ends);
    json_place_member(&opening->root, "decoder", &place);
    if ((err = json_decoder_read(
             &place, opening->model.kind, &tokenizer->drops_first_space, info)) != ERR_OK) {
        return err;
    }
    special_mark(&tokenizer->vocab);
    if ((err = vocab_finish(&tokenizer->vocab, opening->model.place.where, info)) != ERR_OK ||
        (err = json_model_build(&opening->model, &opening->tokens, tokenizer, info)) != ERR_OK) {
        return err;
    }
    return tokenizer_finish(tokenizer, info);
}

static enum err parse_and_build(struct opening *opening, struct err_info *info)
{
    const struct tokenizer_json *files = opening->files;
    struct meta_json *root = NULL;
    struct meta_json *config = NULL;
    enum err err =
        meta_json_parse(files->tokenizer, files->tokenizer_bytes, &limits, FILE_NAME, &root, info);
    if (err != ERR_OK) {
        return err;
    }
    json_place_root(&opening->root, FILE_NAME, root);
    if (files->config != NULL) {
        err = meta_json_parse(
            files->config, files->config_bytes, &limits, CONFIG_NAME, &config, info);
    }
    if (err == ERR_OK) {
        json_place_root(&opening->config, CONFIG_NAME, config);
        if (config != NULL) {
            err = json_place_expect(&opening->config, META_JSON_OBJECT, info);
        }
    }
    if (err == ERR_OK) {
        err = build(opening, info);
    }
    mem_free(opening->tokens.items);
    meta_json_free(config);
    meta_json_free(root);
    return err;
}

enum err tokenizer_open_json(
    const struct tokenizer_json *files, struct tokenizer **out_tokenizer, struct err_info *info)
{
    struct tokenizer *tokenizer = mem_alloc(MEM_TOKENIZER, sizeof(*tokenizer));
    if (tokenizer == NULL) {
        return err_set(info, ERR_NO_MEMORY, FILE_NAME, "no memory for the tokenizer");
    }
    struct opening opening = {.files = files, .tokenizer = tokenizer};
    enum err err = parse_and_build(&opening, info);
    if (err != ERR_OK) {
        tokenizer_close(tokenizer);
        return err;
    }
    *out_tokenizer = tokenizer;
    return ERR_OK;
}
