/* See budget.h. Measured at 1, 16 and 48 rows: below, on and above the knee of every CPU known. */
#include "engine/sched/budget.h"

#include <math.h>
#include <stdbool.h>
#include "engine/base/attr.h"

enum {
    FEW_ROWS = 16,
    MANY_ROWS = 48,
    FAR_SLOTS = 512,
    TRIES = 2,
    KNEE_ROWS = 8, /* guessed, when nothing but single rows was measured */
    KEYS_OF_ROW_MIN = 512,
    KEYS_OF_ROW_MAX = 16384,
    LEARN_STEPS = 32, /* the mean of so many; of those there are, in the beginning */
};

/* How far off one step may seem: what another process does must not look like the model. But the
 * calibration may have been disturbed as well. */
static const double LEARN_RATIO_MAX = 4, FIRST_RATIO_MAX = 16;

void budget_init(struct budget *budget, int64_t step_us)
{
    *budget = (struct budget){.pass_us = 1000,
        .row_us = 100,
        .key_us = 0.01,
        .head_us = 50,
        .head_row_us = 20,
        .step_us = (double)(step_us > 0 ? step_us : BUDGET_STEP_US)};
}

struct load load_add(struct load a, struct load b)
{
    return (struct load){a.rows + b.rows, a.keys + b.keys, a.heads + b.heads};
}

/* The rows of the context see all of it, each later one sees what came before it. */
struct load budget_rows(int32_t slot, int32_t rows, int32_t context_count)
{
    int64_t inside = slot < context_count ? context_count - slot : 0;
    inside = inside < rows ? inside : rows;
    int64_t from = slot + inside, to = (int64_t)slot + rows;
    int64_t causal = (to * (to + 1) - from * (from + 1)) / 2;
    return (struct load){.rows = rows, .keys = inside * context_count + causal};
}

double budget_cost(const struct budget *budget, const struct load *load)
{
    double cost = 0;
    if (load->rows > 0) {
        cost += fmax(budget->pass_us, budget->fixed_us + load->rows * budget->row_us);
        cost += (double)load->keys * budget->key_us;
    }
    if (load->heads > 0) {
        cost += fmax(budget->head_us, load->heads * budget->head_row_us);
    }
    return cost;
}

double budget_share(const struct budget *budget, const struct load *load)
{
    return load->rows * budget->row_us + (double)load->keys * budget->key_us +
           load->heads * budget->head_row_us;
}

double budget_limit(const struct budget *budget, const struct load *decodes)
{
    if (decodes->rows == 0 && decodes->heads == 0) {
        struct load least = {.rows = BUDGET_ROWS_LEAST};
        return fmax(budget->step_us, budget_cost(budget, &least));
    }
    return budget_cost(budget, decodes) * BUDGET_DECODES_TENTHS / 10;
}

void budget_learn(struct budget *budget, const struct load *load, double expected_us, int64_t us)
{
    if (expected_us <= 0 || us <= 0) {
        return;
    }
    bool few = budget->fixed_us + load->rows * budget->row_us <= budget->pass_us;
    int32_t *seen = few ? &budget->few_seen : &budget->many_seen;
    double most = *seen < LEARN_STEPS ? FIRST_RATIO_MAX : LEARN_RATIO_MAX;
    double ratio = fmin(fmax((double)us / expected_us, 1 / most), most);
    *seen = MIN(*seen + 1, LEARN_STEPS);
    double factor = 1 + (ratio - 1) / *seen;
    if (few) {
        budget->pass_us *= factor;
    } else {
        budget->fixed_us *= factor;
        budget->row_us *= factor;
    }
    budget->key_us *= factor;
    budget->head_us *= factor;
    budget->head_row_us *= factor;
}

/* ---- calibration --------------------------------------------------------------------------- */

struct meter {
    int64_t (*measure)(void *context, int32_t rows, int32_t slot, int32_t heads);
    void *context;
    int64_t spent_us;
};

/* The best of some tries; 0 once the time is used up. */
static double best_of(struct meter *meter, int32_t rows, int32_t slot, int32_t heads)
{
    double best = 0;
    for (int32_t i = 0; i < TRIES && meter->spent_us < BUDGET_CALIBRATE_US; i++) {
        int64_t us = meter->measure(meter->context, rows, slot, heads);
        meter->spent_us += us;
        best = best == 0 ? (double)us : fmin(best, (double)us);
    }
    return best;
}

/* What one row pays for one key. A row costs as much as some thousands of keys in every model that
 * there is; a difference that says otherwise was made by another process. */
static double key_of(double near_us, double far_us, int32_t rows, int32_t slots)
{
    double row_us = near_us / rows;
    double key_us = far_us > 0 && near_us > 0 ? (far_us - near_us) / ((double)rows * slots) : 0;
    return fmin(fmax(key_us, row_us / KEYS_OF_ROW_MAX), row_us / KEYS_OF_ROW_MIN);
}

/* From a slow machine there may be no more than the first numbers: what is missing is in proportion
 * to what is known. */
void budget_calibrate(struct budget *budget,
    int64_t (*measure)(void *context, int32_t rows, int32_t slot, int32_t heads), void *context,
    int32_t rows_max, int32_t slots_max, int32_t heads_max)
{
    struct meter meter = {.measure = measure, .context = context};
    int32_t few = MIN(FEW_ROWS, rows_max), many = MIN(MANY_ROWS, rows_max);
    int32_t far = MIN(FAR_SLOTS, slots_max - few);
    double one = best_of(&meter, 1, 0, 0);
    double at_few = best_of(&meter, few, 0, 0);
    double head = best_of(&meter, 0, 0, 1);
    double heads = best_of(&meter, 0, 0, heads_max);
    double at_far = far > 0 ? best_of(&meter, few, far, 0) : 0;
    double at_many = best_of(&meter, many, 0, 0);
    if (one <= 0) {
        return; /* a clock that stands still: a test's */
    }
    budget->pass_us = one;
    budget->key_us = key_of(at_few, at_far, few, far);
    at_few -= budget->key_us * (double)budget_rows(0, few, 0).keys;
    at_many -= budget->key_us * (double)budget_rows(0, many, 0).keys;
    budget->row_us = at_few > 0 ? at_few / few : one / KNEE_ROWS;
    budget->fixed_us = 0;
    if (at_many > at_few && at_few > 0 && many > few) {
        budget->row_us = (at_many - at_few) / (many - few);
        budget->fixed_us = fmax(at_few - budget->row_us * few, 0);
    }
    budget->key_us = fmax(budget->key_us, budget->row_us / KEYS_OF_ROW_MAX);
    budget->head_us = head > 0 ? head : one / 4;
    budget->head_row_us = heads > 0 ? heads / heads_max : budget->head_us / KNEE_ROWS;
}
