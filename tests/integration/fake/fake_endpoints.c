/* The endpoints of api/endpoint.h over the script language of fake.h. Their bodies are not the real
 * ones; what is under test is the server around them. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "api/endpoint.h"
#include "api/sse.h"
#include "engine/base/assert.h"
#include "fake/fake.h"

static int32_t number(const char *body, const char *key, int32_t fallback)
{
    const char *at = strstr(body, key);
    return at != NULL ? atoi(at + strlen(key)) : fallback;
}

static enum err error_of(const char *body, const char *key)
{
    const char *at = strstr(body, key);
    for (int err = 1; at != NULL && err < ERR_COUNT; err++) {
        const char *word = err_word((enum err)err);
        if (strncmp(at + strlen(key), word, strlen(word)) == 0) {
            return (enum err)err;
        }
    }
    return ERR_OK;
}

static enum err check(const char *body, size_t bytes, struct err_info *info)
{
    if (bytes < 2 || body[0] != '{' || strlen(body) != bytes) {
        enum err err = err_set(info, ERR_JSON, NULL, "not a JSON object");
        info->offset = 0;
        info->line = info->column = 1;
        return err;
    }
    return ERR_OK;
}

static void sleep_ms(int32_t ms)
{
    const struct timespec pause = {.tv_nsec = ms * 1000000L};
    nanosleep(&pause, NULL);
}

static enum err decode(struct call *call, const char *body, size_t bytes, struct err_info *info)
{
    enum err err = check(body, bytes, info);
    if (err != ERR_OK) {
        return err;
    }
    if (strstr(body, "\"alloc_fail\":") != NULL) {
        mem_fail_after((uint64_t)number(body, "\"alloc_fail\":", 0), 0);
    }
    struct fake_script *script = arena_alloc(call->arena, sizeof(*script));
    if (script == NULL) {
        return err_set(info, ERR_NO_MEMORY, NULL, "no memory for the script");
    }
    script->tokens = number(body, "\"tokens\":", 1);
    script->step_ms = number(body, "\"step_ms\":", 0);
    script->prompt_ms = number(body, "\"prompt_ms\":", 0);
    script->bytes = number(body, "\"bytes\":", 1);
    script->reply_bytes = number(body, "\"reply_bytes\":", 0);
    script->fail_after = number(body, "\"fail_after\":", 0);
    script->fail = error_of(body, "\"fail\":\"");
    script->jobs = number(body, "\"jobs\":", 1) - 1;
    script->more_ms = number(body, "\"more_ms\":", 0);
    script->more_fail = error_of(body, "\"more_fail\":\"");
    call->asks_more = script->jobs > 0;
    call->request = script;
    call->stream = strstr(body, "\"stream\":true") != NULL;
    call->timeout_ms = number(body, "\"timeout_ms\":", 0);
    if (strstr(body, "\"unknown\":") != NULL) {
        call->ignored_fields = "unknown";
        call->ignored_count = 1;
    }
    sleep_ms(number(body, "\"decode_ms\":", 0));
    err = error_of(body, "\"plan_fail\":\"");
    return err == ERR_OK ? ERR_OK : err_set(info, err, "/inputs", "scripted: %s", err_word(err));
}

static enum err decode_stream(
    struct call *call, const char *body, size_t bytes, struct err_info *info)
{
    enum err err = decode(call, body, bytes, info);
    call->stream = true;
    return err;
}

static const int32_t tokens[] = {1, 2, 3};

static enum err plan(struct call *call, enum kind kind)
{
    struct fake_script *script = call->request;
    script->step = (struct plan_step){
        .kind = STEP_DECODE, .read_row = -1, .position = -1, .tokens_max = script->tokens};
    script->item = (struct plan_item){
        .tokens = tokens, .token_count = 3, .steps = &script->step, .step_count = 1};
    call->plan = (struct plan){
        .kind = kind, .items = &script->item, .item_count = 1, .stream = call->stream};
    call->characters = 11;
    return ERR_OK;
}

static enum err plan_embed(struct call *call, struct err_info *info)
{
    (void)info;
    return plan(call, KIND_EMBED);
}

static enum err plan_infill(struct call *call, struct err_info *info)
{
    (void)info;
    return plan(call, KIND_INFILL);
}

static enum err plan_generate(struct call *call, struct err_info *info)
{
    (void)info;
    return plan(call, KIND_GENERATE);
}

static enum err plan_classify(struct call *call, struct err_info *info)
{
    (void)info;
    return plan(call, KIND_CLASSIFY);
}

/* The same plan again until the chain is done. */
static enum err more(
    struct call *call, const struct job *job, bool *out_more, struct err_info *info)
{
    struct fake_script *script = call->request;
    sleep_ms(script->more_ms);
    script->tokens_before += job->results[0].steps[0].token_count;
    if (script->more_fail != ERR_OK) {
        return err_set(info, script->more_fail, NULL, "scripted: %s", err_word(script->more_fail));
    }
    *out_more = script->jobs > 0;
    script->jobs -= *out_more ? 1 : 0;
    return ERR_OK;
}

