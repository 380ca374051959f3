/* Rotate, store and attend, each one parallel region over a tile's pieces. */
#include "engine/blocks/attention.h"

#include "engine/attn/mask.h"
#include "engine/base/assert.h"

struct attention_region {
    struct pass *pass;
    int32_t l;
};

static const float *row_angles(const struct pass *pass, int32_t r)
{
    return pass->tile->cos_sin + (size_t)r * (size_t)pass->model->hyper.rotary_dim;
}

/* Other chunks may fail the same run at the same moment, with the same word. */
static void fail_run(struct run *run)
{
    __atomic_store_n(&run->err, ERR_NON_FINITE, __ATOMIC_RELAXED);
}

static void store_row(const struct pass *pass, int32_t l, struct run *run, int32_t slot, int32_t r)
{
    const struct model_info *info = &pass->model->info;
    const struct hyper *hyper = &pass->model->hyper;
    const struct pages *pages = run->slots->pages;
    size_t width = (size_t)info->heads_kv * (size_t)info->head_dim;
    float *k = pass->scratch->k + (size_t)r * width;
    const float *v = pass->scratch->v + (size_t)r * width;
    pass->kernels->rope(hyper->rope_style, k, info->heads_kv, info->head_dim, hyper->rotary_dim,
        row_angles(pass, r));
    unsigned char *page = run->slots->addresses[slot / pages->page_slots];
    if (!pass->kernels->kv_store(pages->type, pages->page_slots, info->heads_kv, info->head_dim,
            page, (size_t)l * pages->layer_bytes, pages->head_bytes, slot % pages->page_slots, k,
            v)) {
        fail_run(run);
    }
}

static void store_chunk(void *context, int32_t chunk, int32_t thread)
{
    const struct attention_region *region = context;
    const struct piece *piece = &region->pass->tile->pieces[chunk];
    for (int32_t i = 0; i < piece->count && !piece->run->stored; i++) {
        store_row(region->pass, region->l, piece->run, piece->slot_from + i, piece->tile_from + i);
    }
}

void attention_store(struct pass *pass, int32_t l)
{
    struct attention_region region = {.pass = pass, .l = l};
    threads_run(pass->threads, pass->tile->piece_count, store_chunk, &region);
}

static void rotate_chunk(void *context, int32_t chunk, int32_t thread)
{
    const struct attention_region *region = context;
    const struct pass *pass = region->pass;
    const struct model_info *info = &pass->model->info;
    const struct hyper *hyper = &pass->model->hyper;
    const struct piece *piece = &pass->tile->pieces[chunk];
    size_t width = (size_t)info->heads * (size_t)info->head_dim;
    for (int32_t r = piece->tile_from; r < piece->tile_from + piece->count; r++) {
        pass->kernels->rope(hyper->rope_style, pass->scratch->q + (size_t)r * width, info->heads,
            info->head_dim, hyper->rotary_dim, row_angles(pass, r));
    }
}

void attention_rotate_q(struct pass *pass)
{
    struct attention_region region = {.pass = pass};
    threads_run(pass->threads, pass->tile->piece_count, rotate_chunk, &region);
}

/* Heads run fastest: neighbouring chunks read the same K/V head. */
static void attend_chunk(void *context, int32_t chunk, int32_t thread)
{
    const struct attention_region *region = context;
    const struct pass *pass = region->pass;
    const struct model_info *info = &pass->model->info;
    const struct piece *piece = &pass->tile->pieces[chunk / info->heads];
    const struct slots *slots = piece->run->slots;
    const struct pages *pages = slots->pages;
    int32_t head = chunk % info->heads;
    int32_t head_kv = head / (info->heads / info->heads_kv);
    size_t width = (size_t)info->heads * (size_t)info->head_dim;
    size_t at = (size_t)piece->tile_from * width + (size_t)head * (size_t)info->head_dim;
    struct attention_args args = {
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
            .head_offset =
                (size_t)region->l * pages->layer_bytes + (size_t)head_kv * pages->head_bytes},
        .scale = pass->model->hyper.attention_scale,
        .positions = slots->positions,
        .reach_left = REACH_ALL,
        .reach_right = REACH_ALL,
        .alibi_slope = 0,
    };
    pass->kernels->attention(&args, 0, piece->count);
}

void attention_attend(struct pass *pass, int32_t l)
{
    struct attention_region region = {.pass = pass, .l = l};
    int32_t chunk_count = pass->tile->piece_count * pass->model->info.heads;
    threads_run(pass->threads, chunk_count, attend_chunk, &region);
}
