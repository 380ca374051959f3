/*
 * See forward_helper.h. Sequences of any masks share batches, one run each: what is tested is also
 * that mixing does no harm. With `piece` set, every batch after the first carries at most that many
 * rows of each sequence and reads keys that earlier batches stored.
 */
#include "tests/golden/forward_helper.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "engine/load/checkpoint.h"

enum { PAGE_SLOTS = KV_TILE, TILE_ROWS = 256, THREADS = 2 };

static NORETURN void failed(const char *what, const struct err_info *info)
{
    fprintf(stderr, "forward helper: %s: %s: %s\n", what, info->where, info->text);
    exit(1);
}

static void *zeroed(size_t count, size_t size)
{
    void *block = calloc(count + 1, size);
    if (block == NULL) {
        failed("out of memory", &(struct err_info){0});
    }
    return block;
}

static enum err lay_adapters(
    struct forward *forward, const struct forward_options *options, struct err_info *info)
{
    struct adapter adapters[LIMIT_ADAPTERS] = {{.name = ""}};
    struct stack stacks[] = {{.count = options->adapter_count}, {.count = 1}};
    struct adapter_base base = {.head_dim = model_info(forward->model)->head_dim};
    enum err err =
        gguf_get_string(forward->gguf, "general.architecture", true, &base.architecture, info);
    for (int32_t i = 0; i < options->adapter_count && err == ERR_OK; i++) {
        stacks[0].adapters[i] = i;
        err = adapter_open(options->adapters[i], &base, &adapters[i], info);
    }
    const struct stack_set set = {
        adapters, options->adapter_count, stacks, options->adapter_count > 0 ? 2 : 0};
    if (err == ERR_OK) {
        err = model_lay_stacks(forward->model, forward->gguf, &set, info);
    }
    for (int32_t i = 0; i < options->adapter_count; i++) {
        adapter_close(&adapters[i]);
    }
    return err;
}

void forward_open(struct forward *forward, const char *path, const char *kernels, enum kv_type type,
    int32_t rows_max)
{
    const struct forward_options options = {.kernels = kernels, .type = type, .rows_max = rows_max};
    forward_open_with(forward, path, &options);
}

void forward_open_with(
    struct forward *forward, const char *path, const struct forward_options *options)
{
    struct err_info info = {0};
    *forward = (struct forward){0};
    if (kernels_select(options->kernels, &forward->kernels, &info) != ERR_OK ||
        checkpoint_open(path, &forward->gguf, &info) != ERR_OK ||
        threads_open(options->threads > 0 ? options->threads : THREADS, &forward->threads) !=
            ERR_OK ||
        model_open(forward->gguf, &forward->kernels, forward->threads, false, &forward->model,
            &info) != ERR_OK ||
        lay_adapters(forward, options, &info) != ERR_OK) {
        failed(path, &info);
    }
    forward_begin(forward, options->type, options->rows_max);
}

void forward_begin(struct forward *forward, enum kv_type type, int32_t rows_max)
{
    if (scratch_open(forward->model, TILE_ROWS, &forward->scratch) != ERR_OK) {
        failed("scratch", &(struct err_info){0});
    }
    forward->rows_max = rows_max;
    const struct model_info *model = model_info(forward->model);
    forward->width = model->hidden;
    forward->vocab = model->vocab;
    forward->layers = model->layers;
    /* Short sequences fill their last page badly: forward_run stops a batch at either bound. */
    int32_t pages = 2 * (rows_max / PAGE_SLOTS + 1);
    if (pages_open(&forward->pages, type, model->layers, model->heads_kv, model->head_dim,
            PAGE_SLOTS, pages) != ERR_OK) {
        failed("pages", &(struct err_info){0});
    }
}

void forward_close(struct forward *forward)
{
    pages_close(&forward->pages);
    scratch_close(forward->scratch);
    model_close(forward->model);
    threads_close(forward->threads);
    gguf_close(forward->gguf);
}

/* ---- running ---- */

/* Sequences that run together, and how far each has come. */
struct group {
    struct forward_sequence *sequences;
    int32_t count;
    struct slots *slots; /* [count] */
    int32_t *done;       /* [count] slots computed */
    int32_t rows_max;    /* of all sequences */
};

static void group_open(struct forward *forward, struct group *group)
{
    group->slots = zeroed((size_t)group->count, sizeof(*group->slots));
    group->done = zeroed((size_t)group->count, sizeof(*group->done));
    for (int32_t i = 0; i < group->count; i++) {
        const struct forward_sequence *sequence = &group->sequences[i];
        if (slots_init(&group->slots[i], &forward->pages, sequence->count) != ERR_OK ||
            !slots_hold(&group->slots[i], sequence->count)) {
            failed("no pages", &(struct err_info){0});
        }
        for (int32_t s = 0; s < sequence->count; s++) {
            group->slots[i].positions[s] = sequence->positions != NULL ? sequence->positions[s] : s;
        }
    }
}

