/* /info, /props and /v1/models, from the model, the configuration and the route table. */
#include "server/handle_info.h"
#include "server/plan_text.h"

#include "api/call.h"
#include "api/json_out.h"
#include "api/llama_answer.h"
#include "engine/template/chat_template.h"

static void member_int(struct json_out *json, const char *key, int64_t value)
{
    json_out_key(json, key);
    json_out_int(json, value);
}

static void member_text(struct json_out *json, const char *key, const char *text)
{
    json_out_key(json, key);
    json_out_string(json, text); /* NULL is null */
}

static void member_bool(struct json_out *json, const char *key, bool value)
{
    json_out_key(json, key);
    json_out_bool(json, value);
}

static void write_model(struct json_out *json, struct app *app, const struct model_info *model)
{
    member_text(json, "model_id", app_served_name(app));
    json_out_key(json, "model_sha");
    json_out_null(json);
    member_text(json, "model_dtype", model->weights_type);
    member_text(json, "served_model_name", app_served_name(app));
    json_out_key(json, "model_type");
    json_out_object(json);
    json_out_key(json, "embedding");
    json_out_object(json);
    member_text(json, "pooling", plan_text_pooling(model->embed_pooling));
    json_out_end(json);
    json_out_end(json);
}

static void write_limits(struct json_out *json, struct app *app, const struct model_info *model)
{
    const struct memory_plan *plan = engine_memory(app_engine(app));
    member_int(json, "max_concurrent_requests", app->config.jobs);
    member_int(json, "max_input_length", model->context);
    member_int(json, "max_batch_tokens", plan->step_rows);
    json_out_key(json, "max_batch_requests");
    json_out_null(json);
    member_int(json, "max_client_batch_size", LIMIT_INPUTS);
    member_bool(json, "auto_truncate", true);
    member_int(json, "tokenization_workers", app->config.workers);
    member_text(json, "version", MAGNETD_VERSION);
    json_out_key(json, "sha");
    json_out_null(json);
    json_out_key(json, "docker_label");
    json_out_null(json);
    member_bool(json, "deterministic", engine_deterministic(app_engine(app)));
    member_text(json, "activations", model->int8_activations ? "int8" : "f32");
}

/* Names by mode, of modes that some lie on. */
static void write_adapters(struct json_out *json, const struct model_info *model)
{
    json_out_key(json, "adapters");
    json_out_object(json);
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        const int32_t number = model->stack_table.both_ways[kind];
        if (number == 0) {
            continue;
        }
        const struct stack *stack = &model->stacks[number - 1];
        json_out_key(json, plan_text_kind((enum kind)kind));
        json_out_array(json);
        for (int32_t i = 0; i < stack->count; i++) {
            json_out_string(json, model->adapters[stack->adapters[i]]);
        }
        json_out_end(json);
    }
    json_out_end(json);
}

static void write_tasks(struct json_out *json, const struct model_info *model)
{
    json_out_key(json, "embedding");
    json_out_object(json);
    member_int(json, "dimensions", model->vector);
    json_out_key(json, "trained_dimensions");
    json_out_array(json);
    for (int32_t i = 0; i < model->dimension_count; i++) {
        json_out_int(json, model->dimensions[i]);
    }
    json_out_end(json);
    member_text(json, "attention", plan_text_attention(model->embed_attention));
    json_out_key(json, "default_prompt");
    if (model->default_prompt[0] != '\0') {
        json_out_string(json, model->default_prompt);
    } else {
        json_out_null(json);
    }
    json_out_key(json, "prompts");
    json_out_array(json);
    for (int32_t i = 0; i < model->prompt_count; i++) {
        json_out_string(json, model->prompts[i].name);
    }
    json_out_end(json);
    json_out_end(json);
    json_out_key(json, "infill");
    json_out_object(json);
    json_out_key(json, "modes");
    json_out_array(json);
    for (int32_t i = 0; i < model->infill_mode_count; i++) {
        json_out_string(json, call_mode_word(model->infill_modes[i]));
    }
    json_out_end(json);
    json_out_end(json);
    json_out_key(json, "moderation");
    json_out_object(json);
    member_text(json, "profile", model->moderation_profile);
    member_bool(json, "calibrated", model->calibrated);
    json_out_key(json, "categories");
    json_out_array(json);
    json_out_end(json);
    json_out_end(json);
}

