/*
 * Goal: the sampler does what sampler.h defines, for any chain, and no draw depends on anything
 * but (logits, request, seed, sample, token).
 * Method: random requests against the plain reference of sample_reference.c; hand-made cases for
 * the definitions a random request would rarely corner; chi-square of drawn frequencies.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "engine/base/rng.h"
#include "engine/sample/draw.h"
#include "tests/unit/sample/sample_reference.h"

enum { VOCAB = 300, HISTORY = 40, CASES = 6000 };

/* ---- random requests: everything is a function of (seed, case, what is asked) ---- */

static uint64_t seed_of_run(void)
{
    const char *text = getenv("MAGNETD_TEST_SEED");
    return text != NULL ? strtoull(text, NULL, 10) : 20240601;
}

struct dice {
    uint64_t seed;
    uint32_t stream;
    uint64_t counter;
};

static double roll(struct dice *dice)
{
    return rng_uniform(dice->seed, dice->stream, dice->counter++);
}

static int32_t roll_below(struct dice *dice, int32_t n)
{
    return (int32_t)(roll(dice) * n);
}

struct made_request {
    struct sampling sampling;
    struct sample_request request;
    struct logit_bias bias[4];
    int32_t banned[3];
    int32_t history[HISTORY];
    float logits[VOCAB];
    int32_t vocab;
};

static void make_chain(struct dice *dice, struct sampling *sampling)
{
    sampling->no_samplers = roll(dice) < 0.1;
    if (sampling->no_samplers || roll(dice) < 0.3) {
        return;
    }
    for (int32_t i = 0; i < SAMPLER_KIND_COUNT; i++) {
        sampling->samplers[i] = (enum sampler_kind)i;
    }
    for (int32_t i = SAMPLER_KIND_COUNT - 1; i > 0; i--) { /* a random permutation, then cut */
        int32_t j = roll_below(dice, i + 1);
        enum sampler_kind kind = sampling->samplers[i];
        sampling->samplers[i] = sampling->samplers[j];
        sampling->samplers[j] = kind;
    }
    sampling->sampler_count = 1 + roll_below(dice, SAMPLER_KIND_COUNT);
}

/* All but every divisor-th. */
static bool is_allowed(const void *divisor, int32_t token)
{
    return token % *(const int32_t *)divisor != 0;
}

static void make_request(struct dice *dice, struct made_request *made)
{
    static const int32_t divisor = 3;
    memset(made, 0, sizeof(*made));
    made->vocab = roll(dice) < 0.3 ? 1 + roll_below(dice, 6) : 1 + roll_below(dice, VOCAB);
    double width = roll(dice) * 12;
    bool steps = roll(dice) < 0.3; /* few distinct logits: many ties */
    for (int32_t i = 0; i < made->vocab; i++) {
        double value = (roll(dice) - 0.5) * width;
        made->logits[i] = (float)(steps ? round(value) : value);
        made->logits[i] = roll(dice) < 0.02 ? -INFINITY : made->logits[i];
    }
    struct sampling *s = &made->sampling;
    s->temperature = roll(dice) < 0.15 ? 0 : (float)(0.05 + 2 * roll(dice));
    s->top_k = roll(dice) < 0.5 ? 0 : 1 + roll_below(dice, 60);
    s->top_p = roll(dice) < 0.5 ? 1 : (float)(0.001 + 0.998 * roll(dice));
    s->min_p = roll(dice) < 0.5 ? 0 : (float)roll(dice);
    s->typical_p = roll(dice) < 0.5 ? 1 : (float)(0.001 + 0.998 * roll(dice));
    s->repetition_penalty = roll(dice) < 0.5 ? 1 : (float)(0.5 + 1.5 * roll(dice));
    s->presence_penalty = roll(dice) < 0.5 ? 0 : (float)(4 * roll(dice) - 2);
    s->frequency_penalty = roll(dice) < 0.5 ? 0 : (float)(4 * roll(dice) - 2);
    s->penalty_last_n = roll_below(dice, HISTORY + 10) - 1;
    s->seed = dice->stream;
    s->sample_index = (uint32_t)roll_below(dice, 4);
    s->logit_bias = made->bias;
    s->logit_bias_count = roll(dice) < 0.5 ? 0 : 1 + roll_below(dice, 4);
    for (int32_t i = 0; i < s->logit_bias_count; i++) {
        float bias = roll(dice) < 0.3 ? -INFINITY : (float)(20 * roll(dice) - 10);
        made->bias[i] = (struct logit_bias){roll_below(dice, made->vocab), bias};
    }
    make_chain(dice, s);
    for (int32_t i = 0; i < HISTORY; i++) {
        made->history[i] = roll_below(dice, made->vocab);
    }
    for (int32_t i = 0; i < 3; i++) {
        made->banned[i] = roll_below(dice, made->vocab);
    }
    int32_t history_count = roll_below(dice, HISTORY + 1);
    made->request = (struct sample_request){.sampling = s,
        .banned = made->banned,
        .banned_count = roll(dice) < 0.5 ? 0 : 1 + roll_below(dice, 3),
        .history = made->history,
        .history_count = history_count,
        .generated_count = roll_below(dice, history_count + 1),
        .token_index = (uint64_t)roll_below(dice, 1000),
        .allows = roll(dice) < 0.2 ? is_allowed : NULL,
        .allows_context = &divisor};
}

