/*
 * See chat_moderation.h.
 *
 * What surprises: an answer is judged as a response to the question, which is what the template
 * asks about, and not as if it were a question itself. A text that cannot be judged (too long with
 * the template around it, blank, or no token for each verdict) is told in the reply where only a
 * score was asked for, refused where it would have to be blocked, and withheld if it is an answer.
 */
#include "api/chat_moderation.h"

#include <string.h>
#include "api/moderation.h"

/* ---- plan ---------------------------------------------------------------------------------- */

/* The last message of the user; "" when there is none. */
static enum err last_question(struct call *call, const struct common_messages *messages,
    struct bound_text *out_text, struct err_info *info)
{
    int32_t i = messages->count - 1;
    while (i >= 0 && messages->items[i].role != COMMON_MESSAGE_ROLE_USER) {
        i--;
    }
    if (i < 0 || messages->items[i].content.form == COMMON_MESSAGE_CONTENT_TEXT) {
        *out_text = i < 0 ? call_text("") : messages->items[i].content.text;
        return ERR_OK;
    }
    const struct common_message_content *content = &messages->items[i].content;
    struct bound_text *texts = NULL;
    enum err err = call_array(call, (size_t)content->parts.count, sizeof(*texts), &texts, info);
    for (int32_t k = 0; err == ERR_OK && k < content->parts.count; k++) {
        texts[k] = content->parts.items[k].text;
    }
    return err == ERR_OK ? moderation_join(call, texts, content->parts.count, out_text, info) : err;
}

/* call->plan to judge the question, the answers, or both in this order. */
static enum err plan_verdicts(struct call *call, bool question, bool answers, struct err_info *info)
{
    const struct chat_notes *notes = call->state;
    struct moderation_case *cases = NULL;
    int32_t first = question ? 1 : 0;
    int32_t count = first + (answers ? notes->kept->plan.item_count : 0);
    if (!call->model->can_classify) {
        return call_fail(info, ERR_NOT_CAPABLE, NULL, NULL, "this model does not classify");
    }
    enum err err = call_array(call, (size_t)count, sizeof(*cases), &cases, info);
    for (int32_t i = 0; err == ERR_OK && i < count; i++) {
        cases[i] = (struct moderation_case){
            .prompt = notes->question, .response = call_text(""), .answered = i >= first};
        if (i >= first) {
            const struct step_result *step = &notes->kept->results[i - first].steps[0];
            cases[i].response = (struct bound_text){step->text, step->text_bytes};
        }
    }
    return err == ERR_OK ? moderation_plan(call, cases, count, info) : err;
}

/* A text that has no verdict, as opposed to a server that has no room. */
static bool is_unavailable(enum err err)
{
    return err == ERR_NOT_CAPABLE || err == ERR_EMPTY || err == ERR_CONTEXT;
}

static enum err note_unavailable(
    struct call *call, const struct err_info *why, const char **out_text, struct err_info *info)
{
    const char *text = arena_copy(call->arena, why->text, strlen(why->text));
    if (text == NULL) {
        return call_no_memory(info);
    }
    *out_text = text;
    return ERR_OK;
}

static enum err read_policy(struct call *call,
    const struct v1_chat_completions_request_moderation *given, struct err_info *info)
{
    struct chat_notes *notes = call->state;
    notes->blocks_input = given->policy.input.mode == V1_CHAT_COMPLETIONS_REQUEST_JUDGED_MODE_BLOCK;
    notes->blocks_output =
        given->policy.output.mode == V1_CHAT_COMPLETIONS_REQUEST_JUDGED_MODE_BLOCK;
    if (moderation_is_alias(&given->model) ||
        call_check_model(call, &given->model, info) == ERR_OK) {
        return ERR_OK;
    }
    return call_fail(
        info, ERR_NOT_FOUND, "model_not_found", "/moderation/model", "no such model is served");
}

