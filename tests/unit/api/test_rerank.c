/*
 * Goal: /infill in mode rerank plans the greedy candidate, its branches and the scored
 * continuations it documents, and answers with the best of them, in both body forms.
 * Method: a scripted engine (rerank_rig.h) over a vocabulary of bytes: what each item of a job said
 * is written down here, letter by letter. The choice itself is in test_choice.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "api/infill_gaps.h"
#include "api/json_in.h"
#include "tests/unit/api/rerank_rig.h"

/* ---- the gap form -------------------------------------------------------------------------- */

static void check_candidate(const struct plan_item *item, uint32_t index, int32_t tokens_max)
{
    const struct plan_step *step = &item->steps[0];
    assert_int_equal(item->context_count, 0);
    assert_int_equal(step->kind, STEP_DECODE);
    assert_int_equal(step->tokens_max, tokens_max);
    assert_int_equal(*step->watch, 'c');
    assert_int_equal(step->top_logprobs, index == 0 ? TOPS_MAX : 0);
    assert_true(item->sampling.temperature == 0);
    assert_int_equal(item->sampling.seed, 0);
    assert_int_equal(item->sampling.sample_index, index);
}

static void test_three_jobs(void **state)
{
    struct rerank_rig rig;
    (void)state;
    rerank_rig_open(&rig);
    rerank_rig_plan(
        &rig, "{\"text\":\"ab[gap]cdefghijklmpqrstuvwxyzABC\",\"max_tokens\":3,\"candidates\":4}");
    ITEMS(&rig, "ab");
    check_candidate(&rerank_rig_planned(&rig)->items[0], 0, 4); /* one more than a fill */
    /* p, s, and q behind x: -2, -3 and -2.5 in all; r behind xy is as likely as s and later. */
    assert_true(RUN(&rig, {.letters = "xyz!", .second = "pqr", .third = "s--", .watched = -1}));
    ITEMS(&rig, "abp", "abxq", "abs");
    check_candidate(&rerank_rig_planned(&rig)->items[0], 1, 3);
    check_candidate(&rerank_rig_planned(&rig)->items[1], 2, 2);
    check_candidate(&rerank_rig_planned(&rig)->items[2], 3, 3);
    /* Firsts behind p, pu; xq, xqv; s. A branch's own letter is judged like those behind it. */
    assert_true(RUN(&rig, {.letters = "u", .watched = -4, .finish = FINISH_EOS},
        {.letters = "v!", .watched = -2}, {.letters = "", .watched = -9, .finish = FINISH_EOS}));
    ITEMS(&rig, "abxyz", "abx", "abxy", "abxq", "abxqv", "abp", "abpu", "abs");
    for (int32_t i = 0; i < 8; i++) {
        rerank_rig_right(&rig, i, "cdefghijklmpqrstuvwxyzAB"); /* the first 24 */
    }
    assert_false(RUN(&rig, {.forced = -2}, {.forced = -2}, {.forced = -2}, {.forced = -1},
        {.forced = -1}, {.forced = -2}));
    /* -0.5 and -2 for xq, -0.5 more for xqv. */
    REPLY(&rig, "\"text\":\"abxqcdefghijklmpqrstuvwxyzABC\"",
        "{\"index\":0,\"id\":null,\"text\":\"xq\",\"start\":2,\"end\":4,\"tokens\":2,"
        "\"finish_reason\":\"stop\",\"logprob\":-2.5,\"score\":-26.5}",
        "\"mode\":\"rerank\"",
        /* 2, 3 + 4 + 3, then 31 of eight continuations with 24 behind each; all letters count */
        "\"usage\":{\"prompt_tokens\":235,\"completion_tokens\":9,");
    rerank_rig_close(&rig);
}

static void test_finish(void **state)
{
    struct rerank_rig rig;
    (void)state;
    rerank_rig_open(&rig);
    /* The whole candidate is `length`, a shorter cut `stop`. */
    rerank_rig_plan(&rig, "{\"text\":\"a[gap]b\",\"max_tokens\":2,\"candidates\":1}");
    assert_int_equal(rerank_rig_planned(&rig)->item_count, 1);
    assert_true(RUN(&rig, {.letters = "xy?", .watched = -1}));
    ITEMS(&rig, "axy", "ax");
    rerank_rig_right(&rig, 0, "b"); /* shorter than 24 */
    assert_false(RUN(&rig, {.forced = -1}, {.forced = -2}));
    REPLY(&rig, "\"text\":\"xy\"", "\"tokens\":2,\"finish_reason\":\"length\"");
    rerank_rig_plan(&rig, "{\"text\":\"a[gap]b\",\"max_tokens\":2,\"candidates\":1}");
    assert_true(RUN(&rig, {.letters = "xy?", .watched = -1}));
    assert_false(RUN(&rig, {.forced = -1.5f}, {.forced = -1})); /* the shorter by a half */
    REPLY(&rig, "\"text\":\"x\"", "\"tokens\":1,\"finish_reason\":\"stop\"");
    rerank_rig_plan(&rig, "{\"text\":\"a[gap]b\",\"max_tokens\":2,\"candidates\":1}");
    assert_true(RUN(&rig, {.letters = "xy?", .watched = -1}));
    assert_false(RUN(&rig, {.forced = -1}, {.forced = -1.5f})); /* a tie: the first kept */
    REPLY(&rig, "\"text\":\"xy\"", "\"score\":-2.0");
    /* What the greedy candidate came to is scored though eight others look better. */
    rerank_rig_plan(&rig, "{\"text\":\"a[gap]b\",\"max_tokens\":12,\"candidates\":1}");
    assert_true(RUN(&rig, {.letters = "0123456789AB!", .watched = -1}));
    ITEMS(&rig, "a0123456789AB", "a0", "a01", "a012", "a0123", "a01234", "a012345", "a0123456");
    rerank_rig_close(&rig);
}

