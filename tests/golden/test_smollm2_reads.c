/*
 * Goal: on a real model what is read from rows without choosing tokens is that of exact arithmetic:
 * vectors under both masks and every pooling, moderation labels, scores of given text.
 * Method: smollm2.h, through the engine's own pooling, label reading and log-probabilities.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "engine/blocks/pooling.h"
#include "engine/sample/labels.h"
#include "engine/sample/sampler.h"
#include "tests/golden/golden_data.h"
#include "tests/golden/golden_logits.h"
#include "tests/golden/probe.h"
#include "tests/golden/smollm2.h"
#include "tests/scale.h"

enum { SANITIZED_SCORES = 64 }; /* of a text, under a sanitizer (smollm2.h) */

static const double rounding = 1e-6; /* the reference is printed with six decimals */

/* ---- vectors ---- */

struct vector_kind {
    const char *name;
    bool bidirectional;
    enum pooling pooling;
};

static const struct vector_kind vector_kinds[] = {
    {"bidirectional_mean", true, POOLING_MEAN},
    {"bidirectional_cls", true, POOLING_CLS},
    {"bidirectional_last", true, POOLING_LAST},
    {"bidirectional_eos", true, POOLING_EOS},
    {"bidirectional_weighted_mean", true, POOLING_WEIGHTED_MEAN},
    {"causal_mean", false, POOLING_MEAN},
    {"causal_last", false, POOLING_LAST},
    {"causal_weighted_mean", false, POOLING_WEIGHTED_MEAN},
};

static double vector_error(struct smollm2 *smollm2, const struct vector_kind *kind,
    const int32_t *ids, int32_t count, const float *expected)
{
    float vector[SMOLLM2_WIDTH];
    double sum[SMOLLM2_WIDTH];
    float *hidden = calloc((size_t)count * SMOLLM2_WIDTH, sizeof(*hidden));
    assert_non_null(hidden);
    struct forward_sequence sequence = {.tokens = ids,
        .count = count,
        .context_count = kind->bidirectional ? count : 0,
        .read_count = count,
        .hidden = hidden};
    forward_run(&smollm2->forward, &sequence, 1);
    struct pool pool;
    pooling_begin(&pool, kind->pooling, SMOLLM2_WIDTH, count, sum);
    for (int32_t r = 0; r < count; r++) {
        pooling_add(&pool, hidden + (size_t)r * SMOLLM2_WIDTH);
    }
    pooling_close(&pool);
    assert_int_equal(pooling_finish(&pool, SMOLLM2_WIDTH, true, vector), ERR_OK);
    free(hidden);
    return golden_distance(vector, expected, SMOLLM2_WIDTH);
}

static void test_vectors(void **state)
{
    struct smollm2 *smollm2 = *state;
    size_t rows, i;
    float *reference = smollm2_rows("embed", SMOLLM2_WIDTH, &rows);
    json_t *lines = smollm2_lines("embed"), *line;
    double worst = 0;
    size_t checked = 0;
    json_array_foreach(lines, i, line)
    {
        int32_t count;
        int32_t *ids = golden_ints(line, "ids", &count);
        ids[count] = golden_int(line, "eos"); /* golden_ints leaves room for one more */
        const json_t *kinds = golden_member(line, "rows");
        assert_int_equal(json_object_size(kinds), ARRAY_COUNT(vector_kinds));
        for (size_t k = 0; k < ARRAY_COUNT(vector_kinds); k++) {
            const struct vector_kind *kind = &vector_kinds[k];
            size_t row = (size_t)golden_int(kinds, kind->name);
            assert_true(row < rows);
            int32_t n = kind->pooling == POOLING_EOS ? count + 1 : count;
            worst =
                fmax(worst, vector_error(smollm2, kind, ids, n, reference + row * SMOLLM2_WIDTH));
            checked++;
        }
        free(ids);
    }
    print_message("vectors, %s: %zu within %.2g\n", smollm2->mode->name, checked, worst);
    smollm2_check_rows(checked, rows);
    assert_true(worst <= smollm2->mode->vector);
    json_decref(lines);
    free(reference);
}

/* ---- scores ---- */

struct score_agreement {
    const struct kernels *kernels;
    double worst;
};

static void check_logprob(void *context, const struct probe *probe, const float *logits)
{
    struct score_agreement *agreement = context;
    double all = agreement->kernels->log_sum_exp(logits, SMOLLM2_VOCAB);
    double logprob = (double)sample_logprob(logits, probe->token, all);
    agreement->worst = fmax(agreement->worst, fabs(logprob - probe->logprob));
    assert_true(isfinite(logprob));
}

