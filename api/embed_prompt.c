/*
 * See embed_prompt.h. A template's own text may spell control tokens; what fills its places never
 * does, an instruction no more than a text, for both are the client's.
 */
#include "api/embed_prompt.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include "engine/base/assert.h"

static void add_part(struct embed_prompt *prompt, const char *bytes, size_t count, bool trusted)
{
    if (count > 0) {
        ASSERT(prompt->count < EMBED_PROMPT_PARTS);
        prompt->parts[prompt->count++] =
            (struct prompt_part){{bytes, (int32_t)count}, .trusted = trusted};
    }
}

static void add_text(struct embed_prompt *prompt, const struct bound_text *text)
{
    prompt->echoes = prompt->count > 0 && prompt->parts[prompt->text].text.bytes == text->bytes;
    prompt->text = prompt->count;
    add_part(prompt, text->bytes, (size_t)text->count, false);
}

/* The profile's reader has counted the places (engine/load/profile_parse.c). */
static void fill_template(struct embed_prompt *prompt, const char *template_text,
    const struct bound_text *instruction, const struct bound_text *text)
{
    static const char text_mark[] = "{text}";
    static const char instruction_mark[] = "{instruction}";
    const char *from = template_text;
    for (const char *at = from; (at = strchr(at, '{')) != NULL;) {
        const bool is_text = strncmp(at, text_mark, strlen(text_mark)) == 0;
        const bool is_instruction =
            instruction != NULL && strncmp(at, instruction_mark, strlen(instruction_mark)) == 0;
        if (!is_text && !is_instruction) {
            at++;
            continue;
        }
        add_part(prompt, from, (size_t)(at - from), true);
        if (is_text) {
            add_text(prompt, text);
        } else {
            add_part(prompt, instruction->bytes, (size_t)instruction->count, false);
        }
        at += strlen(is_text ? text_mark : instruction_mark);
        from = at;
    }
    add_part(prompt, from, strlen(from), true);
}

/* Without a form of the profile's: before the text, a space between them. */
static enum err put_before(struct call *call, struct embed_prompt *prompt,
    const struct bound_text *instruction, const struct bound_text *text, struct err_info *info)
{
    bool space = isspace((unsigned char)instruction->bytes[instruction->count - 1]) != 0;
    const char *joined = arena_printf(call->arena, "%s%s", instruction->bytes, space ? "" : " ");
    if (joined == NULL) {
        return call_no_memory(info);
    }
    add_part(prompt, joined, strlen(joined), false);
    add_text(prompt, text);
    return ERR_OK;
}

static enum err unknown_prompt(const struct call *call, struct err_info *info)
{
    char names[200] = "";
    for (int32_t i = 0; i < call->model->prompt_count; i++) {
        size_t count = strlen(names);
        (void)snprintf(names + count, sizeof(names) - count, "%s%s", i > 0 ? ", " : "",
            call->model->prompts[i].name);
    }
    return call_fail(info, ERR_LIMIT, "prompt_name_unknown", "/prompt_name", "this model has %s%s",
        names[0] != '\0' ? "the prompts " : "no prompts", names);
}

/* The request's prompt or the default; *out_template NULL = none. */
static enum err find_template(const struct call *call, const struct embed_request *request,
    const char **out_template, struct err_info *info)
{
    const struct model_info *model = call->model;
    const char *name =
        request->has_prompt_name ? request->prompt_name.bytes : model->default_prompt;
    *out_template = NULL;
    if (!request->has_prompt_name && name[0] == '\0') {
        return ERR_OK;
    }
    for (int32_t i = 0; i < model->prompt_count; i++) {
        if (strcmp(model->prompts[i].name, name) == 0) {
            *out_template = model->prompts[i].text;
            return ERR_OK;
        }
    }
    return unknown_prompt(call, info);
}

enum err embed_prompt_find(struct call *call, const struct embed_request *request,
    const struct bound_text *text, struct embed_prompt *out_prompt, struct err_info *info)
{
    const struct bound_text *instruction = &request->instruction;
    const char *form = call->model->instruction;
    const char *template_text = NULL;
    struct embed_prompt prompt = {.count = 0};
    enum err err = ERR_OK;
    if (request->has_instruction && instruction->count > 0 && form[0] != '\0') {
        fill_template(&prompt, form, instruction, text);
    } else if (request->has_instruction && instruction->count > 0) {
        err = put_before(call, &prompt, instruction, text, info);
    } else {
        if (!request->has_instruction) {
            err = find_template(call, request, &template_text, info);
        }
        if (err == ERR_OK) {
            fill_template(&prompt, template_text == NULL ? "{text}" : template_text, NULL, text);
        }
    }
    if (err == ERR_OK) {
        *out_prompt = prompt;
    }
    return err;
}