static void test_candidates(void **state)
{
    struct rerank_rig rig;
    (void)state;
    rerank_rig_open(&rig);
    /* 8 by default. */
    rerank_rig_plan(&rig, "{\"text\":\"a[gap]b\",\"max_tokens\":9}");
    assert_true(RUN(&rig, {.letters = "012345678!", .second = "abcdefghi", .third = "ABCDEFGHI"}));
    ITEMS(&rig, "aa", "a0b", "aA", "a01c", "a0B", "a012d", "a01C");
    /* Branches go on as the request says, the greedy candidate does not. */
    rerank_rig_plan(&rig,
        "{\"text\":\"a[gap]b\",\"candidates\":32,\"temperature\":0.5,\"top_p\":0.5,"
        "\"max_tokens\":30,\"seed\":7,\"logit_bias\":[[65,1.5],[97,false]]}");
    ITEMS(&rig, "a");
    assert_true(rerank_rig_planned(&rig)->items[0].sampling.temperature == 0);
    assert_int_equal(rerank_rig_planned(&rig)->items[0].sampling.logit_bias_count, 2);
    assert_true(RUN(&rig, {.letters = "012345678901234567890123456789!",
                              .second = "abcdefghijklmnopqrstuvwxyzABCDE",
                              .third = "ABCDEFGHIJKLM"}));
    assert_int_equal(rerank_rig_planned(&rig)->item_count, 31);
    plan_rig_item(&rig.plan, 0, "aA"); /* biased: -1.5; a is banned */
    plan_rig_item(&rig.plan, 1, "a0b");
    const struct sampling *last = &rerank_rig_planned(&rig)->items[30].sampling;
    assert_true(last->temperature == 0.5f && last->top_p == 0.5f);
    assert_int_equal(last->seed, 7);
    assert_int_equal(last->sample_index, 31);
    plan_rig_refused(&rig.plan, &endpoint_infill, "{\"text\":\"a[gap]b\",\"candidates\":33}",
        ERR_INVALID, "/candidates");
    plan_rig_refused(&rig.plan, &endpoint_infill, "{\"text\":\"a[gap]b\",\"candidates\":0}",
        ERR_INVALID, "/candidates");
    rerank_rig_close(&rig);
}

/* No branch where it could have no cut, nor behind the greedy candidate's last. */
static void test_useless_branches(void **state)
{
    struct rerank_rig rig;
    (void)state;
    rerank_rig_open(&rig);
    rerank_rig_plan(
        &rig, "{\"text\":\"a[gap]b\",\"max_tokens\":3,\"stop\":[\".\"],\"min_tokens\":1}");
    assert_true(RUN(&rig, {.letters = "x.",
                              .second = ".,q",
                              .third = "p.r",
                              .watched = -1,
                              .finish = FINISH_STOP_STRING,
                              .shown = 1}));
    ITEMS(&rig, "a.", "ax,", "ap"); /* before min_tokens a stop string is none */
    assert_int_equal(rerank_rig_planned(&rig)->items[0].steps[0].tokens_min, 0);
    rerank_rig_plan(&rig, "{\"text\":\"a [gap]b\",\"max_tokens\":3}");
    assert_true(RUN(&rig,
        {.letters = " x", .second = "p ", .third = "-q", .watched = -1, .finish = FINISH_EOS}));
    ITEMS(&rig, "a q"); /* p does not begin with the space, and it comes once */
    /* The last token may be another; behind it there is none. */
    rerank_rig_plan(&rig, "{\"text\":\"a[gap]b\",\"max_tokens\":2}");
    assert_true(RUN(&rig, {.letters = "xyz", .second = "-pq", .watched = -1}));
    ITEMS(&rig, "axp");
    assert_int_equal(rerank_rig_planned(&rig)->items[0].steps[0].tokens_max, 1);
    assert_true(RUN(&rig, {.letters = "!", .watched = -3}));
    ITEMS(&rig, "axy", "ax", "axp");
    rerank_rig_close(&rig);
}

