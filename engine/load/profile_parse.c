/*
 * A profile's JSON as a tree of tables: one row per key, one small function per kind of value, and
 * the path of keys kept so that every error can name it. A key may stand once (the JSON parser sees
 * to that) and only where a table has it.
 */
#include <stdio.h>
#include <string.h>
#include "engine/load/profile_reader.h"

/* ---- modes, attention, vectors -------------------------------------------------------------- */

static enum err read_mode(struct profile_reader *reader, const struct meta_json *value)
{
    static const char *const words[] = {
#define X(name, word) word,
        KIND_MAP(X)
#undef X
            NULL};
    int kind = 0;
    enum err err = profile_reader_word(reader, value, words, &kind);
    if (err == ERR_OK && reader->profile->modes[kind]) {
        return profile_reader_fail(reader, ERR_FORMAT, "stands twice in the list");
    }
    if (err == ERR_OK) {
        reader->profile->modes[kind] = true;
    }
    return err;
}

static enum err read_modes(struct profile_reader *reader, const struct meta_json *value)
{
    memset(reader->profile->modes, 0, sizeof(reader->profile->modes));
    reader->profile->modes_stated = true;
    enum err err = profile_reader_list(reader, value, KIND_COUNT, read_mode);
    if (err == ERR_OK && meta_json_count(value) == 0) {
        return profile_reader_fail(reader, ERR_FORMAT, "is empty");
    }
    return err;
}

static enum err read_attention_word(
    struct profile_reader *reader, const struct meta_json *value, enum attention *out)
{
    static const char *const words[] = {"causal", "bidirectional", NULL};
    int index = 0;
    enum err err = profile_reader_word(reader, value, words, &index);
    if (err == ERR_OK) {
        *out = index == 0 ? ATTENTION_CAUSAL : ATTENTION_BIDIRECTIONAL;
    }
    return err;
}

static enum err read_attention_embed(struct profile_reader *reader, const struct meta_json *value)
{
    reader->profile->embed_attention_stated = true;
    return read_attention_word(reader, value, &reader->profile->embed_attention);
}

static enum err read_attention_prompt(struct profile_reader *reader, const struct meta_json *value)
{
    return read_attention_word(reader, value, &reader->profile->prompt_attention);
}

static enum err read_attention(struct profile_reader *reader, const struct meta_json *value)
{
    static const struct profile_entry entries[] = {
        {"embed", read_attention_embed},
        {"prompt", read_attention_prompt},
    };
    return profile_reader_object(reader, value, entries, ARRAY_COUNT(entries));
}

static enum err read_pooling(struct profile_reader *reader, const struct meta_json *value)
{
    static const char *const words[] = {"mean", "cls", "last", "eos", "weighted_mean", NULL};
    static const enum pooling poolings[] = {
        POOLING_MEAN, POOLING_CLS, POOLING_LAST, POOLING_EOS, POOLING_WEIGHTED_MEAN};
    int index = 0;
    enum err err = profile_reader_word(reader, value, words, &index);
    if (err == ERR_OK) {
        reader->profile->pooling = poolings[index];
    }
    return err;
}

static enum err read_pool_skip_instruction(
    struct profile_reader *reader, const struct meta_json *value)
{
    return profile_reader_bool(reader, value, &reader->profile->pool_skip_instruction);
}

static enum err read_token_offset(struct profile_reader *reader, const struct meta_json *value)
{
    return profile_reader_integer(reader, value, -1, 0, &reader->profile->token_offset);
}

static enum err read_dimension(struct profile_reader *reader, const struct meta_json *value)
{
    struct profile *profile = reader->profile;
    enum err err = profile_reader_integer(
        reader, value, 1, LIMIT_HIDDEN, &profile->dimensions[profile->dimension_count]);
    profile->dimension_count += err == ERR_OK;
    return err;
}

static enum err read_dimensions(struct profile_reader *reader, const struct meta_json *value)
{
    reader->profile->dimension_count = 0;
    return profile_reader_list(reader, value, PROFILE_DIMENSIONS, read_dimension);
}

