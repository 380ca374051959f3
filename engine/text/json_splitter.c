/*
 * "pre_tokenizer" of tokenizer.json: names and options to steps. The regular expressions of Split
 * are known by their exact spelling and stand for the scanners of pretokenize.h; none is ever run.
 */
#include <string.h>

#include "engine/base/assert.h"
#include "engine/text/json_parts.h"

struct step_reader {
    struct splitter *splitter;
    bool bytes; /* the byte alphabet is reached: nothing may follow */
    struct err_info *info;
};

static enum err add_step(
    struct step_reader *reader, const struct json_place *place, const struct split_step *step)
{
    struct splitter *splitter = reader->splitter;
    if (splitter->count >= SPLITTER_STEPS_MAX) {
        return err_set(reader->info, ERR_LIMIT, place->where,
            "is one step too many; at most %d are supported", SPLITTER_STEPS_MAX);
    }
    splitter->steps[splitter->count++] = *step;
    return ERR_OK;
}

static enum err add_matches(struct step_reader *reader, const struct json_place *place,
    enum split_match match, enum split_behavior behavior, bool invert)
{
    struct split_step step = {
        .kind = SPLIT_MATCHES, .match = match, .behavior = behavior, .invert = invert};
    return add_step(reader, place, &step);
}

static enum err only_type(struct step_reader *reader, const struct json_place *place)
{
    static const char *const keys[] = {"type", NULL};
    return json_place_only(place, keys, reader->info);
}

static enum err read_bert(struct step_reader *reader, const struct json_place *place)
{
    enum err err = only_type(reader, place);
    if (err == ERR_OK) {
        err = add_matches(reader, place, SPLIT_MATCH_SPACE, SPLIT_REMOVED, false);
    }
    if (err == ERR_OK) {
        err = add_matches(reader, place, SPLIT_MATCH_PUNCTUATION, SPLIT_ISOLATED, false);
    }
    return err;
}

static enum err read_whitespace_split(struct step_reader *reader, const struct json_place *place)
{
    enum err err = only_type(reader, place);
    return err == ERR_OK ? add_matches(reader, place, SPLIT_MATCH_SPACE, SPLIT_REMOVED, false)
                         : err;
}

/* "\w+|[^\w\s]+": what matches stays. */
static enum err read_whitespace(struct step_reader *reader, const struct json_place *place)
{
    enum err err = only_type(reader, place);
    return err == ERR_OK ? add_matches(reader, place, SPLIT_MATCH_WORDS, SPLIT_REMOVED, true) : err;
}

static enum err read_byte_level(struct step_reader *reader, const struct json_place *place)
{
    static const char *const keys[] = {
        "type", "add_prefix_space", "trim_offsets", "use_regex", NULL};
    static const struct split_step prefix = {
        .kind = SPLIT_PREFIX_SPACE, .prefix = SPLIT_PREFIX_ALWAYS};
    static const struct split_step scan = {.kind = SPLIT_SCAN, .scan = PRETOKENIZER_GPT2};
    bool adds_space = true;
    bool uses_regex = true;
    bool trims = true; /* moves offsets only */
    struct err_info *info = reader->info;
    enum err err = json_place_only(place, keys, info);
    if (err != ERR_OK ||
        (err = json_place_bool(place, "add_prefix_space", &adds_space, info)) != ERR_OK ||
        (err = json_place_bool(place, "trim_offsets", &trims, info)) != ERR_OK ||
        (err = json_place_bool(place, "use_regex", &uses_regex, info)) != ERR_OK) {
        return err;
    }
    if (adds_space && (err = add_step(reader, place, &prefix)) != ERR_OK) {
        return err;
    }
    reader->bytes = true;
    return uses_regex ? add_step(reader, place, &scan) : ERR_OK;
}

static enum err read_behavior(
    struct step_reader *reader, const struct json_place *place, enum split_behavior *out_behavior)
{
    static const char *const names[] = {
        [SPLIT_REMOVED] = "Removed",
        [SPLIT_ISOLATED] = "Isolated",
        [SPLIT_CONTIGUOUS] = "Contiguous",
        [SPLIT_MERGED_WITH_PREVIOUS] = "MergedWithPrevious",
        [SPLIT_MERGED_WITH_NEXT] = "MergedWithNext",
    };
    struct json_text name = {0};
    enum err err = json_place_text(place, "behavior", &name, reader->info);
    if (err != ERR_OK || name.bytes == NULL) {
        return err;
    }
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        if (json_text_is(&name, names[i])) {
            *out_behavior = (enum split_behavior)i;
            return ERR_OK;
        }
    }
    return err_set(reader->info, ERR_FORMAT, place->where, "has an unknown \"behavior\"");
}