static void test_nothing_behind_the_gap(void **state)
{
    struct rerank_rig rig;
    (void)state;
    rerank_rig_open(&rig);
    rerank_rig_plan(&rig, "{\"text\":\"ab[gap]\",\"max_tokens\":4}");
    ITEMS(&rig, "ab");
    const struct plan_item *item = &rerank_rig_planned(&rig)->items[0];
    assert_null(item->steps[0].watch);
    assert_int_equal(item->steps[0].tokens_max, 4);
    assert_true(item->sampling.temperature == 0);
    assert_false(RUN(&rig, {.letters = "xy", .finish = FINISH_EOS}));
    REPLY(&rig, "\"text\":\"abxy\"", "\"tokens\":2,\"finish_reason\":\"stop\",\"logprob\":-1.0,",
        "\"score\":-1.0", "\"prompt_tokens\":2,\"completion_tokens\":3,");
    rerank_rig_plan(&rig, "{\"text\":\"ab[gap]\",\"temperature\":0.5}");
    assert_true(rerank_rig_planned(&rig)->items[0].sampling.temperature == 0.5f);
    /* max_tokens 0 only warms the cache. */
    rerank_rig_plan(&rig, "{\"text\":\"a [gap]b\",\"max_tokens\":0}");
    ITEMS(&rig, "a ");
    assert_int_equal(rerank_rig_planned(&rig)->items[0].steps[0].tokens_max, 0);
    assert_false(RUN(&rig, {.letters = ""}));
    REPLY(&rig, "\"text\":\"a b\"", "\"tokens\":0,\"finish_reason\":\"length\"");
    rerank_rig_close(&rig);
}

static void test_floor_and_length(void **state)
{
    struct rerank_rig rig;
    (void)state;
    rerank_rig_open(&rig);
    rerank_rig_plan(&rig,
        "{\"text\":\"a[gap]b\",\"max_tokens\":3,\"min_tokens\":2,\"candidates\":1,\"stop\":\".\"}");
    const struct plan_step *step = &rerank_rig_planned(&rig)->items[0].steps[0];
    assert_int_equal(step->tokens_min, 2);
    assert_int_equal(step->stop_count, 1);
    assert_true(RUN(&rig, {.letters = "xyz!", .watched = -1}));
    ITEMS(&rig, "axyz", "axy");
    /* `length` cuts nowhere but at the end. */
    rerank_rig_plan(&rig,
        "{\"text\":\"a[gap]b\",\"max_tokens\":3,\"min_tokens\":2,\"until\":\"length\","
        "\"candidates\":2,\"stop\":\".\"}");
    step = &rerank_rig_planned(&rig)->items[0].steps[0];
    assert_true(step->ban_end);
    assert_int_equal(step->stop_count, 0);
    assert_true(RUN(&rig, {.letters = "xyz!", .second = ".", .watched = -1}));
    assert_true(RUN(&rig, {.letters = "..!", .watched = -2}));
    ITEMS(&rig, "axyz", "a...");
    /* What a branch begins with counts. */
    rerank_rig_plan(
        &rig, "{\"text\":\"a[gap]b\",\"max_tokens\":5,\"min_tokens\":3,\"candidates\":2}");
    assert_true(
        RUN(&rig, {.letters = "xyz", .second = "-p-", .finish = FINISH_EOS, .watched = -9}));
    ITEMS(&rig, "axp");
    assert_int_equal(rerank_rig_planned(&rig)->items[0].steps[0].tokens_min, 1);
    assert_true(RUN(&rig, {.letters = "q", .finish = FINISH_EOS, .watched = -1}));
    ITEMS(&rig, "axyz", "axpq");
    rerank_rig_close(&rig);
}

/* A cut ends before a stop string; one that only the dropped token completes is none. */
static void test_stop_strings(void **state)
{
    static const char body[] =
        "{\"text\":\"a[gap]b\",\"max_tokens\":3,\"candidates\":1,\"stop\":\"--\"}";
    struct rerank_rig rig;
    (void)state;
    rerank_rig_open(&rig);
    rerank_rig_plan(&rig, body);
    assert_true(
        RUN(&rig, {.letters = "x--", .finish = FINISH_STOP_STRING, .shown = 1, .watched = -1}));
    ITEMS(&rig, "ax");
    rerank_rig_plan(&rig, body);
    assert_true(
        RUN(&rig, {.letters = "xy--", .finish = FINISH_STOP_STRING, .shown = 2, .watched = -1}));
    ITEMS(&rig, "axy-", "ax", "axy");
    /* A branch may begin with the beginning of one. */
    rerank_rig_plan(
        &rig, "{\"text\":\"a[gap]b\",\"max_tokens\":4,\"candidates\":2,\"stop\":\"./\"}");
    assert_true(RUN(&rig, {.letters = "xyzu!", .second = "--.", .watched = -1}));
    ITEMS(&rig, "axy.");
    assert_true(RUN(&rig, {.letters = "/!", .watched = 0}));
    ITEMS(&rig, "axyzu", "ax", "axy", "axyz");
    /* Of several that end at once the longest, and never one that ends later. */
    rerank_rig_plan(&rig, "{\"text\":\"a[gap]b\",\"max_tokens\":5,\"candidates\":1,"
                          "\"stop\":[\"z\",\"xyz\",\"wxyzu\"]}");
    assert_true(
        RUN(&rig, {.letters = "wxyz", .finish = FINISH_STOP_STRING, .shown = 1, .watched = -1}));
    ITEMS(&rig, "aw");
    /* Nothing before it: the empty fill is all there is. */
    rerank_rig_plan(&rig, body);
    assert_true(
        RUN(&rig, {.letters = "--", .finish = FINISH_STOP_STRING, .shown = 0, .watched = -1}));
    ITEMS(&rig, "a");
    assert_false(RUN(&rig, {.forced = -1}));
    REPLY(&rig, "\"text\":\"ab\"", "\"tokens\":0,\"finish_reason\":\"stop_string\"",
        "\"logprob\":0.0,\"score\":-1.0");
    rerank_rig_close(&rig);
}

