/*
 * Goal: a real adapter on the default model gives logits, fills and vectors of exact arithmetic.
 * Method: magnet-trial-adapter of MAGNETD_DATA, a LoRA of rank 16 on all seven linears that PEFT
 * wrote, and its reference: a float64 forward over W + (alpha / r) B A. Tokens of the reference are
 * fed (teacher-forced). With f32 K/V logits and numbers of vectors are within 1e-3, leads of chosen
 * tokens within twice that; with f16 K/V the tokens chosen are the same, for all lead by more than
 * the rounding of K/V moves them (test_smollm2_choices.c).
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "engine/blocks/pooling.h"
#include "tests/golden/golden_data.h"
#include "tests/golden/golden_logits.h"
#include "tests/golden/probe.h"
#include "tests/golden/smollm2.h"
#include "tests/scale.h"

enum { ROWS_MAX = 256, SEQUENCE_MAX = 64, PARIS = 7042 };

static const double error_max = 1e-3;

static struct forward forward;
static enum kv_type kv;

static json_t *lines_of(const char *name)
{
    char path[GOLDEN_PATH_BYTES];
    assert_true(golden_reference(name, path));
    return golden_json_lines(path);
}

static float *rows_of(const char *name, size_t width, size_t *out_rows)
{
    char path[GOLDEN_PATH_BYTES];
    size_t count;
    assert_true(golden_reference(name, path));
    float *floats = golden_floats(path, &count);
    assert_int_equal(count % width, 0);
    *out_rows = count / width;
    return floats;
}

/* ---- fills ---- */

static const int32_t banned[] = {0, 2};

struct agreement {
    double logit_error, lead_error;
    int32_t tokens, rows;
};

static void check_choice(void *context, const struct probe *probe, const float *logits)
{
    struct agreement *agreement = context;
    struct golden_choice choice = golden_greedy(logits, SMOLLM2_VOCAB, banned, ARRAY_COUNT(banned));
    assert_int_equal(choice.token, probe->token);
    agreement->tokens++;
    agreement->lead_error = fmax(agreement->lead_error, fabs(choice.gap - probe->gap));
    if (probe->reference != NULL) {
        agreement->rows++;
        agreement->logit_error =
            fmax(agreement->logit_error, golden_distance(logits, probe->reference, SMOLLM2_VOCAB));
    }
}

/* The slot left of the nth gap: where the positions of the context jump. */
static int32_t left_of_gap(const int32_t *positions, int32_t count, size_t gap)
{
    for (int32_t slot = 0; slot + 1 < count; slot++) {
        if (positions[slot + 1] != positions[slot] + 1 && gap-- == 0) {
            return slot;
        }
    }
    fail_msg("no such gap");
    return -1;
}

/* Context and fills as one sequence; each token is read from the row before it. */
static void add_line(struct probe_set *set, const json_t *line, const float *reference)
{
    int32_t tokens[SEQUENCE_MAX], positions[SEQUENCE_MAX], context_count, count;
    int32_t *context = golden_ints(line, "context_ids", &context_count);
    int32_t *places = golden_ints(line, "positions", &count);
    assert_int_equal(count, context_count);
    memcpy(tokens, context, (size_t)count * sizeof(*tokens));
    memcpy(positions, places, (size_t)count * sizeof(*positions));
    const json_t *fill;
    size_t gap;
    json_array_foreach(golden_member(line, "sequential"), gap, fill)
    {
        int32_t id_count, lead_count;
        int32_t *ids = golden_ints(fill, "ids", &id_count);
        double *leads = golden_numbers(fill, "gaps", &lead_count);
        assert_int_equal(lead_count, id_count);
        int32_t left = left_of_gap(places, context_count, gap);
        for (int32_t t = 0; t < id_count; t++, count++) {
            struct probe *probe = probe_add(set, set->sequence_count, t == 0 ? left : count - 1);
            probe->token = ids[t];
            probe->gap = leads[t];
            probe->reference =
                t > 0 ? NULL
                      : reference + (size_t)golden_int(fill, "first_logits_row") * SMOLLM2_VOCAB;
            assert_true(count < SEQUENCE_MAX);
            tokens[count] = ids[t];
            positions[count] = places[left] + 1 + t;
        }
        free(ids);
        free(leads);
    }
    int32_t sequence = probe_sequence(set, tokens, positions, count, context_count);
    set->sequences[sequence].stack = 1;
    free(context);
    free(places);
}