static bool anything_left(const struct made_request *made)
{
    double left = 0;
    for (int32_t id = 0; id < made->vocab; id++) {
        bool out =
            isinf(made->logits[id]) || (made->request.allows != NULL &&
                                           !made->request.allows(made->request.allows_context, id));
        for (int32_t i = 0; i < made->sampling.logit_bias_count; i++) {
            out |= made->bias[i].token == id && isinf(made->bias[i].bias);
        }
        for (int32_t i = 0; i < made->request.banned_count; i++) {
            out |= made->banned[i] == id;
        }
        left += !out;
    }
    return left > 0;
}

/* ---- fixture: scratch for VOCAB and the plain C argmax ---- */

static int32_t plain_argmax(const float *x, int32_t count)
{
    int32_t best = 0;
    for (int32_t i = 1; i < count; i++) {
        best = x[i] > x[best] || isnan(x[best]) ? i : best;
    }
    return best;
}

static double plain_log_sum_exp(const float *x, int32_t count)
{
    double greatest = -INFINITY, sum = 0;
    for (int32_t i = 0; i < count; i++) {
        greatest = isnan(x[i]) ? NAN : fmax(greatest, (double)x[i]);
    }
    for (int32_t i = 0; i < count; i++) {
        sum += exp((double)x[i] - greatest);
    }
    return greatest + log(sum);
}

static const struct kernels kernels = {.argmax = plain_argmax, .log_sum_exp = plain_log_sum_exp};
static struct sample_scratch *scratch;

static int set_up(void **state)
{
    return sample_scratch_open(VOCAB, &scratch) == ERR_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    sample_scratch_close(scratch);
    return 0;
}

static int32_t pick(const struct sample_request *request, const float *logits, int32_t vocab)
{
    int32_t token = -1;
    enum err err = sampler_pick(scratch, &kernels, request, logits, vocab, &token);
    assert_int_equal(err, ERR_OK);
    return token;
}

static struct sampling neutral(float temperature)
{
    return (struct sampling){
        .temperature = temperature, .top_p = 1, .typical_p = 1, .repetition_penalty = 1};
}

/* ---- tests ---- */

static void test_any_request_equals_reference(void **state)
{
    uint64_t seed = seed_of_run();
    print_message("seed %llu\n", (unsigned long long)seed);
    static struct made_request made;
    int32_t all_banned = 0;
    for (uint32_t i = 0; i < CASES; i++) {
        struct dice dice = {seed, i, 0};
        make_request(&dice, &made);
        int32_t token = -1;
        enum err err =
            sampler_pick(scratch, &kernels, &made.request, made.logits, made.vocab, &token);
        if (!anything_left(&made)) {
            assert_int_equal(err, ERR_UNSATISFIABLE);
            assert_int_equal(token, -1);
            all_banned++;
            continue;
        }
        double p[VOCAB];
        reference_probabilities(&made.request, made.logits, made.vocab, p);
        const struct sampling *s = &made.sampling;
        double u = rng_uniform(s->seed, s->sample_index, made.request.token_index);
        if (err != ERR_OK || token != reference_pick(p, made.vocab, u)) {
            fail_msg("case %u: err %d, token %d, expected %d", i, (int)err, token,
                reference_pick(p, made.vocab, u));
        }
    }
    assert_true(all_banned > 0 && all_banned < CASES / 4);
}

