/*
 * Slot intervals of a windowed row. Within the context and within the spans positions ascend, so
 * the slots in reach are one run in each: two binary searches a part. The parts are joined when
 * they touch, so that an unwindowed row is always one interval.
 */
#include "engine/attn/mask.h"

#include <stddef.h>
#include "engine/base/attr.h"

/* First slot of [from, to) whose position is at least `position`; `to` if there is none. */
static int32_t first_at_least(const int32_t *positions, int32_t from, int32_t to, int64_t position)
{
    while (from < to) {
        const int32_t middle = from + (to - from) / 2;
        if ((int64_t)positions[middle] < position) {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    return from;
}

int32_t mask_intervals(int32_t context_count, int32_t q, const int32_t *positions,
    int32_t reach_left, int32_t reach_right, struct slot_interval out[2])
{
    const int32_t visible = mask_visible(context_count, q);
    if (reach_left == REACH_ALL && reach_right == REACH_ALL) {
        out[0] = (struct slot_interval){0, visible};
        return 1;
    }
    const int64_t left = (int64_t)positions[q] - reach_left;
    const int64_t right = (int64_t)positions[q] + reach_right;
    const int32_t borders[] = {0, MIN(context_count, visible), visible};
    int32_t count = 0;
    for (int part = 0; part < 2; part++) {
        const int32_t from = first_at_least(positions, borders[part], borders[part + 1], left);
        const int32_t to = first_at_least(positions, from, borders[part + 1], right + 1);
        if (from == to) {
            continue;
        }
        if (count == 1 && out[0].to == from) {
            out[0].to = to;
        } else {
            out[count++] = (struct slot_interval){from, to};
        }
    }
    return count;
}
