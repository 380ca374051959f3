/*
 * Goal: 200 requests of all four kinds answer with the same bytes alone, in a full batch, on one
 * thread and on two, with a cold and with a warm cache, and when pages run so short that sequences
 * are preempted and computed again.
 * Method: bodies as clients send them, through decode, plan, engine, more and encode. First one at
 * a time on one thread of an engine that reuses nothing; then all of them are queued behind a start
 * gate of other engines. Replies are compared as text, without the times that were measured and
 * the tokens that were found. Counters must show that what the test is about happened.
 *
 * usage: test_requests tiny|default: a random model over bytes, or the default model. Exits 77
 * where that is absent or a sanitizer makes it too slow.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "api/endpoint.h"
#include "api/json_in.h"
#include "engine/base/attr.h"
#include "engine/base/mem.h"
#include "engine/cache/pages.h"
#include "tests/golden/api/byte_llama.h"
#include "tests/golden/golden_data.h"
#include "tests/scale.h"

enum {
    REQUESTS = 200,
    BODY_BYTES = 512,
    CONTEXT = 512,
    PAGES = 384, /* what all requests leave behind, and more */
    REPLY_BYTES = 1 << 20,
};

struct request {
    const struct endpoint *endpoint;
    char body[BODY_BYTES];
    char *alone; /* the reply, as it is compared */
};

/* A request under way. */
struct run {
    struct request *request;
    struct arena arena;
    struct call call;
    struct job *job;
};

static char model_path[GOLDEN_PATH_BYTES];
static struct request requests[REQUESTS];
static struct run runs[REQUESTS];
static uint64_t page_bytes;
static int32_t page_slots;
static bool long_templates; /* one of several hundred bytes fits the context */

/* ---- what is asked ------------------------------------------------------------------------- */

static const char *const things[] = {
    "lamp", "river", "old boat", "engine", "letter", "cat", "town"};
static const char *const deeds[] = {"waits by the door", "is red", "turns", "was late again"};

#define ONE_OF(list, i) (list)[(size_t)(i) % ARRAY_COUNT(list)]

static void make(struct request *request, const struct endpoint *endpoint, const char *format, ...)
    PRINTF_LIKE(3, 4);

static void make(struct request *request, const struct endpoint *endpoint, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(request->body, BODY_BYTES, format, arguments);
    va_end(arguments);
    assert_in_range(length, 2, BODY_BYTES - 1);
    request->endpoint = endpoint;
}

static void make_embed(struct request *request, int i)
{
    static const char *const options[] = {"\"attention\":\"bidirectional\"",
        "\"attention\":\"causal\",\"pooling\":\"last\"", "\"attention\":\"bidirectional\"",
        "\"attention\":\"causal\",\"pooling\":\"mean\""};
    const char *a = ONE_OF(things, i), *b = ONE_OF(deeds, i / 2);
    if (i % 5 == 4) {
        make(request, &endpoint_embed_all, "{\"inputs\":\"the %s %s\"}", a, b);
    } else {
        make(request, &endpoint_embed,
            "{\"inputs\":[\"the %s %s\",\"%d\"],\"encoding_format\":\"base64\",%s}", a, b, i,
            ONE_OF(options, i));
    }
}

static void make_infill(struct request *request, int i, enum infill_mode mode)
{
    static const char *const words[] = {
#define X(name, word) word,
        INFILL_MODE_MAP(X)
#undef X
    };
    const char *a = ONE_OF(things, i), *b = ONE_OF(things, i / 3);
    if (mode == INFILL_RERANK) {
        make(request, &endpoint_infill,
            "{\"text\":\"The %s [gap] so.\",\"mode\":\"rerank\",\"candidates\":%d,\"max_tokens\":2,"
            "\"seed\":%d}",
            a, 2 + i % 2, i);
    } else {
        make(request, &endpoint_infill,
            "{\"text\":\"The %s [gap] and the %s %s[gap]\",\"mode\":\"%s\",\"max_tokens\":%d,"
            "\"temperature\":%s,\"seed\":%d,\"spans\":\"%s\",\"until\":\"%s\"}",
            a, b, ONE_OF(deeds, i), words[mode], 2 + i % 3, i % 2 == 0 ? "0" : "1.1", i,
            i % 4 < 2 ? "sequential" : "independent", i % 3 == 0 ? "length" : "model");
    }
}