static enum err read_head_part(struct profile_reader *reader, const struct meta_json *value)
{
    static const char *const words[] = {"layer_norm", NULL};
    int index = 0;
    enum err err = profile_reader_word(reader, value, words, &index);
    if (err == ERR_OK) {
        reader->profile->vector_norm = true;
    }
    return err;
}

/* What follows the pooling besides dense layers, which the weights state themselves. */
static enum err read_head(struct profile_reader *reader, const struct meta_json *value)
{
    reader->profile->vector_norm = false;
    return profile_reader_list(reader, value, 1, read_head_part);
}

/* ---- prompts -------------------------------------------------------------------------------- */

/* True when `place` stands in the text exactly once. */
static bool holds_once(const char *text, const char *place)
{
    const char *first = strstr(text, place);
    return first != NULL && strstr(first + 1, place) == NULL;
}

static int count_of(const char *text, const char *place)
{
    int count = 0;
    for (const char *at = text; (at = strstr(at, place)) != NULL; at += strlen(place)) {
        count++;
    }
    return count;
}

/* A text that is said again stands twice, and its second copy is pooled. */
static enum err check_places(struct profile_reader *reader, const char *text, int instructions)
{
    const int texts = count_of(text, "{text}");
    if (texts < 1 || texts > 2) {
        return profile_reader_fail(reader, ERR_FORMAT, "does not hold {text} once or twice");
    }
    if (count_of(text, "{instruction}") != instructions) {
        return profile_reader_fail(reader, ERR_FORMAT, "%s",
            instructions == 0 ? "holds {instruction}, which belongs in the key instruction"
                              : "does not hold {instruction} exactly once");
    }
    return ERR_OK;
}

static enum err read_instruction(struct profile_reader *reader, const struct meta_json *value)
{
    char *text = reader->profile->instruction;
    enum err err = profile_reader_text(reader, value, PROFILE_TEXT_BYTES, text);
    return err == ERR_OK ? check_places(reader, text, 1) : err;
}

static enum err read_default_prompt(struct profile_reader *reader, const struct meta_json *value)
{
    return profile_reader_text(reader, value, PROFILE_NAME_BYTES, reader->profile->default_prompt);
}

/* After the whole is read: prompts may stand behind the one that names them. */
static enum err check_default_prompt(struct profile_reader *reader)
{
    const struct profile *profile = reader->profile;
    for (int32_t i = 0; i < profile->prompt_count; i++) {
        if (strcmp(profile->prompts[i].name, profile->default_prompt) == 0) {
            return ERR_OK;
        }
    }
    if (profile->default_prompt[0] == '\0') {
        return ERR_OK;
    }
    (void)profile_reader_push(reader, "default_prompt");
    return profile_reader_fail(reader, ERR_FORMAT, "is none of the prompts");
}

static enum err read_prompt(
    struct profile_reader *reader, const char *name, const struct meta_json *value)
{
    struct profile *profile = reader->profile;
    const int32_t index = profile->prompt_count;
    if (name[0] == '\0' || strlen(name) >= sizeof(profile->prompts[0].name)) {
        return profile_reader_fail(reader, ERR_LIMIT, "a prompt's name has 1 to %zu bytes",
            sizeof(profile->prompts[0].name) - 1);
    }
    enum err err =
        profile_reader_text(reader, value, PROFILE_TEXT_BYTES, profile->prompts[index].text);
    if (err == ERR_OK) {
        err = check_places(reader, profile->prompts[index].text, 0);
    }
    if (err == ERR_OK) {
        memcpy(profile->prompts[index].name, name, strlen(name) + 1);
        profile->prompt_count++;
    }
    return err;
}

