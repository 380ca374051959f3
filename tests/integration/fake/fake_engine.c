/*
 * engine/engine.h over one thread that sleeps instead of computing. Jobs run side by side up to
 * --sequences; a full event ring pauses a job, as the real engine does.
 */
#include "engine/engine.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "engine/base/assert.h"
#include "engine/base/mem.h"
#include "engine/base/ring.h"
#include "fake/fake.h"

enum { DEFAULT_EVENTS = 256, POLL_US = 1000 };

enum slot_state { SLOT_FREE, SLOT_TAKEN, SLOT_QUEUED, SLOT_RUNNING, SLOT_DONE };

struct slot {
    struct job job; /* first */
    enum slot_state state;
    int32_t tokens_done;
    int64_t next_us;
};

struct engine {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    struct slot *slots;
    int32_t count, sequences, running;
    struct ring progress; /* of uint32_t */
    struct model_info model;
    struct memory_plan plan;
    struct engine_stats stats;
    bool closing, draining, first_pass_fails;
    void (*wake)(void *context);
    void *wake_context;
};

static const struct fake_script default_script = {.tokens = 1};

static const struct fake_script *script_of(const struct job *job)
{
    return job->user != NULL ? (const struct fake_script *)job->plan.items : &default_script;
}

static int32_t option(const char *path, const char *name)
{
    const char *at = path != NULL ? strstr(path, name) : NULL;
    return at != NULL ? atoi(at + strlen(name)) : 0;
}

static void sleep_ms(int64_t ms)
{
    struct timespec time = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
    nanosleep(&time, NULL);
}

static void tell(struct engine *engine, struct job *job)
{
    if (!atomic_exchange(&job->queued, true)) {
        bool pushed = ring_push(&engine->progress, &job->index);
        ASSERT(pushed);
    }
    if (engine->wake != NULL) {
        engine->wake(engine->wake_context);
    }
}

static void finish(struct engine *engine, struct slot *slot, enum err err)
{
    struct job *job = &slot->job;
    enum kind kind = job->plan.kind;
    job->err = err;
    if (err != ERR_OK) {
        (void)err_set(&job->info, err, NULL, "scripted: %s", err_word(err));
    }
    if (job->times.prompt_done == 0) {
        job->times.prompt_done = clock_now_us(NULL);
    }
    job->times.finished = clock_now_us(NULL);
    engine->running -= slot->state == SLOT_RUNNING;
    slot->state = SLOT_DONE;
    if (err == ERR_OK) {
        engine->stats.completed[kind]++;
    } else if (err == ERR_CANCELLED) {
        engine->stats.cancelled[kind]++;
    } else {
        engine->stats.failed[kind]++;
    }
    engine->stats.in_flight[kind]--;
    atomic_store(&job->done, true);
    tell(engine, job);
}

/* One token. False when the event ring is full: the job pauses. */
static bool add_token(struct slot *slot, const struct fake_script *script)
{
    struct job *job = &slot->job;
    struct item_result *item = &job->results[0];
    struct step_result *step = &item->steps[0];
    struct token_event event = {.index = slot->tokens_done,
        .token = 7,
        .text_from = slot->tokens_done * script->bytes,
        .text_bytes = script->bytes,
        .last = slot->tokens_done + 1 == script->tokens,
        .finish = FINISH_LENGTH};
    memset(step->text + event.text_from, 'a' + slot->tokens_done % 26, (size_t)script->bytes);
    if (job->plan.stream && !ring_push(&job->events, &event)) {
        return false;
    }
    if (slot->tokens_done++ == 0) {
        job->times.first_token = clock_now_us(NULL);
    }
    step->text_bytes = slot->tokens_done * script->bytes;
    step->token_count = slot->tokens_done;
    item->generated_tokens = slot->tokens_done;
    return true;
}

