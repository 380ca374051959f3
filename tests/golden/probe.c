/* See probe.h. Lists grow by doubling at powers of two, so that they need no capacity field. */
#include "tests/golden/probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOGIT_ROWS = 64 /* heads computed at a time */ };

static void *checked(void *block)
{
    if (block == NULL) {
        fprintf(stderr, "probe: out of memory\n");
        exit(1);
    }
    return block;
}

/* Room for one element more in a list of `count`. */
static void *grown(void *list, int32_t count, size_t size)
{
    bool full = (count & (count - 1)) == 0;
    size_t capacity = count > 0 ? 2 * (size_t)count : 1;
    return full ? checked(realloc(list, capacity * size)) : list;
}

static int32_t *copied(const int32_t *ints, int32_t count)
{
    int32_t *copy = checked(malloc(((size_t)count + 1) * sizeof(*copy)));
    memcpy(copy, ints, (size_t)count * sizeof(*copy));
    return copy;
}

int32_t probe_sequence(struct probe_set *set, const int32_t *tokens, const int32_t *positions,
    int32_t count, int32_t context_count)
{
    set->sequences = grown(set->sequences, set->sequence_count, sizeof(*set->sequences));
    set->sequences[set->sequence_count] = (struct forward_sequence){.tokens = copied(tokens, count),
        .positions = positions != NULL ? copied(positions, count) : NULL,
        .count = count,
        .context_count = context_count};
    return set->sequence_count++;
}

struct probe *probe_add(struct probe_set *set, int32_t sequence, int32_t slot)
{
    set->probes = grown(set->probes, set->probe_count, sizeof(*set->probes));
    struct probe *probe = &set->probes[set->probe_count++];
    *probe = (struct probe){.sequence = sequence, .slot = slot};
    return probe;
}

/* Each sequence reads the interval of slots its probes lie in. */
static void place_reads(struct probe_set *set, int32_t width)
{
    for (int32_t i = 0; i < set->probe_count; i++) {
        struct forward_sequence *sequence = &set->sequences[set->probes[i].sequence];
        int32_t slot = set->probes[i].slot;
        int32_t to = sequence->read_from + sequence->read_count;
        bool first = sequence->read_count == 0;
        sequence->read_from = first ? slot : MIN(sequence->read_from, slot);
        sequence->read_count = (first ? slot + 1 : MAX(to, slot + 1)) - sequence->read_from;
    }
    for (int32_t i = 0; i < set->sequence_count; i++) {
        struct forward_sequence *sequence = &set->sequences[i];
        sequence->hidden = checked(
            calloc((size_t)sequence->read_count * (size_t)width + 1, sizeof(*sequence->hidden)));
    }
}

void probe_run(struct forward *forward, struct probe_set *set, probe_check *check, void *context)
{
    size_t width = (size_t)forward->width, vocab = (size_t)forward->vocab;
    place_reads(set, forward->width);
    forward_run(forward, set->sequences, set->sequence_count);
    float *hidden = checked(malloc(LOGIT_ROWS * width * sizeof(*hidden)));
    float *logits = checked(malloc(LOGIT_ROWS * vocab * sizeof(*logits)));
    for (int32_t from = 0; from < set->probe_count; from += LOGIT_ROWS) {
        int32_t count = MIN(set->probe_count - from, LOGIT_ROWS);
        for (int32_t r = 0; r < count; r++) {
            const struct probe *probe = &set->probes[from + r];
            const struct forward_sequence *sequence = &set->sequences[probe->sequence];
            size_t row = (size_t)(probe->slot - sequence->read_from);
            memcpy(hidden + (size_t)r * width, sequence->hidden + row * width,
                width * sizeof(*hidden));
        }
        forward_logits(forward, hidden, count, logits);
        for (int32_t r = 0; r < count; r++) {
            check(context, &set->probes[from + r], logits + (size_t)r * vocab);
        }
    }
    free(hidden);
    free(logits);
}

void probe_free(struct probe_set *set)
{
    for (int32_t i = 0; i < set->sequence_count; i++) {
        free((void *)(uintptr_t)set->sequences[i].tokens);
        free((void *)(uintptr_t)set->sequences[i].positions);
        free(set->sequences[i].hidden);
    }
    free(set->sequences);
    free(set->probes);
    *set = (struct probe_set){0};
}
