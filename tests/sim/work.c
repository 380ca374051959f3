/* See work.h. */
#include "tests/sim/work.h"

#include <string.h>
#include "tests/unit/sched/fake_vocab.h"

enum { FIRST_TOKEN = 3, LAST_TOKEN = FAKE_VOCAB - 1, TEMPLATES = 3 };

static int32_t random_token(struct dice *dice)
{
    return FIRST_TOKEN + roll(dice, LAST_TOKEN - FIRST_TOKEN); /* never the last: that is poison */
}

/* A template's words, then words of its own; the second part may be empty, or drawn from so few
 * that other requests have the same. */
static void fill_tokens(struct work *work, struct dice *dice)
{
    int32_t template = roll(dice, TEMPLATES), shared = roll(dice, WORK_CONTEXT);
    struct dice words = {.seed = 1000003U * (uint64_t) template + 17};
    if (roll(dice, 4) == 0) {
        shared = WORK_CONTEXT;
    }
    for (int32_t i = 0; i < WORK_CONTEXT + WORK_ITEMS; i++) {
        work->tokens[i] = random_token(i < shared ? &words : dice);
    }
    for (int32_t i = 0; i < 16; i++) {
        work->forced[i] = random_token(dice);
    }
}

static void fill_sampling(struct sampling *sampling, struct dice *dice)
{
    *sampling = (struct sampling){.top_p = 1, .typical_p = 1, .repetition_penalty = 1};
    sampling->seed = (uint64_t)roll(dice, 1 << 20);
    if (roll(dice, 2) == 0) {
        return; /* greedy */
    }
    sampling->temperature = 1.5f;
    sampling->top_k = roll(dice, 2) * 40;
    sampling->frequency_penalty = 0.5f * (float)roll(dice, 2);
    sampling->repetition_penalty = roll(dice, 3) == 0 ? 1.2f : 1.0f;
    sampling->penalty_last_n = roll(dice, 2) == 0 ? -1 : roll(dice, 40);
}

/* Short texts are common, long ones happen. */
static int32_t random_length(struct dice *dice, int32_t max)
{
    int32_t wanted = roll(dice, 4) == 0 ? max : MIN(max, 40);
    return 1 + roll(dice, wanted);
}

static void random_embed(struct work *work, struct dice *dice, int32_t context)
{
    work->plan.kind = KIND_EMBED;
    bool bulk = roll(dice, 4) == 0;
    work->plan.item_count = bulk ? 2 + roll(dice, WORK_ITEMS - 1) : 1;
    for (int32_t i = 0; i < work->plan.item_count; i++) {
        struct plan_item *item = &work->items[i];
        item->tokens = work->tokens + roll(dice, 2) * i;
        item->token_count = random_length(dice, bulk ? 40 : context);
        item->context_count = roll(dice, 3) == 0 ? 0 : item->token_count;
        item->pooling = (enum pooling)(1 + roll(dice, 5));
        item->pool_from = item->token_count > 4 ? roll(dice, 4) : 0;
        item->token_vectors = roll(dice, 8) == 0;
        item->normalize = roll(dice, 2) == 0;
    }
}

static void make_decode(
    struct work *work, struct plan_step *step, struct dice *dice, int32_t tokens_max)
{
    *step = (struct plan_step){.kind = STEP_DECODE,
        .read_row = -1,
        .position = -1,
        .tokens_max = tokens_max,
        .tokens_min = roll(dice, 4) == 0 ? roll(dice, 4) : 0,
        .top_logprobs = roll(dice, 4) - 1,
        .ban_end = roll(dice, 3) == 0,
        .watch = roll(dice, 6) == 0 ? work->forced : NULL};
}

/* A context with holes: each gap has its own positions and begins from its left neighbour. */
static void random_infill(struct work *work, struct dice *dice, int32_t context)
{
    work->plan.kind = KIND_INFILL;
    struct plan_item *item = &work->items[0];
    item->step_count = 1 + roll(dice, 3);
    item->token_count = 4 + random_length(dice, context - 4 - item->step_count * 12);
    item->context_count = item->token_count;
    item->positions = work->positions;
    int32_t rows_a_gap = item->token_count / item->step_count, hole = 0;
    for (int32_t s = 0; s < item->step_count; s++) {
        struct plan_step *step = &work->steps[s];
        make_decode(work, step, dice, roll(dice, 12));
        step->read_row = s * rows_a_gap + roll(dice, rows_a_gap);
        for (int32_t row = s * rows_a_gap; row < item->token_count; row++) {
            if (row == step->read_row + 1) {
                hole += step->tokens_max;
            }
            work->positions[row] = row + hole;
        }
        if (step->read_row == item->token_count - 1) {
            hole += step->tokens_max;
        }
        step->position = work->positions[step->read_row] + 1;
    }
    work->plan.stream = roll(dice, 3) == 0;
}