static enum err encode(
    struct call *call, const struct job *job, struct buf *out, struct err_info *info)
{
    const struct fake_script *script = call->request;
    const struct step_result *step = &job->results[0].steps[0];
    struct json_out json;
    (void)info;
    json_out_init(&json, out);
    json_out_object(&json);
    json_out_key(&json, "text");
    json_out_bytes(&json, step->text, (size_t)step->text_bytes);
    if (script->tokens_before > 0) {
        json_out_key(&json, "tokens");
        json_out_int(&json, script->tokens_before);
    }
    if (script->reply_bytes > 0) {
        json_out_key(&json, "padding");
        char *padding = malloc((size_t)script->reply_bytes);
        ASSERT(padding != NULL);
        memset(padding, 'p', (size_t)script->reply_bytes);
        json_out_bytes(&json, padding, (size_t)script->reply_bytes);
        free(padding);
    }
    json_out_end(&json);
    return ERR_OK;
}

static enum err frame(
    struct call *call, const struct job *job, const struct token_event *event, struct buf *out)
{
    const struct step_result *step = &job->results[0].steps[0];
    struct json_out json;
    (void)call;
    sse_begin(&json, out);
    json_out_object(&json);
    json_out_key(&json, "index");
    json_out_int(&json, event->index);
    json_out_key(&json, "text");
    json_out_bytes(&json, step->text + event->text_from, (size_t)event->text_bytes);
    json_out_end(&json);
    sse_end(&json);
    return ERR_OK;
}

static enum err frame_end(struct call *call, const struct job *job, struct buf *out)
{
    struct json_out json;
    sse_begin(&json, out);
    json_out_object(&json);
    json_out_key(&json, "last");
    json_out_bool(&json, true);
    json_out_key(&json, "tokens");
    const struct fake_script *script = call->request;
    json_out_int(
        &json, call->asks_more ? script->tokens_before : job->results[0].steps[0].token_count);
    json_out_end(&json);
    sse_end(&json);
    return ERR_OK;
}

#define ENDPOINT(word, KIND, dialect, decoder, planner)                                            \
    const struct endpoint endpoint_##word = {.name = #word,                                        \
        .kind = KIND,                                                                              \
        .family = dialect,                                                                         \
        .decode = decoder,                                                                         \
        .plan = planner,                                                                           \
        .more = more,                                                                              \
        .encode = encode,                                                                          \
        .frame = frame,                                                                            \
        .frame_end = frame_end}

ENDPOINT(embed, KIND_EMBED, FAMILY_TEI, decode, plan_embed);
ENDPOINT(embed_all, KIND_EMBED, FAMILY_TEI, decode, plan_embed);
ENDPOINT(similarity, KIND_EMBED, FAMILY_TEI, decode, plan_embed);
ENDPOINT(rerank, KIND_EMBED, FAMILY_TEI, decode, plan_embed);
ENDPOINT(v1_rerank, KIND_EMBED, FAMILY_OPENAI, decode, plan_embed);
ENDPOINT(v1_embeddings, KIND_EMBED, FAMILY_OPENAI, decode, plan_embed);
ENDPOINT(v1_chat, KIND_GENERATE, FAMILY_OPENAI, decode, plan_generate);
ENDPOINT(v1_responses, KIND_GENERATE, FAMILY_OPENAI, decode, plan_generate);
ENDPOINT(v1_completions, KIND_GENERATE, FAMILY_OPENAI, decode, plan_generate);
ENDPOINT(v1_decisions, KIND_CLASSIFY, FAMILY_OPENAI, decode, plan_classify);
ENDPOINT(v1_moderations, KIND_CLASSIFY, FAMILY_OPENAI, decode, plan_classify);
ENDPOINT(infill, KIND_INFILL, FAMILY_LLAMA, decode, plan_infill);
ENDPOINT(completion, KIND_GENERATE, FAMILY_LLAMA, decode, plan_generate);
ENDPOINT(generate, KIND_GENERATE, FAMILY_TEI, decode, plan_generate);
ENDPOINT(generate_stream, KIND_GENERATE, FAMILY_TEI, decode_stream, plan_generate);
ENDPOINT(predict, KIND_CLASSIFY, FAMILY_TEI, decode, plan_classify);
ENDPOINT(classify, KIND_CLASSIFY, FAMILY_TEI, decode, plan_classify);

#define DIRECT(name)                                                                               \
    enum err endpoint_##name(                                                                      \
        struct call *call, const char *body, size_t bytes, struct buf *out, struct err_info *info) \
    {                                                                                              \
        (void)call;                                                                                \
        enum err err = check(body, bytes, info);                                                   \
        if (err == ERR_OK) {                                                                       \
            buf_text(out, "{\"tokens\":[7]}");                                                     \
        }                                                                                          \
        return err;                                                                                \
    }

DIRECT(tokenize)
DIRECT(detokenize)
DIRECT(decode)
DIRECT(v1_chat_input_tokens)
DIRECT(v1_responses_input_tokens)
