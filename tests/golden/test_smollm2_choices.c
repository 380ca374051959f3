/*
 * Goal: on a real model the tokens chosen are those of exact arithmetic, in causal text, after a
 * bidirectional prefix and in gaps.
 * Method: smollm2.h. Reference tokens are appended to each prompt (teacher-forced), so that one
 * near-tie does not hide what comes after. All cases of a file share batches.
 *
 * A reference token leads the runner-up by `gap`; that our lead is within 2e-3 of it (f32
 * K/V) is asked of every token: so the choice is the same wherever the gap exceeds 2e-3.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tests/golden/golden_data.h"
#include "tests/golden/golden_logits.h"
#include "tests/golden/probe.h"
#include "tests/golden/smollm2.h"

enum { SEQUENCE_MAX = 1100 };

static const double rounding = 1e-5; /* gaps are printed with five decimals */

/* A sequence under construction. */
struct text {
    int32_t tokens[SEQUENCE_MAX], positions[SEQUENCE_MAX];
    int32_t count;
};

/* Appends tokens at consecutive positions. */
static void text_add(struct text *text, const int32_t *tokens, int32_t count, int32_t position)
{
    assert_true(text->count + count <= SEQUENCE_MAX);
    for (int32_t i = 0; i < count; i++) {
        text->tokens[text->count] = tokens[i];
        text->positions[text->count++] = position + i;
    }
}

/* ---- chosen tokens: causal, prefix-LM, infill ---- */

/* What the greedy choice leaves out, as extra of a probe. */
struct bans {
    int32_t *tokens;
    int32_t count;
};

struct agreement {
    const struct smollm2_mode *mode;
    double logit_error, lead_error;
    int32_t tokens, rows, near_ties, wrong;
};

static void check_choice(void *context, const struct probe *probe, const float *logits)
{
    struct agreement *agreement = context;
    const struct bans *bans = probe->extra;
    const struct bans none = {NULL, 0};
    bans = bans != NULL ? bans : &none;
    if (probe->reference != NULL) {
        double error = golden_distance(logits, probe->reference, SMOLLM2_VOCAB);
        agreement->logit_error = fmax(agreement->logit_error, error);
        agreement->rows++;
    }
    struct golden_choice choice = golden_greedy(logits, SMOLLM2_VOCAB, bans->tokens, bans->count);
    double lead = choice.token == probe->token
                      ? choice.gap
                      : (double)logits[probe->token] - (double)logits[choice.token];
    double error = probe->gap_is_least ? fmax(probe->gap - lead, 0) : fabs(lead - probe->gap);
    agreement->lead_error = fmax(agreement->lead_error, error);
    agreement->near_ties += choice.token != probe->token;
    agreement->tokens++;
    if (!(error <= agreement->mode->lead + rounding)) {
        agreement->wrong++;
    }
}

static void report_choices(
    const char *what, const struct agreement *agreement, double logit_error_max)
{
    print_message("%s, %s: %d tokens, leads within %.2g, %d other choices; %d rows of logits "
                  "within %.2g\n",
        what, agreement->mode->name, agreement->tokens, agreement->lead_error, agreement->near_ties,
        agreement->rows, agreement->logit_error);
    assert_int_equal(agreement->wrong, 0);
    assert_true(agreement->logit_error <= logit_error_max);
}

/* Prompt, then its greedy continuation; the row before each token must lead to it. */
static void add_continuation(
    struct probe_set *set, const json_t *line, bool prefix_sees_itself, const float *reference)
{
    struct text text = {0};
    int32_t ids_count, greedy_count, gap_count;
    int32_t *ids = golden_ints(line, "ids", &ids_count);
    int32_t *greedy = golden_ints(line, "greedy", &greedy_count);
    double *gaps = NULL;
    if (json_object_get(line, "gaps") != NULL) {
        gaps = golden_numbers(line, "gaps", &gap_count);
        assert_int_equal(gap_count, greedy_count);
    }
    double gap_min = json_number_value(golden_member(line, "min_gap"));
    text_add(&text, ids, ids_count, 0);
    text_add(&text, greedy, greedy_count - 1, ids_count);
    int32_t sequence =
        probe_sequence(set, text.tokens, NULL, text.count, prefix_sees_itself ? ids_count : 0);
    for (int32_t t = 0; t < greedy_count; t++) {
        struct probe *probe = probe_add(set, sequence, ids_count - 1 + t);
        probe->token = greedy[t];
        probe->gap = gaps != NULL ? gaps[t] : gap_min;
        probe->gap_is_least = gaps == NULL;
        probe->reference = t == 0 ? reference : NULL;
    }
    free(ids);
    free(greedy);
    free(gaps);
}

