/* See template.h: a template from its source. run.c has the other half. */
#include "engine/template/template.h"

#include <string.h>
#include "engine/base/mem.h"
#include "engine/engine_limits.h"
#include "engine/template/node.h"
#include "engine/template/parser.h"

enum err template_open(
    const char *source, size_t bytes, struct template **out_template, struct err_info *info)
{
    struct template *template = mem_alloc(MEM_TOKENIZER, sizeof(*template));
    if (template == NULL) {
        return err_set(info, ERR_NO_MEMORY, NULL, "no memory for a chat template");
    }
    /* Source, constants and nodes: the arrays double, so the arena holds twice the last ones. */
    arena_init(&template->arena, MEM_TOKENIZER, 1 << 14, (size_t)64 << 20);
    enum err err = parser_run(template, source, bytes, info);
    if (err != ERR_OK) {
        template_close(template);
        return err;
    }
    *out_template = template;
    return ERR_OK;
}

void template_close(struct template *template)
{
    if (template != NULL) {
        arena_drop(&template->arena);
        mem_free(template);
    }
}

bool template_mentions(const struct template *template, const char *word)
{
    for (int32_t i = 0; i < template->constant_count; i++) {
        const struct value *constant = &template->constants[i];
        if (constant->kind == VALUE_TEXT && constant->text.count > 0 &&
            memmem(constant->text.bytes, constant->text.count, word, strlen(word)) != NULL) {
            return true;
        }
    }
    return false;
}