static void make_generate(struct request *request, int i)
{
    static const char *const options[] = {"", ",\"temperature\":1.3,\"top_p\":0.9,\"seed\":5",
        ",\"top_n_tokens\":3", ",\"temperature\":0.8,\"repetition_penalty\":1.2,\"seed\":77"};
    make(request, &endpoint_generate,
        "{\"inputs\":\"Once the %s %s, and then the %s\",\"parameters\":{\"max_new_tokens\":%d,"
        "\"details\":true,\"decoder_input_details\":%s%s}}",
        ONE_OF(things, i / 4), ONE_OF(deeds, i / 2), ONE_OF(things, i), 3 + i % 7,
        i % 6 == 0 ? "true" : "false", ONE_OF(options, i));
}

static void make_classify(struct request *request, int i)
{
    const char *a = ONE_OF(things, i), *b = ONE_OF(deeds, i), *c = ONE_OF(things, i / 2);
    if (i % 2 == 0) {
        make(request, &endpoint_classify,
            "{\"inputs\":[\"the %s %s\",\"a %s\"],\"labels\":[\"good\",\"bad\"]}", a, b, c);
    } else {
        make(request, &endpoint_classify,
            "{\"input\":\"The %s %s. A %s.\",\"questions\":[{\"type\":\"predicate\","
            "\"instructions\":\"Late?\"},{\"type\":\"predicate\",\"instructions\":\"Red?\"}]}",
            a, b, c);
    }
}

/* The modes that this model has, and hybrid, which every network can run. Rerank scores sixteen
 * texts a gap: it has every tenth request, the others every fourth. */
static void make_requests(const struct model_info *model)
{
    for (int i = 0; i < REQUESTS; i++) {
        int k = i / 4;
        enum infill_mode mode = model->infill_modes[k % model->infill_mode_count];
        if (i % 20 == 3) {
            make_infill(&requests[i], i, INFILL_RERANK);
        } else if (i % 4 == 0) {
            make_embed(&requests[i], k);
        } else if (i % 4 == 1) {
            make_infill(&requests[i], k, mode == INFILL_RERANK ? INFILL_HYBRID : mode);
        } else if (i % 4 == 2) {
            make_generate(&requests[i], k);
        } else {
            make_classify(&requests[i], k);
        }
    }
}

/* ---- one request --------------------------------------------------------------------------- */

static const struct api_limits limits = {
    .items_max = 64, .embed_tokens_max = 4096, .timeout_ms_max = 600000};

static void NORETURN failed(const struct request *request, const struct err_info *info)
{
    fail_msg("%s: %s: %s", request->body, info->where, info->text);
    abort();
}

static void submit(struct engine *engine, struct run *run)
{
    struct err_info info = {0};
    run->job->plan = run->call.plan;
    if (engine_submit(engine, run->job, &info) != ERR_OK) {
        failed(run->request, &info);
    }
}

static void begin(struct engine *engine, struct run *run, struct request *request)
{
    struct err_info info = {0};
    *run = (struct run){.request = request};
    arena_init(&run->arena, MEM_REQUESTS, 4096, 1 << 24);
    run->call = (struct call){.arena = &run->arena,
        .model = engine_model(engine),
        .tokenizer = engine_tokenizer(engine),
        .limits = &limits,
        .served_name = "m"};
    const struct endpoint *endpoint = request->endpoint;
    if (endpoint->decode(&run->call, request->body, strlen(request->body), &info) != ERR_OK ||
        endpoint->plan(&run->call, &info) != ERR_OK) {
        failed(request, &info);
    }
    assert_int_equal(engine_acquire(engine, &run->job), ERR_OK);
    submit(engine, run);
}

/* Takes out what follows `key`, an object or a number, wherever it is. */
static void cut(char *text, const char *key)
{
    for (char *at = text; (at = strstr(at, key)) != NULL;) {
        at += strlen(key);
        char *end = at + strcspn(at, *at == '{' ? "}" : ",}");
        assert_int_not_equal(*end, '\0');
        memmove(at, end, strlen(end) + 1);
    }
}

/* The finished call's reply, as it is compared. */
static char *reply_of(struct run *run)
{
    struct err_info info = {0};
    struct buf reply;
    buf_init(&reply, MEM_REQUESTS, REPLY_BYTES);
    if (run->request->endpoint->encode(&run->call, run->job, &reply, &info) != ERR_OK) {
        failed(run->request, &info);
    }
    char *text = strdup(reply.bytes);
    assert_non_null(text);
    assert_int_equal(strlen(text), reply.count);
    buf_free(&reply);
    cut(text, "\"timings\":");
    cut(text, "\"cached_tokens\":");
    cut(text, "\"created\":");
    return text;
}

