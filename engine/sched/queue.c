/*
 * Shares by virtual time (see queue.h). The lists are short: five classes, as many flows as there
 * are clients with work, and the job wanted is nearly always the first of its flow; so every search
 * is a walk.
 *
 * The decision that surprises: a class or client that did not want rows needs no bookkeeping. Those
 * that did want had at least the virtual time of the one chosen; who has less now was idle, and is
 * moved up when it is looked at.
 */
#include "engine/sched/queue.h"

#include <math.h>
#include "engine/base/assert.h"
#include "engine/base/mem.h"
#include "engine/plan_check.h"

/* ORDER CLASS. A class gets at least its weight over the sum of all: bulk a 61st. */
static const double weights[CLASS_COUNT] = {32, 16, 8, 4, 1};

/* ---- open and close ------------------------------------------------------------------------ */

enum err queue_open(struct queue *queue, int32_t jobs)
{
    *queue = (struct queue){0};
    queue->flows = mem_array(MEM_JOBS, (size_t)jobs, sizeof(struct queue_flow));
    if (queue->flows == NULL) {
        return ERR_NO_MEMORY;
    }
    for (int32_t i = 0; i < jobs; i++) {
        queue->flows[i].next = queue->free_flows;
        queue->free_flows = &queue->flows[i];
    }
    for (int32_t c = 0; c < CLASS_COUNT; c++) {
        queue->classes[c].weight = weights[c];
    }
    return ERR_OK;
}

void queue_close(struct queue *queue)
{
    mem_free(queue->flows);
    *queue = (struct queue){0};
}

uint64_t queue_bytes(int32_t jobs)
{
    return (uint64_t)jobs * sizeof(struct queue_flow);
}

/* ---- jobs come and go ---------------------------------------------------------------------- */

static struct queue_class *class_of(struct queue *queue, const struct job *job)
{
    return &queue->classes[job->place.service_class];
}

static struct queue_flow *find_flow(struct queue *queue, struct queue_class *class, uint64_t client)
{
    struct queue_flow **link = &class->flows;
    while (*link != NULL && (*link)->client != client) {
        link = &(*link)->next;
    }
    if (*link == NULL) {
        struct queue_flow *flow = queue->free_flows;
        ASSERT(flow != NULL); /* one a job at most */
        queue->free_flows = flow->next;
        *flow = (struct queue_flow){.client = client, .served = class->flow_time};
        *link = flow;
    }
    return *link;
}

/* Behind all that wait as long or longer. */
static void insert(struct queue_flow *flow, struct job *job)
{
    struct job *before = flow->last;
    while (before != NULL && before->place.key_us > job->place.key_us) {
        before = before->place.previous;
    }
    struct job *after = before != NULL ? before->place.next : flow->first;
    job->place.previous = before;
    job->place.next = after;
    *(before != NULL ? &before->place.next : &flow->first) = job;
    *(after != NULL ? &after->place.previous : &flow->last) = job;
}

static void take_out(struct queue_flow *flow, struct job *job)
{
    struct job *before = job->place.previous, *after = job->place.next;
    *(before != NULL ? &before->place.next : &flow->first) = after;
    *(after != NULL ? &after->place.previous : &flow->last) = before;
}

static void place(struct job *job, double rest_us)
{
    job->place.key_us = job->place.turn_us + (int64_t)job->plan.priority * QUEUE_PRIORITY_US +
                        (int64_t)(rest_us * QUEUE_REST);
    insert(job->place.flow, job);
}

void queue_add(struct queue *queue, struct job *job, double rest_us, int64_t now_us)
{
    job->place = (struct job_place){
        .service_class = plan_class(&job->plan), .came_us = now_us, .turn_us = now_us};
    job->place.flow = find_flow(queue, class_of(queue, job), job->plan.client);
    place(job, rest_us);
}

