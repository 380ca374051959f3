/*
 * The kind `sts`: both sentences of each pair through /embed, the cosine of their vectors, and how
 * well the order of the cosines is that of people's scores: Spearman's rank correlation times 100,
 * over all pairs and in each subset.
 *
 * A request holds both sentences of its pairs, so cosines are taken as replies come and no vector
 * is kept. Sentences that occur twice are computed twice.
 */
#include <math.h>
#include <stdio.h>
#include "api/json_out.h"
#include "batch/ask.h"
#include "batch/progress.h"
#include "engine/base/assert.h"
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "eval/eval.h"
#include "eval/pairs.h"

enum {
    SLOTS = 2,              /* while the engine computes one request, the next is made */
    BATCH_PAIRS = 128,      /* of one request: enough rows for several steps of the engine */
    BATCH_BYTES = 64 << 10, /* of their text, or one pair */
    BODY_BYTES = 8 * LIMIT_PAIRS_BYTES, /* a byte is six in JSON at most */
};

/* The pairs of a request. */
struct batch {
    size_t from, count;
};

struct sts {
    const struct eval_options *options;
    struct pairs pairs;
    struct ask ask;
    double *scores, *cosines; /* [pairs] */
    size_t done;              /* pairs */
    int64_t tokens;
    int64_t truncated; /* sentences */
    int64_t took_us;
    struct progress progress;
};

/* ---- asking ---- */

static enum err write_body(
    const struct sts *sts, const struct batch *batch, struct buf *body, struct err_info *info)
{
    struct json_out json;
    json_out_init(&json, body);
    json_out_object(&json);
    if (sts->options->prompt_name != NULL) {
        json_out_key(&json, "prompt_name");
        json_out_string(&json, sts->options->prompt_name);
    }
    json_out_key(&json, "inputs");
    json_out_array(&json);
    for (size_t i = 0; i < 2 * batch->count; i++) {
        const struct pairs_text *text = &sts->pairs.items[batch->from + i / 2].texts[i % 2];
        json_out_bytes(&json, text->bytes, text->count);
    }
    json_out_end(&json);
    json_out_end(&json);
    return body->failed ? err_set(info, ERR_NO_MEMORY, "data", "no memory for a request") : ERR_OK;
}

/* The pairs of the next request, from `from` on. */
static struct batch next_batch(const struct sts *sts, size_t from)
{
    struct batch batch = {.from = from};
    size_t bytes = 0;
    while (batch.count < BATCH_PAIRS && from + batch.count < sts->pairs.count) {
        const struct pair *pair = &sts->pairs.items[from + batch.count];
        bytes += pair->texts[0].count + pair->texts[1].count;
        if (batch.count > 0 && bytes > BATCH_BYTES) {
            break;
        }
        batch.count++;
    }
    return batch;
}

/* An error about "/inputs/N" of a request is one about a line of the file. */
static enum err at_line(const struct ask_slot *slot, enum err err, struct err_info *info)
{
    int input = 0;
    if (sscanf(info->where, "/inputs/%d", &input) == 1) {
        struct err_info about = *info;
        return pairs_fail(info, err, slot->from + (size_t)input / 2, about.text);
    }
    return err;
}

static enum err send(struct sts *sts, struct batch batch, struct err_info *info)
{
    struct buf body;
    buf_init(&body, MEM_REQUESTS, BODY_BYTES);
    enum err err = write_body(sts, &batch, &body, info);
    if (err == ERR_OK) {
        struct ask_slot *slot = ask_send(&sts->ask, &endpoint_embed, body.bytes, body.count);
        slot->from = batch.from;
        slot->count = batch.count;
    }
    buf_free(&body);
    return err;
}

static double cosine(const struct item_result *a, const struct item_result *b)
{
    double product = 0, a_squares = 0, b_squares = 0;
    ASSERT(a->vector_rows == 1 && b->vector_rows == 1 && a->vector_dim == b->vector_dim);
    for (int32_t i = 0; i < a->vector_dim; i++) {
        product += (double)a->vector[i] * (double)b->vector[i];
        a_squares += (double)a->vector[i] * (double)a->vector[i];
        b_squares += (double)b->vector[i] * (double)b->vector[i];
    }
    return product / (sqrt(a_squares) * sqrt(b_squares));
}