enum err chat_moderation_plan(struct call *call, struct err_info *info)
{
    const struct v1_chat_completions_request *request = call->request;
    struct chat_notes *notes = call->state;
    struct err_info why = {.offset = -1};
    enum err err = read_policy(call, &request->moderation, info);
    if (err == ERR_OK) {
        err = last_question(call, &request->messages, &notes->question, info);
    }
    if (err != ERR_OK) {
        return err;
    }
    notes->text.verdicts = true;
    call->asks_more = true;
    call->plan.stream = call->plan.stream && !notes->blocks_output;
    notes->answers = call->plan;
    err = plan_verdicts(call, true, false, &why);
    if (is_unavailable(err) && (notes->blocks_input || notes->blocks_output)) {
        const char *where = err == ERR_NOT_CAPABLE ? "/moderation/policy" : "/messages";
        return call_fail(
            info, err, NULL, where, "what is to be blocked cannot be judged: %s", why.text);
    }
    if (is_unavailable(err)) {
        err = note_unavailable(call, &why, &notes->input.unavailable, info);
    } else if (err != ERR_OK) {
        *info = why;
    }
    notes->stage = notes->blocks_input ? CHAT_QUESTION : CHAT_ANSWERS;
    if (notes->stage == CHAT_ANSWERS) {
        call->plan = notes->answers;
    }
    return err;
}

/* ---- between jobs -------------------------------------------------------------------------- */

/* Replaces an array of the job's by a copy in the arena; NULL stays. */
static enum err copy(
    struct call *call, size_t count, size_t size, void *pointer, struct err_info *info)
{
    const void *from;
    void *to = NULL;
    memcpy(&from, pointer, sizeof(from));
    if (from == NULL) {
        return ERR_OK;
    }
    enum err err = call_array(call, count, size, &to, info);
    if (err == ERR_OK && count > 0) {
        memcpy(to, from, count * size);
    }
    if (err == ERR_OK) {
        memcpy(pointer, &to, sizeof(to));
    }
    return err;
}

static enum err copy_step(struct call *call, const struct step_result *from, int32_t top,
    struct step_result *to, struct err_info *info)
{
    size_t tokens = (size_t)from->token_count;
    *to = (struct step_result){.finish = from->finish,
        .tokens = from->tokens,
        .logprobs = from->logprobs,
        .token_count = from->token_count,
        .top = top > 0 ? from->top : NULL,
        .text = from->text,
        .text_bytes = from->text_bytes};
    enum err err = copy(call, tokens, sizeof(*to->tokens), &to->tokens, info);
    if (err == ERR_OK) {
        err = copy(call, tokens, sizeof(*to->logprobs), &to->logprobs, info);
    }
    if (err == ERR_OK) {
        err = copy(call, tokens * (size_t)MAX(top, 0), sizeof(*to->top), &to->top, info);
    }
    return err == ERR_OK ? copy(call, (size_t)from->text_bytes, 1, &to->text, info) : err;
}

/* What the reply needs of the answers; without a job, answers of which nothing was generated. */
static enum err keep(struct call *call, const struct job *job, struct err_info *info)
{
    struct chat_notes *notes = call->state;
    size_t count = (size_t)notes->answers.item_count;
    struct step_result *steps = NULL;
    struct job *kept = NULL;
    enum err err = call_array(call, 1, sizeof(*kept), &kept, info);
    if (err == ERR_OK) {
        err = call_array(call, count, sizeof(*kept->results), &kept->results, info);
    }
    if (err == ERR_OK) {
        err = call_array(call, count, sizeof(*steps), &steps, info);
    }
    for (size_t i = 0; err == ERR_OK && i < count; i++) {
        struct item_result *result = &kept->results[i];
        *result = (struct item_result){
            .steps = &steps[i], .prompt_tokens = notes->answers.items[i].token_count};
        if (job != NULL) {
            result->prompt_tokens = job->results[i].prompt_tokens;
            result->cached_tokens = job->results[i].cached_tokens;
            result->generated_tokens = job->results[i].generated_tokens;
            err = copy_step(call, job->results[i].steps, notes->text.top_logprobs, &steps[i], info);
        }
    }
    if (err == ERR_OK) {
        kept->plan = notes->answers;
        notes->kept = kept;
    }
    return err;
}

/* Results from `first` on, of the question or of answers. */
static enum err take(struct call *call, const struct job *job, int32_t first, int32_t end,
    float (*harmful)(const struct item_result *), struct chat_verdicts *out_verdicts,
    struct err_info *info)
{
    float *values = NULL;
    enum err err = call_array(call, (size_t)(end - first), sizeof(*values), &values, info);
    for (int32_t i = first; err == ERR_OK && i < end; i++) {
        values[i - first] = harmful(&job->results[i]);
    }
    if (err == ERR_OK) {
        *out_verdicts = (struct chat_verdicts){.harmful = values, .count = end - first};
    }
    return err;
}

