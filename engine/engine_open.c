/*
 * Opening an engine: file, kernels, network, tokenizer, profile, then every pool at its final size.
 * The memory plan is computed by the same functions that allocate, before anything is allocated.
 */
#include "engine/engine_private.h"

#include <stdlib.h>
#include <string.h>
#include "engine/adapters.h"
#include "engine/base/mem.h"
#include "engine/cache/reuse.h"
#include "engine/checkpoint_chat.h"
#include "engine/checkpoint_text.h"
#include "engine/load/checkpoint.h"
#include "engine/model/stack.h"
#include "engine/profile_apply.h"

enum {
    CONTEXT_DEFAULT = 8192,
    PAGE_SLOTS = 32,
    SEQUENCES_DEFAULT = 64,
    SEQUENCES_MAX = 4096,
    JOBS_DEFAULT = 512,
    JOBS_MAX = 65536,
    EVENTS_DEFAULT = 256,
    STEP_ROWS_DEFAULT = 512,
    STEP_ROWS_MAX = 8192,
    TILE_ROWS = 256, /* scratch does not grow with the rows of a step beyond this */
    CACHE_CONTEXTS_DEFAULT = 4,
    REUSE_PERCENT_DEFAULT = 100, /* what is kept costs nobody a page: it goes when one is wanted */
    RESERVE_TOKENS_DEFAULT = 64, /* two pages: most answers end within them */
};

static const uint64_t CACHE_BYTES_DEFAULT_MAX = (uint64_t)1 << 30;
static const uint64_t RESULT_BYTES_DEFAULT = (uint64_t)64 << 20;
static const uint64_t RESULTS_BYTES_DEFAULT = (uint64_t)512 << 20;

static enum err bound(
    int32_t *value, int32_t standard, int32_t max, const char *flag, struct err_info *info)
{
    if (*value == 0) {
        *value = standard;
    }
    if (*value < 1 || *value > max) {
        return err_set(info, ERR_CONFIG, flag, "must be from 1 to %d", max);
    }
    return ERR_OK;
}

/* Events live in a ring, whose capacity is a power of two. */
static int32_t power_of_two(int32_t value)
{
    int32_t power = 1;
    while (power < value) {
        power *= 2;
    }
    return power;
}

static enum err size_counts(
    struct engine_config *config, const struct model_info *model, struct err_info *info)
{
    int32_t trained = model->context_trained;
    enum err err = bound(&config->context, MIN(trained, CONTEXT_DEFAULT), trained, "context", info);
    if (err == ERR_OK) {
        err = bound(&config->threads, threads_available(), LIMIT_THREADS, "threads", info);
    }
    if (err == ERR_OK) {
        err = bound(&config->sequences, SEQUENCES_DEFAULT, SEQUENCES_MAX, "sequences", info);
    }
    if (err == ERR_OK) {
        err = bound(&config->jobs, JOBS_DEFAULT, JOBS_MAX, "jobs", info);
    }
    if (err == ERR_OK) {
        err = bound(&config->events, EVENTS_DEFAULT, 65536, "events", info);
    }
    if (err == ERR_OK) {
        err = bound(&config->step_rows, STEP_ROWS_DEFAULT, STEP_ROWS_MAX, "step-rows", info);
    }
    if (err == ERR_OK) {
        err = bound(&config->jobs_bulk, MAX(config->jobs / 2, 1), JOBS_MAX, "jobs-bulk", info);
    }
    /* A step can add an event a sequence, while the client reads those of the step before. */
    config->events = power_of_two(MAX(config->events, 2 * config->sequences));
    return err;
}