/* Waits for the run's job. NULL: another followed it; else the reply, and the run is over. */
static char *next(struct engine *engine, struct run *run)
{
    struct err_info info = {0};
    bool more = false;
    engine_wait(engine, run->job);
    if (run->call.asks_more &&
        run->request->endpoint->more(&run->call, run->job, &more, &info) != ERR_OK) {
        failed(run->request, &info);
    }
    if (more) {
        engine_renew(engine, run->job);
        submit(engine, run);
        return NULL;
    }
    char *reply = reply_of(run);
    engine_release(engine, run->job);
    arena_drop(&run->arena);
    run->job = NULL;
    return reply;
}

static char *answer(struct engine *engine, struct request *request)
{
    struct run run;
    char *reply = NULL;
    begin(engine, &run, request);
    while (reply == NULL) {
        reply = next(engine, &run);
    }
    return reply;
}

static void check(const struct request *request, char *reply)
{
    if (strcmp(request->alone, reply) != 0) {
        fail_msg("%s\nalone: %s\nhere:  %s", request->body, request->alone, reply);
    }
    free(reply);
}

/* ---- many ---------------------------------------------------------------------------------- */

static struct engine *open_engine(struct engine_config config)
{
    struct engine *engine;
    struct err_info info = {0};
    config.model_path = model_path;
    config.context = CONTEXT;
    config.jobs = REQUESTS;
    if (engine_open(&config, &engine, &info) != ERR_OK) {
        fail_msg("%s: %s", info.where, info.text);
    }
    return engine;
}

static uint64_t cached_tokens(struct engine *engine)
{
    struct engine_stats stats;
    uint64_t count = 0;
    engine_stats(engine, &stats);
    for (int32_t k = 0; k < KIND_COUNT; k++) {
        count += stats.cached_tokens[k];
    }
    return count;
}

/* All requests at once; then the engine must be at rest. */
static void all_at_once(struct engine *engine)
{
    for (int i = 0; i < REQUESTS; i++) {
        begin(engine, &runs[i], &requests[i]);
    }
    engine_resume(engine);
    for (int left = REQUESTS; left > 0;) {
        for (int i = 0; i < REQUESTS; i++) {
            char *reply = runs[i].job != NULL ? next(engine, &runs[i]) : NULL;
            if (reply != NULL) {
                check(&requests[i], reply);
                left--;
            }
        }
    }
    struct engine_stats stats;
    engine_stats(engine, &stats);
    for (int32_t k = 0; k < KIND_COUNT; k++) {
        assert_true(stats.completed[k] >= REQUESTS / 5);
        assert_int_equal(stats.completed[k], stats.received[k]);
        assert_int_equal(stats.in_flight[k], 0);
    }
    assert_true(stats.step_kinds[2] + stats.step_kinds[3] + stats.step_kinds[4] > 0);
    assert_int_equal(stats.pages_used, 0);
    assert_int_equal(stats.sequences_running, 0);
}

static int setup(void **state)
{
    (void)state;
    struct engine *engine = open_engine(
        (struct engine_config){.threads = 1, .reuse_percent = -1, .reserve_tokens = CONTEXT});
    const struct model_info *about = engine_model(engine);
    page_slots = engine_memory(engine)->page_slots;
    page_bytes =
        pages_page_bytes(KV_F16, about->layers, about->heads_kv, about->head_dim, page_slots);
    make_requests(about);
    for (int i = 0; i < REQUESTS; i++) {
        requests[i].alone = answer(engine, &requests[i]);
    }
    assert_int_equal(cached_tokens(engine), 0);
    engine_close(engine);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (int i = 0; i < REQUESTS; i++) {
        free(requests[i].alone);
    }
    assert_int_equal(mem_bytes(MEM_REQUESTS), 0);
    return 0;
}

static void test_full_batch_on_one_thread(void **state)
{
    (void)state;
    struct engine *engine = open_engine((struct engine_config){.threads = 1, .start_paused = true});
    all_at_once(engine);
    engine_close(engine);
}

/* The cache is cold, then fills; the full batch finds what it may. */
static void test_alone_and_full_batch_on_two_threads(void **state)
{
    (void)state;
    struct engine *engine =
        open_engine((struct engine_config){.threads = 2, .cache_bytes = page_bytes * PAGES});
    struct engine_stats stats;
    for (int i = 0; i < REQUESTS; i++) {
        check(&requests[i], answer(engine, &requests[i]));
    }
    uint64_t cold = cached_tokens(engine);
    all_at_once(engine);
    engine_stats(engine, &stats);
    assert_true(stats.reuse_hits[REUSE_PREFIX] > 0 && stats.reuse_hits[REUSE_CONTEXT] > 0);
    assert_true(cached_tokens(engine) - cold > cold);
    engine_close(engine);
}

