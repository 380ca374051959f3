/*
 * Reference attention: for each row an online softmax over the slots it sees, in double.
 *
 * Only visible slots are ever read. That is the rule the fast kernels must keep with blends: a slot
 * that is not stored yet may hold a NaN, and 0 x NaN is NaN.
 */
#include <math.h>
#include "engine/attn/mask.h"
#include "engine/base/assert.h"
#include "engine/base/half.h"
#include "engine/kernels/ref/ref.h"

static double kv_number(enum kv_type type, const unsigned char *region, size_t index)
{
    if (type == KV_F16) {
        return (double)half_from_f16(((const uint16_t *)(const void *)region)[index]);
    }
    return (double)((const float *)(const void *)region)[index];
}

/* q . K[slot] * scale, with the ALiBi penalty. */
static double score(
    const struct attention_args *args, const float *q, int32_t slot, int64_t distance)
{
    const struct kv_view *kv = &args->kv;
    const unsigned char *region = kv->pages[slot / kv->page_slots] + kv->head_offset;
    const size_t in_page = (size_t)(slot % kv->page_slots);
    const size_t first = in_page / KV_TILE * KV_TILE * (size_t)kv->head_dim + in_page % KV_TILE;
    double sum = 0;
    for (size_t d = 0; d < (size_t)kv->head_dim; d++) {
        sum += (double)q[d] * kv_number(kv->type, region, first + d * KV_TILE);
    }
    return sum * (double)args->scale - (double)args->alibi_slope * (double)distance;
}

static void add_value(const struct kv_view *kv, int32_t slot, double weight, double *sums)
{
    const unsigned char *region = kv->pages[slot / kv->page_slots] + kv->head_offset;
    const size_t dims = (size_t)kv->head_dim;
    const size_t first = ((size_t)kv->page_slots + (size_t)(slot % kv->page_slots)) * dims;
    for (size_t d = 0; d < dims; d++) {
        sums[d] += weight * kv_number(kv->type, region, first + d);
    }
}

static void attend_row(const struct attention_args *args, int32_t row)
{
    const int32_t slot_q = args->slot_from + row;
    const int32_t visible = mask_visible(args->context_count, slot_q);
    const bool windowed = args->reach_left != REACH_ALL || args->reach_right != REACH_ALL;
    const bool placed = windowed || args->alibi_slope != 0;
    const float *q = args->q + (size_t)row * args->q_stride;
    double sums[HEAD_DIM_MAX] = {0};
    double greatest = -INFINITY;
    double total = 0;
    for (int32_t slot = 0; slot < visible; slot++) {
        /* Positive to the right of the query. */
        const int64_t offset =
            placed ? (int64_t)args->positions[slot] - args->positions[slot_q] : 0;
        if (windowed && (offset < -(int64_t)args->reach_left || offset > args->reach_right)) {
            continue;
        }
        const double s = score(args, q, slot, offset < 0 ? -offset : offset);
        if (s > greatest) {
            const double shrink = exp(greatest - s);
            total *= shrink;
            for (int32_t d = 0; d < args->kv.head_dim; d++) {
                sums[d] *= shrink;
            }
            greatest = s;
        }
        const double weight = exp(s - greatest);
        total += weight;
        add_value(&args->kv, slot, weight, sums);
    }
    float *out = args->out + (size_t)row * args->out_stride;
    for (int32_t d = 0; d < args->kv.head_dim; d++) {
        out[d] = (float)(sums[d] / total);
    }
}

void attention_ref(const struct attention_args *args, int32_t row_from, int32_t row_to)
{
    ASSERT(args->kv.head_dim >= 1 && args->kv.head_dim <= HEAD_DIM_MAX);
    for (int32_t row = row_from; row < row_to; row++) {
        attend_row(args, row);
    }
}
