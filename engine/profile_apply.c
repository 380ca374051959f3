/*
 * What the engine makes of a profile. A profile can state more than is built: such a key is refused
 * here by name, in one list, so that a checkpoint is never run in another way than it says. A key
 * leaves the list when the code that carries it out arrives.
 */
#include "engine/profile_apply.h"

#include <stdio.h>
#include <string.h>
#include "engine/base/mem.h"
#include "engine/load/profile.h"

#define SAME_SIZE(field)                                                                           \
    _Static_assert(                                                                                \
        sizeof(((struct model_info *)0)->field) == sizeof(((struct profile *)0)->field),           \
        #field " is copied as it is")

SAME_SIZE(prompts);
SAME_SIZE(default_prompt);
SAME_SIZE(instruction);
SAME_SIZE(dimensions);

static enum err unsupported(struct err_info *info, const char *key, const char *what)
{
    return err_set(info, ERR_UNSUPPORTED, key, "the profile asks for %s, which is not built", what);
}

static enum err check_built(const struct profile *profile, struct err_info *info)
{
    const struct {
        bool asked;
        const char *key, *what;
    } rows[] = {
        {profile->gap_positions != GAP_INPLACE, "infill.gap_positions", "other gap positions"},
        {profile->fim.style != FIM_TOKENS, "infill.fim.style", "InCoder's form"},
        {profile->fim.order != FIM_PSM, "infill.fim.order", "the suffix first"},
        {profile->classify.template_text[0] != '\0', "classify.template", "a template of its own"},
        {strcmp(profile->classify.name, "wildguard") != 0, "classify.name", "an unknown template"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        if (rows[i].asked) {
            return unsupported(info, rows[i].key, rows[i].what);
        }
    }
    for (int32_t i = 0; i < profile->infill_mode_count; i++) {
        if (profile->infill_modes[i] == INFILL_GLM) {
            return unsupported(info, "infill.modes", "mode glm");
        }
    }
    return ERR_OK;
}

/* ---- tokens --------------------------------------------------------------------------------- */

static enum err find_token(const struct tokenizer *tokenizer, const char *key, const char *piece,
    int32_t *out_token, struct err_info *info)
{
    const int32_t token = tokenizer_find(tokenizer, piece, strlen(piece));
    if (token < 0) {
        return err_set(info, ERR_FORMAT, key, "the vocabulary has no token %s", piece);
    }
    *out_token = token;
    return ERR_OK;
}

/* A spelling the profile gives must be what the engine uses anyway. */
static enum err check_same(const struct tokenizer *tokenizer, const char *key, const char *piece,
    enum token_special which, struct err_info *info)
{
    int32_t token = 0;
    if (piece[0] == '\0') {
        return ERR_OK;
    }
    enum err err = find_token(tokenizer, key, piece, &token, info);
    if (err == ERR_OK && token != tokenizer_special(tokenizer, which)) {
        return unsupported(info, key, "another token than the vocabulary's own");
    }
    return err;
}

static bool is_end(const struct tokenizer *tokenizer, int32_t token)
{
    int32_t ends[LIMIT_END_TOKENS];
    const int32_t count = tokenizer_ends(tokenizer, ends);
    for (int32_t i = 0; i < count; i++) {
        if (ends[i] == token) {
            return true;
        }
    }
    return false;
}

/* Each named token ends a text anyway, and no other does. */
static enum err check_ends(
    const struct tokenizer *tokenizer, const struct profile *profile, struct err_info *info)
{
    int32_t ends[LIMIT_END_TOKENS];
    for (int32_t i = 0; i < profile->end_count; i++) {
        int32_t token = 0;
        enum err err = find_token(tokenizer, "tokens.end", profile->ends[i], &token, info);
        if (err != ERR_OK) {
            return err;
        }
        if (!is_end(tokenizer, token)) {
            return unsupported(info, "tokens.end", "an end token of its own");
        }
    }
    if (profile->end_count > 0 && tokenizer_ends(tokenizer, ends) != profile->end_count) {
        return unsupported(info, "tokens.end", "fewer end tokens than the vocabulary has");
    }
    return ERR_OK;
}

static enum err check_span_end(
    const struct tokenizer *tokenizer, const char *piece, struct err_info *info)
{
    int32_t token = 0;
    if (piece[0] == '\0') {
        return ERR_OK;
    }
    enum err err = find_token(tokenizer, "infill.span_end", piece, &token, info);
    if (err == ERR_OK && !is_end(tokenizer, token)) {
        return unsupported(info, "infill.span_end", "an end of spans that is no end of texts");
    }
    return err;
}

static enum err check_tokens(
    const struct tokenizer *tokenizer, const struct profile *profile, struct err_info *info)
{
    const struct {
        const char *key, *piece;
        enum token_special which;
    } rows[] = {
        {"infill.fim.prefix", profile->fim.prefix, TOKEN_FIM_PRE},
        {"infill.fim.suffix", profile->fim.suffix, TOKEN_FIM_SUF},
        {"infill.fim.middle", profile->fim.middle, TOKEN_FIM_MID},
    };
    enum err err = ERR_OK;
    int32_t token = 0;
    for (size_t i = 0; err == ERR_OK && i < ARRAY_COUNT(rows); i++) {
        err = check_same(tokenizer, rows[i].key, rows[i].piece, rows[i].which, info);
    }
    if (err == ERR_OK && profile->mask[0] != '\0') {
        err = find_token(tokenizer, "tokens.mask", profile->mask, &token, info);
    }
    if (err == ERR_OK && profile->fim.end[0] != '\0') {
        err = find_token(tokenizer, "infill.fim.end", profile->fim.end, &token, info);
        if (err == ERR_OK && !is_end(tokenizer, token)) {
            err = unsupported(info, "infill.fim.end", "an end token of its own");
        }
    }
    if (err == ERR_OK && profile->bos != BOS_OF_FILE &&
        (profile->bos == BOS_ADD) != tokenizer_adds_bos(tokenizer)) {
        err = unsupported(info, "tokens.bos", "the opposite of what the vocabulary says");
    }
    if (err == ERR_OK) {
        err = check_ends(tokenizer, profile, info);
    }
    return err == ERR_OK ? check_span_end(tokenizer, profile->span_end, info) : err;
}

/* ---- model_info ----------------------------------------------------------------------------- */

/* Codestral's layout, told by its spelling, ends with the prefix and has no middle token. */
static bool has_fim(const struct tokenizer *tokenizer)
{
    int32_t suffix = tokenizer_special(tokenizer, TOKEN_FIM_SUF);
    if (suffix < 0 || tokenizer_special(tokenizer, TOKEN_FIM_PRE) < 0) {
        return false;
    }
    return tokenizer_special(tokenizer, TOKEN_FIM_MID) >= 0 ||
           strcmp(tokenizer_stored_piece(tokenizer, suffix), "[SUFFIX]") == 0;
}

static bool infills(
    const struct profile *profile, const struct tokenizer *tokenizer, enum infill_mode mode)
{
    switch (mode) {
    case INFILL_HYBRID:
        return true;
    case INFILL_FIM:
        return has_fim(tokenizer);
    case INFILL_RERANK: /* a text is continued and scored from its left alone */
        return profile->prompt_attention == ATTENTION_CAUSAL;
    case INFILL_GLM:
    case INFILL_MODE_COUNT:
        break;
    }
    return false;
}

/* A listed mode that this vocabulary or mask does not allow is passed over. */
static void fill_infill(
    const struct profile *profile, const struct tokenizer *tokenizer, struct model_info *model)
{
    model->infill_mode_count = 0;
    for (int32_t i = 0; profile->modes[KIND_INFILL] && i < profile->infill_mode_count; i++) {
        if (infills(profile, tokenizer, profile->infill_modes[i])) {
            model->infill_modes[model->infill_mode_count++] = profile->infill_modes[i];
        }
    }
}

/* Without a head there are vectors only, of rows that see each other unless the profile says
 * otherwise. */
static enum err fit_to_network(
    const struct model_info *model, struct profile *profile, struct err_info *info)
{
    if (!model->embeds_only) {
        return ERR_OK;
    }
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        if (kind != KIND_EMBED && profile->modes_stated && profile->modes[kind]) {
            return err_set(
                info, ERR_FORMAT, "modes", "the network has no head: it can embed, nothing else");
        }
        profile->modes[kind] = kind == KIND_EMBED;
    }
    if (!profile->embed_attention_stated) {
        profile->embed_attention = ATTENTION_BIDIRECTIONAL;
    }
    return ERR_OK;
}

static enum err fill(const struct profile *profile, const struct tokenizer *tokenizer,
    struct model_info *out_model, struct err_info *info)
{
    struct model_info filled = *out_model;
    struct model_info *model = &filled;
    for (int32_t i = 0; i < profile->dimension_count; i++) {
        if (profile->dimensions[i] > model->vector) {
            return err_set(info, ERR_FORMAT, "dimensions", "%d, but vectors have %d numbers",
                profile->dimensions[i], model->vector);
        }
    }
    fill_infill(profile, tokenizer, model);
    if (profile->modes[KIND_INFILL] && model->infill_mode_count == 0) {
        return err_set(info, ERR_FORMAT, "infill.modes", "none of them is possible here");
    }
    model->can_generate = profile->modes[KIND_GENERATE];
    model->can_embed = profile->modes[KIND_EMBED];
    model->can_infill = profile->modes[KIND_INFILL];
    model->can_classify = profile->modes[KIND_CLASSIFY];
    model->embed_attention = profile->embed_attention;
    model->prompt_attention = profile->prompt_attention;
    model->embed_pooling = profile->pooling;
    model->pool_skip_instruction = profile->pool_skip_instruction;
    model->calibrated = profile->classify.stated;
    snprintf(
        model->moderation_profile, sizeof(model->moderation_profile), "%s", profile->classify.name);
    memcpy(model->prompts, profile->prompts, sizeof(model->prompts));
    model->prompt_count = profile->prompt_count;
    memcpy(model->default_prompt, profile->default_prompt, sizeof(model->default_prompt));
    memcpy(model->instruction, profile->instruction, sizeof(model->instruction));
    memcpy(model->dimensions, profile->dimensions, sizeof(model->dimensions));
    model->dimension_count = profile->dimension_count;
    model->token_offset = profile->token_offset;
    model->vector_norm = profile->vector_norm;
    *out_model = filled;
    return ERR_OK;
}

enum err profile_apply(const char *model_path, const char *profile_path, const struct gguf *gguf,
    const struct tokenizer *tokenizer, struct model_info *model, struct err_info *info)
{
    struct profile *profile = mem_alloc(MEM_OTHER, sizeof(*profile));
    if (profile == NULL) {
        return err_set(info, ERR_NO_MEMORY, "profile", "no memory to read it");
    }
    enum err err = profile_read(model_path, profile_path, gguf, profile, info);
    if (err == ERR_OK) {
        err = check_built(profile, info);
    }
    if (err == ERR_OK) {
        err = fit_to_network(model, profile, info);
    }
    if (err == ERR_OK) {
        err = check_tokens(tokenizer, profile, info);
    }
    if (err == ERR_OK) {
        err = fill(profile, tokenizer, model, info);
    }
    mem_free(profile);
    return err;
}
