/*
 * Sequences in every mask mode over a tiny model, and the bookkeeping a scheduler would do: pages,
 * residuals, runs and reads. A test adds pieces of sequences to a batch, runs it, and finds every
 * row's final hidden state beside the sequence it belongs to.
 */
#ifndef TESTS_UNIT_MODEL_RIG_H
#define TESTS_UNIT_MODEL_RIG_H

#include "tests/unit/model/tiny_llama.h"

enum { RIG_SEQS = 6, RIG_SLOTS = 544, RIG_ROWS = RIG_SEQS * RIG_SLOTS };

struct rig_seq {
    int32_t count, context_count;
    int32_t tokens[RIG_SLOTS], positions[RIG_SLOTS];
    struct slots slots;
    float *x;      /* [RIG_SLOTS, hidden] residuals */
    float *hidden; /* [RIG_SLOTS, hidden] final states, zero where not read */
    enum err err;
};

struct rig {
    struct tiny *tiny;
    struct threads *threads;
    struct scratch *scratch;
    struct pages pages;
    struct rig_seq seqs[RIG_SEQS];
    /* the batch being built */
    struct batch batch;
    int32_t tokens[RIG_ROWS], positions[RIG_ROWS];
    float *x[RIG_ROWS];
    struct run runs[RIG_ROWS];
    int32_t run_seq[RIG_ROWS];
    struct row_read reads[RIG_ROWS];
};

struct rig_config {
    int32_t tile_rows, page_slots, threads;
    enum kv_type type;
    int32_t long_rows; /* of sequence 5; 0: enough for two parts of attention */
};

/* Sequences: 0 causal, 1 bidirectional, 2 prefix-LM, 3 infill with two gaps, 4 one token,
 * 5 causal over many K/V tiles and several parts of attention. */
void rig_open(struct rig *rig, struct tiny *tiny, struct rig_config config);
void rig_close(struct rig *rig);
/* Adds rows [from, to) of a sequence as one run; `read` asks for their final hidden states. */
void rig_add(struct rig *rig, int32_t seq, int32_t from, int32_t to, bool read);
/* Runs the batch through [unit_from, unit_to) and empties it; -1 = all units. */
void rig_run(struct rig *rig, int32_t unit_from, int32_t unit_to);
/* Every sequence alone, in one pass. */
void rig_run_alone(struct rig *rig);
/* Fails the test unless the sequence's final states are the same bits. */
void rig_assert_same(const struct rig *a, const struct rig *b, int32_t seq);

#endif
