/*
 * The life of jobs and the order of a step (see scheduler.h). Choosing rows is in choose.c, running
 * them in step.c; this file owns how items start and jobs end.
 *
 * The decision that surprises: a sequence is filled in before it is known whether it can start. Its
 * slots say what memory it needs, and giving it up again costs no more than a copy of its prompt.
 */
#include "engine/sched/scheduler.h"

#include <string.h>
#include "engine/base/assert.h"
#include "engine/engine.h"
#include "engine/sched/scheduler_private.h"

enum { SLOTS_KEPT_SHARE = 8 };

/* Numbers of a sequence's pool_sum. */
static size_t sum_count(const struct seq_tools *tools)
{
    return (size_t)MAX(tools->hidden, tools->vector);
}

static void close_seq_pool(struct scheduler *scheduler)
{
    for (int32_t i = 0; scheduler->seqs != NULL && i < scheduler->config.sequences; i++) {
        struct seq *seq = &scheduler->seqs[i];
        slots_free(&seq->slots);
        mem_free(seq->pool_sum);
        mem_free(seq->tokens);
        mem_free(seq->hidden);
        mask_state_close(&seq->mask);
    }
    mem_free(scheduler->seqs);
}

static enum err open_seq_pool(struct scheduler *scheduler)
{
    const struct sched_config *config = &scheduler->config;
    scheduler->seqs = mem_array(MEM_SCRATCH, (size_t)config->sequences, sizeof(struct seq));
    if (scheduler->seqs == NULL) {
        return ERR_NO_MEMORY;
    }
    for (int32_t i = 0; i < config->sequences; i++) {
        struct seq *seq = &scheduler->seqs[i];
        enum err err = slots_init(&seq->slots, config->pages, config->context);
        seq->tokens = mem_array(MEM_SCRATCH, (size_t)config->context, sizeof(int32_t));
        seq->hidden = mem_array(MEM_SCRATCH, (size_t)config->tools.hidden, sizeof(float));
        seq->pool_sum = mem_array(MEM_SCRATCH, sum_count(&config->tools), sizeof(double));
        if (err == ERR_OK) {
            err = mask_state_open(&seq->mask, config->tools.vocab);
        }
        if (err != ERR_OK || seq->tokens == NULL || seq->hidden == NULL || seq->pool_sum == NULL) {
            return ERR_NO_MEMORY;
        }
    }
    return ERR_OK;
}

enum err scheduler_open(const struct sched_config *config, const struct sched_host *host,
    struct scheduler **out_scheduler)
{
    struct scheduler *scheduler = mem_alloc(MEM_SCRATCH, sizeof *scheduler);
    if (scheduler == NULL) {
        return ERR_NO_MEMORY;
    }
    scheduler->config = *config;
    scheduler->host = *host;
    scheduler->jobs = mem_array(MEM_JOBS, (size_t)config->jobs, sizeof(struct job *));
    budget_init(&scheduler->budget, config->step_us);
    const struct pages *like = config->pages;
    enum err err = reuse_open(&scheduler->reuse, config->pages, config->reuse_pages);
    if (err == ERR_OK) {
        err = pages_open(&scheduler->one_shot, like->type, 1, like->heads_kv, like->head_dim,
            like->page_slots, scheduler_one_shot_pages(config, like->page_slots));
    }
    if (err == ERR_OK) {
        err = open_seq_pool(scheduler);
    }
    if (err == ERR_OK) {
        err = queue_open(&scheduler->queue, config->jobs);
    }
    if (err == ERR_OK) {
        err = step_open(scheduler);
    }
    if (err != ERR_OK || scheduler->jobs == NULL) {
        scheduler_close(scheduler);
        return ERR_NO_MEMORY;
    }
    *out_scheduler = scheduler;
    return ERR_OK;
}

void scheduler_close(struct scheduler *scheduler)
{
    if (scheduler == NULL) {
        return;
    }
    step_close(scheduler);
    close_seq_pool(scheduler);
    pages_close(&scheduler->one_shot);
    reuse_close(&scheduler->reuse);
    queue_close(&scheduler->queue);
    mem_free(scheduler->jobs);
    mem_free(scheduler);
}

uint64_t scheduler_bytes(const struct sched_config *config, int32_t page_slots, int32_t threads)
{
    uint64_t per_seq = sizeof(struct seq) + (uint64_t)config->context * sizeof(int32_t) +
                       slots_bytes(config->context, page_slots) +
                       (uint64_t)config->tools.hidden * sizeof(float) +
                       mask_state_bytes(config->tools.vocab) +
                       (uint64_t)sum_count(&config->tools) * sizeof(double);
    return per_seq * (uint64_t)config->sequences + queue_bytes(config->jobs) +
           step_bytes(config, threads);
}

/* Each sequence of a pass may leave its last page nearly empty. */
int32_t scheduler_one_shot_pages(const struct sched_config *config, int32_t page_slots)
{
    int32_t runs = MIN(config->sequences, config->step_rows);
    int32_t pages = config->step_rows / page_slots + runs;
    for (int32_t i = 0; i < PARKS; i++) {
        pages += (step_park_rows(config, i) + page_slots - 1) / page_slots;
    }
    return pages;
}