static enum err read_punctuation(struct step_reader *reader, const struct json_place *place)
{
    static const char *const keys[] = {"type", "behavior", NULL};
    enum split_behavior behavior = SPLIT_ISOLATED;
    enum err err = json_place_only(place, keys, reader->info);
    if (err == ERR_OK) {
        err = read_behavior(reader, place, &behavior);
    }
    return err == ERR_OK ? add_matches(reader, place, SPLIT_MATCH_PUNCTUATION, behavior, false)
                         : err;
}

static enum err read_digits(struct step_reader *reader, const struct json_place *place)
{
    static const char *const keys[] = {"type", "individual_digits", NULL};
    bool individual = false;
    enum err err = json_place_only(place, keys, reader->info);
    if (err == ERR_OK) {
        err = json_place_bool(place, "individual_digits", &individual, reader->info);
    }
    enum split_behavior behavior = individual ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS;
    return err == ERR_OK ? add_matches(reader, place, SPLIT_MATCH_NUMBER, behavior, false) : err;
}

static enum err read_literal(struct step_reader *reader, const struct json_place *place,
    const struct json_text *text, struct split_step *step)
{
    if (text->count == 0 || text->count > SPLITTER_LITERAL_MAX) {
        return err_set(reader->info, ERR_UNSUPPORTED, place->where,
            "a string of 1 to %d bytes is needed", SPLITTER_LITERAL_MAX);
    }
    step->kind = SPLIT_MATCHES;
    step->match = SPLIT_MATCH_LITERAL;
    memcpy(step->literal, text->bytes, text->count);
    step->literal_count = text->count;
    return add_step(reader, place, step);
}

static enum err read_delimiter(struct step_reader *reader, const struct json_place *place)
{
    static const char *const keys[] = {"type", "delimiter", NULL};
    struct split_step step = {.behavior = SPLIT_REMOVED};
    struct json_text text = {0};
    enum err err = json_place_only(place, keys, reader->info);
    if (err == ERR_OK) {
        err = json_place_text(place, "delimiter", &text, reader->info);
    }
    return err == ERR_OK ? read_literal(reader, place, &text, &step) : err;
}

/* The expressions match every character, so only what is made of their matches counts. */
static enum err read_regex(struct step_reader *reader, const struct json_place *place,
    const struct json_text *regex, const struct split_step *split)
{
    struct split_step step = {.kind = SPLIT_SCAN};
    if (!pretokenize_find_regex(regex->bytes, &step.scan)) {
        return err_set(reader->info, ERR_UNSUPPORTED, place->where,
            "the regular expression \"%.160s\" is not supported", regex->bytes);
    }
    bool keeps =
        split->invert ? split->behavior == SPLIT_REMOVED : split->behavior == SPLIT_ISOLATED;
    if (!keeps) {
        return err_set(reader->info, ERR_UNSUPPORTED, place->where,
            "this expression is supported with the behavior \"Isolated\" only");
    }
    return add_step(reader, place, &step);
}

static enum err read_split(struct step_reader *reader, const struct json_place *place)
{
    static const char *const keys[] = {"type", "pattern", "behavior", "invert", NULL};
    static const char *const pattern_keys[] = {"String", "Regex", NULL};
    struct split_step step = {.behavior = SPLIT_ISOLATED};
    struct json_place pattern;
    struct json_text regex = {0};
    struct json_text literal = {0};
    struct err_info *info = reader->info;
    json_place_member(place, "pattern", &pattern);
    enum err err = json_place_only(place, keys, info);
    if (err != ERR_OK || (err = read_behavior(reader, place, &step.behavior)) != ERR_OK ||
        (err = json_place_bool(place, "invert", &step.invert, info)) != ERR_OK ||
        (err = json_place_expect(&pattern, META_JSON_OBJECT, info)) != ERR_OK ||
        (err = json_place_only(&pattern, pattern_keys, info)) != ERR_OK ||
        (err = json_place_text(&pattern, "Regex", &regex, info)) != ERR_OK ||
        (err = json_place_text(&pattern, "String", &literal, info)) != ERR_OK) {
        return err;
    }
    return regex.bytes != NULL ? read_regex(reader, &pattern, &regex, &step)
                               : read_literal(reader, &pattern, &literal, &step);
}

