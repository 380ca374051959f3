/*
 * See rerank_rig.h. What surprises: after a job its results are overwritten, so that nothing may
 * still point to them.
 */
#include "tests/unit/api/rerank_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

void rerank_rig_open(struct rerank_rig *rig)
{
    memset(rig, 0, sizeof(*rig));
    plan_rig_open(&rig->plan, false, false);
    rig->plan.model.infill_modes[0] = INFILL_RERANK;
    rig->plan.model.infill_modes[1] = INFILL_HYBRID;
    rig->plan.model.infill_mode_count = 2;
}

void rerank_rig_close(struct rerank_rig *rig)
{
    plan_rig_close(&rig->plan);
    assert_int_equal(mem_bytes(MEM_REQUESTS), 0);
}

const struct plan *rerank_rig_planned(const struct rerank_rig *rig)
{
    return &rig->plan.call.plan;
}

void rerank_rig_plan(struct rerank_rig *rig, const char *body)
{
    if (plan_rig_plan(&rig->plan, &endpoint_infill, body) != ERR_OK) {
        fail_msg("%s: %s: %s", body, rig->plan.info.where, rig->plan.info.text);
    }
    assert_true(rig->plan.call.asks_more);
    assert_false(rerank_rig_planned(rig)->stream);
}

static int32_t token_of(char letter)
{
    return letter == 'Q' ? TOKEN_SPACED : (unsigned char)letter;
}

/* The letter, then the others as far as they are wanted. */
static void say_top(struct rerank_rig *rig, int32_t item, int32_t k, const struct said *said)
{
    int32_t wanted = rerank_rig_planned(rig)->items[item].steps[0].top_logprobs;
    const char *others[] = {said->second, said->third};
    struct token_logprob *top = &rig->top[item][k * wanted];
    int32_t count = 0;
    if (wanted > 0) {
        top[count++] = (struct token_logprob){rig->tokens[item][k], -0.5f};
    }
    for (int32_t i = 0; i < 2 && count < wanted; i++) {
        if (others[i] != NULL && k < (int32_t)strlen(others[i]) && others[i][k] != '-') {
            top[count++] = (struct token_logprob){(unsigned char)others[i][k], -2.0f - (float)i};
        }
    }
}

static void say_decoded(struct rerank_rig *rig, int32_t item, const struct said *said)
{
    struct step_result *step = &rig->steps[item];
    const struct plan_step *planned = &rerank_rig_planned(rig)->items[item].steps[0];
    int32_t letters = (int32_t)strlen(said->letters);
    bool ended = said->finish == FINISH_EOS;
    assert_in_range(letters + ended, 0, planned->tokens_max);
    for (int32_t k = 0; k < letters + ended; k++) {
        rig->tokens[item][k] = k < letters ? token_of(said->letters[k]) : TOKEN_END;
        rig->logprobs[item][k] = -0.5f;
        rig->watched[item][k] = said->watched - 0.25f * (float)k;
        say_top(rig, item, k, said);
    }
    /* The space of a border is in no text. */
    int32_t moved = planned->border == BORDER_SPACE && planned->tokens_max > 0 ? 1 : 0;
    assert_true(moved == 0 || (letters > 0 && strchr(" Q", said->letters[0]) != NULL));
    memcpy(rig->texts[item], said->letters + moved, (size_t)(letters - moved));
    *step =
        (struct step_result){.finish = said->finish == FINISH_NONE ? FINISH_LENGTH : said->finish,
            .tokens = rig->tokens[item],
            .logprobs = rig->logprobs[item],
            .token_count = letters + ended,
            .watched = rig->watched[item],
            .top = rig->top[item],
            .text = rig->texts[item],
            .text_bytes = said->finish == FINISH_STOP_STRING ? said->shown : letters - moved,
            .stop_index = said->finish == FINISH_STOP_STRING ? 0 : -1};
    rig->results[item].generated_tokens = letters + ended;
}

static void say_forced(struct rerank_rig *rig, int32_t item, const struct said *said)
{
    const struct plan_step *planned = &rerank_rig_planned(rig)->items[item].steps[0];
    for (int32_t k = 0; k < planned->token_count; k++) {
        rig->logprobs[item][k] = said->forced;
    }
    rig->steps[item] =
        (struct step_result){.logprobs = rig->logprobs[item], .token_count = planned->token_count};
}

enum err rerank_rig_take(
    struct rerank_rig *rig, const struct said *said, int32_t count, bool *out_more)
{
    const struct plan *plan = rerank_rig_planned(rig);
    assert_in_range(plan->item_count, 1, ITEMS_MAX);
    memset(rig->results, 0, sizeof(rig->results));
    for (int32_t i = 0; i < plan->item_count; i++) {
        const struct said *one = &said[MIN(i, count - 1)];
        rig->results[i].steps = &rig->steps[i];
        rig->results[i].prompt_tokens = plan->items[i].token_count;
        if (plan->items[i].steps[0].kind == STEP_DECODE) {
            say_decoded(rig, i, one);
        } else {
            say_forced(rig, i, one);
        }
    }
    rig->job.plan = *plan;
    rig->job.results = rig->results;
    *out_more = false;
    return endpoint_infill.more(&rig->plan.call, &rig->job, out_more, &rig->plan.info);
}

bool rerank_rig_run(struct rerank_rig *rig, const struct said *said, int32_t count)
{
    bool more;
    if (rerank_rig_take(rig, said, count, &more) != ERR_OK) {
        fail_msg("more: %s", rig->plan.info.text);
    }
    if (more) { /* the job is renewed */
        memset(rig->texts, '#', sizeof(rig->texts));
        memset(rig->tokens, 0, sizeof(rig->tokens));
        memset(rig->logprobs, 0, sizeof(rig->logprobs));
        memset(rig->top, 0, sizeof(rig->top));
    }
    return more;
}

void rerank_rig_items(const struct rerank_rig *rig, const char *const *expected)
{
    int32_t count = 0;
    for (; expected[count] != NULL; count++) {
        assert_true(count < rerank_rig_planned(rig)->item_count);
        plan_rig_item(&rig->plan, count, expected[count]);
    }
    assert_int_equal(rerank_rig_planned(rig)->item_count, count);
}

void rerank_rig_right(const struct rerank_rig *rig, int32_t item, const char *right)
{
    const struct plan_step *step = &rerank_rig_planned(rig)->items[item].steps[0];
    char text[64];
    plan_rig_show(&rig->plan, step->tokens, step->token_count, text);
    assert_int_equal(step->kind, STEP_FORCE);
    assert_int_equal(step->top_logprobs, 0);
    assert_string_equal(text, right);
}

void rerank_rig_reply(struct rerank_rig *rig, const char *const *parts)
{
    struct buf reply;
    buf_init(&reply, MEM_REQUESTS, 1 << 16);
    assert_int_equal(
        endpoint_infill.encode(&rig->plan.call, &rig->job, &reply, &rig->plan.info), ERR_OK);
    for (; *parts != NULL; parts++) {
        if (strstr(reply.bytes, *parts) == NULL) {
            fail_msg("no %s in %s", *parts, reply.bytes);
        }
    }
    buf_free(&reply);
}
