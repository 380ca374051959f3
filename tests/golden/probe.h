/*
 * A set of sequences to run at once and the rows to look at: cases of any mask add theirs, one
 * forward pass runs them together, and each row's logits are handed to a check as they are made
 * (a row of a real vocabulary is 200 KB: they are not kept).
 */
#ifndef TESTS_GOLDEN_PROBE_H
#define TESTS_GOLDEN_PROBE_H

#include <stdbool.h>
#include <stdint.h>
#include "tests/golden/forward_helper.h"

/* What a row is to be held against; unused members are NULL or 0. */
struct probe {
    int32_t sequence, slot;
    const float *reference; /* logits [vocab], the caller's */
    int32_t token;          /* chosen or given next */
    double gap;             /* by which it leads all others that are not banned */
    bool gap_is_least;      /* it leads by that much or more */
    double logprob;         /* of `token` */
    const void *extra;      /* the caller's */
};

struct probe_set {
    struct forward_sequence *sequences; /* tokens and positions are owned copies */
    struct probe *probes;
    int32_t sequence_count, probe_count;
};

typedef void probe_check(void *context, const struct probe *probe, const float *logits);

/* Copies tokens and positions (NULL = 0, 1, 2, ...). Returns the sequence's index. */
int32_t probe_sequence(struct probe_set *set, const int32_t *tokens, const int32_t *positions,
    int32_t count, int32_t context_count);
/* A zeroed probe of one row; valid until the next is added. */
struct probe *probe_add(struct probe_set *set, int32_t sequence, int32_t slot);
/* Runs everything and calls check for every probe, in the order they were added. */
void probe_run(struct forward *forward, struct probe_set *set, probe_check *check, void *context);
void probe_free(struct probe_set *set);

#endif