/* Every answer if none could be judged, else those that are flagged. */
static enum err withhold(struct call *call, bool all, struct err_info *info)
{
    struct chat_notes *notes = call->state;
    int32_t count = notes->answers.item_count;
    bool *withheld = NULL;
    enum err err = call_array(call, (size_t)count, sizeof(*withheld), &withheld, info);
    for (int32_t i = 0; err == ERR_OK && i < count; i++) {
        withheld[i] = all || moderation_flags(call, notes->output.harmful[i]);
    }
    notes->text.withheld = withheld;
    return err;
}

static enum err after_question(
    struct call *call, const struct job *job, bool *out_more, struct err_info *info)
{
    struct chat_notes *notes = call->state;
    enum err err = take(call, job, 0, 1, moderation_harmful, &notes->input, info);
    if (err != ERR_OK) {
        return err;
    }
    if (moderation_flags(call, notes->input.harmful[0])) {
        err = keep(call, NULL, info);
        return err == ERR_OK ? withhold(call, true, info) : err;
    }
    call->plan = notes->answers;
    notes->stage = CHAT_ANSWERS;
    *out_more = true;
    return ERR_OK;
}

static enum err after_answers(
    struct call *call, const struct job *job, bool *out_more, struct err_info *info)
{
    struct chat_notes *notes = call->state;
    struct err_info why = {.offset = -1};
    bool question = notes->input.harmful == NULL && notes->input.unavailable == NULL;
    enum err err = keep(call, job, info);
    if (err != ERR_OK) {
        return err;
    }
    notes->stage = CHAT_REST;
    *out_more = true;
    err = plan_verdicts(call, question, true, &why);
    if (err == ERR_OK) {
        return ERR_OK;
    }
    if (!is_unavailable(err)) {
        *info = why;
        return err;
    }
    err = note_unavailable(call, &why, &notes->output.unavailable, info);
    if (err == ERR_OK && notes->blocks_output) {
        err = withhold(call, true, info);
    }
    *out_more = question;
    return err == ERR_OK && question ? plan_verdicts(call, true, false, info) : err;
}

static enum err after_rest(struct call *call, const struct job *job, struct err_info *info)
{
    struct chat_notes *notes = call->state;
    int32_t count = job->plan.item_count;
    int32_t first = 0;
    enum err err = ERR_OK;
    if (notes->input.harmful == NULL && notes->input.unavailable == NULL) {
        err = take(call, job, 0, 1, moderation_harmful, &notes->input, info);
        first = 1;
    }
    if (err == ERR_OK && notes->output.unavailable == NULL) {
        err = take(call, job, first, count, moderation_harmful_response, &notes->output, info);
        if (err == ERR_OK && notes->blocks_output) {
            err = withhold(call, false, info);
        }
    }
    return err;
}

enum err chat_moderation_more(
    struct call *call, const struct job *job, bool *out_more, struct err_info *info)
{
    const struct chat_notes *notes = call->state;
    enum err err = call_job_error(job, NULL, info);
    *out_more = false;
    if (err != ERR_OK) {
        return err;
    }
    switch (notes->stage) {
    case CHAT_QUESTION:
        return after_question(call, job, out_more, info);
    case CHAT_ANSWERS:
        return after_answers(call, job, out_more, info);
    case CHAT_REST:
        break;
    }
    return after_rest(call, job, info);
}

/* ---- the reply ----------------------------------------------------------------------------- */

static void write_side(struct json_out *out, const struct call *call, const char *side,
    const struct chat_verdicts *verdicts)
{
    json_out_key(out, side);
    json_out_object(out);
    json_out_key(out, "type");
    if (verdicts->unavailable != NULL) {
        json_out_string(out, "error");
        json_out_key(out, "code");
        json_out_string(out, "moderation_unavailable");
        json_out_key(out, "message");
        json_out_string(out, verdicts->unavailable);
        json_out_end(out);
        return;
    }
    json_out_string(out, "moderation_results");
    json_out_key(out, "model");
    json_out_string(out, call_model_name(call));
    json_out_key(out, "results");
    json_out_array(out);
    for (int32_t i = 0; i < verdicts->count; i++) {
        json_out_object(out);
        json_out_key(out, "type");
        json_out_string(out, "moderation_result");
        json_out_key(out, "model");
        json_out_string(out, call_model_name(call));
        moderation_write_verdict(out, call, verdicts->harmful[i]);
        json_out_end(out);
    }
    json_out_end(out);
    json_out_end(out);
}

void chat_moderation_write(struct json_out *out, const struct call *call)
{
    const struct chat_notes *notes = call->state;
    json_out_key(out, "moderation");
    json_out_object(out);
    write_side(out, call, "input", &notes->input);
    write_side(out, call, "output", &notes->output);
    json_out_end(out);
}
