/*
 * Goal: 8-bit activations change the default model's answers, and by no more than is stated.
 * Method: log-probabilities of every token of a text, once with f32 and once with int8 activations,
 * K/V f16 both times. Sums of integers are exact and so the same on every rung; what differs
 * between rungs are last bits of the rest, far below these bounds. They are what was measured, and
 * a fifth more: 0.72 and 0.066. The average moved by 0.006, and may by 0.02: over 161 tokens it is
 * noise.
 *
 * usage: test_drift; exits 77 when the model is absent.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "engine/engine.h"
#include "engine/text/tokenizer.h"
#include "tests/golden/golden_data.h"

/* Of one log-probability, of their absolute values on average, and of the average. */
#define LARGEST 0.87
#define AVERAGE 0.08
#define SHIFT 0.02

static const char text[] =
    "The lighthouse stands at the end of a long spit of shingle, and for most of the winter the "
    "only way to reach it is by boat. Its keeper, a retired engineer, lists the ships that pass in "
    "a narrow green book: the hour, the heading, the flag if it can be seen. In a good month there "
    "are two hundred entries. On the first page he has written what the book is for. \"If someone "
    "asks, in fifty years, whether the ferry ran on the fourth of March, the answer should not "
    "depend on what anybody remembers.\" Every Sunday he copies the week into a table, adds up the "
    "columns and compares the sum with that of the harbour office, four miles to the south. They "
    "have disagreed three times, and each time it was the office that was wrong.";

static char model_path[GOLDEN_PATH_BYTES];

struct scores {
    float *logprobs;
    int32_t count;
};

static struct scores score(bool int8_activations)
{
    struct engine_config config = {.model_path = model_path,
        .context = 512,
        .jobs = 1,
        .threads = 2,
        .int8_activations = int8_activations};
    struct err_info info = {0};
    struct engine *engine;
    struct token_list list;
    struct job *job;
    if (engine_open(&config, &engine, &info) != ERR_OK) {
        fail_msg("%s: %s", info.where, info.text);
    }
    assert_true(engine_model(engine)->int8_activations == int8_activations);
    token_list_init(&list, INT32_MAX);
    assert_int_equal(
        tokenizer_encode(engine_tokenizer(engine), text, strlen(text), 0, &list, &info), ERR_OK);
    struct plan_step step = {
        .kind = STEP_DECODE, .read_row = -1, .position = -1, .top_logprobs = -1};
    struct plan_item item = {.tokens = list.ids,
        .token_count = list.count,
        .prompt_logprobs = true,
        .steps = &step,
        .step_count = 1,
        .sampling = {.top_p = 1, .typical_p = 1, .repetition_penalty = 1}};
    assert_int_equal(engine_acquire(engine, &job), ERR_OK);
    job->plan = (struct plan){.kind = KIND_GENERATE, .items = &item, .item_count = 1};
    assert_int_equal(engine_submit(engine, job, &info), ERR_OK);
    engine_wait(engine, job);
    assert_int_equal(job->err, ERR_OK);
    struct scores scores = {calloc((size_t)list.count, sizeof(float)), list.count};
    assert_non_null(scores.logprobs);
    memcpy(scores.logprobs, job->results[0].prompt_logprobs, (size_t)list.count * sizeof(float));
    engine_release(engine, job);
    token_list_free(&list);
    engine_close(engine);
    return scores;
}

static void test_drift(void **state)
{
    (void)state;
    struct scores exact = score(false), rounded = score(true);
    double largest = 0, sum = 0, shift = 0;
    assert_int_equal(exact.count, rounded.count);
    assert_true(exact.count > 150);
    for (int32_t i = 1; i < exact.count; i++) {
        const double change = (double)rounded.logprobs[i] - (double)exact.logprobs[i];
        largest = fmax(largest, fabs(change));
        sum += fabs(change);
        shift += change;
    }
    const double average = sum / (exact.count - 1);
    shift = fabs(shift) / (exact.count - 1);
    print_message("%d tokens: largest %.4f, average %.4f, of the average %.5f\n", exact.count,
        largest, average, shift);
    assert_true(largest > 0);
    assert_true(largest <= LARGEST);
    assert_true(average <= AVERAGE);
    assert_true(shift <= SHIFT);
    free(exact.logprobs);
    free(rounded.logprobs);
}

int main(void)
{
    if (!golden_model(model_path)) {
        golden_skip("the default model (deploy/fetch_model.sh, MAGNETD_MODEL)");
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_drift)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
