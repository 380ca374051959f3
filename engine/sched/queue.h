/*
 * Who is served next: a tree of three levels.
 *
 *     class     shares by weight: of two classes that both want rows, each gets cost in proportion
 *     client    equal shares within the class, however many requests each has
 *     job       of one client: one after the other as they came, short prompts before long ones
 *
 * Classes and clients have a virtual time: the cost they were served, divided by the weight. The
 * least goes next. One that wanted nothing for a while is counted as if it had kept up, so nobody
 * saves up a claim.
 *
 * Within a client the least key goes next: when the job's turn began, and QUEUE_REST times what is
 * left to do in it. A turn is the prompt of one item: it begins when the job comes, and anew with
 * each item, so a job of 2,048 items takes turns with others item by item. Of prompts that came
 * together one after the other is finished, not all at the end; a short one goes before a long one;
 * and none waits for later ones longer than QUEUE_REST times what it takes itself. A priority is a
 * head start of QUEUE_PRIORITY_US a unit.
 *
 * Ageing: whatever the shares say, a job of which nothing has started for QUEUE_AGE_US goes before
 * all others, the oldest first, one a step. So none waits longer than QUEUE_AGE_US and one step for
 * each job that came before it, as long as sequences and pages are to be had.
 *
 * Only the engine thread uses a queue. Nothing here knows rows, pages or HTTP.
 */
#ifndef ENGINE_SCHED_QUEUE_H
#define ENGINE_SCHED_QUEUE_H

#include "engine/job.h"

enum {
    QUEUE_AGE_US = 5 * 1000 * 1000,
    QUEUE_PRIORITY_US = 50 * 1000, /* waiting time that one unit of priority is worth */
    QUEUE_REST = 8,                /* waiting time that a unit of work to do is worth */
};

/* What cannot start. */
enum queue_held { QUEUE_PAGES /* items that need pages of the cache */, QUEUE_ALL };

/* One client's jobs in one class. */
struct queue_flow {
    uint64_t client;
    double served; /* virtual time */
    struct job *first, *last;
    struct queue_flow *next; /* of the class, or of the free ones */
};

struct queue_class {
    double weight, served;
    double flow_time; /* virtual time of the client served last */
    struct queue_flow *flows;
    uint64_t held_in[2]; /* by enum queue_held: the step in which no such item of it starts */
};

struct queue {
    struct queue_class classes[CLASS_COUNT];
    double time; /* virtual time of the class served last */
    struct queue_flow *flows, *free_flows;
    uint64_t step;
    bool aged_served; /* in this step */
};

MUST_USE enum err queue_open(struct queue *queue, int32_t jobs);
void queue_close(struct queue *queue);
uint64_t queue_bytes(int32_t jobs);

/* What is to be done in a job's turn. */
struct queue_turn {
    double rest_us; /* expected of it */
    bool begins;    /* with this call */
};

/* The job joins its class and client; `now_us` is when it came, `rest_us` what its first item takes
 * before it decodes. */
void queue_add(struct queue *queue, struct job *job, double rest_us, int64_t now_us);
void queue_remove(struct queue *queue, struct job *job);

/* A step begins: nothing is held or passed over. */
void queue_begin(struct queue *queue);
/* The job to serve next, of those that want rows: items not started (unless the class is held) or
 * place.pending > 0. NULL = none. `oldest` is the oldest job of which nothing has started; NULL =
 * none. */
struct job *queue_next(struct queue *queue, struct job *oldest, int64_t now_us);
/* The job got rows worth `cost_us`, which class and client are charged. `turn`: the rest of its
 * item, or the next item. */
void queue_served(
    struct queue *queue, struct job *job, double cost_us, struct queue_turn turn, int64_t now_us);
/* Charged without having been chosen: rows that run in every step. */
void queue_charge(struct queue *queue, struct job *job, double cost_us);
/* Nothing can be done for the job in this step. */
void queue_pass_over(const struct queue *queue, struct job *job);
/* The job's next item cannot start now, for want of pages or of a sequence (QUEUE_ALL). Nor do
 * others of its class that want the same in this step, or small ones could keep it out for ever;
 * once it has aged, nor does anyone's. */
void queue_hold(struct queue *queue, struct job *job, enum queue_held what, int64_t now_us);

#endif
