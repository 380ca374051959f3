/* The scheduler's inside, shared by scheduler.c (jobs, admission) and step.c (rows, passes). */
#ifndef ENGINE_SCHED_SCHEDULER_PRIVATE_H
#define ENGINE_SCHED_SCHEDULER_PRIVATE_H

#include "engine/engine.h"
#include "engine/sched/scheduler.h"

enum {
    LOGITS_ROWS = 32, /* rows of logits held at once: 6 MB for a vocabulary of 49,152 */
    STEP_US_BUCKETS = 20,
};

struct sched_counters {
    uint64_t completed[KIND_COUNT], cancelled[KIND_COUNT], failed[KIND_COUNT];
    uint64_t prompt_tokens[KIND_COUNT], generated_tokens[KIND_COUNT], step_rows[KIND_COUNT];
    uint64_t step_kinds[KIND_COUNT + 1];
    uint64_t steps, step_us_sum, step_us_buckets[STEP_US_BUCKETS];
    int64_t last_step_us;
    double tokens_per_second; /* moving average of rows per second of busy time */
};

/* A row whose hidden state is read after the pass. */
struct sched_read {
    struct seq *seq;
    int32_t slot;
    float *hidden;
};

/* One forward pass being put together. */
struct sched_pass {
    struct batch batch;
    int32_t *tokens, *positions; /* [rows_max] */
    float **x;                   /* [rows_max] */
    struct run *runs;            /* [sequences] */
    struct seq **run_seqs;       /* [sequences] */
    struct row_read *reads;      /* [rows_max] */
    struct sched_read *read_of;  /* [rows_max] */
    float *residuals;            /* [rows_max, hidden] */
    int32_t rows_max;
};

struct scheduler {
    struct sched_config config;
    struct sched_host host;
    struct job **jobs; /* [job_count] in order of arrival */
    int32_t job_count, turn;
    struct seq *seqs;
    int32_t running;

    struct sched_pass pass; /* whole passes, at most step_rows rows */
    struct sched_pass park; /* slices of one long context block, at most `context` rows */
    struct seq *park_owner;
    float *logits;                          /* [LOGITS_ROWS, vocab] */
    struct sample_scratch **sample_scratch; /* [threads] */
    int32_t sample_scratch_count;
    int32_t prompt_turn; /* which sequence's prompt is served first */
    struct sched_counters counters;
};

MUST_USE enum err step_open(struct scheduler *scheduler);
void step_close(struct scheduler *scheduler);
uint64_t step_bytes(const struct sched_config *config, int32_t threads);
/* Chooses rows, runs them, consumes what was read. False when nothing was runnable. */
bool step_run(struct scheduler *scheduler);

#endif
