/*
 * Quality of number formats: perplexity of a text, and its cost against the same weights in f32.
 * Not a test: it prints a table.
 *
 *     bench_perplexity TEXT FILE[=TWIN]... [--tokens N] [--kernels NAME] [--threads N]
 *         [--activations int8]
 *
 * The first N tokens (20,000) are cut into windows of 512 that do not overlap; each token but a
 * window's first is scored given those before it in its window, as one causal prompt. A line is a
 * file with one type of K/V. TWIN holds the exact numbers of FILE in f32 (make_models.py); it runs
 * with f32 K/V and activations and is what the cost of FILE's lines is measured against. With int8
 * activations FILE has one line, of f16 K/V. The cost is that of the perplexity; behind it stands
 * the standard error of the paired difference, token by token, which is far below that of either
 * perplexity. "largest" is the greatest change of one log-probability.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "engine/base/clock.h"
#include "engine/engine.h"
#include "engine/text/tokenizer.h"

enum { WINDOW = 512, TOKENS_DEFAULT = 20000, TOKENS_MAX = 1 << 20, TEXT_MAX = 64 << 20 };

struct options {
    const char *text_path, *kernels;
    int32_t tokens, threads;
    bool int8_activations; /* of FILE; a twin has none */
};

/* Natural logarithms of the probability of every token scored, in order. */
struct score {
    double *logprobs;
    int32_t count;
    double seconds;
};

static void die(const struct err_info *info)
{
    (void)fprintf(stderr, "%s: %s\n", info->where, info->text);
    exit(1);
}

static void *must(void *memory)
{
    if (memory == NULL) {
        (void)fprintf(stderr, "no memory\n");
        exit(1);
    }
    return memory;
}

static char *read_text(const char *path, size_t *out_bytes)
{
    FILE *file = fopen(path, "rb");
    char *text = must(malloc(TEXT_MAX));
    size_t bytes = file == NULL ? 0 : fread(text, 1, TEXT_MAX, file);
    if (bytes == 0) {
        (void)fprintf(stderr, "%s: no text\n", path);
        exit(1);
    }
    (void)fclose(file);
    *out_bytes = bytes;
    return text;
}

static void encode(
    const struct engine *engine, const struct options *options, struct token_list *list)
{
    struct err_info info = {0};
    size_t bytes;
    char *text = read_text(options->text_path, &bytes);
    token_list_init(list, INT32_MAX);
    if (tokenizer_encode(engine_tokenizer(engine), text, bytes, 0, list, &info) != ERR_OK) {
        die(&info);
    }
    free(text);
    list->count = MIN(list->count, options->tokens);
}

static void score_window(
    struct engine *engine, const int32_t *tokens, int32_t count, struct score *score)
{
    struct err_info info = {0};
    struct job *job;
    struct plan_step step = {
        .kind = STEP_DECODE, .read_row = -1, .position = -1, .top_logprobs = -1};
    struct plan_item item = {.tokens = tokens,
        .token_count = count,
        .prompt_logprobs = true,
        .steps = &step,
        .step_count = 1,
        .sampling = {.top_p = 1, .typical_p = 1, .repetition_penalty = 1}};
    if (engine_acquire(engine, &job) != ERR_OK) {
        (void)fprintf(stderr, "no job is free\n");
        exit(1);
    }
    job->plan = (struct plan){.kind = KIND_GENERATE, .items = &item, .item_count = 1};
    if (engine_submit(engine, job, &info) != ERR_OK) {
        die(&info);
    }
    engine_wait(engine, job);
    const struct item_result *result = &job->results[0];
    if (job->err != ERR_OK || result->err != ERR_OK) {
        die(job->err != ERR_OK ? &job->info : &result->info);
    }
    for (int32_t i = 1; i < count; i++) {
        score->logprobs[score->count++] = result->prompt_logprobs[i];
    }
    engine_release(engine, job);
}

