/* See fake_host.h. */
#include "tests/unit/sched/fake_host.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "engine/engine.h"
#include "engine/plan_check.h"

static void forward(void *context, struct batch *batch, int32_t unit_from, int32_t unit_to)
{
    struct fake_host *host = context;
    int64_t units = unit_to - unit_from;
    int64_t us = MAX(host->step_us, host->row_us * batch->row_count);
    host->now_us += host->row_us == 0 ? us : MAX(us * units / FAKE_UNITS, 1);
    host->rows_max_seen = MAX(host->rows_max_seen, batch->row_count);
    fake_network_forward(&host->network, batch, unit_from, unit_to);
    assert_string_equal(host->network.broken, "");
}

static void logits(void *context, const float *const *hidden, int32_t count, float *out)
{
    (void)context;
    fake_network_logits(hidden, count, out);
}

static int64_t now_us(void *context)
{
    const struct fake_host *host = context;
    return host->now_us;
}

static void done(void *context, struct job *job)
{
    struct fake_host *host = context;
    assert_false(atomic_load(&job->done)); /* every job ends exactly once */
    atomic_store(&job->done, true);
    host->done_count++;
}

static void progress(void *context, struct job *job)
{
    struct fake_host *host = context;
    (void)job;
    host->progress_count++;
}

enum { RESERVE_TOKENS = 64 };

static void open_host(struct fake_host *host, int32_t sequences, int32_t page_count,
    int32_t step_rows, int32_t threads, int32_t context, int32_t reuse_pages,
    int32_t reserve_tokens)
{
    memset(host, 0, sizeof *host);
    host->context = context;
    host->network.poison_token = -1;
    host->step_us = 1000;
    host->tokenizer = fake_vocab_open();
    assert_int_equal(kernels_select("ref", &host->kernels, NULL), ERR_OK);
    assert_int_equal(threads_open(threads, &host->threads), ERR_OK);
    assert_int_equal(fake_network_pages(&host->pages, page_count), ERR_OK);
    struct sched_config config = {
        .sequences = sequences,
        .jobs = FAKE_JOBS,
        .context = context,
        .step_rows = step_rows,
        .pages = &host->pages,
        .reuse_pages = reuse_pages,
        .reserve_tokens = reserve_tokens,
        .threads = host->threads,
        .tools = fake_network_tools(host->tokenizer, &host->kernels, host->ends),
    };
    struct sched_host door = {.context = host,
        .units = FAKE_UNITS,
        .forward = forward,
        .logits = logits,
        .now_us = now_us,
        .done = done,
        .progress = progress};
    assert_int_equal(scheduler_open(&config, &door, &host->scheduler), ERR_OK);
}

void fake_host_open(struct fake_host *host, int32_t sequences, int32_t page_count,
    int32_t step_rows, int32_t threads)
{
    open_host(
        host, sequences, page_count, step_rows, threads, FAKE_CONTEXT, page_count, RESERVE_TOKENS);
}

void fake_host_open_long(struct fake_host *host, int32_t sequences, int32_t page_count,
    int32_t step_rows, int32_t context)
{
    open_host(host, sequences, page_count, step_rows, 1, context, page_count, RESERVE_TOKENS);
}

void fake_host_open_cache(struct fake_host *host, int32_t sequences, int32_t page_count,
    int32_t step_rows, int32_t threads, int32_t reuse_pages, int32_t reserve_tokens)
{
    open_host(
        host, sequences, page_count, step_rows, threads, FAKE_CONTEXT, reuse_pages, reserve_tokens);
}

void fake_host_close(struct fake_host *host)
{
    scheduler_close(host->scheduler);
    assert_int_equal(host->pages.free_count, host->pages.count);
    pages_close(&host->pages);
    threads_close(host->threads);
    tokenizer_close(host->tokenizer);
}

struct job *fake_job(struct fake_host *host)
{
    (void)host;
    struct job *job = calloc(1, sizeof *job);
    assert_non_null(job);
    assert_int_equal(ring_init(&job->events, 8, sizeof(struct token_event)), ERR_OK);
    return job;
}

void fake_job_submit(struct fake_host *host, struct job *job)
{
    struct plan_bounds bounds = {.vocab = FAKE_VOCAB,
        .hidden = FAKE_HIDDEN,
        .vector = FAKE_HIDDEN,
        .context = host->context,
        .position_max = 4 * host->context,
        .piece_bytes_max = (int32_t)detokenizer_bound(host->tokenizer),
        .result_bytes = 16 << 20};
    struct err_info info = {0};
    if (plan_check(&job->plan, &bounds, &info) != ERR_OK ||
        plan_size_results(job, &bounds, &info) != ERR_OK) {
        fail_msg("%s: %s", info.where, info.text);
    }
    scheduler_add(host->scheduler, job);
}

void fake_job_free(struct job *job)
{
    ring_free(&job->events);
    arena_drop(&job->results_arena);
    free(job);
}

void fake_host_run(struct fake_host *host, int32_t steps_max)
{
    for (int32_t step = 0; scheduler_busy(host->scheduler); step++) {
        assert_in_range(step, 0, steps_max);
        bool ran = scheduler_step(host->scheduler);
        assert_true(ran || !scheduler_busy(host->scheduler));
    }
}
