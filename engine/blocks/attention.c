/*
 * Project, rotate, store and attend over a tile's pieces.
 *
 * A single row, mostly one that is being decoded, is attended by chunks of (K/V head, part of the
 * slots): the query heads that share a K/V head then read it while it is in a cache of their core,
 * and one long sequence feeds every thread. What parts put together are the bits of the whole
 * (engine/kernels/kernels.h), so a row is cut if there is room for the states of its parts, and
 * its result does not tell. Several rows share the work of reading K/V among themselves: they are
 * attended by chunks of one query head.
 */
#include "engine/blocks/attention.h"

#include "engine/attn/mask.h"
#include "engine/base/assert.h"
#include "engine/blocks/linear.h"
#include "engine/blocks/norm.h"

enum { STORE_ROWS = 8 }; /* of a chunk, if that many: what a core does in a few microseconds */

struct attention_region {
    struct pass *pass;
    int32_t l;
    int32_t store_chunks;
};

static const struct layer *layer_of(const struct pass *pass, int32_t l)
{
    return &pass->model->layers[l];
}

/* Norm of each head, then its rotation. */
static void place_heads(
    const struct pass *pass, int32_t l, const struct norm *norm, int32_t heads, int32_t r, float *x)
{
    const struct model *model = pass->model;
    const struct hyper *hyper = &model->hyper;
    int32_t head_dim = model->info.head_dim;
    for (int32_t head = 0; norm->weight != NULL && head < heads; head++) {
        float *one = x + (size_t)head * (size_t)head_dim;
        norm_row(model, norm, one, head_dim, one);
    }
    if (hyper->rope_count > 0) {
        const float *angles = pass->tile->cos_sin[layer_of(pass, l)->rope];
        pass->kernels->rope(hyper->rope_style, x, heads, head_dim, hyper->rotary_dim,
            angles + (size_t)r * (size_t)hyper->rotary_dim);
    }
}

/* Other chunks may fail the same run at the same moment, with the same word. */
static void fail_run(struct run *run)
{
    __atomic_store_n(&run->err, ERR_NON_FINITE, __ATOMIC_RELAXED);
}

static void store_row(const struct pass *pass, int32_t l, struct run *run, int32_t slot, int32_t r)
{
    const struct model_info *info = &pass->model->info;
    const struct pages *pages = run->slots->pages;
    size_t width = (size_t)info->heads_kv * (size_t)info->head_dim;
    float *k = pass->scratch->k + (size_t)r * width;
    const float *v = pass->scratch->v + (size_t)r * width;
    place_heads(pass, l, &layer_of(pass, l)->k_norm, info->heads_kv, r, k);
    unsigned char *page = run->slots->addresses[slot / pages->page_slots];
    if (!pass->kernels->kv_store(pages->type, pages->page_slots, info->heads_kv, info->head_dim,
            page, pages_layer(pages, l), pages->head_bytes, slot % pages->page_slots, k, v)) {
        fail_run(run);
    }
}

static void place_q_row(const struct pass *pass, int32_t l, int32_t r)
{
    const struct model_info *info = &pass->model->info;
    size_t width = (size_t)info->heads * (size_t)info->head_dim;
    float *q = pass->scratch->q + (size_t)r * width;
    place_heads(pass, l, &layer_of(pass, l)->q_norm, info->heads, r, q);
}

/* Whole pieces, as many to each chunk. */
static void store_chunk(void *context, int32_t chunk, int32_t thread)
{
    const struct attention_region *region = context;
    const struct tile *tile = region->pass->tile;
    int32_t from = (int32_t)((int64_t)tile->piece_count * chunk / region->store_chunks);
    int32_t to = (int32_t)((int64_t)tile->piece_count * (chunk + 1) / region->store_chunks);
    for (int32_t p = from; p < to; p++) {
        const struct piece *piece = &tile->pieces[p];
        for (int32_t i = 0; i < piece->count; i++) {
            int32_t r = piece->tile_from + i;
            if (!piece->run->stored) {
                store_row(region->pass, region->l, piece->run, piece->slot_from + i, r);
            }
            if (region->pass->joined) {
                place_q_row(region->pass, region->l, r);
            }
        }
    }
}