/* Every token of the support must be reachable and no other: one draw says little about a filter,
 * a sweep of the random stream says all. */
static void test_support_equals_reference(void **state)
{
    uint64_t seed = seed_of_run() + 1;
    static struct made_request made;
    for (uint32_t i = 0; i < 200; i++) {
        struct dice dice = {seed, i, 0};
        make_request(&dice, &made);
        made.vocab = MIN(made.vocab, 6);
        made.request.history_count = made.request.generated_count = 0;
        made.request.banned_count = made.sampling.logit_bias_count = 0;
        made.request.allows = made.vocab > 1 ? made.request.allows : NULL;
        made.sampling.temperature += 1;
        for (int32_t id = 0; id < made.vocab; id++) {
            made.logits[id] = (float)(2 * roll(&dice));
        }
        double p[VOCAB];
        bool seen[VOCAB] = {false};
        reference_probabilities(&made.request, made.logits, made.vocab, p);
        for (uint64_t t = 0; t < 1500; t++) {
            made.request.token_index = t;
            seen[pick(&made.request, made.logits, made.vocab)] = true;
        }
        for (int32_t id = 0; id < made.vocab; id++) {
            if (seen[id] != (p[id] > 0) && p[id] < 0.02 && p[id] > 0) {
                continue; /* too rare for the sweep */
            }
            assert_int_equal(seen[id], p[id] > 0);
        }
    }
}

/* Pearson's statistic over 20,000 draws of 8 tokens: with 7 degrees of freedom it exceeds 29.9 once
 * in ten thousand runs of a right sampler; the seeds are fixed, so this one never does. */
static void test_frequencies(void **state)
{
    const float logits[8] = {0.5f, -1, 2, 1.5f, 0, -0.5f, 1, 0.25f};
    struct sampling sampling = neutral(0.8f);
    enum { DRAWS = 20000 };
    for (uint64_t seed = 1; seed <= 5; seed++) {
        sampling.seed = seed;
        struct sample_request request = {.sampling = &sampling};
        int32_t counts[8] = {0};
        double p[8], chi = 0;
        for (int32_t t = 0; t < DRAWS; t++) {
            request.token_index = (uint64_t)t;
            counts[pick(&request, logits, 8)]++;
        }
        reference_probabilities(&request, logits, 8, p);
        for (int32_t i = 0; i < 8; i++) {
            double expected = p[i] * DRAWS;
            chi += (counts[i] - expected) * (counts[i] - expected) / expected;
        }
        print_message("seed %llu: chi-square %.2f\n", (unsigned long long)seed, chi);
        assert_true(chi < 29.9);
        assert_true(chi > 0.05); /* suspiciously even is wrong too */
    }
}

/* Without filters nothing lists the tokens: they are drawn block by block. By definition it is the
 * first token whose cumulative mass exceeds u. */
static void test_draw_from_all(void **state)
{
    enum { MANY = 3 * DRAW_BLOCK + 7, DRAWS = 2000 };
    static float logits[MANY];
    const int32_t banned[] = {0, DRAW_BLOCK - 1, MANY - 1};
    struct dice dice = {seed_of_run() + 2, 0, 0};
    struct sampling sampling = neutral(1);
    struct sample_request request = {.sampling = &sampling, .banned = banned, .banned_count = 3};
    struct sample_scratch *wide = NULL;
    assert_int_equal(sample_scratch_open(MANY, &wide), ERR_OK);
    double sum = 0;
    static double masses[MANY];
    for (int32_t i = 0; i < MANY; i++) {
        logits[i] =
            i / DRAW_BLOCK == 1 ? -800 : (float)(6 * roll(&dice)); /* a block without mass */
        bool is_banned = i == banned[0] || i == banned[1] || i == banned[2];
        masses[i] = is_banned ? 0 : exp((double)logits[i]);
        sum += masses[i];
    }
    for (uint64_t t = 0; t < DRAWS; t++) {
        request.token_index = t;
        int32_t token = -1;
        assert_int_equal(sampler_pick(wide, &kernels, &request, logits, MANY, &token), ERR_OK);
        double u = rng_uniform(sampling.seed, sampling.sample_index, t), before = 0;
        for (int32_t i = 0; i < token; i++) {
            before += masses[i];
        }
        assert_true(before <= u * sum * (1 + 1e-12));
        assert_true(before + masses[token] >= u * sum * (1 - 1e-12));
        assert_true(masses[token] > 0);
    }
    sample_scratch_close(wide);
}

