/*
 * Goal: mode rerank answers what its definition says, with a real engine.
 * Method: the definition once more, slowly: every token is a job of its own, so is the score of
 * every cut, branches and cuts are sorted and gone through, and texts are scored whole by the
 * log-probabilities of a prompt. The model is a tiny random one over bytes (byte_llama.h), kept to
 * ASCII that prints by logit_bias, so that a token is a character and no candidate ends early.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "api/json_in.h"
#include "engine/base/assert.h"
#include "engine/base/mem.h"
#include "engine/text/tokenizer.h"
#include "tests/golden/api/byte_llama.h"

enum {
    BIASES = 1024,
    IDS_MAX = 128,
    FILL_MAX = 6,
    CANDIDATES = 6,
    TOPS = 8,
    BRANCHES_MAX = FILL_MAX * TOPS,
    CUTS_MAX = CANDIDATES * FILL_MAX,
    KEPT = 8,
    RIGHT = 24,
    FIRST_BYTE = 3, /* token of byte 0 */
};

struct ids {
    int32_t ids[IDS_MAX];
    int32_t count;
};

/* A token of a fill and what else could have come. */
struct said {
    int32_t token;
    double logprob;
    struct token_logprob top[TOPS];
};

struct candidate {
    struct said said[FILL_MAX];
    int32_t own; /* tokens that were given, not chosen */
};

struct branch {
    int32_t at, order;
    struct said said;
    double total;
};

struct cut {
    int32_t order;
    struct ids fill;
    double total, score;
};

static struct engine *engine;
static struct logit_bias biases[BIASES];
static int32_t bias_count;

static int setup(void **state)
{
    (void)state;
    engine = byte_llama_open(false);
    return engine != NULL ? 0 : 1;
}

static int teardown(void **state)
{
    (void)state;
    engine_close(engine);
    return 0;
}

/* ---- the engine, one item at a time -------------------------------------------------------- */

static struct job *run(const struct plan_item *item)
{
    struct job *job = NULL;
    struct err_info info = {0};
    assert_int_equal(engine_acquire(engine, &job), ERR_OK);
    job->plan = (struct plan){.kind = KIND_INFILL, .items = item, .item_count = 1};
    if (engine_submit(engine, job, &info) != ERR_OK) {
        fail_msg("%s: %s", info.where, info.text);
    }
    engine_wait(engine, job);
    assert_int_equal(job->err, ERR_OK);
    assert_int_equal(job->results[0].err, ERR_OK);
    return job;
}

static struct ids join(const struct ids *a, const struct ids *b)
{
    struct ids joined = *a;
    assert_true(a->count + b->count <= IDS_MAX);
    memcpy(joined.ids + a->count, b->ids, (size_t)b->count * sizeof(*b->ids));
    joined.count += b->count;
    return joined;
}

/* The greedy token behind these. */
static struct said next_of(const struct ids *ids)
{
    struct plan_step step = {
        .kind = STEP_DECODE, .read_row = -1, .position = -1, .tokens_max = 1, .top_logprobs = TOPS};
    struct plan_item item = {.tokens = ids->ids,
        .token_count = ids->count,
        .steps = &step,
        .step_count = 1,
        .sampling = {.repetition_penalty = 1,
            .top_p = 1,
            .typical_p = 1,
            .logit_bias = biases,
            .logit_bias_count = bias_count}};
    struct job *job = run(&item);
    const struct step_result *result = &job->results[0].steps[0];
    struct said said = {result->tokens[0], (double)result->logprobs[0], {{0}}};
    memcpy(said.top, result->top, sizeof(said.top));
    engine_release(engine, job);
    return said;
}

static double first_score(const struct ids *left, const struct ids *fill, int32_t right)
{
    struct ids all = join(left, fill);
    struct plan_step step = {
        .kind = STEP_FORCE, .read_row = -1, .position = -1, .tokens = &right, .token_count = 1};
    struct plan_item item = {
        .tokens = all.ids, .token_count = all.count, .steps = &step, .step_count = 1};
    struct job *job = run(&item);
    double score = (double)job->results[0].steps[0].logprobs[0];
    engine_release(engine, job);
    return score;
}

static double whole_score(const struct ids *left, const struct ids *fill, const struct ids *right)
{
    struct ids all = join(left, fill);
    all = join(&all, right);
    struct plan_item item = {.tokens = all.ids, .token_count = all.count, .prompt_logprobs = true};
    struct job *job = run(&item);
    const float *logprobs = job->results[0].prompt_logprobs + left->count;
    double sums[2] = {0, 0};
    for (int32_t i = 0; i < fill->count + right->count; i++) {
        sums[i >= fill->count] += (double)logprobs[i];
    }
    engine_release(engine, job);
    return sums[0] + sums[1];
}

