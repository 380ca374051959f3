/*
 * The engine's two crossings and its thread: jobs in through one ring, finished jobs and stream
 * progress out through another, and in between one thread that owns scheduler, cache and scratch.
 * Loading is in engine_open.c, everything about steps in sched/.
 */
#include "engine/engine.h"

#include <string.h>
#include "engine/base/assert.h"
#include "engine/engine_private.h"

/* How long the thread sleeps when all that is left waits for slow stream clients. */
enum { BLOCKED_WAIT_MS = 2 };

/* ---- progress: engine thread -> taker ------------------------------------------------------ */

/* Puts a name into the progress ring; the caller holds the lock. The ring has room for every job
 * once. Names of jobs that were waited for and released instead of taken may fill it: they are
 * dropped then. */
static void push_name(struct engine *engine, const struct job *job)
{
    struct job_name name = {.index = job->index, .generation = job->generation};
    if (ring_push(&engine->progressed, &name)) {
        return;
    }
    struct job_name old;
    for (uint32_t left = ring_count(&engine->progressed); left > 0; left--) {
        if (ring_pop(&engine->progressed, &old) &&
            engine->jobs[old.index].generation == old.generation) {
            bool kept = ring_push(&engine->progressed, &old);
            ASSERT(kept);
        }
    }
    bool pushed = ring_push(&engine->progressed, &name);
    ASSERT(pushed);
}

void engine_job_progress(void *context, struct job *job)
{
    struct engine *engine = context;
    if (!atomic_exchange(&job->queued, true)) {
        pthread_mutex_lock(&engine->lock);
        push_name(engine, job);
        pthread_mutex_unlock(&engine->lock);
    }
    if (engine->wake != NULL) {
        engine->wake(engine->wake_context);
    }
}

/* `done` is set under the lock: engine_wait may release the job at once, so nothing touches it
 * afterwards. */
void engine_job_done(void *context, struct job *job)
{
    struct engine *engine = context;
    pthread_mutex_lock(&engine->lock);
    scheduler_stats(engine->scheduler, &engine->stats);
    atomic_store(&job->done, true);
    if (!atomic_exchange(&job->queued, true)) {
        push_name(engine, job);
    }
    pthread_cond_broadcast(&engine->job_done);
    pthread_mutex_unlock(&engine->lock);
    if (engine->wake != NULL) {
        engine->wake(engine->wake_context);
    }
}

/* ---- the thread ---------------------------------------------------------------------------- */

static void copy_stats(struct engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    scheduler_stats(engine->scheduler, &engine->stats);
    pthread_mutex_unlock(&engine->lock);
}

static void take_submitted(struct engine *engine, int64_t timeout_ms)
{
    struct job *job;
    if (timeout_ms != 0 && ring_pop_wait(&engine->submitted, &job, timeout_ms)) {
        scheduler_add(engine->scheduler, job);
    }
    while (ring_pop(&engine->submitted, &job)) {
        scheduler_add(engine->scheduler, job);
    }
}

static void *engine_thread(void *context)
{
    struct engine *engine = context;
    mem_seal_thread(1);
    bool ran = false;
    while (!atomic_load(&engine->stopping)) {
        bool busy = scheduler_busy(engine->scheduler);
        take_submitted(engine, ran ? 0 : busy ? BLOCKED_WAIT_MS : -1);
        ran = false;
        if (!atomic_load(&engine->paused) && scheduler_busy(engine->scheduler)) {
            ran = scheduler_step(engine->scheduler);
        }
        copy_stats(engine);
    }
    take_submitted(engine, 0);
    scheduler_abort(engine->scheduler);
    copy_stats(engine);
    mem_seal_thread(0);
    return NULL;
}

/* ---- start and stop ------------------------------------------------------------------------ */

static enum err open_jobs(struct engine *engine)
{
    size_t count = (size_t)engine->config.jobs;
    engine->jobs = mem_array(MEM_JOBS, count, sizeof(struct job));
    engine->free_jobs = mem_array(MEM_JOBS, count, sizeof(uint32_t));
    if (engine->jobs == NULL || engine->free_jobs == NULL) {
        return ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < count; i++) {
        engine->jobs[i].index = i;
        engine->free_jobs[engine->free_count++] = (uint32_t)count - 1 - i;
        enum err err = ring_init(
            &engine->jobs[i].events, (uint32_t)engine->config.events, sizeof(struct token_event));
        if (err != ERR_OK) {
            return err;
        }
    }
    return ERR_OK;
}