static struct linear_job q_job(const struct pass *pass, int32_t l)
{
    const struct linear *q = &layer_of(pass, l)->q;
    return (struct linear_job){q, pass->scratch->q, (size_t)q->weight.outputs};
}

static void project(struct pass *pass, const struct linear_job *jobs, int32_t job_count)
{
    const struct linear *linears[LINEAR_JOBS_MAX];
    for (int32_t i = 0; i < job_count; i++) {
        linears[i] = jobs[i].linear;
    }
    struct linear_input x = linear_prepare_tile(pass, pass->scratch->h, linears, job_count);
    linear_project(pass->kernels, pass->threads, &x, jobs, job_count);
}

void attention_store(struct pass *pass, int32_t l)
{
    const struct tile *tile = pass->tile;
    const struct layer *layer = layer_of(pass, l);
    const struct linear_job jobs[] = {
        {&layer->k, pass->scratch->k, (size_t)layer->k.weight.outputs},
        {&layer->v, pass->scratch->v, (size_t)layer->v.weight.outputs},
        q_job(pass, l),
    };
    project(pass, jobs, pass->joined ? 3 : 2);
    int32_t chunks = MIN(tile->piece_count, (tile->row_count + STORE_ROWS - 1) / STORE_ROWS);
    struct attention_region region = {.pass = pass, .l = l, .store_chunks = chunks};
    threads_run(pass->threads, chunks, store_chunk, &region);
}

static void place_q_chunk(void *context, int32_t chunk, int32_t thread)
{
    const struct attention_region *region = context;
    const struct piece *piece = &region->pass->tile->pieces[chunk];
    for (int32_t r = piece->tile_from; r < piece->tile_from + piece->count; r++) {
        place_q_row(region->pass, region->l, r);
    }
}

void attention_query(struct pass *pass, int32_t l)
{
    struct linear_job job = q_job(pass, l);
    struct attention_region region = {.pass = pass, .l = l};
    ASSERT(!pass->joined);
    project(pass, &job, 1);
    threads_run(pass->threads, pass->tile->piece_count, place_q_chunk, &region);
}

/* ---- attending ----------------------------------------------------------------------------- */

static struct attention_args args_of(
    const struct pass *pass, int32_t l, const struct piece *piece, int32_t head)
{
    const struct model_info *info = &pass->model->info;
    const struct slots *slots = piece->run->slots;
    const struct pages *pages = slots->pages;
    int32_t head_kv = head / (info->heads / info->heads_kv);
    size_t width = (size_t)info->heads * (size_t)info->head_dim;
    size_t at = (size_t)piece->tile_from * width + (size_t)head * (size_t)info->head_dim;
    return (struct attention_args){
        .q = pass->scratch->q + at,
        .out = pass->scratch->attended + at,
        .q_stride = width,
        .out_stride = width,
        .slot_from = piece->slot_from,
        .context_count = piece->run->context_count,
        .kv = {.type = pages->type,
            .page_slots = pages->page_slots,
            .head_dim = info->head_dim,
            .pages = slots->addresses,
            .head_offset = pages_layer(pages, l) + (size_t)head_kv * pages->head_bytes},
        .scale = pass->model->hyper.attention_scale,
        .positions = slots->positions,
        .reach_left = layer_of(pass, l)->reach,
        .reach_right = layer_of(pass, l)->reach,
        .alibi_slope = pass->model->hyper.alibi_slopes[head],
    };
}

/* The states of a piece that is cut: [heads][part_count]. */
static float *states_of(const struct pass *pass, const struct piece *piece, int32_t head)
{
    const struct model_info *info = &pass->model->info;
    size_t index =
        (size_t)piece->part_from * (size_t)info->heads + (size_t)head * (size_t)piece->part_count;
    return pass->scratch->states + index * attention_state_floats(info->head_dim);
}

