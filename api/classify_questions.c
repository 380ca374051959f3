/*
 * The questions form of /classify: predicates, choices and scores about one input. The input stands
 * first in every prompt, so that all questions branch from one beginning.
 */
#include "api/classify.h"

#include <stdio.h>
#include <string.h>
#include "engine/base/utf8.h"

static const char *const YES_NO[] = {" yes", " no"};

struct questions_notes {
    struct bound_text input;
    struct decision *decisions; /* [question count] */
};

/* ---- checks a schema cannot say ------------------------------------------------------------ */

static enum err fail_at(
    struct err_info *info, int32_t index, const char *rest, const char *word, const char *text)
{
    char where[96];
    (void)snprintf(where, sizeof(where), "/questions/%d%s", index, rest);
    return call_fail(info, ERR_INVALID, word, where, "%s", text);
}

/* "true" the text and true the boolean are two values. */
static bool same_value(const struct classify_request_questions_item_choices_item *a,
    const struct classify_request_questions_item_choices_item *b)
{
    if (a->value.form != b->value.form) {
        return false;
    }
    return a->value.form == CLASSIFY_REQUEST_QUESTIONS_ITEM_CHOICES_ITEM_VALUE_TRUTH
               ? a->value.truth == b->value.truth
               : strcmp(a->value.text.bytes, b->value.text.bytes) == 0;
}

static enum err check_question(
    const struct classify_request_questions *questions, int32_t index, struct err_info *info)
{
    const struct classify_request_questions_item *question = &questions->items[index];
    bool choice = question->type == CLASSIFY_REQUEST_QUESTIONS_ITEM_TYPE_CHOICE;
    bool score = question->type == CLASSIFY_REQUEST_QUESTIONS_ITEM_TYPE_SCORE;
    if (choice != question->has_choices) {
        return fail_at(info, index, "/choices", choice ? "required" : NULL,
            "choices belong to a question of type choice, and only there");
    }
    if (score != question->has_levels) {
        return fail_at(info, index, "/levels", score ? "required" : NULL,
            "levels belong to a question of type score, and only there");
    }
    for (int32_t i = 0; i < index && question->has_name; i++) {
        const struct classify_request_questions_item *other = &questions->items[i];
        if (other->has_name && strcmp(other->name.bytes, question->name.bytes) == 0) {
            return fail_at(info, index, "/name", NULL, "two questions have one name");
        }
    }
    for (int32_t i = 0; choice && i < question->choices.count; i++) {
        for (int32_t k = 0; k < i; k++) {
            if (same_value(&question->choices.items[i], &question->choices.items[k])) {
                return fail_at(info, index, "/choices", NULL, "a value occurs twice");
            }
        }
    }
    return ERR_OK;
}

/* A string, or user messages joined by a line break. */
static enum err read_input(struct call *call, struct bound_text *out_input, struct err_info *info)
{
    const struct classify_request *request = call->request;
    if (!request->has_input) {
        return call_fail(info, ERR_INVALID, "required", "/input", "questions need an input");
    }
    if (request->input.form == CLASSIFY_REQUEST_INPUT_TEXT) {
        *out_input = request->input.text;
        return ERR_OK;
    }
    if (request->input.form == CLASSIFY_REQUEST_INPUT_TEXTS && request->input.texts.count > 0) {
        return call_fail(info, ERR_INVALID, "wrong_type", "/input",
            "must be a string or a list of user messages");
    }
    struct buf text;
    buf_init(&text, MEM_REQUESTS, (size_t)8 << 20);
    bool messages = request->input.form == CLASSIFY_REQUEST_INPUT_MESSAGES;
    for (int32_t i = 0; messages && i < request->input.messages.count; i++) {
        buf_printf(
            &text, "%s%s", i > 0 ? "\n" : "", request->input.messages.items[i].content.bytes);
    }
    char *copy =
        text.failed ? NULL : arena_copy(call->arena, text.count > 0 ? text.bytes : "", text.count);
    *out_input = (struct bound_text){copy, (int32_t)text.count};
    buf_free(&text);
    return copy != NULL ? ERR_OK : call_no_memory(info);
}