enum err engine_start(struct engine *engine, struct err_info *info)
{
    const struct model_info *about = model_info(engine->model);
    engine->bounds = (struct plan_bounds){
        .vocab = about->vocab,
        .hidden = about->hidden,
        .vector = about->vector,
        .context = engine->config.context,
        .embeds_only = about->embeds_only,
        /* Rows appended later count on from the newest, at most a context of them. */
        .position_max =
            MIN(MODEL_POSITIONS - engine->config.context, model_positions(engine->model)) - 1,
        .piece_bytes_max = (int32_t)detokenizer_bound(engine->tokenizer),
        .result_bytes = (size_t)engine->config.result_bytes,
    };
    uint32_t capacity = 1;
    while (capacity < (uint32_t)engine->config.jobs) {
        capacity *= 2;
    }
    if (pthread_mutex_init(&engine->lock, NULL) != 0) {
        return err_set(info, ERR_NO_MEMORY, NULL, "no lock for the engine");
    }
    (void)pthread_cond_init(&engine->job_done, NULL);
    engine->lock_ready = true;
    enum err err = ring_init(&engine->submitted, capacity, sizeof(struct job *));
    if (err == ERR_OK) {
        err = ring_init(&engine->progressed, capacity, sizeof(struct job_name));
    }
    if (err == ERR_OK) {
        err = open_jobs(engine);
    }
    if (err == ERR_OK && pthread_create(&engine->thread, NULL, engine_thread, engine) != 0) {
        err = ERR_NO_MEMORY;
    }
    if (err != ERR_OK) {
        return err_set(info, err, "jobs", "no memory for %d jobs", engine->config.jobs);
    }
    engine->thread_started = true;
    return ERR_OK;
}

static void close_jobs(struct engine *engine)
{
    for (int32_t i = 0; engine->jobs != NULL && i < engine->config.jobs; i++) {
        ring_free(&engine->jobs[i].events);
        arena_drop(&engine->jobs[i].results_arena);
    }
    mem_free(engine->jobs);
    mem_free(engine->free_jobs);
}

void engine_close(struct engine *engine)
{
    if (engine == NULL) {
        return;
    }
    if (engine->thread_started) {
        atomic_store(&engine->stopping, true);
        ring_wake(&engine->submitted);
        pthread_join(engine->thread, NULL);
    }
    scheduler_close(engine->scheduler);
    scratch_close(engine->scratch);
    pages_close(&engine->pages);
    close_jobs(engine);
    ring_free(&engine->submitted);
    ring_free(&engine->progressed);
    if (engine->lock_ready) {
        pthread_cond_destroy(&engine->job_done);
        pthread_mutex_destroy(&engine->lock);
    }
    chat_template_close(engine->chat_template);
    tokenizer_close(engine->tokenizer);
    model_close(engine->model);
    threads_close(engine->threads);
    mem_free(engine);
}

/* ---- what is loaded ------------------------------------------------------------------------ */

const struct model_info *engine_model(const struct engine *engine)
{
    return model_info(engine->model);
}

const struct chat_template *engine_chat_template(const struct engine *engine)
{
    return engine->chat_template;
}

const struct tokenizer *engine_tokenizer(const struct engine *engine)
{
    return engine->tokenizer;
}

const struct memory_plan *engine_memory(const struct engine *engine)
{
    return &engine->plan;
}

const char *engine_kernels(const struct engine *engine)
{
    return engine->kernels.name;
}

bool engine_deterministic(const struct engine *engine)
{
    return engine->kernels.deterministic;
}

/* ---- jobs ---------------------------------------------------------------------------------- */

static void reset_job(struct job *job)
{
    job->plan = (struct plan){0};
    job->results = NULL;
    job->results_bytes = 0;
    job->err = ERR_OK;
    job->info = (struct err_info){0};
    job->times = (struct job_times){0};
    atomic_store(&job->cancelled, false);
    atomic_store(&job->done, false);
    atomic_store(&job->queued, false);
}

enum err engine_acquire(struct engine *engine, struct job **out_job)
{
    pthread_mutex_lock(&engine->lock);
    if (engine->free_count == 0) {
        pthread_mutex_unlock(&engine->lock);
        return ERR_BUSY;
    }
    struct job *job = &engine->jobs[engine->free_jobs[--engine->free_count]];
    pthread_mutex_unlock(&engine->lock);
    job->user = NULL;
    reset_job(job);
    *out_job = job;
    return ERR_OK;
}

/* With the new generation, names of the job that still wait in the ring mean nothing. */
static void drop_results(struct engine *engine, struct job *job, bool free)
{
    struct token_event event;
    while (ring_pop(&job->events, &event)) {
    }
    arena_drop(&job->results_arena);
    pthread_mutex_lock(&engine->lock);
    engine->results_bytes -= job->results_bytes;
    job->generation++;
    if (free) {
        engine->free_jobs[engine->free_count++] = job->index;
    }
    pthread_mutex_unlock(&engine->lock);
}

void engine_release(struct engine *engine, struct job *job)
{
    drop_results(engine, job, true);
}

void engine_renew(struct engine *engine, struct job *job)
{
    drop_results(engine, job, false);
    reset_job(job);
}

/* Counts the job's results against the bound of all; false when there is no room now. */
static bool reserve_results(struct engine *engine, struct job *job)
{
    pthread_mutex_lock(&engine->lock);
    bool fits = engine->results_bytes + job->results_arena.bytes <= engine->config.results_bytes;
    if (fits) {
        job->results_bytes = job->results_arena.bytes;
        engine->results_bytes += job->results_bytes;
    }
    pthread_mutex_unlock(&engine->lock);
    return fits;
}

