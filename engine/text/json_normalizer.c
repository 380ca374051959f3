/*
 * "normalizer" of tokenizer.json: names and options to steps. Of regular expressions those are
 * known that models use, by their exact spelling; none is ever run.
 */
#include <string.h>

#include "engine/base/assert.h"
#include "engine/text/json_parts.h"

/* Copies a string a step carries. */
static enum err read_string(const struct json_place *object, const char *key, char *out,
    size_t *out_count, struct err_info *info)
{
    struct json_text text = {0};
    struct json_place place;
    enum err err = json_place_text(object, key, &text, info);
    if (err != ERR_OK) {
        return err;
    }
    json_place_member(object, key, &place);
    if (text.bytes == NULL || text.count > NORMALIZER_STRING_MAX) {
        return err_set(info, ERR_UNSUPPORTED, place.where, "a string of at most %d bytes is needed",
            NORMALIZER_STRING_MAX);
    }
    memcpy(out, text.bytes, text.count);
    *out_count = text.count;
    return ERR_OK;
}

static enum err read_bert(
    struct normal_step *step, const struct json_place *place, struct err_info *info)
{
    static const char *const keys[] = {
        "type", "clean_text", "handle_chinese_chars", "strip_accents", "lowercase", NULL};
    bool clean = true;
    bool chinese = true;
    bool lowercase = true;
    enum err err = json_place_only(place, keys, info);
    if (err != ERR_OK || (err = json_place_bool(place, "clean_text", &clean, info)) != ERR_OK ||
        (err = json_place_bool(place, "handle_chinese_chars", &chinese, info)) != ERR_OK ||
        (err = json_place_bool(place, "lowercase", &lowercase, info)) != ERR_OK) {
        return err;
    }
    bool strip = lowercase; /* what null means */
    err = json_place_bool(place, "strip_accents", &strip, info);
    step->kind = NORMAL_STEP_BERT;
    step->bert = (clean ? NORMAL_BERT_CLEAN : 0u) | (chinese ? NORMAL_BERT_CJK : 0u) |
                 (strip ? NORMAL_BERT_STRIP_ACCENTS : 0u) |
                 (lowercase ? NORMAL_BERT_LOWERCASE : 0u);
    return err;
}

static enum err read_regex(struct normal_step *step, const struct json_place *place,
    const struct json_text *regex, struct err_info *info)
{
    static const struct {
        const char *spelling;
        size_t least;
        bool any_blank;
    } known[] = {{" {2,}", 2, false}, {" +", 1, false}, {"\\s+", 1, true}, {"\\s{2,}", 2, true}};
    for (size_t i = 0; i < ARRAY_COUNT(known); i++) {
        if (json_text_is(regex, known[i].spelling)) {
            step->kind = NORMAL_STEP_RUNS;
            step->least = known[i].least;
            step->any_blank = known[i].any_blank;
            return ERR_OK;
        }
    }
    return err_set(info, ERR_UNSUPPORTED, place->where,
        "the regular expression \"%.64s\" is not supported", regex->bytes);
}

static enum err read_replace(
    struct normal_step *step, const struct json_place *place, struct err_info *info)
{
    static const char *const keys[] = {"type", "pattern", "content", NULL};
    static const char *const pattern_keys[] = {"String", "Regex", NULL};
    struct json_place pattern;
    struct json_text regex = {0};
    json_place_member(place, "pattern", &pattern);
    enum err err = json_place_only(place, keys, info);
    if (err != ERR_OK ||
        (err = read_string(place, "content", step->put, &step->put_count, info)) != ERR_OK ||
        (err = json_place_expect(&pattern, META_JSON_OBJECT, info)) != ERR_OK ||
        (err = json_place_only(&pattern, pattern_keys, info)) != ERR_OK ||
        (err = json_place_text(&pattern, "Regex", &regex, info)) != ERR_OK) {
        return err;
    }
    if (regex.bytes != NULL) {
        return read_regex(step, &pattern, &regex, info);
    }
    step->kind = NORMAL_STEP_REPLACE;
    err = read_string(&pattern, "String", step->find, &step->find_count, info);
    if (err == ERR_OK && step->find_count == 0) {
        err = err_set(info, ERR_UNSUPPORTED, pattern.where, "an empty string matches everywhere");
    }
    return err;
}

static enum err read_strip(
    struct normal_step *step, const struct json_place *place, struct err_info *info)
{
    static const char *const keys[] = {"type", "strip_left", "strip_right", NULL};
    step->kind = NORMAL_STEP_STRIP;
    step->left = true;
    step->right = true;
    enum err err = json_place_only(place, keys, info);
    if (err == ERR_OK) {
        err = json_place_bool(place, "strip_left", &step->left, info);
    }
    return err == ERR_OK ? json_place_bool(place, "strip_right", &step->right, info) : err;
}

