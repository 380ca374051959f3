/*
 * Goal: when the engine is full, requests wait in their slots for those that run, are answered in
 * their order with the same bits, and one that can never fit is an error of its own. Answers that
 * wait for their turn keep no room from the oldest request.
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

enum { SLOTS = 8, DIM_MAX = 4096, REPLY_BYTES = 4096 };

static const char body[] = "{\"inputs\":\"the fox ran\"}";
static const char chain[] = "{\"text\":\"the fox [gap] and ran\",\"mode\":\"rerank\"}";
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

/* The oldest request's reply up to what depends on others, and how it ended. */
static enum err take_fill(struct ask *ask, char *out_reply, size_t bytes)
{
    struct ask_slot *slot = ask_wait(ask);
    struct err_info info;
    enum err err = slot->err;
    if (err == ERR_OK) {
        struct buf text;
        buf_init(&text, MEM_REQUESTS, bytes - 1);
        assert_int_equal(slot->endpoint->encode(&slot->call, slot->job, &text, &info), ERR_OK);
        const char *end = strstr(text.bytes, "\"usage\"");
        assert_non_null(end);
        memcpy(out_reply, text.bytes, (size_t)(end - text.bytes));
        out_reply[end - text.bytes] = '\0';
        buf_free(&text);
    }
    ask_release(ask);
    return err;
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

static enum err fill_alone(uint64_t results_bytes, char *out_reply, size_t bytes)
{
    struct ask ask;
    open_ask(results_bytes, &ask);
    (void)ask_send(&ask, &endpoint_infill, chain, strlen(chain));
    enum err err = take_fill(&ask, out_reply, bytes);
    ask_close(&ask);
    return err;
}

/* The second job of a chain is larger than the first. While it was planned, younger requests filled
 * the memory, and are done: they cannot be taken before it. */
static void test_oldest_grows(void **state)
{
    struct ask ask;
    uint64_t low = 0, high = 1 << 22;
    char alone[REPLY_BYTES], reply[REPLY_BYTES];
    assert_int_equal(fill_alone(high, alone, sizeof(alone)), ERR_OK);
    while (high - low > 1) { /* what its largest job takes */
        uint64_t middle = low + (high - low) / 2;
        if (fill_alone(middle, reply, sizeof(reply)) == ERR_OK) {
            high = middle;
        } else {
            low = middle;
        }
    }
    open_ask(high, &ask);
    (void)ask_send(&ask, &endpoint_infill, chain, strlen(chain));
    assert_int_equal(ask.running, 1);
    send_bodies(&ask, SLOTS - 2);
    assert_in_range(ask.running, 2, SLOTS - 1); /* as many as the first job leaves room for */
    (void)ask_send(&ask, &endpoint_infill, chain, strlen(chain));
    for (int i = 0; i < SLOTS; i++) {
        if (i == 0 || i == SLOTS - 1) {
            assert_int_equal(take_fill(&ask, reply, sizeof(reply)), ERR_OK);
            assert_string_equal(reply, alone);
            continue;
        }
        const struct ask_slot *slot = ask_wait(&ask);
        assert_int_equal(slot->err, ERR_OK);
        assert_memory_equal(slot->job->results[0].vector, expected, (size_t)dim * sizeof(float));
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
        cmocka_unit_test(test_oldest_grows),
        cmocka_unit_test(test_closed_while_some_wait),
    };
    if (argc != 2) {
        return 2;
    }
    model_path = argv[1];
    return cmocka_run_group_tests(tests, setup, NULL);
}
