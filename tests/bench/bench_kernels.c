/*
 * Benchmark of the kernels, each rung beside the limits of the machine with that rung's vectors,
 * measured in the same run: the FMA peak and the read bandwidth of each number of threads. Not a
 * test: it prints a table.
 *
 *     bench_kernels [--activations int8] [word...]     only lines whose name holds a word
 *
 * With int8 activations lines are those of block formats, and the peak is that of 8-bit products
 * (limits_int8.h), measured before each rung.
 *
 * Figures are medians of 5 rounds of at least 60 ms; with one thread of CPU time, so that a busy
 * machine disturbs less. Weights are taken from a pool larger than the caches, a fresh copy of the
 * matrix each call, so that few rows meet cold weights as decoding does.
 * GFLOP/s counts a multiplication and an addition; GB/s the packed bytes of weights.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
#include <time.h>
#include "engine/base/half.h"
#include "engine/base/mem.h"
#include "engine/base/threads.h"
#include "engine/kernels/int8_row.h"
#include "engine/kernels/panel.h"
#include "engine/attn/mask.h"
#include "tests/bench/limits.h"
#include "tests/bench/limits_int8.h"

enum {
    ROUNDS = 5,
    ROUND_US = 60000,
    POOL_BYTES = 192 << 20,
    ROWS_MAX = 512,
    FMA_ROUNDS = 20000,
};

static char **words;
static int word_count;
static bool int8_activations;

static bool wanted(const char *name)
{
    bool any = word_count == 0;
    for (int i = 0; i < word_count; i++) {
        any |= strstr(name, words[i]) != NULL;
    }
    return any;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

static int64_t now_us(int32_t team)
{
    struct timespec time;
    clock_gettime(team == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000 + time.tv_nsec / 1000;
}

/* Median seconds of one call by a team of threads. */
static double seconds_of(void (*call)(void *context), void *context, int32_t team)
{
    double rounds[ROUNDS];
    call(context);
    for (int round = 0; round < ROUNDS; round++) {
        const int64_t start = now_us(team);
        int64_t now = start;
        int64_t calls = 0;
        while (now - start < ROUND_US) {
            call(context);
            calls++;
            now = now_us(team);
        }
        rounds[round] = (double)(now - start) * 1e-6 / (double)calls;
    }
    qsort(rounds, ROUNDS, sizeof *rounds, by_size);
    return rounds[ROUNDS / 2];
}

static void *must(void *memory)
{
    if (memory == NULL) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    return memory;
}

static struct threads *team_of(int32_t count)
{
    struct threads *threads = NULL;
    if (threads_open(count, &threads) != ERR_OK) {
        fprintf(stderr, "no threads\n");
        exit(1);
    }
    return threads;
}

/* ---- limits --------------------------------------------------------------------------------- */

struct limits {
    double flops, bytes; /* a second */
};

struct limit_run {
    struct limits_of of;
    struct threads *threads;
    int32_t chunks;
    unsigned char *pool;
    size_t bytes; /* read by each chunk */
};

static void fma_chunk(void *context, int32_t chunk, int32_t thread)
{
    (void)chunk, (void)thread;
    const struct limit_run *run = context;
    run->of.fma(FMA_ROUNDS);
}

static void fma_run(void *context)
{
    struct limit_run *run = context;
    threads_run(run->threads, run->chunks, fma_chunk, run);
}

static void read_chunk(void *context, int32_t chunk, int32_t thread)
{
    (void)thread;
    const struct limit_run *run = context;
    run->of.read(run->pool + (size_t)chunk * run->bytes, run->bytes);
}

static void read_run(void *context)
{
    struct limit_run *run = context;
    threads_run(run->threads, run->chunks, read_chunk, run);
}

enum { INT8_ROUNDS = 5000 };

struct int8_run {
    struct threads *threads;
    int32_t chunks;
    const struct kernels *kernels;
};

static void int8_chunk(void *context, int32_t chunk, int32_t thread)
{
    (void)chunk, (void)thread;
    const struct int8_run *run = context;
    limits_int8(run->kernels, INT8_ROUNDS);
}

static void int8_run(void *context)
{
    struct int8_run *run = context;
    threads_run(run->threads, run->chunks, int8_chunk, run);
}

