/*
 * A job: the only object two threads hold. The submitter fills the plan; the engine fills the
 * results; it crosses once each way (submit ring, done ring). Jobs are slots of a fixed pool.
 *
 * Fields are owned by the submitter until engine_submit succeeds, then by the engine until the job
 * comes back through engine_next_done, then by the submitter again until engine_release.
 * Exceptions, safe at any time: job_cancel (an atomic flag the engine reads once per step and per
 * prefill chunk) and job_take_events (its own lock).
 */
#ifndef ENGINE_JOB_H
#define ENGINE_JOB_H

#include <stdatomic.h>
#include "engine/base/arena.h"
#include "engine/base/ring.h"
#include "engine/types.h"

/* A job's place in the queue (engine/sched/queue.h); the engine thread's. */
struct job_place {
    enum service_class service_class;
    struct queue_flow *flow;
    struct job *next, *previous; /* of the flow, in order of key_us */
    int64_t came_us, turn_us;    /* when it came, and when its turn began */
    int64_t key_us;
    int32_t pending;         /* running sequences of it that have rows to compute */
    uint64_t passed_over_in; /* the step in which nothing can be done for it */
    uint64_t wait_age;       /* its next item waits for sequences older than this; 0 = for none */
};

struct job {
    uint32_t index, generation; /* names the job across threads, never a pointer */
    struct plan plan;
    void *user; /* the submitter's, untouched */

    struct arena results_arena;  /* results live here; sized and filled before submission ends */
    struct item_result *results; /* [plan.item_count] */
    enum err err;                /* of the whole job: cancelled, timeout, ... */
    struct err_info info;
    struct job_times times;

    _Atomic bool cancelled;
    _Atomic bool done;    /* set last by the engine; the job is the submitter's again */
    _Atomic bool queued;  /* waits in the progress ring */
    size_t results_bytes; /* counted against the engine's bound */
    int32_t items_left, items_started; /* the engine's */
    bool blocked;                      /* the engine's: in this step its events may find no room */
    struct job_place place;
    /* Streams: events the submitter has not taken yet, each of one item; those of an item come in
     * order. A full ring makes the engine pause the job's sequences until there is room: the engine
     * never waits for a client. */
    struct ring events; /* of struct token_event, capacity set at open */
    /* Text released so far is in results[item].steps[step].text; bytes below an event's
     * text_from + text_bytes are final once the event was taken. */
};

void job_cancel(struct job *job);

#endif
