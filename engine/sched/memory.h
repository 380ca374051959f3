/*
 * Who holds which K/V pages of the cache, and who gives way when they run out.
 *
 * A sequence starts with pages for its prompt and `reserve_tokens` more, less what the reuse store
 * already has of it, and takes one page after the other as it grows. When none is free:
 *     1 pages that only the reuse store holds go, least recently used first;
 *     2 a sequence is preempted, of the lowest class the youngest: its pages go, everything else of
 *       it stays, and it computes its rows again later, with the same bits.
 * The oldest sequence that could run is never preempted, and a plan that does not fit alone is
 * refused at submission: so somebody always comes to an end. Preempted sequences come back, oldest
 * first, before anything new starts. With reserve_tokens of a whole context nobody ever grows, and
 * nobody is preempted.
 *
 * A one-shot sequence has no part in this: a text that only becomes vectors, all of whose rows run
 * in one pass, or in a park layer by layer. It has pages of one layer from a pool of its own, which
 * holds as much as can run at once.
 */
#ifndef ENGINE_SCHED_MEMORY_H
#define ENGINE_SCHED_MEMORY_H

#include "engine/sched/seq.h"

struct scheduler;

enum memory_start {
    MEMORY_STARTED,
    MEMORY_NO_SEQUENCE, /* all sequences that it may take run */
    MEMORY_NO_PAGES,
    MEMORY_PREFIXED, /* a running sequence is computing rows that it would compute too */
};

/* Gives pages to a sequence that seq_start was just called for. Unless MEMORY_STARTED it holds
 * nothing and is to be started anew later. `whole`: its prompt fits this step, and the caller sees
 * to it that a one-shot sequence runs at once. */
MUST_USE enum memory_start memory_start(struct scheduler *scheduler, struct seq *seq, bool whole);
/* Gives pages to preempted sequences, as far as they go. False when one that could run is left
 * without: then nothing new starts. */
MUST_USE bool memory_resume(struct scheduler *scheduler);
/* Every sequence with rows to compute gets the pages for them, or is preempted. */
void memory_grow(struct scheduler *scheduler);
/* Lets others start from the rows stored so far. */
void memory_share(struct scheduler *scheduler, struct seq *seq);
/* The sequence is over: its pages stay in the reuse store or are free. */
void memory_release(struct scheduler *scheduler, struct seq *seq);
/* Whether the pages held suffice for all its slots. */
bool memory_suffices(const struct seq *seq);

#endif