static void step_job(struct engine *engine, struct slot *slot, int64_t now_us)
{
    struct job *job = &slot->job;
    const struct fake_script *script = script_of(job);
    if (atomic_load(&job->cancelled)) {
        finish(engine, slot, ERR_CANCELLED);
        return;
    }
    if (job->plan.deadline_us != 0 && now_us >= job->plan.deadline_us) {
        finish(engine, slot, ERR_DEADLINE);
        return;
    }
    if (slot->state == SLOT_QUEUED && job->plan.start_by_us != 0 &&
        now_us >= job->plan.start_by_us) {
        finish(engine, slot, ERR_DEADLINE);
        return;
    }
    if (slot->state == SLOT_QUEUED) {
        if (engine->running >= engine->sequences) {
            slot->next_us = now_us + POLL_US;
            return;
        }
        slot->state = SLOT_RUNNING;
        engine->running++;
        job->times.started = now_us;
        slot->next_us = now_us + script->prompt_ms * INT64_C(1000);
        if (script->prompt_ms > 0) {
            return;
        }
    }
    if (job->times.prompt_done == 0) {
        job->times.prompt_done = now_us;
    }
    engine->stats.steps++;
    engine->stats.step_kinds[1]++;
    engine->stats.last_step_us = now_us;
    if (engine->first_pass_fails ||
        (script->fail != ERR_OK && slot->tokens_done >= script->fail_after)) {
        finish(engine, slot, engine->first_pass_fails ? ERR_NON_FINITE : script->fail);
    } else if (slot->tokens_done >= script->tokens) {
        finish(engine, slot, ERR_OK);
    } else {
        bool added = add_token(slot, script);
        slot->next_us = now_us + (added ? script->step_ms * INT64_C(1000) : POLL_US);
        if (added && job->plan.stream) {
            tell(engine, job);
        }
    }
}

static void *run(void *context)
{
    struct engine *engine = context;
    pthread_mutex_lock(&engine->lock);
    while (!engine->closing) {
        int64_t now_us = clock_now_us(NULL), next_us = now_us + 3600 * INT64_C(1000000);
        for (int32_t i = 0; i < engine->count; i++) {
            struct slot *slot = &engine->slots[i];
            bool active = slot->state == SLOT_QUEUED || slot->state == SLOT_RUNNING;
            if (active && slot->next_us <= now_us) {
                step_job(engine, slot, now_us);
                active = slot->state == SLOT_QUEUED || slot->state == SLOT_RUNNING;
            }
            if (active) {
                next_us = MIN(next_us, slot->next_us);
            }
        }
        int64_t wait_us = MAX(next_us - clock_now_us(NULL), 0);
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += (time_t)(wait_us / 1000000);
        until.tv_nsec += (long)(wait_us % 1000000) * 1000;
        if (until.tv_nsec >= 1000000000) {
            until.tv_nsec -= 1000000000;
            until.tv_sec++;
        }
        if (wait_us > 0) {
            pthread_cond_timedwait(&engine->changed, &engine->lock, &until);
        }
    }
    pthread_mutex_unlock(&engine->lock);
    return NULL;
}

/* ---- engine.h ---- */

enum err engine_plan(const struct engine_config *config, struct memory_plan *out_plan,
    struct model_info *out_model, struct err_info *info)
{
    if (strncmp(config->model_path, "fake", 4) != 0) {
        return err_set(info, ERR_IO, "model", "no such scripted model");
    }
    *out_plan = (struct memory_plan){.weights = 1 << 20,
        .total = 1 << 20,
        .context = 4096,
        .sequences = config->sequences,
        .jobs_max = config->jobs,
        .step_rows = config->step_rows,
        .threads = 1};
    *out_model = (struct model_info){.name = "fake",
        .architecture = "llama",
        .weights_type = "f32",
        .hidden = 4,
        .vector = 4,
        .context = 4096,
        .embed_pooling = POOLING_MEAN,
        .can_generate = true,
        .can_embed = true,
        .can_infill = true,
        .can_classify = true,
        .infill_modes = {INFILL_HYBRID},
        .infill_mode_count = 1};
    return ERR_OK;
}