/* ---- jobs ---------------------------------------------------------------------------------- */

void scheduler_add(struct scheduler *scheduler, struct job *job)
{
    ASSERT(scheduler->job_count < scheduler->config.jobs);
    job->items_left = job->plan.item_count;
    job->items_started = 0;
    job->blocked = false;
    scheduler->jobs[scheduler->job_count++] = job;
    queue_add(&scheduler->queue, job, choose_item_us(scheduler, &job->plan.items[0]),
        scheduler->host.now_us(scheduler->host.context));
}

bool scheduler_busy(const struct scheduler *scheduler)
{
    return scheduler->job_count > 0;
}

static void count_finished(struct scheduler *scheduler, const struct job *job)
{
    enum kind kind = job->plan.kind;
    struct sched_counters *counters = &scheduler->counters;
    counters->left_queue[job->place.service_class] += job->items_started == 0;
    if (job->err == ERR_OK) {
        counters->completed[kind]++;
    } else if (job->err == ERR_CANCELLED) {
        counters->cancelled[kind]++;
    } else {
        counters->failed[kind]++;
    }
    for (int32_t i = 0; i < job->plan.item_count; i++) {
        counters->generated_tokens[kind] += (uint64_t)job->results[i].generated_tokens;
    }
}

/* Takes the job off the list, keeping the order of the others, and hands it back. */
static void finish_job(struct scheduler *scheduler, int32_t index)
{
    struct job *job = scheduler->jobs[index];
    scheduler->job_count--;
    memmove(&scheduler->jobs[index], &scheduler->jobs[index + 1],
        (size_t)(scheduler->job_count - index) * sizeof scheduler->jobs[0]);
    queue_remove(&scheduler->queue, job);
    job->times.finished = scheduler->host.now_us(scheduler->host.context);
    count_finished(scheduler, job);
    scheduler->host.done(scheduler->host.context, job);
}

static void free_seq(struct scheduler *scheduler, struct seq *seq)
{
    memory_release(scheduler, seq);
    seq->job = NULL;
    scheduler->running--;
}

/* Ends every sequence of a job that is over before its items are. */
static void end_job(struct scheduler *scheduler, int32_t index, enum err err, const char *text)
{
    struct job *job = scheduler->jobs[index];
    for (int32_t i = 0; i < scheduler->config.sequences; i++) {
        if (scheduler->seqs[i].job == job) {
            free_seq(scheduler, &scheduler->seqs[i]);
        }
    }
    job->err = err;
    (void)err_set(&job->info, err, NULL, "%s", text);
    finish_job(scheduler, index);
}

static bool item_decodes(const struct plan_item *item)
{
    for (int32_t i = 0; i < item->step_count; i++) {
        if (item->steps[i].kind == STEP_DECODE && item->steps[i].tokens_max > 0) {
            return true;
        }
    }
    return false;
}

static bool job_decodes(const struct job *job)
{
    for (int32_t i = 0; i < job->plan.item_count; i++) {
        if (item_decodes(&job->plan.items[i])) {
            return true;
        }
    }
    return false;
}

static void end_dead_jobs(struct scheduler *scheduler, int64_t now)
{
    for (int32_t i = scheduler->job_count - 1; i >= 0; i--) {
        struct job *job = scheduler->jobs[i];
        if (atomic_load_explicit(&job->cancelled, memory_order_relaxed)) {
            end_job(scheduler, i, ERR_CANCELLED, "the request was cancelled");
        } else if (job->plan.deadline_us != 0 && now >= job->plan.deadline_us) {
            end_job(scheduler, i, ERR_DEADLINE, "the request's time is over");
        } else if (job->plan.start_by_us != 0 && now >= job->plan.start_by_us &&
                   job->items_started == 0) {
            end_job(scheduler, i, ERR_DEADLINE, "the request waited too long in the queue");
        } else if (job->plan.first_by_us != 0 && now >= job->plan.first_by_us &&
                   job->times.first_token == 0 && job_decodes(job)) {
            end_job(scheduler, i, ERR_DEADLINE, "the first token took too long");
        }
    }
}

void scheduler_abort(struct scheduler *scheduler)
{
    while (scheduler->job_count > 0) {
        end_job(scheduler, scheduler->job_count - 1, ERR_SHUTDOWN, "the server is stopping");
    }
}

/* Releases sequences that are done; a job ends with its last item. */
static void end_done_seqs(struct scheduler *scheduler)
{
    for (int32_t i = 0; i < scheduler->config.sequences; i++) {
        struct seq *seq = &scheduler->seqs[i];
        if (seq->job == NULL || seq_next(seq, &scheduler->config.tools) != SEQ_DONE) {
            continue;
        }
        struct job *job = seq->job;
        if (seq->err != ERR_OK && job->plan.item_count == 1) {
            job->err = seq->err;
            job->info = seq->result->info;
        }
        free_seq(scheduler, seq);
        if (--job->items_left == 0) {
            int32_t index = 0;
            while (scheduler->jobs[index] != job) {
                index++;
            }
            finish_job(scheduler, index);
        }
    }
}