static enum err read_prompts(struct profile_reader *reader, const struct meta_json *value)
{
    enum err err = profile_reader_want(reader, value, META_JSON_OBJECT);
    if (err == ERR_OK && meta_json_count(value) > LIMIT_PROMPTS) {
        return profile_reader_fail(reader, ERR_LIMIT, "has %zu prompts, at most %d are possible",
            meta_json_count(value), LIMIT_PROMPTS);
    }
    reader->profile->prompt_count = 0;
    void *cursor = NULL;
    const char *name;
    const struct meta_json *member;
    while (err == ERR_OK && meta_json_next(value, &cursor, &name, &member)) {
        const size_t length = profile_reader_push(reader, name);
        err = read_prompt(reader, name, member);
        if (err == ERR_OK) {
            reader->path[length] = '\0';
        }
    }
    return err;
}

/* ---- infill --------------------------------------------------------------------------------- */

static enum err read_infill_mode(struct profile_reader *reader, const struct meta_json *value)
{
    static const char *const words[INFILL_MODE_COUNT + 1] = {
#define X(name, word) word,
        INFILL_MODE_MAP(X)
#undef X
    };
    struct profile *profile = reader->profile;
    int mode = 0;
    enum err err = profile_reader_word(reader, value, words, &mode);
    for (int32_t i = 0; err == ERR_OK && i < profile->infill_mode_count; i++) {
        if ((int)profile->infill_modes[i] == mode) {
            return profile_reader_fail(reader, ERR_FORMAT, "stands twice in the list");
        }
    }
    if (err == ERR_OK) {
        profile->infill_modes[profile->infill_mode_count++] = (enum infill_mode)mode;
    }
    return err;
}

static enum err read_infill_modes(struct profile_reader *reader, const struct meta_json *value)
{
    reader->profile->infill_mode_count = 0;
    reader->profile->infill_modes_stated = true;
    enum err err = profile_reader_list(reader, value, INFILL_MODE_COUNT, read_infill_mode);
    if (err == ERR_OK && meta_json_count(value) == 0) {
        return profile_reader_fail(reader, ERR_FORMAT, "is empty");
    }
    return err;
}

static enum err read_gap_positions(struct profile_reader *reader, const struct meta_json *value)
{
    static const char *const words[] = {"inplace", "collapsed", "glm2d", NULL};
    int index = 0;
    enum err err = profile_reader_word(reader, value, words, &index);
    if (err == ERR_OK) {
        reader->profile->gap_positions = (enum gap_positions)index;
    }
    return err;
}

static enum err read_span_end(struct profile_reader *reader, const struct meta_json *value)
{
    if (meta_json_type(value) == META_JSON_NULL) {
        reader->profile->span_end[0] = '\0';
        return ERR_OK;
    }
    return profile_reader_text(reader, value, PROFILE_TOKEN_BYTES, reader->profile->span_end);
}

static enum err read_fim_style(struct profile_reader *reader, const struct meta_json *value)
{
    static const char *const words[] = {"tokens", "incoder", NULL};
    int index = 0;
    enum err err = profile_reader_word(reader, value, words, &index);
    if (err == ERR_OK) {
        reader->profile->fim.style = (enum fim_style)index;
    }
    return err;
}

static enum err read_fim_order(struct profile_reader *reader, const struct meta_json *value)
{
    static const char *const words[] = {"psm", "spm", NULL};
    int index = 0;
    enum err err = profile_reader_word(reader, value, words, &index);
    if (err == ERR_OK) {
        reader->profile->fim.order = (enum fim_order)index;
    }
    return err;
}

static enum err read_fim_prefix(struct profile_reader *reader, const struct meta_json *value)
{
    return profile_reader_text(reader, value, PROFILE_TOKEN_BYTES, reader->profile->fim.prefix);
}

static enum err read_fim_suffix(struct profile_reader *reader, const struct meta_json *value)
{
    return profile_reader_text(reader, value, PROFILE_TOKEN_BYTES, reader->profile->fim.suffix);
}