enum err engine_open(
    const struct engine_config *config, struct engine **out_engine, struct err_info *info)
{
    struct engine *engine = mem_alloc(MEM_OTHER, sizeof(*engine));
    ASSERT(engine != NULL);
    enum err err = engine_plan(config, &engine->plan, &engine->model, info);
    if (err != ERR_OK || strstr(config->model_path, "load=fail") != NULL) {
        mem_free(engine);
        return err_set(info, ERR_FORMAT, "tensor", "scripted: the file is broken");
    }
    sleep_ms(option(config->model_path, "load_ms="));
    engine->first_pass_fails = strstr(config->model_path, "first_pass=fail") != NULL;
    engine->count = config->jobs;
    engine->sequences = config->sequences;
    engine->slots = mem_array(MEM_JOBS, (size_t)engine->count, sizeof(struct slot));
    ASSERT(engine->slots != NULL);
    ASSERT(ring_init(&engine->progress, 1 << 17, sizeof(uint32_t)) == ERR_OK);
    for (int32_t i = 0; i < engine->count; i++) {
        struct job *job = &engine->slots[i].job;
        job->index = (uint32_t)i;
        arena_init(&job->results_arena, MEM_JOBS, 1024, 1 << 26);
        int32_t events = config->events > 0 ? config->events : DEFAULT_EVENTS;
        ASSERT(ring_init(&job->events, (uint32_t)events, sizeof(struct token_event)) == ERR_OK);
    }
    pthread_mutex_init(&engine->lock, NULL);
    pthread_cond_init(&engine->changed, NULL);
    ASSERT(pthread_create(&engine->thread, NULL, run, engine) == 0);
    *out_engine = engine;
    return ERR_OK;
}

void engine_close(struct engine *engine)
{
    if (engine == NULL) {
        return;
    }
    pthread_mutex_lock(&engine->lock);
    engine->closing = true;
    pthread_cond_signal(&engine->changed);
    pthread_mutex_unlock(&engine->lock);
    pthread_join(engine->thread, NULL);
    for (int32_t i = 0; i < engine->count; i++) {
        ASSERT(engine->slots[i].state == SLOT_FREE);
        arena_drop(&engine->slots[i].job.results_arena);
        ring_free(&engine->slots[i].job.events);
    }
    ring_free(&engine->progress);
    pthread_cond_destroy(&engine->changed);
    pthread_mutex_destroy(&engine->lock);
    mem_free(engine->slots);
    mem_free(engine);
}

const struct model_info *engine_model(const struct engine *engine)
{
    return &engine->model;
}

const struct chat_template *engine_chat_template(const struct engine *engine)
{
    (void)engine;
    return NULL;
}

const struct tokenizer *engine_tokenizer(const struct engine *engine)
{
    (void)engine;
    return NULL;
}

const struct memory_plan *engine_memory(const struct engine *engine)
{
    return &engine->plan;
}

const char *engine_kernels(const struct engine *engine)
{
    (void)engine;
    return "fake";
}

bool engine_deterministic(const struct engine *engine)
{
    (void)engine;
    return true;
}

static void reset(struct slot *slot)
{
    slot->tokens_done = 0;
    slot->next_us = 0;
    slot->job.generation++;
    slot->job.err = ERR_OK;
    slot->job.times = (struct job_times){0};
    slot->job.results = NULL;
    atomic_store(&slot->job.cancelled, false);
    atomic_store(&slot->job.done, false);
    atomic_store(&slot->job.queued, false);
}

enum err engine_acquire(struct engine *engine, struct job **out_job)
{
    pthread_mutex_lock(&engine->lock);
    for (int32_t i = 0; i < engine->count; i++) {
        struct slot *slot = &engine->slots[i];
        if (slot->state == SLOT_FREE) {
            slot->state = SLOT_TAKEN;
            reset(slot);
            slot->job.user = NULL;
            *out_job = &slot->job;
            pthread_mutex_unlock(&engine->lock);
            return ERR_OK;
        }
    }
    pthread_mutex_unlock(&engine->lock);
    return ERR_BUSY;
}

