/*
 * Benchmark of the engine on a model file: prefill and decode, beside the machine's limits measured
 * in the same run. Not a test: it prints a table, or CSV.
 *
 *     bench_engine MODEL [--threads N] [--activations int8] [--kernels NAME] [--csv]
 *         [--cpu-time | --once] [word...]
 *
 * Only lines whose name holds one of the words: "decode", "prefill-64", "batch-16".
 *
 * Prefill is a causal prompt of which only the last row is read, so no head is computed; it reuses
 * nothing. Decode is B sequences of a given context generating greedily together, from the moment
 * the last of them has its first token. For B > 1 all have the same prompt, which is computed once
 * and shared, and another one keeps the engine busy while they are queued and is then cancelled: so
 * they start together and no prompt runs beside the decodes that are measured. Figures are medians
 * of ROUNDS. "of limit" is against one FMA a weight at the measured FMA peak for prefill, and
 * against all weights read once a step at the measured read bandwidth for decode; a step that could
 * reach neither limit alone is held against the slower.
 *
 * Limits are measured before and after each round, for about as long as a short one: a shared
 * machine changes its clock by a fifth within a second, and a share of a limit of another moment
 * says nothing.
 *
 * "products-16" is 16 rows through the matrices of a decode step, head included, and nothing else
 * (products.h), and "products-64" 64: what is missing to them is what a step spends on the rest.
 *
 * With int8 activations the peak is that of the rung's 8-bit products (limits_int8.h).
 *
 * --cpu-time is for a busy machine: one thread, and all times, those of the limits and of the
 * engine's own clock too, are the process's processor time.
 *
 * --once is for counting instructions (count_instructions.sh): one round, no limits, and each line
 * on an engine of its own that starts when all its sequences are there, so that the steps are the
 * same in every run.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/threads.h"
#include "engine/engine.h"
#include "engine/kernels/kernels.h"
#include "engine/load/checkpoint.h"
#include "tests/bench/limits.h"
#include "tests/bench/limits_int8.h"
#include "tests/bench/products.h"

enum {
    ROUNDS = 5,
    DECODE_TOKENS = 24,
    BATCH_MAX = 32,
    BATCH_PROMPT = 128,
    BLOCKER = 256,
    PROMPT_MAX = 4096,
    FMA_ROUNDS = 4000000, /* 5 to 10 ms, as reading is; a sleeping thread takes 50 us to wake */
    INT8_ROUNDS = 2000000,
    READ_BYTES = 256 << 20,
};

/* What the machine does in a second. */
struct rates {
    double flops, bytes;
};

struct bench {
    struct engine *engine;
    struct engine_config config;
    int32_t threads;
    bool csv, once, cpu_time;
    char **words;
    int word_count;
    struct limits_of limits;
    struct kernels kernels; /* to measure 8-bit products by */
    struct threads *team;   /* that measures limits, and the memory it reads; NULL without limits */
    unsigned char *pool;
    double token_flops;  /* of one prompt token, without the head */
    double weight_bytes; /* read by one decode step */
    double head_flops;
    int32_t tokens[PROMPT_MAX];
};

static bool wanted(const struct bench *bench, const char *name)
{
    bool any = bench->word_count == 0;
    for (int i = 0; i < bench->word_count; i++) {
        any |= strstr(name, bench->words[i]) != NULL;
    }
    return any;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int64_t cpu_now_us(void *context)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (int64_t)time.tv_sec * 1000000 + time.tv_nsec / 1000;
}

static const struct clock cpu_clock = {.now_us = cpu_now_us};

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, by_size);
    return values[count / 2];
}

/* ---- limits -------------------------------------------------------------------------------- */

static void fma_chunk(void *context, int32_t chunk, int32_t thread)
{
    const struct bench *bench = context;
    bench->limits.fma(FMA_ROUNDS);
}

static void int8_chunk(void *context, int32_t chunk, int32_t thread)
{
    const struct bench *bench = context;
    limits_int8(&bench->kernels, INT8_ROUNDS);
}

static void read_chunk(void *context, int32_t chunk, int32_t thread)
{
    const struct bench *bench = context;
    size_t each = READ_BYTES / (size_t)bench->threads;
    bench->limits.read(bench->pool + (size_t)chunk * each, each);
}

static double seconds_of(struct bench *bench, threads_fn *fn)
{
    int64_t from = clock_now_us(bench->config.clock);
    threads_run(bench->team, bench->threads, fn, bench);
    return (double)(clock_now_us(bench->config.clock) - from) * 1e-6;
}