static void random_generate(struct work *work, struct dice *dice, int32_t context)
{
    work->plan.kind = KIND_GENERATE;
    struct plan_item *item = &work->items[0];
    int32_t tokens_max = roll(dice, 8) == 0 ? 0 : 1 + roll(dice, context / 4);
    item->token_count = random_length(dice, context - tokens_max);
    bool causal = roll(dice, 3) > 0;
    item->context_count = causal ? 0 : roll(dice, item->token_count + 1);
    item->prompt_logprobs = item->context_count == 0 && roll(dice, 4) == 0;
    item->step_count = 1;
    work->stop = (struct stop_string){.bytes = "w2", .count = 2};
    make_decode(work, &work->steps[0], dice, tokens_max);
    work->steps[0].stops = &work->stop;
    work->steps[0].stop_count = roll(dice, 2);
    work->plan.stream = roll(dice, 2) == 0;
    work->plan.item_count = roll(dice, 4) == 0 ? 2 + roll(dice, WORK_ANSWERS - 1) : 1;
    for (int32_t i = 1; i < work->plan.item_count; i++) {
        work->items[i] = *item;
        work->items[i].sampling.sample_index = (uint32_t)i;
    }
}

/* Questions about a text: forced words, a choice, and sometimes a few words of reason. */
static void random_classify(struct work *work, struct dice *dice, int32_t context)
{
    work->plan.kind = KIND_CLASSIFY;
    struct plan_item *item = &work->items[0];
    int32_t questions = 1 + roll(dice, 3);
    item->token_count = random_length(dice, context - questions * 16 - 8);
    item->step_count = 2 * questions;
    for (int32_t c = 0; c < WORK_CHOICES; c++) {
        work->choices[c] = (struct plan_choice){.tokens = work->forced + c, .token_count = 1 + c};
    }
    for (int32_t s = 0; s < item->step_count; s += 2) {
        work->steps[s] = (struct plan_step){.kind = STEP_FORCE,
            .read_row = -1,
            .position = -1,
            .tokens = work->forced,
            .token_count = 1 + roll(dice, 12),
            .top_logprobs = roll(dice, 2) - 1};
        work->steps[s + 1] = (struct plan_step){.kind = STEP_CHOOSE,
            .read_row = -1,
            .position = -1,
            .choices = work->choices,
            .choice_count = 2 + roll(dice, 2)};
    }
    if (roll(dice, 3) == 0) {
        make_decode(work, &work->steps[item->step_count++], dice, 1 + roll(dice, 8));
    }
}

void work_random(struct work *work, struct dice *dice, int32_t context, int32_t poison)
{
    memset(work, 0, sizeof *work);
    fill_tokens(work, dice);
    for (int32_t i = 0; i < WORK_ITEMS; i++) {
        work->items[i].tokens = work->tokens;
        fill_sampling(&work->items[i].sampling, dice);
    }
    work->items[0].steps = work->steps;
    work->plan.items = work->items;
    work->plan.item_count = 1;
    void (*const makers[])(struct work *, struct dice *, int32_t) = {
        random_embed, random_infill, random_generate, random_classify};
    makers[roll(dice, 4)](work, dice, context);
    work->plan.client = (uint64_t)roll(dice, 3);
    work->plan.cache_salt[0] = roll(dice, 8) == 0;
    work->plan.cache_off = roll(dice, 8) == 0;
    work->plan.priority =
        roll(dice, 4) == 0 ? roll(dice, 2 * LIMIT_PRIORITY + 1) - LIMIT_PRIORITY : 0;
    if (roll(dice, 6) == 0) {
        work->plan.urgency = roll(dice, 2) == 0 ? URGENCY_INTERACTIVE : URGENCY_BULK;
    }
    if (poison >= 0 && roll(dice, 6) == 0) {
        work->tokens[roll(dice, 60)] = poison;
    }
}
