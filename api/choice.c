/*
 * See choice.h. What surprises: there is no list of all cuts. Sixteen times the best cut
 * that may still be taken is looked for, which needs no memory and decides ties by order alone.
 */
#include "api/choice.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

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

static bool may_take(const struct choice_candidate *candidates, const struct choice_cut *kept,
    int32_t count, const struct choice_cut *cut)
{
    int32_t of_one = 0;
    for (int32_t i = 0; i < count; i++) {
        of_one += kept[i].candidate == cut->candidate;
        if (same_text(candidates, &kept[i], cut)) {
            return false;
        }
    }
    return of_one < CHOICE_OF_ONE;
}

int32_t choice_keep(const struct choice_candidate *candidates, int32_t count,
    struct choice_cut out_cuts[CHOICE_KEPT])
{
    int32_t kept = 0;
    for (bool found = true; found && kept < CHOICE_KEPT; kept += found) {
        float best = 0;
        found = false;
        for (int32_t c = 0; c < count; c++) {
            const struct choice_candidate *candidate = &candidates[c];
            for (int32_t n = candidate->from; n <= candidate->to; n++) {
                const struct choice_cut cut = {c, n};
                if (candidate->ends[n] >= 0 && (!found || candidate->firsts[n] > best) &&
                    may_take(candidates, out_cuts, kept, &cut)) {
                    best = candidate->firsts[n];
                    out_cuts[kept] = cut;
                    found = true;
                }
            }
        }
    }
    return kept;
}

static double mean(const float *values, int32_t count)
{
    double sum = 0;
    for (int32_t i = 0; i < count; i++) {
        sum += (double)values[i];
    }
    return count > 0 ? sum / count : 0;
}

float choice_score(const float *right, int32_t right_count, const float *fill, int32_t fill_count)
{
    return (float)(mean(right, right_count) + 0.3 * mean(fill, fill_count));
}