static enum err read_fim_middle(struct profile_reader *reader, const struct meta_json *value)
{
    return profile_reader_text(reader, value, PROFILE_TOKEN_BYTES, reader->profile->fim.middle);
}

static enum err read_fim_end(struct profile_reader *reader, const struct meta_json *value)
{
    return profile_reader_text(reader, value, PROFILE_TOKEN_BYTES, reader->profile->fim.end);
}

static enum err read_fim(struct profile_reader *reader, const struct meta_json *value)
{
    static const struct profile_entry entries[] = {
        {"style", read_fim_style},
        {"order", read_fim_order},
        {"prefix", read_fim_prefix},
        {"suffix", read_fim_suffix},
        {"middle", read_fim_middle},
        {"end", read_fim_end},
    };
    return profile_reader_object(reader, value, entries, ARRAY_COUNT(entries));
}

static enum err read_infill(struct profile_reader *reader, const struct meta_json *value)
{
    static const struct profile_entry entries[] = {
        {"modes", read_infill_modes},
        {"gap_positions", read_gap_positions},
        {"span_end", read_span_end},
        {"fim", read_fim},
    };
    return profile_reader_object(reader, value, entries, ARRAY_COUNT(entries));
}

/* ---- tokens --------------------------------------------------------------------------------- */

static enum err read_bos(struct profile_reader *reader, const struct meta_json *value)
{
    static const char *const words[] = {"add", "never", NULL};
    int index = 0;
    enum err err = profile_reader_word(reader, value, words, &index);
    if (err == ERR_OK) {
        reader->profile->bos = index == 0 ? BOS_ADD : BOS_NEVER;
    }
    return err;
}

static enum err read_mask(struct profile_reader *reader, const struct meta_json *value)
{
    return profile_reader_text(reader, value, PROFILE_TOKEN_BYTES, reader->profile->mask);
}

static enum err read_end(struct profile_reader *reader, const struct meta_json *value)
{
    struct profile *profile = reader->profile;
    enum err err =
        profile_reader_text(reader, value, PROFILE_TOKEN_BYTES, profile->ends[profile->end_count]);
    profile->end_count += err == ERR_OK;
    return err;
}

/* One name or a list of them. */
static enum err read_ends(struct profile_reader *reader, const struct meta_json *value)
{
    reader->profile->end_count = 0;
    if (meta_json_type(value) == META_JSON_STRING) {
        return read_end(reader, value);
    }
    return profile_reader_list(reader, value, LIMIT_END_TOKENS, read_end);
}

static enum err read_tokens(struct profile_reader *reader, const struct meta_json *value)
{
    static const struct profile_entry entries[] = {
        {"bos", read_bos},
        {"mask", read_mask},
        {"end", read_ends},
    };
    return profile_reader_object(reader, value, entries, ARRAY_COUNT(entries));
}

/* ---- classify ------------------------------------------------------------------------------- */

static struct profile_field *newest_field(struct profile_reader *reader)
{
    return &reader->profile->classify.fields[reader->profile->classify.field_count];
}

static enum err read_field_name(struct profile_reader *reader, const struct meta_json *value)
{
    return profile_reader_text(reader, value, PROFILE_NAME_BYTES, newest_field(reader)->name);
}

static enum err read_field_label(struct profile_reader *reader, const struct meta_json *value)
{
    return profile_reader_text(reader, value, PROFILE_TEXT_BYTES, newest_field(reader)->label);
}

static enum err read_field_value(struct profile_reader *reader, const struct meta_json *value)
{
    struct profile_field *field = newest_field(reader);
    const int32_t index = field->value_count;
    enum err err =
        profile_reader_text(reader, value, PROFILE_NAME_BYTES, field->values[index].text);
    for (int32_t i = 0; err == ERR_OK && i < index; i++) {
        if (strcmp(field->values[i].text, field->values[index].text) == 0) {
            return profile_reader_fail(reader, ERR_FORMAT, "stands twice in the list");
        }
    }
    if (err == ERR_OK) {
        memcpy(field->values[index].meaning, field->values[index].text, PROFILE_NAME_BYTES);
        field->value_count++;
    }
    return err;
}

