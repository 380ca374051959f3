/*
 * Goal: none of the four tasks starves another. A short request is answered at once beside streams
 * and bulk; streams keep their pace beside bulk and beside long prompts; a cancelled job is gone
 * within a step, wherever it was.
 * Method: the real scheduler over the fake network, whose clock moves by what the rows of a pass
 * cost: 1 ms, or 100 us a row. Steps are counted, and timed by that clock.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "engine/sched/scheduler_private.h"
#include "tests/unit/sched/fake_host.h"

enum {
    STREAMS = 8,
    STREAM_TOKENS = 40,
    LONG = 4096, /* context, where prompts are long */
    BULK_ITEMS = 2000,
    BULK_TOKENS = 12,
};

/* A job and all that its plan points to. */
struct request {
    struct job *job;
    struct plan_step step;
    struct plan_item *items;
    int32_t *tokens;
};

static void make(struct fake_host *host, struct request *request, enum kind kind, int32_t tokens,
    int32_t items, bool block)
{
    *request = (struct request){.job = fake_job(host)};
    static uint32_t texts; /* no two are the same: nothing comes from the cache */
    request->tokens = calloc((size_t)tokens + (size_t)items, sizeof(int32_t));
    request->items = calloc((size_t)items, sizeof(struct plan_item));
    for (int32_t i = 0; i < tokens + items; i++) {
        request->tokens[i] = 20 + (int32_t)(texts++ * 2654435761U >> 16) % (FAKE_VOCAB - 20);
    }
    bool embeds = kind == KIND_EMBED;
    request->step = (struct plan_step){.kind = STEP_DECODE,
        .read_row = -1,
        .position = -1,
        .tokens_max = STREAM_TOKENS,
        .ban_end = true,
        .top_logprobs = -1};
    for (int32_t i = 0; i < items; i++) {
        request->items[i] = (struct plan_item){.tokens = request->tokens + i,
            .token_count = tokens,
            .context_count = block ? tokens : 0,
            .pooling = embeds ? POOLING_LAST : POOLING_NONE,
            .steps = embeds ? NULL : &request->step,
            .step_count = embeds ? 0 : 1,
            .sampling = {.top_p = 1, .typical_p = 1, .repetition_penalty = 1}};
    }
    request->job->plan = (struct plan){.kind = kind, .items = request->items, .item_count = items};
}

static void drop(struct request *request)
{
    fake_job_free(request->job);
    free(request->items);
    free(request->tokens);
}

static void submit(struct fake_host *host, struct request *request, enum kind kind, int32_t tokens,
    int32_t items, bool block)
{
    make(host, request, kind, tokens, items, block);
    fake_job_submit(host, request->job);
}

static void open_host(struct fake_host *host, int32_t pages)
{
    fake_host_open_long(host, 64, pages, 512, LONG);
    host->row_us = 100;
}

/* Streams that never end: whoever has finished asks again. */
struct streams {
    struct request requests[STREAMS];
    int32_t tokens; /* of those that have finished */
};

/* Of different lengths, so that never all of them end at once: a step that carries no decode has a
 * budget of its own. */
static void ask(struct fake_host *host, struct request *request, int32_t number)
{
    make(host, request, KIND_GENERATE, 4, 1, false);
    request->step.tokens_max = STREAM_TOKENS + 3 * number;
    fake_job_submit(host, request->job);
}

static void streams_open(struct fake_host *host, struct streams *streams)
{
    streams->tokens = 0;
    for (int32_t i = 0; i < STREAMS; i++) {
        ask(host, &streams->requests[i], i);
    }
}

static int32_t streams_tokens(const struct streams *streams)
{
    int32_t tokens = streams->tokens;
    for (int32_t i = 0; i < STREAMS; i++) {
        tokens += streams->requests[i].job->results[0].generated_tokens;
    }
    return tokens;
}

