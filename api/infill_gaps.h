/*
 * What the modes of /infill's gap form share: the gaps as read from the body, and what is known of
 * their fills. Private to api/.
 *
 *     infill_gaps.c         reading, hybrid plans
 *     infill_gaps_chain.c   text and budgets of modes that see only what is before a gap
 *     infill_gaps_fim.c, infill_gaps_rerank.c   their plans
 *     infill_gaps_reply.c   replies and frames
 */
#ifndef API_INFILL_GAPS_H
#define API_INFILL_GAPS_H

#include "api/fim.h"
#include "api/rerank.h"

/* One gap with its options resolved. */
struct gap {
    const char *id; /* NULL = none */
    int64_t tokens_max;
    int32_t tokens_min, reserve; /* reserve: 0 = not given */
    enum infill_request_until until;
    enum border border; /* BORDER_SPACE: the space before it was moved into it */
    enum behind behind;
    bool has_stop;
    struct common_stop stop;
    char where[48]; /* JSON pointer of its options; "" = the top level */
};

struct gaps_notes {
    enum infill_mode mode;
    struct bound_text *texts; /* [gap_count + 1]: what stands around the gaps */
    struct gap *gaps;
    int32_t gap_count;
    bool independent; /* an item a gap, instead of a step a gap */
    int32_t answers;  /* n; hybrid: the items of each lie behind each other */

    struct sampling sampling;

    /* A chain: gaps filled one after the other by jobs of their own, as each sees the text of the
     * fills before it. */
    bool chain;
    int32_t current;           /* the gap of the running, or last, job */
    struct infill_fill *fills; /* [gap_count]: of the gaps before it; rerank: of settled gaps */
    int32_t framed;            /* streams of mode rerank: gaps that have their frames */
    struct fim_plan_notes {
        enum fim_layout layout;
        struct call_ids stops;
    } fim;
    struct rerank_gap *rerank; /* [gap_count] */
};

/* "/text" or "/segments": where the body has what does not fit. */
const char *infill_gaps_where(const struct call *call);
/* Stops, floor and end of a gap's step. */
MUST_USE enum err infill_gaps_step(
    struct call *call, const struct gap *gap, struct plan_step *step, struct err_info *info);

/* Text before gap k, of a chain with the fills known by now. */
MUST_USE enum err infill_gaps_before(struct call *call, const struct gaps_notes *notes, int32_t k,
    struct bound_text *out_text, struct err_info *info);
/* A text far too long is refused before it is tokenized once for every gap. */
MUST_USE enum err infill_gaps_check_length(
    struct call *call, const struct gaps_notes *notes, struct err_info *info);
/* Tokens of room a gap cannot do without. */
int64_t infill_gaps_need(const struct gap *gap);
void infill_gaps_set_budget(struct gap *gap, int64_t room);
/* Cuts the budgets of all gaps of a chain. fixed[k] = slots of gap k's sequences besides fills. */
MUST_USE enum err infill_gaps_fit_chain(
    struct call *call, struct gaps_notes *notes, const int64_t *fixed, struct err_info *info);

/* Plans all gaps at once, or the first of a chain; then, after a job that succeeded, the next. */
MUST_USE enum err infill_gaps_fim_plan(
    struct call *call, struct gaps_notes *notes, struct err_info *info);
MUST_USE enum err infill_gaps_fim_more(
    struct call *call, const struct job *job, bool *out_more, struct err_info *info);
MUST_USE enum err infill_gaps_rerank_plan(
    struct call *call, struct gaps_notes *notes, struct err_info *info);
MUST_USE enum err infill_gaps_rerank_more(
    struct call *call, const struct job *job, bool *out_more, struct err_info *info);

#endif
