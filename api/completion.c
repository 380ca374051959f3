/*
 * /completion: prompts continued in llama.cpp's shape.
 *
 * A list of strings alone is one prompt each; with an id among its elements a list is one prompt,
 * whose strings and ids follow each other. What surprises: each of these strings is made into
 * tokens by itself, as llama.cpp does, so that ids beside it stay what they are.
 */
#include "api/llama_reply.h"

#include <stdio.h>
#include <string.h>
#include "api/grammar.h"
#include "api/llama.h"
#include "engine/base/utf8.h"

struct completion_notes {
    struct llama_reply reply;
    struct call_ids *prompts; /* [prompt_count] */
    int32_t prompt_count;
    const struct grammar *grammar;
};

/* ---- answers ------------------------------------------------------------------------------- */

static int32_t count_answers(const struct call *call, const struct job *job)
{
    (void)call;
    return job->plan.item_count;
}

/* An answer that the context ended, and nothing that the request says, is cut. */
static void read_answer(
    const struct call *call, const struct job *job, int32_t index, struct llama_answer *out_answer)
{
    const struct completion_request *request = call->request;
    llama_reply_item(job, index, out_answer);
    int32_t room = out_answer->step->tokens_max;
    bool bounded = request->llama.n_predict >= 0 && request->llama.n_predict <= room;
    out_answer->truncated =
        !bounded && out_answer->predicted == room && out_answer->fill.finish == FINISH_LENGTH;
}

/* ---- decode -------------------------------------------------------------------------------- */

static enum err completion_decode(
    struct call *call, const char *body, size_t bytes, struct err_info *info)
{
    struct completion_notes *notes = NULL;
    enum err err = call_decode_with(
        call, &schema_completion_request, body, bytes, sizeof(*notes), &notes, info);
    if (err != ERR_OK) {
        return err;
    }
    const struct completion_request *request = call->request;
    notes->reply = (struct llama_reply){
        .options = &request->llama, .count = count_answers, .answer = read_answer};
    call->state = notes;
    call->stream = request->llama.stream;
    return call_basics(call, &request->basics, info);
}

/* ---- prompts ------------------------------------------------------------------------------- */

/* A prompt while its parts are read. */
struct reading {
    struct call *call;
    struct token_list list;
    const char *where; /* of the prompt */
};

static enum err refuse_part(const struct reading *reading, int32_t index, const char *word,
    const char *text, struct err_info *info)
{
    char where[48];
    (void)snprintf(where, sizeof(where), "%s/%d", reading->where, index);
    return call_fail(info, ERR_INVALID, word, where, "%s", text);
}

static enum err add_id(struct reading *reading, int32_t id, int32_t index, struct err_info *info)
{
    if (id >= tokenizer_vocab(reading->call->tokenizer)) {
        return refuse_part(reading, index, "token_out_of_range", "is not in the vocabulary", info);
    }
    return token_list_add(&reading->list, id, info);
}

/* A text that begins the prompt has a BOS where the vocabulary wants one, but never a second. */
static enum err add_text(
    struct reading *reading, const struct bound_text *text, struct err_info *info)
{
    const struct completion_request *request = reading->call->request;
    const struct tokenizer *tokenizer = reading->call->tokenizer;
    struct token_list *list = &reading->list;
    int32_t bos = tokenizer_special(tokenizer, TOKEN_BOS);
    bool first = list->count == 0 && tokenizer_adds_bos(tokenizer);
    enum err err = first ? token_list_add(list, bos, info) : ERR_OK;
    reading->call->characters += (int64_t)utf8_length(text->bytes, (size_t)text->count);
    if (err == ERR_OK) {
        err = tokenizer_encode(tokenizer, text->bytes, (size_t)text->count,
            request->parse_special ? TOKENIZE_SPECIAL : 0, list, info);
    }
    if (err == ERR_TOKENIZER || err == ERR_LIMIT) {
        return call_fail(
            info, err, NULL, reading->where, "the text could not be turned into tokens");
    }
    if (err == ERR_OK && first && list->count > 1 && list->ids[1] == bos) {
        list->count--;
        memmove(list->ids, list->ids + 1, (size_t)list->count * sizeof(*list->ids));
    }
    return err;
}

