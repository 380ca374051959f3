/*
 * What must hold after every step. The surprising part: a sequence's slot list is not believed but
 * derived again, from the plan and the results so far alone. That is also what preemption has to
 * rebuild, so it is checked against the same truth.
 */
#include <string.h>
#include "engine/base/assert.h"
#include "engine/plan_check.h"
#include "tests/sim/sim.h"

/* ---- slots --------------------------------------------------------------------------------- */

/* The slots an item's sequence must have by now. */
struct truth {
    int32_t tokens[WORK_CONTEXT], positions[WORK_CONTEXT];
    int32_t count;
};

static void truth_append(
    struct truth *truth, const struct plan_step *step, const int32_t *tokens, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        ASSERT(truth->count < WORK_CONTEXT);
        truth->tokens[truth->count] = tokens[i];
        truth->positions[truth->count] =
            i == 0 && step->position >= 0 ? step->position : truth->positions[truth->count - 1] + 1;
        truth->count++;
    }
}

static void truth_of(
    const struct plan_item *item, const struct item_result *result, struct truth *truth)
{
    truth->count = item->token_count;
    for (int32_t i = 0; i < item->token_count; i++) {
        truth->tokens[i] = item->tokens[i];
        truth->positions[i] = item->positions != NULL ? item->positions[i] : i;
    }
    for (int32_t s = 0; s < item->step_count; s++) {
        const struct plan_step *step = &item->steps[s];
        const struct step_result *done = &result->steps[s];
        if (step->kind == STEP_CHOOSE && done->finish != FINISH_NONE) {
            const struct plan_choice *winner = &step->choices[done->choice];
            truth_append(truth, step, winner->tokens, winner->token_count);
        } else if (step->kind != STEP_CHOOSE) { /* the token that ends a text takes no slot */
            int32_t count = done->token_count - (done->finish == FINISH_EOS);
            truth_append(truth, step, done->tokens, count);
        }
    }
}

static const struct sim_job *sim_job_of(const struct job *job)
{
    return job->user;
}

static void check_seq(const struct sim *sim, const struct seq *seq)
{
    int32_t number = sim_job_of(seq->job)->number, item = seq->item_index;
    struct truth truth;
    truth_of(seq->item, seq->result, &truth);
    if (seq->slot_count != truth.count || seq->stored < 0 || seq->stored > seq->slot_count) {
        sim_fail(sim, "slots", "job %d item %d has %d slots, %d stored; its results make %d",
            number, item, seq->slot_count, seq->stored, truth.count);
    }
    for (int32_t i = 0; i < truth.count; i++) {
        if (seq->tokens[i] != truth.tokens[i] || seq->slots.positions[i] != truth.positions[i]) {
            sim_fail(sim, "slots",
                "job %d item %d slot %d: token %d at %d; its results make %d at %d", number, item,
                i, seq->tokens[i], seq->slots.positions[i], truth.tokens[i], truth.positions[i]);
        }
    }
    if (seq->stored > seq->slots.page_count * FAKE_PAGE_SLOTS) {
        sim_fail(sim, "slots", "job %d item %d: %d slots stored in %d pages", number, item,
            seq->stored, seq->slots.page_count);
    }
    if (seq->err != ERR_OK) {
        sim_fail(sim, "slots", "job %d item %d failed and still runs", number, item);
    }
}

/* A gap begins from the row saved for it, not from another's. */
static void check_saved_row(const struct sim *sim, struct seq *seq)
{
    if (seq_next(seq, &sim->config.tools) != SEQ_LOGITS || seq->step_tokens > 0 ||
        seq->item->steps[seq->step].read_row < 0) {
        return;
    }
    int32_t before = 0;
    for (int32_t s = 0; s < seq->step; s++) {
        before += seq->item->steps[s].read_row >= 0;
    }
    const float *saved = seq->result->saved_hidden + (size_t)before * FAKE_HIDDEN;
    if (seq_logits_row(seq, &sim->config.tools) != saved) {
        sim_fail(sim, "slots", "job %d item %d step %d begins from another step's row",
            sim_job_of(seq->job)->number, seq->item_index, seq->step);
    }
}

