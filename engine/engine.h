/*
 * The one door of the engine: open a model, submit plans, take results. Everything under
 * engine/ that is not included from here (types.h, job.h, text/tokenizer.h) is private to it.
 *
 * Threads: open and close from one thread; the rest from any thread. The engine runs one thread of
 * its own plus compute workers. Two engines can live in one process.
 */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/job.h"
#include "engine/types.h"

struct engine;
struct tokenizer;
struct chat_template;

/* What memory_plan is made of. 0 = the default in parentheses. */
struct engine_config {
    const char *model_path;
    const char *profile_path; /* NULL = NAME.profile.json beside the model if it exists */
    const char *adapters[LIMIT_ADAPTERS]; /* files or folders, in order (engine/adapters.h) */
    int32_t adapter_count;
    const char *kernels;       /* NULL = best for this CPU; "ref", "avx2", "avx512", "blas" */
    int32_t threads;           /* compute threads (CPUs available) */
    int32_t context;           /* tokens of one sequence (the model's, at most 8192) */
    bool kv_f32;               /* K/V as f32 instead of f16 */
    bool int8_activations;     /* multiply block formats with inputs in 8 bits instead of f32 */
    uint64_t cache_bytes;      /* K/V pages (enough for 4 full contexts, at most 1 GiB, at least one
                                 context) */
    int32_t reuse_percent;     /* of the pages that may be kept for later requests (100); -1 = 0 */
    int32_t reserve_tokens;    /* tokens to generate that pages are held for at start (64) */
    int32_t sequences;         /* running at once (64) */
    int32_t jobs;              /* accepted at once, queued ones included (512) */
    int32_t events;            /* token events a stream may hold (256, at least two a sequence) */
    int32_t jobs_bulk;         /* bulk jobs that wait at once (half of `jobs`) */
    int32_t step_rows;         /* rows of one forward pass at most (512) */
    int64_t step_us;           /* a step without decodes may take so long (50 ms) */
    uint64_t result_bytes;     /* bound of one job's results (64 MiB) */
    uint64_t results_bytes;    /* bound of all jobs' results together (512 MiB) */
    bool start_paused;         /* tests: work is accepted but no step runs until engine_resume */
    const struct clock *clock; /* NULL = the machine's */
};

/* Sizes fixed at start, in bytes; what --print-plan prints. */
struct memory_plan {
    uint64_t weights, adapters, cache, one_shot, scratch, jobs, tokenizer, total;
    int32_t context, sequences, jobs_max, step_rows, page_slots, pages, reuse_pages, one_shot_pages,
        threads;
    bool kv_f32, int8_activations;
};

/* What the engine thread is at. */
#define ACTIVITY_MAP(X)                                                                            \
    X(REST, "nothing")                                                                             \
    X(CHOOSE, "choosing rows")                                                                     \
    X(PASS, "a forward pass") X(SLICE, "a slice of a context block") X(LOGITS, "logits")

enum activity {
#define X(name, word) ACTIVITY_##name,
    ACTIVITY_MAP(X)
#undef X
        ACTIVITY_COUNT
};

struct engine_activity {
    enum activity what;
    int32_t rows;
    unsigned kinds; /* bit k = rows of kind k among them */
};

/* What a sequence may find in the reuse store: a beginning of its causal rows, or its context block
 * as a whole. Order is the order of the metric label `store`. */
enum reuse_store { REUSE_PREFIX, REUSE_CONTEXT, REUSE_STORES };