static int32_t jobs_inside(const struct engine *engine)
{
    int32_t count = 0;
    for (int32_t i = 0; i < engine->count; i++) {
        enum slot_state state = engine->slots[i].state;
        count += state == SLOT_QUEUED || state == SLOT_RUNNING;
    }
    return count;
}

enum err engine_submit(struct engine *engine, struct job *job, struct err_info *info)
{
    const struct fake_script *script = script_of(job);
    struct arena *arena = &job->results_arena;
    enum err err = ERR_OK;
    size_t bytes = (size_t)MAX(script->tokens, 1) * (size_t)MAX(script->bytes, 1);
    struct item_result *result = arena_alloc(arena, sizeof(*result));
    struct step_result *step = arena_alloc(arena, sizeof(*step));
    char *text = arena_alloc(arena, bytes);
    if (result == NULL || step == NULL || text == NULL) {
        return err_set(info, ERR_NO_MEMORY, NULL, "no memory for the results");
    }
    step->text = text;
    result->steps = step;
    result->prompt_tokens = job->plan.items[0].token_count;
    job->results = result;
    job->times.submitted = clock_now_us(NULL);
    pthread_mutex_lock(&engine->lock);
    if (engine->draining) {
        err = err_set(info, ERR_SHUTDOWN, NULL, "the engine is stopping");
    } else {
        if (jobs_inside(engine) == 0) {
            engine->stats.last_step_us = job->times.submitted;
        }
        ((struct slot *)job)->state = SLOT_QUEUED;
        engine->stats.received[job->plan.kind]++;
        engine->stats.in_flight[job->plan.kind]++;
        pthread_cond_signal(&engine->changed);
    }
    pthread_mutex_unlock(&engine->lock);
    return err;
}

void engine_on_progress(struct engine *engine, void (*wake)(void *context), void *context)
{
    engine->wake = wake;
    engine->wake_context = context;
}

bool engine_next(struct engine *engine, struct job **out_job, bool *out_done)
{
    uint32_t index;
    if (!ring_pop(&engine->progress, &index)) {
        return false;
    }
    struct job *job = &engine->slots[index].job;
    atomic_store(&job->queued, false);
    *out_job = job;
    *out_done = atomic_load(&job->done);
    return true;
}

/* For what serves no HTTP: nobody else signals the end of a job. */
void engine_wait(struct engine *engine, struct job *job)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    (void)engine;
    while (!atomic_load(&job->done)) {
        (void)nanosleep(&pause, NULL);
    }
}

static void drop_results(struct job *job)
{
    struct token_event event;
    while (ring_pop(&job->events, &event)) {
    }
    arena_reset(&job->results_arena);
}

void engine_renew(struct engine *engine, struct job *job)
{
    drop_results(job);
    pthread_mutex_lock(&engine->lock);
    ((struct slot *)job)->state = SLOT_TAKEN;
    reset((struct slot *)job);
    pthread_mutex_unlock(&engine->lock);
}

void engine_release(struct engine *engine, struct job *job)
{
    drop_results(job);
    pthread_mutex_lock(&engine->lock);
    ((struct slot *)job)->state = SLOT_FREE;
    pthread_mutex_unlock(&engine->lock);
}

void engine_stats(struct engine *engine, struct engine_stats *out_stats)
{
    pthread_mutex_lock(&engine->lock);
    *out_stats = engine->stats;
    out_stats->sequences_running = (uint32_t)engine->running;
    for (int32_t i = 0; i < engine->count; i++) {
        bool queued = engine->slots[i].state == SLOT_QUEUED;
        out_stats->queue_depth += queued;
        out_stats->work_waiting |= queued || engine->slots[i].state == SLOT_RUNNING;
        out_stats->accepted[CLASS_GENERATE] += queued; /* one class is enough here */
    }
    pthread_mutex_unlock(&engine->lock);
}

void engine_drain(struct engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    engine->draining = true;
    pthread_mutex_unlock(&engine->lock);
}

void job_cancel(struct job *job)
{
    atomic_store(&job->cancelled, true);
}