static struct limits measure_limits(
    const char *kernels, struct threads *threads, unsigned char *pool)
{
    struct limit_run run = {limits_of(kernels), threads, threads_count(threads), pool, 0};
    run.bytes = POOL_BYTES / (size_t)run.chunks;
    const struct limits limits = {
        .flops = run.chunks * limits_fma_flops(&run.of, FMA_ROUNDS) /
                 seconds_of(fma_run, &run, run.chunks),
        .bytes = POOL_BYTES / seconds_of(read_run, &run, run.chunks),
    };
    printf("limits of %s, %d threads: FMA %.1f GFLOP/s, reading %.1f GB/s\n", kernels, run.chunks,
        limits.flops * 1e-9, limits.bytes * 1e-9);
    return limits;
}

/* ---- linear --------------------------------------------------------------------------------- */

struct linear_run {
    const struct kernels *kernels;
    struct threads *threads;
    struct packed packed;
    unsigned char *pool;
    size_t copies, copy; /* matrices in the pool, the next one */
    struct activation x;
    float *y;
    int32_t panels_each;
};

static void linear_chunk(void *context, int32_t chunk, int32_t thread)
{
    (void)thread;
    struct linear_run *run = context;
    const int32_t from = chunk * run->panels_each;
    const int32_t to = MIN(from + run->panels_each, run->packed.panels);
    (int8_activations ? run->kernels->linear_int8 : run->kernels->linear)(
        &run->packed, &run->x, 0, run->x.rows, from, to, run->y, (size_t)run->packed.outputs);
}

static void linear_call(void *context)
{
    struct linear_run *run = context;
    const size_t bytes = (size_t)run->packed.panels * run->packed.panel_bytes;
    run->copy = (run->copy + 1) % run->copies;
    run->packed.data = run->pool + run->copy * bytes;
    const int32_t chunks = (run->packed.panels + run->panels_each - 1) / run->panels_each;
    threads_run(run->threads, chunks, linear_chunk, run);
}

/* Small numbers, so that sums stay normal; the pool's scales are all 2^-6. */
static void fill_pool(const struct kernels *kernels, struct linear_run *run)
{
    const struct panel_layout layout = panel_layout_of(run->packed.type);
    size_t bytes = 0;
    const size_t count = PANEL_OUTPUTS * (size_t)run->packed.inputs;
    if (!tensor_type_bytes(run->packed.type, count, &bytes)) {
        exit(1);
    }
    unsigned char *rows = must(mem_alloc(MEM_OTHER, bytes));
    for (size_t i = 0; i < bytes; i++) {
        rows[i] = (unsigned char)(i * 37 + i / 91);
    }
    const size_t block_bytes = tensor_type_block_bytes(run->packed.type);
    for (size_t b = 0; b < bytes; b += block_bytes) {
        for (int32_t h = 0; h < layout.halves; h++) {
            rows[b + (size_t)(layout.halves_at + 2 * h)] = 0;
            rows[b + (size_t)(layout.halves_at + 2 * h) + 1] = 0x24;
        }
        if (run->packed.type == TENSOR_F32) {
            const float value = 0.01f;
            memcpy(rows + b, &value, sizeof value);
        }
    }
    const size_t matrix = (size_t)run->packed.panels * run->packed.panel_bytes;
    run->copies = POOL_BYTES / matrix;
    for (size_t c = 0; c < run->copies; c++) {
        run->packed.data = run->pool + c * matrix;
        for (int32_t p = 0; p < run->packed.panels; p++) {
            kernels->pack(&run->packed, p * PANEL_OUTPUTS, PANEL_OUTPUTS, rows);
        }
    }
    mem_free(rows);
}

/* All rows in 8 bits, or their sums; NULL for a rung that wants neither. */
static unsigned char *prepare_rows(
    const struct kernels *kernels, const float *x, int32_t inputs, size_t *out_bytes)
{
    const size_t bytes =
        int8_activations ? int8_row_bytes(inputs) : (size_t)(inputs / SUM_INPUTS) * sizeof(float);
    *out_bytes = bytes;
    if (!int8_activations && kernels->sum_blocks == NULL) {
        return NULL;
    }
    unsigned char *rows = must(mem_array(MEM_OTHER, ROWS_MAX, bytes));
    for (size_t r = 0; r < ROWS_MAX; r++) {
        const float *row = x + r * (size_t)inputs;
        if (int8_activations) {
            kernels->quantize(row, inputs, rows + r * bytes);
        } else {
            kernels->sum_blocks(row, inputs, (float *)(void *)(rows + r * bytes));
        }
    }
    return rows;
}

