/*
 * The checkpoint profile: what no weight format says about a checkpoint and every endpoint needs to
 * know (docs/add-a-model.md). JSON beside the weights (NAME.profile.json for NAME.gguf) or in the
 * GGUF string key magnetd.profile; the file wins; without either, defaults from the file's own
 * metadata. Unknown keys are errors naming file and key.
 *
 * This only reads and checks a profile by itself. What the loaded vocabulary and the engine make
 * of it is engine/profile_apply.c.
 */
#ifndef ENGINE_LOAD_PROFILE_H
#define ENGINE_LOAD_PROFILE_H

#include "engine/base/err.h"
#include "engine/engine_limits.h"
#include "engine/load/gguf.h"
#include "engine/types.h"

enum {
    PROFILE_NAME_BYTES = 32,        /* names of prompts, fields and of the template */
    PROFILE_TOKEN_BYTES = 64,       /* spelling of a token */
    PROFILE_TEXT_BYTES = 512,       /* a prompt */
    PROFILE_TEMPLATE_BYTES = 16384, /* WildGuard's has 700, Qwen3Guard's 3,000 */
    PROFILE_DIMENSIONS = 16,
    PROFILE_FIELDS = 16,
    PROFILE_VALUES = 16,         /* of a field */
    PROFILE_ADAPTER_BYTES = 256, /* path of an adapter */
};

enum profile_source { PROFILE_NONE, PROFILE_KEY, PROFILE_FILE };

enum gap_positions { GAP_INPLACE, GAP_COLLAPSED, GAP_GLM2D };
enum fim_style { FIM_TOKENS, FIM_INCODER };
enum fim_order { FIM_PSM, FIM_SPM };
enum profile_bos { BOS_OF_FILE, BOS_ADD, BOS_NEVER };

/* Spellings; "" = the vocabulary's own. */
struct profile_fim {
    enum fim_style style;
    enum fim_order order;
    char prefix[PROFILE_TOKEN_BYTES], suffix[PROFILE_TOKEN_BYTES], middle[PROFILE_TOKEN_BYTES];
    char end[PROFILE_TOKEN_BYTES];
};

/* One forced line of a classifier's answer: label text, then one of the values. */
struct profile_field {
    char name[PROFILE_NAME_BYTES];  /* of the reply's field */
    char label[PROFILE_TEXT_BYTES]; /* forced before the value */
    struct {
        char text[PROFILE_NAME_BYTES];    /* candidate the model may write */
        char meaning[PROFILE_NAME_BYTES]; /* label in the reply; "" = not applicable */
    } values[PROFILE_VALUES];
    int32_t value_count;
};

struct profile_classify {
    bool stated;                   /* the profile has this part: probabilities are calibrated */
    char name[PROFILE_NAME_BYTES]; /* "wildguard" alone means the built-in template */
    char template_text[PROFILE_TEMPLATE_BYTES]; /* "" = the built-in one of that name */
    struct profile_field fields[PROFILE_FIELDS];
    int32_t field_count;
};

/* What lies on the weights for one mode: files or folders, from the profile's folder on. */
struct profile_adapters {
    bool stated; /* the profile has a word for this mode, be it none */
    char paths[LIMIT_ADAPTERS][PROFILE_ADAPTER_BYTES];
    int32_t count;
};

struct profile {
    enum profile_source source;
    bool modes[KIND_COUNT]; /* endpoints the checkpoint is for */
    enum attention embed_attention, prompt_attention;
    bool modes_stated, embed_attention_stated; /* or else what holds for any network */
    enum pooling pooling;
    bool pool_skip_instruction;
    int32_t token_offset;                   /* vector of token l is row l + offset: 0 or -1 */
    int32_t dimensions[PROFILE_DIMENSIONS]; /* sizes the checkpoint was trained for */
    int32_t dimension_count;
    bool vector_norm; /* head: a layer norm between pooling and cutting */
    struct {
        char name[PROFILE_NAME_BYTES];
        char text[PROFILE_TEXT_BYTES]; /* holds {text} once or twice */
    } prompts[LIMIT_PROMPTS];
    int32_t prompt_count;
    char default_prompt[PROFILE_NAME_BYTES]; /* one of them; "" = none */
    /* Form of a client's instruction: {instruction} once, {text} once or twice. "" = none. */
    char instruction[PROFILE_TEXT_BYTES];

    enum infill_mode infill_modes[INFILL_MODE_COUNT]; /* in order of preference */
    int32_t infill_mode_count;
    bool infill_modes_stated;
    enum gap_positions gap_positions;
    char span_end[PROFILE_TOKEN_BYTES]; /* learned end of a span; "" = none */
    struct profile_fim fim;

    enum profile_bos bos;
    char mask[PROFILE_TOKEN_BYTES]; /* "" = the vocabulary's own */
    char ends[LIMIT_END_TOKENS][PROFILE_TOKEN_BYTES];
    int32_t end_count; /* 0 = the vocabulary's own */

    struct profile_classify classify;
    struct profile_adapters adapters[KIND_COUNT];
};

/* Where the profile's text is: profile_path, else NAME.profile.json beside model_path if it exists,
 * else the GGUF key, else nowhere (defaults). Errors: ERR_FORMAT, ERR_LIMIT and ERR_UNSUPPORTED
 * with where = "FILE: key.path" (the file's name without its folder), ERR_IO. *out is large: not
 * for the stack. */
MUST_USE enum err profile_read(const char *model_path, const char *profile_path,
    const struct gguf *gguf, struct profile *out, struct err_info *info);
/* What holds without a profile: all modes, and the mask and pooling the file's metadata states. */
MUST_USE enum err profile_defaults(
    const struct gguf *gguf, struct profile *out, struct err_info *info);
/* Overwrites what the JSON text states; `source` names the text in errors. */
MUST_USE enum err profile_parse(const char *bytes, size_t count, const char *source,
    struct profile *profile, struct err_info *info);

#endif