static enum err read_prepend(
    struct normal_step *step, const struct json_place *place, struct err_info *info)
{
    static const char *const keys[] = {"type", "prepend", NULL};
    step->kind = NORMAL_STEP_PREPEND;
    enum err err = json_place_only(place, keys, info);
    return err == ERR_OK ? read_string(place, "prepend", step->put, &step->put_count, info) : err;
}

static enum err read_precompiled(struct normalizer *normalizer, struct normal_step *step,
    const struct json_place *place, struct err_info *info)
{
    static const char *const keys[] = {"type", "precompiled_charsmap", NULL};
    struct json_text base64 = {0};
    struct json_place map;
    json_place_member(place, "precompiled_charsmap", &map);
    enum err err = json_place_only(place, keys, info);
    if (err == ERR_OK) {
        err = json_place_text(place, "precompiled_charsmap", &base64, info);
    }
    if (err != ERR_OK) {
        return err;
    }
    if (base64.bytes == NULL) {
        return err_set(info, ERR_FORMAT, map.where, "is missing; a string is needed");
    }
    if (normalizer->charsmap.units != NULL) {
        return err_set(info, ERR_UNSUPPORTED, place->where, "is the second table of characters");
    }
    step->kind = NORMAL_STEP_CHARSMAP;
    return charsmap_load_base64(&normalizer->charsmap, base64.bytes, base64.count, map.where, info);
}

/* Normalizers without options. */
static bool find_plain(const struct json_text *type, struct normal_step *step)
{
    static const struct {
        const char *type;
        enum normal_step_kind kind;
        enum normal_form form;
    } plain[] = {
        {"NFC", NORMAL_STEP_FORM, NORMAL_NFC},
        {"NFD", NORMAL_STEP_FORM, NORMAL_NFD},
        {"NFKC", NORMAL_STEP_FORM, NORMAL_NFKC},
        {"NFKD", NORMAL_STEP_FORM, NORMAL_NFKD},
        {"Lowercase", NORMAL_STEP_LOWERCASE, NORMAL_NFC},
        {"StripAccents", NORMAL_STEP_STRIP_ACCENTS, NORMAL_NFC},
        {"Nmt", NORMAL_STEP_NMT, NORMAL_NFC},
    };
    for (size_t i = 0; i < ARRAY_COUNT(plain); i++) {
        if (json_text_is(type, plain[i].type)) {
            step->kind = plain[i].kind;
            step->form = plain[i].form;
            return true;
        }
    }
    return false;
}

static enum err read_step(struct normalizer *normalizer, const struct json_place *place,
    const struct json_text *type, struct err_info *info)
{
    static const char *const keys[] = {"type", NULL};
    struct normal_step step = {0};
    enum err err;
    if (normalizer->count >= NORMALIZER_STEPS_MAX) {
        return err_set(info, ERR_LIMIT, place->where,
            "is one step too many; at most %d are "
            "supported",
            NORMALIZER_STEPS_MAX);
    }
    if (find_plain(type, &step)) {
        err = json_place_only(place, keys, info);
    } else if (json_text_is(type, "BertNormalizer")) {
        err = read_bert(&step, place, info);
    } else if (json_text_is(type, "Replace")) {
        err = read_replace(&step, place, info);
    } else if (json_text_is(type, "Prepend")) {
        err = read_prepend(&step, place, info);
    } else if (json_text_is(type, "Strip")) {
        err = read_strip(&step, place, info);
    } else if (json_text_is(type, "Precompiled")) {
        err = read_precompiled(normalizer, &step, place, info);
    } else {
        err = err_set(info, ERR_UNSUPPORTED, place->where,
            "the normalizer \"%.64s\" is not supported", type->bytes);
    }
    if (err == ERR_OK) {
        normalizer->steps[normalizer->count++] = step;
    }
    return err;
}

/* As deep as the JSON text, which is bounded. */
enum err json_normalizer_read(
    struct normalizer *normalizer, const struct json_place *place, struct err_info *info)
{
    static const char *const keys[] = {"type", "normalizers", NULL};
    struct json_text type = {0};
    if (place->value == NULL) {
        return ERR_OK;
    }
    enum err err = json_place_expect(place, META_JSON_OBJECT, info);
    if (err != ERR_OK || (err = json_place_text(place, "type", &type, info)) != ERR_OK) {
        return err;
    }
    if (type.bytes == NULL) {
        return err_set(info, ERR_FORMAT, place->where, "has no \"type\"");
    }
    if (!json_text_is(&type, "Sequence")) {
        return read_step(normalizer, place, &type, info);
    }
    struct json_place list;
    json_place_member(place, "normalizers", &list);
    if ((err = json_place_only(place, keys, info)) != ERR_OK ||
        (err = json_place_expect(&list, META_JSON_ARRAY, info)) != ERR_OK) {
        return err;
    }
    for (size_t i = 0; i < meta_json_count(list.value) && err == ERR_OK; i++) {
        struct json_place element;
        json_place_element(&list, i, &element);
        err = element.value == NULL ? err_set(info, ERR_FORMAT, element.where, "is null")
                                    : json_normalizer_read(normalizer, &element, info);
    }
    return err;
}
