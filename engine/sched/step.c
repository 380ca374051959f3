/*
 * One step: which rows run, the passes, and what is done with the numbers that come out (see
 * scheduler.h for the order). A read row's final hidden state is written over its residual, which
 * nobody needs any more, so reads cost no memory of their own.
 */
#include <string.h>
#include "engine/base/assert.h"
#include "engine/base/clock.h"
#include "engine/sched/scheduler_private.h"

enum { PROMPT_ROWS_MIN = 16, PROMPT_SHARE = 8 };

/* ---- memory -------------------------------------------------------------------------------- */

static uint64_t pass_bytes(int32_t rows, int32_t runs, int32_t hidden)
{
    return (uint64_t)rows * (sizeof(int32_t) * 2 + sizeof(float *) + sizeof(struct row_read) +
                                sizeof(struct sched_read) + (uint64_t)hidden * sizeof(float)) +
           (uint64_t)runs * (sizeof(struct run) + sizeof(struct seq *));
}

static bool pass_open(struct sched_pass *pass, int32_t rows, int32_t runs, int32_t hidden)
{
    pass->rows_max = rows;
    pass->tokens = mem_array(MEM_SCRATCH, (size_t)rows, sizeof *pass->tokens);
    pass->positions = mem_array(MEM_SCRATCH, (size_t)rows, sizeof *pass->positions);
    pass->x = mem_array(MEM_SCRATCH, (size_t)rows, sizeof *pass->x);
    pass->runs = mem_array(MEM_SCRATCH, (size_t)runs, sizeof *pass->runs);
    pass->run_seqs = mem_array(MEM_SCRATCH, (size_t)runs, sizeof(struct seq *));
    pass->reads = mem_array(MEM_SCRATCH, (size_t)rows, sizeof *pass->reads);
    pass->read_of = mem_array(MEM_SCRATCH, (size_t)rows, sizeof *pass->read_of);
    pass->residuals = mem_array(MEM_SCRATCH, (size_t)rows * (size_t)hidden, sizeof(float));
    if (pass->tokens == NULL || pass->positions == NULL || pass->x == NULL || pass->runs == NULL ||
        pass->run_seqs == NULL || pass->reads == NULL || pass->read_of == NULL ||
        pass->residuals == NULL) {
        return false;
    }
    for (int32_t row = 0; row < rows; row++) {
        pass->x[row] = pass->residuals + (size_t)row * (size_t)hidden;
    }
    return true;
}

static void pass_close(struct sched_pass *pass)
{
    mem_free(pass->tokens);
    mem_free(pass->positions);
    mem_free(pass->x);
    mem_free(pass->runs);
    mem_free(pass->run_seqs);
    mem_free(pass->reads);
    mem_free(pass->read_of);
    mem_free(pass->residuals);
}

uint64_t step_bytes(const struct sched_config *config, int32_t threads)
{
    return pass_bytes(config->step_rows, config->sequences, config->tools.hidden) +
           pass_bytes(config->context, 1, config->tools.hidden) +
           (uint64_t)LOGITS_ROWS * (uint64_t)config->tools.vocab * sizeof(float) +
           (uint64_t)threads * sample_scratch_bytes(config->tools.vocab);
}

enum err step_open(struct scheduler *scheduler)
{
    const struct sched_config *config = &scheduler->config;
    int32_t threads = threads_count(config->threads);
    scheduler->logits =
        mem_array(MEM_SCRATCH, (size_t)LOGITS_ROWS * (size_t)config->tools.vocab, sizeof(float));
    scheduler->sample_scratch =
        mem_array(MEM_SCRATCH, (size_t)threads, sizeof *scheduler->sample_scratch);
    if (scheduler->logits == NULL || scheduler->sample_scratch == NULL ||
        !pass_open(&scheduler->pass, config->step_rows, config->sequences, config->tools.hidden) ||
        !pass_open(&scheduler->park, config->context, 1, config->tools.hidden)) {
        return ERR_NO_MEMORY;
    }
    for (int32_t i = 0; i < threads; i++) {
        enum err err = sample_scratch_open(config->tools.vocab, &scheduler->sample_scratch[i]);
        if (err != ERR_OK) {
            return err;
        }
        scheduler->sample_scratch_count++;
    }
    return ERR_OK;
}