/* Leading tokens that two single prompts have in common. */
static int32_t common_tokens(const struct run *a, const struct run *b)
{
    const struct plan_item *x = &a->call.plan.items[0], *y = &b->call.plan.items[0];
    int32_t count = 0;
    assert_int_equal(a->call.plan.item_count, 1);
    assert_int_equal(b->call.plan.item_count, 1);
    while (count < MIN(x->token_count, y->token_count) && x->tokens[count] == y->tokens[count]) {
        count++;
    }
    return count;
}

/* What the reply's usage says was found. */
static int32_t cached_in(struct run *run)
{
    static const char key[] = "\"cached_tokens\":";
    struct err_info info = {0};
    struct buf reply;
    buf_init(&reply, MEM_REQUESTS, REPLY_BYTES);
    assert_int_equal(run->request->endpoint->encode(&run->call, run->job, &reply, &info), ERR_OK);
    const char *usage = strstr(reply.bytes, key);
    assert_non_null(usage);
    int32_t count = (int32_t)strtol(usage + strlen(key), NULL, 10);
    buf_free(&reply);
    return count;
}

/* Two texts in one template: the second takes exactly what the prompts have in common, to the
 * token, and answers with the bits of an engine that keeps nothing. */
static void check_common_head(const char *first, const char *second)
{
    struct engine *cold = open_engine((struct engine_config){.threads = 1, .reuse_percent = -1});
    struct engine *warm = open_engine((struct engine_config){.threads = 2});
    struct request texts[2] = {{.endpoint = &endpoint_classify}, {.endpoint = &endpoint_classify}};
    struct run pair[2];
    (void)snprintf(texts[0].body, BODY_BYTES, "%s", first);
    (void)snprintf(texts[1].body, BODY_BYTES, "%s", second);
    texts[1].alone = answer(cold, &texts[1]);
    for (int i = 0; i < 2; i++) {
        begin(warm, &pair[i], &texts[i]);
        engine_wait(warm, pair[i].job);
    }
    int32_t common = common_tokens(&pair[0], &pair[1]);
    assert_true(common > 4 && common < pair[1].call.plan.items[0].token_count - 1);
    assert_int_equal(cached_in(&pair[0]), 0);
    assert_int_equal(cached_in(&pair[1]), common);
    free(next(warm, &pair[0]));
    check(&texts[1], next(warm, &pair[1]));
    free(texts[1].alone);
    engine_close(warm);
    engine_close(cold);
}

#define LATE(input)                                                                                \
    "{\"input\":\"" input "\",\"questions\":[{\"type\":\"predicate\",\"instructions\":\"Late?\"}]" \
    "}"

static void test_second_classify_takes_the_common_head(void **state)
{
    (void)state;
    check_common_head(
        LATE("The river by the old boat is red."), LATE("The river by the old boat turns."));
    if (long_templates) {
        check_common_head("{\"prompt\":\"How do I boil an egg?\",\"response\":\"In water.\"}",
            "{\"prompt\":\"How do I paint a boat?\",\"response\":\"With care.\"}");
    }
}

/* Pages for one context and one page, and sequences that start with hardly more than a prompt. */
static void test_preempted(void **state)
{
    (void)state;
    struct engine *engine = open_engine((struct engine_config){.threads = 2,
        .cache_bytes = page_bytes * (uint64_t)(CONTEXT / page_slots + 1),
        .reserve_tokens = 1,
        .start_paused = true});
    struct engine_stats stats;
    all_at_once(engine);
    engine_stats(engine, &stats);
    assert_true(stats.preemptions > 0);
    engine_close(engine);
}

int main(int argc, char **argv)
{
    bool tiny = argc == 2 && strcmp(argv[1], "tiny") == 0;
    json_in_init();
    long_templates = !tiny;
    if (tiny) {
        byte_llama_save(true, model_path, sizeof model_path);
    } else if (test_scale() > 1) {
        golden_skip("the time to run the default model under a sanitizer");
    } else if (!golden_model(model_path)) {
        golden_skip("the default model (deploy/fetch_model.sh, MAGNETD_MODEL)");
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full_batch_on_one_thread),
        cmocka_unit_test(test_alone_and_full_batch_on_two_threads),
        cmocka_unit_test(test_second_classify_takes_the_common_head),
        cmocka_unit_test(test_preempted),
    };
    int failures = cmocka_run_group_tests(tests, setup, teardown);
    if (tiny) {
        (void)unlink(model_path);
    }
    return failures;
}
