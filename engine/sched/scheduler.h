/*
 * Continuous batching over mixed plans: jobs wait in order of arrival, their items become
 * sequences as pool slots and pages allow, and every step carries whatever rows are due, of any
 * kind and any mask, in one forward pass.
 *
 * A step, in this order:
 *     1 cancelled and late jobs end
 *     2 preempted sequences come back as pages allow, and those that grow take pages, at the
 *       expense of others when none is left (memory.h)
 *     3 rows are chosen: decodes first, then, within the budget (budget.h), those of whoever is
 *       next (queue.h). An item starts when it is given its first rows, not before, so nothing that
 *       merely waits takes up a sequence.
 *     4 a context block that does not fit the budget runs in slices of rows and units, in passes of
 *       its own
 *     5 forward pass(es)
 *     6 rows that are read: pooling, scores, saved rows
 *     7 logits for every sequence that is due: label, score, sample; results go out
 *
 * One thread owns a scheduler. It reaches the network, the clock and the taker of finished jobs
 * through struct sched_host, which tests fake.
 */
#ifndef ENGINE_SCHED_SCHEDULER_H
#define ENGINE_SCHED_SCHEDULER_H

#include "engine/base/threads.h"
#include "engine/model/model.h"
#include "engine/sched/seq.h"

struct engine_activity;
struct engine_stats;
struct scheduler;

struct sched_host {
    void *context;
    int32_t units; /* of a whole pass */
    void (*forward)(void *context, struct batch *batch, int32_t unit_from, int32_t unit_to);
    /* logits[i] = head(hidden[i]), [count, vocab]; NULL: there is no head, and no plan needs one */
    void (*logits)(void *context, const float *const *hidden, int32_t count, float *logits);
    /* The dense head of pooled vectors, in place (model_dense); called only if tools.dense */
    void (*dense)(void *context, double *const *rows, int32_t count);
    int64_t (*now_us)(void *context);
    /* The job is complete; after the call it is no longer the scheduler's. */
    void (*done)(void *context, struct job *job);
    /* A stream has a new event. */
    void (*progress)(void *context, struct job *job);
};

struct sched_config {
    int32_t sequences; /* pool of running sequences */
    int32_t jobs;      /* most jobs it holds at once */
    int32_t context;   /* slots of one sequence */
    int32_t step_rows; /* rows of one pass at most */
    int64_t step_us;   /* a step without decodes; 0 = BUDGET_STEP_US */
    struct pages *pages;
    int32_t reuse_pages;     /* most pages kept for later requests; 0 = none */
    int32_t reserve_tokens;  /* tokens beyond the prompt that pages are held for from the start */
    struct threads *threads; /* for sampling in parallel */
    struct seq_tools tools;
};

MUST_USE enum err scheduler_open(const struct sched_config *config, const struct sched_host *host,
    struct scheduler **out_scheduler);
void scheduler_close(struct scheduler *scheduler); /* no jobs may be left; NULL allowed */
/* Bytes scheduler_open allocates for that many threads, the pages below not counted. */
uint64_t scheduler_bytes(const struct sched_config *config, int32_t page_slots, int32_t threads);
/* Pages of one layer that it opens for sequences that take none of the cache. */
int32_t scheduler_one_shot_pages(const struct sched_config *config, int32_t page_slots);

/* Measures what passes cost; no jobs may be there yet. Without it the budget begins as a guess. */
void scheduler_calibrate(struct scheduler *scheduler);

/* Queues a checked job (never fails: config.jobs bounds how many can exist). */
void scheduler_add(struct scheduler *scheduler, struct job *job);
/* Whether any job is queued or running. */
bool scheduler_busy(const struct scheduler *scheduler);
/* One step. Returns false when nothing could run now (streams wait for their clients). */
bool scheduler_step(struct scheduler *scheduler);
/* Ends every job with ERR_SHUTDOWN. */
void scheduler_abort(struct scheduler *scheduler);
/* Adds the scheduler's counters and gauges to *stats. */
void scheduler_stats(const struct scheduler *scheduler, struct engine_stats *stats);
/* From any thread. */
struct engine_activity scheduler_activity(const struct scheduler *scheduler);

#endif
