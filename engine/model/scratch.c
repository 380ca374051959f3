/*
 * The working memory of a pass: one block, cut into the tile's lists and its activations. The
 * size is computed by the same walk that hands the pieces out, so that what the memory plan states
 * is what is allocated.
 */
#include "engine/base/assert.h"
#include "engine/base/mem.h"
#include "engine/kernels/int8_row.h"
#include "engine/model/parts.h"

enum { PART_ALIGNMENT = 64 };

_Static_assert(ROPES_MAX == 2, "cut_scratch cuts the angles of two");

/* Hands out parts of one block; with base NULL it only counts. Sizes are far from overflow: at
 * most 4096 rows of numbers bounded by engine_limits.h. */
struct cutter {
    unsigned char *base;
    size_t used;
};

static void *cut(struct cutter *cutter, size_t count, size_t size)
{
    void *part = cutter->base == NULL ? NULL : cutter->base + cutter->used;
    cutter->used += (count * size + PART_ALIGNMENT - 1) / PART_ALIGNMENT * PART_ALIGNMENT;
    return part;
}

size_t scratch_prepared_bytes(const struct model_info *info, int32_t inputs)
{
    return info->int8_activations ? int8_row_bytes(inputs)
                                  : (size_t)(inputs / SUM_INPUTS) * sizeof(float);
}

static struct scratch *cut_scratch(
    struct cutter *cutter, const struct model_info *info, int32_t tile_rows)
{
    size_t rows = (size_t)tile_rows;
    size_t width_q = (size_t)info->heads * (size_t)info->head_dim;
    size_t width_kv = (size_t)info->heads_kv * (size_t)info->head_dim;
    size_t dense = (size_t)dense_rows(tile_rows) * (size_t)info->dense_widest;
    int32_t widest = MAX(MAX(info->hidden, info->ffn), info->heads * info->head_dim);
    widest = MAX(widest, info->dense_widest);
    struct scratch *scratch = cut(cutter, 1, sizeof(struct scratch));
    struct scratch parts = {
        .tile_rows = tile_rows,
        .tile =
            {
                .rows = cut(cutter, rows, sizeof(int32_t)),
                .place = cut(cutter, rows, sizeof(int32_t)),
                .pieces = cut(cutter, rows, sizeof(struct piece)),
                .spans = cut(cutter, rows, sizeof(struct span)),
                .cos_sin = {cut(cutter, rows * (size_t)info->head_dim, sizeof(float)),
                    cut(cutter, rows * (size_t)info->head_dim, sizeof(float))},
            },
        .h = cut(cutter, rows * (size_t)info->hidden, sizeof(float)),
        .q = cut(cutter, rows * width_q, sizeof(float)),
        .attended = cut(cutter, rows * width_q, sizeof(float)),
        .states = cut(cutter,
            (size_t)STATE_PARTS * (size_t)info->heads * attention_state_floats(info->head_dim),
            sizeof(float)),
        .k = cut(cutter, rows * width_kv, sizeof(float)),
        .v = cut(cutter, rows * width_kv, sizeof(float)),
        .gate = cut(cutter, rows * (size_t)info->ffn, sizeof(float)),
        .prepared = cut(cutter, rows, scratch_prepared_bytes(info, widest)),
        .dense = {cut(cutter, dense, sizeof(float)), cut(cutter, dense, sizeof(float))},
        .low = cut(cutter, rows * (size_t)info->adapter_width, sizeof(float)),
    };
    if (scratch != NULL) {
        *scratch = parts;
    }
    return scratch;
}

uint64_t scratch_bytes(const struct model_info *info, int32_t tile_rows)
{
    ASSERT(tile_rows >= 1 && tile_rows <= TILE_ROWS_MAX);
    struct cutter cutter = {0};
    (void)cut_scratch(&cutter, info, tile_rows);
    return cutter.used;
}

enum err scratch_open(const struct model *model, int32_t tile_rows, struct scratch **out_scratch)
{
    size_t bytes = scratch_bytes(&model->info, tile_rows);
    struct cutter cutter = {.base = mem_alloc(MEM_SCRATCH, bytes)};
    if (cutter.base == NULL) {
        return ERR_NO_MEMORY;
    }
    *out_scratch = cut_scratch(&cutter, &model->info, tile_rows);
    ASSERT(cutter.used == bytes);
    return ERR_OK;
}

void scratch_close(struct scratch *scratch)
{
    mem_free(scratch); /* the first part of its own block */
}
