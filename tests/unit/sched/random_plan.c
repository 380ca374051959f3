/* See random_plan.h. */
#include "tests/unit/sched/random_plan.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

static void random_embed(struct random_plan *p, struct dice *dice)
{
    p->plan.kind = KIND_EMBED;
    p->plan.item_count = 1 + roll(dice, 3);
    for (int32_t i = 0; i < p->plan.item_count; i++) {
        struct plan_item *item = &p->items[i];
        item->tokens = p->tokens + i;
        item->token_count = 1 + roll(dice, PLAN_TOKENS - 4);
        item->context_count = roll(dice, 3) == 0 ? 0 : item->token_count;
        item->pooling = (enum pooling)(1 + roll(dice, 5));
        item->pool_from = item->token_count > 4 ? roll(dice, 4) : 0;
        item->token_vectors = roll(dice, 6) == 0;
    }
}

static void random_infill(struct random_plan *p, struct dice *dice)
{
    p->plan.kind = KIND_INFILL;
    struct plan_item *item = &p->items[0];
    item->token_count = 4 + roll(dice, PLAN_TOKENS - 4);
    item->context_count = item->token_count;
    item->step_count = 1 + roll(dice, 3);
    for (int32_t s = 0; s < item->step_count; s++) {
        p->steps[s] = (struct plan_step){.kind = STEP_DECODE,
            .read_row = s + roll(dice, item->token_count - 3),
            .position = 5 + s * 20,
            .tokens_max = roll(dice, 9),
            .top_logprobs = roll(dice, 4) - 1,
            .border = roll(dice, 3) == 0 ? BORDER_SPACE : BORDER_FREE,
            .behind = roll(dice, 2) == 0 ? BEHIND_SPACE : BEHIND_OTHER,
            .sentence = roll(dice, 2) == 0,
            .ban_end = roll(dice, 2) == 0};
    }
}

static void random_generate(struct random_plan *p, struct dice *dice)
{
    p->plan.kind = KIND_GENERATE;
    struct plan_item *item = &p->items[0];
    item->token_count = 1 + roll(dice, PLAN_TOKENS - 1);
    item->context_count = roll(dice, 3) == 0 ? roll(dice, item->token_count + 1) : 0;
    item->prompt_logprobs = item->context_count == 0 && roll(dice, 3) == 0;
    item->step_count = 1;
    p->stop = (struct stop_string){.bytes = "w2", .count = 2};
    p->steps[0] = (struct plan_step){.kind = STEP_DECODE,
        .read_row = -1,
        .position = -1,
        .tokens_max = 1 + roll(dice, 30),
        .tokens_min = roll(dice, 4),
        .stops = &p->stop,
        .stop_count = roll(dice, 2),
        .indent_min = roll(dice, 3),
        .top_logprobs = roll(dice, 3),
        .watch = roll(dice, 2) == 0 ? NULL : p->forced};
    item->sampling.temperature = roll(dice, 2) == 0 ? 0.0f : 1.5f;
    item->sampling.frequency_penalty = 0.5f;
}

static void random_classify(struct random_plan *p, struct dice *dice)
{
    p->plan.kind = KIND_CLASSIFY;
    struct plan_item *item = &p->items[0];
    item->token_count = 1 + roll(dice, PLAN_TOKENS - 1);
    item->step_count = 2 * (1 + roll(dice, 3));
    for (int32_t c = 0; c < 3; c++) {
        p->choices[c] = (struct plan_choice){.tokens = p->forced + c, .token_count = 1 + c};
    }
    for (int32_t s = 0; s < item->step_count; s += 2) {
        p->steps[s] = (struct plan_step){.kind = STEP_FORCE,
            .read_row = -1,
            .position = -1,
            .tokens = p->forced,
            .token_count = 1 + roll(dice, 12),
            .top_logprobs = roll(dice, 2) - 1};
        p->steps[s + 1] = (struct plan_step){.kind = STEP_CHOOSE,
            .read_row = -1,
            .position = -1,
            .choices = p->choices,
            .choice_count = 2 + roll(dice, 2)};
    }
}

