/*
 * Counters of the server and their text form for /metrics. Written and read by the loop thread
 * alone; what other threads count (engine, memory, log) is copied at the scrape and never waits
 * for a step. Every series exists from the first scrape on, so a rate never starts from nothing.
 */
#ifndef SERVER_METRICS_H
#define SERVER_METRICS_H

#include "server/histogram.h"
#include "server/request.h"
#include "server/router.h"

struct app;
struct job;

/* Why admission refused; the label of rejected_total. */
#define REJECTION_MAP(X)                                                                           \
    X(MALFORMED, "malformed")                                                                      \
    X(ROUTE, "route")                                                                              \
    X(LIFE, "not_serving")                                                                         \
    X(QUEUE, "queue_full")                                                                         \
    X(SIZE, "body_size")                                                                           \
    X(BODIES, "bodies")                                                                            \
    X(MEDIA, "media_type")                                                                         \
    X(PRIORITY, "priority")

enum rejection {
#define X(name, word) REJECTED_##name,
    REJECTION_MAP(X)
#undef X
        REJECTION_COUNT
};

enum { METRICS_CODES = 24 };

struct metrics {
    /* [route][code]; the last route is "none". Codes are those of metrics_codes[], the last one
     * stands for all others. */
    uint64_t requests[ROUTES_MAX + 1][METRICS_CODES];
    struct histogram durations[ROUTES_MAX + 1];
    uint64_t rejected[REJECTION_COUNT];
    uint64_t received[KIND_COUNT];
    uint64_t finished[KIND_COUNT][OUTCOME_COUNT];
    uint64_t truncated_inputs[KIND_COUNT];
    uint64_t cancelled[PHASE_COUNT];
    struct histogram first_token, between_tokens, queue_wait[CLASS_COUNT];
};

/* A compute request was routed; exactly one metrics_end follows. */
void metrics_begin(struct metrics *metrics, const struct request *request);
void metrics_end(struct metrics *metrics, const struct request *request, int64_t now_us);
/* `first` of its request: later ones do not count as a time to the first token. */
void metrics_job(struct metrics *metrics, const struct job *job, bool first);
/* The exposition, text format 0.0.4. */
void metrics_answer(struct app *app, struct request *request);

#endif
