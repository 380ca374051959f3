/* The scheduler's inside, shared by scheduler.c (the life of jobs), choose.c (whose rows run) and
 * step.c (passes, and what comes of them). */
#ifndef ENGINE_SCHED_SCHEDULER_PRIVATE_H
#define ENGINE_SCHED_SCHEDULER_PRIVATE_H

#include "engine/cache/reuse.h"
#include "engine/engine.h"
#include "engine/sched/budget.h"
#include "engine/sched/memory.h"
#include "engine/sched/queue.h"
#include "engine/sched/scheduler.h"

enum {
    LOGITS_ROWS = 32, /* rows of logits held at once: 6 MB for a vocabulary of 49,152 */
    STEP_US_BUCKETS = 20,
    /* Blocks in slices at once. The first place holds a whole context, the others step_rows rows:
     * a short text need not wait until a long one is through. Bulk leaves the last ones free. */
    PARKS = 4,
    PARKS_BULK = 2,
    CALIBRATE_SLOTS = 544,
    CALIBRATE_HEADS = 8,
};

struct sched_counters {
    uint64_t completed[KIND_COUNT], cancelled[KIND_COUNT], failed[KIND_COUNT];
    uint64_t prompt_tokens[KIND_COUNT], generated_tokens[KIND_COUNT], step_rows[KIND_COUNT];
    uint64_t cached_tokens[KIND_COUNT], preemptions;
    uint64_t reuse_hits[REUSE_STORES], reuse_misses[REUSE_STORES];
    uint64_t step_kinds[KIND_COUNT + 1];
    uint64_t left_queue[CLASS_COUNT];
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
    struct run *runs;            /* [runs_max] */
    struct seq **run_seqs;       /* [runs_max] */
    struct row_read *reads;      /* [rows_max] */
    struct sched_read *read_of;  /* [rows_max] */
    float *residuals;            /* [rows_max, hidden] */
    int32_t rows_max;
};

/* A context block that runs in slices. Its work is rows * units, in the order unit by unit, and
 * within a unit row by row: no row attends before the last one has stored. */
struct sched_park {
    struct sched_pass pass; /* the whole block */
    struct seq *owner;      /* NULL = free */
    int64_t done, todo;     /* row-units behind us, and in this step */
};

struct scheduler {
    struct sched_config config;
    struct sched_host host;
    struct job **jobs; /* [job_count] in order of arrival */
    int32_t job_count;
    struct queue queue;
    struct budget budget;
    struct seq *seqs;
    int32_t running;
    struct reuse reuse;
    /* One layer of K/V for one-shot sequences: as many as a pass and the parks can hold. */
    struct pages one_shot;
    uint64_t age; /* of the newest sequence */

    struct sched_pass pass; /* whole passes, at most step_rows rows */
    struct sched_park parks[PARKS];
    struct load load;    /* of this step's pass */
    double slices_us;    /* expected of this step's slices */
    int32_t slice_rows;  /* of the widest of them */
    double limit_us;     /* this step's budget */
    bool prompts_chosen; /* in this step: some prompt goes on */
    bool resumed;        /* in this step: nobody who was preempted waits for pages */
    int32_t decode_turn; /* which sequence's decode is taken first, when not all fit a pass */
    float *logits;       /* [LOGITS_ROWS, vocab] */
    struct sample_scratch **sample_scratch; /* [threads] */
    int32_t sample_scratch_count;
    struct mask_walk *mask_walks; /* [threads] */
    struct mask_table masks;
    struct sched_counters counters;
    _Atomic uint64_t activity; /* what | kinds << 8 | rows << 32 */
};

MUST_USE enum err step_open(struct scheduler *scheduler);
void step_close(struct scheduler *scheduler);
uint64_t step_bytes(const struct sched_config *config, int32_t threads);
/* Rows of the block a park holds at most. */
int32_t step_park_rows(const struct sched_config *config, int32_t park);
/* Chooses rows, runs them, consumes what was read. False when nothing was runnable. */
bool step_run(struct scheduler *scheduler);

void sched_pass_reset(struct sched_pass *pass);
/* Adds slots [slot_from, slot_from + count) of a sequence as one run: the next ones, or `again` for
 * what is read from them. */
void sched_pass_add(
    struct sched_pass *pass, struct seq *seq, int32_t slot_from, int32_t count, bool again);

/* Fills the pass and sets what each park has to do in this step. */
void choose_rows(struct scheduler *scheduler);
/* What the item's prompt is expected to take. */
double choose_item_us(const struct scheduler *scheduler, const struct plan_item *item);

/* Starts the job's next item; `whole`: all its prompt can run in this step. */
MUST_USE enum memory_start scheduler_start_item(
    struct scheduler *scheduler, struct job *job, bool whole, int64_t now_us, struct seq **out_seq);

#endif