static void bench_linear(const struct kernels *kernels, struct threads *threads,
    const struct limits *limits, unsigned char *pool, enum tensor_type type, int32_t outputs,
    int32_t inputs)
{
    static const int32_t row_counts[] = {1, 4, 16, 64, 512};
    char name[80];
    snprintf(name, sizeof name, "linear %s %s %dx%d", kernels->name, tensor_type_word(type),
        outputs, inputs);
    const bool possible =
        !int8_activations || (kernels->linear_int8 != NULL && tensor_type_block(type) > 1);
    if (!wanted(name) || !possible) {
        return;
    }
    struct linear_run run = {.kernels = kernels, .threads = threads, .pool = pool};
    run.packed = (struct packed){
        type, outputs, inputs, outputs / PANEL_OUTPUTS, kernels->panel_bytes(type, inputs), NULL};
    fill_pool(kernels, &run);
    const int32_t team = threads_count(threads);
    run.panels_each = MAX(4, run.packed.panels / (4 * team) / 4 * 4);
    float *x = must(mem_array(MEM_OTHER, ROWS_MAX * (size_t)inputs, sizeof(float)));
    run.y = must(mem_array(MEM_OTHER, ROWS_MAX * (size_t)outputs, sizeof(float)));
    for (size_t i = 0; i < ROWS_MAX * (size_t)inputs; i++) {
        x[i] = (float)(i % 13) * 0.1f - 0.6f;
    }
    size_t prepared_bytes;
    unsigned char *prepared = prepare_rows(kernels, x, inputs, &prepared_bytes);
    printf("%-34s %d", name, team);
    for (size_t i = 0; i < sizeof row_counts / sizeof *row_counts; i++) {
        const int32_t rows = row_counts[i];
        if (outputs > 10000 && rows > 64) {
            continue; /* the head is read for few rows */
        }
        run.x = (struct activation){ACTIVATION_F32, rows, inputs, (size_t)inputs * sizeof(float), x,
            (const float *)(const void *)prepared};
        if (int8_activations) {
            run.x =
                (struct activation){ACTIVATION_INT8, rows, inputs, prepared_bytes, prepared, NULL};
        }
        const double seconds = seconds_of(linear_call, &run, team);
        const double flops = 2.0 * rows * outputs * (double)inputs / seconds;
        const double bytes = (double)run.packed.panels * (double)run.packed.panel_bytes / seconds;
        printf(" | %6.1f %3.0f%% %5.1f %3.0f%%", flops * 1e-9, 100 * flops / limits->flops,
            bytes * 1e-9, 100 * bytes / limits->bytes);
    }
    printf("\n");
    fflush(stdout);
    mem_free(x);
    mem_free(prepared);
    mem_free(run.y);
}

/* The same limits with the peak of a rung's 8-bit products. */
static struct limits int8_limits(
    const struct kernels *kernels, struct threads *threads, const struct limits *limits)
{
    struct int8_run run = {threads, threads_count(threads), kernels};
    struct limits found = *limits;
    found.flops = (double)run.chunks * limits_int8_ops(kernels, INT8_ROUNDS) /
                  seconds_of(int8_run, &run, run.chunks);
    printf("8-bit limit of %s: %.1f Gop/s\n", kernels->name, found.flops * 1e-9);
    return found;
}

static void bench_all_linear(const struct kernels *kernels, struct threads *threads,
    const struct limits *limits, unsigned char *pool)
{
    static const int32_t shapes[][2] = {
        {576, 576}, {192, 576}, {1536, 576}, {576, 1536}, {49152, 576}};
    static const enum tensor_type types[] = {
        TENSOR_Q4_1, TENSOR_Q8_0, TENSOR_F16, TENSOR_F32, TENSOR_Q4_0, TENSOR_BF16, TENSOR_Q5_1};
    const bool is_ref = strcmp(kernels->name, "ref") == 0;
    const bool is_blas = strcmp(kernels->name, "blas") == 0;
    for (size_t t = 0; t < ARRAY_COUNT(types); t++) {
        if (is_blas && types[t] != TENSOR_F32) {
            continue;
        }
        for (size_t s = 0; s < (is_ref ? 1 : ARRAY_COUNT(shapes)); s++) {
            bench_linear(kernels, threads, limits, pool, types[t], shapes[s][0], shapes[s][1]);
        }
        if (types[t] == TENSOR_Q4_1 || types[t] == TENSOR_Q8_0) {
            bench_linear(kernels, threads, limits, pool, types[t], 512, 512);
        }
    }
    for (int type = TENSOR_Q4_K; type <= TENSOR_Q6_K && !is_ref && !is_blas; type++) {
        bench_linear(kernels, threads, limits, pool, (enum tensor_type)type, 512, 512);
    }
}

