/*
 * /embed and /embed_all: texts or ids to vectors. Mask, pooling and prompts come from the loaded
 * model's profile unless the request says otherwise.
 *
 * What surprises: a text that does not fit is cut in tokens, inside the BOS and EOS the vocabulary
 * puts around it, and the instruction counts as text. Ids of the client are used as they are, so
 * nothing is put around those.
 */
#include "api/embed.h"

#include <stdio.h>
#include <string.h>
#include "api/embed_prompt.h"
#include "engine/base/assert.h"
#include "engine/base/utf8.h"

enum { TRUNCATED_NAMED = 64 }; /* indices in X-Truncated-Inputs */

/* One input on its way to an item. */
struct embed_input {
    int32_t index;
    char where[64];
    struct call_ids ids;
    int32_t pool_from;
};

/* ---- decode -------------------------------------------------------------------------------- */

static enum err check_request(const struct call *call, const struct embed_request *request,
    const char *inputs_at, struct err_info *info)
{
    if (request->has_prompt_name && request->has_instruction) {
        return call_fail(info, ERR_INVALID, NULL, "/prompt_name",
            "prompt_name and instruction exclude each other");
    }
    bool ids = request->inputs.form == COMMON_INPUTS_IDS ||
               (request->inputs.form == COMMON_INPUTS_ID_LISTS);
    if (ids && call->limits->embed_ids_refused) {
        return call_fail(info, ERR_INVALID, "token_ids_refused", inputs_at,
            "token ids are not taken here: another vocabulary's would mean other text");
    }
    if (ids && (request->has_prompt_name || request->has_instruction)) {
        return call_fail(info, ERR_INVALID, NULL,
            request->has_prompt_name ? "/prompt_name" : "/instruction",
            "token ids are used as they are: no text can be put before them");
    }
    return ERR_OK;
}

enum err embed_keep(struct call *call, const struct embed_request *request, bool token_vectors,
    const char *inputs_at, struct err_info *info)
{
    struct embed_notes *notes;
    enum err err = call_basics(call, &request->basics, info);
    if (err == ERR_OK) {
        err = check_request(call, request, inputs_at, info);
    }
    if (err == ERR_OK) {
        err = call_array(call, 1, sizeof(*notes), &notes, info);
    }
    if (err == ERR_OK) {
        *notes = (struct embed_notes){.request = request,
            .inputs_at = inputs_at,
            .token_vectors = token_vectors,
            .token_offset = call->model->token_offset};
        call->state = notes;
    }
    return err;
}

static enum err embed_decode(
    struct call *call, const char *body, size_t bytes, struct err_info *info)
{
    enum err err = call_decode(call, &schema_embed_request, body, bytes, info);
    return err != ERR_OK ? err : embed_keep(call, call->request, false, "/inputs", info);
}

/* /embed_all's request as an /embed request: what it lacks is off. */
static enum err embed_all_decode(
    struct call *call, const char *body, size_t bytes, struct err_info *info)
{
    struct embed_request *request;
    enum err err = call_decode_with(
        call, &schema_embed_all_request, body, bytes, sizeof(*request), &request, info);
    if (err != ERR_OK) {
        return err;
    }
    const struct embed_all_request *given = call->request;
    *request = (struct embed_request){.basics = given->basics,
        .inputs = given->inputs,
        .truncate = given->truncate,
        .truncation_direction = given->truncation_direction,
        .prompt_name = given->prompt_name,
        .has_prompt_name = given->has_prompt_name,
        .instruction = given->instruction,
        .has_instruction = given->has_instruction,
        .attention = given->attention,
        .has_attention = given->has_attention};
    call->request = request;
    return embed_keep(call, request, true, "/inputs", info);
}

/* ---- plan: settings ------------------------------------------------------------------------ */

static enum pooling pooling_of(const struct call *call, const struct embed_notes *notes)
{
    static const enum pooling words[] = {
        [EMBED_REQUEST_POOLING_MEAN] = POOLING_MEAN,
        [EMBED_REQUEST_POOLING_CLS] = POOLING_CLS,
        [EMBED_REQUEST_POOLING_LAST] = POOLING_LAST,
        [EMBED_REQUEST_POOLING_EOS] = POOLING_EOS,
        [EMBED_REQUEST_POOLING_WEIGHTED_MEAN] = POOLING_WEIGHTED_MEAN,
    };
    if (notes->token_vectors) {
        return POOLING_NONE;
    }
    return notes->request->has_pooling ? words[notes->request->pooling]
                                       : call->model->embed_pooling;
}

static bool is_bidirectional(const struct call *call, const struct embed_request *request)
{
    return request->has_attention ? request->attention == COMMON_ATTENTION_BIDIRECTIONAL
                                  : call->model->embed_attention == ATTENTION_BIDIRECTIONAL;
}

