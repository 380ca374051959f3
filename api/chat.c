/* See chat.h. */
#include "api/chat.h"

#include <time.h>
#include "api/prompt.h"
#include "engine/base/assert.h"

/* ORDER of roles: schemas/common.json, engine/template/chat_template.h. */
_Static_assert((int)COMMON_MESSAGE_ROLE_SYSTEM == (int)CHAT_SYSTEM &&
                   (int)COMMON_MESSAGE_ROLE_DEVELOPER == (int)CHAT_DEVELOPER &&
                   (int)COMMON_MESSAGE_ROLE_USER == (int)CHAT_USER &&
                   (int)COMMON_MESSAGE_ROLE_ASSISTANT == (int)CHAT_ASSISTANT,
    "roles of requests and of templates");

static enum err fill_message(struct call *call, const struct common_message *message,
    struct chat_message *out_message, struct err_info *info)
{
    const struct common_message_content *content = &message->content;
    bool parted = content->form == COMMON_MESSAGE_CONTENT_PARTS;
    int32_t count = parted ? content->parts.count : 1;
    struct chat_text *texts;
    enum err err = call_array(call, (size_t)count, sizeof(*texts), &texts, info);
    for (int32_t i = 0; err == ERR_OK && i < count; i++) {
        const struct bound_text *text = parted ? &content->parts.items[i].text : &content->text;
        texts[i] = (struct chat_text){text->bytes, (size_t)text->count};
    }
    if (err == ERR_OK) {
        *out_message = (struct chat_message){.role = (enum chat_role)message->role,
            .parted = parted,
            .texts = texts,
            .text_count = count};
    }
    return err;
}

enum err chat_render(struct call *call, const struct common_messages *messages,
    bool add_generation_prompt, const char *where, struct rendered *out_rendered,
    struct err_info *info)
{
    struct chat_message *filled;
    struct err_info why = {0};
    enum err err = call_array(call, (size_t)messages->count, sizeof(*filled), &filled, info);
    for (int32_t i = 0; err == ERR_OK && i < messages->count; i++) {
        err = fill_message(call, &messages->items[i], &filled[i], info);
    }
    if (err != ERR_OK) {
        return err;
    }
    const struct chat chat = {.messages = filled,
        .count = messages->count,
        .add_generation_prompt = add_generation_prompt,
        .now = (int64_t)time(NULL)};
    err = chat_template_render(call->chat_template, &chat, NULL, call->arena, out_rendered, &why);
    return err == ERR_OK ? ERR_OK : call_fail(info, err, NULL, where, "%s", why.text);
}

enum err chat_ids(struct call *call, const struct common_messages *messages,
    bool add_generation_prompt, const char *where, struct call_ids *out_ids, struct err_info *info)
{
    struct rendered rendered;
    enum err err = chat_render(call, messages, add_generation_prompt, where, &rendered, info);
    if (err != ERR_OK) {
        return err;
    }
    return prompt_encode(
        call, rendered.bytes, rendered.count, rendered.foreign, where, out_ids, info);
}

enum err chat_count(struct call *call, const struct common_messages *messages, const char *where,
    struct buf *out, struct err_info *info)
{
    struct json_out json;
    struct call_ids ids;
    enum err err = chat_ids(call, messages, true, where, &ids, info);
    if (err != ERR_OK) {
        return err;
    }
    json_out_init(&json, out);
    json_out_object(&json);
    json_out_key(&json, "object");
    json_out_string(&json, "response.input_tokens");
    json_out_key(&json, "input_tokens");
    json_out_int(&json, ids.count);
    json_out_end(&json);
    return call_written(&json, info);
}

enum err endpoint_apply_template(
    struct call *call, const char *body, size_t bytes, struct buf *out, struct err_info *info)
{
    struct json_out json;
    struct rendered rendered;
    enum err err = call_decode(call, &schema_apply_template_request, body, bytes, info);
    if (err != ERR_OK) {
        return err;
    }
    const struct apply_template_request *request = call->request;
    err = call_check_model(call, &request->model, info);
    if (err == ERR_OK) {
        err = chat_render(
            call, &request->messages, request->add_generation_prompt, "/messages", &rendered, info);
    }
    if (err != ERR_OK) {
        return err;
    }
    json_out_init(&json, out);
    json_out_object(&json);
    json_out_key(&json, "prompt");
    json_out_bytes(&json, rendered.bytes, rendered.count);
    json_out_end(&json);
    return call_written(&json, info);
}