static void group_close(struct group *group)
{
    for (int32_t i = 0; i < group->count; i++) {
        slots_free(&group->slots[i]);
    }
    free(group->slots);
    free(group->done);
}

/* Rows of a sequence in the next batch: the whole context first, for it cannot be cut. */
static int32_t rows_next(const struct forward *forward, const struct group *group, int32_t i)
{
    const struct forward_sequence *sequence = &group->sequences[i];
    int32_t left = sequence->count - group->done[i];
    if (forward->piece == 0) {
        return left;
    }
    return group->done[i] < sequence->context_count ? sequence->context_count
                                                    : MIN(left, forward->piece);
}

/* A batch and the arrays it only reads. */
struct building {
    struct batch batch;
    int32_t *tokens, *positions;
    float *residuals;
};

static void building_open(
    const struct forward *forward, const struct group *group, struct building *building)
{
    size_t rows = (size_t)group->rows_max, width = (size_t)forward->width;
    building->tokens = zeroed(rows, sizeof(*building->tokens));
    building->positions = zeroed(rows, sizeof(*building->positions));
    building->residuals = zeroed(rows * width, sizeof(*building->residuals));
    building->batch = (struct batch){.tokens = building->tokens,
        .positions = building->positions,
        .x = zeroed(rows, sizeof(*building->batch.x)),
        .runs = zeroed((size_t)group->count, sizeof(*building->batch.runs)),
        .reads = zeroed(rows, sizeof(*building->batch.reads))};
    for (size_t r = 0; r < rows; r++) {
        building->batch.x[r] = building->residuals + r * width;
    }
}

static void building_close(struct building *building)
{
    free(building->tokens);
    free(building->positions);
    free(building->residuals);
    free(building->batch.x);
    free(building->batch.runs);
    free(building->batch.reads);
}

/* Adds the next rows of sequence i, with the reads that fall among them. */
static void building_add(const struct forward *forward, struct group *group, int32_t i,
    int32_t rows, struct building *building)
{
    struct batch *batch = &building->batch;
    const struct forward_sequence *sequence = &group->sequences[i];
    int32_t from = group->done[i];
    batch->runs[batch->run_count++] = (struct run){.row_from = batch->row_count,
        .row_count = rows,
        .slot_from = from,
        .context_count = sequence->context_count,
        .stack = sequence->stack,
        .slots = &group->slots[i]};
    for (int32_t slot = from; slot < from + rows; slot++) {
        int32_t read = slot - sequence->read_from;
        if (read >= 0 && read < sequence->read_count) {
            batch->reads[batch->read_count++] = (struct row_read){.row = batch->row_count,
                .layer = -1,
                .hidden = sequence->hidden + (size_t)read * (size_t)forward->width};
        }
        building->tokens[batch->row_count] = sequence->tokens[slot];
        building->positions[batch->row_count] = group->slots[i].positions[slot];
        batch->row_count++;
    }
    group->done[i] += rows;
}

/* Runs one batch; false when every sequence is done. */
static bool group_step(struct forward *forward, struct group *group)
{
    struct building building;
    building_open(forward, group, &building);
    for (int32_t i = 0; i < group->count; i++) {
        int32_t next = rows_next(forward, group, i);
        if (next > 0) {
            building_add(forward, group, i, next, &building);
        }
    }
    bool any = building.batch.row_count > 0;
    if (any) {
        model_forward(forward->model, forward->scratch, forward->threads, &building.batch, 0,
            model_units(forward->model));
    }
    for (int32_t i = 0; i < building.batch.run_count; i++) {
        if (building.batch.runs[i].err != ERR_OK && !forward->odd) {
            failed("a value is not finite", &(struct err_info){0});
        }
    }
    building_close(&building);
    return any;
}

static int32_t pages_of(const struct forward_sequence *sequence)
{
    return (sequence->count + PAGE_SLOTS - 1) / PAGE_SLOTS;
}

void forward_run(struct forward *forward, struct forward_sequence *sequences, int32_t count)
{
    for (int32_t from = 0; from < count;) {
        struct group group = {.sequences = sequences + from};
        int32_t pages = 0;
        for (; from + group.count < count; group.count++) {
            const struct forward_sequence *next = &sequences[from + group.count];
            bool fits = group.rows_max + next->count <= forward->rows_max &&
                        pages + pages_of(next) <= forward->pages.count;
            if (!fits && group.count > 0) {
                break;
            }
            group.rows_max += next->count;
            pages += pages_of(next);
        }
        group_open(forward, &group);
        while (group_step(forward, &group)) {
        }
        group_close(&group);
        from += group.count;
    }
}

void forward_logits(struct forward *forward, const float *hidden, int32_t count, float *logits)
{
    const float **rows = zeroed((size_t)count, sizeof(*rows));
    for (int32_t r = 0; r < count; r++) {
        rows[r] = hidden + (size_t)r * (size_t)forward->width;
    }
    model_logits(forward->model, forward->scratch, forward->threads, rows, count, logits);
    free(rows);
}