/* ---- the definition ------------------------------------------------------------------------ */

static struct ids filled(const struct ids *left, const struct candidate *candidate, int32_t count)
{
    struct ids ids = *left;
    assert_true(ids.count + count <= IDS_MAX);
    for (int32_t i = 0; i < count; i++) {
        ids.ids[ids.count++] = candidate->said[i].token;
    }
    return ids;
}

static void finish_candidate(const struct ids *left, struct candidate *candidate)
{
    for (int32_t n = candidate->own; n < FILL_MAX; n++) {
        struct ids ids = filled(left, candidate, n);
        candidate->said[n] = next_of(&ids);
    }
}

static bool is_banned(int32_t token)
{
    return token < FIRST_BYTE + ' ' || token > FIRST_BYTE + '~';
}

static int by_branch(const void *a, const void *b)
{
    const struct branch *x = a, *y = b;
    if (x->total != y->total) {
        return x->total > y->total ? -1 : 1;
    }
    return x->order - y->order;
}

static int32_t all_branches(const struct candidate *greedy, struct branch *branches)
{
    int32_t count = 0;
    double before = 0;
    for (int32_t at = 0; at < FILL_MAX; at++) {
        const struct said *said = &greedy->said[at];
        for (int32_t k = 0; k < TOPS; k++) {
            const struct token_logprob *top = &said->top[k];
            if (top->token != said->token && !is_banned(top->token)) {
                double logprob = (double)top->logprob;
                branches[count] =
                    (struct branch){at, count, {top->token, logprob, {{0}}}, before + logprob};
                count++;
            }
        }
        before += said->logprob;
    }
    qsort(branches, (size_t)count, sizeof(*branches), by_branch);
    return count;
}

static void all_candidates(const struct ids *left, struct candidate *candidates)
{
    struct branch branches[BRANCHES_MAX];
    candidates[0].own = 0;
    finish_candidate(left, &candidates[0]);
    assert_true(all_branches(&candidates[0], branches) > CANDIDATES);
    for (int32_t k = 1; k < CANDIDATES; k++) {
        const struct branch *branch = &branches[k - 1];
        candidates[k] = candidates[0];
        candidates[k].said[branch->at] = branch->said;
        candidates[k].own = branch->at + 1;
        finish_candidate(left, &candidates[k]);
    }
}

static int by_total(const void *a, const void *b)
{
    const struct cut *x = a, *y = b;
    if (x->total != y->total) {
        return x->total > y->total ? -1 : 1;
    }
    return x->order - y->order;
}

static bool equal_fills(const struct cut *a, const struct cut *b)
{
    return a->fill.count == b->fill.count &&
           memcmp(a->fill.ids, b->fill.ids, (size_t)a->fill.count * sizeof(int32_t)) == 0;
}

/* The whole greedy candidate comes first, whatever it is worth. */
static int32_t all_cuts(const struct ids *left, const struct ids *right, struct cut *cuts)
{
    static const struct ids none;
    struct candidate candidates[CANDIDATES];
    int32_t count = 0;
    all_candidates(left, candidates);
    for (int32_t k = 0; k < CANDIDATES; k++) {
        double fill = 0;
        for (int32_t n = 1; n <= FILL_MAX; n++) {
            struct cut *cut = &cuts[count];
            fill += candidates[k].said[n - 1].logprob;
            *cut = (struct cut){.order = count, .fill = filled(&none, &candidates[k], n)};
            cut->total = fill + first_score(left, &cut->fill, right->ids[0]);
            if (k == 0 && n == FILL_MAX) {
                cut->total = INFINITY;
            }
            count += n >= candidates[k].own;
        }
    }
    qsort(cuts, (size_t)count, sizeof(*cuts), by_total);
    return count;
}

/* The best fill of the best cuts. */
static struct cut best_cut(const struct ids *left, const struct ids *right)
{
    static struct cut cuts[CUTS_MAX], kept[KEPT];
    int32_t count = all_cuts(left, right, cuts), kept_count = 0;
    for (int32_t i = 0; i < count && kept_count < KEPT; i++) {
        bool seen = false;
        for (int32_t k = 0; k < kept_count; k++) {
            seen = seen || equal_fills(&cuts[i], &kept[k]);
        }
        if (!seen) {
            kept[kept_count++] = cuts[i];
        }
    }
    assert_int_equal(kept_count, KEPT);
    struct cut best = {.score = -1e9};
    for (int32_t k = 0; k < kept_count; k++) {
        kept[k].score = whole_score(left, &kept[k].fill, right);
        best = kept[k].score > best.score ? kept[k] : best;
    }
    return best;
}