/* Takes what came of the oldest request. */
static enum err take(struct sts *sts, struct err_info *info)
{
    const struct ask_slot *slot = ask_wait(&sts->ask);
    enum err err = at_line(slot, ask_items(slot, info), info);
    ASSERT(err != ERR_OK || (size_t)slot->job->plan.item_count == 2 * slot->count);
    for (size_t i = 0; err == ERR_OK && i < slot->count; i++) {
        const struct item_result *results = &slot->job->results[2 * i];
        double value = cosine(&results[0], &results[1]);
        if (!isfinite(value)) {
            err = pairs_fail(info, ERR_NON_FINITE, slot->from + i, "a vector is zero");
            break;
        }
        sts->cosines[slot->from + i] = value;
        sts->tokens += results[0].prompt_tokens + results[1].prompt_tokens;
    }
    if (err != ERR_OK) {
        return err;
    }
    sts->truncated += slot->call.truncated_count;
    sts->done += slot->count;
    ask_release(&sts->ask);
    progress_show(&sts->progress, sts->done, sts->pairs.count, 0, sts->done == sts->pairs.count);
    return ERR_OK;
}

static enum err ask_all(struct sts *sts, struct err_info *info)
{
    int64_t began_us = clock_now_us(NULL);
    enum err err = ERR_OK;
    progress_begin(&sts->progress, sts->options->progress, sts->options->terminal, "pairs");
    for (size_t from = 0; err == ERR_OK && from < sts->pairs.count;) {
        struct batch batch = next_batch(sts, from);
        from += batch.count;
        if (!ask_room(&sts->ask)) {
            err = take(sts, info);
        }
        if (err == ERR_OK) {
            err = send(sts, batch, info);
        }
    }
    while (err == ERR_OK && sts->ask.count > 0) {
        err = take(sts, info);
    }
    sts->took_us = clock_now_us(NULL) - began_us;
    return err;
}

/* ---- the result ---- */

/* Of the pairs of one subset, or of all (-1). NaN: their scores or cosines are all equal. */
static enum err correlate(const struct sts *sts, int32_t subset, double *room, double *out)
{
    size_t count = 0;
    double *scores = room, *cosines = room + sts->pairs.count;
    for (size_t i = 0; i < sts->pairs.count; i++) {
        if (subset < 0 || sts->pairs.items[i].subset == subset) {
            scores[count] = sts->scores[i];
            cosines[count++] = sts->cosines[i];
        }
    }
    return spearman(scores, cosines, count, out);
}

static double rounded(double value, double parts)
{
    return round(value * parts) / parts;
}

static void write_rho(struct json_out *json, double rho)
{
    json_out_key(json, "spearman");
    if (isnan(rho)) {
        json_out_null(json);
    } else {
        json_out_double(json, rounded(100 * rho, 1e4));
    }
}

/* Those that lie on what was asked, a text to embed as the profile has it. */
static void write_adapters(struct json_out *json, const struct model_info *model)
{
    const int32_t number = stack_of(
        &model->stack_table, KIND_EMBED, model->embed_attention == ATTENTION_BIDIRECTIONAL ? 1 : 0);
    json_out_key(json, "adapters");
    json_out_array(json);
    for (int32_t i = 0; number > 0 && i < model->stacks[number - 1].count; i++) {
        json_out_string(json, model->adapters[model->stacks[number - 1].adapters[i]]);
    }
    json_out_end(json);
}

