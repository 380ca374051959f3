/*
 * The labels form of /classify. Labels are offered as letter codes and the code is read, so a
 * label's own spelling does not matter; with multi_label, and for a single label, each label is a
 * yes-or-no question of its own.
 *
 * What surprises: every text is asked twice, the labels sorted by their bytes and in reverse, and
 * the answer is the geometric mean. Models prefer the first code, small ones so much that swapping
 * two labels moves a probability by 0.8. Sorting makes the answer one of the set of labels, the
 * same in whatever order the client gives them. The mean cancels what a place adds to the logit of
 * its code: for two labels wholly; among more, a middle place keeps what it is short of the ends.
 */
#include "api/classify.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "engine/base/rng.h"
#include "engine/base/utf8.h"

enum { ORDERS = 2 }; /* sorted, and in reverse */

static const char *const YES_NO[] = {" yes", " no"};
static const char DEFAULT_INSTRUCTIONS[] = "Which label fits the text best?";

struct labels_notes {
    const struct bound_text *texts;
    int32_t text_count;
    bool one;                     /* a string was given, not a list */
    bool object_reply;            /* `input` was given, not `inputs` */
    bool separate;                /* a question for each label */
    int32_t order[LIMIT_CHOICES]; /* labels by their bytes */
    struct decision *decisions;   /* [text_count][ORDERS], or [text_count][label_count] */
};

/* ---- plan ---------------------------------------------------------------------------------- */

static enum err find_texts(
    const struct classify_request *request, struct labels_notes *notes, struct err_info *info)
{
    if (request->has_inputs) {
        notes->one = request->inputs.form == CLASSIFY_REQUEST_INPUTS_TEXT;
        notes->texts = notes->one ? &request->inputs.text : request->inputs.texts.items;
        notes->text_count = notes->one ? 1 : request->inputs.texts.count;
        return ERR_OK;
    }
    if (!request->has_input) {
        return call_fail(info, ERR_INVALID, "required", "/inputs", "labels need inputs");
    }
    if (request->input.form == CLASSIFY_REQUEST_INPUT_MESSAGES) {
        return call_fail(
            info, ERR_INVALID, "wrong_type", "/input", "must be a string or a list of strings");
    }
    notes->object_reply = true;
    notes->one = request->input.form == CLASSIFY_REQUEST_INPUT_TEXT;
    notes->texts = notes->one ? &request->input.text : request->input.texts.items;
    notes->text_count = notes->one ? 1 : request->input.texts.count;
    return ERR_OK;
}

static enum err check_labels(const struct classify_request *request, struct err_info *info)
{
    for (int32_t i = 0; i < request->labels.count; i++) {
        for (int32_t k = 0; k < i; k++) {
            if (strcmp(request->labels.items[i].bytes, request->labels.items[k].bytes) == 0) {
                char where[32];
                (void)snprintf(where, sizeof(where), "/labels/%d", i);
                return call_fail(info, ERR_INVALID, NULL, where, "a label occurs twice");
            }
        }
    }
    return ERR_OK;
}

static void sort_by_bytes(const struct classify_request *request, int32_t *order)
{
    const struct bound_text *labels = request->labels.items;
    for (int32_t i = 0; i < request->labels.count; i++) {
        int32_t at = i;
        for (; at > 0 && strcmp(labels[order[at - 1]].bytes, labels[i].bytes) > 0; at--) {
            order[at] = order[at - 1];
        }
        order[at] = i;
    }
}

/* The label that stands at place `at` of a list. */
static int32_t label_at(
    const struct labels_notes *notes, int32_t label_count, int32_t reverse, int32_t at)
{
    return notes->order[reverse != 0 ? label_count - 1 - at : at];
}

static struct bound_text instructions_of(const struct classify_request *request)
{
    return request->has_instructions ? request->instructions : call_text(DEFAULT_INSTRUCTIONS);
}

