/*
 * "post_processor" and "decoder" of tokenizer.json. A post-processor may put one token before a
 * text and one behind it; what it does to pairs of texts or to offsets is of no use here.
 */
#include <string.h>

#include "engine/base/assert.h"
#include "engine/text/json_parts.h"

static enum err not_supported(
    const struct json_place *place, const char *what, struct err_info *info)
{
    return err_set(info, ERR_UNSUPPORTED, place->where, "%s", what);
}

/* ---- templates ------------------------------------------------------------------------------ */

/* The one id that "special_tokens" gives a name. */
static enum err template_id(const struct json_place *template, const char *name, int32_t count,
    int32_t *out_id, struct err_info *info)
{
    struct json_place tokens;
    struct json_place token;
    struct json_place ids;
    json_place_member(template, "special_tokens", &tokens);
    enum err err = json_place_expect(&tokens, META_JSON_OBJECT, info);
    if (err != ERR_OK) {
        return err;
    }
    json_place_member(&tokens, name, &token);
    if ((err = json_place_expect(&token, META_JSON_OBJECT, info)) != ERR_OK) {
        return err;
    }
    json_place_member(&token, "ids", &ids);
    if ((err = json_place_expect(&ids, META_JSON_ARRAY, info)) != ERR_OK) {
        return err;
    }
    const struct meta_json *id =
        meta_json_count(ids.value) == 1 ? meta_json_at(ids.value, 0) : NULL;
    if (id == NULL || meta_json_type(id) != META_JSON_INTEGER || meta_json_integer(id) < 0 ||
        meta_json_integer(id) >= count) {
        return err_set(info, ERR_UNSUPPORTED, ids.where, "is not one id of the vocabulary");
    }
    *out_id = (int32_t)meta_json_integer(id);
    return ERR_OK;
}

/* One piece of a template: the text, or a token beside it. */
static enum err read_piece(struct json_ends *ends, const struct json_place *template,
    const struct json_place *piece, bool *after_text, int32_t count, struct err_info *info)
{
    static const char *const keys[] = {"SpecialToken", "Sequence", NULL};
    struct json_place token;
    struct json_place sequence;
    struct json_text name = {0};
    int64_t type = 0;
    enum err err = json_place_expect(piece, META_JSON_OBJECT, info);
    if (err != ERR_OK || (err = json_place_only(piece, keys, info)) != ERR_OK) {
        return err;
    }
    json_place_member(piece, "SpecialToken", &token);
    json_place_member(piece, "Sequence", &sequence);
    const struct json_place *inner = token.value != NULL ? &token : &sequence;
    if ((err = json_place_expect(inner, META_JSON_OBJECT, info)) != ERR_OK ||
        (err = json_place_text(inner, "id", &name, info)) != ERR_OK ||
        (err = json_place_integer(inner, "type_id", 0, INT32_MAX, &type, info)) != ERR_OK) {
        return err;
    }
    if (type != 0) {
        return not_supported(inner, "only token type 0 is supported", info);
    }
    if (token.value == NULL) {
        if (*after_text || !json_text_is(&name, "A")) {
            return not_supported(inner, "one text, \"A\", is supported", info);
        }
        *after_text = true;
        return ERR_OK;
    }
    int32_t *place = *after_text ? &ends->behind : &ends->before;
    if (*place >= 0) {
        return not_supported(inner, "is the second token on this side of the text", info);
    }
    return template_id(template, name.bytes == NULL ? "" : name.bytes, count, place, info);
}

static enum err read_template(
    struct json_ends *ends, const struct json_place *template, int32_t count, struct err_info *info)
{
    struct json_place single;
    bool after_text = false;
    json_place_member(template, "single", &single);
    enum err err = json_place_expect(&single, META_JSON_ARRAY, info);
    for (size_t i = 0; err == ERR_OK && i < meta_json_count(single.value); i++) {
        struct json_place piece;
        json_place_element(&single, i, &piece);
        err = read_piece(ends, template, &piece, &after_text, count, info);
    }
    if (err == ERR_OK && !after_text) {
        err = not_supported(&single, "has no place for the text", info);
    }
    return err;
}

/* BertProcessing and RobertaProcessing: "cls" and "sep" are pairs of spelling and id. */
static enum err read_pair(const struct json_place *place, const char *key, int32_t count,
    int32_t *out_id, struct err_info *info)
{
    struct json_place pair;
    json_place_member(place, key, &pair);
    enum err err = json_place_expect(&pair, META_JSON_ARRAY, info);
    if (err != ERR_OK) {
        return err;
    }
    const struct meta_json *id =
        meta_json_count(pair.value) == 2 ? meta_json_at(pair.value, 1) : NULL;
    if (id == NULL || meta_json_type(id) != META_JSON_INTEGER || meta_json_integer(id) < 0 ||
        meta_json_integer(id) >= count) {
        return err_set(info, ERR_FORMAT, pair.where, "is not a token and its id");
    }
    *out_id = (int32_t)meta_json_integer(id);
    return ERR_OK;
}

static enum err read_all(
    struct json_ends *ends, const struct json_place *place, int32_t count, struct err_info *info)
{
    struct json_place list;
    json_place_member(place, "processors", &list);
    enum err err = json_place_expect(&list, META_JSON_ARRAY, info);
    for (size_t i = 0; err == ERR_OK && i < meta_json_count(list.value); i++) {
        struct json_place element;
        json_place_element(&list, i, &element);
        err = element.value == NULL ? err_set(info, ERR_FORMAT, element.where, "is null")
                                    : json_ends_read(ends, &element, count, info);
    }
    return err;
}

