/*
 * Goal: when the engine is full, requests wait in their slots for those that run, are answered in
 * their order with the same bits, and one that can never fit is an error of its own.
 * Method: the memory for results is what fills. One request tells how much it takes; then the
 * engine has room for two of them, or for none. Only the asking thread moves a slot, so what runs
 * after a number of sends does not depend on how fast the engine is.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "api/json_in.h"
#include "batch/ask.h"

enum { SLOTS = 8, DIM_MAX = 4096 };

static const char body[] = "{\"inputs\":\"the fox ran\"}";
static const char *model_path; /* tests/golden/fixtures/tiny_llama/tied.gguf */

/* Of one request alone. */
static size_t result_bytes;
static float expected[DIM_MAX];
static int32_t dim;

static void open_ask(uint64_t results_bytes, struct ask *ask)
{
    const struct engine_config config = {
        .model_path = model_path, .threads = 1, .results_bytes = results_bytes};
    struct err_info info;
    assert_int_equal(ask_open(&config, SLOTS, ask, &info), ERR_OK);
}

static void send_bodies(struct ask *ask, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        ask_send(ask, &endpoint_embed, body, strlen(body))->from = i;
    }
}

static int setup(void **state)
{
    struct ask ask;
    json_in_init();
    open_ask(0, &ask);
    send_bodies(&ask, 1);
    const struct ask_slot *slot = ask_wait(&ask);
    assert_int_equal(slot->err, ERR_OK);
    result_bytes = slot->job->results_bytes;
    dim = slot->job->results[0].vector_dim;
    assert_in_range(dim, 1, DIM_MAX);
    memcpy(expected, slot->job->results[0].vector, (size_t)dim * sizeof(float));
    ask_release(&ask);
    ask_close(&ask);
    return 0;
}

static void test_others_wait_their_turn(void **state)
{
    struct ask ask;
    open_ask(2 * result_bytes, &ask);
    send_bodies(&ask, SLOTS);
    assert_int_equal(ask.running, 2);
    assert_false(ask_room(&ask));
    for (size_t i = 0; i < SLOTS; i++) {
        const struct ask_slot *slot = ask_wait(&ask);
        assert_int_equal(slot->err, ERR_OK);
        assert_int_equal(slot->from, i);
        assert_int_equal(slot->job->results[0].vector_dim, dim);
        assert_memory_equal(slot->job->results[0].vector, expected, (size_t)dim * sizeof(float));
        assert_in_range(ask.running, 0, 2);
        ask_release(&ask);
    }
    assert_int_equal(ask.count, 0);
    assert_int_equal(ask.bytes, 0);
    ask_close(&ask);
}

static void test_one_that_never_fits(void **state)
{
    struct ask ask;
    open_ask(result_bytes - 1, &ask);
    send_bodies(&ask, 3);
    for (size_t i = 0; i < 3; i++) {
        const struct ask_slot *slot = ask_wait(&ask);
        assert_int_equal(slot->err, ERR_BUSY);
        assert_string_equal(slot->info.text, "the memory for results is taken");
        assert_int_equal(slot->from, i);
        ask_release(&ask);
    }
    ask_close(&ask);
}

static void test_closed_while_some_wait(void **state)
{
    struct ask ask;
    open_ask(2 * result_bytes, &ask);
    send_bodies(&ask, SLOTS);
    ask_close(&ask);
    assert_int_equal(ask.count, 0);
    assert_int_equal(ask.running, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_others_wait_their_turn),
        cmocka_unit_test(test_one_that_never_fits),
        cmocka_unit_test(test_closed_while_some_wait),
    };
    if (argc != 2) {
        return 2;
    }
    model_path = argv[1];
    return cmocka_run_group_tests(tests, setup, NULL);
}
