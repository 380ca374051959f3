/*
 * What the two modes of /infill's gap form share: the gaps as read from the body, and what is known
 * of their fills. Reading, hybrid plans and replies: api/infill_gaps.c; fim plans:
 * api/infill_gaps_fim.c. Private to api/.
 */
#ifndef API_INFILL_GAPS_H
#define API_INFILL_GAPS_H

#include "api/fim.h"
#include "api/infill.h"

/* One gap with its options resolved. */
struct gap {
    const char *id; /* NULL = none */
    int64_t tokens_max;
    int32_t tokens_min, reserve; /* reserve: 0 = not given */
    bool until_length;
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

    /* A chain: the gaps of mode fim one after the other, a job each, as each sees the text of the
     * fills before it. */
    bool chain;
    int32_t current;           /* the gap of the running, or last, job */
    struct step_result *fills; /* [gap_count]: of the gaps before it */
    struct fim_plan_notes {
        enum fim_layout layout;
        struct sampling sampling;
        struct call_ids stops;
    } fim;
};

/* "/text" or "/segments": where the body has what does not fit. */
const char *infill_gaps_where(const struct call *call);
/* Stops, floor and end of a gap's step. */
MUST_USE enum err infill_gaps_step(
    struct call *call, const struct gap *gap, struct plan_step *step, struct err_info *info);

/* Plans all gaps at once, or the first of a chain. */
MUST_USE enum err infill_gaps_fim_plan(struct call *call, struct gaps_notes *notes,
    const struct sampling *sampling, struct err_info *info);

#endif
