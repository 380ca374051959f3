/*
 * See chat_template.h. Whether a template handles parts is asked of the template itself, once, when
 * it is opened: it renders one text both ways.
 */
#include "engine/template/chat_template.h"

#include <string.h>
#include "engine/base/mem.h"
#include "engine/engine_limits.h"

struct chat_template {
    struct template *template; /* NULL: refused */
    char *source;
    char *words[4]; /* of struct chat_tokens, or NULL */
    char refusal[ERR_TEXT_BYTES];
    bool takes_parts;     /* content may be a list of parts */
    bool needs_parts;     /* and must be one */
    bool knows_developer; /* the role */
};

static const char *const role_words[] = {
#define X(name, word) word,
    CHAT_ROLE_MAP(X)
#undef X
};

/* ---- values -------------------------------------------------------------------------------- */

static bool add_part(struct arena *arena, struct list *list, const struct chat_text *text)
{
    struct map *part = map_new(arena);
    struct value value;
    return part != NULL && value_foreign(arena, text->bytes, text->count, &value) &&
           map_set(arena, part, value_words("type"), value_words("text")) &&
           map_set(arena, part, value_words("text"), value) &&
           list_add(arena, list, value_map(part));
}

static bool parts_value(
    struct arena *arena, const struct chat_message *message, struct value *out_value)
{
    struct list *list = list_new(arena, LIST_PLAIN);
    bool good = list != NULL;
    for (int32_t i = 0; good && i < message->text_count; i++) {
        good = add_part(arena, list, &message->texts[i]);
    }
    *out_value = value_list(list);
    return good;
}

/* The texts, joined by line breaks. */
static bool text_value(
    struct arena *arena, const struct chat_message *message, struct value *out_value)
{
    size_t count = 0;
    if (message->text_count == 1) {
        return value_foreign(arena, message->texts[0].bytes, message->texts[0].count, out_value);
    }
    for (int32_t i = 0; i < message->text_count; i++) {
        count += message->texts[i].count + (i > 0);
    }
    char *joined = arena_alloc(arena, count + 1);
    if (joined == NULL) {
        return false;
    }
    size_t used = 0;
    for (int32_t i = 0; i < message->text_count; i++) {
        const struct chat_text *text = &message->texts[i];
        if (i > 0) {
            joined[used++] = '\n';
        }
        if (text->count > 0) {
            memcpy(joined + used, text->bytes, text->count);
        }
        used += text->count;
    }
    return value_foreign(arena, joined, count, out_value);
}

static bool message_value(struct arena *arena, const struct chat_template *template,
    const struct chat_message *message, struct value *out_value)
{
    bool parts = template->needs_parts || (message->parted && template->takes_parts);
    bool developer = message->role == CHAT_DEVELOPER && !template->knows_developer;
    enum chat_role role = developer ? CHAT_SYSTEM : message->role;
    struct map *map = map_new(arena);
    struct value content = value_none();
    bool good =
        map != NULL &&
        (parts ? parts_value(arena, message, &content) : text_value(arena, message, &content)) &&
        map_set(arena, map, value_words("role"), value_words(role_words[role])) &&
        map_set(arena, map, value_words("content"), content);
    *out_value = value_map(map);
    return good;
}

static bool chat_values(struct arena *arena, const struct chat_template *template,
    const struct chat *chat, struct map **out_values)
{
    static const char *const names[] = {"bos_token", "eos_token", "unk_token", "pad_token"};
    struct map *values = map_new(arena);
    struct list *messages = list_new(arena, LIST_PLAIN);
    bool good = values != NULL && messages != NULL;
    for (int32_t i = 0; good && i < chat->count; i++) {
        struct value message;
        good = message_value(arena, template, &chat->messages[i], &message) &&
               list_add(arena, messages, message);
    }
    /* transformers sets tools and documents to none where there are none. */
    good = good && map_set(arena, values, value_words("messages"), value_list(messages)) &&
           map_set(arena, values, value_words("tools"), value_none()) &&
           map_set(arena, values, value_words("documents"), value_none()) &&
           map_set(arena, values, value_words("add_generation_prompt"),
               value_bool(chat->add_generation_prompt));
    for (size_t i = 0; good && i < ARRAY_COUNT(names); i++) {
        good = template->words[i] == NULL ||
               map_set(arena, values, value_words(names[i]), value_words(template->words[i]));
    }
    *out_values = values;
    return good;
}