/* "A. pos\nB. neg\n" */
static enum err list_labels(struct call *call, const struct labels_notes *notes, int32_t reverse,
    const char *const *codes, struct bound_text *out_list, struct err_info *info)
{
    const struct classify_request *request = call->request;
    struct buf text;
    buf_init(&text, MEM_REQUESTS, (size_t)8 << 20);
    for (int32_t i = 0; i < request->labels.count; i++) {
        int32_t label = label_at(notes, request->labels.count, reverse, i);
        buf_printf(&text, "%s. %s\n", codes[i] + 1, request->labels.items[label].bytes);
    }
    char *copy = text.failed ? NULL : arena_copy(call->arena, text.bytes, text.count);
    size_t count = text.count;
    buf_free(&text);
    if (copy == NULL) {
        return call_no_memory(info);
    }
    *out_list = (struct bound_text){copy, (int32_t)count};
    return ERR_OK;
}

/* The instructions stand first: many texts then share a beginning. */
static enum err plan_order(struct call *call, struct labels_notes *notes,
    struct decision_list *list, int32_t index, int32_t reverse, const char *where,
    struct err_info *info)
{
    const struct classify_request *request = call->request;
    struct bound_text labels;
    const char **codes = NULL;
    enum err err = decision_codes(call, request->labels.count, &codes, info);
    if (err == ERR_OK) {
        err = list_labels(call, notes, reverse, codes, &labels, info);
    }
    if (err != ERR_OK) {
        return err;
    }
    const struct prompt_part parts[] = {{instructions_of(request), false},
        {call_text("\n\nLabels:\n"), true}, {labels, false}, {call_text("\nText: "), true},
        {notes->texts[index], false}, {call_text("\n"), true}};
    return decision_add(call, list, parts, (int32_t)ARRAY_COUNT(parts), "\nLabel:", codes,
        request->labels.count, where, &notes->decisions[index * ORDERS + reverse], info);
}

static enum err plan_choice(struct call *call, struct labels_notes *notes,
    struct decision_list *list, int32_t index, const char *where, struct err_info *info)
{
    enum err err = ERR_OK;
    for (int32_t reverse = 0; err == ERR_OK && reverse < ORDERS; reverse++) {
        err = plan_order(call, notes, list, index, reverse, where, info);
    }
    return err;
}

static enum err plan_separate(struct call *call, struct labels_notes *notes,
    struct decision_list *list, int32_t index, const char *where, struct err_info *info)
{
    const struct classify_request *request = call->request;
    for (int32_t i = 0; i < request->labels.count; i++) {
        const struct prompt_part parts[] = {{instructions_of(request), false},
            {call_text("\n\nText: "), true}, {notes->texts[index], false},
            {call_text("\n\nDoes the label \""), true}, {request->labels.items[i], false},
            {call_text("\" fit this text? Answer yes or no.\n"), true}};
        enum err err =
            decision_add(call, list, parts, (int32_t)ARRAY_COUNT(parts), "\nAnswer:", YES_NO, 2,
                where, &notes->decisions[index * request->labels.count + i], info);
        if (err != ERR_OK) {
            return err;
        }
    }
    return ERR_OK;
}

static enum err plan_text(struct call *call, struct labels_notes *notes, struct decision_list *list,
    int32_t index, struct err_info *info)
{
    char where[48];
    const char *key = notes->object_reply ? "/input" : "/inputs";
    (void)snprintf(where, sizeof(where), "%s", key);
    if (!notes->one) {
        (void)snprintf(where, sizeof(where), "%s/%d", key, index);
    }
    if (call_is_blank(&notes->texts[index])) {
        return call_fail(info, ERR_EMPTY, NULL, where, "the input has no text");
    }
    call->characters +=
        (int64_t)utf8_length(notes->texts[index].bytes, (size_t)notes->texts[index].count);
    return notes->separate ? plan_separate(call, notes, list, index, where, info)
                           : plan_choice(call, notes, list, index, where, info);
}

