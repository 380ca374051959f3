/*
 * See choice.h. What surprises: there is no list of all cuts. So many times as cuts are wanted, the
 * best that may still be taken is looked for, which needs no memory and decides ties by order
 * alone.
 */
#include "api/choice.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include "engine/base/assert.h"

void choice_offer(struct choice_branches *branches, const struct choice_branch *branch)
{
    int32_t at = branches->count;
    while (at > 0 && branches->list[at - 1].total < branch->total) {
        at--;
    }
    if (at == branches->count_max) {
        return;
    }
    int32_t moved = MIN(branches->count, branches->count_max - 1) - at;
    memmove(&branches->list[at + 1], &branches->list[at], (size_t)moved * sizeof(*branch));
    branches->list[at] = *branch;
    branches->count = at + moved + 1;
}

static int32_t bytes_of(const struct choice_candidate *candidates, const struct choice_cut *cut)
{
    return candidates[cut->candidate].ends[cut->token_count];
}

static bool same_text(const struct choice_candidate *candidates, const struct choice_cut *a,
    const struct choice_cut *b)
{
    int32_t bytes = bytes_of(candidates, a);
    return bytes == bytes_of(candidates, b) &&
           memcmp(candidates[a->candidate].text, candidates[b->candidate].text, (size_t)bytes) == 0;
}

static bool is_new(const struct choice_candidate *candidates, const struct choice_cut *kept,
    int32_t count, const struct choice_cut *cut)
{
    for (int32_t i = 0; i < count; i++) {
        if (same_text(candidates, &kept[i], cut)) {
            return false;
        }
    }
    return true;
}

static double sum(const float *values, int32_t count)
{
    double total = 0;
    for (int32_t i = 0; i < count; i++) {
        total += (double)values[i];
    }
    return total;
}

/* The best cut that is not kept yet. */
static bool next_cut(const struct choice_candidate *candidates, int32_t count,
    const struct choice_cut *kept, int32_t kept_count, struct choice_cut *out_cut)
{
    double best = 0;
    bool found = false;
    for (int32_t c = 0; c < count; c++) {
        const struct choice_candidate *candidate = &candidates[c];
        double fill = 0;
        for (int32_t n = 0; n <= candidate->to; n++) {
            const struct choice_cut cut = {c, n};
            fill += n > 0 ? (double)candidate->logprobs[n - 1] : 0;
            if (n < candidate->from || candidate->ends[n] < 0) {
                continue;
            }
            double total = fill + (double)candidate->firsts[n];
            if ((!found || total > best) && is_new(candidates, kept, kept_count, &cut)) {
                best = total;
                *out_cut = cut;
                found = true;
            }
        }
    }
    return found;
}

int32_t choice_keep(const struct choice_candidate *candidates, int32_t count, int32_t wanted,
    struct choice_cut out_cuts[CHOICE_SCORED_MAX])
{
    int32_t kept = 0;
    ASSERT(wanted >= 1 && wanted <= CHOICE_SCORED_MAX);
    for (int32_t n = count > 0 ? candidates[0].to : -1; n >= 0 && n >= candidates[0].from; n--) {
        if (candidates[0].ends[n] >= 0) {
            out_cuts[kept++] = (struct choice_cut){0, n};
            break;
        }
    }
    while (kept < wanted && next_cut(candidates, count, out_cuts, kept, &out_cuts[kept])) {
        kept++;
    }
    return kept;
}

float choice_score(const float *right, int32_t right_count, const float *fill, int32_t fill_count)
{
    return (float)(sum(right, right_count) + sum(fill, fill_count));
}
