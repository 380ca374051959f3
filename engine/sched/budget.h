/*
 * What a step costs, in microseconds, before it runs: matrix work of its rows, attention over the
 * keys they see, and logits. A pass of few rows costs the reading of the weights, whatever it
 * computes; that is the knee that makes prompt rows beside decodes nearly free at first.
 *
 *     cost = max(pass_us, fixed_us + rows * row_us) + keys * key_us
 *          + (heads > 0 ? max(head_us, heads * head_row_us) : 0)
 *
 * The numbers are measured once at start and follow the measured steps. They choose who runs when;
 * no result depends on them.
 */
#ifndef ENGINE_SCHED_BUDGET_H
#define ENGINE_SCHED_BUDGET_H

#include <stdint.h>

enum {
    BUDGET_STEP_US = 50 * 1000, /* of a step without decodes ... */
    BUDGET_ROWS_LEAST = 16,     /* ... or so many rows, below which matrices are slow */
    /* A step with decodes may cost so many tenths of what they cost alone: the promise is twice,
     * the rest is for what an estimate is off. */
    BUDGET_DECODES_TENTHS = 18,
    BUDGET_CALIBRATE_US = 150 * 1000, /* no measurement begins after this long */
};

struct budget {
    double pass_us, fixed_us, row_us;
    double key_us; /* one row, one key, all layers */
    double head_us, head_row_us;
    double step_us;
    int32_t few_seen, many_seen; /* steps learnt from, up to LEARN_STEPS */
};

/* What a pass carries. */
struct load {
    int32_t rows;
    int64_t keys;  /* summed over the rows */
    int32_t heads; /* rows of logits */
};

/* Guesses, for when nothing was measured. step_us 0 = BUDGET_STEP_US. */
void budget_init(struct budget *budget, int64_t step_us);

/* `measure` runs a pass of `rows` rows that follow `slot` others, or, with rows = 0, the logits of
 * `heads` rows, and returns its microseconds. */
void budget_calibrate(struct budget *budget,
    int64_t (*measure)(void *context, int32_t rows, int32_t slot, int32_t heads), void *context,
    int32_t rows_max, int32_t slots_max, int32_t heads_max);

double budget_cost(const struct budget *budget, const struct load *load);
/* Without the knee: what the load is charged to whoever caused it, also when it was free. */
double budget_share(const struct budget *budget, const struct load *load);
/* What a step that carries these decodes may cost in all. */
double budget_limit(const struct budget *budget, const struct load *decodes);
/* A step took so long: the numbers follow, quickly at first and then slowly. */
void budget_learn(struct budget *budget, const struct load *load, double expected_us, int64_t us);

/* The load of rows [slot, slot + rows) of a sequence whose first `context_count` slots see each
 * other; no logits. */
struct load budget_rows(int32_t slot, int32_t rows, int32_t context_count);
struct load load_add(struct load a, struct load b);

#endif