/* ---- plan ---------------------------------------------------------------------------------- */

static const char *value_text(const struct classify_request_questions_item_choices_item *choice)
{
    if (choice->value.form == CLASSIFY_REQUEST_QUESTIONS_ITEM_CHOICES_ITEM_VALUE_TRUTH) {
        return choice->value.truth ? "true" : "false";
    }
    return choice->value.text.bytes;
}

/* "A. billing: money\nB. shipping\n", or the levels. */
static enum err list_options(struct call *call,
    const struct classify_request_questions_item *question, const char *const *codes,
    struct bound_text *out_list, struct err_info *info)
{
    struct buf text;
    buf_init(&text, MEM_REQUESTS, (size_t)8 << 20);
    for (int32_t i = 0; i < question->choices.count; i++) {
        const struct classify_request_questions_item_choices_item *choice =
            &question->choices.items[i];
        bool described = choice->has_description && choice->description.count > 0;
        buf_printf(&text, "%s. %s%s%s\n", codes[i] + 1, value_text(choice), described ? ": " : "",
            described ? choice->description.bytes : "");
    }
    for (int32_t i = 0; i < question->levels.count; i++) {
        buf_printf(&text, "%s. %s\n", codes[i] + 1, question->levels.items[i].label.bytes);
    }
    char *copy = text.failed ? NULL : arena_copy(call->arena, text.bytes, text.count);
    *out_list = (struct bound_text){copy, (int32_t)text.count};
    buf_free(&text);
    return copy != NULL ? ERR_OK : call_no_memory(info);
}

static enum err plan_question(struct call *call, struct questions_notes *notes,
    struct decision_list *list, int32_t index, struct err_info *info)
{
    const struct classify_request *request = call->request;
    const struct classify_request_questions_item *question = &request->questions.items[index];
    bool predicate = question->type == CLASSIFY_REQUEST_QUESTIONS_ITEM_TYPE_PREDICATE;
    int32_t count = predicate ? 2 : question->choices.count + question->levels.count;
    struct bound_text options = call_text("");
    const char **codes = NULL;
    enum err err = decision_codes(call, count, &codes, info);
    if (err == ERR_OK && !predicate) {
        err = list_options(call, question, codes, &options, info);
    }
    if (err != ERR_OK) {
        return err;
    }
    const struct prompt_part parts[] = {{call_text("Text: "), true}, {notes->input, false},
        {call_text("\n\nQuestion: "), true}, {question->instructions, false},
        {call_text(predicate ? " Answer yes or no.\n" : "\n"), true}, {options, false}};
    return decision_add(call, list, parts, (int32_t)ARRAY_COUNT(parts),
        "\nAnswer:", predicate ? YES_NO : codes, count, "/input", &notes->decisions[index], info);
}

enum err classify_questions_plan(struct call *call, struct err_info *info)
{
    const struct classify_request_questions *questions =
        &((const struct classify_request *)call->request)->questions;
    struct questions_notes *notes = NULL;
    struct decision_list list = {0};
    enum err err = call_array(call, 1, sizeof(*notes), &notes, info);
    if (err == ERR_OK) {
        err = call_array(
            call, (size_t)questions->count, sizeof(*notes->decisions), &notes->decisions, info);
    }
    if (err == ERR_OK) {
        err = read_input(call, &notes->input, info);
    }
    if (err == ERR_OK && call_is_blank(&notes->input)) {
        err = call_fail(info, ERR_EMPTY, NULL, "/input", "the input has no text");
    }
    if (err == ERR_OK) {
        err = decision_list_init(call, &list, info);
    }
    for (int32_t i = 0; err == ERR_OK && i < questions->count; i++) {
        err = check_question(questions, i, info);
        if (err == ERR_OK) {
            err = plan_question(call, notes, &list, i, info);
        }
    }
    if (err != ERR_OK) {
        return err;
    }
    call->state = notes;
    call->characters = (int64_t)utf8_length(notes->input.bytes, (size_t)notes->input.count);
    call->plan =
        (struct plan){.kind = KIND_CLASSIFY, .items = list.items, .item_count = list.item_count};
    return ERR_OK;
}