/* ---- plan: one input ----------------------------------------------------------------------- */

static enum err append_id(
    struct call *call, struct call_ids *ids, int32_t id, struct err_info *info)
{
    int32_t *grown;
    enum err err = call_array(call, (size_t)ids->count + 1, sizeof(*grown), &grown, info);
    if (err != ERR_OK) {
        return err;
    }
    memcpy(grown, ids->ids, (size_t)ids->count * sizeof(*grown));
    grown[ids->count++] = id;
    ids->ids = grown;
    return ERR_OK;
}

/* BOS + prompt and text + EOS, as the vocabulary and the pooling want. */
static enum err render_text(struct call *call, const struct embed_notes *notes,
    const struct bound_text *text, struct embed_input *input, struct err_info *info)
{
    struct embed_prompt prompt;
    const bool first = notes->first_at != NULL && input->index == 0;
    enum err err =
        embed_prompt_find(call, first ? notes->first : notes->request, text, &prompt, info);
    if (err == ERR_OK) {
        err = prompt_render(call, prompt.parts, prompt.count, input->where, &input->ids, info);
    }
    if (err != ERR_OK) {
        return err;
    }
    int32_t eos = tokenizer_special(call->tokenizer, TOKEN_EOS);
    bool wants_eos = tokenizer_adds_eos(call->tokenizer) || pooling_of(call, notes) == POOLING_EOS;
    bool has_eos = input->ids.count > 0 && input->ids.ids[input->ids.count - 1] == eos;
    if (wants_eos && !has_eos) {
        err = append_id(call, &input->ids, eos, info);
    }
    bool skips = prompt.echoes || (call->model->pool_skip_instruction && prompt.text > 0);
    if (err != ERR_OK || !skips) {
        return err;
    }
    /* Rows of the text and what follows it: as many as it has when it stands alone. */
    struct call_ids tail;
    err = prompt_render(
        call, prompt.parts + prompt.text, prompt.count - prompt.text, input->where, &tail, info);
    int32_t bos = tokenizer_adds_bos(call->tokenizer) ? 1 : 0;
    if (err == ERR_OK) {
        int32_t rows = tail.count - bos + (wants_eos && !has_eos ? 1 : 0);
        input->pool_from = MAX(input->ids.count - rows, 0);
    }
    return err;
}

/* Cuts the middle part, between BOS and EOS, down to what fits. */
static enum err fit_context(struct call *call, const struct embed_notes *notes, bool verbatim,
    struct embed_input *input, struct err_info *info)
{
    struct call_ids *ids = &input->ids;
    int32_t cut = ids->count - call->model->context;
    if (cut <= 0) {
        return ERR_OK;
    }
    if (!notes->request->truncate) {
        return call_check_context(call, ids->count, input->where, info);
    }
    const struct tokenizer *tokenizer = call->tokenizer;
    int32_t last = ids->ids[ids->count - 1];
    int32_t head = !verbatim && ids->ids[0] == tokenizer_special(tokenizer, TOKEN_BOS) ? 1 : 0;
    int32_t tail = !verbatim && last == tokenizer_special(tokenizer, TOKEN_EOS) ? 1 : 0;
    if (head + tail >= call->model->context) {
        return call_check_context(call, ids->count, input->where, info);
    }
    bool left = notes->request->truncation_direction == COMMON_TRUNCATION_DIRECTION_LEFT;
    int32_t from = left ? head : ids->count - tail - cut; /* first token that goes */
    memmove(ids->ids + from, ids->ids + from + cut,
        (size_t)(ids->count - from - cut) * sizeof(int32_t));
    ids->count -= cut;
    if (left) {
        input->pool_from = input->pool_from > head ? MAX(input->pool_from - cut, head) : 0;
    }
    input->pool_from = MIN(input->pool_from, ids->count - 1);
    notes->truncated[input->index] = true;
    return ERR_OK;
}

static enum err read_text(struct call *call, const struct embed_notes *notes,
    const struct bound_text *text, struct embed_input *input, struct err_info *info)
{
    if (call_is_blank(text)) {
        return call_fail(info, ERR_EMPTY, NULL, input->where, "the input has no text");
    }
    call->characters += (int64_t)utf8_length(text->bytes, (size_t)text->count);
    enum err err = render_text(call, notes, text, input, info);
    return err != ERR_OK ? err : fit_context(call, notes, false, input, info);
}

