/*
 * See checkpoint_chat.h. A file of several templates means one for chats, which is called
 * "default", and others for tools and documents, which are not used.
 */
#include "engine/checkpoint_chat.h"

#include <string.h>
#include <unistd.h>
#include "engine/base/arena.h"
#include "engine/base/mem.h"
#include "engine/load/checkpoint.h"
#include "engine/load/file.h"
#include "engine/load/meta_json.h"

/* The text of a token, as templates spell it; NULL when the vocabulary has none. */
static enum err token_words(const struct tokenizer *tokenizer, enum token_special which,
    struct arena *arena, const char **out_words, struct err_info *info)
{
    int32_t id = tokenizer_special(tokenizer, which);
    size_t bytes;
    if (id < 0) {
        *out_words = NULL;
        return ERR_OK;
    }
    const char *piece = tokenizer_piece(tokenizer, id, true, &bytes);
    *out_words = arena_copy(arena, piece, bytes);
    return *out_words != NULL ? ERR_OK
                              : err_set(info, ERR_NO_MEMORY, NULL, "no memory for a chat template");
}

static enum err open_source(const char *source, size_t bytes, const struct tokenizer *tokenizer,
    struct chat_template **out_template, struct err_info *info)
{
    struct arena arena;
    struct chat_tokens tokens = {0};
    arena_init(&arena, MEM_OTHER, 256, (size_t)1 << 20);
    enum err err = token_words(tokenizer, TOKEN_BOS, &arena, &tokens.bos, info);
    if (err == ERR_OK) {
        err = token_words(tokenizer, TOKEN_EOS, &arena, &tokens.eos, info);
    }
    if (err == ERR_OK) {
        err = token_words(tokenizer, TOKEN_UNK, &arena, &tokens.unk, info);
    }
    if (err == ERR_OK) {
        err = token_words(tokenizer, TOKEN_PAD, &arena, &tokens.pad, info);
    }
    if (err == ERR_OK) {
        err = chat_template_open(source, bytes, &tokens, out_template, info);
    }
    arena_drop(&arena);
    return err;
}

/* ---- folders ------------------------------------------------------------------------------- */

/* The member chat_template: a text, or a list of {name, template}. */
static const struct meta_json *find_template(const struct meta_json *root)
{
    const struct meta_json *found =
        meta_json_type(root) == META_JSON_OBJECT ? meta_json_get(root, "chat_template") : NULL;
    if (found == NULL || meta_json_type(found) == META_JSON_STRING) {
        return found;
    }
    size_t count = meta_json_type(found) == META_JSON_ARRAY ? meta_json_count(found) : 0;
    for (size_t i = 0; i < count; i++) {
        const struct meta_json *item = meta_json_at(found, i);
        bool object = meta_json_type(item) == META_JSON_OBJECT;
        const struct meta_json *name = object ? meta_json_get(item, "name") : NULL;
        const struct meta_json *text = object ? meta_json_get(item, "template") : NULL;
        if (name != NULL && meta_json_type(name) == META_JSON_STRING && text != NULL &&
            meta_json_type(text) == META_JSON_STRING &&
            strcmp(meta_json_string(name), "default") == 0) {
            return text;
        }
    }
    return NULL;
}

static enum err open_json(const char *name, const char *bytes, size_t count,
    const struct tokenizer *tokenizer, struct chat_template **out_template, struct err_info *info)
{
    static const struct meta_json_limits limits = {
        .bytes = LIMIT_TOKENIZER_BYTES, .depth = 16, .values = LIMIT_TOKENIZER_VALUES};
    struct meta_json *root = NULL;
    enum err err = meta_json_parse(bytes, count, &limits, name, &root, info);
    const struct meta_json *source = err == ERR_OK ? find_template(root) : NULL;
    if (source != NULL) {
        err = open_source(
            meta_json_string(source), meta_json_count(source), tokenizer, out_template, info);
    }
    meta_json_free(root);
    return err;
}

/* The first of the files that is there and has a template, as transformers looks for them. */
static enum err open_folder(int folder, const struct tokenizer *tokenizer,
    struct chat_template **out_template, struct err_info *info)
{
    static const char *const names[] = {
        "chat_template.jinja", "chat_template.json", "tokenizer_config.json"};
    enum err err = ERR_OK;
    for (size_t i = 0; i < ARRAY_COUNT(names) && err == ERR_OK && *out_template == NULL; i++) {
        char *bytes = NULL;
        size_t count = 0;
        if (!file_exists(folder, names[i])) {
            continue;
        }
        err = file_load_in(folder, names[i], LIMIT_TOKENIZER_BYTES, &bytes, &count, info);
        if (err == ERR_OK) {
            err = i == 0 ? open_source(bytes, count, tokenizer, out_template, info)
                         : open_json(names[i], bytes, count, tokenizer, out_template, info);
        }
        mem_free(bytes);
    }
    return err;
}

enum err checkpoint_chat_open(const char *path, const struct gguf *gguf,
    const struct tokenizer *tokenizer, struct chat_template **out_template, struct err_info *info)
{
    struct chat_template *template = NULL;
    struct gguf_string source = {NULL, 0};
    int folder = -1;
    enum err err = ERR_OK;
    if (!gguf_is_folder(gguf)) {
        err = gguf_get_string(gguf, "tokenizer.chat_template", false, &source, info);
        if (err == ERR_OK && source.bytes != NULL) {
            err = open_source(source.bytes, source.count, tokenizer, &template, info);
        }
    } else if (file_folder(path, &folder)) {
        err = open_folder(folder, tokenizer, &template, info);
        close(folder);
    } else {
        err = err_set(info, ERR_IO, "tokenizer_config.json", "its folder is no longer there");
    }
    if (err == ERR_OK) {
        *out_template = template;
    }
    return err;
}