static int64_t step(struct fake_host *host, struct streams *streams)
{
    int64_t from = host->now_us;
    assert_true(scheduler_step(host->scheduler));
    for (int32_t i = 0; i < STREAMS; i++) {
        struct request *request = &streams->requests[i];
        if (atomic_load(&request->job->done)) {
            assert_int_equal(request->job->err, ERR_OK);
            streams->tokens += request->job->results[0].generated_tokens;
            drop(request);
            ask(host, request, i);
        }
    }
    return host->now_us - from;
}

static void streams_close(struct fake_host *host, struct streams *streams)
{
    for (int32_t i = 0; i < STREAMS; i++) {
        job_cancel(streams->requests[i].job);
    }
    fake_host_run(host, 10);
    for (int32_t i = 0; i < STREAMS; i++) {
        drop(&streams->requests[i]);
    }
}

/* Starvation 2a: four tokens to embed are answered within 3 steps, in every mode, at any moment. */
static void test_embedding_beside_streams(void **state)
{
    (void)state;
    struct fake_host host;
    struct streams streams;
    open_host(&host, 2000);
    streams_open(&host, &streams);
    for (int32_t round = 0; round < 200; round++) {
        struct request embed;
        int32_t steps = 0;
        for (int32_t i = 0; i < round % 7; i++) {
            (void)step(&host, &streams);
        }
        submit(&host, &embed, KIND_EMBED, 4, 1, round % 2 == 0);
        while (!atomic_load(&embed.job->done)) {
            (void)step(&host, &streams);
            assert_in_range(++steps, 1, 3);
        }
        drop(&embed);
    }
    streams_close(&host, &streams);
    fake_host_close(&host);
}

/* The longest step while `beside` runs, by the clock, and how many there were. */
static void pace(struct fake_host *host, struct streams *streams, const struct job *beside,
    int64_t *out_longest_us, int32_t *out_steps)
{
    int64_t longest = 0;
    int32_t steps = 0, tokens = streams_tokens(streams);
    while (!atomic_load(&beside->done)) {
        longest = MAX(longest, step(host, streams));
        steps++;
        assert_in_range(steps, 1, 20000);
    }
    /* A stream that ends and asks again needs a step for its prompt, at most. */
    assert_true(streams_tokens(streams) - tokens >= steps * STREAMS * 9 / 10);
    *out_longest_us = longest;
    *out_steps = steps;
}

/* Starvation 2b: beside 10,000 texts, beside a long prompt and beside a long block, no step takes
 * more than twice what the streams' rows take alone, and what is beside them goes on. */
static void test_streams_keep_their_pace(void **state)
{
    (void)state;
    static const struct {
        int32_t tokens, items, jobs;
        bool block;
    } cases[] = {
        {BULK_TOKENS, BULK_ITEMS, 5, false},
        {BULK_TOKENS, 500, 1, true},
        {4000, 1, 1, false},
        {1200, 1, 1, true},
    };
    for (size_t c = 0; c < ARRAY_COUNT(cases); c++) {
        struct fake_host host;
        struct streams streams;
        struct request beside[5];
        open_host(&host, 2000);
        streams_open(&host, &streams);
        int64_t alone_us = 0, longest_us;
        for (int32_t i = 0; i < 60; i++) {
            int64_t us = step(&host, &streams);
            alone_us = i >= 5 ? MAX(alone_us, us) : 0;
        }
        for (int32_t i = 0; i < cases[c].jobs; i++) {
            submit(&host, &beside[i], KIND_EMBED, cases[c].tokens, cases[c].items, cases[c].block);
        }
        int32_t steps, rows = cases[c].tokens * cases[c].items * cases[c].jobs;
        pace(&host, &streams, beside[cases[c].jobs - 1].job, &longest_us, &steps);
        assert_true(longest_us <= 2 * alone_us + 100);
        assert_true(rows / steps >= 6); /* of about ten that fit */
        for (int32_t i = 0; i < cases[c].jobs; i++) {
            while (!atomic_load(&beside[i].job->done)) {
                (void)step(&host, &streams);
            }
            assert_int_equal(beside[i].job->err, ERR_OK);
            drop(&beside[i]);
        }
        streams_close(&host, &streams);
        fake_host_close(&host);
    }
}