static enum err read_ids(struct call *call, const struct embed_notes *notes,
    const struct bound_ints *given, struct embed_input *input, struct err_info *info)
{
    if (given->count == 0) {
        return call_fail(info, ERR_EMPTY, NULL, input->where, "the input has no tokens");
    }
    enum err err = call_check_ids(call, given, input->where, info);
    if (err == ERR_OK) {
        input->ids.count = given->count;
        err = call_array(call, (size_t)given->count, sizeof(int32_t), &input->ids.ids, info);
    }
    if (err != ERR_OK) {
        return err;
    }
    memcpy(input->ids.ids, given->items, (size_t)given->count * sizeof(int32_t));
    return fit_context(call, notes, true, input, info);
}

void embed_name_input(const struct embed_notes *notes, int32_t index, char *out_where, size_t bytes)
{
    const enum common_inputs_form form = notes->request->inputs.form;
    if (notes->first_at != NULL && index == 0) {
        (void)snprintf(out_where, bytes, "%s", notes->first_at);
    } else if (form == COMMON_INPUTS_TEXT || form == COMMON_INPUTS_IDS) {
        (void)snprintf(out_where, bytes, "%s", notes->inputs_at);
    } else {
        (void)snprintf(out_where, bytes, "%s/%d", notes->inputs_at,
            notes->first_at != NULL ? index - 1 : index);
    }
}

static enum err read_input(struct call *call, const struct embed_notes *notes, int32_t index,
    struct embed_input *input, struct err_info *info)
{
    const struct common_inputs *inputs = &notes->request->inputs;
    *input = (struct embed_input){.index = index};
    embed_name_input(notes, index, input->where, sizeof(input->where));
    switch (inputs->form) {
    case COMMON_INPUTS_TEXT:
        return read_text(call, notes, &inputs->text, input, info);
    case COMMON_INPUTS_TEXTS:
        return read_text(call, notes, &inputs->texts.items[index], input, info);
    case COMMON_INPUTS_IDS:
        return read_ids(call, notes, &inputs->ids, input, info);
    case COMMON_INPUTS_ID_LISTS:
        break;
    }
    return read_ids(call, notes, &inputs->id_lists.items[index], input, info);
}

/* ---- plan ---------------------------------------------------------------------------------- */

static int32_t input_count(const struct common_inputs *inputs)
{
    switch (inputs->form) {
    case COMMON_INPUTS_TEXTS:
        return inputs->texts.count;
    case COMMON_INPUTS_ID_LISTS:
        return inputs->id_lists.count;
    case COMMON_INPUTS_TEXT:
    case COMMON_INPUTS_IDS:
        break;
    }
    return 1;
}

static enum err check_capable(
    const struct call *call, const struct embed_notes *notes, int32_t count, struct err_info *info)
{
    const struct embed_request *request = notes->request;
    if (!call->model->can_embed) {
        return call_fail(info, ERR_NOT_CAPABLE, NULL, NULL, "this model makes no vectors");
    }
    if (count == 0) {
        return call_fail(info, ERR_EMPTY, NULL, notes->inputs_at, "the list of inputs is empty");
    }
    if (count > call->limits->items_max) {
        return call_fail(info, ERR_LIMIT, "too_many_inputs", notes->inputs_at,
            "%d inputs are more than %d", count, call->limits->items_max);
    }
    if (request->has_dimensions && request->dimensions > call->model->vector) {
        return call_fail(info, ERR_LIMIT, "dimensions_too_large", "/dimensions",
            "this model's vectors have %d numbers", call->model->vector);
    }
    if (pooling_of(call, notes) == POOLING_EOS &&
        tokenizer_special(call->tokenizer, TOKEN_EOS) < 0) {
        return call_fail(info, ERR_NOT_CAPABLE, NULL, "/pooling", "this model has no EOS token");
    }
    return ERR_OK;
}

/* "1,7,9": at most 64 indices, then how many more. */
static enum err list_truncated(
    struct call *call, const struct embed_notes *notes, struct err_info *info)
{
    struct buf text;
    buf_init(&text, MEM_REQUESTS, 4096);
    for (int32_t i = 0; i < notes->input_count; i++) {
        if (notes->truncated[i] && call->truncated_count++ < TRUNCATED_NAMED) {
            buf_printf(&text, "%s%d", text.count > 0 ? "," : "", i);
        }
    }
    if (call->truncated_count > TRUNCATED_NAMED) {
        buf_printf(&text, ",+%d", call->truncated_count - TRUNCATED_NAMED);
    }
    enum err err = text.failed ? call_no_memory(info) : ERR_OK;
    if (err == ERR_OK && call->truncated_count > 0) {
        call->truncated_inputs = arena_copy(call->arena, text.bytes, text.count);
        err = call->truncated_inputs != NULL ? ERR_OK : call_no_memory(info);
    }
    buf_free(&text);
    return err;
}