static enum err try_submit(struct engine *engine, struct job *job, struct err_info *info)
{
    if (atomic_load(&engine->draining) || atomic_load(&engine->stopping)) {
        return err_set(info, ERR_SHUTDOWN, NULL, "the server is stopping");
    }
    enum err err = plan_check(&job->plan, &engine->bounds, info);
    if (err == ERR_OK) {
        err = plan_size_results(job, &engine->bounds, info);
    }
    if (err != ERR_OK) {
        return err;
    }
    if (!reserve_results(engine, job)) {
        return err_set(info, ERR_BUSY, NULL, "the memory for results is taken");
    }
    job->times.submitted = clock_now_us(engine->config.clock);
    if (!ring_push(&engine->submitted, &job)) {
        return err_set(info, ERR_BUSY, NULL, "the queue is full");
    }
    return ERR_OK;
}

/* Accepted and not finished; the caller holds the lock. */
static uint64_t jobs_inside(const struct engine *engine)
{
    const struct engine_stats *stats = &engine->stats;
    uint64_t count = 0;
    for (int32_t k = 0; k < KIND_COUNT; k++) {
        count += engine->received[k] - engine->rejected[k] - stats->completed[k] -
                 stats->cancelled[k] - stats->failed[k];
    }
    return count;
}

enum err engine_submit(struct engine *engine, struct job *job, struct err_info *info)
{
    enum kind kind = job->plan.kind;
    if ((unsigned)kind >= KIND_COUNT) {
        return err_set(info, ERR_INVALID, "kind", "is unknown");
    }
    enum service_class class = plan_class(&job->plan);
    /* Counted first: once the job is in the ring it may be completed before this returns. */
    pthread_mutex_lock(&engine->lock);
    uint64_t waiting = engine->accepted[class] - engine->stats.left_queue[class];
    if (jobs_inside(engine) == 0) {
        engine->work_since_us = clock_now_us(engine->config.clock);
    }
    engine->received[kind]++;
    if (class == CLASS_BULK && waiting >= (uint64_t)engine->config.jobs_bulk) {
        engine->rejected[kind]++;
        pthread_mutex_unlock(&engine->lock);
        return err_set(info, ERR_BUSY, NULL, "too many bulk requests are waiting");
    }
    engine->accepted[class]++;
    pthread_mutex_unlock(&engine->lock);
    enum err err = try_submit(engine, job, info);
    if (err != ERR_OK) {
        pthread_mutex_lock(&engine->lock);
        engine->rejected[kind]++;
        engine->accepted[class]--;
        pthread_mutex_unlock(&engine->lock);
    }
    return err;
}

void engine_on_progress(struct engine *engine, void (*wake)(void *context), void *context)
{
    engine->wake = wake;
    engine->wake_context = context;
}

bool engine_next(struct engine *engine, struct job **out_job, bool *out_done)
{
    struct job_name name;
    while (ring_pop(&engine->progressed, &name)) {
        struct job *job = &engine->jobs[name.index];
        pthread_mutex_lock(&engine->lock);
        bool current = job->generation == name.generation;
        pthread_mutex_unlock(&engine->lock);
        if (current) {
            atomic_store(&job->queued, false);
            *out_done = atomic_load(&job->done);
            *out_job = job;
            return true;
        }
    }
    return false;
}

void engine_wait(struct engine *engine, struct job *job)
{
    pthread_mutex_lock(&engine->lock);
    while (!atomic_load(&job->done)) {
        pthread_cond_wait(&engine->job_done, &engine->lock);
    }
    pthread_mutex_unlock(&engine->lock);
}

void engine_resume(struct engine *engine)
{
    atomic_store(&engine->paused, false);
    ring_wake(&engine->submitted);
}

void engine_drain(struct engine *engine)
{
    atomic_store(&engine->draining, true);
}

void engine_stats(struct engine *engine, struct engine_stats *out_stats)
{
    pthread_mutex_lock(&engine->lock);
    *out_stats = engine->stats;
    for (int32_t k = 0; k < KIND_COUNT; k++) {
        out_stats->received[k] = engine->received[k];
        out_stats->rejected[k] = engine->rejected[k];
        out_stats->in_flight[k] = engine->received[k] - engine->rejected[k] -
                                  engine->stats.completed[k] - engine->stats.cancelled[k] -
                                  engine->stats.failed[k];
    }
    out_stats->last_step_us = MAX(out_stats->last_step_us, engine->work_since_us);
    out_stats->activity = scheduler_activity(engine->scheduler);
    out_stats->queue_depth = 0;
    for (int32_t c = 0; c < CLASS_COUNT; c++) {
        out_stats->accepted[c] = engine->accepted[c];
        out_stats->queue_depth += (uint32_t)(engine->accepted[c] - engine->stats.left_queue[c]);
    }
    pthread_mutex_unlock(&engine->lock);
    out_stats->work_waiting |= out_stats->queue_depth > 0;
}