void step_close(struct scheduler *scheduler)
{
    for (int32_t i = 0; i < scheduler->sample_scratch_count; i++) {
        sample_scratch_close(scheduler->sample_scratch[i]);
    }
    mem_free(scheduler->sample_scratch);
    mem_free(scheduler->logits);
    pass_close(&scheduler->pass);
    pass_close(&scheduler->park);
}

/* ---- choosing rows ------------------------------------------------------------------------- */

static void pass_reset(struct sched_pass *pass)
{
    pass->batch = (struct batch){
        .tokens = pass->tokens,
        .positions = pass->positions,
        .x = pass->x,
        .runs = pass->runs,
        .reads = pass->reads,
    };
}

/* Adds slots [stored, stored + count) of a sequence as one run. */
static void pass_add(struct sched_pass *pass, struct seq *seq, int32_t count)
{
    struct batch *batch = &pass->batch;
    int32_t row_from = batch->row_count;
    ASSERT(row_from + count <= pass->rows_max);
    for (int32_t i = 0; i < count; i++) {
        int32_t row = row_from + i;
        int32_t slot = seq->stored + i;
        pass->tokens[row] = seq->tokens[slot];
        pass->positions[row] = seq->slots.positions[slot];
        if (seq_reads_slot(seq, slot)) {
            int32_t read = batch->read_count++;
            pass->reads[read] = (struct row_read){.row = row, .layer = -1, .hidden = pass->x[row]};
            pass->read_of[read] =
                (struct sched_read){.seq = seq, .slot = slot, .hidden = pass->x[row]};
        }
    }
    pass->run_seqs[batch->run_count] = seq;
    pass->runs[batch->run_count++] = (struct run){
        .row_from = row_from,
        .row_count = count,
        .slot_from = seq->stored,
        .context_count = seq->item->context_count,
        .slots = &seq->slots,
    };
    batch->row_count += count;
}

static bool prompt_pending(const struct seq *seq)
{
    return seq->job != NULL && seq->err == ERR_OK && seq->stored < seq_prompt_count(seq);
}

/* Rows after the prompt: sampled and forced tokens. */
static void choose_decodes(struct scheduler *scheduler)
{
    struct sched_pass *pass = &scheduler->pass;
    for (int32_t i = 0; i < scheduler->config.sequences; i++) {
        struct seq *seq = &scheduler->seqs[i];
        if (seq->job == NULL || prompt_pending(seq) ||
            seq_next(seq, &scheduler->config.tools) != SEQ_ROWS) {
            continue;
        }
        int32_t room = pass->rows_max - pass->batch.row_count;
        int32_t count = MIN(seq->slot_count - seq->stored, room);
        if (count > 0) {
            pass_add(pass, seq, count);
        }
    }
}

/* Gives a waiting prompt its rows; returns how many. */
static int32_t choose_prompt(struct scheduler *scheduler, struct seq *seq, int32_t budget)
{
    int32_t block = seq->item->context_count;
    if (seq->stored >= block) { /* causal rows may come in any pieces */
        int32_t count = MIN(seq_prompt_count(seq) - seq->stored, budget);
        pass_add(&scheduler->pass, seq, count);
        return count;
    }
    if (seq->leases_park) {
        return 0;
    }
    if (block <= budget) {
        pass_add(&scheduler->pass, seq, block);
        return block;
    }
    if (scheduler->park_owner == NULL) {
        scheduler->park_owner = seq;
        seq->leases_park = true;
        pass_reset(&scheduler->park);
        pass_add(&scheduler->park, seq, block);
    }
    return 0;
}

/* Prompt rows a step may carry: few beside decodes, so that streams keep their pace. */
static int32_t prompt_budget(const struct scheduler *scheduler)
{
    int32_t room = scheduler->pass.rows_max - scheduler->pass.batch.row_count;
    if (scheduler->pass.batch.row_count == 0) {
        return room;
    }
    return MIN(room, MAX(scheduler->config.step_rows / PROMPT_SHARE, PROMPT_ROWS_MIN));
}