/* Failures that are one input's own; all others are the request's. */
static bool is_of_input(enum err err)
{
    return err == ERR_EMPTY || err == ERR_INVALID || err == ERR_CONTEXT || err == ERR_TOKENIZER;
}

static enum err note_failure(struct call *call, struct embed_notes *notes, int32_t index,
    const struct err_info *failed, struct err_info *info)
{
    struct embed_failure *failure = &notes->failures[notes->failure_count];
    failure->index = index;
    failure->code = failed->word[0] != '\0'
                        ? arena_copy(call->arena, failed->word, strlen(failed->word))
                        : err_word(failed->code);
    failure->message = arena_copy(call->arena, failed->text, strlen(failed->text));
    if (failure->code == NULL || failure->message == NULL) {
        return call_no_memory(info);
    }
    notes->failure_count++;
    return ERR_OK;
}

static enum err plan_input(struct call *call, struct embed_notes *notes, int32_t index,
    struct plan_item *out_item, struct err_info *info)
{
    const struct embed_request *request = notes->request;
    struct embed_input input;
    enum err err = read_input(call, notes, index, &input, info);
    if (err != ERR_OK) {
        return err;
    }
    *out_item = (struct plan_item){.tokens = input.ids.ids,
        .token_count = input.ids.count,
        .context_count = is_bidirectional(call, request) ? input.ids.count : 0,
        .pooling = pooling_of(call, notes),
        .pool_from = notes->token_vectors ? 0 : input.pool_from,
        .token_vectors = notes->token_vectors,
        .normalize = request->normalize,
        .dimensions = request->has_dimensions ? request->dimensions : 0};
    return ERR_OK;
}

/* An item for each input, or, with on_error "report", for each that has no failure of its own. */
static enum err plan_inputs(
    struct call *call, struct embed_notes *notes, struct plan_item *items, struct err_info *info)
{
    const bool reports = notes->request->on_error == EMBED_REQUEST_ON_ERROR_REPORT;
    struct err_info first = {0};
    int64_t tokens = 0;
    int32_t count = 0;
    for (int32_t i = 0; i < notes->input_count; i++) {
        struct err_info failed = {0};
        enum err err = plan_input(call, notes, i, &items[count], &failed);
        if (err == ERR_OK) {
            tokens += items[count].token_count;
            notes->input_of[count++] = i;
        } else if (!reports || !is_of_input(err)) {
            *info = failed;
            return err;
        } else {
            first = notes->failure_count == 0 ? failed : first;
            err = note_failure(call, notes, i, &failed, info);
        }
        if (err == ERR_OK && tokens > call->limits->embed_tokens_max) {
            err = call_fail(info, ERR_LIMIT, "too_many_tokens", notes->inputs_at,
                "the inputs hold more than %d tokens", call->limits->embed_tokens_max);
        }
        if (err != ERR_OK) {
            return err;
        }
    }
    if (count == 0) { /* nothing is left to succeed */
        *info = first;
        return first.code;
    }
    call->plan = (struct plan){.kind = KIND_EMBED, .items = items, .item_count = count};
    return ERR_OK;
}

enum err embed_plan(struct call *call, struct err_info *info)
{
    struct embed_notes *notes = call->state;
    const int32_t count = input_count(&notes->request->inputs);
    struct plan_item *items = NULL;
    enum err err = check_capable(call, notes, count, info);
    if (err == ERR_OK) {
        err = call_array(call, (size_t)count, sizeof(*items), &items, info);
    }
    if (err == ERR_OK) {
        err = call_array(call, (size_t)count, sizeof(bool), &notes->truncated, info);
    }
    if (err == ERR_OK) {
        err = call_array(call, (size_t)count, sizeof(int32_t), &notes->input_of, info);
    }
    if (err == ERR_OK && notes->request->on_error == EMBED_REQUEST_ON_ERROR_REPORT) {
        err = call_array(call, (size_t)count, sizeof(*notes->failures), &notes->failures, info);
    }
    if (err != ERR_OK) {
        return err;
    }
    notes->input_count = count;
    err = plan_inputs(call, notes, items, info);
    return err != ERR_OK ? err : list_truncated(call, notes, info);
}

const struct endpoint endpoint_embed = {.name = "embed",
    .kind = KIND_EMBED,
    .family = FAMILY_TEI,
    .decode = embed_decode,
    .plan = embed_plan,
    .encode = embed_encode};

const struct endpoint endpoint_embed_all = {.name = "embed_all",
    .kind = KIND_EMBED,
    .family = FAMILY_TEI,
    .decode = embed_all_decode,
    .plan = embed_plan,
    .encode = embed_encode};
