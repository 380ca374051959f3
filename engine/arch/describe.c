/* Keys to sizes; engine/arch/describe.h. */
#include "engine/arch/describe.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { KEY_BYTES = 96 }; /* of a network's name and the longest of our keys */

static const char *key_of(const struct model *model, const char *name, char *out)
{
    (void)snprintf(out, KEY_BYTES, "%s.%s", model->network->name, name);
    return out;
}

/* A whole number of 1..max. */
static enum err get_size(const struct model *model, const struct gguf *gguf, const char *name,
    bool required, int32_t max, int32_t *out, struct err_info *info)
{
    char key[KEY_BYTES];
    int64_t value = *out;
    enum err err = gguf_get_i64(gguf, key_of(model, name, key), required, 1, max, &value, info);
    if (err == ERR_OK) {
        *out = (int32_t)value;
    }
    return err;
}

enum err describe_real(const struct model *model, const struct gguf *gguf, const char *name,
    bool required, double min, double max, double *out, struct err_info *info)
{
    char key[KEY_BYTES];
    double value = *out;
    enum err err = gguf_get_f64(gguf, key_of(model, name, key), required, &value, info);
    if (err != ERR_OK) {
        return err;
    }
    if (!(value > min && value <= max)) {
        return err_set(info, ERR_FORMAT, key, "must be above %g and at most %g", min, max);
    }
    *out = value;
    return ERR_OK;
}

/* ---- sizes --------------------------------------------------------------------------------- */

static enum err get_sizes(struct model *model, const struct gguf *gguf, struct err_info *info)
{
    struct model_info *sizes = &model->info;
    const struct {
        const char *name;
        int32_t *out;
        int32_t max;
    } required[] = {
        {"block_count", &sizes->layers, LIMIT_LAYERS},
        {"embedding_length", &sizes->hidden, LIMIT_HIDDEN},
        {"feed_forward_length", &sizes->ffn, LIMIT_FFN},
        {"context_length", &sizes->context_trained, LIMIT_CONTEXT},
        {"attention.head_count", &sizes->heads, LIMIT_HEADS},
    };
    for (size_t i = 0; i < ARRAY_COUNT(required); i++) {
        enum err err =
            get_size(model, gguf, required[i].name, true, required[i].max, required[i].out, info);
        if (err != ERR_OK) {
            return err;
        }
    }
    const char *name = "attention.head_count_kv";
    sizes->heads_kv = sizes->heads;
    enum err err = get_size(model, gguf, name, false, sizes->heads, &sizes->heads_kv, info);
    if (err == ERR_OK && sizes->heads % sizes->heads_kv != 0) {
        char key[KEY_BYTES];
        err = err_set(info, ERR_FORMAT, key_of(model, name, key),
            "%d does not divide the %d query heads", sizes->heads_kv, sizes->heads);
    }
    return err;
}

/* Without a key_length, the width is shared out among the heads. */
static enum err share_width(struct model *model, struct err_info *info)
{
    struct model_info *sizes = &model->info;
    char key[KEY_BYTES];
    key_of(model, "attention.head_count", key);
    if (sizes->hidden % sizes->heads != 0) {
        return err_set(info, ERR_FORMAT, key,
            "%d heads do not divide the width %d and no key_length is given", sizes->heads,
            sizes->hidden);
    }
    if (sizes->hidden / sizes->heads > LIMIT_HEAD_DIM) {
        return err_set(info, ERR_FORMAT, key, "heads of %d numbers, at most %d are possible",
            sizes->hidden / sizes->heads, LIMIT_HEAD_DIM);
    }
    sizes->head_dim = sizes->hidden / sizes->heads;
    return ERR_OK;
}

static enum err get_heads(struct model *model, const struct gguf *gguf, struct err_info *info)
{
    struct model_info *sizes = &model->info;
    char key[KEY_BYTES];
    enum err err = ERR_OK;
    if (gguf_has(gguf, key_of(model, "attention.key_length", key))) {
        err = get_size(
            model, gguf, "attention.key_length", true, LIMIT_HEAD_DIM, &sizes->head_dim, info);
    } else {
        err = share_width(model, info);
    }
    if (err != ERR_OK) {
        return err;
    }
    const char *name = "attention.value_length";
    int32_t value_length = sizes->head_dim;
    err = get_size(model, gguf, name, false, LIMIT_HEAD_DIM, &value_length, info);
    if (err != ERR_OK) {
        return err;
    }
    if (value_length != sizes->head_dim) {
        return err_set(info, ERR_UNSUPPORTED, key_of(model, name, key),
            "%d, but keys have %d numbers", value_length, sizes->head_dim);
    }
    double scale = 1 / sqrt((double)sizes->head_dim);
    err = describe_real(model, gguf, "attention.scale", false, 1e-6, 1e3, &scale, info);
    model->hyper.attention_scale = (float)scale;
    return err;
}

