/*
 * One step: which rows run, the passes, and what is done with the numbers that come out (see
 * scheduler.h for the order). A read row's final hidden state is written over its residual, which
 * nobody needs any more, so reads cost no memory of their own.
 */
#include <string.h>
#include "engine/base/assert.h"
#include "engine/base/clock.h"
#include "engine/sched/scheduler_private.h"

enum { VECTOR_ROWS = 64 }; /* that pass the dense head in one call */

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

void sched_pass_reset(struct sched_pass *pass)
{
    pass->batch = (struct batch){
        .tokens = pass->tokens,
        .positions = pass->positions,
        .x = pass->x,
        .runs = pass->runs,
        .reads = pass->reads,
    };
}

void sched_pass_add(
    struct sched_pass *pass, struct seq *seq, int32_t slot_from, int32_t count, bool again)
{
    struct batch *batch = &pass->batch;
    int32_t row_from = batch->row_count;
    ASSERT(count > 0 && row_from + count <= pass->rows_max);
    for (int32_t i = 0; i < count; i++) {
        int32_t row = row_from + i;
        int32_t slot = slot_from + i;
        pass->tokens[row] = seq->tokens[slot];
        pass->positions[row] = seq->slots.positions[slot];
        if (again || seq_reads_slot(seq, slot)) {
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
        .slot_from = slot_from,
        .context_count = seq->item->context_count,
        .stack = seq->stack,
        .slots = &seq->slots,
        .stored = again,
    };
    batch->row_count += count;
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

int32_t step_park_rows(const struct sched_config *config, int32_t park)
{
    return park == 0 ? config->context : MIN(config->context, config->step_rows);
}

static uint64_t parks_bytes(const struct sched_config *config)
{
    uint64_t bytes = 0;
    for (int32_t i = 0; i < PARKS; i++) {
        bytes += pass_bytes(step_park_rows(config, i), 1, config->tools.hidden);
    }
    return bytes;
}

static bool parks_open(struct scheduler *scheduler)
{
    const struct sched_config *config = &scheduler->config;
    bool opened = true;
    for (int32_t i = 0; i < PARKS && opened; i++) {
        opened = pass_open(
            &scheduler->parks[i].pass, step_park_rows(config, i), 1, config->tools.hidden);
    }
    return opened;
}

uint64_t step_bytes(const struct sched_config *config, int32_t threads)
{
    return pass_bytes(config->step_rows, config->step_rows, config->tools.hidden) +
           parks_bytes(config) +
           (uint64_t)LOGITS_ROWS * (uint64_t)config->tools.vocab * sizeof(float) +
           (uint64_t)threads *
               (sample_scratch_bytes(config->tools.vocab) + sizeof(struct mask_walk)) +
           mask_table_bytes(config->tools.vocab);
}

enum err step_open(struct scheduler *scheduler)
{
    const struct sched_config *config = &scheduler->config;
    int32_t threads = threads_count(config->threads);
    scheduler->logits =
        mem_array(MEM_SCRATCH, (size_t)LOGITS_ROWS * (size_t)config->tools.vocab, sizeof(float));
    scheduler->sample_scratch =
        mem_array(MEM_SCRATCH, (size_t)threads, sizeof *scheduler->sample_scratch);
    scheduler->mask_walks = mem_array(MEM_SCRATCH, (size_t)threads, sizeof *scheduler->mask_walks);
    if (scheduler->logits == NULL || scheduler->sample_scratch == NULL ||
        scheduler->mask_walks == NULL ||
        mask_table_open(&scheduler->masks, config->tools.tokenizer, config->tools.ends,
            config->tools.end_count) != ERR_OK ||
        !pass_open(&scheduler->pass, config->step_rows, config->step_rows, config->tools.hidden) ||
        !parks_open(scheduler)) {
        return ERR_NO_MEMORY;
    }
    scheduler->config.tools.masks = &scheduler->masks;
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
    mem_free(scheduler->mask_walks);
    mask_table_close(&scheduler->masks);
    mem_free(scheduler->logits);
    pass_close(&scheduler->pass);
    for (int32_t i = 0; i < PARKS; i++) {
        pass_close(&scheduler->parks[i].pass);
    }
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

static void finish_vectors(struct scheduler *scheduler, struct seq **seqs, int32_t count)
{
    const struct seq_tools *tools = &scheduler->config.tools;
    double *rows[VECTOR_ROWS] = {NULL};
    ASSERT(count <= VECTOR_ROWS);
    for (int32_t i = 0; i < count; i++) {
        rows[i] = seqs[i]->pool_sum;
    }
    if (tools->dense && count > 0) {
        scheduler->host.dense(scheduler->host.context, rows, count);
    }
    for (int32_t i = 0; i < count; i++) {
        seq_finish_vector(seqs[i], tools);
    }
}

/* Those that this pass completed, side by side: a dense head is read once for many. */
static void take_vectors(struct scheduler *scheduler, struct sched_pass *pass)
{
    struct seq *seqs[VECTOR_ROWS];
    int32_t count = 0;
    for (int32_t r = 0; r < pass->batch.run_count; r++) {
        struct seq *seq = pass->run_seqs[r];
        if (seq->vector_due) {
            seq->vector_due = false; /* it may have two runs */
            seqs[count++] = seq;
        }
        if (count == VECTOR_ROWS || r + 1 == pass->batch.run_count) {
            finish_vectors(scheduler, seqs, count);
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
        if (seq->err == ERR_OK && !run->stored) {
            seq_rows_stored(seq, tools, run->slot_from + run->row_count);
        }
        if (run->slot_from < seq_prompt_count(seq) && !run->stored) {
            memory_share(scheduler, seq);
        }
        if (seq->stored >= seq_prompt_count(seq) && seq->job->times.prompt_done == 0) {
            seq->job->times.prompt_done = now;
        }
    }
    take_vectors(scheduler, pass);
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
        &args->scheduler->mask_walks[thread],
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
    int64_t sampled = scheduler->host.now_us(scheduler->host.context);
    for (int32_t i = 0; i < count; i++) {
        seqs[i]->now_us = sampled;
    }
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

/* For whoever asks why nothing moves. */
static void note(struct scheduler *scheduler, enum activity what, unsigned kinds, int32_t rows)
{
    uint64_t word = (uint64_t)what | (uint64_t)kinds << 8 | (uint64_t)rows << 32;
    atomic_store_explicit(&scheduler->activity, word, memory_order_relaxed);
}

/* Runs rows [row, row + rows) of a park's block through units [unit, unit_to). Reads lie in row
 * order; those of these rows are counted from the first of them while they run. */
static void run_slice(struct scheduler *scheduler, struct sched_park *park, int32_t row,
    int32_t rows, int32_t unit, int32_t unit_to)
{
    const struct batch *block = &park->pass.batch;
    struct run run = block->runs[0];
    run.row_from = 0;
    run.row_count = rows;
    run.slot_from += row;
    struct batch batch = {.row_count = rows,
        .tokens = block->tokens + row,
        .positions = block->positions + row,
        .x = block->x + row,
        .runs = &run,
        .run_count = 1,
        .reads = block->reads};
    while (batch.reads < block->reads + block->read_count && batch.reads->row < row) {
        batch.reads++;
    }
    struct row_read *read = batch.reads;
    while (read < block->reads + block->read_count && read->row < row + rows) {
        read->row -= row;
        read++;
    }
    batch.read_count = (int32_t)(read - batch.reads);
    scheduler->host.forward(scheduler->host.context, &batch, unit, unit_to);
    while (read > batch.reads) {
        (--read)->row += row;
    }
    if (run.err != ERR_OK) {
        block->runs[0].err = run.err;
    }
}

/* What the park has to do in this step: the rest of a unit, whole units, the beginning of one. A
 * block with a number that is not finite ends here. */
static void run_park(struct scheduler *scheduler, struct sched_park *park)
{
    int64_t rows = park->pass.batch.row_count, units = scheduler->host.units;
    struct run *run = &park->pass.runs[0];
    int64_t to = park->done + park->todo;
    while (park->done < to && run->err == ERR_OK) {
        int64_t row = park->done % rows, unit = park->done / rows;
        int64_t count = row == 0 ? MIN(rows, to - park->done) : MIN(rows - row, to - park->done);
        int64_t whole = count == rows ? (to - park->done) / rows : 1;
        run_slice(
            scheduler, park, (int32_t)row, (int32_t)count, (int32_t)unit, (int32_t)(unit + whole));
        park->done += count * whole;
    }
    park->todo = 0;
    if (park->done == rows * units || run->err != ERR_OK) {
        park->owner->park = NULL;
        park->owner = NULL;
        pass_consume(scheduler, &park->pass);
    }
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

/* The parks' slices of this step. Adds what kinds they are of; returns what they amount to in rows
 * of whole passes. */
static int32_t run_parks(struct scheduler *scheduler, unsigned *kinds)
{
    int64_t row_units = 0;
    for (int32_t i = 0; i < PARKS; i++) {
        struct sched_park *park = &scheduler->parks[i];
        if (park->todo > 0) {
            unsigned kind = 1U << park->owner->job->plan.kind;
            *kinds |= kind;
            note(scheduler, ACTIVITY_SLICE, kind, park->pass.batch.row_count);
            row_units += park->todo;
            run_park(scheduler, park);
        }
    }
    return (int32_t)((row_units + scheduler->host.units - 1) / scheduler->host.units);
}

/* Nothing ran. When that is because clients do not read, the engine is well. */
static void note_rest(struct scheduler *scheduler)
{
    for (int32_t i = 0; i < scheduler->config.sequences; i++) {
        struct seq *seq = &scheduler->seqs[i];
        if (seq->job != NULL && seq_next(seq, &scheduler->config.tools) == SEQ_WAITS) {
            scheduler->counters.last_step_us = scheduler->host.now_us(scheduler->host.context);
        }
    }
    note(scheduler, ACTIVITY_REST, 0, 0);
}

static bool run_chosen(struct scheduler *scheduler, int64_t from)
{
    struct sched_pass *pass = &scheduler->pass;
    double expected_us = budget_cost(&scheduler->budget, &scheduler->load) + scheduler->slices_us;
    unsigned kinds = pass_kinds(pass);
    int32_t rows = pass->batch.row_count;
    if (rows > 0) {
        note(scheduler, ACTIVITY_PASS, kinds, rows);
        scheduler->host.forward(scheduler->host.context, &pass->batch, 0, scheduler->host.units);
        pass_consume(scheduler, pass);
    }
    rows += run_parks(scheduler, &kinds);
    note(scheduler, ACTIVITY_LOGITS, kinds, rows);
    int32_t logits = consume_logits(scheduler, &kinds);
    if (kinds == 0) {
        return false;
    }
    count_step(scheduler, kinds, rows + (rows == 0 ? logits : 0), from);
    struct load load = scheduler->load;
    load.rows = MAX(load.rows, scheduler->slice_rows);
    budget_learn(&scheduler->budget, &load, expected_us,
        scheduler->host.now_us(scheduler->host.context) - from);
    return true;
}

bool step_run(struct scheduler *scheduler)
{
    int64_t from = scheduler->host.now_us(scheduler->host.context);
    note(scheduler, ACTIVITY_CHOOSE, 0, 0);
    choose_rows(scheduler);
    bool ran = run_chosen(scheduler, from);
    if (ran) {
        note(scheduler, ACTIVITY_REST, 0, 0);
    } else {
        note_rest(scheduler);
    }
    return ran;
}
