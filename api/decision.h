/*
 * Decisions: one prompt, a few options, a probability for each. Options that differ in their first
 * token are read from one row of logits; options that do not (long letter codes in some
 * vocabularies) are each forced and scored whole. Nothing is sampled.
 */
#ifndef API_DECISION_H
#define API_DECISION_H

#include "api/prompt.h"

/* Where one decision's items and results are. */
struct decision {
    int32_t first_item;
    int32_t option_count;
    bool forced; /* one item an option instead of one for all */
};

/* Items of a request as they are added. */
struct decision_list {
    struct plan_item *items; /* [LIMIT_ITEMS] */
    int32_t item_count;
};

struct decision_result {
    float *probabilities; /* [option_count], sum 1 */
    int32_t choice;
    float confidence; /* the winner's share of the whole vocabulary */
};

MUST_USE enum err decision_list_init(
    struct call *call, struct decision_list *list, struct err_info *info);
/* Adds the items of one decision: `line` is the end of the prompt ("\nAnswer:"), then comes one of
 * `options` (each with its leading space). */
MUST_USE enum err decision_add(struct call *call, struct decision_list *list,
    const struct prompt_part *parts, int32_t part_count, const char *line,
    const char *const *options, int32_t option_count, const char *where,
    struct decision *out_decision, struct err_info *info);
/* Reads a finished decision; the probabilities are in the call's arena. */
MUST_USE enum err decision_read(struct call *call, const struct job *job,
    const struct decision *decision, struct decision_result *out_result, struct err_info *info);

/* " A", " B", ..., " Z", " AA", ... */
MUST_USE enum err decision_codes(
    struct call *call, int32_t count, const char ***out_codes, struct err_info *info);

#endif