static void test_scores(void **state)
{
    struct smollm2 *smollm2 = *state;
    json_t *lines = smollm2_lines("score"), *line;
    struct probe_set set = {0};
    size_t i;
    json_array_foreach(lines, i, line)
    {
        int32_t count, logprob_count;
        int32_t *ids = golden_ints(line, "ids", &count);
        double *logprobs = golden_numbers(line, "logprobs", &logprob_count);
        assert_int_equal(logprob_count, count - 1);
        if (test_scale() > 1) { /* the beginning of a text has the same numbers alone */
            logprob_count = MIN(logprob_count, SANITIZED_SCORES);
            count = logprob_count + 1;
        }
        int32_t sequence = probe_sequence(&set, ids, NULL, count, 0);
        for (int32_t t = 0; t < logprob_count; t++) {
            struct probe *probe = probe_add(&set, sequence, t);
            probe->token = ids[t + 1];
            probe->logprob = logprobs[t];
        }
        free(ids);
        free(logprobs);
    }
    struct score_agreement agreement = {.kernels = &smollm2->forward.kernels};
    probe_run(&smollm2->forward, &set, check_logprob, &agreement);
    print_message("scores, %s: %d log-probabilities within %.2g\n", smollm2->mode->name,
        set.probe_count, agreement.worst);
    assert_true(agreement.worst <= smollm2->mode->logprob + rounding);
    probe_free(&set);
    json_decref(lines);
}

/* ---- moderation labels ---- */

struct label_agreement {
    const struct kernels *kernels;
    double probability_error, confidence_error;
    int32_t fields;
};

static void check_labels(void *context, const struct probe *probe, const float *logits)
{
    enum { CHOICES_MAX = 4 };
    struct label_agreement *agreement = context;
    const json_t *field = probe->extra;
    int32_t count, probability_count, choice;
    int32_t *first_ids = golden_ints(field, "first_ids", &count);
    double *expected = golden_numbers(field, "probabilities", &probability_count);
    assert_in_range(count, 1, CHOICES_MAX);
    assert_int_equal(probability_count, count);
    struct plan_choice choices[CHOICES_MAX];
    float probabilities[CHOICES_MAX], confidence;
    for (int32_t i = 0; i < count; i++) {
        choices[i] = (struct plan_choice){.tokens = &first_ids[i], .token_count = 1};
    }
    enum err err = labels_read(logits, agreement->kernels->log_sum_exp(logits, SMOLLM2_VOCAB),
        choices, count, probabilities, &choice, &confidence);
    assert_int_equal(err, ERR_OK);
    for (int32_t i = 0; i < count; i++) {
        agreement->probability_error =
            fmax(agreement->probability_error, fabs((double)probabilities[i] - expected[i]));
    }
    agreement->confidence_error = fmax(agreement->confidence_error,
        fabs((double)confidence - json_number_value(golden_member(field, "confidence"))));
    const json_t *label = json_array_get(golden_member(field, "candidates"), (size_t)choice);
    assert_string_equal(json_string_value(label), json_string_value(golden_member(field, "value")));
    agreement->fields++;
    free(first_ids);
    free(expected);
}

static void test_moderation_labels(void **state)
{
    struct smollm2 *smollm2 = *state;
    json_t *lines = smollm2_lines("wildguard"), *line, *field;
    struct probe_set set = {0};
    size_t i, f;
    json_array_foreach(lines, i, line)
    {
        json_array_foreach(golden_member(line, "fields"), f, field)
        {
            if (test_scale() > 1 && f > 0) {
                break; /* fields of a line have their prompt in common */
            }
            int32_t count;
            int32_t *ids = golden_ints(field, "ids", &count);
            probe_add(&set, probe_sequence(&set, ids, NULL, count, 0), count - 1)->extra = field;
            free(ids);
        }
    }
    struct label_agreement agreement = {.kernels = &smollm2->forward.kernels};
    probe_run(&smollm2->forward, &set, check_labels, &agreement);
    print_message("labels, %s: %d fields, probabilities within %.2g, confidence within %.2g\n",
        smollm2->mode->name, agreement.fields, agreement.probability_error,
        agreement.confidence_error);
    assert_true(agreement.probability_error <= smollm2->mode->probability + rounding);
    assert_true(agreement.confidence_error <= smollm2->mode->probability + rounding);
    probe_free(&set);
    json_decref(lines);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_moderation_labels),
        cmocka_unit_test(test_scores),
    };
    return smollm2_main(tests, ARRAY_COUNT(tests));
}