/* ---- attention ------------------------------------------------------------------------------ */

enum { SLOTS_MAX = 2048, HEAD_DIM = 64, PAGE_SLOTS = 64 };

struct attention_run {
    const struct kernels *kernels;
    struct attention_args args;
    int32_t rows;
};

static void attention_call(void *context)
{
    struct attention_run *run = context;
    run->kernels->attention(&run->args, 0, run->rows);
}

static void bench_attention(const struct kernels *kernels, const struct limits *limits,
    enum kv_type type, int32_t rows, int32_t slots)
{
    static float numbers[SLOTS_MAX * HEAD_DIM];
    static float out[SLOTS_MAX * HEAD_DIM];
    char name[80];
    snprintf(name, sizeof name, "attention %s %s", kernels->name, type == KV_F16 ? "f16" : "f32");
    if (!wanted(name)) {
        return;
    }
    unsigned char *pages[SLOTS_MAX / PAGE_SLOTS];
    const size_t bytes = kv_head_bytes(type, PAGE_SLOTS, HEAD_DIM);
    for (size_t i = 0; i < SLOTS_MAX * HEAD_DIM; i++) {
        numbers[i] = sinf((float)i);
    }
    for (int32_t slot = 0; slot < slots; slot++) {
        const int32_t page = slot / PAGE_SLOTS;
        if (slot % PAGE_SLOTS == 0) {
            pages[page] = must(mem_alloc(MEM_OTHER, bytes));
        }
        const float *row = numbers + (size_t)slot * HEAD_DIM;
        if (!kernels->kv_store(type, PAGE_SLOTS, 1, HEAD_DIM, pages[page], 0, bytes,
                slot % PAGE_SLOTS, row, row)) {
            exit(1);
        }
    }
    struct attention_run run = {.kernels = kernels, .rows = rows};
    run.args = (struct attention_args){.q = numbers,
        .out = out,
        .q_stride = HEAD_DIM,
        .out_stride = HEAD_DIM,
        .slot_from = slots - rows,
        .context_count = slots,
        .kv = {type, PAGE_SLOTS, HEAD_DIM, pages, 0},
        .scale = 0.125f,
        .reach_left = REACH_ALL,
        .reach_right = REACH_ALL};
    const double seconds = seconds_of(attention_call, &run, 1);
    const double flops = 4.0 * rows * slots * HEAD_DIM / seconds;
    printf("%-20s rows %4d slots %4d: %7.2f us a row, %6.1f GFLOP/s %3.0f%%\n", name, rows, slots,
        seconds * 1e6 / rows, flops * 1e-9, 100 * flops / limits->flops);
    for (int32_t page = 0; page < slots / PAGE_SLOTS; page++) {
        mem_free(pages[page]);
    }
}

/* ---- rows ----------------------------------------------------------------------------------- */

enum { LOGITS = 49152 };

enum { REPEATS = 50 }; /* calls between two looks at the clock, which costs as much as some calls */

struct row_run {
    const struct kernels *kernels;
    float *x, *y, *out;
    void (*call)(const struct row_run *run);
};

static void call_rms_norm(const struct row_run *run)
{
    run->kernels->rms_norm(run->x, run->y, 1e-5f, 576, run->out);
}

static void call_rope(const struct row_run *run)
{
    run->kernels->rope(ROPE_INTERLEAVED, run->out, 12, 64, 64, run->y);
}

static void call_rope_half(const struct row_run *run)
{
    run->kernels->rope(ROPE_HALF, run->out, 12, 64, 64, run->y);
}

static void call_silu_mul(const struct row_run *run)
{
    run->kernels->silu_mul(run->x, run->y, 1536, run->out);
}

static void call_add(const struct row_run *run)
{
    run->kernels->add(run->out, run->y, 576);
}

static void call_argmax(const struct row_run *run)
{
    (void)run->kernels->argmax(run->x, LOGITS);
}