enum err json_ends_read(
    struct json_ends *ends, const struct json_place *place, int32_t count, struct err_info *info)
{
    struct json_text type = {0};
    if (place->value == NULL) {
        return ERR_OK;
    }
    enum err err = json_place_expect(place, META_JSON_OBJECT, info);
    if (err != ERR_OK || (err = json_place_text(place, "type", &type, info)) != ERR_OK) {
        return err;
    }
    if (json_text_is(&type, "ByteLevel")) { /* trims offsets */
        return ERR_OK;
    }
    if (json_text_is(&type, "Sequence")) {
        return read_all(ends, place, count, info);
    }
    if (ends->before >= 0 || ends->behind >= 0) {
        return not_supported(place, "adds tokens where another processor did", info);
    }
    if (json_text_is(&type, "TemplateProcessing")) {
        return read_template(ends, place, count, info);
    }
    if (json_text_is(&type, "BertProcessing") || json_text_is(&type, "RobertaProcessing")) {
        err = read_pair(place, "cls", count, &ends->before, info);
        return err == ERR_OK ? read_pair(place, "sep", count, &ends->behind, info) : err;
    }
    return err_set(info, ERR_UNSUPPORTED, place->where,
        "the post-processor \"%.64s\" is not supported", type.bytes == NULL ? "" : type.bytes);
}

/* ---- decoder -------------------------------------------------------------------------------- */

/* Strip: of the characters at the start one, and it must be the space. */
static enum err read_strip(const struct json_place *place, bool *out_drops, struct err_info *info)
{
    struct json_text content = {0};
    int64_t start = 0;
    int64_t stop = 0;
    enum err err = json_place_text(place, "content", &content, info);
    if (err != ERR_OK ||
        (err = json_place_integer(place, "start", 0, INT32_MAX, &start, info)) != ERR_OK ||
        (err = json_place_integer(place, "stop", 0, INT32_MAX, &stop, info)) != ERR_OK) {
        return err;
    }
    if (!json_text_is(&content, " ") || start > 1 || stop > 0) {
        return not_supported(place, "only one space at the start can be dropped", info);
    }
    *out_drops = start == 1;
    return ERR_OK;
}

static enum err read_replace(const struct json_place *place, struct err_info *info)
{
    struct json_place pattern;
    struct json_text find = {0};
    struct json_text put = {0};
    json_place_member(place, "pattern", &pattern);
    enum err err = json_place_expect(&pattern, META_JSON_OBJECT, info);
    if (err != ERR_OK || (err = json_place_text(&pattern, "String", &find, info)) != ERR_OK ||
        (err = json_place_text(place, "content", &put, info)) != ERR_OK) {
        return err;
    }
    return json_text_is(&find, "\u2581") && json_text_is(&put, " ")
               ? ERR_OK
               : not_supported(place, "only U+2581 becomes a space", info);
}

static enum err read_metaspace(
    const struct json_place *place, bool *out_drops, struct err_info *info)
{
    struct json_text scheme = {0};
    bool adds_space = true;
    enum err err = json_place_text(place, "prepend_scheme", &scheme, info);
    if (err == ERR_OK) {
        err = json_place_bool(place, "add_prefix_space", &adds_space, info);
    }
    *out_drops = scheme.bytes != NULL ? !json_text_is(&scheme, "never") : adds_space;
    return err;
}

static enum err read_decoders(
    const struct json_place *place, enum vocab_model model, bool *out_drops, struct err_info *info)
{
    struct json_place list;
    json_place_member(place, "decoders", &list);
    enum err err = json_place_expect(&list, META_JSON_ARRAY, info);
    for (size_t i = 0; err == ERR_OK && i < meta_json_count(list.value); i++) {
        struct json_place element;
        json_place_element(&list, i, &element);
        err = element.value == NULL ? err_set(info, ERR_FORMAT, element.where, "is null")
                                    : json_decoder_read(&element, model, out_drops, info);
    }
    return err;
}

enum err json_decoder_read(
    const struct json_place *place, enum vocab_model model, bool *out_drops, struct err_info *info)
{
    struct json_text type = {0};
    if (place->value == NULL) {
        *out_drops = model == VOCAB_WORDPIECE;
        return ERR_OK;
    }
    enum err err = json_place_expect(place, META_JSON_OBJECT, info);
    if (err != ERR_OK || (err = json_place_text(place, "type", &type, info)) != ERR_OK) {
        return err;
    }
    if (json_text_is(&type, "Sequence")) {
        return read_decoders(place, model, out_drops, info);
    }
    if (json_text_is(&type, "Strip")) {
        return read_strip(place, out_drops, info);
    }
    if (json_text_is(&type, "Metaspace") && model != VOCAB_BYTE_BPE) {
        return read_metaspace(place, out_drops, info);
    }
    if (json_text_is(&type, "Replace") && model != VOCAB_BYTE_BPE) {
        return read_replace(place, info);
    }
    if (json_text_is(&type, "WordPiece") && model == VOCAB_WORDPIECE) {
        *out_drops = true; /* its "cleanup" of spaces before punctuation is not done */
        return ERR_OK;
    }
    if ((json_text_is(&type, "ByteLevel") && model == VOCAB_BYTE_BPE) ||
        json_text_is(&type, "ByteFallback") || json_text_is(&type, "Fuse")) {
        return ERR_OK;
    }
    return err_set(info, ERR_UNSUPPORTED, place->where,
        "the decoder \"%.64s\" is not supported here", type.bytes == NULL ? "" : type.bytes);
}