static void check_continuations(
    struct smollm2 *smollm2, const char *stem, const char *logits, bool prefix_sees_itself)
{
    size_t rows;
    float *reference = smollm2_rows(logits, SMOLLM2_VOCAB, &rows);
    json_t *lines = smollm2_lines(stem), *line;
    struct probe_set set = {0};
    size_t i;
    json_array_foreach(lines, i, line)
    {
        size_t row = (size_t)golden_int(line, "logits_row");
        assert_true(row < rows);
        add_continuation(&set, line, prefix_sees_itself, reference + row * SMOLLM2_VOCAB);
    }
    struct agreement agreement = {.mode = smollm2->mode};
    probe_run(&smollm2->forward, &set, check_choice, &agreement);
    report_choices(
        stem, &agreement, prefix_sees_itself ? smollm2->mode->prefix_logit : smollm2->mode->logit);
    smollm2_check_rows((size_t)agreement.rows, rows);
    probe_free(&set);
    json_decref(lines);
    free(reference);
}

static void test_causal(void **state)
{
    check_continuations(*state, "causal", "causal_logits", false);
}

static void test_prefix_lm(void **state)
{
    check_continuations(*state, "prefix_lm", "prefix_logits", true);
}

/* ---- infill ---- */

/* One line: the context, the reference logits, and where its gaps are. */
struct infill {
    int32_t *context, *positions;
    int32_t count;
    struct bans bans;
    const float *reference;
    size_t reference_rows;
};

/* The slot left of the nth gap: where the positions of the context jump. */
static int32_t left_of_gap(const struct infill *infill, int32_t gap)
{
    for (int32_t slot = 0; slot + 1 < infill->count; slot++) {
        if (infill->positions[slot + 1] != infill->positions[slot] + 1 && gap-- == 0) {
            return slot;
        }
    }
    fail_msg("no such gap");
    return -1;
}

/* Appends one filled gap and its probes: the first token is read from the gap's left neighbour, the
 * others from the token before. */
static void add_gap(struct probe_set *set, const struct infill *infill, const json_t *fill,
    int32_t gap, int32_t sequence, struct text *text)
{
    int32_t ids_count, gap_count;
    int32_t *ids = golden_ints(fill, "ids", &ids_count);
    double *gaps = golden_numbers(fill, "gaps", &gap_count);
    assert_int_equal(gap_count, ids_count);
    int32_t left = left_of_gap(infill, gap);
    size_t row = (size_t)golden_int(fill, "first_logits_row");
    assert_true(row < infill->reference_rows);
    for (int32_t t = 0; t < ids_count; t++) {
        struct probe *probe = probe_add(set, sequence, t == 0 ? left : text->count + t - 1);
        probe->token = ids[t];
        probe->gap = gaps[t];
        probe->reference = t == 0 ? infill->reference + row * SMOLLM2_VOCAB : NULL;
        probe->extra = &infill->bans;
    }
    text_add(text, ids, ids_count, infill->positions[left] + 1);
    free(ids);
    free(gaps);
}

/* Sequential: all gaps in one sequence, later ones see the earlier. Independent: one each. */
static void add_infill(struct probe_set *set, const struct infill *infill, const json_t *line)
{
    struct text text = {0};
    text_add(&text, infill->context, infill->count, 0);
    memcpy(text.positions, infill->positions, (size_t)infill->count * sizeof(int32_t));
    struct text context = text;
    const json_t *sequential = golden_member(line, "sequential"), *fill;
    size_t gap;
    json_array_foreach(sequential, gap, fill)
    {
        add_gap(set, infill, fill, (int32_t)gap, set->sequence_count, &text);
    }
    (void)probe_sequence(set, text.tokens, text.positions, text.count, infill->count);
    json_array_foreach(golden_member(line, "independent"), gap, fill)
    {
        text = context;
        add_gap(set, infill, fill, (int32_t)gap, set->sequence_count, &text);
        (void)probe_sequence(set, text.tokens, text.positions, text.count, infill->count);
    }
}

static void test_infill(void **state)
{
    struct smollm2 *smollm2 = *state;
    size_t rows, i;
    float *reference = smollm2_rows("infill_logits", SMOLLM2_VOCAB, &rows);
    json_t *lines = smollm2_lines("infill_hybrid"), *line;
    struct infill *infills = calloc(json_array_size(lines), sizeof(*infills));
    assert_non_null(infills);
    struct probe_set set = {0};
    json_array_foreach(lines, i, line)
    {
        struct infill *infill = &infills[i];
        int32_t count;
        infill->context = golden_ints(line, "context_ids", &infill->count);
        infill->positions = golden_ints(line, "positions", &count);
        infill->bans.tokens = golden_ints(line, "banned", &infill->bans.count);
        infill->reference = reference;
        infill->reference_rows = rows;
        assert_int_equal(count, infill->count);
        assert_int_equal(golden_int(line, "context_count"), infill->count);
        add_infill(&set, infill, line);
    }
    struct agreement agreement = {.mode = smollm2->mode};
    probe_run(&smollm2->forward, &set, check_choice, &agreement);
    report_choices("infill", &agreement, smollm2->mode->logit);
    smollm2_check_rows((size_t)agreement.rows, rows);
    probe_free(&set);
    for (i = 0; i < json_array_size(lines); i++) {
        free(infills[i].context);
        free(infills[i].positions);
        free(infills[i].bans.tokens);
    }
    free(infills);
    json_decref(lines);
    free(reference);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_infill),
        cmocka_unit_test(test_prefix_lm),
        cmocka_unit_test(test_causal),
    };
    return smollm2_main(tests, ARRAY_COUNT(tests));
}
