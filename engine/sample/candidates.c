/*
 * Owns the filters of the sampler chain. All sums are doubles in ascending id (weights) or in rank
 * order (masses), whatever the size of the vocabulary: a filter written down from its definition
 * gives the same list, bit for bit, and the unit test does just that.
 */
#include "engine/sample/candidates.h"

#include <math.h>
#include <stdbool.h>
#include "engine/base/assert.h"

/* ---- heap of ranks: the root is kept first ---- */

static bool rank_before(struct rank a, struct rank b)
{
    return a.key < b.key || (a.key == b.key && a.index < b.index);
}

static void heap_sift_down(struct rank *heap, int32_t count, int32_t root)
{
    struct rank moving = heap[root];
    for (;;) {
        int32_t child = 2 * root + 1;
        if (child >= count) {
            break;
        }
        if (child + 1 < count && rank_before(heap[child + 1], heap[child])) {
            child++;
        }
        if (!rank_before(heap[child], moving)) {
            break;
        }
        heap[root] = heap[child];
        root = child;
    }
    heap[root] = moving;
}

void candidates_heap(struct rank *heap, int32_t count)
{
    for (int32_t i = count / 2 - 1; i >= 0; i--) {
        heap_sift_down(heap, count, i);
    }
}

void candidates_heap_pop(struct rank *heap, int32_t count)
{
    heap[0] = heap[count - 1];
    heap_sift_down(heap, count - 1, 0);
}

/* Keeps the shortest list in order of (key, index) that has k_max tokens or whose weights reach
 * mass_min. Rounding may leave the whole sum below mass_min: then everything is kept. */
static void keep_ranked(struct candidates *candidates, int32_t k_max, double mass_min)
{
    struct rank *heap = candidates->heap;
    int32_t left = candidates->count;
    for (int32_t i = 0; i < left; i++) {
        heap[i] = (struct rank){candidates->entries[i].key, i};
    }
    candidates_heap(heap, left);
    struct rank last = heap[0];
    double mass = 0;
    for (int32_t kept = 1; left > 0; kept++) {
        last = heap[0];
        mass += candidates->entries[last.index].weight;
        if (kept == k_max || mass >= mass_min) {
            break;
        }
        candidates_heap_pop(heap, left--);
    }
    int32_t count = 0;
    for (int32_t i = 0; i < candidates->count; i++) {
        struct rank rank = {candidates->entries[i].key, i};
        if (!rank_before(last, rank)) {
            candidates->entries[count++] = candidates->entries[i];
        }
    }
    candidates->count = count;
}

/* ---- softmax ---- */

int32_t candidates_best(const struct candidates *candidates)
{
    ASSERT(candidates->count >= 1);
    int32_t best = 0;
    for (int32_t i = 1; i < candidates->count; i++) {
        if (candidates->entries[i].logit > candidates->entries[best].logit) {
            best = i;
        }
    }
    return best;
}

double candidates_weigh(struct candidates *candidates)
{
    double best = candidates->entries[candidates_best(candidates)].logit;
    double sum = 0;
    for (int32_t i = 0; i < candidates->count; i++) {
        struct candidate *entry = &candidates->entries[i];
        entry->weight = exp(entry->logit - best);
        sum += entry->weight;
    }
    return sum;
}

/* ---- filters ---- */

void candidates_top_k(struct candidates *candidates, int32_t k)
{
    if (k <= 0 || k >= candidates->count) {
        return;
    }
    for (int32_t i = 0; i < candidates->count; i++) {
        candidates->entries[i].key = -candidates->entries[i].logit;
        candidates->entries[i].weight = 0;
    }
    keep_ranked(candidates, k, INFINITY);
}

void candidates_typical_p(struct candidates *candidates, double p)
{
    if (p >= 1) {
        return;
    }
    double best = candidates->entries[candidates_best(candidates)].logit;
    double sum = candidates_weigh(candidates);
    double log_sum = log(sum);
    double entropy = 0;
    for (int32_t i = 0; i < candidates->count; i++) {
        struct candidate *entry = &candidates->entries[i];
        entry->key = log_sum - (entry->logit - best); /* -log p */
        entropy += entry->weight / sum * entry->key;
    }
    for (int32_t i = 0; i < candidates->count; i++) {
        candidates->entries[i].key = fabs(candidates->entries[i].key - entropy);
    }
    keep_ranked(candidates, candidates->count, p * sum);
}

void candidates_top_p(struct candidates *candidates, double p)
{
    if (p >= 1) {
        return;
    }
    double sum = candidates_weigh(candidates);
    for (int32_t i = 0; i < candidates->count; i++) {
        candidates->entries[i].key = -candidates->entries[i].logit;
    }
    keep_ranked(candidates, candidates->count, p * sum);
}

void candidates_min_p(struct candidates *candidates, double p)
{
    if (p <= 0) {
        return;
    }
    double least = candidates->entries[candidates_best(candidates)].logit + log(fmin(p, 1));
    int32_t count = 0;
    for (int32_t i = 0; i < candidates->count; i++) {
        if (candidates->entries[i].logit >= least) {
            candidates->entries[count++] = candidates->entries[i];
        }
    }
    candidates->count = count;
}

void candidates_temperature(struct candidates *candidates, double temperature)
{
    ASSERT(temperature > 0);
    if (temperature == 1) {
        return;
    }
    for (int32_t i = 0; i < candidates->count; i++) {
        candidates->entries[i].logit /= temperature;
    }
}

/* ---- draw ---- */

int32_t candidates_draw(struct candidates *candidates, double u)
{
    double target = candidates_weigh(candidates) * u;
    double mass = 0;
    int32_t drawn = 0;
    for (int32_t i = 0; i < candidates->count; i++) {
        if (candidates->entries[i].weight > 0) {
            drawn = i; /* u * sum may round up to the sum: then the last possible token */
        }
        mass += candidates->entries[i].weight;
        if (mass > target) {
            break;
        }
    }
    return drawn;
}
