/*
 * One simulated run of the scheduler: the real scheduler, sequences, samplers and page pool over
 * the fake network of tests/unit/sched/fake_network.h and a clock that moves by what a step costs.
 * Everything that happens follows from the seed, on one thread.
 *
 *     sim_scheduler.c  the run: its size, its steps, its faults
 *     clients.c        arrivals, cancels, slow readers, what becomes of answers
 *     work.c           what clients ask for
 *     check.c          what must hold after every step
 *     alone.c          the same plan alone on a fresh scheduler, and the comparison
 */
#ifndef TESTS_SIM_SIM_H
#define TESTS_SIM_SIM_H

#include "engine/engine.h"
#include "engine/sched/scheduler_private.h"
#include "tests/sim/work.h"
#include "tests/unit/sched/fake_network.h"

enum {
    SIM_JOBS = 48,      /* most jobs at once */
    SIM_SEQUENCES = 12, /* most sequences */
    SIM_PAGES = 96,     /* most pages */
};

/* A request, from its arrival until its end has been checked. */
struct sim_job {
    struct job job;
    struct work work;
    int32_t number; /* in order of arrival: how the trace names it */
    int32_t reader; /* a stream's client reads with a chance of reader / 8 in a step */
    int32_t ended;  /* how often the scheduler said so */
    bool must_end;  /* by the end of this step: cancelled, or its time is over */
    struct sim_heard {
        int32_t events; /* taken */
        int32_t step;   /* plan step of the newest one */
        bool last_seen;
    } heard[WORK_ITEMS]; /* of each item */
};

/* How long a running sequence has not moved. */
struct sim_watch {
    const struct job *job;
    int32_t item;
    uint64_t progress; /* changes when the sequence moves */
    int64_t rows;      /* of others since then */
};

/* What is broken on purpose, to see that it is found. */
enum sim_fault {
    FAULT_NONE,
    FAULT_REFERENCE, /* a page gets a reference nobody holds */
    FAULT_RECORD,    /* a stored key changes */
    FAULT_TOKEN,     /* a sequence's slot list changes */
    FAULT_COUNTER,   /* a completion is counted twice */
    FAULT_DONE,      /* a job's end is reported twice */
    FAULT_CANCEL,    /* a cancel is forgotten */
    FAULT_STARVED,   /* a sequence is never chosen again */
    FAULT_STACK,     /* a sequence goes on with other adapters */
    FAULT_RESULT,    /* an answer changes after it was computed */
    FAULT_COUNT
};

struct sim {
    uint64_t seed;
    struct dice dice;
    bool trace;
    enum sim_fault fault;
    bool fault_done;

    /* Shared by all runs of the process. */
    struct threads *threads;
    const struct tokenizer *tokenizer;
    const struct kernels *kernels;

    struct sched_config config;
    struct pages pages;
    struct fake_network network;
    struct scheduler *scheduler;
    int32_t ends[LIMIT_END_TOKENS];

    int64_t now_us, slowness; /* how much longer everything takes than the cost model says */
    int32_t step;
    int32_t step_rows, step_logits; /* of the newest step; rows of slices count in part */
    int32_t arrivals, arrived;
    int64_t next_arrival_us, arrival_gap_us;
    struct sim_job *jobs[SIM_JOBS];
    int32_t job_count;
    uint64_t received[KIND_COUNT], completed[KIND_COUNT], cancelled[KIND_COUNT], failed[KIND_COUNT];
    const struct sim_job *aged; /* has to start in this step; NULL = none */
    struct sim_watch watch[SIM_SEQUENCES];
    /* Pages nobody held after the step before. */
    unsigned char free_before[SIM_PAGES], one_shot_free_before[SIM_PAGES];
};

/* Says what does not hold, with seed and step, and ends the program. `what` is one of the words of
 * the checks ("pages", "slots", ...), by which the tests of the checks know them. */
void NORETURN PRINTF_LIKE(3, 4)
    sim_fail(const struct sim *sim, const char *what, const char *format, ...);

/* A line of --trace, with step and time. Never any text. */
void PRINTF_LIKE(2, 3) sim_trace(const struct sim *sim, const char *format, ...);

/* The clients: what arrives now; reading and cancelling; which jobs the next step has to end; what
 * became of those it ended. */
void clients_arrive(struct sim *sim);
void clients_act(struct sim *sim);
void clients_mark_ends(struct sim *sim);
void clients_leave(struct sim *sim);

/* What the step that comes next must not fail to do. */
void check_before(struct sim *sim);
/* Everything that must hold between steps; `ran` is what scheduler_step said. */
void check_step(struct sim *sim, bool ran);
/* What must hold when no job is left. */
void check_rest(struct sim *sim);
/* One pass about to run: every row is the slot of a running sequence that is due. */
void check_batch(struct sim *sim, const struct batch *batch);
/* The sequence that a run belongs to. */
const struct seq *check_seq_of(const struct sim *sim, const struct run *run);

/* Runs the job's plan alone and compares: equal results of a completed job, and a prefix of them
 * for one that was ended early. */
void alone_compare(const struct sim *sim, const struct sim_job *sim_job);
/* Fills in results for the plan, which has to be valid. */
void sim_size_results(const struct sim *sim, struct job *job);

#endif