/* ---- encode -------------------------------------------------------------------------------- */

static void write_value(
    struct json_out *out, const struct classify_request_questions_item_choices_item *choice)
{
    if (choice->value.form == CLASSIFY_REQUEST_QUESTIONS_ITEM_CHOICES_ITEM_VALUE_TRUTH) {
        json_out_bool(out, choice->value.truth);
    } else {
        json_out_string(out, choice->value.text.bytes);
    }
}

static void write_predicate(struct json_out *out, const struct decision_result *result)
{
    json_out_key(out, "probability");
    json_out_float(out, result->probabilities[0]);
}

static void write_choice(struct json_out *out,
    const struct classify_request_questions_item *question, const struct decision_result *result)
{
    json_out_key(out, "choice");
    write_value(out, &question->choices.items[result->choice]);
    json_out_key(out, "confidence");
    json_out_float(out, result->confidence);
    json_out_key(out, "probabilities");
    json_out_array(out);
    for (int32_t i = 0; i < question->choices.count; i++) {
        json_out_object(out);
        json_out_key(out, "value");
        write_value(out, &question->choices.items[i]);
        json_out_key(out, "probability");
        json_out_float(out, result->probabilities[i]);
        json_out_end(out);
    }
    json_out_end(out);
}

static void write_score(struct json_out *out,
    const struct classify_request_questions_item *question, const struct decision_result *result)
{
    double score = 0;
    for (int32_t i = 0; i < question->levels.count; i++) {
        score += i * (double)result->probabilities[i];
    }
    json_out_key(out, "score");
    json_out_float(out, (float)score);
    json_out_key(out, "confidence");
    json_out_float(out, result->confidence);
    json_out_key(out, "probabilities");
    json_out_array(out);
    for (int32_t i = 0; i < question->levels.count; i++) {
        json_out_object(out);
        json_out_key(out, "value");
        json_out_int(out, i);
        json_out_key(out, "label");
        json_out_string(out, question->levels.items[i].label.bytes);
        json_out_key(out, "probability");
        json_out_float(out, result->probabilities[i]);
        json_out_end(out);
    }
    json_out_end(out);
}

static void write_answer(struct json_out *out,
    const struct classify_request_questions_item *question, const struct decision_result *result)
{
    static const char *const types[] = {"predicate", "choice", "score"};
    json_out_object(out);
    json_out_key(out, "type");
    json_out_string(out, types[question->type]);
    json_out_key(out, "name");
    json_out_string(out, question->has_name ? question->name.bytes : NULL);
    switch (question->type) {
    case CLASSIFY_REQUEST_QUESTIONS_ITEM_TYPE_PREDICATE:
        write_predicate(out, result);
        break;
    case CLASSIFY_REQUEST_QUESTIONS_ITEM_TYPE_CHOICE:
        write_choice(out, question, result);
        break;
    case CLASSIFY_REQUEST_QUESTIONS_ITEM_TYPE_SCORE:
        write_score(out, question, result);
        break;
    }
    json_out_end(out);
}

enum err classify_questions_encode(
    struct call *call, const struct job *job, struct json_out *out, struct err_info *info)
{
    const struct questions_notes *notes = call->state;
    const struct classify_request *request = call->request;
    json_out_object(out);
    json_out_key(out, "model");
    json_out_string(out, call_model_name(call));
    json_out_key(out, "answers");
    json_out_array(out);
    for (int32_t i = 0; i < request->questions.count; i++) {
        struct decision_result result;
        enum err err = decision_read(call, job, &notes->decisions[i], &result, info);
        if (err != ERR_OK) {
            return err;
        }
        write_answer(out, &request->questions.items[i], &result);
    }
    json_out_end(out);
    json_out_key(out, "usage");
    call_write_input_usage(out, call, job, true);
    json_out_end(out);
    return ERR_OK;
}