static enum err prepare(struct call *call, struct labels_notes **out_notes, struct err_info *info)
{
    const struct classify_request *request = call->request;
    struct labels_notes *notes = NULL;
    enum err err = call_array(call, 1, sizeof(*notes), &notes, info);
    if (err == ERR_OK) {
        err = check_labels(request, info);
    }
    if (err == ERR_OK) {
        err = find_texts(request, notes, info);
    }
    if (err != ERR_OK) {
        return err;
    }
    if (notes->text_count == 0) {
        return call_fail(info, ERR_EMPTY, NULL, notes->object_reply ? "/input" : "/inputs",
            "the list of inputs is empty");
    }
    notes->separate = request->multi_label || request->labels.count == 1;
    int64_t decisions = (int64_t)notes->text_count * (notes->separate ? request->labels.count : 1);
    if (decisions > call->limits->items_max) {
        return call_fail(info, ERR_LIMIT, "too_many_inputs", "/inputs",
            "inputs and labels make more than %d questions", call->limits->items_max);
    }
    sort_by_bytes(request, notes->order);
    *out_notes = notes;
    return call_array(call, (size_t)decisions * (notes->separate ? 1 : ORDERS),
        sizeof(*notes->decisions), &notes->decisions, info);
}

enum err classify_labels_plan(struct call *call, struct err_info *info)
{
    struct labels_notes *notes = NULL;
    struct decision_list list = {0};
    enum err err = prepare(call, &notes, info);
    if (err == ERR_OK) {
        err = decision_list_init(call, &list, info);
    }
    for (int32_t i = 0; err == ERR_OK && i < notes->text_count; i++) {
        err = plan_text(call, notes, &list, i, info);
    }
    if (err == ERR_OK) {
        call->state = notes;
        call->plan = (struct plan){
            .kind = KIND_CLASSIFY, .items = list.items, .item_count = list.item_count};
    }
    return err;
}

/* ---- encode -------------------------------------------------------------------------------- */

static enum err read_separate(struct call *call, const struct job *job, int32_t index,
    float *probabilities, struct err_info *info)
{
    const struct labels_notes *notes = call->state;
    int32_t labels = ((const struct classify_request *)call->request)->labels.count;
    for (int32_t i = 0; i < labels; i++) {
        struct decision_result result;
        enum err err =
            decision_read(call, job, &notes->decisions[index * labels + i], &result, info);
        if (err != ERR_OK) {
            return err;
        }
        probabilities[i] = result.probabilities[0];
    }
    return ERR_OK;
}

/* The mean of the logarithms over the orders, made to sum to 1. */
static enum err read_choice(struct call *call, const struct job *job, int32_t index,
    float *probabilities, struct err_info *info)
{
    const struct labels_notes *notes = call->state;
    int32_t labels = ((const struct classify_request *)call->request)->labels.count;
    double scores[LIMIT_CHOICES] = {0};
    for (int32_t reverse = 0; reverse < ORDERS; reverse++) {
        struct decision_result result;
        const struct decision *decision = &notes->decisions[index * ORDERS + reverse];
        enum err err = decision_read(call, job, decision, &result, info);
        if (err != ERR_OK) {
            return err;
        }
        for (int32_t i = 0; i < labels; i++) { /* one that rounded to 0 stays finite */
            float probability = fmaxf(result.probabilities[i], FLT_MIN);
            scores[label_at(notes, labels, reverse, i)] += log((double)probability) / ORDERS;
        }
    }
    double best = scores[0];
    double sum = 0;
    for (int32_t i = 1; i < labels; i++) {
        best = fmax(best, scores[i]);
    }
    for (int32_t i = 0; i < labels; i++) { /* in sorted order: the same sum for every order given */
        sum += exp(scores[notes->order[i]] - best);
    }
    for (int32_t i = 0; i < labels; i++) {
        probabilities[i] = (float)(exp(scores[i] - best) / sum);
    }
    return ERR_OK;
}

/* One probability a label. */
static enum err read_text(struct call *call, const struct job *job, int32_t index,
    float *probabilities, struct err_info *info)
{
    const struct labels_notes *notes = call->state;
    return notes->separate ? read_separate(call, job, index, probabilities, info)
                           : read_choice(call, job, index, probabilities, info);
}