static enum err size_cache(struct engine_config *config, const struct model_info *model,
    struct memory_plan *plan, struct err_info *info)
{
    enum kv_type type = config->kv_f32 ? KV_F32 : KV_F16;
    uint64_t page =
        pages_page_bytes(type, model->layers, model->heads_kv, model->head_dim, PAGE_SLOTS);
    uint64_t per_context = ((uint64_t)config->context + PAGE_SLOTS - 1) / PAGE_SLOTS;
    if (config->cache_bytes == 0) {
        config->cache_bytes =
            MAX(MIN(per_context * CACHE_CONTEXTS_DEFAULT * page, CACHE_BYTES_DEFAULT_MAX),
                per_context * page);
    }
    uint64_t pages = config->cache_bytes / page;
    if (pages < per_context || pages > INT32_MAX) {
        return err_set(info, ERR_CONFIG, "cache-mib",
            "must hold at least one context of %d tokens: %llu MiB", config->context,
            (unsigned long long)((per_context * page >> 20) + 1));
    }
    enum err err = bound(
        &config->reserve_tokens, RESERVE_TOKENS_DEFAULT, LIMIT_CONTEXT, "reserve-tokens", info);
    if (err != ERR_OK) {
        return err;
    }
    if (config->reuse_percent == 0) {
        config->reuse_percent = REUSE_PERCENT_DEFAULT;
    }
    if (config->reuse_percent < -1 || config->reuse_percent > 100) {
        return err_set(info, ERR_CONFIG, "cache-reuse", "must be from 0 to 100");
    }
    plan->pages = (int32_t)pages;
    plan->reuse_pages = (int32_t)(pages * (uint64_t)MAX(config->reuse_percent, 0) / 100);
    plan->page_slots = PAGE_SLOTS;
    plan->cache = pages * page + pages_index_bytes(plan->pages) +
                  reuse_bytes(plan->pages, PAGE_SLOTS, plan->reuse_pages);
    return ERR_OK;
}

enum err engine_size(struct engine_config *config, const struct model *model,
    struct memory_plan *out_plan, struct err_info *info)
{
    const struct model_info *about = model_info(model);
    struct memory_plan plan = {0};
    enum err err = size_counts(config, about, info);
    if (err == ERR_OK) {
        err = size_cache(config, about, &plan, info);
    }
    if (err != ERR_OK) {
        return err;
    }
    config->result_bytes = config->result_bytes != 0 ? config->result_bytes : RESULT_BYTES_DEFAULT;
    config->results_bytes =
        config->results_bytes != 0 ? config->results_bytes : RESULTS_BYTES_DEFAULT;
    struct sched_config sched = {
        .sequences = config->sequences,
        .jobs = config->jobs,
        .context = config->context,
        .step_rows = config->step_rows,
        .tools = {.vocab = about->vocab, .hidden = about->hidden, .vector = about->vector},
    };
    plan.weights = model_bytes(model);
    plan.adapters = model_stack_bytes(model);
    plan.scratch = scratch_bytes(about, MIN(config->step_rows, TILE_ROWS)) +
                   scheduler_bytes(&sched, PAGE_SLOTS, config->threads);
    plan.one_shot_pages = scheduler_one_shot_pages(&sched, PAGE_SLOTS);
    plan.one_shot =
        pages_index_bytes(plan.one_shot_pages) +
        (uint64_t)plan.one_shot_pages * pages_page_bytes(config->kv_f32 ? KV_F32 : KV_F16, 1,
                                            about->heads_kv, about->head_dim, PAGE_SLOTS);
    plan.jobs =
        (uint64_t)config->jobs *
            (sizeof(struct job) + sizeof(uint32_t) + 2 * sizeof(struct job *) +
                sizeof(struct job_name) + (uint64_t)config->events * sizeof(struct token_event)) +
        config->results_bytes;
    plan.context = config->context;
    plan.sequences = config->sequences;
    plan.jobs_max = config->jobs;
    plan.step_rows = config->step_rows;
    plan.threads = config->threads;
    plan.kv_f32 = config->kv_f32;
    plan.int8_activations = about->int8_activations;
    plan.total =
        plan.weights + plan.adapters + plan.cache + plan.one_shot + plan.scratch + plan.jobs;
    *out_plan = plan;
    return ERR_OK;
}

/* ---- model and tokenizer ------------------------------------------------------------------- */

static enum err set_activations(
    const struct engine_config *config, struct model *model, struct err_info *info)
{
    return config->int8_activations ? model_use_int8(model, info) : ERR_OK;
}