static void check_seqs(const struct sim *sim)
{
    int32_t running = 0;
    for (int32_t i = 0; i < sim->config.sequences; i++) {
        struct seq *seq = &sim->scheduler->seqs[i];
        running += seq->job != NULL;
        if (seq->job == NULL) {
            continue;
        }
        check_seq(sim, seq);
        check_saved_row(sim, seq);
        for (int32_t k = 0; k < i; k++) {
            const struct seq *other = &sim->scheduler->seqs[k];
            if (other->job == seq->job && other->item_index == seq->item_index) {
                sim_fail(sim, "slots", "job %d item %d runs twice", sim_job_of(seq->job)->number,
                    seq->item_index);
            }
        }
    }
    if (running != sim->scheduler->running) {
        sim_fail(sim, "slots", "%d sequences run, the scheduler says %d", running,
            sim->scheduler->running);
    }
}

/* ---- pages --------------------------------------------------------------------------------- */

static void count_holders(
    const struct sim *sim, const struct pages *pages, uint32_t holders[SIM_PAGES])
{
    for (int32_t i = 0; i < sim->config.sequences; i++) {
        const struct seq *seq = &sim->scheduler->seqs[i];
        if (seq->job == NULL && seq->slots.page_count != 0) {
            sim_fail(sim, "pages", "a free sequence holds %d pages", seq->slots.page_count);
        }
        for (int32_t p = 0; seq->slots.pages == pages && p < seq->slots.page_count; p++) {
            holders[seq->slots.page_ids[p]]++;
        }
    }
}

static void count_kept(const struct sim *sim, uint32_t holders[SIM_PAGES])
{
    int32_t kept = 0;
    for (int32_t page = 0; page < sim->pages.count; page++) {
        kept += reuse_keeps(&sim->scheduler->reuse, page);
        holders[page] += reuse_keeps(&sim->scheduler->reuse, page);
    }
    if (kept != sim->scheduler->reuse.count) {
        sim_fail(sim, "pages", "the store keeps %d pages and counts %d", kept,
            sim->scheduler->reuse.count);
    }
}

/* Every page is either free, once, or has as many references as holders. What was freed is
 * overwritten, so that whoever still reads it is found out. */
static void check_pool(const struct sim *sim, struct pages *pages,
    const uint32_t holders[SIM_PAGES], unsigned char free_before[SIM_PAGES])
{
    unsigned char listed[SIM_PAGES] = {0};
    ASSERT(pages->count <= SIM_PAGES);
    for (int32_t i = 0; i < pages->free_count; i++) {
        listed[pages->free_list[i]]++;
    }
    for (int32_t page = 0; page < pages->count; page++) {
        if (pages->references[page] != holders[page] || listed[page] != (holders[page] == 0)) {
            sim_fail(sim, "pages", "page %d has %u references, %u holders, is listed free %u times",
                page, pages->references[page], holders[page], listed[page]);
        }
        if (listed[page] && !free_before[page]) {
            memset(pages_address(pages, page), 0xff, pages->page_bytes);
        }
        free_before[page] = listed[page];
    }
}

static void check_pages(struct sim *sim)
{
    uint32_t holders[SIM_PAGES] = {0}, one_shot_holders[SIM_PAGES] = {0};
    count_holders(sim, &sim->pages, holders);
    count_kept(sim, holders);
    check_pool(sim, &sim->pages, holders, sim->free_before);
    count_holders(sim, &sim->scheduler->one_shot, one_shot_holders);
    check_pool(sim, &sim->scheduler->one_shot, one_shot_holders, sim->one_shot_free_before);
}

/* ---- jobs ---------------------------------------------------------------------------------- */