/* A block of a whole context is on its way in slices; a short one does not wait for it. */
static void test_short_block_passes_long_ones(void **state)
{
    (void)state;
    struct fake_host host;
    struct streams streams;
    struct request longs[3], other;
    open_host(&host, 2000);
    streams_open(&host, &streams);
    for (int32_t i = 0; i < 3; i++) {
        submit(&host, &longs[i], KIND_EMBED, 1000, 1, true);
    }
    for (int32_t i = 0; i < 20; i++) {
        (void)step(&host, &streams);
    }
    submit(&host, &other, KIND_INFILL, 40, 1, true);
    int32_t steps = 0;
    while (other.job->times.prompt_done == 0) {
        (void)step(&host, &streams);
        assert_in_range(++steps, 1, 12); /* 40 rows, about ten a step */
    }
    assert_false(atomic_load(&longs[0].job->done));
    for (int32_t i = 0; i < 3; i++) {
        int32_t done_steps = 0;
        while (!atomic_load(&longs[i].job->done)) {
            (void)step(&host, &streams);
            assert_in_range(++done_steps, 0, 1000);
        }
        drop(&longs[i]);
    }
    assert_true(atomic_load(&other.job->done));
    drop(&other);
    streams_close(&host, &streams);
    fake_host_close(&host);
}

/* R22: a hundred requests of one client are there before one of another comes. */
static void test_one_client_does_not_crowd_out_another(void **state)
{
    (void)state;
    struct fake_host host;
    struct request many[FAKE_JOBS - 1], one;
    fake_host_open_long(&host, 4, 2000, 64, LONG);
    host.row_us = 100;
    for (int32_t i = 0; i < FAKE_JOBS - 1; i++) {
        make(&host, &many[i], KIND_EMBED, 60, 1, false);
        many[i].job->plan.client = 1;
        fake_job_submit(&host, many[i].job);
    }
    (void)scheduler_step(host.scheduler);
    make(&host, &one, KIND_EMBED, 60, 1, false);
    one.job->plan.client = 2;
    fake_job_submit(&host, one.job);
    int32_t before = host.done_count;
    while (!atomic_load(&one.job->done)) {
        (void)scheduler_step(host.scheduler);
    }
    assert_in_range(host.done_count - before, 1, 5);
    fake_host_run(&host, 1000);
    for (int32_t i = 0; i < FAKE_JOBS - 1; i++) {
        drop(&many[i]);
    }
    drop(&one);
    fake_host_close(&host);
}

/* A client that always has items of a class waiting. */
struct backlog {
    struct request requests[2];
    enum kind kind;
    enum urgency urgency;
    bool block;
    int32_t done; /* items, of requests that have ended */
};

enum { BACKLOG_ITEMS = 30, BACKLOG_TOKENS = 24 };

static void ask_again(struct fake_host *host, struct backlog *backlog, int32_t i)
{
    struct request *request = &backlog->requests[i];
    make(host, request, backlog->kind, BACKLOG_TOKENS, BACKLOG_ITEMS, backlog->block);
    request->step.tokens_max = 0; /* prompts alone */
    request->job->plan.urgency = backlog->urgency;
    fake_job_submit(host, request->job);
}

static int32_t backlog_items(const struct backlog *backlog)
{
    int32_t items = backlog->done;
    for (int32_t i = 0; i < 2; i++) {
        items += BACKLOG_ITEMS - backlog->requests[i].job->items_left;
    }
    return items;
}

/* Work of all five classes waits at all times: 32 : 16 : 8 : 4 : 1 of the rows are each one's,
 * whatever runs in pieces and, less exactly, whatever as a block, of which a step holds whole ones
 * and few in slices. */
