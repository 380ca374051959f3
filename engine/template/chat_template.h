/*
 * The model's own chat template: messages to the text it was trained on. The template comes from
 * the checkpoint; one that is outside of what template.h renders is kept with the reason, since the
 * model can do everything else.
 *
 * Read-only once open: any thread may render.
 */
#ifndef ENGINE_TEMPLATE_CHAT_TEMPLATE_H
#define ENGINE_TEMPLATE_CHAT_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "engine/base/arena.h"
#include "engine/base/err.h"
#include "engine/template/template.h"

struct chat_template;

/* Who speaks. A closed set, so that the words count as the template's own. */
#define CHAT_ROLE_MAP(X)                                                                           \
    X(SYSTEM, "system")                                                                            \
    X(DEVELOPER, "developer") /* `system` for a template that does not know it */                  \
    X(USER, "user") X(ASSISTANT, "assistant") X(TOOL, "tool")

enum chat_role {
#define X(name, word) CHAT_##name,
    CHAT_ROLE_MAP(X)
#undef X
        CHAT_ROLE_COUNT
};

struct chat_text {
    const char *bytes; /* valid UTF-8; stays the caller's */
    size_t count;
};

/* Content is one text, or a list of parts that are texts (`parted`). Parts reach the template as
 * such where it handles them, else joined by line breaks. */
struct chat_message {
    enum chat_role role;
    bool parted;
    const struct chat_text *texts;
    int32_t text_count; /* 1 unless parted */
};

struct chat {
    const struct chat_message *messages;
    int32_t count;
    bool add_generation_prompt; /* end with the beginning of an answer */
    int64_t now;                /* seconds since 1970, for templates that show a date */
};

/* What `bos_token` and its like are to a template; NULL = the vocabulary has none. */
struct chat_tokens {
    const char *bos, *eos, *unk, *pad;
};

/* ERR_NO_MEMORY only: a template that is refused is one that renders nothing. */
MUST_USE enum err chat_template_open(const char *source, size_t bytes,
    const struct chat_tokens *tokens, struct chat_template **out_template, struct err_info *info);
void chat_template_close(struct chat_template *template); /* NULL allowed */
/* As the checkpoint has it, for those who ask; NUL-terminated. */
const char *chat_template_source(const struct chat_template *template);
/* Why it is refused, "line N: what it is"; NULL when it is not. */
const char *chat_template_refusal(const struct chat_template *template);

/* The text of a chat, with its marks (tokenizer_encode_marked). `limits` NULL = the defaults.
 * NULL or refused templates are ERR_NOT_CAPABLE; the rest is template_render's: ERR_INVALID when
 * the template refuses these messages. */
MUST_USE enum err chat_template_render(const struct chat_template *template,
    const struct chat *chat, const struct template_limits *limits, struct arena *arena,
    struct rendered *out_rendered, struct err_info *info);

#endif