enum err chat_template_render(const struct chat_template *template, const struct chat *chat,
    const struct template_limits *limits, struct arena *arena, struct rendered *out_rendered,
    struct err_info *info)
{
    struct map *values;
    if (template == NULL) {
        return err_set(info, ERR_NOT_CAPABLE, NULL, "the model has no chat template");
    }
    if (template->template == NULL) {
        return err_set(info, ERR_NOT_CAPABLE, NULL,
            "the model's chat template needs what is not supported: %.200s", template->refusal);
    }
    if (!chat_values(arena, template, chat, &values)) {
        return err_set(info, ERR_NO_MEMORY, NULL, "no memory for a chat");
    }
    return template_render(
        template->template, values, chat->now, limits, arena, out_rendered, info);
}

/* ---- opening ------------------------------------------------------------------------------- */

static const char probe_text[] = "Zq7 probe";

/* What the template makes of one text of a user, as a text or as a part; NULL when it fails. */
static const char *probe(struct chat_template *template, struct arena *arena, bool parts)
{
    const struct chat_text text = {probe_text, sizeof(probe_text) - 1};
    const struct chat_message message = {
        .role = CHAT_USER, .parted = parts, .texts = &text, .text_count = 1};
    const struct chat chat = {.messages = &message, .count = 1, .add_generation_prompt = true};
    const struct template_limits limits = {
        .steps = LIMIT_TEMPLATE_PROBE_STEPS, .time_us = LIMIT_TEMPLATE_PROBE_TIME_US};
    struct rendered rendered;
    template->takes_parts = parts;
    template->needs_parts = false;
    enum err err = chat_template_render(template, &chat, &limits, arena, &rendered, NULL);
    return err == ERR_OK && strstr(rendered.bytes, probe_text) != NULL ? rendered.bytes : NULL;
}

static void probe_parts(struct chat_template *template)
{
    struct arena arena;
    arena_init(&arena, MEM_OTHER, 4096, (size_t)16 << 20);
    const char *whole = probe(template, &arena, false);
    const char *parts = probe(template, &arena, true);
    template->takes_parts = parts != NULL && (whole == NULL || strcmp(whole, parts) == 0);
    template->needs_parts = parts != NULL &&whole == NULL;
    arena_drop(&arena);
}

/* A NUL-terminated copy; NULL of NULL. */
static bool copy(const char *bytes, size_t count, char **out_copy)
{
    *out_copy = bytes == NULL ? NULL : mem_alloc(MEM_TOKENIZER, count + 1);
    if (*out_copy != NULL && count > 0) {
        memcpy(*out_copy, bytes, count);
    }
    return bytes == NULL || *out_copy != NULL;
}

enum err chat_template_open(const char *source, size_t bytes, const struct chat_tokens *tokens,
    struct chat_template **out_template, struct err_info *info)
{
    const char *const words[] = {tokens->bos, tokens->eos, tokens->unk, tokens->pad};
    struct err_info why = {0};
    struct chat_template *template = mem_alloc(MEM_TOKENIZER, sizeof(*template));
    bool good = template != NULL && copy(source, bytes, &template->source);
    for (size_t i = 0; good && i < ARRAY_COUNT(words); i++) {
        good = copy(words[i], words[i] != NULL ? strlen(words[i]) : 0, &template->words[i]);
    }
    enum err err = good ? template_open(source, bytes, &template->template, &why) : ERR_NO_MEMORY;
    if (err == ERR_NO_MEMORY) {
        chat_template_close(template);
        return err_set(info, ERR_NO_MEMORY, NULL, "no memory for a chat template");
    }
    if (err == ERR_OK) {
        template->knows_developer = template_mentions(template->template, "developer");
        probe_parts(template);
    }
    memcpy(template->refusal, why.text, sizeof(why.text));
    *out_template = template;
    return ERR_OK;
}

void chat_template_close(struct chat_template *template)
{
    if (template == NULL) {
        return;
    }
    template_close(template->template);
    mem_free(template->source);
    for (size_t i = 0; i < ARRAY_COUNT(template->words); i++) {
        mem_free(template->words[i]);
    }
    mem_free(template);
}

const char *chat_template_source(const struct chat_template *template)
{
    return template->source;
}

const char *chat_template_refusal(const struct chat_template *template)
{
    return template->template == NULL ? template->refusal : NULL;
}