static enum err read_field_values(struct profile_reader *reader, const struct meta_json *value)
{
    return profile_reader_list(reader, value, PROFILE_VALUES, read_field_value);
}

/* value -> its label in the reply, null = not applicable. Read after the values. */
static enum err read_field_map(struct profile_reader *reader, const struct meta_json *map)
{
    struct profile_field *field = newest_field(reader);
    enum err err = profile_reader_want(reader, map, META_JSON_OBJECT);
    void *cursor = NULL;
    const char *text;
    const struct meta_json *meaning;
    while (err == ERR_OK && meta_json_next(map, &cursor, &text, &meaning)) {
        const size_t length = profile_reader_push(reader, text);
        int32_t i = 0;
        while (i < field->value_count && strcmp(field->values[i].text, text) != 0) {
            i++;
        }
        if (i == field->value_count) {
            err = profile_reader_fail(reader, ERR_FORMAT, "is none of the field's values");
        } else if (meta_json_type(meaning) == META_JSON_NULL) {
            field->values[i].meaning[0] = '\0';
        } else {
            err =
                profile_reader_text(reader, meaning, PROFILE_NAME_BYTES, field->values[i].meaning);
        }
        if (err == ERR_OK) {
            reader->path[length] = '\0';
        }
    }
    return err;
}

static enum err read_nothing(struct profile_reader *reader, const struct meta_json *value)
{
    return ERR_OK;
}

static enum err read_field(struct profile_reader *reader, const struct meta_json *value)
{
    static const struct profile_entry entries[] = {
        {"name", read_field_name}, {"label", read_field_label}, {"values", read_field_values},
        {"map", read_nothing}, /* below: it needs the values, wherever they stand */
    };
    struct profile_field *field = newest_field(reader);
    memset(field, 0, sizeof(*field));
    enum err err = profile_reader_object(reader, value, entries, ARRAY_COUNT(entries));
    const struct meta_json *map = err == ERR_OK ? meta_json_get(value, "map") : NULL;
    if (map != NULL) {
        const size_t length = profile_reader_push(reader, "map");
        err = read_field_map(reader, map);
        if (err == ERR_OK) {
            reader->path[length] = '\0';
        }
    }
    if (err == ERR_OK &&
        (field->name[0] == '\0' || field->label[0] == '\0' || field->value_count < 2)) {
        return profile_reader_fail(
            reader, ERR_FORMAT, "needs a name, a label and at least two values");
    }
    reader->profile->classify.field_count += err == ERR_OK;
    return err;
}

static enum err read_fields(struct profile_reader *reader, const struct meta_json *value)
{
    return profile_reader_list(reader, value, PROFILE_FIELDS, read_field);
}

static enum err read_classify_name(struct profile_reader *reader, const struct meta_json *value)
{
    return profile_reader_text(reader, value, PROFILE_NAME_BYTES, reader->profile->classify.name);
}

static enum err read_template(struct profile_reader *reader, const struct meta_json *value)
{
    char *text = reader->profile->classify.template_text;
    enum err err = profile_reader_text(reader, value, PROFILE_TEMPLATE_BYTES, text);
    if (err == ERR_OK && !holds_once(text, "{prompt}")) {
        return profile_reader_fail(reader, ERR_FORMAT, "does not hold {prompt} exactly once");
    }
    return err;
}

/* The only rule so far: softmax over the candidates' first tokens (models.md, section 7). */
static enum err read_score(struct profile_reader *reader, const struct meta_json *value)
{
    static const char *const words[] = {"softmax", NULL};
    int index = 0;
    return profile_reader_word(reader, value, words, &index);
}