static int32_t choose_prompts(struct scheduler *scheduler, int32_t budget)
{
    int32_t count = scheduler->config.sequences;
    for (int32_t i = 0; i < count && budget > 0; i++) {
        int32_t index = (scheduler->prompt_turn + i) % count;
        struct seq *seq = &scheduler->seqs[index];
        if (!prompt_pending(seq)) {
            continue;
        }
        budget -= choose_prompt(scheduler, seq, budget);
        if (budget == 0) { /* who got the last rows goes on first next time */
            scheduler->prompt_turn = index;
            return 0;
        }
    }
    scheduler->prompt_turn = (scheduler->prompt_turn + 1) % count;
    return budget;
}

/* ---- consuming ----------------------------------------------------------------------------- */

static void mark_failed_runs(struct sched_pass *pass)
{
    for (int32_t r = 0; r < pass->batch.run_count; r++) {
        if (pass->runs[r].err != ERR_OK) {
            seq_fail(pass->run_seqs[r], pass->runs[r].err, "a hidden value is not finite");
        }
    }
}

/* Scores of prompt and forced tokens, LOGITS_ROWS rows at a time. */
static void take_scores(struct scheduler *scheduler, struct sched_pass *pass)
{
    const float *hidden[LOGITS_ROWS] = {NULL};
    struct sched_read *reads[LOGITS_ROWS];
    int32_t count = 0;
    for (int32_t r = 0; r < pass->batch.read_count; r++) {
        struct sched_read *read = &pass->read_of[r];
        if (read->seq->err == ERR_OK && seq_scores_slot(read->seq, read->slot)) {
            hidden[count] = read->hidden;
            reads[count++] = read;
        }
        if (count == LOGITS_ROWS || (count > 0 && r + 1 == pass->batch.read_count)) {
            scheduler->host.logits(scheduler->host.context, hidden, count, scheduler->logits);
            for (int32_t i = 0; i < count; i++) {
                seq_take_score(reads[i]->seq, &scheduler->config.tools, reads[i]->slot,
                    scheduler->logits + (size_t)i * (size_t)scheduler->config.tools.vocab);
            }
            count = 0;
        }
    }
}

static void pass_consume(struct scheduler *scheduler, struct sched_pass *pass)
{
    const struct seq_tools *tools = &scheduler->config.tools;
    mark_failed_runs(pass);
    for (int32_t r = 0; r < pass->batch.read_count; r++) {
        const struct sched_read *read = &pass->read_of[r];
        if (read->seq->err == ERR_OK) {
            seq_take_hidden(read->seq, tools, read->slot, read->hidden);
        }
    }
    take_scores(scheduler, pass);
    int64_t now = scheduler->host.now_us(scheduler->host.context);
    for (int32_t r = 0; r < pass->batch.run_count; r++) {
        const struct run *run = &pass->runs[r];
        struct seq *seq = pass->run_seqs[r];
        scheduler->counters.step_rows[seq->job->plan.kind] += (uint64_t)run->row_count;
        if (seq->err == ERR_OK) {
            seq_rows_stored(seq, tools, run->slot_from + run->row_count);
        }
        if (seq->stored >= seq_prompt_count(seq) && seq->job->times.prompt_done == 0) {
            seq->job->times.prompt_done = now;
        }
    }
}

struct consume_args {
    struct scheduler *scheduler;
    struct seq **seqs;
};

static void consume_chunk(void *context, int32_t chunk, int32_t thread)
{
    const struct consume_args *args = context;
    const struct sched_config *config = &args->scheduler->config;
    seq_consume(args->seqs[chunk], &config->tools, args->scheduler->sample_scratch[thread],
        args->scheduler->logits + (size_t)chunk * (size_t)config->tools.vocab);
}

static void consume_batch(struct scheduler *scheduler, struct seq **seqs, int32_t count)
{
    const struct seq_tools *tools = &scheduler->config.tools;
    const float *hidden[LOGITS_ROWS] = {NULL};
    for (int32_t i = 0; i < count; i++) {
        hidden[i] = seq_logits_row(seqs[i], tools);
    }
    scheduler->host.logits(scheduler->host.context, hidden, count, scheduler->logits);
    struct consume_args args = {.scheduler = scheduler, .seqs = seqs};
    threads_run(scheduler->config.threads, count, consume_chunk, &args);
    int64_t now = scheduler->host.now_us(scheduler->host.context);
    for (int32_t i = 0; i < count; i++) {
        struct job *job = seqs[i]->job;
        if (job->times.first_token == 0 && seqs[i]->result->generated_tokens > 0) {
            job->times.first_token = now;
        }
        if (job->plan.stream) {
            scheduler->host.progress(scheduler->host.context, job);
        }
    }
}