static enum err read_metaspace(struct step_reader *reader, const struct json_place *place)
{
    static const char *const keys[] = {
        "type", "replacement", "add_prefix_space", "prepend_scheme", "split", "str_rep", NULL};
    struct split_step step = {.kind = SPLIT_METASPACE, .split = true};
    struct json_text replacement = {.bytes = "\u2581"};
    struct json_text scheme = {0};
    bool adds_space = true;
    struct err_info *info = reader->info;
    enum err err = json_place_only(place, keys, info);
    if (err != ERR_OK ||
        (err = json_place_text(place, "replacement", &replacement, info)) != ERR_OK ||
        (err = json_place_text(place, "prepend_scheme", &scheme, info)) != ERR_OK ||
        (err = json_place_bool(place, "add_prefix_space", &adds_space, info)) != ERR_OK ||
        (err = json_place_bool(place, "split", &step.split, info)) != ERR_OK) {
        return err;
    }
    if (!json_text_is(&replacement, "\u2581")) {
        return err_set(info, ERR_UNSUPPORTED, place->where, "only U+2581 is supported");
    }
    step.prefix = adds_space ? SPLIT_PREFIX_ALWAYS : SPLIT_PREFIX_NEVER;
    if (scheme.bytes != NULL) { /* the newer name, which older files lack */
        bool first = json_text_is(&scheme, "first");
        bool never = json_text_is(&scheme, "never");
        if (!first && !never && !json_text_is(&scheme, "always")) {
            return err_set(info, ERR_FORMAT, place->where, "has an unknown \"prepend_scheme\"");
        }
        step.prefix = first ? SPLIT_PREFIX_FIRST : never ? SPLIT_PREFIX_NEVER : SPLIT_PREFIX_ALWAYS;
    }
    return add_step(reader, place, &step);
}

static enum err read_sequence(struct step_reader *reader, const struct json_place *place);

static enum err read_step(struct step_reader *reader, const struct json_place *place)
{
    static const struct {
        const char *type;
        enum err (*read)(struct step_reader *reader, const struct json_place *place);
    } readers[] = {
        {"Sequence", read_sequence},
        {"BertPreTokenizer", read_bert},
        {"ByteLevel", read_byte_level},
        {"Split", read_split},
        {"Digits", read_digits},
        {"Metaspace", read_metaspace},
        {"Punctuation", read_punctuation},
        {"Whitespace", read_whitespace},
        {"WhitespaceSplit", read_whitespace_split},
        {"CharDelimiterSplit", read_delimiter},
    };
    struct json_text type = {0};
    enum err err = json_place_expect(place, META_JSON_OBJECT, reader->info);
    if (err != ERR_OK || (err = json_place_text(place, "type", &type, reader->info)) != ERR_OK) {
        return err;
    }
    if (type.bytes == NULL) {
        return err_set(reader->info, ERR_FORMAT, place->where, "has no \"type\"");
    }
    if (reader->bytes) {
        return err_set(reader->info, ERR_UNSUPPORTED, place->where, "follows \"ByteLevel\"");
    }
    for (size_t i = 0; i < ARRAY_COUNT(readers); i++) {
        if (json_text_is(&type, readers[i].type)) {
            return readers[i].read(reader, place);
        }
    }
    return err_set(reader->info, ERR_UNSUPPORTED, place->where,
        "the pre-tokenizer \"%.64s\" is not supported", type.bytes);
}

static enum err read_sequence(struct step_reader *reader, const struct json_place *place)
{
    static const char *const keys[] = {"type", "pretokenizers", NULL};
    struct json_place list;
    json_place_member(place, "pretokenizers", &list);
    enum err err = json_place_only(place, keys, reader->info);
    if (err == ERR_OK) {
        err = json_place_expect(&list, META_JSON_ARRAY, reader->info);
    }
    for (size_t i = 0; err == ERR_OK && i < meta_json_count(list.value); i++) {
        struct json_place element;
        json_place_element(&list, i, &element);
        err = read_step(reader, &element);
    }
    return err;
}

enum err json_splitter_read(struct splitter *splitter, const struct json_place *place,
    bool *out_bytes, struct err_info *info)
{
    struct step_reader reader = {.splitter = splitter, .info = info};
    enum err err = place->value == NULL ? ERR_OK : read_step(&reader, place);
    *out_bytes = reader.bytes;
    return err;
}
