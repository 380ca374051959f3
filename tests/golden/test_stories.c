/*
 * Goal: the engine is exact on a small trained model, and every weight format drifts from F32 as
 * far as the format does and no further.
 * Method: 50 prompts of stories260K with float64-checked logits, log-probabilities and 64 greedy
 * ids. Each prompt runs with its reference continuation appended, so that one near-tie does not
 * hide the tokens after it. Then the quantised files against the F32 file, row by row. Where each
 * step costs more (tests/scale.h), half of the prompts.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tests/golden/forward_helper.h"
#include "tests/golden/golden_data.h"
#include "tests/golden/golden_logits.h"
#include "tests/scale.h"

enum { PROMPTS = 50, VOCAB = 512, WIDTH = 64, ROWS_MAX = 5000 };

/* The reference moves by 1.3e-5 between compilers: 1e-4 is strict, and what the issue asks. */
static const double logit_error_max = 1e-4;
/* Printed with six decimals; a log-probability moves by at most twice what a logit does. */
static const double logprob_error_max = 2e-4 + 1e-6;

struct story {
    int32_t *prompt, *greedy, *all; /* all = prompt and greedy */
    double *logprobs;
    int32_t prompt_count, greedy_count, logprob_count;
};

static struct {
    struct story stories[PROMPTS];
    struct forward_sequence sequences[PROMPTS];
    float *last_logits; /* [PROMPTS][VOCAB] */
    int32_t count;      /* of stories at work */
    int32_t rows;       /* of all sequences */
    float *hidden;      /* [rows][WIDTH] */
    float *exact;       /* [rows][VOCAB] logits of the F32 file */
    float *logits;      /* [rows][VOCAB] of the file at work */
} data;

static void read_story(const json_t *line, struct story *story)
{
    story->prompt = golden_ints(line, "prompt_ids", &story->prompt_count);
    story->greedy = golden_ints(line, "greedy_ids", &story->greedy_count);
    story->logprobs = golden_numbers(line, "prompt_logprobs", &story->logprob_count);
    size_t prompt = (size_t)story->prompt_count, greedy = (size_t)story->greedy_count;
    story->all = malloc((prompt + greedy) * sizeof(int32_t));
    assert_non_null(story->all);
    memcpy(story->all, story->prompt, prompt * sizeof(int32_t));
    memcpy(story->all + prompt, story->greedy, greedy * sizeof(int32_t));
}

static int read_data(void **state)
{
    char path[GOLDEN_PATH_BYTES];
    size_t count;
    assert_true(golden_reference("stories260K/reference/ref.jsonl", path));
    json_t *lines = golden_json_lines(path);
    assert_int_equal(json_array_size(lines), PROMPTS);
    assert_true(golden_reference("stories260K/reference/last_logits_f32.bin", path));
    data.last_logits = golden_floats(path, &count);
    assert_int_equal(count, PROMPTS * VOCAB);
    data.count = test_scale() > 1 ? PROMPTS / 2 : PROMPTS;
    for (int32_t i = 0; i < data.count; i++) {
        struct story *story = &data.stories[i];
        read_story(json_array_get(lines, (size_t)i), story);
        int32_t n = story->prompt_count + story->greedy_count;
        data.sequences[i] =
            (struct forward_sequence){.tokens = story->all, .count = n, .read_count = n};
        data.rows += n;
    }
    json_decref(lines);
    size_t rows = (size_t)data.rows;
    data.hidden = calloc(rows * WIDTH, sizeof(float));
    data.exact = calloc(rows * VOCAB, sizeof(float));
    data.logits = calloc(rows * VOCAB, sizeof(float));
    assert_true(data.hidden != NULL && data.exact != NULL && data.logits != NULL);
    float *hidden = data.hidden;
    for (int32_t i = 0; i < PROMPTS; i++) {
        data.sequences[i].hidden = hidden;
        hidden += (size_t)data.sequences[i].count * WIDTH;
    }
    return 0;
}

static int free_data(void **state)
{
    for (int32_t i = 0; i < PROMPTS; i++) {
        free(data.stories[i].prompt);
        free(data.stories[i].greedy);
        free(data.stories[i].all);
        free(data.stories[i].logprobs);
    }
    free(data.last_logits);
    free(data.hidden);
    free(data.exact);
    free(data.logits);
    return 0;
}

/* Logits of every row of every story. */
static void run_file(const char *type, const char *rung, enum kv_type kv, float *logits)
{
    char name[128], path[GOLDEN_PATH_BYTES];
    snprintf(name, sizeof(name), "stories260K/gguf/stories260K-%s.gguf", type);
    assert_true(golden_reference(name, path));
    struct forward forward;
    forward_open(&forward, path, rung, kv, ROWS_MAX);
    assert_int_equal(forward.vocab, VOCAB);
    assert_int_equal(forward.width, WIDTH);
    forward_run(&forward, data.sequences, data.count);
    forward_logits(&forward, data.hidden, data.rows, logits);
    forward_close(&forward);
}