/* The embedding says how many tokens there are; whoever else says so must agree. */
static enum err get_vocab(struct model *model, const struct gguf *gguf, struct err_info *info)
{
    struct model_info *sizes = &model->info;
    const struct gguf_tensor *embedding = gguf_find_tensor(gguf, "token_embd.weight");
    if (embedding == NULL || embedding->dims != 2) {
        return err_set(info, ERR_FORMAT, "token_embd.weight", "the matrix is missing");
    }
    int64_t rows = embedding->shape[1];
    if (rows < 1 || rows > LIMIT_VOCAB) {
        return err_set(
            info, ERR_FORMAT, "token_embd.weight", "must have 1 to %d rows", LIMIT_VOCAB);
    }
    sizes->vocab = (int32_t)rows;
    int32_t stated = sizes->vocab;
    enum err err = get_size(model, gguf, "vocab_size", false, LIMIT_VOCAB, &stated, info);
    if (err != ERR_OK) {
        return err;
    }
    if (stated != sizes->vocab) {
        char key[KEY_BYTES];
        return err_set(info, ERR_FORMAT, key_of(model, "vocab_size", key),
            "%d, but token_embd.weight has %d rows", stated, sizes->vocab);
    }
    const char *tokens_key = "tokenizer.ggml.tokens";
    struct gguf_array tokens = {.count = (size_t)rows};
    err = gguf_get_array(gguf, tokens_key, false, GGUF_STRING, &tokens, info);
    if (err == ERR_OK && tokens.count != (size_t)rows) {
        err = err_set(info, ERR_FORMAT, tokens_key, "%zu tokens, but token_embd.weight has %d rows",
            tokens.count, sizes->vocab);
    }
    return err;
}

enum err describe_sizes(
    struct model *model, const struct gguf *gguf, const char *eps_key, struct err_info *info)
{
    enum err err = get_sizes(model, gguf, info);
    if (err == ERR_OK) {
        err = get_heads(model, gguf, info);
    }
    double eps = 0;
    if (err == ERR_OK) {
        err = describe_real(model, gguf, eps_key, true, 1e-15, 1, &eps, info);
    }
    model->hyper.norm_eps = (float)eps;
    return err == ERR_OK ? get_vocab(model, gguf, info) : err;
}

/* ---- positions ----------------------------------------------------------------------------- */

static bool is_word(const struct gguf_string *string, const char *word)
{
    return string->count == strlen(word) && memcmp(string->bytes, word, string->count) == 0;
}

/* "linear" divides positions by a factor; a factor without a type means linear, as in the tools
 * that write such files. */
static enum err get_scaling(
    const struct model *model, const struct gguf *gguf, double *out, struct err_info *info)
{
    char key[KEY_BYTES];
    struct gguf_string type = {.bytes = "linear", .count = strlen("linear")};
    enum err err =
        gguf_get_string(gguf, key_of(model, "rope.scaling.type", key), false, &type, info);
    if (err != ERR_OK) {
        return err;
    }
    bool linear = is_word(&type, "linear");
    if (!linear && !is_word(&type, "none")) {
        return err_set(
            info, ERR_UNSUPPORTED, key, "only the scalings \"none\" and \"linear\" are built");
    }
    double factor = 1;
    const char *const names[] = {"rope.scale_linear", "rope.scaling.factor"};
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) { /* the newer name wins */
        err = describe_real(model, gguf, names[i], false, 1e-3, 1e6, &factor, info);
        if (err != ERR_OK) {
            return err;
        }
    }
    *out = linear ? factor : 1;
    return ERR_OK;
}

/* The key that says how many numbers of a head rotate. */
static const char *rotary_source(
    const struct model *model, const struct gguf *gguf, char key[KEY_BYTES])
{
    static const char *const names[] = {"rope.dimension_count", "attention.key_length"};
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        if (gguf_has(gguf, key_of(model, names[i], key))) {
            return key;
        }
    }
    return key_of(model, "attention.head_count", key); /* a head's share of the width */
}

enum err describe_rope(struct model *model, const struct gguf *gguf, enum rope_style style,
    double base_default, struct err_info *info)
{
    struct hyper *hyper = &model->hyper;
    struct rope_shape rope = {.base = base_default, .factor = 1};
    int32_t dims = model->info.head_dim;
    const char *name = "rope.dimension_count";
    enum err err = get_size(model, gguf, name, false, dims, &dims, info);
    if (err != ERR_OK) {
        return err;
    }
    if (dims % 2 != 0) {
        char key[KEY_BYTES];
        return err_set(info, ERR_FORMAT, rotary_source(model, gguf, key),
            "an odd number, %d, of numbers cannot rotate", dims);
    }
    err = describe_real(model, gguf, "rope.freq_base", false, 1, 1e12, &rope.base, info);
    if (err == ERR_OK) {
        err = get_scaling(model, gguf, &rope.factor, info);
    }
    if (err != ERR_OK) {
        return err;
    }
    hyper->rope_style = style;
    hyper->rotary_dim = dims;
    hyper->ropes[0] = rope;
    hyper->rope_count = 1;
    return ERR_OK;
}

enum err describe_window(
    struct model *model, const struct gguf *gguf, bool required, struct err_info *info)
{
    char key[KEY_BYTES];
    int64_t window = 0;
    enum err err = gguf_get_i64(gguf, key_of(model, "attention.sliding_window", key), required,
        required ? 1 : 0, LIMIT_CONTEXT, &window, info);
    model->hyper.window = (int32_t)window;
    return err;
}

/* Of n heads, n a power of two, head h has slope 2^(-b (h + 1) / n). Others take those of the next
 * lower power, and then every second of the next higher one. */
enum err describe_alibi(
    struct model *model, const struct gguf *gguf, double bias_default, struct err_info *info)
{
    double bias = bias_default;
    enum err err =
        describe_real(model, gguf, "attention.max_alibi_bias", false, 0, 1e3, &bias, info);
    int32_t heads = model->info.heads, power = 1;
    while (power <= heads / 2) {
        power *= 2;
    }
    for (int32_t h = 0; h < heads; h++) {
        double step = h < power ? h + 1 : h - power + 0.5;
        model->hyper.alibi_slopes[h] = (float)exp2(-bias * step / power);
    }
    return err;
}