void queue_remove(struct queue *queue, struct job *job)
{
    struct queue_flow *flow = job->place.flow;
    take_out(flow, job);
    job->place.flow = NULL;
    if (flow->first != NULL) {
        return;
    }
    struct queue_flow **link = &class_of(queue, job)->flows;
    while (*link != flow) {
        link = &(*link)->next;
    }
    *link = flow->next;
    flow->next = queue->free_flows;
    queue->free_flows = flow;
}

/* ---- choosing ------------------------------------------------------------------------------ */

void queue_begin(struct queue *queue)
{
    queue->step++;
    queue->aged_served = false;
}

/* Whether the job's next item may start. */
static bool starts(const struct queue *queue, const struct job *job)
{
    const uint64_t *held_in = queue->classes[job->place.service_class].held_in;
    if (job->items_started == job->plan.item_count || held_in[QUEUE_ALL] == queue->step) {
        return false;
    }
    return held_in[QUEUE_PAGES] != queue->step ||
           plan_item_one_shot(&job->plan.items[job->items_started]);
}

static bool wants(const struct queue *queue, const struct job *job)
{
    return job->place.passed_over_in != queue->step &&
           (job->place.pending > 0 || starts(queue, job));
}

static struct job *next_of_flow(const struct queue *queue, const struct queue_flow *flow)
{
    struct job *job = flow->first;
    while (job != NULL && !wants(queue, job)) {
        job = job->place.next;
    }
    return job;
}

static struct job *next_of_class(const struct queue *queue, struct queue_class *class)
{
    struct job *best = NULL;
    double least = INFINITY;
    for (struct queue_flow *flow = class->flows; flow != NULL; flow = flow->next) {
        struct job *job = next_of_flow(queue, flow);
        if (job == NULL) {
            continue;
        }
        flow->served = fmax(flow->served, class->flow_time);
        bool older = best != NULL && job->place.key_us < best->place.key_us;
        if (flow->served < least || (flow->served == least && older)) {
            least = flow->served;
            best = job;
        }
    }
    return best;
}

static bool aged(const struct job *job, int64_t now_us)
{
    return job->items_started == 0 && now_us - job->place.came_us >= QUEUE_AGE_US;
}

struct job *queue_next(struct queue *queue, struct job *oldest, int64_t now_us)
{
    if (oldest != NULL && !queue->aged_served && aged(oldest, now_us) && wants(queue, oldest)) {
        queue->aged_served = true;
        return oldest;
    }
    struct job *best = NULL;
    double least = INFINITY;
    for (int32_t c = 0; c < CLASS_COUNT; c++) {
        struct queue_class *class = &queue->classes[c];
        struct job *job = next_of_class(queue, class);
        if (job == NULL) {
            continue;
        }
        class->served = fmax(class->served, queue->time);
        if (class->served < least) {
            least = class->served;
            best = job;
        }
    }
    if (best != NULL) {
        queue->time = least;
        class_of(queue, best)->flow_time = best->place.flow->served;
    }
    return best;
}

void queue_charge(struct queue *queue, struct job *job, double cost_us)
{
    struct queue_class *class = class_of(queue, job);
    class->served += cost_us / class->weight;
    job->place.flow->served += cost_us;
}

void queue_served(
    struct queue *queue, struct job *job, double cost_us, struct queue_turn turn, int64_t now_us)
{
    queue_charge(queue, job, cost_us);
    take_out(job->place.flow, job);
    job->place.turn_us = turn.begins ? now_us : job->place.turn_us;
    place(job, turn.rest_us);
}

void queue_pass_over(const struct queue *queue, struct job *job)
{
    job->place.passed_over_in = queue->step;
}

void queue_hold(struct queue *queue, struct job *job, enum queue_held what, int64_t now_us)
{
    class_of(queue, job)->held_in[what] = queue->step;
    for (int32_t c = 0; c < CLASS_COUNT && aged(job, now_us); c++) {
        queue->classes[c].held_in[what] = queue->step;
    }
}