static void check_jobs(const struct sim *sim)
{
    int32_t live = 0;
    for (int32_t i = 0; i < sim->job_count; i++) {
        const struct sim_job *sim_job = sim->jobs[i];
        if (sim_job->ended > 1) {
            sim_fail(sim, "twice", "job %d ended %d times", sim_job->number, sim_job->ended);
        }
        if (sim_job->must_end && sim_job->ended == 0) {
            sim_fail(sim, "late", "job %d was cancelled or late before this step, and lives on",
                sim_job->number);
        }
        int32_t listed = 0;
        for (int32_t k = 0; k < sim->scheduler->job_count; k++) {
            listed += sim->scheduler->jobs[k] == &sim_job->job;
        }
        if (listed != (sim_job->ended == 0)) {
            sim_fail(sim, "jobs", "job %d ended %d times and is listed %d times", sim_job->number,
                sim_job->ended, listed);
        }
        live += listed;
    }
    if (live != sim->scheduler->job_count || scheduler_busy(sim->scheduler) != (live > 0)) {
        sim_fail(
            sim, "jobs", "%d jobs live, the scheduler lists %d", live, sim->scheduler->job_count);
    }
}

/* Every live job is in one client's list of its class; every such list is in use or free. */
static void check_queue(const struct sim *sim)
{
    const struct queue *queue = &sim->scheduler->queue;
    int32_t jobs = 0, flows = 0;
    for (int32_t c = 0; c < CLASS_COUNT; c++) {
        for (const struct queue_flow *f = queue->classes[c].flows; f != NULL; f = f->next) {
            flows++;
            int64_t key = INT64_MIN;
            for (const struct job *job = f->first; job != NULL; job = job->place.next) {
                jobs++;
                bool fits = job->place.flow == f && job->plan.client == f->client &&
                            (int32_t)job->place.service_class == c && job->place.key_us >= key &&
                            (job->place.next != NULL || f->last == job);
                key = job->place.key_us;
                if (!fits) {
                    sim_fail(sim, "queue", "job %d is in a wrong place", sim_job_of(job)->number);
                }
            }
        }
    }
    for (const struct queue_flow *f = queue->free_flows; f != NULL; f = f->next) {
        flows++;
    }
    if (jobs != sim->scheduler->job_count || flows != sim->config.jobs) {
        sim_fail(sim, "queue", "holds %d of %d jobs; %d of %d lists", jobs,
            sim->scheduler->job_count, flows, sim->config.jobs);
    }
}

/* A block in slices and the place where its rows are kept name each other. */
static void check_parks(const struct sim *sim)
{
    int32_t owned = 0, parked = 0;
    for (int32_t i = 0; i < PARKS; i++) {
        const struct sched_park *park = &sim->scheduler->parks[i];
        owned += park->owner != NULL;
        if (park->owner != NULL && (park->owner->job == NULL || park->owner->park != park)) {
            sim_fail(sim, "parks", "place %d belongs to a sequence that knows nothing of it", i);
        }
    }
    for (int32_t i = 0; i < sim->config.sequences; i++) {
        const struct seq *seq = &sim->scheduler->seqs[i];
        parked += seq->job != NULL && seq->park != NULL;
    }
    if (owned != parked) {
        sim_fail(sim, "parks", "%d places are taken, %d sequences are in slices", owned, parked);
    }
}

