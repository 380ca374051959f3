/*
 * A candidate of mode rerank: what one item wrote, behind the tokens it was made to begin with,
 * copied from the job that wrote it, and where its text may be cut. Private to api/.
 */
#ifndef API_RERANK_CANDIDATE_H
#define API_RERANK_CANDIDATE_H

#include "api/choice.h"
#include "api/infill.h"
#include "engine/sample/border.h"

struct rerank_candidate {
    struct call_ids tokens; /* without an end token; at most the fill's */
    struct bound_text text; /* of all of them, without the space of the gap's border */
    struct ending ending;   /* of that text */
    struct choice_candidate view;
    /* [(tokens.count + 1) * alternatives that the request wants] */
    const struct token_logprob *top;
    enum finish finish;
    int32_t stop_index;
};

/* What candidates of a gap have in common. */
struct rerank_rules {
    const struct plan_step *step; /* of the gap (rerank.h) */
    bool whole;
    int32_t n_indent;
};

/* `tops`: alternatives a token in `result`. branch: where it left `greedy`; NULL = nowhere, and
 * `greedy` is not looked at. */
MUST_USE enum err rerank_candidate_read(struct call *call, const struct rerank_rules *rules,
    const struct step_result *result, int32_t tops, const struct rerank_candidate *greedy,
    const struct choice_branch *branch, struct rerank_candidate *out, struct err_info *info);
/* The likeliest places to leave the greedy candidate, which `result` is of. */
void rerank_candidate_branches(const struct call *call, const struct rerank_rules *rules,
    const struct rerank_candidate *greedy, const struct step_result *result, int32_t tops,
    const struct sampling *sampling, struct choice_branches *branches);
/* Where no candidate has a cut: as far as the greedy one is whole, which may be no token at all. */
struct choice_cut rerank_candidate_longest(const struct rerank_candidate *greedy);

#endif