/* Every sequence that is due gets its logits once. Returns how many there were. */
static int32_t consume_logits(struct scheduler *scheduler, unsigned *kinds)
{
    struct seq *seqs[LOGITS_ROWS];
    int32_t count = 0, total = 0;
    for (int32_t i = 0; i < scheduler->config.sequences; i++) {
        struct seq *seq = &scheduler->seqs[i];
        if (seq->job == NULL || seq_next(seq, &scheduler->config.tools) != SEQ_LOGITS) {
            continue;
        }
        *kinds |= 1U << seq->job->plan.kind;
        seqs[count++] = seq;
        total++;
        if (count == LOGITS_ROWS) {
            consume_batch(scheduler, seqs, count);
            count = 0;
        }
    }
    if (count > 0) {
        consume_batch(scheduler, seqs, count);
    }
    return total;
}

/* ---- the step ------------------------------------------------------------------------------ */

static unsigned pass_kinds(const struct sched_pass *pass)
{
    unsigned kinds = 0;
    for (int32_t r = 0; r < pass->batch.run_count; r++) {
        kinds |= 1U << pass->run_seqs[r]->job->plan.kind;
    }
    return kinds;
}

/* Runs the next units of the parked block: as many as the rows left in the budget pay for. A block
 * with a number that is not finite ends here: its run's err is of this pass alone. */
static int32_t run_park(struct scheduler *scheduler, int32_t budget)
{
    struct seq *seq = scheduler->park_owner;
    int32_t rows = scheduler->park.batch.row_count;
    int32_t units = MAX(1, (int32_t)((int64_t)budget * scheduler->host.units / rows));
    int32_t unit_to = MIN(scheduler->host.units, seq->unit + units);
    scheduler->host.forward(scheduler->host.context, &scheduler->park.batch, seq->unit, unit_to);
    int32_t worth = MAX(1, (unit_to - seq->unit) * rows / scheduler->host.units);
    seq->unit = unit_to;
    if (unit_to == scheduler->host.units || scheduler->park.batch.runs[0].err != ERR_OK) {
        seq->leases_park = false;
        scheduler->park_owner = NULL;
        pass_consume(scheduler, &scheduler->park);
    }
    return worth;
}

static void count_step(struct scheduler *scheduler, unsigned kinds, int32_t rows, int64_t from)
{
    struct sched_counters *counters = &scheduler->counters;
    int64_t now = scheduler->host.now_us(scheduler->host.context);
    int64_t us = MAX(now - from, 1);
    int32_t bucket = 0;
    while (bucket < STEP_US_BUCKETS - 1 && us > (int64_t)500 << bucket) {
        bucket++;
    }
    counters->steps++;
    counters->step_us_sum += (uint64_t)us;
    counters->step_us_buckets[bucket]++;
    counters->step_kinds[__builtin_popcount(kinds)]++;
    counters->last_step_us = now;
    double rate = (double)rows * 1e6 / (double)us;
    counters->tokens_per_second =
        counters->tokens_per_second == 0 ? rate : counters->tokens_per_second * 0.95 + rate * 0.05;
}

bool step_run(struct scheduler *scheduler)
{
    int64_t from = scheduler->host.now_us(scheduler->host.context);
    struct sched_pass *pass = &scheduler->pass;
    pass_reset(pass);
    choose_decodes(scheduler);
    int32_t budget = choose_prompts(scheduler, prompt_budget(scheduler));
    unsigned kinds = pass_kinds(pass);
    int32_t rows = pass->batch.row_count;
    if (rows > 0) {
        scheduler->host.forward(scheduler->host.context, &pass->batch, 0, scheduler->host.units);
        pass_consume(scheduler, pass);
    }
    if (scheduler->park_owner != NULL) {
        kinds |= 1U << scheduler->park_owner->job->plan.kind;
        rows += run_park(scheduler, budget);
    }
    int32_t logits = consume_logits(scheduler, &kinds);
    if (kinds == 0) {
        return false;
    }
    count_step(scheduler, kinds, rows + (rows == 0 ? logits : 0), from);
    return true;
}