/* Cuts single rows into parts while there is room for their states, and numbers the chunks of all
 * pieces. Returns how many chunks there are; *out_cut, whether any piece is cut. */
static int32_t plan_pieces(const struct pass *pass, bool *out_cut)
{
    const struct model_info *info = &pass->model->info;
    struct tile *tile = pass->tile;
    int32_t chunks = 0, parts_used = 0;
    for (int32_t p = 0; p < tile->piece_count; p++) {
        struct piece *piece = &tile->pieces[p];
        int32_t visible = mask_visible(piece->run->context_count, piece->slot_from);
        int32_t parts = (visible + ATTENTION_PART - 1) / ATTENTION_PART;
        bool cut = piece->count == 1 && parts > 1 && pass->kernels->attention_part != NULL &&
                   parts <= STATE_PARTS - parts_used;
        piece->chunk_from = chunks;
        piece->part_from = parts_used;
        piece->part_count = cut ? parts : 1;
        parts_used += cut ? parts : 0;
        chunks += piece->count == 1 ? info->heads_kv * piece->part_count : info->heads;
    }
    *out_cut = parts_used > 0;
    return chunks;
}

static const struct piece *piece_of_chunk(const struct tile *tile, int32_t chunk)
{
    int32_t from = 0, to = tile->piece_count;
    while (to - from > 1) {
        int32_t middle = from + (to - from) / 2;
        if (tile->pieces[middle].chunk_from <= chunk) {
            from = middle;
        } else {
            to = middle;
        }
    }
    return &tile->pieces[from];
}

/* One K/V head of a single row, or a part of it, for all query heads that share it. */
static void attend_group(
    const struct pass *pass, int32_t l, const struct piece *piece, int32_t head_kv, int32_t part)
{
    const struct model_info *info = &pass->model->info;
    int32_t group = info->heads / info->heads_kv;
    for (int32_t head = head_kv * group; head < (head_kv + 1) * group; head++) {
        struct attention_args args = args_of(pass, l, piece, head);
        if (piece->part_count == 1) {
            pass->kernels->attention(&args, 0, 1);
        } else {
            float *state = states_of(pass, piece, head) +
                           (size_t)part * attention_state_floats(info->head_dim);
            pass->kernels->attention_part(&args, 0, part, state);
        }
    }
}

/* Heads and parts run fastest: neighbouring chunks read the same K/V head. */
static void attend_chunk(void *context, int32_t chunk, int32_t thread)
{
    const struct attention_region *region = context;
    const struct pass *pass = region->pass;
    const struct piece *piece = piece_of_chunk(pass->tile, chunk);
    chunk -= piece->chunk_from;
    if (piece->count == 1) {
        attend_group(pass, region->l, piece, chunk / piece->part_count, chunk % piece->part_count);
        return;
    }
    struct attention_args args = args_of(pass, region->l, piece, chunk);
    pass->kernels->attention(&args, 0, piece->count);
}

/* Puts the parts of a piece together. */
static void merge_chunk(void *context, int32_t chunk, int32_t thread)
{
    const struct attention_region *region = context;
    const struct pass *pass = region->pass;
    const struct model_info *info = &pass->model->info;
    const struct piece *piece = &pass->tile->pieces[chunk];
    if (piece->part_count == 1) {
        return;
    }
    float *out = pass->scratch->attended +
                 (size_t)piece->tile_from * (size_t)info->heads * (size_t)info->head_dim;
    for (int32_t head = 0; head < info->heads; head++) {
        pass->kernels->attention_merge(states_of(pass, piece, head), piece->part_count,
            info->head_dim, out + (size_t)head * (size_t)info->head_dim);
    }
}

void attention_attend(struct pass *pass, int32_t l)
{
    struct attention_region region = {.pass = pass, .l = l};
    bool cut;
    int32_t chunk_count = plan_pieces(pass, &cut);
    threads_run(pass->threads, chunk_count, attend_chunk, &region);
    if (cut) {
        threads_run(pass->threads, pass->tile->piece_count, merge_chunk, &region);
    }
}
