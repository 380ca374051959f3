/*
 * Moderation with the WildGuard template (Han et al., arXiv 2406.18495): the answer's lines are
 * forced, only the values are read, so it cannot fail to parse. On a model without a moderation
 * profile the same template gives numbers that are not calibrated; /info says so.
 */
#ifndef API_MODERATION_H
#define API_MODERATION_H

#include "api/call.h"

/* One item a prompt, and response when it is not empty or was `answered`. */
struct moderation_case {
    struct bound_text prompt, response;
    char where[64]; /* JSON pointer of the case's prompt */
    bool answered;
};

MUST_USE enum err moderation_plan(
    struct call *call, const struct moderation_case *cases, int32_t count, struct err_info *info);
/* Whether the response of a case, or its prompt if there is none, is harmful: the labels and their
 * probabilities. Returns how many there are. */
enum { MODERATION_LABELS_MAX = 3 };
int32_t moderation_labels(const struct item_result *result, bool has_response,
    struct bound_text out_labels[MODERATION_LABELS_MAX],
    float out_probabilities[MODERATION_LABELS_MAX]);
/* How likely the prompt of a case is harmful, and its response if that was judged. */
float moderation_harmful(const struct item_result *result);
float moderation_harmful_response(const struct item_result *result);
/* The three members prompt_harmfulness, response_harmfulness, response_refusal of one case, into
 * an open object. */
void moderation_write(struct json_out *out, const struct item_result *result, bool has_response);

/* OpenAI's side of it. A name by which its clients ask for a moderation model: */
bool moderation_is_alias(const struct bound_text *model);
/* parts of one message as one text, line by line; */
MUST_USE enum err moderation_join(struct call *call, const struct bound_text *parts, int32_t count,
    struct bound_text *out_text, struct err_info *info);
/* whether so likely is too likely (--moderation-threshold); */
bool moderation_flags(const struct call *call, float probability);
/* the members of a verdict, into an open object. */
void moderation_write_verdict(struct json_out *out, const struct call *call, float probability);

#endif