/* Counters since start and gauges of now; copied under a lock, never through the submit ring. */
struct engine_stats {
    uint64_t received[KIND_COUNT], completed[KIND_COUNT], cancelled[KIND_COUNT],
        rejected[KIND_COUNT], failed[KIND_COUNT];
    uint64_t in_flight[KIND_COUNT];
    uint64_t prompt_tokens[KIND_COUNT], cached_tokens[KIND_COUNT], generated_tokens[KIND_COUNT];
    uint64_t step_rows[KIND_COUNT];      /* rows computed */
    uint64_t step_kinds[KIND_COUNT + 1]; /* [k] = steps that carried k of the four kinds */
    uint64_t steps;
    uint64_t step_us_sum;
    uint64_t step_us_buckets[20]; /* bucket i: <= 500 us * 2^i, not cumulative */
    uint64_t preemptions;
    uint64_t reuse_hits[REUSE_STORES], reuse_misses[REUSE_STORES];
    uint64_t accepted[CLASS_COUNT], left_queue[CLASS_COUNT]; /* jobs; the rest waits */
    uint32_t queue_depth;                                    /* jobs that wait, of all classes */
    uint32_t sequences_running;
    /* Free; held by sequences; kept by the reuse store alone; held more than once. */
    uint32_t pages_free, pages_used, pages_kept, pages_shared;
    /* Monotonic: when the newest step ended, or when work came after a rest. A time in which all
     * that runs waits for slow clients counts as steps. */
    int64_t last_step_us;
    struct engine_activity activity;
    bool work_waiting;
    double tokens_per_second; /* recent rows per second, for Retry-After */
};

/* Only reads headers: sizes without loading (--print-plan) or a complete check (--check-model). */
MUST_USE enum err engine_plan(const struct engine_config *config, struct memory_plan *out_plan,
    struct model_info *out_model, struct err_info *info);
/* Loads, checks, allocates and starts. On failure *info names the key, tensor or flag. */
MUST_USE enum err engine_open(
    const struct engine_config *config, struct engine **out_engine, struct err_info *info);
/* Cancels what runs, joins the thread, frees. All jobs must have been released. NULL allowed. */
void engine_close(struct engine *engine);

const struct model_info *engine_model(const struct engine *engine);
const struct tokenizer *engine_tokenizer(const struct engine *engine);
/* NULL when the checkpoint has none. */
const struct chat_template *engine_chat_template(const struct engine *engine);
const struct memory_plan *engine_memory(const struct engine *engine);
/* Name of the kernel rung in use, and whether its bits are independent of the batch. */
const char *engine_kernels(const struct engine *engine);
bool engine_deterministic(const struct engine *engine);

/* A free job slot, reset; ERR_BUSY when all are taken. */
MUST_USE enum err engine_acquire(struct engine *engine, struct job **out_job);
/* Checks the plan against the model and limits (ERR_CONTEXT, ERR_LIMIT, ERR_INVALID with info),
 * sizes the results and queues the job. ERR_BUSY when the ring, the memory for results or the
 * places of bulk requests are taken, ERR_SHUTDOWN when draining. On failure the job
 * is still the caller's, who may submit it again. */
MUST_USE enum err engine_submit(struct engine *engine, struct job *job, struct err_info *info);
/* Called from the engine thread whenever a job is done or an event was added: must only wake the
 * taker (write an eventfd). Set before the first submit. */
void engine_on_progress(struct engine *engine, void (*wake)(void *context), void *context);
/* Takes the next job with something new: *out_done says whether it is finished (then it is the
 * caller's again) or only has events. False when there is nothing. */
MUST_USE bool engine_next(struct engine *engine, struct job **out_job, bool *out_done);
/* Waits for `job` to finish: for tests and command-line use, instead of engine_next. */
void engine_wait(struct engine *engine, struct job *job);
void engine_release(struct engine *engine, struct job *job);
/* A finished job becomes as if newly acquired: its results and events are gone, `user` stays. From
 * the thread that calls engine_next, which will not name the job for what it was before. */
void engine_renew(struct engine *engine, struct job *job);

/* Tests: `start_paused` engines start stepping. */
void engine_resume(struct engine *engine);
void engine_stats(struct engine *engine, struct engine_stats *out_stats);
/* Refuse new jobs from now on. */
void engine_drain(struct engine *engine);

#endif
