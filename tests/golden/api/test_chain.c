/*
 * Goal: sequential gaps of mode fim, filled by a real engine in one job slot, are what one request
 * a gap gives when the client puts the fills in by hand.
 * Method: a tiny random llama (byte_llama.h); greedy.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "api/json_in.h"
#include "engine/base/mem.h"
#include "tests/golden/api/byte_llama.h"

static struct engine *engine;

static int setup(void **state)
{
    (void)state;
    engine = byte_llama_open(true);
    return engine != NULL ? 0 : 1;
}

static int teardown(void **state)
{
    (void)state;
    engine_close(engine);
    return 0;
}

static json_t *answer(const char *body, int32_t *out_jobs)
{
    return byte_llama_answer(engine, body, out_jobs);
}

static const char *fill_of(const json_t *reply, size_t gap)
{
    return json_string_value(
        json_object_get(json_array_get(json_object_get(reply, "gaps"), gap), "text"));
}

static json_int_t usage_of(const json_t *reply, const char *name)
{
    return json_integer_value(json_object_get(json_object_get(reply, "usage"), name));
}

/* The fills are arbitrary bytes: jansson writes them into the next body. */
static char *body_of(const char *text)
{
    json_t *body = json_pack(
        "{s:s,s:s,s:f,s:i}", "text", text, "mode", "fim", "temperature", 0.0, "max_tokens", 5);
    char *dumped = json_dumps(body, 0);
    assert_non_null(dumped);
    json_decref(body);
    return dumped;
}

static void test_equals_requests_by_hand(void **state)
{
    static const char *const texts[] = {"def add(a, ", "):\n    return ", "\n\nprint(", ")\n"};
    int32_t jobs;
    (void)state;
    char *body = body_of("def add(a, [gap]):\n    return [gap]\n\nprint([gap])\n");
    json_t *chained = answer(body, &jobs);
    mem_free(body);
    assert_int_equal(jobs, 3);
    char filled[512];
    json_int_t prompt = 0, generated = 0;
    (void)snprintf(filled, sizeof(filled), "%s", texts[0]);
    for (size_t gap = 0; gap < 3; gap++) {
        char text[600];
        (void)snprintf(text, sizeof(text), "%s[gap]%s", filled, texts[gap + 1]);
        body = body_of(text);
        json_t *alone = answer(body, &jobs);
        mem_free(body);
        assert_int_equal(jobs, 1);
        assert_string_equal(fill_of(alone, 0), fill_of(chained, gap));
        prompt += usage_of(alone, "prompt_tokens");
        generated += usage_of(alone, "completion_tokens");
        size_t at = strlen(filled);
        (void)snprintf(filled + at, sizeof(filled) - at, "%s%s", fill_of(alone, 0), texts[gap + 1]);
        json_decref(alone);
    }
    assert_string_equal(json_string_value(json_object_get(chained, "text")), filled);
    assert_int_equal(usage_of(chained, "prompt_tokens"), prompt);
    assert_int_equal(usage_of(chained, "completion_tokens"), generated);
    assert_true(generated > 0);
    json_decref(chained);
}

/* The one slot is free again, and nothing of the jobs before is left. */
static void test_slot_is_reused(void **state)
{
    struct job *job = NULL;
    struct engine_stats stats;
    (void)state;
    engine_stats(engine, &stats);
    assert_int_equal(stats.in_flight[KIND_INFILL], 0);
    assert_int_equal(stats.completed[KIND_INFILL], stats.received[KIND_INFILL]);
    assert_int_equal(stats.pages_used, 0);
    assert_int_equal(engine_acquire(engine, &job), ERR_OK);
    assert_int_equal(job->results_bytes, 0);
    engine_release(engine, job);
    assert_int_equal(mem_bytes(MEM_REQUESTS), 0);
}

int main(void)
{
    json_in_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equals_requests_by_hand),
        cmocka_unit_test(test_slot_is_reused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