void handle_info(struct app *app, struct request *request)
{
    const struct model_info *model = engine_model(app_engine(app));
    struct json_out json;
    reply_begin(request, 200, "application/json");
    json_out_init(&json, &request->reply.body);
    json_out_object(&json);
    write_model(&json, app, model);
    write_limits(&json, app, model);
    json_out_key(&json, "endpoints");
    json_out_array(&json);
    for (int32_t i = 0; i < endpoint_route_count; i++) {
        json_out_string(&json, endpoint_routes[i].path);
    }
    json_out_end(&json);
    write_tasks(&json, model);
    write_adapters(&json, model);
    json_out_end(&json);
}

/* ---- llama.cpp's properties ---------------------------------------------------------------- */

static void member_token(
    struct json_out *json, const char *key, const struct tokenizer *tokenizer, int32_t token)
{
    size_t bytes;
    json_out_key(json, key);
    if (token < 0) {
        json_out_null(json);
        return;
    }
    const char *piece = tokenizer_piece(tokenizer, token, true, &bytes);
    json_out_bytes(json, piece, bytes);
}

void handle_props(struct app *app, struct request *request)
{
    struct engine *engine = app_engine(app);
    const struct tokenizer *tokenizer = engine_tokenizer(engine);
    const struct chat_template *template = engine_chat_template(engine);
    struct err_info info = {.offset = -1};
    struct json_out json;
    reply_begin(request, 200, "application/json");
    json_out_init(&json, &request->reply.body);
    json_out_object(&json);
    json_out_key(&json, "default_generation_settings");
    json_out_object(&json);
    member_int(&json, "n_ctx", engine_model(engine)->context);
    json_out_key(&json, "params");
    if (llama_answer_write_defaults(&json, &info) != ERR_OK) {
        reply_error(request, 503, info.text, 1);
        return;
    }
    json_out_end(&json);
    member_int(&json, "total_slots", app->config.sequences);
    member_text(&json, "model_alias", app_served_name(app));
    member_text(&json, "model_path", app_served_name(app));
    member_text(&json, "chat_template", template != NULL ? chat_template_source(template) : NULL);
    member_token(&json, "bos_token", tokenizer, tokenizer_special(tokenizer, TOKEN_BOS));
    member_token(&json, "eos_token", tokenizer, tokenizer_special(tokenizer, TOKEN_EOS));
    member_text(&json, "build_info", "magnetd " MAGNETD_VERSION);
    json_out_end(&json);
}

/* ---- OpenAI's list of models --------------------------------------------------------------- */

static void write_entry(struct json_out *json, struct app *app)
{
    json_out_object(json);
    member_text(json, "id", app_served_name(app));
    member_text(json, "object", "model");
    member_int(json, "created", 0);
    member_text(json, "owned_by", "magnetd");
    member_int(json, "max_model_len", engine_model(app_engine(app))->context);
    json_out_end(json);
}

void handle_models(struct app *app, struct request *request)
{
    struct json_out json;
    reply_begin(request, 200, "application/json");
    json_out_init(&json, &request->reply.body);
    json_out_object(&json);
    member_text(&json, "object", "list");
    json_out_key(&json, "data");
    json_out_array(&json);
    write_entry(&json, app);
    json_out_end(&json);
    json_out_end(&json);
}

void handle_model(struct app *app, struct request *request)
{
    struct json_out json;
    reply_begin(request, 200, "application/json");
    json_out_init(&json, &request->reply.body);
    write_entry(&json, app);
}