static void test_fills(void **state)
{
    size_t rows, i;
    float *reference = rows_of("magnet-trial-adapter/infill_f32.bin", SMOLLM2_VOCAB, &rows);
    json_t *lines = lines_of("magnet-trial-adapter/infill.jsonl"), *line;
    struct probe_set set = {0};
    json_array_foreach(lines, i, line)
    {
        add_line(&set, line, reference);
    }
    assert_int_equal(set.probes[0].token, PARIS);
    struct agreement agreement = {0};
    probe_run(&forward, &set, check_choice, &agreement);
    print_message("fills: %d tokens, leads within %.2g, %d rows of logits within %.2g\n",
        agreement.tokens, agreement.lead_error, agreement.rows, agreement.logit_error);
    assert_int_equal(agreement.rows, rows);
    if (kv == KV_F32) {
        assert_true(agreement.logit_error <= error_max);
        assert_true(agreement.lead_error <= 2 * error_max);
    }
    probe_free(&set);
    json_decref(lines);
    free(reference);
}

/* Without the adapter the gap of the first line is filled by something else. */
static void test_fill_needs_the_adapter(void **state)
{
    json_t *lines = lines_of("magnet-trial-adapter/infill.jsonl");
    int32_t count, position_count;
    int32_t *ids = golden_ints(json_array_get(lines, 0), "context_ids", &count);
    int32_t *positions = golden_ints(json_array_get(lines, 0), "positions", &position_count);
    float hidden[SMOLLM2_WIDTH];
    float *logits = malloc(SMOLLM2_VOCAB * sizeof(*logits));
    assert_non_null(logits);
    for (int32_t stack = 0; stack <= 1; stack++) {
        struct forward_sequence sequence = {.tokens = ids,
            .positions = positions,
            .count = count,
            .context_count = count,
            .stack = stack,
            .read_from = left_of_gap(positions, count, 0),
            .read_count = 1,
            .hidden = hidden};
        forward_run(&forward, &sequence, 1);
        forward_logits(&forward, hidden, 1, logits);
        struct golden_choice choice =
            golden_greedy(logits, SMOLLM2_VOCAB, banned, ARRAY_COUNT(banned));
        assert_int_equal(choice.token == PARIS, stack == 1);
    }
    free(logits);
    free(ids);
    free(positions);
    json_decref(lines);
}

/* ---- vectors ---- */

static void test_vectors(void **state)
{
    size_t rows, i;
    float *reference = rows_of("magnet-trial-adapter/embed_f32.bin", SMOLLM2_WIDTH, &rows);
    json_t *lines = lines_of("magnet-trial-adapter/embed.jsonl"), *line;
    double worst = 0;
    assert_int_equal(json_array_size(lines), rows);
    json_array_foreach(lines, i, line)
    {
        float hidden[SEQUENCE_MAX * SMOLLM2_WIDTH], vector[SMOLLM2_WIDTH];
        double sum[SMOLLM2_WIDTH];
        int32_t count;
        int32_t *ids = golden_ints(line, "ids", &count);
        struct pool pool;
        assert_true(count <= SEQUENCE_MAX);
        struct forward_sequence sequence = {.tokens = ids,
            .count = count,
            .context_count = count,
            .stack = 1,
            .read_count = count,
            .hidden = hidden};
        forward_run(&forward, &sequence, 1);
        pooling_begin(&pool, POOLING_MEAN, SMOLLM2_WIDTH, count, sum);
        for (int32_t r = 0; r < count; r++) {
            pooling_add(&pool, hidden + (size_t)r * SMOLLM2_WIDTH);
        }
        assert_int_equal(pooling_finish(&pool, SMOLLM2_WIDTH, true, vector), ERR_OK);
        const float *expected = reference + (size_t)golden_int(line, "row") * SMOLLM2_WIDTH;
        worst = fmax(worst, golden_distance(vector, expected, SMOLLM2_WIDTH));
        free(ids);
    }
    print_message("vectors: %zu within %.2g\n", rows, worst);
    assert_true(worst <= error_max);
    json_decref(lines);
    free(reference);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fills),
        cmocka_unit_test(test_fill_needs_the_adapter),
        cmocka_unit_test(test_vectors),
    };
    char model[GOLDEN_PATH_BYTES], adapter[GOLDEN_PATH_BYTES];
    if (!golden_model(model)) {
        golden_skip("the default model (deploy/fetch_model.sh, MAGNETD_MODEL)");
    }
    if (!golden_reference("magnet-trial-adapter", adapter)) {
        golden_skip("magnet-trial-adapter of MAGNETD_DATA");
    }
    const char *const adapters[] = {adapter};
    int failed = 0;
    /* A sanitizer looks at the code, not at the numbers. */
    for (int type = test_scale() > 1 ? KV_F32 : KV_F16; type <= KV_F32; type++) {
        kv = (enum kv_type)type;
        const struct forward_options options = {.kernels = getenv("MAGNETD_KERNELS"),
            .type = kv,
            .rows_max = ROWS_MAX,
            .adapters = adapters,
            .adapter_count = 1};
        forward_open_with(&forward, model, &options);
        print_message("K/V %s\n", kv == KV_F16 ? "f16" : "f32");
        failed += cmocka_run_group_tests(tests, NULL, NULL);
        forward_close(&forward);
    }
    return failed != 0;
}