static void write_head(const struct sts *sts, struct json_out *json)
{
    static const char *const poolings[] = {
        [POOLING_NONE] = "none",
        [POOLING_MEAN] = "mean",
        [POOLING_CLS] = "cls",
        [POOLING_LAST] = "last",
        [POOLING_EOS] = "eos",
        [POOLING_WEIGHTED_MEAN] = "weighted_mean",
    };
    const struct model_info *model = engine_model(sts->ask.engine);
    json_out_key(json, "kind");
    json_out_string(json, "sts");
    json_out_key(json, "model");
    json_out_string(json, model->name);
    json_out_key(json, "weights");
    json_out_string(json, model->weights_type);
    write_adapters(json, model);
    json_out_key(json, "attention");
    json_out_string(
        json, model->embed_attention == ATTENTION_BIDIRECTIONAL ? "bidirectional" : "causal");
    json_out_key(json, "pooling");
    json_out_string(json, poolings[model->embed_pooling]);
    json_out_key(json, "prompt_name");
    json_out_string(json, sts->options->prompt_name);
    json_out_key(json, "pairs");
    json_out_int(json, (int64_t)sts->pairs.count);
    json_out_key(json, "tokens");
    json_out_int(json, sts->tokens);
    json_out_key(json, "truncated");
    json_out_int(json, sts->truncated);
    json_out_key(json, "seconds");
    json_out_double(json, rounded((double)sts->took_us * 1e-6, 1e3));
}

static enum err write_result(
    const struct sts *sts, double *room, struct buf *out, struct err_info *info)
{
    struct json_out json;
    double rho = NAN;
    enum err err = correlate(sts, -1, room, &rho);
    if (err == ERR_OK && isnan(rho)) {
        return err_set(info, ERR_INVALID, "sts", "all cosines are equal: there is no correlation");
    }
    json_out_init(&json, out);
    json_out_object(&json);
    write_head(sts, &json);
    write_rho(&json, rho);
    json_out_key(&json, "subsets");
    json_out_array(&json);
    for (int32_t i = 0; err == ERR_OK && i < sts->pairs.subset_count; i++) {
        const struct pairs_text *name = &sts->pairs.subsets[i].name;
        err = correlate(sts, i, room, &rho);
        json_out_object(&json);
        json_out_key(&json, "subset");
        json_out_bytes(&json, name->bytes, name->count);
        json_out_key(&json, "pairs");
        json_out_int(&json, (int64_t)sts->pairs.subsets[i].count);
        write_rho(&json, rho);
        json_out_end(&json);
    }
    json_out_end(&json);
    json_out_end(&json);
    return err == ERR_OK && (out->failed || json.failed) ? ERR_NO_MEMORY : err;
}

/* ---- all of it ---- */

/* What can be known before a model is loaded for it. */
static enum err read_data(struct sts *sts, struct err_info *info)
{
    enum err err = pairs_read(sts->options->data, &sts->pairs, info);
    if (err != ERR_OK) {
        return err;
    }
    bool equal = true;
    for (size_t i = 1; i < sts->pairs.count; i++) {
        equal &= sts->pairs.items[i].score == sts->pairs.items[0].score;
    }
    return equal ? err_set(info, ERR_INVALID, "data",
                       "all scores are equal: there is no order to compare with")
                 : ERR_OK;
}

static enum err measure(struct sts *sts, struct buf *out, struct err_info *info)
{
    size_t count = sts->pairs.count;
    enum err err = ERR_NO_MEMORY;
    double *numbers = mem_array(MEM_OTHER, count, 4 * sizeof(*numbers));
    if (numbers != NULL) {
        sts->scores = numbers;
        sts->cosines = numbers + count;
        for (size_t i = 0; i < count; i++) {
            sts->scores[i] = sts->pairs.items[i].score;
        }
        err = ask_all(sts, info);
    }
    if (err == ERR_OK) {
        err = write_result(sts, numbers + 2 * count, out, info);
    }
    mem_free(numbers);
    return err;
}

enum err eval_sts(const struct eval_options *options, struct buf *out, struct err_info *info)
{
    struct sts sts = {.options = options};
    enum err err = read_data(&sts, info);
    if (err == ERR_OK) {
        err = ask_open(&options->engine, SLOTS, &sts.ask, info);
    }
    if (err == ERR_OK) {
        err = measure(&sts, out, info);
        ask_close(&sts.ask);
    }
    pairs_close(&sts.pairs);
    if (err == ERR_NO_MEMORY && info->code != err) {
        (void)err_set(info, err, "sts", "no memory");
    }
    return err;
}
