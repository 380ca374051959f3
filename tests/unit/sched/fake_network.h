/*
 * A network that is no network: every layer's "attention" is a hash of exactly the slots the mask
 * rule shows, kept as records in the real page pool. Whatever the scheduler gets wrong (a page
 * mixed up, a row that attends too early, a position off by one, a neighbour's slot seen) changes
 * the hash, and with it the answer.
 *
 * It also checks what it is given. A record names its layer, slot and position, so a stale or
 * foreign one is found when it is read; a residual names the row and the unit it belongs to, so
 * mixed-up or repeated slices are found; a slot that others see must not be written.
 * The first violation is left in `broken`, and the test says what happens then.
 *
 * Its rows depend on the stack of adapters that lies on them, of which there are two: so K/V shared
 * between stacks change answers too.
 *
 * Like the real one it clears run->err at the start of every pass, skips runs that failed, and
 * leaves rows of the last layer that nothing is read from without a value.
 */
#ifndef TESTS_UNIT_SCHED_FAKE_NETWORK_H
#define TESTS_UNIT_SCHED_FAKE_NETWORK_H

#include "engine/model/model.h"
#include "engine/sched/seq.h"
#include "tests/unit/sched/fake_vocab.h"

enum {
    FAKE_HIDDEN = 8,
    FAKE_LAYERS = 3,
    FAKE_UNITS = 2 * FAKE_LAYERS,
    FAKE_PAGE_SLOTS = 16,
};

struct fake_network {
    int32_t poison_token; /* a row of it has no finite keys; -1 = none */
    uint64_t slots_read;  /* by attention, since the caller last cleared it */
    char broken[160];     /* "" = nothing wrong so far */
};

/* What its sequences are given; `ends` is filled and must live as long. */
struct seq_tools fake_network_tools(const struct tokenizer *tokenizer,
    const struct kernels *kernels, int32_t ends[LIMIT_END_TOKENS]);
/* A pool whose slots hold the network's records. */
MUST_USE enum err fake_network_pages(struct pages *pages, int32_t count);
/* model_forward and model_logits (engine/model/model.h) of this network. */
void fake_network_forward(
    struct fake_network *network, struct batch *batch, int32_t unit_from, int32_t unit_to);
void fake_network_logits(const float *const *hidden, int32_t count, float *logits);

#endif