static void test_shares_of_classes(void **state)
{
    (void)state;
    static const int32_t weights[CLASS_COUNT] = {32, 16, 8, 4, 1};
    for (int32_t blocks = 0; blocks < 2; blocks++) {
        struct fake_host host;
        struct backlog backlogs[CLASS_COUNT] = {
            [CLASS_INTERACTIVE] = {.kind = KIND_INFILL, .block = blocks},
            [CLASS_GENERATE] = {.kind = KIND_GENERATE},
            [CLASS_CLASSIFY] = {.kind = KIND_CLASSIFY},
            [CLASS_EMBED] = {.kind = KIND_EMBED, .block = blocks},
            [CLASS_BULK] = {.kind = KIND_EMBED, .urgency = URGENCY_BULK, .block = blocks}};
        open_host(&host, 2000);
        for (int32_t c = 0; c < CLASS_COUNT; c++) {
            ask_again(&host, &backlogs[c], 0);
            ask_again(&host, &backlogs[c], 1);
            assert_int_equal(backlogs[c].requests[0].job->place.service_class, c);
        }
        int32_t all = 0;
        for (int32_t s = 0; s < 120; s++) {
            assert_true(scheduler_step(host.scheduler));
            for (int32_t r = 0; r < 2 * CLASS_COUNT; r++) {
                struct backlog *backlog = &backlogs[r / 2];
                if (atomic_load(&backlog->requests[r % 2].job->done)) {
                    backlog->done += BACKLOG_ITEMS;
                    drop(&backlog->requests[r % 2]);
                    ask_again(&host, backlog, r % 2);
                }
            }
        }
        for (int32_t c = 0; c < CLASS_COUNT; c++) {
            all += backlog_items(&backlogs[c]);
        }
        assert_true(all > 1500);
        for (int32_t c = 0; c < CLASS_COUNT; c++) {
            int32_t want = all * weights[c] / 61, off = want / (blocks ? 5 : 16) + 2;
            assert_in_range(backlog_items(&backlogs[c]), want - off, want + off);
        }
        scheduler_abort(host.scheduler);
        for (int32_t r = 0; r < 2 * CLASS_COUNT; r++) {
            drop(&backlogs[r / 2].requests[r % 2]);
        }
        fake_host_close(&host);
    }
}

/* Streams may not take the last sequences: who asks for a label need not wait until one ends. */
static void test_streams_leave_sequences_free(void **state)
{
    (void)state;
    struct fake_host host;
    struct request streams[12], label;
    fake_host_open_long(&host, 8, 2000, 64, LONG);
    for (int32_t i = 0; i < 12; i++) {
        submit(&host, &streams[i], KIND_GENERATE, 4, 1, false);
    }
    for (int32_t i = 0; i < 5; i++) {
        (void)scheduler_step(host.scheduler);
    }
    struct engine_stats stats = {0};
    scheduler_stats(host.scheduler, &stats);
    assert_int_equal(stats.sequences_running, 7);
    submit(&host, &label, KIND_EMBED, 4, 1, false);
    (void)scheduler_step(host.scheduler);
    assert_true(atomic_load(&label.job->done));
    fake_host_run(&host, 200);
    for (int32_t i = 0; i < 12; i++) {
        assert_int_equal(streams[i].job->err, ERR_OK);
        drop(&streams[i]);
    }
    drop(&label);
    fake_host_close(&host);
}

/* Cancelled while it waits, in a prompt, in a sliced block, while it decodes: gone with the next
 * step, and its neighbours get what they get alone. */