static void test_draws_depend_on_counters_alone(void **state)
{
    float logits[VOCAB];
    for (int32_t i = 0; i < VOCAB; i++) {
        logits[i] = (float)(i % 17) * 0.1f;
    }
    struct sampling sampling = neutral(1);
    sampling.seed = 7;
    struct sample_request request = {.sampling = &sampling};
    int32_t first[50], equal_seed = 0, equal_sample = 0;
    for (int32_t t = 0; t < 50; t++) {
        request.token_index = (uint64_t)t;
        first[t] = pick(&request, logits, VOCAB);
    }
    for (int32_t t = 49; t >= 0; t--) { /* another order, other draws in between */
        request.token_index = (uint64_t)t;
        sampling.seed = 8;
        equal_seed += pick(&request, logits, VOCAB) == first[t];
        sampling.seed = 7;
        sampling.sample_index = 1;
        equal_sample += pick(&request, logits, VOCAB) == first[t];
        sampling.sample_index = 0;
        assert_int_equal(pick(&request, logits, VOCAB), first[t]);
    }
    assert_true(equal_seed < 10);
    assert_true(equal_sample < 10);
}

/* top_p after the temperature sees the sharpened distribution, before it the plain one. */
static void test_order_of_the_chain_matters(void **state)
{
    const float logits[3] = {2, 1, 0}; /* p = .665 .245 .090; at temperature 0.5: .867 .117 .016 */
    struct sampling sampling = neutral(0.5f);
    sampling.top_p = 0.8f;
    struct sample_request request = {.sampling = &sampling};
    bool second[2] = {false, false};
    for (int32_t order = 0; order < 2; order++) {
        sampling.samplers[order] = SAMPLER_TOP_P;
        sampling.samplers[1 - order] = SAMPLER_TEMPERATURE;
        sampling.sampler_count = 2;
        for (uint64_t t = 0; t < 500; t++) {
            request.token_index = t;
            second[order] |= pick(&request, logits, 3) == 1;
        }
    }
    assert_true(second[0]);
    assert_false(second[1]);
}

static void test_greedy(void **state)
{
    const float logits[5] = {1, 3, NAN, 3, -INFINITY};
    const struct logit_bias bias[2] = {{1, -1}, {0, 1.5f}};
    struct sampling sampling = neutral(0);
    sampling.top_k = 1;
    sampling.typical_p = 0.01f; /* no filter runs on a greedy pick */
    struct sample_request request = {.sampling = &sampling};
    assert_int_equal(pick(&request, logits, 5), 1); /* tie: lower id; NaN never wins */
    sampling.logit_bias = bias;
    sampling.logit_bias_count = 1;
    assert_int_equal(pick(&request, logits, 5), 3);
    const int32_t banned[1] = {3};
    request.banned = banned;
    request.banned_count = 1;
    sampling.logit_bias_count = 2;
    assert_int_equal(pick(&request, logits, 5), 0);
    sampling.no_samplers = true; /* still greedy: 0 means greedy whatever the chain */
    assert_int_equal(pick(&request, logits, 5), 0);
}

static void test_penalties(void **state)
{
    const float logits[4] = {2.0f, 1.9f, -1.0f, -1.5f};
    const int32_t history[4] = {0, 2, 2, 1}; /* 0 and 2 are prompt, then 2 and 1 generated */
    struct sampling sampling = neutral(0);
    struct sample_request request = {
        .sampling = &sampling, .history = history, .history_count = 4, .generated_count = 2};
    /* Presence counts generated tokens alone: token 0 of the prompt is untouched. */
    sampling.presence_penalty = 2;
    assert_int_equal(pick(&request, logits, 4), 0);
    /* Repetition reaches into the prompt, as far as it looks back. */
    sampling.presence_penalty = 0;
    sampling.repetition_penalty = 1.2f;
    sampling.penalty_last_n = 3;
    assert_int_equal(pick(&request, logits, 4), 0);
    sampling.penalty_last_n = -1; /* 2.0 / 1.2 and 1.9 / 1.2 */
    assert_int_equal(pick(&request, logits, 4), 0);
    request.history_count = 1; /* only token 0 */
    request.generated_count = 0;
    assert_int_equal(pick(&request, logits, 4), 1);
    /* A negative logit is multiplied: it moves down, not up. */
    const int32_t only[2] = {2, 2};
    const float negative[4] = {-9, -9, -1.0f, -1.1f};
    request.history = only;
    request.history_count = 2;
    assert_int_equal(pick(&request, negative, 4), 3);
    /* Frequency counts, a chain without the stage has no penalties at all. */
    sampling.repetition_penalty = 1;
    sampling.frequency_penalty = 0.06f;
    request.generated_count = 1;
    assert_int_equal(pick(&request, negative, 4), 2);
    request.generated_count = 2;
    assert_int_equal(pick(&request, negative, 4), 3);
    sampling.no_samplers = true;
    assert_int_equal(pick(&request, negative, 4), 2);
}