static void test_all_end_at_once(void **state)
{
    struct rerank_rig rig;
    (void)state;
    rerank_rig_open(&rig);
    rerank_rig_plan(&rig, "{\"text\":\"a[gap]b\",\"candidates\":2}");
    assert_true(RUN(&rig, {.letters = "", .finish = FINISH_EOS, .watched = -1}));
    ITEMS(&rig, "a");
    assert_false(RUN(&rig, {.forced = -2}));
    REPLY(&rig, "\"text\":\"ab\"", "\"tokens\":0,\"finish_reason\":\"stop\"", "\"score\":-2.0");
    rerank_rig_close(&rig);
}

/* The time of t_max_predict_ms was up: what is there is judged, but for the last cut, behind which
 * nothing was predicted. */
static void test_time_is_up(void **state)
{
    struct rerank_rig rig;
    (void)state;
    rerank_rig_open(&rig);
    rerank_rig_plan(&rig, "{\"text\":\"a[gap]b\",\"candidates\":2,\"t_max_predict_ms\":5}");
    assert_int_equal(rerank_rig_planned(&rig)->predict_us, 5000);
    assert_true(
        RUN(&rig, {.letters = "xyz", .second = "ppp", .finish = FINISH_TIMEOUT, .watched = -1}));
    assert_int_equal(rerank_rig_planned(&rig)->predict_us, 5000);
    ITEMS(&rig, "axy", "ax");
    /* Later, in the branches. */
    rerank_rig_plan(&rig, "{\"text\":\"a[gap]b\",\"max_tokens\":3,\"candidates\":2}");
    assert_true(RUN(&rig, {.letters = "xyz!", .second = "p", .watched = -1}));
    assert_true(RUN(&rig, {.letters = "", .finish = FINISH_TIMEOUT}));
    ITEMS(&rig, "axyz", "ax", "axy");
    rerank_rig_plan(&rig, "{\"text\":\"a[gap]b\",\"candidates\":2,\"t_max_predict_ms\":5}");
    assert_true(RUN(&rig, {.letters = "x", .finish = FINISH_TIMEOUT, .watched = -1}));
    ITEMS(&rig, "a");
    assert_false(RUN(&rig, {.forced = -1}));
    REPLY(&rig, "\"text\":\"ab\"", "\"finish_reason\":\"timeout\"");
    rerank_rig_close(&rig);
}

/* A character of three bytes, here of three tokens, is not cut. */
static void test_whole_characters(void **state)
{
    struct rerank_rig rig;
    (void)state;
    rerank_rig_open(&rig);
    rerank_rig_plan(&rig, "{\"text\":\"a[gap]b\",\"max_tokens\":6,\"candidates\":1}");
    assert_true(RUN(&rig, {.letters = "x\u20acy", .finish = FINISH_EOS, .watched = -1}));
    ITEMS(&rig, "ax\u20acy", "ax", "ax\u20ac");
    rerank_rig_close(&rig);
}

/* ---- the space before a gap ---------------------------------------------------------------- */

static void test_space_begins_the_fill(void **state)
{
    struct rerank_rig rig;
    (void)state;
    rerank_rig_open(&rig);
    rerank_rig_plan(&rig, "{\"text\":\"ab [gap] cd\",\"max_tokens\":3,\"candidates\":2}");
    ITEMS(&rig, "ab");
    assert_int_equal(rerank_rig_planned(&rig)->items[0].steps[0].border, BORDER_SPACE);
    assert_true(RUN(&rig, {.letters = " xy!", .second = "-z", .watched = 0}));
    ITEMS(&rig, "ab z");
    assert_int_equal(rerank_rig_planned(&rig)->items[0].steps[0].border, BORDER_FREE);
    assert_true(RUN(&rig, {.letters = "", .finish = FINISH_EOS}));
    ITEMS(&rig, "ab xy", "ab x", "ab z"); /* none that is but the space */
    rerank_rig_right(&rig, 0, " cd");
    assert_false(RUN(&rig, {.forced = -3}, {.forced = -1}, {.forced = -3}));
    REPLY(&rig, "\"text\":\"ab x cd\"",
        "\"text\":\"x\",\"start\":3,\"end\":4,\"tokens\":2,\"finish_reason\":\"stop\","
        "\"logprob\":-1.0,");
    rerank_rig_close(&rig);
}

/* A candidate may begin with the space alone; then no other follows. */
static void test_space_alone(void **state)
{
    struct rerank_rig rig;
    (void)state;
    rerank_rig_open(&rig);
    rerank_rig_plan(&rig, "{\"text\":\"ab [gap]cd\",\"max_tokens\":3,\"candidates\":3}");
    assert_true(RUN(&rig, {.letters = "Qxy!", .second = " z", .watched = -9}));
    ITEMS(&rig, "ab ", "ab Qz");
    assert_int_equal(rerank_rig_planned(&rig)->items[0].steps[0].border, BORDER_NO_SPACE);
    assert_int_equal(rerank_rig_planned(&rig)->items[1].steps[0].border, BORDER_FREE);
    assert_true(RUN(&rig, {.letters = "x", .watched = -1, .finish = FINISH_EOS},
        {.letters = "", .watched = -9, .finish = FINISH_EOS}));
    ITEMS(&rig, "ab Qxy", "ab x", "ab Q", "ab Qx", "ab Qz");
    assert_false(RUN(&rig, {.forced = -3}, {.forced = -1}, {.forced = -3}));
    REPLY(&rig, "\"text\":\"ab xcd\"", "\"text\":\"x\",\"start\":3,\"end\":4,\"tokens\":2,");
    rerank_rig_close(&rig);
}

