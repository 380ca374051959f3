/*
 * Whose rows run in a step. Decodes come first and all of them; what they cost alone sets the
 * budget of the step (budget.h). The rest of it goes to prompts, one job after the other as the
 * queue (queue.h) names them: the job's prompt in progress, or else its next item, which starts
 * here.
 *
 * The decision that surprises: tokens that are forced after a prompt count as prompt rows. Only a
 * sequence that samples one token a step holds a reader up when it waits.
 */
#include <math.h>
#include "engine/base/assert.h"
#include "engine/sched/scheduler_private.h"

enum { SLICE_ROWS = 16 }; /* a slice within a unit has a multiple of so many rows */

static bool prompt_pending(const struct seq *seq)
{
    return seq->stored < seq_prompt_end(seq);
}

/* Rows that are known and can run now. */
static int32_t rows_due(const struct seq *seq)
{
    return (prompt_pending(seq) ? seq_prompt_end(seq) : seq->slot_count) - seq->stored;
}

/* One sampled token to feed: its sequence samples the next one after this step. */
static bool decodes(const struct seq *seq)
{
    return !prompt_pending(seq) && rows_due(seq) == 1 &&
           seq->item->steps[seq->step].kind == STEP_DECODE;
}

/* What rows [stored, stored + count) cost, the logits read from them included. */
static struct load rows_load(const struct seq *seq, int32_t count)
{
    struct load load = budget_rows(seq->stored, count, seq->item->context_count);
    for (int32_t i = 0; i < count; i++) {
        load.heads += seq_scores_slot(seq, seq->stored + i);
    }
    load.heads += count == rows_due(seq) && seq->item->step_count > 0;
    return load;
}

static int32_t room(const struct scheduler *scheduler)
{
    return scheduler->pass.rows_max - scheduler->pass.batch.row_count;
}

static double cost_with(const struct scheduler *scheduler, struct load more)
{
    struct load load = load_add(scheduler->load, more);
    return budget_cost(&scheduler->budget, &load) + scheduler->slices_us;
}

static void add_rows(struct scheduler *scheduler, struct seq *seq, int32_t count)
{
    scheduler->load = load_add(scheduler->load, rows_load(seq, count));
    sched_pass_add(&scheduler->pass, seq, seq->stored, count, false);
}

/* ---- decodes ------------------------------------------------------------------------------- */

/* All that fit the pass; where it was full, the next step begins. Sequences that have other rows
 * due are noted with their jobs. */
static void choose_decodes(struct scheduler *scheduler)
{
    int32_t count = scheduler->config.sequences, turn = scheduler->decode_turn;
    for (int32_t i = 0; i < count; i++) {
        int32_t index = (turn + i) % count;
        struct seq *seq = &scheduler->seqs[index];
        if (seq->job == NULL || seq->paused ||
            seq_next(seq, &scheduler->config.tools) != SEQ_ROWS) {
            continue;
        }
        ASSERT(memory_suffices(seq));
        if (!decodes(seq)) {
            seq->job->place.pending++;
        } else if (room(scheduler) > 0) {
            struct load load = rows_load(seq, 1);
            queue_charge(&scheduler->queue, seq->job, budget_share(&scheduler->budget, &load));
            add_rows(scheduler, seq, 1);
            seq->chosen = true;
        } else if (scheduler->decode_turn == turn) {
            scheduler->decode_turn = index;
        }
    }
}

/* ---- prompts ------------------------------------------------------------------------------- */

/* What became of the attempt to give a sequence rows. */
enum given {
    GIVEN,
    GIVEN_NOTHING, /* the step is full */
    GIVEN_NO_PARK, /* this sequence has to wait for others */
};