/* ---- F32 against the reference ---- */

struct agreement {
    double logit_error, logprob_error;
    int32_t near_ties;
};

static void check_story(int32_t index, const float *rows, struct agreement *agreement)
{
    const struct story *story = &data.stories[index];
    const float *last = rows + (size_t)(story->prompt_count - 1) * VOCAB;
    double error = golden_distance(last, data.last_logits + (size_t)index * VOCAB, VOCAB);
    agreement->logit_error = fmax(agreement->logit_error, error);
    assert_int_equal(story->logprob_count, story->prompt_count - 1);
    for (int32_t t = 0; t < story->logprob_count; t++) {
        double logprob = golden_logprob(rows + (size_t)t * VOCAB, VOCAB, story->prompt[t + 1]);
        agreement->logprob_error =
            fmax(agreement->logprob_error, fabs(logprob - story->logprobs[t]));
    }
    for (int32_t t = 0; t < story->greedy_count; t++) {
        const float *row = last + (size_t)t * VOCAB;
        struct golden_choice choice = golden_greedy(row, VOCAB, NULL, 0);
        if (choice.token == story->greedy[t]) {
            continue;
        }
        double behind = (double)row[choice.token] - (double)row[story->greedy[t]];
        if (behind >= logit_error_max) {
            fail_msg("story %d, token %d: %d instead of %d, %.3g behind", index, t, choice.token,
                story->greedy[t], behind);
        }
        agreement->near_ties++;
    }
}

static void check_exact(const char *rung)
{
    struct agreement agreement = {0};
    run_file("f32", rung, KV_F32, data.exact);
    const float *rows = data.exact;
    for (int32_t i = 0; i < data.count; i++) {
        check_story(i, rows, &agreement);
        rows += (size_t)data.sequences[i].count * VOCAB;
    }
    print_message("%s: logits within %.2g, log-probabilities within %.2g, %d near-ties\n", rung,
        agreement.logit_error, agreement.logprob_error, agreement.near_ties);
    assert_true(agreement.logit_error < logit_error_max);
    assert_true(agreement.logprob_error < logprob_error_max);
}

static void test_f32_is_exact_on_every_rung(void **state)
{
    for (const char *const *rung = kernels_available(); *rung != NULL; rung++) {
        check_exact(*rung);
    }
}

/* ---- drift of the formats ---- */

/* Mean KL(F32 || file) and the share of rows with the same most likely token. */
struct drift {
    const char *type;
    enum kv_type kv;
    double divergence_max, same_top_min;
};

/* Each bound is what the format was measured to do here, and a fifth more. Arithmetic that is not
 * exact shows: with 8-bit activations another implementation had KL 1.1e-3 on Q8_0 and 0.16 on
 * Q4_0, with 97.4 % and 77 % of the top tokens. */
static const struct drift drifts[] = {
    {"f32", KV_F16, 1.37e-6, 0.998},
    {"f16", KV_F32, 8.6e-7, 0.998},
    {"bf16.llamacpp", KV_F32, 7.3e-5, 0.990},
    {"q8_0", KV_F32, 5.1e-4, 0.980},
    {"q5_1", KV_F32, 0.0286, 0.905},
    {"q5_0", KV_F32, 0.0351, 0.890},
    {"q4_1", KV_F32, 0.122, 0.820},
    {"q4_0", KV_F32, 0.148, 0.800},
};

static void test_formats_drift_as_they_should(void **state)
{
    run_file("f32", NULL, KV_F32, data.exact);
    bool within = true;
    for (size_t d = 0; d < ARRAY_COUNT(drifts); d++) {
        const struct drift *drift = &drifts[d];
        double divergence = 0;
        int32_t same = 0;
        run_file(drift->type, NULL, drift->kv, data.logits);
        for (int32_t r = 0; r < data.rows; r++) {
            const float *exact = data.exact + (size_t)r * VOCAB;
            const float *row = data.logits + (size_t)r * VOCAB;
            divergence += golden_divergence(exact, row, VOCAB) / data.rows;
            same += golden_greedy(exact, VOCAB, NULL, 0).token ==
                    golden_greedy(row, VOCAB, NULL, 0).token;
        }
        double share = (double)same / data.rows;
        print_message("%s, K/V %s: KL %.3g, same top token %.2f %%\n", drift->type,
            drift->kv == KV_F16 ? "f16" : "f32", divergence, 100 * share);
        within &= divergence < drift->divergence_max && share > drift->same_top_min;
    }
    assert_true(within);
}

int main(void)
{
    char path[GOLDEN_PATH_BYTES];
    if (!golden_reference("stories260K/reference/ref.jsonl", path)) {
        golden_skip("stories260K of MAGNETD_DATA");
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f32_is_exact_on_every_rung),
        cmocka_unit_test(test_formats_drift_as_they_should),
    };
    return cmocka_run_group_tests(tests, read_data, free_data);
}
