/*
 * Requests planned with a vocabulary whose first 256 tokens are the bytes, so that a plan's prompt
 * can be read as text, with special tokens spelled {B} (begin), {E} (end), {P} {S} {M}
 * (fill-in-the-middle), {R} {F} (repository, file), {U} (user).
 */
#ifndef TESTS_UNIT_API_PLAN_RIG_H
#define TESTS_UNIT_API_PLAN_RIG_H

#include "api/infill_llama.h"
#include "api/routes.h"
#include "tests/unit/text/text_rig.h"

enum { FIRST_SPECIAL = 256, TOKEN_END = 257, TOKEN_NO = 264, TOKEN_SPACED, CONTEXT = 64 };

struct plan_rig {
    struct tokenizer *tokenizer;
    struct model_info model;
    struct api_limits limits;
    const struct chat_template *chat_template; /* NULL: the model has none */
    struct arena arena;
    struct call call;
    struct err_info info;
};

/* The model can do everything; its context is CONTEXT tokens. */
void plan_rig_open(struct plan_rig *rig, bool adds_bos, bool adds_eos);
void plan_rig_close(struct plan_rig *rig);
/* Decodes and plans a body in an empty arena. */
enum err plan_rig_plan(struct plan_rig *rig, const struct endpoint *endpoint, const char *body);

void plan_rig_show(const struct plan_rig *rig, const int32_t *ids, int32_t count, char *out);
/* An item of the plan must read like this. */
void plan_rig_item(const struct plan_rig *rig, int32_t item, const char *expected);
/* Plans a body that must be good; item 0 must read like this. */
void plan_rig_prompt(
    struct plan_rig *rig, const struct endpoint *endpoint, const char *body, const char *expected);
void plan_rig_refused(struct plan_rig *rig, const struct endpoint *endpoint, const char *body,
    enum err err, const char *where);
/* {"inputs":[text, text, ...]}, malloc'ed. */
char *plan_rig_inputs(int32_t count, const char *text);

#endif