enum err classify_labels_job_error(
    const struct call *call, const struct job *job, struct err_info *info)
{
    const struct labels_notes *notes = call->state;
    const struct classify_request *request = call->request;
    enum err err = call_job_error(job, NULL, info);
    if (err == ERR_OK || job->err != ERR_OK || notes->one) {
        return err;
    }
    int32_t decisions = notes->separate ? request->labels.count : ORDERS; /* of a text */
    int32_t text = notes->text_count - 1;
    int32_t item = 0;
    while (job->results[item].err == ERR_OK) {
        item++;
    }
    while (notes->decisions[text * decisions].first_item > item) {
        text--;
    }
    (void)snprintf(info->where, sizeof(info->where), "%s/%d",
        notes->object_reply ? "/input" : "/inputs", text);
    return err;
}

/* log(p / (1 - p)), finite: a probability that rounded to 0 or 1 counts as one part in 10^7. */
static float log_odds(float probability)
{
    double p = fmin(fmax((double)probability, 1e-7), 1 - 1e-7);
    return (float)log(p / (1 - p));
}

/* Labels by falling probability; equal ones keep their order. */
static void sort_labels(const float *probabilities, int32_t *order, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        int32_t at = i;
        for (; at > 0 && probabilities[order[at - 1]] < probabilities[i]; at--) {
            order[at] = order[at - 1];
        }
        order[at] = i;
    }
}

void classify_write_ranked(struct json_out *out, const struct bound_text *labels,
    const float *probabilities, int32_t count, bool raw)
{
    int32_t order[LIMIT_CHOICES];
    sort_labels(probabilities, order, count);
    json_out_array(out);
    for (int32_t i = 0; i < count; i++) {
        float probability = probabilities[order[i]];
        json_out_object(out);
        json_out_key(out, "score");
        json_out_float(out, raw ? log_odds(probability) : probability);
        json_out_key(out, "label");
        json_out_string(out, labels[order[i]].bytes);
        json_out_end(out);
    }
    json_out_end(out);
}

static void write_class(struct json_out *out, const struct classify_request *request, int32_t index,
    const float *probabilities)
{
    int32_t best = 0; /* the first of equals */
    for (int32_t i = 1; i < request->labels.count; i++) {
        best = probabilities[i] > probabilities[best] ? i : best;
    }
    json_out_object(out);
    json_out_key(out, "index");
    json_out_int(out, index);
    json_out_key(out, "label");
    json_out_string(out, request->labels.items[best].bytes);
    json_out_key(out, "probs");
    json_out_array(out);
    for (int32_t i = 0; i < request->labels.count; i++) {
        json_out_float(out, request->raw_scores ? log_odds(probabilities[i]) : probabilities[i]);
    }
    json_out_end(out);
    json_out_key(out, "num_classes");
    json_out_int(out, request->labels.count);
    json_out_end(out);
}

static void write_object_head(struct json_out *out, const struct call *call, const struct job *job)
{
    char id[40];
    (void)snprintf(id, sizeof(id), "classify-%016llx", (unsigned long long)rng_entropy());
    json_out_object(out);
    json_out_key(out, "id");
    json_out_string(out, id);
    json_out_key(out, "object");
    json_out_string(out, "list");
    json_out_key(out, "created");
    json_out_int(out, (int64_t)time(NULL));
    json_out_key(out, "model");
    json_out_string(out, call_model_name(call));
    json_out_key(out, "usage");
    call_write_input_usage(out, call, job, false);
    json_out_key(out, "data");
}

enum err classify_labels_encode(
    struct call *call, const struct job *job, struct json_out *out, struct err_info *info)
{
    const struct labels_notes *notes = call->state;
    const struct classify_request *request = call->request;
    float probabilities[LIMIT_CHOICES];
    if (notes->object_reply) {
        write_object_head(out, call, job);
    }
    bool list = notes->object_reply || !notes->one;
    if (list) {
        json_out_array(out);
    }
    for (int32_t i = 0; i < notes->text_count; i++) {
        enum err err = read_text(call, job, i, probabilities, info);
        if (err != ERR_OK) {
            return err;
        }
        if (notes->object_reply) {
            write_class(out, request, i, probabilities);
        } else {
            classify_write_ranked(out, request->labels.items, probabilities, request->labels.count,
                request->raw_scores);
        }
    }
    if (list) {
        json_out_end(out);
    }
    if (notes->object_reply) {
        json_out_end(out);
    }
    return ERR_OK;
}