static struct rates measure_limits(struct bench *bench)
{
    const bool in_8_bits = bench->config.int8_activations;
    const double operations = in_8_bits ? limits_int8_ops(&bench->kernels, INT8_ROUNDS)
                                        : limits_fma_flops(&bench->limits, FMA_ROUNDS);
    return (struct rates){
        .flops =
            operations * bench->threads / seconds_of(bench, in_8_bits ? int8_chunk : fma_chunk),
        .bytes = READ_BYTES / seconds_of(bench, read_chunk),
    };
}

static bool open_limits(struct bench *bench)
{
    bench->limits = limits_of(bench->kernels.name);
    bench->pool = mem_alloc(MEM_OTHER, READ_BYTES);
    if (bench->pool == NULL || threads_open(bench->threads, &bench->team) != ERR_OK) {
        return false;
    }
    memset(bench->pool, 1, READ_BYTES);
    (void)measure_limits(bench); /* wakes the cores */
    return true;
}

static void close_limits(struct bench *bench)
{
    threads_close(bench->team);
    mem_free(bench->pool);
}

/* ---- runs ---------------------------------------------------------------------------------- */

struct shape {
    int32_t prompt, batch, tokens;
    const struct sampling *sampling; /* NULL = greedy */
};

static const struct sampling greedy = {.top_p = 1, .typical_p = 1, .repetition_penalty = 1};
/* The default of /infill, and any token by its probability, the default of /generate with
 * do_sample. */
static const struct sampling sampled = {
    .temperature = 0.8f, .top_k = 40, .top_p = 0.95f, .typical_p = 1, .repetition_penalty = 1};
static const struct sampling drawn = {
    .temperature = 1, .top_p = 1, .typical_p = 1, .repetition_penalty = 1};

static struct job *start(
    struct bench *bench, const struct shape *shape, struct plan_item *item, struct plan_step *step)
{
    struct job *job;
    struct err_info info = {0};
    *step = (struct plan_step){.kind = STEP_DECODE,
        .read_row = -1,
        .position = -1,
        .tokens_max = shape->tokens,
        .ban_end = true,
        .top_logprobs = -1};
    *item = (struct plan_item){.tokens = bench->tokens,
        .token_count = shape->prompt,
        .pooling = shape->tokens == 0 ? POOLING_LAST : POOLING_NONE,
        .steps = step,
        .step_count = shape->tokens > 0,
        .sampling = shape->sampling != NULL ? *shape->sampling : greedy};
    if (engine_acquire(bench->engine, &job) != ERR_OK) {
        (void)fprintf(stderr, "no job is free\n");
        exit(1);
    }
    job->plan = (struct plan){.kind = shape->tokens == 0 ? KIND_EMBED : KIND_GENERATE,
        .items = item,
        .item_count = 1,
        .cache_off = shape->tokens == 0};
    if (engine_submit(bench->engine, job, &info) != ERR_OK) {
        (void)fprintf(stderr, "%s: %s\n", info.where, info.text);
        exit(1);
    }
    return job;
}

/* Tokens per second of one round; 0 when a sequence ended before another had its first token. */
static double run_once(struct bench *bench, const struct shape *shape)
{
    struct plan_item items[BATCH_MAX];
    struct plan_step steps[BATCH_MAX];
    struct job *jobs[BATCH_MAX], *blocker = NULL;
    struct plan_item blocker_item;
    struct plan_step blocker_step;
    if (shape->batch > 1 && !bench->once) {
        const struct shape blocked = {
            .prompt = MIN(BLOCKER, engine_model(bench->engine)->context), .batch = 1};
        blocker = start(bench, &blocked, &blocker_item, &blocker_step);
    }
    for (int32_t i = 0; i < shape->batch; i++) {
        jobs[i] = start(bench, shape, &items[i], &steps[i]);
    }
    if (bench->once) {
        engine_resume(bench->engine);
    }
    if (blocker != NULL) {
        job_cancel(blocker);
    }
    int64_t from = 0, to = 0, first_end = INT64_MAX;
    for (int32_t i = 0; i < shape->batch; i++) {
        engine_wait(bench->engine, jobs[i]);
        const struct job_times *times = &jobs[i]->times;
        from = MAX(from, shape->tokens == 0 ? times->started : times->first_token);
        to = MAX(to, times->finished);
        first_end = MIN(first_end, times->finished);
    }
    if (blocker != NULL) {
        engine_wait(bench->engine, blocker);
        engine_release(bench->engine, blocker);
    }
    /* Tokens that came after the last sequence had its first. */
    double tokens = shape->tokens == 0 ? shape->prompt : 0;
    for (int32_t i = 0; i < shape->batch; i++) {
        const struct job_times *times = &jobs[i]->times;
        if (shape->tokens > 0) {
            tokens += (double)(shape->tokens - 1) * (double)(times->finished - from) /
                      (double)(times->finished - times->first_token);
        }
        engine_release(bench->engine, jobs[i]);
    }
    return first_end <= from ? 0 : tokens * 1e6 / (double)(to - from);
}