/* A list that is one prompt. */
static enum err add_list(struct reading *reading, const struct completion_request_prompt_list *list,
    struct err_info *info)
{
    enum err err = ERR_OK;
    for (int32_t i = 0; err == ERR_OK && i < list->count; i++) {
        const struct completion_request_prompt_list_item *part = &list->items[i];
        if (part->form == COMPLETION_REQUEST_PROMPT_LIST_ITEM_PARTS) {
            return refuse_part(reading, i, NULL,
                "a list with a token id in it is one prompt and holds no other lists", info);
        }
        err = part->form == COMPLETION_REQUEST_PROMPT_LIST_ITEM_ID
                  ? add_id(reading, part->id, i, info)
                  : add_text(reading, &part->text, info);
    }
    return err;
}

static enum err add_parts(struct reading *reading,
    const struct completion_request_prompt_list_item_parts *parts, struct err_info *info)
{
    enum err err = ERR_OK;
    for (int32_t i = 0; err == ERR_OK && i < parts->count; i++) {
        err = parts->items[i].form == COMPLETION_REQUEST_PROMPT_LIST_ITEM_PARTS_ITEM_ID
                  ? add_id(reading, parts->items[i].id, i, info)
                  : add_text(reading, &parts->items[i].text, info);
    }
    return err;
}

static bool is_one_prompt(const struct completion_request_prompt *prompt)
{
    if (prompt->form == COMPLETION_REQUEST_PROMPT_TEXT) {
        return true;
    }
    for (int32_t i = 0; i < prompt->list.count; i++) {
        if (prompt->list.items[i].form == COMPLETION_REQUEST_PROMPT_LIST_ITEM_ID) {
            return true;
        }
    }
    return false;
}

static enum err add_prompt(struct reading *reading, int32_t index, struct err_info *info)
{
    const struct completion_request *request = reading->call->request;
    const struct completion_request_prompt *prompt = &request->prompt;
    if (prompt->form == COMPLETION_REQUEST_PROMPT_TEXT) {
        return add_text(reading, &prompt->text, info);
    }
    if (is_one_prompt(prompt)) {
        return add_list(reading, &prompt->list, info);
    }
    const struct completion_request_prompt_list_item *item = &prompt->list.items[index];
    return item->form == COMPLETION_REQUEST_PROMPT_LIST_ITEM_TEXT
               ? add_text(reading, &item->text, info)
               : add_parts(reading, &item->parts, info);
}

/* Prompt `index` of the request, with room for one token behind it if one is wanted. */
static enum err read_prompt(struct call *call, int32_t index, const char *where,
    struct call_ids *out_ids, struct err_info *info)
{
    const struct completion_request *request = call->request;
    struct reading reading = {.call = call, .where = where};
    struct call_ids ids = {0};
    token_list_init(&reading.list, LIMIT_CONTEXT * 8); /* more tokens than bytes, as in prompt.c */
    enum err err = add_prompt(&reading, index, info);
    if (err == ERR_OK && reading.list.count == 0) {
        err = call_fail(info, ERR_EMPTY, NULL, where, "the prompt has no tokens");
    }
    if (err == ERR_OK) {
        err =
            call_check_prompt(call, reading.list.count, request->llama.n_predict != 0, where, info);
    }
    if (err == ERR_OK) {
        err = call_array(call, (size_t)reading.list.count, sizeof(*ids.ids), &ids.ids, info);
    }
    if (err == ERR_OK) {
        ids.count = reading.list.count;
        memcpy(ids.ids, reading.list.ids, (size_t)ids.count * sizeof(*ids.ids));
        *out_ids = ids;
    }
    token_list_free(&reading.list);
    return err;
}

static enum err read_prompts(
    struct call *call, struct completion_notes *notes, struct err_info *info)
{
    const struct completion_request *request = call->request;
    bool one = is_one_prompt(&request->prompt);
    int32_t count = one ? 1 : request->prompt.list.count;
    int64_t answers = (int64_t)count * request->llama.n_cmpl;
    if (count == 0) {
        return call_fail(info, ERR_EMPTY, NULL, "/prompt", "the list of prompts is empty");
    }
    if (answers > call->limits->items_max) {
        return call_fail(info, ERR_LIMIT, "too_many_inputs", "/prompt",
            "%lld answers are more than %d", (long long)answers, call->limits->items_max);
    }
    notes->prompt_count = count;
    enum err err = call_array(call, (size_t)count, sizeof(*notes->prompts), &notes->prompts, info);
    for (int32_t i = 0; err == ERR_OK && i < count; i++) {
        char where[32];
        (void)snprintf(where, sizeof(where), one ? "/prompt" : "/prompt/%d", i);
        err = read_prompt(call, i, where, &notes->prompts[i], info);
    }
    return err;
}