static void check_counters(const struct sim *sim)
{
    struct engine_stats stats = {0};
    uint64_t live[KIND_COUNT] = {0};
    scheduler_stats(sim->scheduler, &stats);
    for (int32_t i = 0; i < sim->job_count; i++) {
        live[sim->jobs[i]->job.plan.kind] += sim->jobs[i]->ended == 0;
    }
    for (int32_t k = 0; k < KIND_COUNT; k++) {
        if (stats.completed[k] != sim->completed[k] || stats.cancelled[k] != sim->cancelled[k] ||
            stats.failed[k] != sim->failed[k] ||
            sim->received[k] !=
                stats.completed[k] + stats.cancelled[k] + stats.failed[k] + live[k]) {
            sim_fail(sim, "counters", "kind %d: counted %lu+%lu+%lu, were %lu+%lu+%lu and %lu live",
                k, stats.completed[k], stats.cancelled[k], stats.failed[k], sim->completed[k],
                sim->cancelled[k], sim->failed[k], live[k]);
        }
    }
    if (stats.pages_used + stats.pages_free + stats.pages_kept != (uint32_t)sim->pages.count ||
        stats.pages_free != (uint32_t)sim->pages.free_count ||
        stats.work_waiting != scheduler_busy(sim->scheduler)) {
        sim_fail(sim, "counters", "gauges: %u pages used, %u free of %d", stats.pages_used,
            stats.pages_free, sim->pages.count);
    }
}

/* ---- progress ------------------------------------------------------------------------------ */

/* Rows of others that a running sequence may have to wait for: what all sequences can hold, times
 * its class's part. The shares alone allow eight times as much for the case that all classes are
 * full of long texts; no seed comes near half of this. ORDER CLASS. */
static int64_t starvation_rows(const struct sim *sim, const struct seq *seq)
{
    static const int32_t parts[CLASS_COUNT] = {1, 1, 2, 4, 8};
    return (int64_t)parts[seq->job->place.service_class] * (sim->config.sequences + 1) *
           sim->config.context;
}

/* Only its client can set it going again. */
static bool waits_for_client(const struct sim *sim, struct seq *seq)
{
    return seq->paused ? seq_blocked(seq) : seq_next(seq, &sim->config.tools) == SEQ_WAITS;
}

static void check_watch(struct sim *sim, int32_t i)
{
    struct seq *seq = &sim->scheduler->seqs[i];
    struct sim_watch *watch = &sim->watch[i];
    int64_t sliced = seq->job != NULL && seq->park != NULL ? seq->park->done : 0;
    uint64_t progress = (uint64_t)seq->stored << 48 | (uint64_t)seq->slot_count << 32 |
                        (uint64_t)(sliced * 256 + seq->step * 2 + (seq->step_tokens > 0));
    if (seq->job == NULL || watch->job != seq->job || watch->item != seq->item_index ||
        watch->progress != progress || waits_for_client(sim, seq)) {
        *watch = (struct sim_watch){.job = seq->job, .item = seq->item_index, .progress = progress};
        return;
    }
    watch->rows += sim->step_rows;
    if (watch->rows > starvation_rows(sim, seq)) {
        sim_fail(sim, "starved", "job %d item %d stands still at slot %d; others ran %ld rows",
            sim_job_of(seq->job)->number, seq->item_index, seq->stored, (long)watch->rows);
    }
}

static int32_t pages_for(int32_t slots)
{
    return (slots + FAKE_PAGE_SLOTS - 1) / FAKE_PAGE_SLOTS;
}

/* Pages that go when this sequence is preempted: nobody else who runs holds them. */
static int32_t pages_of_its_own(const struct sim *sim, const struct seq *seq)
{
    int32_t pages = 0;
    for (int32_t p = 0; p < seq->slots.page_count; p++) {
        int32_t page = seq->slots.page_ids[p];
        uint32_t others = reuse_keeps(&sim->scheduler->reuse, page) ? 1 : 0;
        pages += sim->pages.references[page] == 1 + others;
    }
    return pages;
}

/* Pages that nobody running can come to need, those of streams that wait for their clients
 * included; none while a preempted sequence waits for some. */
static int32_t pages_to_spare(const struct sim *sim)
{
    int32_t pages = sim->pages.free_count;
    for (int32_t i = 0; i < sim->config.sequences; i++) {
        struct seq *seq = &sim->scheduler->seqs[i];
        if (seq->job == NULL || seq->slots.pages != &sim->pages ||
            (seq->paused && seq_blocked(seq))) {
            continue;
        }
        if (seq->paused) {
            return 0;
        }
        pages += waits_for_client(sim, seq)
                     ? pages_of_its_own(sim, seq)
                     : MIN(seq->slots.page_count - pages_for(plan_item_slots(seq->item)), 0);
    }
    return pages;
}