/* A fill of no token cannot begin with the space, which stays before the gap. */
static void test_nothing_behind_the_space(void **state)
{
    static const struct said space = {.letters = " ", .finish = FINISH_EOS, .watched = -1};
    struct rerank_rig rig;
    (void)state;
    rerank_rig_open(&rig);
    rerank_rig_plan(&rig, "{\"text\":\"ab [gap]cd[gap]e\",\"max_tokens\":2,\"candidates\":1}");
    ITEMS(&rig, "ab");
    assert_true(RUN(&rig, space));
    ITEMS(&rig, "ab ");
    assert_true(RUN(&rig, {.forced = -1}));
    ITEMS(&rig, "ab cd");
    assert_true(RUN(&rig, {.letters = "x!"}));
    assert_false(RUN(&rig, {.forced = -1}));
    REPLY(&rig, "\"text\":\"ab cdxe\"", "\"text\":\"\",\"start\":3,\"end\":3,\"tokens\":0,");
    /* Nothing behind the gap. */
    rerank_rig_plan(&rig, "{\"text\":\"ab [gap]\",\"max_tokens\":2}");
    ITEMS(&rig, "ab");
    assert_false(RUN(&rig, {.letters = " x"}));
    REPLY(&rig, "\"text\":\"ab x\"", "\"text\":\"x\",\"start\":3,", "\"tokens\":2,");
    rerank_rig_close(&rig);
}

/* Where the text behind a gap begins with a space no fill ends with one. */
static void test_space_behind_the_gap(void **state)
{
    struct rerank_rig rig;
    (void)state;
    rerank_rig_open(&rig);
    rerank_rig_plan(&rig, "{\"text\":\"a[gap] b\",\"max_tokens\":4,\"candidates\":1}");
    assert_true(RUN(&rig, {.letters = "x y !", .watched = -1}));
    ITEMS(&rig, "ax y", "ax");
    rerank_rig_plan(
        &rig, "{\"text\":\"a[gap] b\",\"max_tokens\":4,\"candidates\":1,\"heal\":false}");
    assert_true(RUN(&rig, {.letters = "x y !", .watched = -1}));
    ITEMS(&rig, "ax y ", "ax", "ax ", "ax y");
    /* A fill of a given length ends where it ends; its last spaces are not shown. */
    rerank_rig_plan(
        &rig, "{\"text\":\"a[gap] b\",\"max_tokens\":3,\"candidates\":1,\"until\":\"length\"}");
    assert_true(RUN(&rig, {.letters = "x  !", .watched = -1}));
    ITEMS(&rig, "ax  ");
    assert_false(RUN(&rig, {.forced = -1}));
    REPLY(&rig, "\"text\":\"ax b\"", "\"end\":2,\"tokens\":3,\"finish_reason\":\"length\"");
    rerank_rig_close(&rig);
}

static void test_heal(void **state)
{
    struct rerank_rig rig;
    (void)state;
    rerank_rig_open(&rig);
    rerank_rig_plan(&rig, "{\"text\":\"ab [gap]cd\",\"heal\":false,\"candidates\":1}");
    ITEMS(&rig, "ab ");
    rerank_rig_plan(&rig, "{\"text\":\" [gap]cd\",\"candidates\":1}"); /* nothing would be left */
    ITEMS(&rig, " ");
    rerank_rig_plan(&rig, "{\"text\":\"a  [gap]b\",\"heal\":true,\"candidates\":1}");
    ITEMS(&rig, "a ");
    rerank_rig_close(&rig);
}

/* ---- one sentence -------------------------------------------------------------------------- */

