/*
 * /infill in mode rerank with a scripted engine: what each item of a job "said" is written down by
 * the test, letter by letter, and jobs follow each other as the worker would have them.
 */
#ifndef TESTS_UNIT_API_RERANK_RIG_H
#define TESTS_UNIT_API_RERANK_RIG_H

#include "engine/base/assert.h"
#include "tests/unit/api/plan_rig.h"

enum { SAID_MAX = 40, ITEMS_MAX = 64, TOPS_MAX = 8 };

/* What an item came to: of a DECODE its letters, of a FORCE one log-probability for all. */
struct said {
    const char *letters; /* at -0.5 each; Q is the token of a space and Q */
    const char *second;  /* what else could have come at each letter, at -2; '-' = nothing */
    const char *third;   /* at -3 */
    enum finish finish;  /* FINISH_NONE: FINISH_LENGTH */
    float watched;       /* where the first letter was sampled; 0.25 less for each behind it */
    float forced;
    int32_t shown; /* FINISH_STOP_STRING: letters before the stop string */
};

struct rerank_rig {
    struct plan_rig plan;
    struct job job;
    struct item_result results[ITEMS_MAX];
    struct step_result steps[ITEMS_MAX];
    int32_t tokens[ITEMS_MAX][SAID_MAX];
    float logprobs[ITEMS_MAX][SAID_MAX], watched[ITEMS_MAX][SAID_MAX];
    char texts[ITEMS_MAX][SAID_MAX];
    struct token_logprob top[ITEMS_MAX][SAID_MAX * TOPS_MAX];
};

void rerank_rig_open(struct rerank_rig *rig);
void rerank_rig_close(struct rerank_rig *rig);
const struct plan *rerank_rig_planned(const struct rerank_rig *rig);
/* Plans a body that must be good. */
void rerank_rig_plan(struct rerank_rig *rig, const char *body);

/* The planned job ran, items past `count` said what the last one did; what is next is planned. */
enum err rerank_rig_take(
    struct rerank_rig *rig, const struct said *said, int32_t count, bool *out_more);
/* The same, and its results are overwritten. True: there is another job. */
bool rerank_rig_run(struct rerank_rig *rig, const struct said *said, int32_t count);
#define RUN(rig, ...)                                                                              \
    rerank_rig_run(rig, (const struct said[]){__VA_ARGS__},                                        \
        (int32_t)ARRAY_COUNT(((const struct said[]){__VA_ARGS__})))

/* The prompts of all planned items. */
void rerank_rig_items(const struct rerank_rig *rig, const char *const *expected);
#define ITEMS(rig, ...) rerank_rig_items(rig, (const char *const[]){__VA_ARGS__, NULL})
/* What an item is to be scored by. */
void rerank_rig_right(const struct rerank_rig *rig, int32_t item, const char *right);
/* The reply holds each of the parts. */
void rerank_rig_reply(struct rerank_rig *rig, const char *const *parts);
#define REPLY(rig, ...) rerank_rig_reply(rig, (const char *const[]){__VA_ARGS__, NULL})

#endif
