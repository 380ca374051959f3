/*
 * One running item of a plan: its slots, how far they are computed, and the little program of
 * steps that follows the prompt.
 *
 * A sequence is driven by two questions, both answered here and nowhere else:
 *     seq_next      what does it need now: rows computed, logits of a row, or nothing more?
 *     seq_consume   here are logits: score, choose or sample, and move on.
 * Everything else (who runs when, which rows share a pass) is the scheduler's business.
 *
 * slot_count tokens are known, the first `stored` of them have K/V. A prediction is made from a
 * hidden row: `hidden` of the newest row, or the row saved from the prompt for a step with a
 * read_row. The last token of a gap is fed only when a later step needs rows after it.
 *
 * K/V may come from elsewhere (the reuse store) and may be lost again (preemption). What was read
 * from a row is read once: rows before `taken` are computed again for their K/V alone, so that a
 * preempted sequence goes on as if nothing had happened.
 */
#ifndef ENGINE_SCHED_SEQ_H
#define ENGINE_SCHED_SEQ_H

#include "engine/blocks/pooling.h"
#include "engine/cache/pages.h"
#include "engine/job.h"
#include "engine/kernels/kernels.h"
#include "engine/sample/border.h"
#include "engine/sample/sampler.h"
#include "engine/sample/stop.h"
#include "engine/sched/token_mask.h"
#include "engine/text/tokenizer.h"

enum { SEQ_BANNED_MAX = LIMIT_END_TOKENS + LIMIT_STOP_TOKENS };

struct seq {
    /* Which item this is; job == NULL means the slot of the pool is free. */
    struct job *job;
    const struct plan_item *item;
    struct item_result *result;
    int32_t item_index;

    struct slots slots;
    int32_t *tokens; /* [context] in slot order; the sampler's history too */
    int32_t slot_count, stored;
    int32_t slots_max; /* slots it can come to need */
    int32_t taken;     /* rows [0, taken) are consumed; at least `stored` except after preemption */
    int32_t cached;    /* prompt rows whose K/V were found when it started */
    int32_t reread;    /* next of the rows to read again (seq_reread) */
    bool paused;       /* preempted: it holds no pages and waits to be resumed */
    int32_t stack;     /* of adapters on all its rows; 0 = none */
    uint64_t age;      /* order of starting; kept through preemption */
    struct sched_park *park; /* where the residuals of a context block lie that runs in slices */
    bool chosen;             /* has its rows of this step */
    enum err err;

    /* The program. */
    int32_t step, step_tokens; /* tokens this step has produced */
    int32_t step_slot;         /* slot of the step's first token */
    int32_t saved_index;       /* which saved row the current step's read_row is */
    bool step_open;            /* seq_next has set the step up */
    bool hidden_ready;         /* `hidden` belongs to slot slot_count - 1 */
    float *hidden;             /* [hidden] of the newest row */
    float *saved;              /* [saved rows][hidden], in result->saved_hidden */

    struct pool pool;
    double *pool_sum; /* [max(hidden, vector)] */
    bool vector_due;  /* the pool is closed, and what remains is up to seq_finish_vector */
    struct detokenizer detokenizer;
    struct stop_matcher stop;
    enum border border; /* of the next token */
    struct ending ending;
    struct mask_state mask; /* of a step with a grammar */
    int32_t text_bytes;     /* released in this step; the result's as far as they are shown */
    int64_t now_us;         /* set before seq_consume when the plan has a predict_us */
    int64_t first_us;       /* now_us of the step's first token */
};

/* What a sequence needs next. */
enum seq_need {
    SEQ_ROWS,   /* rows [stored, slot_count) */
    SEQ_LOGITS, /* logits of seq_logits_row() */
    SEQ_DONE,
    SEQ_WAITS, /* a stream without room for its events: the client must read first */
};

/* What the engine thread lends to sequences while they consume logits. */
struct seq_tools {
    const struct tokenizer *tokenizer;
    const struct kernels *kernels;
    int32_t vocab, hidden;
    int32_t vector;   /* numbers of a pooled vector; another than hidden where a head is dense */
    bool dense;       /* pooled vectors pass the host's dense head */
    bool vector_norm; /* and a layer norm */
    struct stack_table stacks;
    const int32_t *ends; /* tokens that end a text */
    int32_t end_count;
    const struct mask_table *masks; /* for steps with a grammar */
};

/* Starts an item in a free pool slot. Pages are the caller's to hold before rows are computed. */
void seq_start(struct seq *seq, struct job *job, int32_t item_index, const struct seq_tools *tools);
/* Opens steps as far as possible without numbers, and says what is missing. */
enum seq_need seq_next(struct seq *seq, const struct seq_tools *tools);
/* The hidden row the next prediction is made from; only after SEQ_LOGITS. */
const float *seq_logits_row(const struct seq *seq, const struct seq_tools *tools);
/* Logits [vocab] of that row: records a log-probability, reads labels or samples a token, and
 * appends what follows. Thread-safe between different sequences. */
void seq_consume(struct seq *seq, const struct seq_tools *tools, struct sample_scratch *scratch,
    struct mask_walk *walk, const float *logits);

/* True when row `slot` has to be read once it is computed (pooling, a saved row, a score, the next
 * prediction). */
bool seq_reads_slot(const struct seq *seq, int32_t slot);
/* True when the logits of row `slot` score the token in slot + 1 (prompt or forced). */
bool seq_scores_slot(const struct seq *seq, int32_t slot);
/* Takes the final hidden state of a computed row that seq_reads_slot named; rows come in slot
 * order. */
void seq_take_hidden(
    struct seq *seq, const struct seq_tools *tools, int32_t slot, const float *hidden);
/* Records the score of slot + 1 from the logits of row `slot`. */
void seq_take_score(
    struct seq *seq, const struct seq_tools *tools, int32_t slot, const float *logits);
/* Rows up to `stored` are computed; when the prompt is complete, the token vectors are checked or
 * the pool is closed: the vector is due then. */
void seq_rows_stored(struct seq *seq, const struct seq_tools *tools, int32_t stored);
/* Hands out the vector that was due, once the dense head, if any, has been over pool_sum. */
void seq_finish_vector(struct seq *seq, const struct seq_tools *tools);
/* Prompt rows whose K/V may come from the reuse store: causal rows up to the first one that
 * something is read from, or a context block as a whole. 0 = none. */
int32_t seq_reuse_limit(const struct seq *seq);
/* Whether others may start from what this sequence has stored. */
bool seq_shares(const struct seq *seq);
/* The K/V of rows [0, stored) are in the pages, from the reuse store. */
void seq_attach(struct seq *seq, int32_t stored);
/* The pages are gone; all that was made of them stays. */
void seq_detach(struct seq *seq);
/* Rows of a reused context block that predictions are made from: their hidden states were not kept,
 * so each is computed once more over the stored K/V. Returns the slot of the next one at *index or
 * later and moves *index behind it; -1 when there is none (now). */
int32_t seq_reread(const struct seq *seq, int32_t *index);
/* Rows that are computed as a prompt is: the prompt, and what preemption made it lose. */
int32_t seq_prompt_end(const struct seq *seq);
/* In this step: a stream whose client must read first. All its items wait. */
bool seq_blocked(const struct seq *seq);
/* Ends the item early with an error; the first error wins. */
void seq_fail(struct seq *seq, enum err err, const char *text);

/* Slots the item's prompt takes. */
static inline int32_t seq_prompt_count(const struct seq *seq)
{
    return seq->item->token_count;
}

#endif
