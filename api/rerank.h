/*
 * Mode rerank of /infill: candidates from the left of a gap, judged by its right. It needs nothing
 * of a model but that it continues a text, and so works with every causal checkpoint.
 *
 *     job 1   1 item "left": the greedy candidate, and what else could have come at every token
 *     job 2   K - 1 items "left + its first tokens + another token", where the model hesitated most
 *     job 3   up to 8 items "left + cut": the right's first 24 tokens forced and scored
 *
 * Candidates note at every token log p(the right's first token). A cut is a prefix of a candidate.
 * The best has the greatest log p(cut, right | left). Items share their prefixes, which the engine
 * computes once. A gap with nothing behind it is plain generation, and done after job 1.
 *
 * A space that ends the text before the gap is taken off `left`, because tokens begin with their
 * space: every candidate gives it back (BORDER_SPACE), and it is no part of a fill's text.
 *
 * Both body forms drive this: set up gaps, rerank_plan, then after each job rerank_take, and again
 * rerank_plan as long as a gap is not settled. Private to api/.
 */
#ifndef API_RERANK_H
#define API_RERANK_H

#include "api/rerank_candidate.h"

enum { RERANK_RIGHT = 24 };

enum rerank_phase { RERANK_GREEDY, RERANK_BRANCHES, RERANK_SCORES, RERANK_SETTLED };

struct rerank_gap {
    /* Set by the form. */
    struct call_ids left;
    struct call_ids space;    /* the space that was taken off; none = nothing was */
    struct call_ids right;    /* at most RERANK_RIGHT; none = plain generation */
    struct plan_step step;    /* tokens_max of a fill, floor, stops, borders, alternatives */
    struct sampling sampling; /* of candidates behind their branch, and of plain generation */
    int32_t answers; /* 1..CHOICE_SCORED_MAX that are wanted: so many are sampled when plain */
    bool whole;      /* fills of tokens_max tokens only (`until: length`) */
    int32_t n_indent;

    enum rerank_phase phase;
    int32_t item_from, item_count; /* in the job that runs */
    struct rerank_candidate *candidates;
    int32_t candidate_count;
    struct choice_branches branches;
    struct infill_fill fills[CHOICE_SCORED_MAX]; /* settled: best first; of a plain gap in order */
    int32_t fill_count;
};

/* The tokens of left and fill `index`, which lie behind each other. */
struct call_ids rerank_filled(const struct rerank_gap *gap, int32_t index);
/* Slots an item of the gap takes besides the fill. */
int64_t rerank_fixed(const struct rerank_gap *gap);
/* call->plan: what the gaps need next, in one job. One of them is not settled. */
MUST_USE enum err rerank_plan(
    struct call *call, struct rerank_gap *gaps, int32_t count, struct err_info *info);
/* Reads a job whose items all succeeded; *out_settled: all gaps are. */
MUST_USE enum err rerank_take(struct call *call, struct rerank_gap *gaps, int32_t count,
    const struct job *job, bool *out_settled, struct err_info *info);

#endif