/* ---- the comparison ------------------------------------------------------------------------ */

static struct ids ids_of(const char *text, int32_t count_max, bool begins)
{
    struct ids ids = {0};
    if (begins) {
        ids.ids[ids.count++] = tokenizer_special(engine_tokenizer(engine), TOKEN_BOS);
    }
    struct token_list list;
    token_list_init(&list, IDS_MAX);
    assert_int_equal(tokenizer_encode(engine_tokenizer(engine), text, strlen(text),
                         begins ? 0 : TOKENIZE_CONTINUES, &list, NULL),
        ERR_OK);
    for (int32_t i = 0; i < MIN(list.count, count_max); i++) {
        ids.ids[ids.count++] = list.ids[i];
    }
    token_list_free(&list);
    return ids;
}

static json_t *ban_what_does_not_print(void)
{
    json_t *bans = json_array();
    int32_t vocab = tokenizer_vocab(engine_tokenizer(engine));
    bias_count = 0;
    for (int32_t id = 0; id < vocab; id++) {
        if (is_banned(id)) {
            (void)json_array_append_new(bans, json_pack("[i,b]", (int)id, 0));
            biases[bias_count++] = (struct logit_bias){id, -INFINITY};
        }
    }
    return bans;
}

static json_t *ask(const char *left, const char *right, json_t *bans)
{
    char text[256];
    int32_t jobs;
    (void)snprintf(text, sizeof(text), "%s[gap]%s", left, right);
    json_t *body = json_pack("{s:s,s:i,s:i,s:O}", "text", text, "max_tokens", (int)FILL_MAX,
        "candidates", (int)CANDIDATES, "logit_bias", bans);
    char *dumped = json_dumps(body, 0);
    json_t *reply = byte_llama_answer(engine, dumped, &jobs);
    assert_int_equal(jobs, 3);
    mem_free(dumped); /* json_in_init gave jansson our allocator */
    json_decref(body);
    assert_string_equal(json_string_value(json_object_get(reply, "mode")), "rerank");
    return reply;
}

static void check_fill(const json_t *reply, const struct cut *expected, const char *name)
{
    const json_t *gap = json_array_get(json_object_get(reply, "gaps"), 0);
    char text[FILL_MAX + 1] = {0};
    for (int32_t i = 0; i < expected->fill.count; i++) {
        text[i] = (char)(expected->fill.ids[i] - FIRST_BYTE);
    }
    double score = json_number_value(json_object_get(gap, "score"));
    if (strcmp(json_string_value(json_object_get(gap, "text")), text) != 0 ||
        score < expected->score - 1e-4 || score > expected->score + 1e-4) {
        fail_msg("%s: \"%s\" at %f, not \"%s\" at %f", name,
            json_string_value(json_object_get(gap, "text")), score, text, expected->score);
    }
    const char *finish = expected->fill.count == FILL_MAX ? "length" : "stop";
    assert_string_equal(json_string_value(json_object_get(gap, "finish_reason")), finish);
}

static void test_equals_the_definition(void **state)
{
    static const struct {
        const char *left, *right;
    } cases[] = {
        {"The cat", " sat on the mat."},
        {"x = f(", ");"},
        {"Once upon a", "!"},
        {"abcabcabc", "abcabcabcabcabc"},
        {"\n\n", "\n\n"},
    };
    (void)state;
    json_t *bans = ban_what_does_not_print();
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct ids left = ids_of(cases[i].left, IDS_MAX, true);
        struct ids right = ids_of(cases[i].right, RIGHT, false);
        struct cut expected = best_cut(&left, &right);
        json_t *reply = ask(cases[i].left, cases[i].right, bans);
        check_fill(reply, &expected, cases[i].left);
        json_decref(reply);
    }
    json_decref(bans);
}

static void test_again_is_the_same(void **state)
{
    (void)state;
    json_t *bans = ban_what_does_not_print();
    json_t *once = ask("The cat", " sat on the mat.", bans);
    json_t *again = ask("The cat", " sat on the mat.", bans);
    assert_true(json_equal(json_object_get(once, "gaps"), json_object_get(again, "gaps")));
    json_decref(once);
    json_decref(again);
    json_decref(bans);
    assert_int_equal(mem_bytes(MEM_REQUESTS), 0);
}

int main(void)
{
    json_in_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equals_the_definition),
        cmocka_unit_test(test_again_is_the_same),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
