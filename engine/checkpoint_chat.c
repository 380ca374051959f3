/*
 * See checkpoint_chat.h. A file of several templates means one for chats, which is called
 * "default", and others for tools and documents, which are not used.
 */
#include "engine/checkpoint_chat.h"

#include <stdio.h>
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

/* A text of an object; NULL when it is absent or no text. */
static const struct meta_json *find_text(const struct meta_json *object, const char *key)
{
    const bool is_object = meta_json_type(object) == META_JSON_OBJECT;
    const struct meta_json *text = is_object ? meta_json_get(object, key) : NULL;
    return text != NULL && meta_json_type(text) == META_JSON_STRING ? text : NULL;
}

/* The member chat_template: a text, or a list of {name, template}. *out is NULL when there is none
 * for chats. False: it is something else. */
static bool find_template(const struct meta_json *root, const struct meta_json **out)
{
    const struct meta_json *found = meta_json_get(root, "chat_template");
    *out = NULL;
    if (found == NULL || meta_json_type(found) == META_JSON_NULL) {
        return true;
    }
    if (meta_json_type(found) == META_JSON_STRING) {
        *out = found;
        return true;
    }
    const bool is_list = meta_json_type(found) == META_JSON_ARRAY;
    for (size_t i = 0; is_list && i < meta_json_count(found); i++) {
        const struct meta_json *name = find_text(meta_json_at(found, i), "name");
        const struct meta_json *text = find_text(meta_json_at(found, i), "template");
        if (name == NULL || text == NULL) {
            return false;
        }
        if (strcmp(meta_json_string(name), "default") == 0) {
            *out = text;
        }
    }
    return is_list;
}

static enum err open_json(const char *name, const char *bytes, size_t count,
    const struct tokenizer *tokenizer, struct chat_template **out_template, struct err_info *info)
{
    static const struct meta_json_limits limits = {
        .bytes = LIMIT_TOKENIZER_BYTES, .depth = 16, .values = LIMIT_TOKENIZER_VALUES};
    struct meta_json *root = NULL;
    const struct meta_json *source = NULL;
    enum err err = meta_json_parse(bytes, count, &limits, name, &root, info);
    if (err == ERR_OK && meta_json_type(root) != META_JSON_OBJECT) {
        err = err_set(info, ERR_FORMAT, name, "the text is no object");
    } else if (err == ERR_OK && !find_template(root, &source)) {
        char where[64];
        (void)snprintf(where, sizeof(where), "%s: chat_template", name);
        err = err_set(info, ERR_FORMAT, where, "is neither a text nor a list of {name, template}");
    }
    if (err == ERR_OK && source != NULL) {
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