/* Tokens per second that the machine allows at most: the slower of multiplying and reading. */
static double limit_of(
    const struct bench *bench, const struct shape *shape, const struct rates *rates)
{
    if (shape->tokens == 0) {
        return rates->flops / bench->token_flops;
    }
    double step = MAX(bench->weight_bytes / rates->bytes,
        shape->batch * (bench->token_flops + bench->head_flops) / rates->flops);
    return shape->batch / step;
}

/* Rows per second of a step's products alone. */
static double run_products(struct bench *bench, struct products *products, int32_t rows)
{
    const int64_t from = clock_now_us(bench->config.clock);
    for (int i = 0; i < DECODE_TOKENS; i++) {
        products_step(products, rows);
    }
    return (double)rows * DECODE_TOKENS * 1e6 / (double)(clock_now_us(bench->config.clock) - from);
}

static void open_engine(struct bench *bench)
{
    struct err_info info = {0};
    if (engine_open(&bench->config, &bench->engine, &info) != ERR_OK) {
        (void)fprintf(stderr, "%s: %s\n", info.where, info.text);
        exit(1);
    }
}

static void reopen_engine(struct bench *bench)
{
    engine_close(bench->engine);
    open_engine(bench);
}

/* One line: medians of ROUNDS, of the engine or, if there are any, of products. */
static void measure(
    struct bench *bench, const char *name, const struct shape *shape, struct products *products)
{
    double rates[ROUNDS], shares[ROUNDS];
    struct rates before = measure_limits(bench);
    for (int i = 0; i < ROUNDS; i++) {
        rates[i] =
            products != NULL ? run_products(bench, products, shape->batch) : run_once(bench, shape);
        const struct rates after = measure_limits(bench);
        const struct rates mean = {
            (before.flops + after.flops) / 2, (before.bytes + after.bytes) / 2};
        shares[i] = rates[i] / limit_of(bench, shape, &mean);
        before = after;
    }
    const double rate = median(rates, ROUNDS);
    const double share = median(shares, ROUNDS);
    (void)printf(bench->csv ? "%s,%d,%d,%.1f,%.3f\n" : "%-12s %6d %5d %10.1f %8.3f\n", name,
        shape->prompt, shape->batch, rate, share);
    (void)fflush(stdout);
}

/* `kind` with its context, or its batch, is the line's name. */
static void report(
    struct bench *bench, const char *kind, int32_t variant, const struct shape *shape)
{
    char name[32];
    (void)snprintf(name, sizeof name, "%s-%d", kind, variant);
    if (!wanted(bench, name) ||
        shape->prompt + shape->tokens > engine_model(bench->engine)->context) {
        return;
    }
    if (bench->once) {
        (void)run_once(bench, shape);
        reopen_engine(bench);
        return;
    }
    measure(bench, name, shape, NULL);
}

/* Not what is counted with --once: its steps are the engine's. */
static void report_products(struct bench *bench, int32_t rows)
{
    char name[32];
    (void)snprintf(name, sizeof name, "products-%d", rows);
    if (!wanted(bench, name) || bench->once) {
        return;
    }
    const struct shape shape = {.batch = rows, .tokens = DECODE_TOKENS};
    struct products *products = products_open(&bench->config, rows);
    products_step(products, rows);
    measure(bench, name, &shape, products);
    products_close(products);
}

static void run_all(struct bench *bench)
{
    (void)printf(bench->csv ? "name,context,batch,tokens_per_second,of_limit\n"
                            : "name        context batch   tokens/s  of limit\n");
    const int32_t prompts[] = {16, 64, 512, 2048};
    for (size_t i = 0; i < ARRAY_COUNT(prompts); i++) {
        report(bench, "prefill", prompts[i], &(struct shape){.prompt = prompts[i], .batch = 1});
    }
    if (engine_model(bench->engine)->embeds_only) {
        return;
    }
    const int32_t contexts[] = {1, 512, 2048, 4000};
    for (size_t i = 0; i < ARRAY_COUNT(contexts); i++) {
        report(bench, "decode", contexts[i],
            &(struct shape){.prompt = contexts[i], .batch = 1, .tokens = DECODE_TOKENS});
    }
    report(bench, "sampled", 1,
        &(struct shape){.prompt = 1, .batch = 1, .tokens = DECODE_TOKENS, .sampling = &sampled});
    report(bench, "drawn", 1,
        &(struct shape){.prompt = 1, .batch = 1, .tokens = DECODE_TOKENS, .sampling = &drawn});
    bench->config.step_rows = BATCH_MAX * BATCH_PROMPT;
    reopen_engine(bench);
    for (int32_t batch = 2; batch <= BATCH_MAX; batch *= 2) {
        report(bench, "batch", batch,
            &(struct shape){.prompt = BATCH_PROMPT, .batch = batch, .tokens = DECODE_TOKENS});
    }
    report_products(bench, 16);
    report_products(bench, 64);
}