/* ---- plan ---------------------------------------------------------------------------------- */

static enum err make_item(struct call *call, const struct completion_notes *notes,
    const struct call_ids *prompt, struct plan_item *item, struct err_info *info)
{
    const struct completion_request *request = call->request;
    int64_t budget = request->llama.n_predict, room = call->model->context - prompt->count;
    bool prefix = call->model->prompt_attention == ATTENTION_BIDIRECTIONAL;
    struct plan_step *step = NULL;
    enum err err = call_array(call, 1, sizeof(*step), &step, info);
    if (err != ERR_OK) {
        return err;
    }
    *step = (struct plan_step){.kind = STEP_DECODE,
        .read_row = -1,
        .position = -1,
        .tokens_max = (int32_t)(budget < 0 ? room : MIN(budget, room)),
        .grammar = notes->grammar};
    *item = (struct plan_item){.tokens = prompt->ids,
        .token_count = prompt->count,
        .context_count = prefix ? prompt->count : 0,
        .steps = step,
        .step_count = 1};
    return llama_step(call, &request->sampling, &request->llama, step, info);
}

/* n_cmpl items for each prompt. */
static enum err make_items(
    struct call *call, const struct completion_notes *notes, struct err_info *info)
{
    const struct completion_request *request = call->request;
    int32_t n = request->llama.n_cmpl, count = notes->prompt_count * n;
    struct plan_item *items = NULL;
    struct sampling sampling;
    enum err err = call_array(call, (size_t)count, sizeof(*items), &items, info);
    if (err == ERR_OK) {
        err = llama_sampling(call, &request->sampling, &request->llama, &sampling, info);
    }
    for (int32_t p = 0; err == ERR_OK && p < notes->prompt_count; p++) {
        struct plan_item item;
        err = make_item(call, notes, &notes->prompts[p], &item, info);
        for (int32_t k = 0; err == ERR_OK && k < n; k++) {
            item.sampling = sampling;
            item.sampling.sample_index = (uint32_t)k;
            items[p * n + k] = item;
        }
    }
    call->plan = (struct plan){.kind = KIND_GENERATE, .items = items, .item_count = count};
    return err;
}

static enum err completion_plan(struct call *call, struct err_info *info)
{
    const struct completion_request *request = call->request;
    struct completion_notes *notes = call->state;
    if (!call->model->can_generate) {
        return call_fail(info, ERR_NOT_CAPABLE, NULL, NULL, "this model does not generate");
    }
    enum err err = read_prompts(call, notes, info);
    if (err == ERR_OK && request->has_json_schema) {
        err = grammar_of_schema(call, &request->json_schema, "/json_schema", &notes->grammar, info);
    }
    if (err == ERR_OK) {
        err = make_items(call, notes, info);
    }
    notes->reply.list = call->plan.item_count > 1;
    call->plan.stream = call->stream;
    llama_plan(call, &request->sampling, &request->llama, true);
    return err;
}

/* ---- the endpoint -------------------------------------------------------------------------- */

static enum err completion_encode(
    struct call *call, const struct job *job, struct buf *out, struct err_info *info)
{
    const struct completion_notes *notes = call->state;
    struct json_out json;
    enum err err = call_job_error(job, NULL, info);
    if (err != ERR_OK) {
        return err;
    }
    json_out_init(&json, out);
    llama_reply_encode(call, &notes->reply, job, &json);
    return call_written(&json, info);
}

static enum err completion_frame(
    struct call *call, const struct job *job, const struct token_event *event, struct buf *out)
{
    const struct completion_notes *notes = call->state;
    return llama_reply_frame(call, &notes->reply, job, event, out);
}

static enum err completion_frame_end(struct call *call, const struct job *job, struct buf *out)
{
    struct completion_notes *notes = call->state;
    return llama_reply_frame_end(call, &notes->reply, job, out);
}

const struct endpoint endpoint_completion = {.name = "completion",
    .kind = KIND_GENERATE,
    .family = FAMILY_LLAMA,
    .decode = completion_decode,
    .plan = completion_plan,
    .encode = completion_encode,
    .frame = completion_frame,
    .frame_end = completion_frame_end};
