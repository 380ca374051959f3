/* The endpoints' common ground; see call.h. */
#include "api/call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "engine/base/assert.h"
#include "engine/base/rng.h"
#include "engine/base/utf8.h"

/* ---- errors -------------------------------------------------------------------------------- */

enum err call_fail(struct err_info *info, enum err err, const char *word, const char *where,
    const char *format, ...)
{
    char text[ERR_TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    (void)err_set(info, err, where, "%s", text);
    if (info != NULL && word != NULL) {
        (void)snprintf(info->word, sizeof(info->word), "%s", word);
    }
    return err;
}

enum err call_new_id(
    struct call *call, const char *prefix, const char **out_id, struct err_info *info)
{
    const char *id =
        arena_printf(call->arena, "%s%016llx", prefix, (unsigned long long)rng_entropy());
    if (id == NULL) {
        return call_no_memory(info);
    }
    *out_id = id;
    return ERR_OK;
}

enum err call_no_memory(struct err_info *info)
{
    return err_set(info, ERR_NO_MEMORY, NULL, "no memory for the request");
}

enum err call_array(
    struct call *call, size_t count, size_t size, void *out_pointer, struct err_info *info)
{
    void *array = arena_array(call->arena, count, size);
    if (array == NULL) {
        return call_no_memory(info);
    }
    memcpy(out_pointer, &array, sizeof(array)); /* a pointer to any type of pointer */
    return ERR_OK;
}

enum err call_job_error(const struct job *job, const char *where, struct err_info *info)
{
    if (job->err != ERR_OK) {
        *info = job->info;
        info->code = job->err;
        return job->err;
    }
    for (int32_t i = 0; i < job->plan.item_count; i++) {
        const struct item_result *result = &job->results[i];
        if (result->err != ERR_OK) {
            *info = result->info;
            info->code = result->err;
            (void)snprintf(info->where, sizeof(info->where), "%s", where != NULL ? where : "");
            if (where != NULL) {
                (void)snprintf(info->where, sizeof(info->where), "%s/%d", where, i);
            }
            return result->err;
        }
    }
    return ERR_OK;
}

enum err call_written(const struct json_out *out, struct err_info *info)
{
    ASSERT(out->depth == 0);
    if (out->failed) {
        return err_set(info, ERR_NON_FINITE, NULL, "a number of the result is not finite");
    }
    if (out->buf->failed) {
        return err_set(info, ERR_NO_MEMORY, NULL, "the reply does not fit its buffer");
    }
    return ERR_OK;
}

/* ---- decoding ------------------------------------------------------------------------------ */

enum err call_decode(struct call *call, const struct schema *schema, const char *body, size_t bytes,
    struct err_info *info)
{
    struct bound bound;
    enum err err = bind_request(call->arena, schema, body, bytes, &bound, info);
    if (err == ERR_OK) {
        call->request = bound.request;
        call->ignored_fields = bound.ignored_fields;
        call->ignored_count = bound.ignored_count;
    }
    return err;
}

enum err call_decode_with(struct call *call, const struct schema *schema, const char *body,
    size_t bytes, size_t own_bytes, void *out_own, struct err_info *info)
{
    enum err err = call_decode(call, schema, body, bytes, info);
    return err == ERR_OK ? call_array(call, 1, own_bytes, out_own, info) : err;
}

enum err call_ignore(struct call *call, const char *name, struct err_info *info)
{
    const char *before = call->ignored_fields;
    call->ignored_fields = arena_printf(
        call->arena, "%s%s%s", before != NULL ? before : "", before != NULL ? "," : "", name);
    return call->ignored_fields != NULL ? ERR_OK : call_no_memory(info);
}

const char *call_model_name(const struct call *call)
{
    return call->served_name != NULL ? call->served_name : call->model->name;
}

/* One of the names of "a,b,c". */
static bool is_listed(const char *name, const char *list)
{
    size_t bytes = strlen(name);
    const char *at = list != NULL ? list : "";
    while (*at != '\0') {
        size_t count = strcspn(at, ",");
        if (count == bytes && bytes > 0 && memcmp(at, name, bytes) == 0) {
            return true;
        }
        at += count + (at[count] == ',' ? 1 : 0);
    }
    return false;
}

bool call_is_model(
    const char *name, const struct model_info *model, const char *served_name, const char *aliases)
{
    return strcmp(name, model->name) == 0 ||
           (served_name != NULL && strcmp(name, served_name) == 0) || is_listed(name, aliases);
}

enum err call_check_model(
    const struct call *call, const struct bound_text *model, struct err_info *info)
{
    if (model->count == 0 ||
        call_is_model(model->bytes, call->model, call->served_name, call->aliases)) {
        return ERR_OK;
    }
    return call_fail(info, ERR_NOT_FOUND, "model_not_found", "/model", "no such model is served");
}

enum err call_basics(struct call *call, const struct common_basics *basics, struct err_info *info)
{
    if (basics->has_timeout_ms) {
        call->timeout_ms = MIN((int64_t)basics->timeout_ms, call->limits->timeout_ms_max);
    }
    call->priority = (int32_t)basics->priority;
    if (basics->has_cache_salt) { /* the schema bounds it */
        memcpy(call->cache_salt, basics->cache_salt.bytes, (size_t)basics->cache_salt.count);
    }
    return call_check_model(call, &basics->model, info);
}

/* ---- texts and ids ------------------------------------------------------------------------- */

struct bound_text call_text(const char *text)
{
    return (struct bound_text){text, (int32_t)strlen(text)};
}

/* White space of Unicode: what has no ink. */
static bool is_space(int32_t c)
{
    return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
           c == 0x205f || c == 0x3000;
}

bool call_is_blank(const struct bound_text *text)
{
    for (int32_t at = 0; at < text->count;) {
        int32_t code_point;
        at += utf8_decode(text->bytes + at, (size_t)(text->count - at), &code_point);
        if (!is_space(code_point)) {
            return false;
        }
    }
    return true;
}

enum err call_tokenize(struct call *call, const struct bound_text *text, unsigned flags,
    const char *where, struct call_ids *out_ids, struct err_info *info)
{
    struct token_list list;
    token_list_init(&list, LIMIT_CONTEXT * 8); /* a body holds fewer */
    enum err err =
        tokenizer_encode(call->tokenizer, text->bytes, (size_t)text->count, flags, &list, info);
    if (err == ERR_OK) {
        out_ids->count = list.count;
        err = call_array(call, (size_t)list.count, sizeof(int32_t), &out_ids->ids, info);
    }
    if (err == ERR_OK && list.count > 0) {
        memcpy(out_ids->ids, list.ids, (size_t)list.count * sizeof(int32_t));
    }
    token_list_free(&list);
    if (err != ERR_OK && err != ERR_NO_MEMORY && info != NULL) {
        (void)snprintf(info->where, sizeof(info->where), "%s", where);
    }
    return err;
}

void call_detokenize(
    const struct call *call, const int32_t *ids, int32_t count, bool show_control, struct buf *out)
{
    struct detokenizer detokenizer;
    size_t bound = detokenizer_bound(call->tokenizer);
    detokenizer_init(&detokenizer, call->tokenizer, show_control, false);
    for (int32_t i = 0; i <= count; i++) {
        char *room = buf_reserve(out, bound);
        if (room == NULL) {
            return;
        }
        buf_took(out, i < count ? detokenizer_push(&detokenizer, ids[i], room, bound)
                                : detokenizer_end(&detokenizer, true, room, bound));
    }
}

void call_write_joined(struct json_out *out, struct bound_text first, struct bound_text second)
{
    struct buf whole;
    buf_init(&whole, MEM_REQUESTS, (size_t)64 << 20);
    buf_append(&whole, first.bytes, (size_t)first.count);
    buf_append(&whole, second.bytes, (size_t)second.count);
    json_out_bytes(out, whole.bytes != NULL ? whole.bytes : "", whole.count);
    out->buf->failed |= whole.failed;
    buf_free(&whole);
}

enum err call_join(struct call *call, const struct call_ids *a, const struct call_ids *b,
    struct call_ids *out_ids, struct err_info *info)
{
    struct call_ids ids = {.count = a->count + b->count};
    enum err err = call_array(call, (size_t)ids.count, sizeof(*ids.ids), &ids.ids, info);
    if (err != ERR_OK) {
        return err;
    }
    if (a->count > 0) {
        memcpy(ids.ids, a->ids, (size_t)a->count * sizeof(*ids.ids));
    }
    if (b->count > 0) {
        memcpy(ids.ids + a->count, b->ids, (size_t)b->count * sizeof(*ids.ids));
    }
    *out_ids = ids;
    return ERR_OK;
}

/* Clients that know no code for this look for OpenAI's words. */
static enum err too_long(const struct call *call, int64_t tokens, const char *more,
    const char *where, struct err_info *info)
{
    (void)call_fail(info, ERR_CONTEXT, NULL, where,
        "this model's maximum context length is %d tokens, and these are %lld%s",
        call->model->context, (long long)tokens, more);
    if (info != NULL) {
        info->have = tokens;
        info->limit = call->model->context;
    }
    return ERR_CONTEXT;
}

enum err call_check_context(
    const struct call *call, int64_t tokens, const char *where, struct err_info *info)
{
    return tokens <= call->model->context ? ERR_OK : too_long(call, tokens, "", where, info);
}

enum err call_check_prompt(const struct call *call, int64_t tokens, bool answered,
    const char *where, struct err_info *info)
{
    bool full = answered && tokens == call->model->context;
    return full ? too_long(call, tokens, ", which leaves none for an answer", where, info)
                : call_check_context(call, tokens, where, info);
}

enum err call_check_ids(
    const struct call *call, const struct bound_ints *ids, const char *where, struct err_info *info)
{
    int32_t vocab = tokenizer_vocab(call->tokenizer);
    for (int32_t i = 0; i < ids->count; i++) {
        if (ids->items[i] < 0 || ids->items[i] >= vocab) {
            char place[ERR_WHERE_BYTES];
            (void)snprintf(place, sizeof(place), "%s/%d", where, i);
            return call_fail(info, ERR_INVALID, "token_out_of_range", place,
                "the vocabulary has tokens 0 to %d", vocab - 1);
        }
    }
    return ERR_OK;
}

/* ---- sampling ------------------------------------------------------------------------------ */

static enum err read_samplers(struct call *call, const struct common_sampling_samplers *names,
    const char *where, struct sampling *sampling, struct err_info *info)
{
    static const enum sampler_kind kinds[] = {
        [COMMON_SAMPLING_SAMPLERS_ITEM_PENALTIES] = SAMPLER_PENALTIES,
        [COMMON_SAMPLING_SAMPLERS_ITEM_TOP_K] = SAMPLER_TOP_K,
        [COMMON_SAMPLING_SAMPLERS_ITEM_TYP_P] = SAMPLER_TYPICAL_P,
        [COMMON_SAMPLING_SAMPLERS_ITEM_TOP_P] = SAMPLER_TOP_P,
        [COMMON_SAMPLING_SAMPLERS_ITEM_MIN_P] = SAMPLER_MIN_P,
        [COMMON_SAMPLING_SAMPLERS_ITEM_TEMPERATURE] = SAMPLER_TEMPERATURE,
    };
    bool ignored = false;
    bool seen[SAMPLER_KIND_COUNT] = {0};
    for (int32_t i = 0; i < names->count; i++) {
        if (names->items[i] == COMMON_SAMPLING_SAMPLERS_ITEM_INFILL) {
            ignored = true;
            continue;
        }
        enum sampler_kind kind = kinds[names->items[i]];
        if (seen[kind]) {
            char place[ERR_WHERE_BYTES];
            (void)snprintf(place, sizeof(place), "%s/samplers/%d", where, i);
            return call_fail(info, ERR_INVALID, NULL, place, "a sampler is named twice");
        }
        seen[kind] = true;
        sampling->samplers[sampling->sampler_count++] = kind;
    }
    sampling->no_samplers = sampling->sampler_count == 0;
    return ignored ? call_ignore(call, "samplers.infill", info) : ERR_OK;
}

enum err call_sampling(struct call *call, const struct common_sampling *fields,
    double repetition_penalty, int32_t penalty_last_n, const char *where,
    struct sampling *out_sampling, struct err_info *info)
{
    struct sampling sampling = {
        .temperature = (float)fields->temperature,
        .top_k = fields->top_k,
        .top_p = (float)fields->top_p,
        .min_p = (float)fields->min_p,
        .typical_p = (float)fields->typical_p,
        .repetition_penalty = (float)repetition_penalty,
        .presence_penalty = (float)fields->presence_penalty,
        .frequency_penalty = (float)fields->frequency_penalty,
        .penalty_last_n = penalty_last_n,
        .seed = (uint64_t)fields->seed,
    };
    /* A double above 0 may be a float of 0, which the ranges exclude. */
    sampling.top_p = MAX(sampling.top_p, 1e-30f);
    sampling.typical_p = MAX(sampling.typical_p, 1e-30f);
    sampling.repetition_penalty = MAX(sampling.repetition_penalty, 1e-30f);
    if (fields->seed == -1) {
        sampling.seed = rng_entropy() >> 11; /* 53 bits: exact in every JSON reader */
    }
    if (fields->has_samplers) {
        enum err err = read_samplers(call, &fields->samplers, where, &sampling, info);
        if (err != ERR_OK) {
            return err;
        }
    }
    *out_sampling = sampling;
    return ERR_OK;
}

enum err call_add_bias(struct sampling *sampling, struct logit_bias *biases, int32_t token,
    float bias, struct err_info *info)
{
    if (sampling->logit_bias_count == LIMIT_LOGIT_BIAS) {
        return call_fail(
            info, ERR_INVALID, NULL, "/logit_bias", "names more than %d tokens", LIMIT_LOGIT_BIAS);
    }
    biases[sampling->logit_bias_count++] = (struct logit_bias){token, bias};
    return ERR_OK;
}

/* A key of the map: a token id in decimal digits. */
static enum err read_bias_id(
    const struct call *call, const char *text, int32_t *out_id, struct err_info *info)
{
    char *end;
    long id = strtol(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || id >= tokenizer_vocab(call->tokenizer)) {
        return call_fail(
            info, ERR_INVALID, NULL, "/logit_bias", "a key is not a token of the vocabulary");
    }
    *out_id = (int32_t)id;
    return ERR_OK;
}

enum err call_biases(struct call *call, const struct common_bias_map *map,
    struct sampling *sampling, struct err_info *info)
{
    struct logit_bias *biases = NULL;
    enum err err = call_array(call, LIMIT_LOGIT_BIAS, sizeof(*biases), &biases, info);
    for (int32_t i = 0; err == ERR_OK && i < map->count; i++) {
        int32_t id = 0;
        err = read_bias_id(call, map->items[i].key.bytes, &id, info);
        if (err == ERR_OK) {
            err = call_add_bias(sampling, biases, id, (float)map->items[i].value, info);
        }
    }
    sampling->logit_bias = biases;
    return err;
}

enum err call_stops(struct call *call, bool given, const struct common_stop *stop,
    struct plan_step *step, struct err_info *info)
{
    if (!given) {
        return ERR_OK;
    }
    const struct bound_text *texts = stop->form == COMMON_STOP_ONE ? &stop->one : stop->many.items;
    int32_t count = stop->form == COMMON_STOP_ONE ? 1 : stop->many.count;
    struct stop_string *stops;
    enum err err = call_array(call, (size_t)count, sizeof(*stops), &stops, info);
    if (err != ERR_OK) {
        return err;
    }
    for (int32_t i = 0; i < count; i++) {
        stops[i] = (struct stop_string){texts[i].bytes, texts[i].count};
    }
    step->stops = stops;
    step->stop_count = count;
    return ERR_OK;
}

/* ---- what replies tell of a job ------------------------------------------------------------ */

struct call_usage call_usage(const struct call *call, const struct job *job)
{
    struct call_usage usage = {call->before.prompt, call->before.cached, call->before.generated};
    for (int32_t i = 0; i < job->plan.item_count; i++) {
        usage.prompt += job->results[i].prompt_tokens;
        usage.cached += job->results[i].cached_tokens;
        usage.generated += job->results[i].generated_tokens;
    }
    return usage;
}

void call_write_usage(struct json_out *out, const struct call_usage *usage)
{
    json_out_object(out);
    json_out_key(out, "prompt_tokens");
    json_out_int(out, usage->prompt);
    json_out_key(out, "completion_tokens");
    json_out_int(out, usage->generated);
    json_out_key(out, "total_tokens");
    json_out_int(out, usage->prompt + usage->generated);
    json_out_key(out, "prompt_tokens_details");
    json_out_object(out);
    json_out_key(out, "cached_tokens");
    json_out_int(out, usage->cached);
    json_out_end(out);
    json_out_end(out);
}

static int64_t prompt_us(const struct job_times *times)
{
    int64_t done = times->prompt_done != 0 ? times->prompt_done : times->finished;
    return MAX(done - times->started, 0);
}

static int64_t decode_us(const struct job_times *times)
{
    int64_t from = times->prompt_done != 0 ? times->prompt_done : times->finished;
    return MAX(times->finished - from, 0);
}

void call_add_job(struct call *call, const struct job *job)
{
    struct call_usage usage = call_usage(call, job);
    call->before = (struct call_totals){.prompt = usage.prompt,
        .cached = usage.cached,
        .generated = usage.generated,
        .prompt_us = call->before.prompt_us + prompt_us(&job->times),
        .decode_us = call->before.decode_us + decode_us(&job->times)};
}

void call_write_input_usage(
    struct json_out *out, const struct call *call, const struct job *job, bool decisions)
{
    struct call_usage usage = call_usage(call, job);
    json_out_object(out);
    json_out_key(out, "input_tokens");
    json_out_int(out, usage.prompt);
    json_out_key(out, "input_tokens_details");
    json_out_object(out);
    json_out_key(out, "cached_tokens");
    json_out_int(out, usage.cached);
    if (decisions) {
        json_out_key(out, "cache_write_tokens");
        json_out_int(out, 0);
    }
    json_out_end(out);
    json_out_key(out, "output_tokens");
    json_out_int(out, 0);
    if (decisions) {
        json_out_key(out, "output_tokens_details");
        json_out_object(out);
        json_out_key(out, "reasoning_tokens");
        json_out_int(out, 0);
        json_out_end(out);
    }
    json_out_key(out, "total_tokens");
    json_out_int(out, usage.prompt);
    json_out_end(out);
}

const char *call_timing_name(int32_t index)
{
    static const char *const names[CALL_TIMINGS] = {"cache_n", "prompt_n", "prompt_ms",
        "prompt_per_token_ms", "prompt_per_second", "predicted_n", "predicted_ms",
        "predicted_per_token_ms", "predicted_per_second"};
    ASSERT(index >= 0);
    ASSERT(index < CALL_TIMINGS);
    return names[index];
}

/* a / b, 0 where that has no meaning. */
static double ratio(double a, double b)
{
    return b > 0 ? a / b : 0;
}

void call_write_timing(
    struct json_out *out, const struct call *call, const struct job *job, int32_t index)
{
    struct call_usage usage = call_usage(call, job);
    double prompt_ms = (double)(call->before.prompt_us + prompt_us(&job->times)) / 1000;
    double predicted_ms = (double)(call->before.decode_us + decode_us(&job->times)) / 1000;
    double prompt = (double)(usage.prompt - usage.cached);
    double predicted = (double)usage.generated;
    const double values[CALL_TIMINGS] = {(double)usage.cached, prompt, prompt_ms,
        ratio(prompt_ms, prompt), ratio(prompt * 1000, prompt_ms), predicted, predicted_ms,
        ratio(predicted_ms, predicted), ratio(predicted * 1000, predicted_ms)};
    bool count = index == 0 || index == 1 || index == 5;
    if (count) {
        json_out_int(out, (int64_t)values[index]);
    } else {
        json_out_double(out, values[index]);
    }
}

void call_write_timings(struct json_out *out, const struct call *call, const struct job *job)
{
    json_out_object(out);
    for (int32_t i = 0; i < CALL_TIMINGS; i++) {
        json_out_key(out, call_timing_name(i));
        call_write_timing(out, call, job, i);
    }
    json_out_end(out);
}

const char *call_mode_word(enum infill_mode mode)
{
    static const char *const words[] = {
#define X(name, word) word,
        INFILL_MODE_MAP(X)
#undef X
    };
    return words[mode];
}
