/*
 * The scheduler's surroundings for tests: a fake network (fake_network.h), a clock that every pass
 * moves by a fixed time, and counters of what was reported.
 */
#ifndef TESTS_UNIT_SCHED_FAKE_HOST_H
#define TESTS_UNIT_SCHED_FAKE_HOST_H

#include "engine/sched/scheduler.h"
#include "tests/unit/sched/fake_network.h"

enum {
    FAKE_CONTEXT = 256,
    FAKE_JOBS = 64,
};

struct fake_host {
    struct fake_network network;
    struct pages pages;
    struct threads *threads;
    struct tokenizer *tokenizer;
    struct kernels kernels;
    struct scheduler *scheduler;
    int32_t ends[LIMIT_END_TOKENS];
    int64_t now_us;
    int32_t context; /* of a sequence */
    int64_t step_us; /* how far the clock moves in a pass ... */
    int64_t row_us;  /* ... or more: for each row, of all units */
    int32_t done_count;
    int32_t progress_count;
    int32_t rows_max_seen;
};

/* Ends the test program when something cannot be opened. */
void fake_host_open(struct fake_host *host, int32_t sequences, int32_t page_count,
    int32_t step_rows, int32_t threads);
/* With sequences of up to `context` slots instead of FAKE_CONTEXT. */
void fake_host_open_long(struct fake_host *host, int32_t sequences, int32_t page_count,
    int32_t step_rows, int32_t context);
/* The same with a reuse store of that many pages, holding pages for that many tokens at a start. */
void fake_host_open_cache(struct fake_host *host, int32_t sequences, int32_t page_count,
    int32_t step_rows, int32_t threads, int32_t reuse_pages, int32_t reserve_tokens);
void fake_host_close(struct fake_host *host);

/* A job with its own rings, outside any pool: plan set by the caller, then submitted. */
struct job *fake_job(struct fake_host *host);
void fake_job_submit(struct fake_host *host, struct job *job);
void fake_job_free(struct job *job);
/* Steps until no job is left; fails the test after `steps_max` steps. */
void fake_host_run(struct fake_host *host, int32_t steps_max);

#endif