/* ---- admission ----------------------------------------------------------------------------- */

static struct seq *free_seq_slot(struct scheduler *scheduler)
{
    for (int32_t i = 0; i < scheduler->config.sequences; i++) {
        if (scheduler->seqs[i].job == NULL) {
            return &scheduler->seqs[i];
        }
    }
    return NULL;
}

/* Slots that a job may not take the last of. Items that decode stay for long: some slots are left
 * for those that do not, and for whoever types. */
static int32_t slots_kept(const struct scheduler *scheduler, const struct job *job)
{
    const struct plan_item *item = &job->plan.items[job->items_started];
    if (job->place.service_class == CLASS_INTERACTIVE || !item_decodes(item)) {
        return 0;
    }
    return scheduler->config.sequences / SLOTS_KEPT_SHARE;
}

enum memory_start scheduler_start_item(
    struct scheduler *scheduler, struct job *job, bool whole, int64_t now_us, struct seq **out_seq)
{
    ASSERT(job->items_started < job->plan.item_count);
    const struct plan_item *item = &job->plan.items[job->items_started];
    if (scheduler->running >= scheduler->config.sequences - slots_kept(scheduler, job)) {
        return MEMORY_NO_SEQUENCE;
    }
    struct seq *seq = free_seq_slot(scheduler);
    ASSERT(seq != NULL);
    seq_start(seq, job, job->items_started, &scheduler->config.tools);
    enum memory_start start = memory_start(scheduler, seq, whole);
    if (start != MEMORY_STARTED) {
        seq->job = NULL;
        return start;
    }
    if (job->items_started == 0) {
        job->times.started = now_us;
        scheduler->counters.left_queue[job->place.service_class]++;
    }
    job->items_started++;
    scheduler->running++;
    scheduler->counters.prompt_tokens[job->plan.kind] += (uint64_t)item->token_count;
    *out_seq = seq;
    return MEMORY_STARTED;
}

/* Whose clients have to read first. Each running item samples at most once in a step, side by side
 * with the others: there has to be room for an event of each. Looked at once a step, so that nobody
 * who is chosen, or passed over, becomes another case while a client reads. */
static void note_readers(struct scheduler *scheduler)
{
    for (int32_t i = 0; i < scheduler->job_count; i++) {
        struct job *job = scheduler->jobs[i];
        int32_t most = MIN(job->plan.item_count, scheduler->config.sequences);
        job->blocked =
            job->plan.stream && ring_count(&job->events) + (uint32_t)most > job->events.capacity;
    }
}

bool scheduler_step(struct scheduler *scheduler)
{
    int64_t now = scheduler->host.now_us(scheduler->host.context);
    end_dead_jobs(scheduler, now);
    note_readers(scheduler);
    bool ran = step_run(scheduler);
    end_done_seqs(scheduler);
    return ran;
}

struct engine_activity scheduler_activity(const struct scheduler *scheduler)
{
    uint64_t word = atomic_load_explicit(&scheduler->activity, memory_order_relaxed);
    return (struct engine_activity){.what = (enum activity)(word & 0xff),
        .kinds = (unsigned)(word >> 8 & 0xff),
        .rows = (int32_t)(word >> 32)};
}

void scheduler_stats(const struct scheduler *scheduler, struct engine_stats *stats)
{
    const struct sched_counters *counters = &scheduler->counters;
    for (int32_t k = 0; k < KIND_COUNT; k++) {
        stats->completed[k] = counters->completed[k];
        stats->cancelled[k] = counters->cancelled[k];
        stats->failed[k] = counters->failed[k];
        stats->prompt_tokens[k] = counters->prompt_tokens[k];
        stats->generated_tokens[k] = counters->generated_tokens[k];
        stats->step_rows[k] = counters->step_rows[k];
        stats->cached_tokens[k] = counters->cached_tokens[k];
    }
    memcpy(stats->step_kinds, counters->step_kinds, sizeof stats->step_kinds);
    memcpy(stats->step_us_buckets, counters->step_us_buckets, sizeof stats->step_us_buckets);
    memcpy(stats->reuse_hits, counters->reuse_hits, sizeof stats->reuse_hits);
    memcpy(stats->reuse_misses, counters->reuse_misses, sizeof stats->reuse_misses);
    stats->preemptions = counters->preemptions;
    stats->steps = counters->steps;
    stats->step_us_sum = counters->step_us_sum;
    stats->last_step_us = counters->last_step_us;
    stats->tokens_per_second = counters->tokens_per_second;
    memcpy(stats->left_queue, counters->left_queue, sizeof stats->left_queue);
    stats->sequences_running = (uint32_t)scheduler->running;
    const struct pages *pages = scheduler->config.pages;
    stats->pages_free = (uint32_t)pages->free_count;
    stats->pages_kept = (uint32_t)reuse_idle(&scheduler->reuse);
    stats->pages_used = (uint32_t)(pages->count - pages->free_count) - stats->pages_kept;
    stats->pages_shared = (uint32_t)pages_shared(pages);
    stats->work_waiting = scheduler->job_count > 0;
}
