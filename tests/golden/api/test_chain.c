/*
 * Goal: sequential gaps of mode fim, filled by a real engine in one job slot, are what one request
 * a gap gives when the client puts the fills in by hand.
 * Method: a tiny random llama whose vocabulary is bytes and fill-in-the-middle tokens, in a file of
 * its own; greedy. The chain renews its job between gaps as the server does.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "api/endpoint.h"
#include "api/json_in.h"
#include "engine/base/mem.h"
#include "engine/engine.h"
#include "tests/unit/model/tiny_llama.h"

enum { WORDS = 3, BYTES = 256, MARKS = 3, COUNT = WORDS + BYTES + MARKS };

static struct engine *engine;

static void write_vocabulary(struct gguf_writer *w)
{
    static char byte_pieces[BYTES][8];
    const char *pieces[COUNT] = {"<unk>", "<s>", "</s>"};
    static const char *const marks[MARKS] = {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"};
    int32_t types[COUNT] = {2, 3, 3};
    float scores[COUNT] = {0};
    for (int i = 0; i < BYTES; i++) {
        (void)snprintf(byte_pieces[i], sizeof(byte_pieces[i]), "<0x%02X>", (unsigned)i);
        pieces[WORDS + i] = byte_pieces[i];
        types[WORDS + i] = 6;
    }
    for (int i = 0; i < MARKS; i++) {
        pieces[WORDS + BYTES + i] = marks[i];
        types[WORDS + BYTES + i] = 3;
    }
    gguf_writer_string(w, "tokenizer.ggml.model", "llama");
    gguf_writer_strings(w, "tokenizer.ggml.tokens", pieces, COUNT);
    gguf_writer_array(w, "tokenizer.ggml.scores", GGUF_F32, scores, COUNT, sizeof(scores));
    gguf_writer_array(w, "tokenizer.ggml.token_type", GGUF_I32, types, COUNT, sizeof(types));
    gguf_writer_u32(w, "tokenizer.ggml.bos_token_id", 1);
    gguf_writer_u32(w, "tokenizer.ggml.eos_token_id", 2);
    gguf_writer_bool(w, "tokenizer.ggml.add_bos_token", true);
}

static int setup(void **state)
{
    char path[128];
    struct gguf_writer writer;
    struct err_info info = {0};
    struct tiny_options options = tiny_default();
    (void)state;
    options.vocab = COUNT;
    tiny_write(&writer, &options);
    write_vocabulary(&writer);
    gguf_writer_save(&writer, path, sizeof(path));
    gguf_writer_free(&writer);
    const struct engine_config config = {
        .model_path = path, .threads = 1, .jobs = 1, .kv_f32 = true};
    enum err err = engine_open(&config, &engine, &info);
    (void)unlink(path);
    if (err != ERR_OK) {
        printf("%s: %s\n", info.where, info.text);
    }
    return err == ERR_OK ? 0 : 1;
}

static int teardown(void **state)
{
    (void)state;
    engine_close(engine);
    return 0;
}

/* The reply to a body: plan, engine, more, ..., encode. Counts the jobs. */
static json_t *answer(const char *body, int32_t *out_jobs)
{
    static const struct api_limits limits = {.items_max = 100, .timeout_ms_max = 60000};
    struct arena arena;
    struct err_info info = {0};
    struct job *job = NULL;
    struct buf reply;
    bool more = true;
    arena_init(&arena, MEM_REQUESTS, 4096, 1 << 24);
    buf_init(&reply, MEM_REQUESTS, 1 << 20);
    struct call call = {.arena = &arena,
        .model = engine_model(engine),
        .tokenizer = engine_tokenizer(engine),
        .limits = &limits};
    assert_int_equal(endpoint_infill.decode(&call, body, strlen(body), &info), ERR_OK);
    assert_int_equal(endpoint_infill.plan(&call, &info), ERR_OK);
    assert_int_equal(engine_acquire(engine, &job), ERR_OK);
    *out_jobs = 0;
    while (more) {
        job->plan = call.plan;
        assert_int_equal(engine_submit(engine, job, &info), ERR_OK);
        engine_wait(engine, job);
        ++*out_jobs;
        more = false;
        if (call.asks_more) {
            assert_int_equal(endpoint_infill.more(&call, job, &more, &info), ERR_OK);
        }
        if (more) {
            engine_renew(engine, job);
        }
    }
    assert_int_equal(endpoint_infill.encode(&call, job, &reply, &info), ERR_OK);
    engine_release(engine, job);
    json_t *value = json_loads(reply.bytes, 0, NULL);
    assert_non_null(value);
    buf_free(&reply);
    arena_drop(&arena);
    return value;
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
