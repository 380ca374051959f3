/* The forms of /classify beside moderation; each plans and writes its reply. Private to api/. */
#ifndef API_CLASSIFY_H
#define API_CLASSIFY_H

#include "api/decision.h"

/* `labels`: which of these labels fits each input, or, with multi_label, does each of them. */
MUST_USE enum err classify_labels_plan(struct call *call, struct err_info *info);
/* call_job_error, which names the text of a list that a failed item is about. */
MUST_USE enum err classify_labels_job_error(
    const struct call *call, const struct job *job, struct err_info *info);
MUST_USE enum err classify_labels_encode(
    struct call *call, const struct job *job, struct json_out *out, struct err_info *info);
/* [{"score":..., "label":...}, ...] of at most LIMIT_CHOICES labels, best first; equal ones keep
 * their order. `raw`: log-odds for probabilities. */
void classify_write_ranked(struct json_out *out, const struct bound_text *labels,
    const float *probabilities, int32_t count, bool raw);
/* `questions`: predicates, choices and scores about one input. */
MUST_USE enum err classify_questions_plan(struct call *call, struct err_info *info);
MUST_USE enum err classify_questions_encode(
    struct call *call, const struct job *job, struct json_out *out, struct err_info *info);

#endif