/* The engine says EOS for a token that tells the sentence is over. */
static void test_sentence(void **state)
{
    struct rerank_rig rig;
    (void)state;
    rerank_rig_open(&rig);
    rerank_rig_plan(&rig, "{\"text\":\"a[gap] b\",\"until\":\"sentence\",\"candidates\":4}");
    assert_true(rerank_rig_planned(&rig)->items[0].steps[0].sentence);
    assert_true(RUN(&rig, {.letters = "Hi.",
                              .second = "--- ",
                              .third = "---4",
                              .watched = -1,
                              .finish = FINISH_EOS}));
    ITEMS(&rig, "aHi.4"); /* not the space, behind which it would be the same sentence */
    assert_true(RUN(&rig, {.letters = "5.", .watched = -1, .finish = FINISH_EOS}));
    ITEMS(&rig, "aHi.", "aHi.45."); /* no other cuts */
    assert_false(RUN(&rig, {.forced = -1}, {.forced = -2}));
    REPLY(&rig, "\"text\":\"aHi. b\"", "\"tokens\":3,\"finish_reason\":\"stop\"");
    /* One that does not come to its end. */
    rerank_rig_plan(&rig, "{\"text\":\"a[gap] b\",\"max_tokens\":3,\"candidates\":1,"
                          "\"until\":\"sentence\"}");
    assert_true(RUN(&rig, {.letters = "Hi m", .watched = -1}));
    ITEMS(&rig, "aHi");
    assert_false(RUN(&rig, {.forced = -1}));
    REPLY(&rig, "\"text\":\"Hi\"", "\"tokens\":2,\"finish_reason\":\"length\"");
    rerank_rig_plan(&rig, "{\"text\":\"a[gap]b\",\"max_tokens\":3,\"candidates\":1,"
                          "\"until\":\"sentence\"}");
    assert_true(RUN(&rig, {.letters = "Hi m", .watched = -1}));
    ITEMS(&rig, "aHi ");
    /* What is below the floor ends none. */
    rerank_rig_plan(&rig, "{\"text\":\"a[gap]b\",\"min_tokens\":4,\"candidates\":1,"
                          "\"until\":\"sentence\"}");
    assert_true(RUN(&rig, {.letters = "I. J.", .watched = -1, .finish = FINISH_EOS}));
    ITEMS(&rig, "aI. J.");
    assert_false(RUN(&rig, {.forced = -1}));
    REPLY(&rig, "\"text\":\"I. J.\"");
    /* The mark is that of the text behind. */
    rerank_rig_plan(&rig, "{\"text\":\"a[gap]. b\",\"candidates\":1,\"until\":\"sentence\"}");
    assert_true(RUN(&rig, {.letters = "Hi!!", .watched = -1, .finish = FINISH_EOS}));
    ITEMS(&rig, "aHi");
    assert_false(RUN(&rig, {.forced = -1}));
    REPLY(&rig, "\"text\":\"aHi. b\"", "\"tokens\":2,");
    rerank_rig_close(&rig);
}

/* ---- several gaps -------------------------------------------------------------------------- */

static void test_sequential(void **state)
{
    struct rerank_rig rig;
    struct buf frames;
    (void)state;
    rerank_rig_open(&rig);
    buf_init(&frames, MEM_REQUESTS, 1 << 16);
    rerank_rig_plan(&rig, "{\"text\":\"ab [gap] c [gap] d\",\"max_tokens\":2,\"candidates\":2,"
                          "\"stream\":true}");
    struct call *call = &rig.plan.call;
    ITEMS(&rig, "ab");
    assert_true(RUN(&rig, {.letters = " x!", .second = "-p", .watched = -1}));
    assert_int_equal(endpoint_infill.frame_more(call, &rig.job, &frames), ERR_OK);
    assert_int_equal(frames.count, 0);
    ITEMS(&rig, "ab p");
    assert_true(RUN(&rig, {.letters = "", .finish = FINISH_EOS}));
    ITEMS(&rig, "ab x", "ab p");
    rerank_rig_right(&rig, 0, " c"); /* the space behind it is the next gap's */
    assert_true(RUN(&rig, {.forced = -1}, {.forced = -2}));
    assert_int_equal(endpoint_infill.frame_more(call, &rig.job, &frames), ERR_OK);
    assert_string_equal(frames.bytes, "data: {\"gap\":0,\"text\":\"x\",\"tokens\":[32,120]}\n\n"
                                      "data: {\"gap\":0,\"finish_reason\":\"length\"}\n\n");
    ITEMS(&rig, "ab x c");
    assert_true(RUN(&rig, {.letters = " y", .finish = FINISH_EOS, .watched = -1}));
    assert_false(RUN(&rig, {.forced = -1}));
    buf_clear(&frames);
    assert_int_equal(endpoint_infill.frame_end(call, &rig.job, &frames), ERR_OK);
    static const char beginning[] = "data: {\"gap\":1,\"text\":\"y\",\"tokens\":[32,121]}\n\n"
                                    "data: {\"gap\":1,\"finish_reason\":\"length\"}\n\n"
                                    "data: {\"text\":\"ab x c y d\",";
    assert_int_equal(strncmp(frames.bytes, beginning, strlen(beginning)), 0);
    buf_free(&frames);
    rerank_rig_close(&rig);
}

static void test_independent(void **state)
{
    struct rerank_rig rig;
    struct buf frames;
    (void)state;
    rerank_rig_open(&rig);
    rerank_rig_plan(&rig, "{\"text\":\"ab[gap]c [gap]d[gap]\",\"max_tokens\":2,\"candidates\":2,"
                          "\"spans\":\"independent\",\"stream\":true}");
    ITEMS(&rig, "ab", "abc", "abc d"); /* no fill in another's left */
    /* The first has a branch while the second is scored and the third is settled. */
    assert_true(RUN(&rig, {.letters = "x", .second = "y", .watched = -1, .finish = FINISH_EOS},
        {.letters = " u!"}, {.letters = "w", .finish = FINISH_EOS}));
    ITEMS(&rig, "aby", "abc u");
    assert_true(RUN(&rig, {.letters = "", .finish = FINISH_EOS}, {.forced = -1}));
    ITEMS(&rig, "abx", "aby");
    assert_false(RUN(&rig, {.forced = -3}, {.forced = -1}));
    REPLY(&rig, "\"text\":\"abyc udw\"", "\"spans\":\"independent\"");
    buf_init(&frames, MEM_REQUESTS, 1 << 16);
    assert_int_equal(endpoint_infill.frame_end(&rig.plan.call, &rig.job, &frames), ERR_OK);
    static const char third[] = "data: {\"gap\":2,\"text\":\"w\",\"tokens\":[119]}\n\n";
    assert_non_null(strstr(frames.bytes, third));
    buf_free(&frames);
    rerank_rig_close(&rig);
}