/* What is said of the numbers: the tokenizer, the profile, and adapters, which a profile names. */
static enum err load_text(const struct gguf *gguf, const struct engine_config *config,
    struct model *model, struct tokenizer **out_tokenizer, struct err_info *info)
{
    struct tokenizer *tokenizer;
    struct model_info *about = model_info_mutable(model);
    enum err err = checkpoint_text_open(config->model_path, gguf, about->vocab, &tokenizer, info);
    if (err != ERR_OK) {
        return gguf_name_error(gguf, err, info);
    }
    if (tokenizer_vocab(tokenizer) != about->vocab) {
        err = err_set(info, ERR_FORMAT, "tokenizer.ggml.tokens",
            "%d tokens, but the embedding has %d rows", tokenizer_vocab(tokenizer), about->vocab);
    }
    if (err == ERR_OK) {
        err = profile_apply(config->model_path, config->profile_path, gguf, tokenizer, about, info);
    }
    err = gguf_name_error(gguf, err, info);
    if (err == ERR_OK) {
        err = adapters_load(config, gguf, model, info);
    }
    if (err != ERR_OK) {
        tokenizer_close(tokenizer);
        return err;
    }
    *out_tokenizer = tokenizer;
    return ERR_OK;
}

enum err engine_plan(const struct engine_config *config, struct memory_plan *out_plan,
    struct model_info *out_model, struct err_info *info)
{
    struct engine_config sized = *config;
    struct gguf *gguf = NULL;
    struct model *model = NULL;
    struct tokenizer *tokenizer = NULL;
    struct kernels kernels;
    enum err err = kernels_select(config->kernels, &kernels, info);
    if (err == ERR_OK) {
        err = checkpoint_open(config->model_path, &gguf, info);
    }
    if (err == ERR_OK) {
        err = model_open(gguf, &kernels, NULL, true, &model, info);
    }
    if (err == ERR_OK) {
        err = set_activations(config, model, info);
    }
    if (err == ERR_OK) {
        err = load_text(gguf, config, model, &tokenizer, info);
    }
    struct memory_plan plan;
    if (err == ERR_OK) {
        err = engine_size(&sized, model, &plan, info);
    }
    if (err == ERR_OK) {
        plan.tokenizer = tokenizer_bytes(tokenizer);
        plan.total += plan.tokenizer;
        *out_plan = plan;
        *out_model = *model_info(model);
        out_model->context = sized.context;
    }
    tokenizer_close(tokenizer);
    model_close(model);
    gguf_close(gguf);
    return err;
}

/* ---- opening ------------------------------------------------------------------------------- */

static void host_forward(void *context, struct batch *batch, int32_t unit_from, int32_t unit_to)
{
    struct engine *engine = context;
    model_forward(engine->model, engine->scratch, engine->threads, batch, unit_from, unit_to);
}

static void host_logits(void *context, const float *const *hidden, int32_t count, float *logits)
{
    struct engine *engine = context;
    model_logits(engine->model, engine->scratch, engine->threads, hidden, count, logits);
}

static void host_dense(void *context, double *const *rows, int32_t count)
{
    struct engine *engine = context;
    model_dense(engine->model, engine->scratch, engine->threads, rows, count);
}

static int64_t host_now(void *context)
{
    const struct engine *engine = context;
    return clock_now_us(engine->config.clock);
}

static enum err open_scheduler(struct engine *engine)
{
    const struct model_info *about = model_info(engine->model);
    struct sched_config config = {
        .sequences = engine->config.sequences,
        .jobs = engine->config.jobs,
        .context = engine->config.context,
        .step_rows = engine->config.step_rows,
        .step_us = engine->config.step_us,
        .pages = &engine->pages,
        .reuse_pages = engine->plan.reuse_pages,
        .reserve_tokens = engine->config.reserve_tokens,
        .threads = engine->threads,
        .tools =
            {
                .tokenizer = engine->tokenizer,
                .kernels = &engine->kernels,
                .vocab = about->vocab,
                .hidden = about->hidden,
                .vector = about->vector,
                .dense = about->dense_widest > 0,
                .vector_norm = about->vector_norm,
                .stacks = about->stack_table,
                .ends = engine->ends,
                .end_count = tokenizer_ends(engine->tokenizer, engine->ends),
            },
    };
    struct sched_host host = {
        .context = engine,
        .units = model_units(engine->model),
        .forward = host_forward,
        .logits = about->embeds_only ? NULL : host_logits,
        .dense = host_dense,
        .now_us = host_now,
        .done = engine_job_done,
        .progress = engine_job_progress,
    };
    return scheduler_open(&config, &host, &engine->scheduler);
}