void random_plan(struct random_plan *p, struct dice *dice, int32_t vocab)
{
    memset(p, 0, sizeof *p);
    for (int32_t i = 0; i < PLAN_TOKENS; i++) {
        p->tokens[i] = 3 + roll(dice, vocab - 3);
    }
    for (int32_t i = 0; i < 16; i++) {
        p->forced[i] = 3 + i + roll(dice, vocab - 32);
    }
    for (int32_t i = 0; i < 3; i++) {
        p->items[i].tokens = p->tokens;
        p->items[i].sampling = (struct sampling){
            .top_p = 1, .typical_p = 1, .repetition_penalty = 1, .seed = dice->seed};
    }
    p->items[0].steps = p->steps;
    p->plan.items = p->items;
    p->plan.item_count = 1;
    void (*const makers[])(struct random_plan *, struct dice *) = {
        random_embed, random_infill, random_generate, random_classify};
    makers[roll(dice, 4)](p, dice);
}

/* More items on the same prompt: samples, or for blocks gaps of their own. */
static void add_items(struct random_plan *p, struct dice *dice)
{
    const struct plan_item first = p->items[0];
    p->plan.item_count = 1 + roll(dice, 3);
    for (int32_t i = 1; i < p->plan.item_count; i++) {
        p->items[i] = first;
        p->items[i].sampling.sample_index = (uint32_t)i;
    }
    if (p->plan.kind == KIND_INFILL && first.step_count <= PLAN_STEPS / 2) {
        for (int32_t s = 0; s < first.step_count; s++) {
            struct plan_step *step = &p->steps[PLAN_STEPS / 2 + s];
            *step = p->steps[s];
            step->read_row = roll(dice, first.token_count);
        }
        p->items[1].steps = p->steps + PLAN_STEPS / 2;
    }
}

void related_plan(struct random_plan *p, struct dice *dice, int32_t vocab)
{
    struct dice family = {.seed = 550 + (uint64_t)roll(dice, 12)};
    random_plan(p, &family, vocab);
    if (p->plan.kind == KIND_GENERATE) {
        p->steps[0].tokens_max += roll(dice, 90);
        p->steps[0].ban_end = roll(dice, 2) == 0;
    }
    if (p->plan.kind != KIND_EMBED) {
        add_items(p, dice);
    }
    if (roll(dice, 2) == 0) {
        p->tokens[roll(dice, PLAN_TOKENS)] = 3 + roll(dice, vocab - 3);
    }
    p->plan.cache_salt[0] = roll(dice, 4) == 0;
    p->plan.cache_off = roll(dice, 8) == 0;
}

static void assert_same_step(
    const struct plan_step *step, const struct step_result *a, const struct step_result *b)
{
    assert_int_equal(a->finish, b->finish);
    assert_int_equal(a->token_count, b->token_count);
    assert_int_equal(a->text_bytes, b->text_bytes);
    assert_int_equal(a->choice, b->choice);
    assert_memory_equal(&a->confidence, &b->confidence, sizeof(float));
    size_t tokens = (size_t)a->token_count;
    if (step->kind == STEP_CHOOSE) {
        assert_memory_equal(
            a->probabilities, b->probabilities, (size_t)step->choice_count * sizeof(float));
        return;
    }
    assert_memory_equal(a->tokens, b->tokens, tokens * sizeof(int32_t));
    assert_memory_equal(a->logprobs, b->logprobs, tokens * sizeof(float));
    if (step->kind == STEP_DECODE) {
        assert_memory_equal(a->text, b->text, (size_t)a->text_bytes);
        if (step->watch != NULL) {
            assert_memory_equal(a->watched, b->watched, tokens * sizeof(float));
        }
        if (step->top_logprobs > 0) {
            assert_memory_equal(
                a->top, b->top, tokens * (size_t)step->top_logprobs * sizeof(struct token_logprob));
        }
    }
}

void assert_same_results(const struct job *a, const struct job *b)
{
    assert_int_equal(a->err, ERR_OK);
    assert_int_equal(b->err, ERR_OK);
    for (int32_t i = 0; i < a->plan.item_count; i++) {
        const struct item_result *ra = &a->results[i], *rb = &b->results[i];
        assert_int_equal(ra->err, rb->err);
        if (ra->vector != NULL) {
            assert_memory_equal(ra->vector, rb->vector,
                (size_t)ra->vector_rows * (size_t)ra->vector_dim * sizeof(float));
        }
        if (ra->prompt_logprobs != NULL) {
            assert_memory_equal(ra->prompt_logprobs, rb->prompt_logprobs,
                (size_t)ra->prompt_tokens * sizeof(float));
        }
        for (int32_t s = 0; s < a->plan.items[i].step_count; s++) {
            assert_same_step(&a->plan.items[i].steps[s], &ra->steps[s], &rb->steps[s]);
        }
    }
}