/* 64 tokens of context hold left, fill and right, and a candidate's token that is dropped. */
static void test_budgets(void **state)
{
    static const char left[] = "0123456789012345678901234567890123456789";
    static const struct {
        const char *right;
        int32_t fill; /* 0: refused */
    } cases[] = {
        {"a", 23}, {"abcd", 20}, {"abcdefghijkl", 12}, {"abcdefghijklmpqrstuv", 4}, {"", 24}};
    struct rerank_rig rig;
    char body[256];
    (void)state;
    rerank_rig_open(&rig);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        (void)snprintf(
            body, sizeof(body), "{\"text\":\"%s[gap]%s\",\"max_tokens\":60}", left, cases[i].right);
        rerank_rig_plan(&rig, body);
        int32_t dropped = cases[i].right[0] != '\0' ? 1 : 0;
        assert_int_equal(
            rerank_rig_planned(&rig)->items[0].steps[0].tokens_max, cases[i].fill + dropped);
    }
    (void)snprintf(body, sizeof(body), "{\"text\":\"%s01234567890[gap]abcdefghijkl\"}", left);
    rerank_rig_plan(&rig, body); /* 51 + 1 + 12 */
    (void)snprintf(body, sizeof(body), "{\"text\":\"%s012345678901[gap]abcdefghijkl\"}", left);
    plan_rig_refused(&rig.plan, &endpoint_infill, body, ERR_CONTEXT, "/text");
    /* A chain leaves every later gap a token: 60 letters before the second. */
    (void)snprintf(body, sizeof(body),
        "{\"text\":\"%s[gap]01234567890123456789[gap]a\",\"max_tokens\":20}", left);
    rerank_rig_plan(&rig, body);
    const struct gaps_notes *notes = rig.plan.call.state;
    assert_int_equal(notes->gaps[0].tokens_max, 2);
    assert_int_equal(notes->gaps[1].tokens_max, 1);
    rerank_rig_close(&rig);
}

/* ---- llama.cpp's form ---------------------------------------------------------------------- */

static void test_llama_form(void **state)
{
    struct rerank_rig rig;
    (void)state;
    rerank_rig_open(&rig);
    rerank_rig_plan(&rig, "{\"input_prefix\":\"ab\",\"prompt\":\"c \",\"input_suffix\":\" d\","
                          "\"n_predict\":3,\"n_cmpl\":2,\"n_probs\":1}");
    ITEMS(&rig, "abc");
    assert_true(RUN(&rig, {.letters = " xy!", .second = "---", .third = "---", .watched = -1}));
    ITEMS(&rig, "abc xy", "abc x");
    assert_false(RUN(&rig, {.forced = -1}, {.forced = -2}));
    REPLY(&rig, "[{\"index\":0,\"content\":\"xy\",", "\"stop_type\":\"limit\"",
        "{\"index\":1,\"content\":\"x\",", "\"stop_type\":\"eos\"", "\"tokens_predicted\":2,",
        "\"prompt\":\"abc\"", "\"seed\":0", "\"temperature\":0.0", "\"n_predict\":3",
        "\"completion_probabilities\":[{\"id\":32,", "\"top_logprobs\":[{\"id\":120,");
    /* A branch where the greedy candidate ends, with what else could have come there: the end. */
    rerank_rig_plan(
        &rig, "{\"input_prefix\":\"a\",\"input_suffix\":\"b\",\"n_predict\":3,\"n_probs\":1}");
    assert_true(RUN(&rig, {.letters = "x", .second = "-p", .finish = FINISH_EOS, .watched = -1}));
    ITEMS(&rig, "axp");
    assert_true(RUN(&rig, {.letters = "", .finish = FINISH_EOS, .watched = -1}));
    assert_false(RUN(&rig, {.forced = -9}, {.forced = -1}));
    REPLY(&rig, "\"content\":\"xp\"", "\"completion_probabilities\":[{\"id\":120,", "{\"id\":112,",
        "\"top_logprobs\":[{\"id\":257,");
    /* As many answers as there are. */
    rerank_rig_plan(&rig,
        "{\"input_prefix\":\"a\",\"input_suffix\":\"b\",\"n_predict\":1,\"n_cmpl\":3,"
        "\"stream\":true}");
    assert_true(RUN(&rig, {.letters = "x!", .watched = -1}));
    assert_false(RUN(&rig, {.forced = -2}));
    struct buf frames;
    buf_init(&frames, MEM_REQUESTS, 1 << 16);
    assert_int_equal(endpoint_infill.frame_end(&rig.plan.call, &rig.job, &frames), ERR_OK);
    static const char beginning[] = "data: {\"index\":0,\"content\":\"x\",\"tokens\":[120],"
                                    "\"stop\":false,\"tokens_predicted\":1,\"tokens_evaluated\":1}"
                                    "\n\ndata: {\"index\":0,\"content\":\"\",";
    assert_int_equal(strncmp(frames.bytes, beginning, strlen(beginning)), 0);
    assert_null(strstr(frames.bytes, "\"index\":1"));
    buf_free(&frames);
    rerank_rig_close(&rig);
}