/* As many rows as the budget has room for; the first prompt of a step always goes on. */
static enum given give_causal(struct scheduler *scheduler, struct seq *seq, double *out_cost)
{
    int32_t low = scheduler->prompts_chosen ? 0 : 1, high = MIN(rows_due(seq), room(scheduler));
    while (low < high) {
        int32_t middle = (low + high + 1) / 2;
        if (cost_with(scheduler, rows_load(seq, middle)) <= scheduler->limit_us) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    if (high <= 0) {
        return GIVEN_NOTHING;
    }
    ASSERT(seq->slots.pages == scheduler->config.pages || high == rows_due(seq));
    struct load load = rows_load(seq, high);
    *out_cost = budget_share(&scheduler->budget, &load);
    add_rows(scheduler, seq, high);
    return GIVEN;
}

static double park_cost(const struct scheduler *scheduler, const struct sched_park *park)
{
    const struct run *run = &park->pass.runs[0];
    struct load load = budget_rows(run->slot_from, run->row_count, run->context_count);
    return budget_cost(&scheduler->budget, &load);
}

/* The next slice of a block: what is left of the budget, in whole tiles of rows. */
static enum given give_slice(struct scheduler *scheduler, struct sched_park *park, double *out_cost)
{
    int64_t rows = park->pass.batch.row_count, all = rows * scheduler->host.units;
    double each = park_cost(scheduler, park) / (double)all;
    double left = scheduler->limit_us - cost_with(scheduler, (struct load){0});
    int64_t todo = (int64_t)fmin(left / each, (double)(all - park->done));
    int64_t least = scheduler->prompts_chosen ? 0 : MIN(SLICE_ROWS, rows - park->done % rows);
    if (todo >= 2 * rows) {
        todo -= (park->done + todo) % rows; /* whole units: fewer, wider passes */
    } else if (todo < all - park->done) {
        todo -= (park->done + todo) % rows % SLICE_ROWS;
    }
    todo = MAX(todo, least);
    if (todo <= 0) {
        return GIVEN_NOTHING;
    }
    park->todo = todo;
    *out_cost = each * (double)todo;
    scheduler->slices_us += *out_cost;
    scheduler->slice_rows = MAX(scheduler->slice_rows, (int32_t)rows);
    return GIVEN;
}

static struct sched_park *free_park(
    struct scheduler *scheduler, const struct job *job, int32_t rows)
{
    int32_t to = job->place.service_class == CLASS_BULK ? PARKS_BULK : PARKS;
    if (rows > scheduler->parks[PARKS - 1].pass.rows_max) {
        to = 1;
    }
    for (int32_t i = to - 1; i >= 0; i--) {
        if (scheduler->parks[i].owner == NULL) {
            return &scheduler->parks[i];
        }
    }
    return NULL;
}

/* Whether a context block could begin now: whole within the budget, or in a park. */
static bool block_fits(const struct scheduler *scheduler, int32_t rows)
{
    return rows <= room(scheduler) &&
           cost_with(scheduler, budget_rows(0, rows, rows)) <= scheduler->limit_us;
}

static enum given give_block(struct scheduler *scheduler, struct seq *seq, double *out_cost)
{
    int32_t block = seq->item->context_count - seq->stored;
    if (block_fits(scheduler, block)) {
        struct load load = rows_load(seq, block);
        *out_cost = budget_share(&scheduler->budget, &load);
        add_rows(scheduler, seq, block);
        return GIVEN;
    }
    struct sched_park *park = free_park(scheduler, seq->job, block);
    if (park == NULL) {
        return GIVEN_NO_PARK;
    }
    sched_pass_reset(&park->pass);
    sched_pass_add(&park->pass, seq, 0, block, false);
    park->owner = seq;
    park->done = park->todo = 0;
    seq->park = park;
    return give_slice(scheduler, park, out_cost);
}

/* Rows of a reused block that run again for what is read from them: as many as there is room for,
 * and the first prompt of a step always goes on. */
static enum given give_rereads(struct scheduler *scheduler, struct seq *seq, double *out_cost)
{
    int32_t count = 0, index = seq->reread;
    for (int32_t slot; room(scheduler) > 0 && (slot = seq_reread(seq, &index)) >= 0; count++) {
        struct load load = budget_rows(slot, 1, seq->item->context_count);
        bool first = count == 0 && !scheduler->prompts_chosen;
        if (!first && cost_with(scheduler, load) > scheduler->limit_us) {
            break;
        }
        *out_cost += budget_share(&scheduler->budget, &load);
        scheduler->load = load_add(scheduler->load, load);
        sched_pass_add(&scheduler->pass, seq, slot, 1, true);
        seq->reread = index;
    }
    return count > 0 ? GIVEN : GIVEN_NOTHING;
}

static enum given give(struct scheduler *scheduler, struct seq *seq, double *out_cost)
{
    int32_t index = seq->reread;
    if (!prompt_pending(seq) && seq_reread(seq, &index) >= 0) {
        return give_rereads(scheduler, seq, out_cost);
    }
    if (seq->park != NULL) {
        return give_slice(scheduler, seq->park, out_cost);
    }
    if (seq->stored < seq->item->context_count) {
        return give_block(scheduler, seq, out_cost);
    }
    return give_causal(scheduler, seq, out_cost);
}

/* What is left of a sequence's prompt. */
static double rest_us(const struct scheduler *scheduler, const struct seq *seq)
{
    if (seq->park != NULL) {
        double all = (double)seq->park->pass.batch.row_count * scheduler->host.units;
        return park_cost(scheduler, seq->park) * (1 - (double)seq->park->done / all);
    }
    struct load load = budget_rows(seq->stored, rows_due(seq), seq->item->context_count);
    return budget_share(&scheduler->budget, &load);
}

double choose_item_us(const struct scheduler *scheduler, const struct plan_item *item)
{
    struct load load = budget_rows(0, item->token_count, item->context_count);
    return budget_share(&scheduler->budget, &load);
}

/* The job's turn goes on until the item's prompt is through, then the next item has one. */
static struct queue_turn turn_after(
    const struct scheduler *scheduler, const struct job *job, double rest_us)
{
    if (rest_us >= 1) {
        return (struct queue_turn){.rest_us = rest_us};
    }
    double next_us = 0;
    if (job->items_started < job->plan.item_count) {
        next_us = choose_item_us(scheduler, &job->plan.items[job->items_started]);
    }
    return (struct queue_turn){.rest_us = next_us, .begins = true};
}

/* The job's oldest sequence that has rows due and none in this step. */
static struct seq *pending_seq(struct scheduler *scheduler, const struct job *job)
{
    struct seq *oldest = NULL;
    for (int32_t i = 0; job->place.pending > 0 && i < scheduler->config.sequences; i++) {
        struct seq *seq = &scheduler->seqs[i];
        if (seq->job == job && !seq->chosen && !seq->paused &&
            seq_next(seq, &scheduler->config.tools) == SEQ_ROWS &&
            (oldest == NULL || seq->item_index < oldest->item_index)) {
            oldest = seq;
        }
    }
    return oldest;
}

static struct job *oldest_waiting(const struct scheduler *scheduler)
{
    int32_t i = 0;
    while (i < scheduler->job_count && scheduler->jobs[i]->items_started > 0) {
        i++;
    }
    return i < scheduler->job_count ? scheduler->jobs[i] : NULL;
}

/* Starts the job's next item if there is room for it. */
static bool start(
    struct scheduler *scheduler, struct job *job, int64_t now_us, struct seq **out_seq)
{
    const struct plan_item *item = &job->plan.items[job->items_started];
    int32_t block = item->context_count;
    if (block > 0 && !block_fits(scheduler, block) && free_park(scheduler, job, block) == NULL) {
        queue_pass_over(&scheduler->queue, job);
        return false;
    }
    bool whole = block_fits(scheduler, item->token_count);
    switch (scheduler_start_item(scheduler, job, whole, now_us, out_seq)) {
    case MEMORY_STARTED:
        return true;
    case MEMORY_NO_SEQUENCE:
        queue_hold(&scheduler->queue, job, QUEUE_ALL, now_us);
        return false;
    case MEMORY_NO_PAGES:
        queue_hold(&scheduler->queue, job, QUEUE_PAGES, now_us);
        return false;
    case MEMORY_PREFIXED:
        queue_pass_over(&scheduler->queue, job);
        return false;
    }
    return false;
}

/* Gives the job's next sequence rows; false when the step is full. */
static bool serve(struct scheduler *scheduler, struct job *job, int64_t now_us)
{
    struct seq *seq = pending_seq(scheduler, job);
    bool starts = seq == NULL;
    if (starts && !start(scheduler, job, now_us, &seq)) {
        return true;
    }
    double cost_us = 0, before_us = rest_us(scheduler, seq);
    enum given given = give(scheduler, seq, &cost_us);
    if (given == GIVEN) {
        seq->chosen = true;
        job->place.pending -= !starts;
        scheduler->prompts_chosen = true;
        queue_served(&scheduler->queue, job, cost_us,
            turn_after(scheduler, job, before_us - cost_us), now_us);
    } else {
        job->place.pending += starts;
    }
    if (given == GIVEN_NO_PARK) {
        queue_pass_over(&scheduler->queue, job);
    }
    return given != GIVEN_NOTHING;
}

/* Whether another row fits. */
static bool has_budget(const struct scheduler *scheduler)
{
    return !scheduler->prompts_chosen ||
           (room(scheduler) > 0 &&
               cost_with(scheduler, (struct load){.rows = 1}) <= scheduler->limit_us);
}

void choose_rows(struct scheduler *scheduler)
{
    int64_t now_us = scheduler->host.now_us(scheduler->host.context);
    sched_pass_reset(&scheduler->pass);
    scheduler->load = (struct load){0};
    scheduler->slices_us = 0;
    scheduler->slice_rows = 0;
    scheduler->prompts_chosen = false;
    queue_begin(&scheduler->queue);
    for (int32_t i = 0; i < scheduler->config.sequences; i++) {
        scheduler->seqs[i].chosen = false;
        if (scheduler->seqs[i].job != NULL) {
            scheduler->seqs[i].job->place.pending = 0;
        }
    }
    scheduler->resumed = memory_resume(scheduler);
    memory_grow(scheduler);
    choose_decodes(scheduler);
    scheduler->limit_us = budget_limit(&scheduler->budget, &scheduler->load);
    while (has_budget(scheduler)) {
        struct job *job = queue_next(&scheduler->queue, oldest_waiting(scheduler), now_us);
        if (job == NULL || !serve(scheduler, job, now_us)) {
            break;
        }
    }
}