/* Whether the job's next item could certainly start with the sequences and pages there are now. */
static bool could_start(const struct sim *sim, const struct job *job)
{
    const struct plan_item *item = &job->plan.items[job->items_started];
    int32_t kept = sim->config.sequences / 8; /* as SLOTS_KEPT_SHARE of the scheduler */
    bool park = item->context_count == 0 || sim->scheduler->parks[0].owner == NULL;
    bool pages = plan_item_one_shot(item) || /* waits for no page */
                 pages_for(plan_item_slots(item)) <= pages_to_spare(sim);
    return park && pages && sim->scheduler->running < sim->config.sequences - kept;
}

static const struct job *oldest_waiting(const struct sim *sim)
{
    for (int32_t i = 0; i < sim->scheduler->job_count; i++) {
        if (sim->scheduler->jobs[i]->items_started == 0) {
            return sim->scheduler->jobs[i];
        }
    }
    return NULL;
}

/* What the scheduler will see when the step begins. */
static void note_readers(struct sim *sim)
{
    for (int32_t i = 0; i < sim->job_count; i++) {
        struct job *job = &sim->jobs[i]->job;
        int32_t most = MIN(job->plan.item_count, sim->config.sequences);
        job->blocked =
            job->plan.stream && ring_count(&job->events) + (uint32_t)most > job->events.capacity;
    }
}

void check_before(struct sim *sim)
{
    note_readers(sim);
    const struct job *job = oldest_waiting(sim);
    bool due = job != NULL && sim->now_us - job->place.came_us >= QUEUE_AGE_US &&
               could_start(sim, job) && !sim_job_of(job)->must_end;
    sim->aged = due ? sim_job_of(job) : NULL;
}

/* The oldest job that has aged goes before all others, unless it waits for one that is computing
 * what it begins with. */
static void check_aged(const struct sim *sim)
{
    if (sim->aged != NULL && sim->aged->job.items_started == 0 &&
        sim->aged->job.place.wait_age == 0) {
        sim_fail(sim, "aged", "job %d has waited for %ld us, could start and did not",
            sim->aged->number, (long)(sim->now_us - sim->aged->job.place.came_us));
    }
}

/* A job waits although nothing runs: because its next item does not fit, or one of its class, or
 * one that has waited so long that nobody overtakes it any more. */
static void check_waiting(const struct sim *sim)
{
    const struct job *oldest = oldest_waiting(sim);
    if (oldest != NULL && sim->now_us - oldest->place.came_us >= QUEUE_AGE_US &&
        !could_start(sim, oldest)) {
        return;
    }
    bool waits[CLASS_COUNT] = {false}, held[CLASS_COUNT] = {false};
    for (int32_t i = 0; i < sim->scheduler->job_count; i++) {
        const struct job *job = sim->scheduler->jobs[i];
        if (job->items_started < job->plan.item_count) {
            waits[job->place.service_class] = true;
            held[job->place.service_class] |= !could_start(sim, job);
        }
    }
    for (int32_t c = 0; c < CLASS_COUNT; c++) {
        if (waits[c] && !held[c]) {
            sim_fail(sim, "idle", "nothing ran, but a job of class %d could have started", c);
        }
    }
}

/* A step that ran nothing left nothing that could have run. */
static void check_idle(struct sim *sim, bool ran)
{
    if (ran && sim->step_rows == 0 && sim->step_logits == 0) {
        sim_fail(sim, "idle", "a step says it ran, and ran no row");
    }
    if (ran || !scheduler_busy(sim->scheduler)) {
        return;
    }
    if (sim->scheduler->running == 0) {
        sim_fail(sim, "idle", "%d jobs wait and nothing runs", sim->scheduler->job_count);
    }
    for (int32_t i = 0; i < sim->config.sequences; i++) {
        struct seq *seq = &sim->scheduler->seqs[i];
        if (seq->job != NULL && !waits_for_client(sim, seq)) {
            sim_fail(sim, "idle", "nothing ran, but job %d item %d could have",
                sim_job_of(seq->job)->number, seq->item_index);
        }
    }
    check_waiting(sim);
}