static void test_llama_limits(void **state)
{
    struct rerank_rig rig;
    (void)state;
    rerank_rig_open(&rig);
    /* Nothing behind the gap: so many answers are sampled. */
    rerank_rig_plan(&rig, "{\"input_prefix\":\"a\",\"input_suffix\":\"\",\"n_cmpl\":16}");
    assert_int_equal(rerank_rig_planned(&rig)->item_count, 16);
    assert_false(RUN(&rig, {.letters = "x", .finish = FINISH_EOS}, {.letters = "y"}));
    REPLY(&rig, "\"index\":15,\"content\":\"y\"");
    /* No budget: the room, at most 128; warming needs none. */
    rerank_rig_plan(&rig, "{\"input_prefix\":\"a\",\"input_suffix\":\"bc\"}");
    assert_int_equal(rerank_rig_planned(&rig)->items[0].steps[0].tokens_max, CONTEXT - 3 + 1);
    rerank_rig_plan(&rig, "{\"input_prefix\":\"a\",\"input_suffix\":\"bc\",\"n_predict\":0}");
    ITEMS(&rig, "a");
    assert_int_equal(rerank_rig_planned(&rig)->items[0].steps[0].tokens_max, 0);
    /* n_indent: no cut in a line that ends the text. */
    rerank_rig_plan(&rig, "{\"input_prefix\":\"a\",\"input_suffix\":\"b\",\"n_predict\":4,"
                          "\"n_indent\":2}");
    assert_true(RUN(&rig, {.letters = "x\ny!", .watched = -1}));
    ITEMS(&rig, "ax\n", "ax");
    plan_rig_refused(&rig.plan, &endpoint_infill, "{\"input_prefix\":\"\",\"input_suffix\":\"c\"}",
        ERR_INVALID, "/input_prefix");
    rerank_rig_close(&rig);
}

/* ---- failures ------------------------------------------------------------------------------ */

static void test_failed_item_ends_it(void **state)
{
    struct rerank_rig rig;
    struct buf reply;
    bool more = false;
    (void)state;
    rerank_rig_open(&rig);
    rerank_rig_plan(&rig, "{\"text\":\"a[gap]b\",\"max_tokens\":1,\"candidates\":2}");
    assert_true(RUN(&rig, {.letters = "x!", .watched = -1}));
    rig.job.plan = *rerank_rig_planned(&rig);
    rig.results[0].err = ERR_NON_FINITE;
    assert_int_equal(endpoint_infill.more(&rig.plan.call, &rig.job, &more, &rig.plan.info), ERR_OK);
    assert_false(more);
    buf_init(&reply, MEM_REQUESTS, 1 << 16);
    assert_int_equal(
        endpoint_infill.encode(&rig.plan.call, &rig.job, &reply, &rig.plan.info), ERR_NON_FINITE);
    buf_free(&reply);
    rerank_rig_close(&rig);
}

static void test_allocation_failures(void **state)
{
    static const struct said greedy = {.letters = " xy!", .second = "-p", .watched = -1};
    static const struct said branch = {.letters = "u", .finish = FINISH_EOS, .watched = -1};
    struct rerank_rig rig;
    enum err err = ERR_NO_MEMORY;
    int32_t failures[2] = {0, 0};
    (void)state;
    rerank_rig_open(&rig);
    for (uint64_t nth = 1; err != ERR_OK; nth++) {
        bool more;
        arena_drop(&rig.plan.arena);
        arena_init(&rig.plan.arena, MEM_REQUESTS, 256, 1 << 24);
        rerank_rig_plan(&rig, "{\"text\":\"a [gap]b\",\"max_tokens\":3,\"candidates\":4}");
        mem_fail_after(nth, 0);
        err = rerank_rig_take(&rig, &greedy, 1, &more);
        failures[0] += err != ERR_OK;
        if (err == ERR_OK) {
            err = rerank_rig_take(&rig, &branch, 1, &more);
            failures[1] += err != ERR_OK;
        }
        mem_fail_after(0, 0);
        assert_true(err == ERR_OK || err == ERR_NO_MEMORY);
        assert_int_equal(more, err == ERR_OK);
    }
    assert_true(failures[0] >= 3 && failures[1] >= 3);
    rerank_rig_close(&rig);
}

int main(void)
{
    json_in_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_three_jobs),
        cmocka_unit_test(test_useless_branches),
        cmocka_unit_test(test_finish),
        cmocka_unit_test(test_candidates),
        cmocka_unit_test(test_nothing_behind_the_gap),
        cmocka_unit_test(test_floor_and_length),
        cmocka_unit_test(test_stop_strings),
        cmocka_unit_test(test_all_end_at_once),
        cmocka_unit_test(test_time_is_up),
        cmocka_unit_test(test_whole_characters),
        cmocka_unit_test(test_space_begins_the_fill),
        cmocka_unit_test(test_space_alone),
        cmocka_unit_test(test_nothing_behind_the_space),
        cmocka_unit_test(test_space_behind_the_gap),
        cmocka_unit_test(test_heal),
        cmocka_unit_test(test_sentence),
        cmocka_unit_test(test_sequential),
        cmocka_unit_test(test_independent),
        cmocka_unit_test(test_budgets),
        cmocka_unit_test(test_llama_form),
        cmocka_unit_test(test_llama_limits),
        cmocka_unit_test(test_failed_item_ends_it),
        cmocka_unit_test(test_allocation_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