static void call_log_sum_exp(const struct row_run *run)
{
    (void)run->kernels->log_sum_exp(run->x, LOGITS);
}

static void call_all_finite(const struct row_run *run)
{
    (void)run->kernels->all_finite(run->x, LOGITS);
}

static void repeat_call(void *context)
{
    const struct row_run *run = context;
    for (int i = 0; i < REPEATS; i++) {
        run->call(run);
    }
}

static void bench_rows(const struct kernels *kernels)
{
    static const struct {
        const char *name;
        void (*call)(const struct row_run *run);
        int32_t count;
    } rows[] = {
        {"rms_norm", call_rms_norm, 576},
        {"rope", call_rope, 768},
        {"rope_half", call_rope_half, 768},
        {"silu_mul", call_silu_mul, 1536},
        {"add", call_add, 576},
        {"argmax", call_argmax, LOGITS},
        {"log_sum_exp", call_log_sum_exp, LOGITS},
        {"all_finite", call_all_finite, LOGITS},
    };
    struct row_run run = {.kernels = kernels};
    run.x = must(mem_array(MEM_OTHER, LOGITS, sizeof(float)));
    run.y = must(mem_array(MEM_OTHER, LOGITS, sizeof(float)));
    run.out = must(mem_array(MEM_OTHER, LOGITS, sizeof(float)));
    for (int32_t i = 0; i < LOGITS; i++) {
        run.x[i] = 8 * sinf((float)i);
        run.y[i] = i % 2 == 0 ? cosf((float)i) : sinf((float)(i - 1)); /* rotations keep lengths */
    }
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        char name[80];
        snprintf(name, sizeof name, "%s %s", rows[i].name, kernels->name);
        run.call = rows[i].call;
        if (wanted(name)) {
            const double seconds = seconds_of(repeat_call, &run, 1) / REPEATS;
            printf("%-20s of %5d: %8.3f us, %5.2f G numbers/s\n", name, rows[i].count,
                seconds * 1e6, (double)rows[i].count / seconds * 1e-9);
        }
    }
    mem_free(run.x);
    mem_free(run.y);
    mem_free(run.out);
}

static void bench_rest(const struct kernels *kernels, const struct limits *limits)
{
    for (int32_t slots = 128; slots <= SLOTS_MAX; slots *= 4) {
        bench_attention(kernels, limits, KV_F16, 1, slots);
        bench_attention(kernels, limits, KV_F32, 1, slots);
        bench_attention(kernels, limits, KV_F16, 64, slots);
    }
    bench_rows(kernels);
}

static void bench_rung(const char *name, struct threads *threads, unsigned char *pool)
{
    struct kernels kernels;
    if (kernels_select(name, &kernels, NULL) != ERR_OK) {
        exit(1);
    }
    if (int8_activations && limits_int8_ops(&kernels, 1) == 0) {
        return; /* ref and blas have no 8-bit products of their own */
    }
    struct limits limits = measure_limits(name, threads, pool);
    if (int8_activations) {
        limits = int8_limits(&kernels, threads, &limits);
    }
    printf("%-34s t", "outputs x inputs");
    printf(" | rows 1: GFLOP/s, of peak, GB/s, of read | 4 | 16 | 64 | 512\n");
    bench_all_linear(&kernels, threads, &limits, pool);
    if (threads_count(threads) == 1 && kernels.deterministic && !int8_activations) {
        /* blas differs in linear only */
        bench_rest(&kernels, &limits);
    }
}

int main(int argc, char **argv)
{
    const int options = argc > 2 && strcmp(argv[1], "--activations") == 0 ? 2 : 0;
    int8_activations = options > 0 && strcmp(argv[2], "int8") == 0;
    words = argv + 1 + options;
    word_count = argc - 1 - options;
    unsigned char *pool = must(mem_alloc(MEM_OTHER, POOL_BYTES));
    memset(pool, 1, POOL_BYTES);
    const int32_t team_max = MIN(threads_available(), 2);
    for (int32_t team = 1; team <= team_max; team++) {
        struct threads *threads = team_of(team);
        for (const char *const *name = kernels_available(); *name != NULL; name++) {
            if (strcmp(*name, "ref") != 0 || word_count > 0) { /* it takes its time */
                bench_rung(*name, threads, pool);
            }
        }
        threads_close(threads);
    }
    mem_free(pool);
    return 0;
}