static enum err read_classify(struct profile_reader *reader, const struct meta_json *value)
{
    static const struct profile_entry entries[] = {
        {"name", read_classify_name},
        {"template", read_template},
        {"fields", read_fields},
        {"score", read_score},
    };
    struct profile_classify *classify = &reader->profile->classify;
    memset(classify, 0, sizeof(*classify));
    enum err err = profile_reader_object(reader, value, entries, ARRAY_COUNT(entries));
    if (err == ERR_OK && classify->name[0] == '\0') {
        return profile_reader_fail(reader, ERR_FORMAT, "needs a name");
    }
    if (err == ERR_OK && (classify->template_text[0] == '\0') != (classify->field_count == 0)) {
        return profile_reader_fail(
            reader, ERR_FORMAT, "needs both a template and fields, or neither");
    }
    classify->stated = err == ERR_OK;
    return err;
}

/* ---- adapters ------------------------------------------------------------------------------- */

static enum err read_adapter(struct profile_reader *reader, const struct meta_json *value)
{
    struct profile_adapters *adapters = reader->adapters;
    enum err err =
        profile_reader_text(reader, value, PROFILE_ADAPTER_BYTES, adapters->paths[adapters->count]);
    for (int32_t i = 0; err == ERR_OK && i < adapters->count; i++) {
        if (strcmp(adapters->paths[i], adapters->paths[adapters->count]) == 0) {
            return profile_reader_fail(reader, ERR_FORMAT, "stands twice in the list");
        }
    }
    adapters->count += err == ERR_OK;
    return err;
}

static enum err read_mode_adapters(
    struct profile_reader *reader, const char *mode, const struct meta_json *value)
{
    static const char *const words[KIND_COUNT] = {
#define X(name, word) word,
        KIND_MAP(X)
#undef X
    };
    int kind = 0;
    while (kind < KIND_COUNT && strcmp(words[kind], mode) != 0) {
        kind++;
    }
    if (kind == KIND_COUNT) {
        return profile_reader_fail(reader, ERR_FORMAT, "no such mode is known here");
    }
    reader->adapters = &reader->profile->adapters[kind];
    *reader->adapters = (struct profile_adapters){.stated = true};
    return profile_reader_list(reader, value, LIMIT_ADAPTERS, read_adapter);
}

static enum err read_adapters(struct profile_reader *reader, const struct meta_json *value)
{
    enum err err = profile_reader_want(reader, value, META_JSON_OBJECT);
    void *cursor = NULL;
    const char *mode;
    const struct meta_json *list;
    while (err == ERR_OK && meta_json_next(value, &cursor, &mode, &list)) {
        const size_t length = profile_reader_push(reader, mode);
        err = read_mode_adapters(reader, mode, list);
        if (err == ERR_OK) {
            reader->path[length] = '\0';
        }
    }
    return err;
}

/* ---- the whole ------------------------------------------------------------------------------ */

enum err profile_parse(const char *bytes, size_t count, const char *source, struct profile *profile,
    struct err_info *info)
{
    static const struct profile_entry entries[] = {
        {"modes", read_modes},
        {"attention", read_attention},
        {"pooling", read_pooling},
        {"pool_skip_instruction", read_pool_skip_instruction},
        {"token_offset", read_token_offset},
        {"dimensions", read_dimensions},
        {"head", read_head},
        {"prompts", read_prompts},
        {"default_prompt", read_default_prompt},
        {"instruction", read_instruction},
        {"infill", read_infill},
        {"tokens", read_tokens},
        {"classify", read_classify},
        {"adapters", read_adapters},
    };
    static const struct meta_json_limits limits = {.bytes = 1 << 20, .depth = 8, .values = 4096};
    struct profile_reader reader = {.profile = profile, .source = source, .info = info};
    struct meta_json *root = NULL;
    enum err err = meta_json_parse(bytes, count, &limits, source, &root, info);
    if (err != ERR_OK) {
        return err;
    }
    err = profile_reader_object(&reader, root, entries, ARRAY_COUNT(entries));
    if (err == ERR_OK) {
        err = check_default_prompt(&reader);
    }
    meta_json_free(root);
    return err;
}
