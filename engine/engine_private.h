/* The engine's inside, shared by engine.c (jobs, threads) and engine_open.c (loading, sizes). */
#ifndef ENGINE_ENGINE_PRIVATE_H
#define ENGINE_ENGINE_PRIVATE_H

#include <pthread.h>
#include "engine/engine.h"
#include "engine/load/gguf.h"
#include "engine/model/model.h"
#include "engine/plan_check.h"
#include "engine/sched/scheduler.h"
#include "engine/template/chat_template.h"
#include "engine/text/tokenizer.h"

struct engine {
    struct engine_config config; /* defaults filled in; the strings stay the caller's and are only
                                    used while opening */
    struct memory_plan plan;
    struct plan_bounds bounds;

    /* Read-only once open. */
    struct kernels kernels;
    struct threads *threads;
    struct model *model;
    struct tokenizer *tokenizer;
    struct chat_template *chat_template; /* NULL: the checkpoint has none */
    int32_t ends[LIMIT_END_TOKENS];

    /* The engine thread's. */
    struct pages pages;
    struct scratch *scratch;
    struct scheduler *scheduler;
    pthread_t thread;
    bool thread_started;

    /* Crossings. */
    struct ring submitted;  /* of struct job * */
    struct ring progressed; /* of struct job_name */
    void (*wake)(void *context);
    void *wake_context;

    /* Under `lock`: the job pool, the copy of the statistics, and waiting for a job. */
    pthread_mutex_t lock;
    pthread_cond_t job_done;
    bool lock_ready;
    struct job *jobs;
    uint32_t *free_jobs;
    uint32_t free_count;
    uint64_t results_bytes;
    int64_t work_since_us; /* when a job came and no other was there */
    uint64_t received[KIND_COUNT], rejected[KIND_COUNT], accepted[CLASS_COUNT];
    struct engine_stats stats;

    _Atomic bool paused, draining, stopping;
};

/* What a progress ring element names: a job that may have been released since. */
struct job_name {
    uint32_t index, generation;
};

/* Fills `config` with defaults for this model and sizes everything; ERR_CONFIG names the flag. */
MUST_USE enum err engine_size(struct engine_config *config, const struct model *model,
    struct memory_plan *out_plan, struct err_info *info);

/* Rings, job pool and the thread; the last thing engine_open does. */
MUST_USE enum err engine_start(struct engine *engine, struct err_info *info);
/* The scheduler's way out (struct sched_host). */
void engine_job_done(void *context, struct job *job);
void engine_job_progress(void *context, struct job *job);

#endif