static struct score score_file(
    const char *path, bool kv_f32, bool int8_activations, const struct options *options)
{
    struct engine_config config = {.model_path = path,
        .kernels = options->kernels,
        .threads = options->threads,
        .context = WINDOW,
        .step_rows = WINDOW,
        .kv_f32 = kv_f32,
        .int8_activations = int8_activations};
    struct err_info info = {0};
    struct engine *engine;
    struct token_list list;
    if (engine_open(&config, &engine, &info) != ERR_OK) {
        die(&info);
    }
    encode(engine, options, &list);
    struct score score = {.logprobs = must(calloc((size_t)list.count, sizeof(double)))};
    int64_t from = clock_now_us(NULL);
    for (int32_t at = 0; at + 1 < list.count; at += WINDOW) {
        score_window(engine, list.ids + at, MIN(WINDOW, list.count - at), &score);
    }
    score.seconds = (double)(clock_now_us(NULL) - from) * 1e-6;
    token_list_free(&list);
    engine_close(engine);
    return score;
}

/* ---- the table ----------------------------------------------------------------------------- */

static double mean_nll(const struct score *score)
{
    double sum = 0;
    for (int32_t i = 0; i < score->count; i++) {
        sum -= score->logprobs[i];
    }
    return sum / score->count;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

static void print_line(
    const char *path, bool kv_f32, const struct score *score, const struct score *twin)
{
    double nll = mean_nll(score);
    (void)printf("| %s | %s | %.6f | %.5f | %.0f |", base_name(path), kv_f32 ? "f32" : "f16", nll,
        exp(nll), score->count / score->seconds);
    if (twin == NULL || twin->count != score->count) {
        (void)printf(" | | |\n");
        return;
    }
    double sum = 0, squares = 0, largest = 0;
    for (int32_t i = 0; i < score->count; i++) {
        double change = twin->logprobs[i] - score->logprobs[i];
        sum += change;
        squares += change * change;
        largest = MAX(largest, fabs(change));
    }
    double mean = sum / score->count;
    double error = sqrt(MAX(squares / score->count - mean * mean, 0) / score->count);
    (void)printf(" %+.5f %% | %.5f %% | %.2g |\n", 100 * expm1(mean), 100 * error, largest);
}

/* `argument` is FILE or FILE=TWIN; it is cut in place. */
static void compare(char *argument, const struct options *options)
{
    char *twin_path = strchr(argument, '=');
    struct score twin = {0};
    if (twin_path != NULL) {
        *twin_path++ = '\0';
        twin = score_file(twin_path, true, false, options);
        print_line(twin_path, true, &twin, NULL);
    }
    for (int kv_f32 = !options->int8_activations; kv_f32 >= 0; kv_f32--) {
        struct score score = score_file(argument, kv_f32 != 0, options->int8_activations, options);
        print_line(argument, kv_f32 != 0, &score, twin_path == NULL ? NULL : &twin);
        (void)fflush(stdout);
        free(score.logprobs);
    }
    free(twin.logprobs);
}

static int32_t number(const char *text)
{
    long value = strtol(text, NULL, 10);
    return value > 0 && value <= TOKENS_MAX ? (int32_t)value : 0;
}

int main(int argc, char **argv)
{
    struct options options = {.tokens = TOKENS_DEFAULT};
    char **files = argv;
    int file_count = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--tokens") == 0 && i + 1 < argc) {
            options.tokens = number(argv[++i]);
        } else if (strcmp(argv[i], "--threads") == 0 && i + 1 < argc) {
            options.threads = number(argv[++i]);
        } else if (strcmp(argv[i], "--activations") == 0 && i + 1 < argc) {
            options.int8_activations = strcmp(argv[++i], "int8") == 0;
        } else if (strcmp(argv[i], "--kernels") == 0 && i + 1 < argc) {
            options.kernels = argv[++i];
        } else if (options.text_path == NULL) {
            options.text_path = argv[i];
        } else {
            files[file_count++] = argv[i];
        }
    }
    if (file_count == 0 || options.tokens < 2) {
        (void)fprintf(stderr, "usage: bench_perplexity TEXT FILE[=TWIN]... [--tokens N] "
                              "[--kernels NAME] [--threads N] [--activations int8]\n");
        return 2;
    }
    (void)printf("first %d tokens of %s, windows of %d, %s activations\n\n", options.tokens,
        base_name(options.text_path), WINDOW, options.int8_activations ? "int8" : "f32");
    (void)printf("| file | K/V | mean NLL | perplexity | tokens/s | cost | +- | largest |\n"
                 "|---|---|---|---|---|---|---|---|\n");
    for (int i = 0; i < file_count; i++) {
        compare(files[i], &options);
    }
    return 0;
}