static void test_cancel_within_a_step(void **state)
{
    (void)state;
    for (int32_t phase = 0; phase < 4; phase++) {
        struct fake_host host;
        struct streams streams;
        struct request victim;
        open_host(&host, 2000);
        streams_open(&host, &streams);
        for (int32_t i = 0; i < 5; i++) {
            (void)step(&host, &streams);
        }
        int32_t tokens[] = {4, 2000, 1000, 4};
        submit(
            &host, &victim, phase == 3 ? KIND_GENERATE : KIND_EMBED, tokens[phase], 1, phase == 2);
        for (int32_t i = 0; phase > 0 && i < 5; i++) {
            (void)step(&host, &streams);
        }
        assert_false(atomic_load(&victim.job->done));
        int32_t before = streams_tokens(&streams);
        job_cancel(victim.job);
        (void)step(&host, &streams);
        assert_true(atomic_load(&victim.job->done));
        assert_int_equal(victim.job->err, ERR_CANCELLED);
        assert_int_equal(streams_tokens(&streams) - before, STREAMS);
        for (int32_t i = 0; i < PARKS; i++) {
            assert_null(host.scheduler->parks[i].owner);
        }
        drop(&victim);
        while (streams.tokens == 0) {
            (void)step(&host, &streams);
        }
        streams_close(&host, &streams);
        fake_host_close(&host);
    }
}

/* A job that decodes has its first token in time or ends; a vector has no first token. */
static void test_first_token_deadline(void **state)
{
    (void)state;
    struct fake_host host;
    struct request slow, vector;
    open_host(&host, 2000);
    make(&host, &slow, KIND_GENERATE, 2000, 1, false);
    make(&host, &vector, KIND_EMBED, 2000, 1, false);
    slow.job->plan.first_by_us = vector.job->plan.first_by_us = 100 * 1000;
    fake_job_submit(&host, slow.job);
    fake_job_submit(&host, vector.job);
    fake_host_run(&host, 200);
    assert_int_equal(slow.job->err, ERR_DEADLINE);
    assert_in_range(slow.job->times.finished, 100 * 1000, 200 * 1000);
    assert_int_equal(vector.job->err, ERR_OK);
    drop(&slow);
    drop(&vector);
    fake_host_close(&host);
}

/* t_max_predict_ms: the text ends with what there is, once a line of it is whole if that is wanted.
 * Token 13 is a newline. */
static void test_time_to_predict(void **state)
{
    (void)state;
    static const struct logit_bias newline = {.token = 13, .bias = 1000},
                                   none = {.token = 13, .bias = -INFINITY};
    static const struct {
        bool line;
        const struct logit_bias *bias;
        int32_t least, most;
        enum finish finish;
    } cases[] = {
        {false, &none, 10, 12, FINISH_TIMEOUT},
        {true, &none, STREAM_TOKENS, STREAM_TOKENS, FINISH_LENGTH},
        {true, &newline, 10, 12, FINISH_TIMEOUT},
    };
    for (size_t c = 0; c < ARRAY_COUNT(cases); c++) {
        struct fake_host host;
        struct request request;
        open_host(&host, 2000);
        make(&host, &request, KIND_INFILL, 4, 1, false);
        request.items[0].sampling.logit_bias = cases[c].bias;
        request.items[0].sampling.logit_bias_count = 1;
        request.job->plan.predict_us = 10 * host.step_us;
        request.job->plan.predict_line = cases[c].line;
        fake_job_submit(&host, request.job);
        fake_host_run(&host, 100);
        const struct step_result *result = &request.job->results[0].steps[0];
        assert_int_equal(request.job->err, ERR_OK);
        assert_int_equal(result->finish, cases[c].finish);
        assert_in_range(result->token_count, cases[c].least, cases[c].most);
        assert_true(result->text_bytes > 0);
        drop(&request);
        fake_host_close(&host);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_embedding_beside_streams),
        cmocka_unit_test(test_streams_keep_their_pace),
        cmocka_unit_test(test_short_block_passes_long_ones),
        cmocka_unit_test(test_one_client_does_not_crowd_out_another),
        cmocka_unit_test(test_shares_of_classes),
        cmocka_unit_test(test_streams_leave_sequences_free),
        cmocka_unit_test(test_cancel_within_a_step),
        cmocka_unit_test(test_first_token_deadline),
        cmocka_unit_test(test_time_to_predict),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
