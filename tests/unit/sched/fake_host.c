/* See fake_host.h. Hashes are kept to 20 bits so that a float holds them exactly. */
#include "tests/unit/sched/fake_host.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "engine/attn/mask.h"
#include "engine/engine.h"
#include "engine/plan_check.h"
#include "tests/unit/load/gguf_writer.h"

static uint32_t mix(uint32_t a, uint32_t b)
{
    uint32_t x = a * 2654435761U ^ (b + 0x9e3779b9U + (a << 6) + (a >> 2));
    x ^= x >> 15;
    x *= 2246822519U;
    return x ^ (x >> 13);
}

static float *slot_value(const struct run *run, int32_t layer, int32_t slot)
{
    const struct pages *pages = run->slots->pages;
    unsigned char *page = run->slots->addresses[slot / pages->page_slots];
    size_t offset = (size_t)layer * pages->layer_bytes +
                    (size_t)(slot % pages->page_slots) * (size_t)pages->head_dim * sizeof(float);
    return (float *)(void *)(page + offset);
}

static void store_rows(
    const struct fake_host *host, struct batch *batch, struct run *run, int32_t layer)
{
    for (int32_t i = 0; i < run->row_count; i++) {
        int32_t row = run->row_from + i;
        if (layer == 0) {
            batch->x[row][0] = (float)(batch->tokens[row] + 1);
            batch->x[row][1] = (float)(batch->positions[row] + 1);
        }
        if (batch->tokens[row] == host->poison_token) {
            run->err = ERR_NON_FINITE;
        }
        float *value = slot_value(run, layer, run->slot_from + i);
        value[0] = batch->x[row][layer * 2];
        value[1] = batch->x[row][1];
    }
}

static void attend_rows(struct batch *batch, const struct run *run, int32_t layer)
{
    for (int32_t i = 0; i < run->row_count; i++) {
        int32_t row = run->row_from + i;
        int32_t visible = mask_visible(run->context_count, run->slot_from + i);
        uint32_t hash = (uint32_t)layer;
        for (int32_t slot = 0; slot < visible; slot++) {
            const float *value = slot_value(run, layer, slot);
            hash = mix(hash, (uint32_t)value[0] * 4099U + (uint32_t)value[1]);
        }
        batch->x[row][layer * 2 + 2] = (float)(hash & 0xfffff);
    }
}

static void forward(void *context, struct batch *batch, int32_t unit_from, int32_t unit_to)
{
    struct fake_host *host = context;
    host->now_us += host->step_us;
    host->rows_max_seen = MAX(host->rows_max_seen, batch->row_count);
    for (int32_t unit = unit_from; unit < unit_to; unit++) {
        for (int32_t r = 0; r < batch->run_count; r++) {
            if (unit % 2 == 0) {
                store_rows(host, batch, &batch->runs[r], unit / 2);
            } else {
                attend_rows(batch, &batch->runs[r], unit / 2);
            }
        }
    }
    for (int32_t i = 0; unit_to == FAKE_UNITS && i < batch->read_count; i++) {
        const struct row_read *read = &batch->reads[i];
        memmove(read->hidden, batch->x[read->row], FAKE_HIDDEN * sizeof(float));
    }
}

static void logits(void *context, const float *const *hidden, int32_t count, float *out)
{
    (void)context;
    for (int32_t i = 0; i < count; i++) {
        uint32_t hash = mix((uint32_t)hidden[i][4], (uint32_t)hidden[i][2]);
        for (uint32_t t = 0; t < FAKE_VOCAB; t++) {
            out[(size_t)i * FAKE_VOCAB + t] = (float)(mix(hash, t) % 4096) / 400.0f;
        }
    }
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

/* A SentencePiece vocabulary of bytes and a few words is all that the detokenizer needs. */
static void open_tokenizer(struct fake_host *host)
{
    static char names[FAKE_VOCAB][16];
    const char *pieces[FAKE_VOCAB];
    float scores[FAKE_VOCAB];
    int32_t types[FAKE_VOCAB];
    for (int32_t i = 0; i < FAKE_VOCAB; i++) {
        pieces[i] = names[i];
        scores[i] = (float)-i;
        types[i] = 1;
        if (i < 3) {
            (void)snprintf(
                names[i], sizeof names[i], "%s", (const char *[]){"<unk>", "<s>", "</s>"}[i]);
            types[i] = i == 0 ? 2 : 3;
        } else if (i < 259) {
            (void)snprintf(names[i], sizeof names[i], "<0x%02X>", (unsigned)i - 3);
            types[i] = 6;
        } else {
            (void)snprintf(names[i], sizeof names[i], "w%d", i);
        }
    }
    struct gguf_writer writer;
    gguf_writer_init(&writer);
    gguf_writer_string(&writer, "general.architecture", "llama");
    gguf_writer_string(&writer, "tokenizer.ggml.model", "llama");
    gguf_writer_strings(&writer, "tokenizer.ggml.tokens", pieces, FAKE_VOCAB);
    gguf_writer_array(
        &writer, "tokenizer.ggml.scores", GGUF_F32, scores, FAKE_VOCAB, sizeof scores);
    gguf_writer_array(
        &writer, "tokenizer.ggml.token_type", GGUF_I32, types, FAKE_VOCAB, sizeof types);
    gguf_writer_u32(&writer, "tokenizer.ggml.bos_token_id", 1);
    gguf_writer_u32(&writer, "tokenizer.ggml.eos_token_id", 2);
    size_t count;
    unsigned char *bytes = gguf_writer_finish(&writer, &count);
    struct gguf *gguf;
    struct err_info info = {0};
    if (gguf_open_memory(bytes, count, &gguf, &info) != ERR_OK ||
        tokenizer_open_gguf(gguf, &host->tokenizer, &info) != ERR_OK) {
        fail_msg("%s: %s", info.where, info.text);
    }
    gguf_close(gguf);
    free(bytes);
    gguf_writer_free(&writer);
}

void fake_host_open(struct fake_host *host, int32_t sequences, int32_t page_count,
    int32_t step_rows, int32_t threads)
{
    memset(host, 0, sizeof *host);
    host->poison_token = -1;
    host->step_us = 1000;
    open_tokenizer(host);
    assert_int_equal(kernels_select("ref", &host->kernels, NULL), ERR_OK);
    assert_int_equal(threads_open(threads, &host->threads), ERR_OK);
    assert_int_equal(
        pages_open(&host->pages, KV_F32, 2, 1, 16, FAKE_PAGE_SLOTS, page_count), ERR_OK);
    struct sched_config config = {
        .sequences = sequences,
        .jobs = FAKE_JOBS,
        .context = FAKE_CONTEXT,
        .step_rows = step_rows,
        .pages = &host->pages,
        .threads = host->threads,
        .tools = {.tokenizer = host->tokenizer,
            .kernels = &host->kernels,
            .vocab = FAKE_VOCAB,
            .hidden = FAKE_HIDDEN,
            .ends = host->ends,
            .end_count = tokenizer_ends(host->tokenizer, host->ends)},
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
        .context = FAKE_CONTEXT,
        .position_max = 4 * FAKE_CONTEXT,
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