static void test_not_finite(void **state)
{
    struct sampling sampling = neutral(0);
    struct sample_request request = {.sampling = &sampling};
    const float nothing[2][2] = {{-INFINITY, NAN}, {0, INFINITY}};
    for (int32_t i = 0; i < 4; i++) {
        int32_t token = -1;
        sampling.temperature = (float)(i / 2);
        enum err err = sampler_pick(scratch, &kernels, &request, nothing[i % 2], 2, &token);
        assert_int_equal(err, i == 2 ? ERR_UNSATISFIABLE : ERR_NON_FINITE);
        assert_int_equal(token, -1);
    }
}

/* Extremes must not overflow into NaN or an empty list. */
static void test_extreme_values(void **state)
{
    const float logits[4] = {-3.4e38f, 3.4e38f, 0, 3.3e38f};
    for (int32_t stage = 0; stage < SAMPLER_KIND_COUNT; stage++) {
        struct sampling sampling = {.temperature = 1e-45f,
            .top_k = 3,
            .top_p = 1e-45f,
            .typical_p = 1e-45f,
            .min_p = 1,
            .repetition_penalty = 10,
            .presence_penalty = 2,
            .frequency_penalty = 2,
            .penalty_last_n = -1,
            .samplers = {SAMPLER_TEMPERATURE, (enum sampler_kind)stage},
            .sampler_count = 2};
        struct sample_request request = {.sampling = &sampling};
        assert_int_equal(pick(&request, logits, 4), 1);
    }
}

static void test_top_and_logprob(void **state)
{
    uint64_t seed = seed_of_run() + 2;
    for (uint32_t i = 0; i < 300; i++) {
        struct dice dice = {seed, i, 0};
        float logits[VOCAB];
        int32_t vocab = 1 + roll_below(&dice, VOCAB);
        int32_t k = roll_below(&dice, LIMIT_TOP_LOGPROBS + 1);
        for (int32_t id = 0; id < vocab; id++) {
            logits[id] = roll(&dice) < 0.05 ? NAN : (float)roll_below(&dice, 30);
        }
        struct token_logprob top[LIMIT_TOP_LOGPROBS];
        int32_t count = sample_top(logits, vocab, 5.0, k, top);
        bool taken[VOCAB] = {false};
        for (int32_t place = 0; place < k; place++) { /* selection, one greatest at a time */
            int32_t best = -1;
            for (int32_t id = 0; id < vocab; id++) {
                if (!taken[id] && !isnan(logits[id]) && (best < 0 || logits[id] > logits[best])) {
                    best = id;
                }
            }
            assert_int_equal(place < count, best >= 0);
            if (best < 0) {
                break;
            }
            taken[best] = true;
            assert_int_equal(top[place].token, best);
            assert_true(top[place].logprob == sample_logprob(logits, best, 5.0));
            assert_true(top[place].logprob == logits[best] - 5);
        }
        assert_true(count <= k);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_request_equals_reference),
        cmocka_unit_test(test_support_equals_reference),
        cmocka_unit_test(test_frequencies),
        cmocka_unit_test(test_draw_from_all),
        cmocka_unit_test(test_draws_depend_on_counters_alone),
        cmocka_unit_test(test_order_of_the_chain_matters),
        cmocka_unit_test(test_greedy),
        cmocka_unit_test(test_penalties),
        cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_extreme_values),
        cmocka_unit_test(test_top_and_logprob),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