void check_step(struct sim *sim, bool ran)
{
    check_jobs(sim);
    check_seqs(sim);
    check_pages(sim);
    check_queue(sim);
    check_parks(sim);
    check_counters(sim);
    check_idle(sim, ran);
    check_aged(sim);
    for (int32_t i = 0; i < sim->config.sequences; i++) {
        check_watch(sim, i);
    }
}

void check_rest(struct sim *sim)
{
    struct engine_stats stats = {0};
    scheduler_stats(sim->scheduler, &stats);
    if (scheduler_busy(sim->scheduler) || stats.sequences_running != 0 || stats.pages_used != 0 ||
        (int32_t)stats.pages_kept > sim->config.reuse_pages || stats.pages_shared != 0 ||
        stats.work_waiting) {
        sim_fail(sim, "gauges", "at rest: %u run, %u pages used, %u shared",
            stats.sequences_running, stats.pages_used, stats.pages_shared);
    }
}

/* ---- passes -------------------------------------------------------------------------------- */

const struct seq *check_seq_of(const struct sim *sim, const struct run *run)
{
    for (int32_t i = 0; i < sim->config.sequences; i++) {
        const struct seq *seq = &sim->scheduler->seqs[i];
        if (&seq->slots == run->slots && seq->job != NULL) {
            return seq;
        }
    }
    sim_fail(sim, "rows", "a run belongs to no running sequence");
}

/* Rows are the next ones of their sequence; of a context block that is not in slices, all; or, of
 * a block that was found, one to be read again. */
static bool rows_fit(const struct seq *seq, const struct run *run)
{
    int32_t block = seq->item->context_count, to = run->slot_from + run->row_count;
    if (run->context_count != block || to > seq->slot_count) {
        return false;
    }
    if (run->stored) {
        return run->row_count == 1 && to <= seq->cached;
    }
    if (seq->park != NULL) {
        int64_t within = seq->park->done % seq->park->pass.batch.row_count;
        return run->slot_from == seq->stored + (int32_t)within && to <= block;
    }
    return run->slot_from == seq->stored && (run->slot_from >= block || to >= block);
}

void check_batch(struct sim *sim, const struct batch *batch)
{
    for (int32_t r = 0; r < batch->run_count; r++) {
        const struct run *run = &batch->runs[r];
        const struct seq *seq = check_seq_of(sim, run);
        int32_t number = sim_job_of(seq->job)->number, from = run->slot_from;
        if (!rows_fit(seq, run)) {
            sim_fail(sim, "rows", "job %d item %d: %d rows from slot %d of %d, %d stored", number,
                seq->item_index, run->row_count, from, seq->slot_count, seq->stored);
        }
        int32_t stack =
            stack_of(&sim->config.tools.stacks, seq->job->plan.kind, seq->item->context_count);
        if (run->stack != stack) {
            sim_fail(sim, "stack", "job %d item %d runs with stack %d, its plan has %d", number,
                seq->item_index, run->stack, stack);
        }
        for (int32_t i = 0; i < run->row_count; i++) {
            if (batch->tokens[run->row_from + i] != seq->tokens[from + i]) {
                sim_fail(sim, "rows", "job %d item %d: slot %d runs with a wrong token", number,
                    seq->item_index, from + i);
            }
        }
        for (int32_t k = 0; k < r; k++) {
            if (batch->runs[k].slots == run->slots) {
                sim_fail(
                    sim, "rows", "job %d item %d has two runs in a pass", number, seq->item_index);
            }
        }
    }
}