static bool is_named(const struct gguf_tensor *tensor, const char *name)
{
    return tensor->name.count == strlen(name) &&
           memcmp(tensor->name.bytes, name, tensor->name.count) == 0;
}

/* A prompt's row is multiplied with every matrix of a layer. A step reads those and the head whole,
 * and of other tables a few rows. */
static void count_work(struct bench *bench)
{
    const struct model_info *model = engine_model(bench->engine);
    struct gguf *gguf;
    struct err_info info = {0};
    if (checkpoint_open(bench->config.model_path, &gguf, &info) != ERR_OK) {
        (void)fprintf(stderr, "%s: %s\n", info.where, info.text);
        exit(1);
    }
    const char *head = model->embeds_only                                ? ""
                       : gguf_find_tensor(gguf, "output.weight") != NULL ? "output.weight"
                                                                         : "token_embd.weight";
    bench->weight_bytes = (double)engine_memory(bench->engine)->weights;
    for (int32_t i = 0; i < gguf_tensor_count(gguf); i++) {
        const struct gguf_tensor *tensor = gguf_tensor_at(gguf, i);
        const bool in_layer = tensor->name.count > 4 && memcmp(tensor->name.bytes, "blk.", 4) == 0;
        if (in_layer && tensor->dims == 2) {
            bench->token_flops += 2.0 * (double)tensor->shape[0] * (double)tensor->shape[1];
        } else if (!in_layer && tensor->dims == 2 && !is_named(tensor, head)) {
            bench->weight_bytes -= (double)tensor->bytes;
        }
    }
    bench->head_flops = 2.0 * model->hidden * model->vocab;
    gguf_close(gguf);
}

static void describe(struct bench *bench)
{
    const struct model_info *model = engine_model(bench->engine);
    const struct memory_plan *plan = engine_memory(bench->engine);
    count_work(bench);
    (void)printf("%s %s, kernels %s, %d threads, K/V %s, activations %s\n", model->name,
        model->weights_type, engine_kernels(bench->engine), bench->threads,
        plan->kv_f32 ? "f32" : "f16", plan->int8_activations ? "int8" : "f32");
    const struct rates rates = measure_limits(bench);
    (void)printf(
        "limits: %.0f G operations/s, %.1f GB/s; a prompt token is %.3f GFLOP, a step reads "
        "%.0f MB\n",
        rates.flops * 1e-9, rates.bytes * 1e-9, bench->token_flops * 1e-9,
        bench->weight_bytes * 1e-6);
}

static bool parse(struct bench *bench, int argc, char **argv)
{
    bench->config.threads = threads_available();
    bench->words = argv;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--threads") == 0 && i + 1 < argc) {
            bench->config.threads = (int32_t)strtol(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--activations") == 0 && i + 1 < argc) {
            bench->config.int8_activations = strcmp(argv[++i], "int8") == 0;
        } else if (strcmp(argv[i], "--kernels") == 0 && i + 1 < argc) {
            bench->config.kernels = argv[++i];
        } else if (strcmp(argv[i], "--csv") == 0) {
            bench->csv = true;
        } else if (strcmp(argv[i], "--once") == 0) {
            bench->once = bench->config.start_paused = true;
        } else if (strcmp(argv[i], "--cpu-time") == 0) {
            bench->cpu_time = true;
            bench->config.clock = &cpu_clock;
            bench->config.threads = 1;
        } else if (bench->config.model_path == NULL) {
            bench->config.model_path = argv[i];
        } else {
            bench->words[bench->word_count++] = argv[i];
        }
    }
    bench->threads = bench->config.threads;
    if (kernels_select(bench->config.kernels, &bench->kernels, NULL) != ERR_OK) {
        return false;
    }
    return bench->config.model_path != NULL && bench->threads >= 1 &&
           !(bench->cpu_time && (bench->once || bench->threads > 1));
}

int main(int argc, char **argv)
{
    static struct bench bench;
    if (!parse(&bench, argc, argv)) {
        (void)fprintf(stderr,
            "usage: bench_engine MODEL [--threads N] [--activations int8] [--kernels NAME] [--csv] "
            "[--cpu-time | --once] [word...]\n");
        return 2;
    }
    for (int32_t i = 0; i < PROMPT_MAX; i++) {
        bench.tokens[i] = 3 + i % 200;
    }
    if (!bench.once && !open_limits(&bench)) {
        (void)fprintf(stderr, "no threads or no memory to measure the limits\n");
        return 1;
    }
    open_engine(&bench);
    if (!bench.once) {
        describe(&bench);
    }
    run_all(&bench);
    engine_close(bench.engine);
    close_limits(&bench);
    return 0;
}
