/*
 * Measures what passes cost on this machine, once, before the first job (budget.h says which). The
 * rows are token 0 over and over, in the first sequence's slots; only the clock looks at what comes
 * out.
 */
#include "engine/base/assert.h"
#include "engine/sched/scheduler_private.h"

static void lay_out(struct sched_pass *pass, struct seq *seq, int32_t rows, int32_t slot)
{
    sched_pass_reset(pass);
    for (int32_t i = 0; i < rows; i++) {
        pass->tokens[i] = 0;
        pass->positions[i] = slot + i;
    }
    pass->runs[0] =
        (struct run){.row_from = 0, .row_count = rows, .slot_from = slot, .slots = &seq->slots};
    pass->batch.row_count = rows;
    pass->batch.run_count = 1;
}

static int64_t measure(void *context, int32_t rows, int32_t slot, int32_t heads)
{
    struct scheduler *scheduler = context;
    const struct sched_host *host = &scheduler->host;
    struct sched_pass *pass = &scheduler->pass;
    const float *hidden[LOGITS_ROWS] = {NULL};
    lay_out(pass, &scheduler->seqs[0], MAX(rows, 1), slot);
    for (int32_t i = 0; i < heads; i++) {
        hidden[i] = pass->x[i];
    }
    if (rows == 0 && host->logits == NULL) {
        return 0;
    }
    int64_t from = host->now_us(host->context);
    if (rows > 0) {
        host->forward(host->context, &pass->batch, 0, host->units);
    } else {
        host->logits(host->context, hidden, heads, scheduler->logits);
    }
    return host->now_us(host->context) - from;
}

void scheduler_calibrate(struct scheduler *scheduler)
{
    ASSERT(!scheduler_busy(scheduler));
    struct slots *slots = &scheduler->seqs[0].slots;
    int32_t count = MIN(scheduler->config.context, CALIBRATE_SLOTS);
    if (!slots_hold(slots, count)) {
        return;
    }
    for (int32_t i = 0; i < count; i++) {
        slots->positions[i] = i;
    }
    budget_calibrate(&scheduler->budget, measure, scheduler, MIN(scheduler->pass.rows_max, count),
        count, MIN(CALIBRATE_HEADS, scheduler->pass.rows_max));
    slots_release(slots);
}