/* The network's file, its weights and its text; the file is closed again before this returns. */
static enum err open_model(struct engine *engine, struct err_info *info)
{
    struct gguf *gguf = NULL;
    enum err err = checkpoint_open(engine->config.model_path, &gguf, info);
    if (err != ERR_OK) {
        return err;
    }
    err = model_open(gguf, &engine->kernels, engine->threads, false, &engine->model, info);
    if (err == ERR_OK) {
        err = set_activations(&engine->config, engine->model, info);
    }
    if (err == ERR_OK) {
        err = load_text(gguf, &engine->config, engine->model, &engine->tokenizer, info);
    }
    if (err == ERR_OK) {
        err = checkpoint_chat_open(
            engine->config.model_path, gguf, engine->tokenizer, &engine->chat_template, info);
    }
    gguf_close(gguf);
    return err;
}

static enum err open_pools(struct engine *engine, struct err_info *info)
{
    const struct model_info *about = model_info(engine->model);
    const struct engine_config *config = &engine->config;
    int32_t tile_rows = MIN(config->step_rows, TILE_ROWS);
    enum err err = pages_open(&engine->pages, config->kv_f32 ? KV_F32 : KV_F16, about->layers,
        about->heads_kv, about->head_dim, engine->plan.page_slots, engine->plan.pages);
    if (err == ERR_OK) {
        err = scratch_open(engine->model, tile_rows, &engine->scratch);
    }
    if (err == ERR_OK) {
        err = open_scheduler(engine);
    }
    if (err == ERR_OK) {
        scheduler_calibrate(engine->scheduler);
    }
    if (err != ERR_OK) {
        return err_set(info, err, "cache-mib", "the memory plan of %llu MiB does not fit",
            (unsigned long long)(engine->plan.total >> 20));
    }
    return ERR_OK;
}

/* Enough threads for the pool to exist before the model is sized: packing uses them too. */
static enum err open_threads(struct engine *engine, struct err_info *info)
{
    struct engine_config *config = &engine->config;
    enum err err = bound(&config->threads, threads_available(), LIMIT_THREADS, "threads", info);
    if (err == ERR_OK) {
        err = kernels_select(config->kernels, &engine->kernels, info);
    }
    if (err == ERR_OK) {
        err = threads_open(config->threads, &engine->threads);
        if (err != ERR_OK) {
            (void)err_set(info, err, "threads", "%d threads could not be started", config->threads);
        }
    }
    return err;
}

enum err engine_open(
    const struct engine_config *config, struct engine **out_engine, struct err_info *info)
{
    struct engine *engine = mem_alloc(MEM_OTHER, sizeof *engine);
    if (engine == NULL) {
        return err_set(info, ERR_NO_MEMORY, NULL, "no memory for the engine");
    }
    engine->config = *config;
    atomic_store(&engine->paused, config->start_paused);
    enum err err = open_threads(engine, info);
    if (err == ERR_OK) {
        err = open_model(engine, info);
    }
    if (err == ERR_OK) {
        err = engine_size(&engine->config, engine->model, &engine->plan, info);
    }
    if (err == ERR_OK) {
        engine->plan.tokenizer = tokenizer_bytes(engine->tokenizer);
        engine->plan.total += engine->plan.tokenizer;
        model_info_mutable(engine->model)->context = engine->config.context;
        err = open_pools(engine, info);
    }
    if (err == ERR_OK) {
        err = engine_start(engine, info);
    }
    if (err != ERR_OK) {
        engine_close(engine);
        return err;
    }
    *out_engine = engine;
    return ERR_OK;
}
