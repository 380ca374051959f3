/*
 * Goal: mode rerank answers what its definition says, with a real engine.
 * Method: the definition once more, slowly: every token is a job of its own, so is the score of
 * every cut, branches and cuts are sorted and gone through, and texts are scored whole by the
 * log-probabilities of a prompt. What a token must not be is banned, place by place. The model is a
 * tiny random one over bytes and a few tokens with spaces (byte_llama.h), kept to ASCII that prints
 * by logit_bias, so that no candidate ends early.
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

/* What stands around the gap. */
struct around {
    struct ids left, right;
    bool spaced; /* a space was taken off the left */
    bool behind; /* the right begins with a space */
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
static const struct ids none;
static double boost; /* logit_bias of tokens that begin with a space */

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

static const char *piece_of(int32_t token, size_t *out_bytes)
{
    return tokenizer_piece(engine_tokenizer(engine), token, false, out_bytes);
}

static bool is_banned(int32_t token)
{
    size_t bytes;
    const char *piece = piece_of(token, &bytes);
    bool prints = bytes > 0;
    for (size_t i = 0; i < bytes; i++) {
        prints = prints && piece[i] >= ' ' && piece[i] <= '~';
    }
    return !prints;
}

static double bias_of(int32_t token)
{
    size_t bytes;
    const char *piece = piece_of(token, &bytes);
    return bytes > 0 && piece[0] == ' ' ? boost : 0;
}

/* Whether a fill may go on with the token: a space that was taken off begins it, once. */
static bool may_follow(const struct around *around, const struct ids *fill, int32_t token)
{
    char text[64] = {0};
    size_t bytes, at = 0;
    for (int32_t i = 0; i < fill->count && i < 2; i++) {
        const char *piece = piece_of(fill->ids[i], &bytes);
        memcpy(text + at, piece, bytes);
        at += bytes;
    }
    const char *piece = piece_of(token, &bytes);
    memcpy(text + at, piece, MIN(bytes, sizeof(text) - 1 - at));
    bool once = text[0] == ' ' && text[1] != ' ';
    return !is_banned(token) && (!around->spaced || once);
}

/* The greedy token behind the left and these. */
static struct said next_of(const struct around *around, const struct ids *fill)
{
    struct ids ids = join(&around->left, fill);
    struct logit_bias biases[BIASES];
    int32_t bias_count = 0;
    for (int32_t id = 0; id < tokenizer_vocab(engine_tokenizer(engine)); id++) {
        bool may = may_follow(around, fill, id);
        biases[bias_count++] = (struct logit_bias){id, may ? (float)bias_of(id) : -INFINITY};
    }
    struct plan_step step = {
        .kind = STEP_DECODE, .read_row = -1, .position = -1, .tokens_max = 1, .top_logprobs = TOPS};
    struct plan_item item = {.tokens = ids.ids,
        .token_count = ids.count,
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

static struct ids filled(const struct candidate *candidate, int32_t count)
{
    struct ids ids = none;
    for (int32_t i = 0; i < count; i++) {
        ids.ids[ids.count++] = candidate->said[i].token;
    }
    return ids;
}

static void finish_candidate(const struct around *around, struct candidate *candidate)
{
    for (int32_t n = candidate->own; n < FILL_MAX; n++) {
        struct ids fill = filled(candidate, n);
        candidate->said[n] = next_of(around, &fill);
    }
}

static int by_branch(const void *a, const void *b)
{
    const struct branch *x = a, *y = b;
    if (x->total != y->total) {
        return x->total > y->total ? -1 : 1;
    }
    return x->order - y->order;
}

static int32_t all_branches(
    const struct around *around, const struct candidate *greedy, struct branch *branches)
{
    int32_t count = 0;
    double before = 0;
    for (int32_t at = 0; at < FILL_MAX; at++) {
        const struct said *said = &greedy->said[at];
        struct ids fill = filled(greedy, at);
        for (int32_t k = 0; k < TOPS; k++) {
            const struct token_logprob *top = &said->top[k];
            if (top->token != said->token && may_follow(around, &fill, top->token)) {
                double logprob = (double)top->logprob;
                branches[count] = (struct branch){at, count, {top->token, logprob, {{0}}},
                    before + logprob + bias_of(top->token)};
                count++;
            }
        }
        before += said->logprob;
    }
    qsort(branches, (size_t)count, sizeof(*branches), by_branch);
    return count;
}

static int32_t all_candidates(const struct around *around, struct candidate *candidates)
{
    struct branch branches[BRANCHES_MAX];
    candidates[0].own = 0;
    finish_candidate(around, &candidates[0]);
    int32_t count = MIN(1 + all_branches(around, &candidates[0], branches), CANDIDATES);
    assert_true(count > 1);
    for (int32_t k = 1; k < count; k++) {
        const struct branch *branch = &branches[k - 1];
        candidates[k] = candidates[0];
        candidates[k].said[branch->at] = branch->said;
        candidates[k].own = branch->at + 1;
        finish_candidate(around, &candidates[k]);
    }
    return count;
}

static int by_total(const void *a, const void *b)
{
    const struct cut *x = a, *y = b;
    if (x->total != y->total) {
        return x->total > y->total ? -1 : 1;
    }
    return x->order - y->order;
}

static void text_of(const struct around *around, const struct ids *fill, char *out)
{
    for (int32_t i = 0; i < fill->count; i++) {
        size_t bytes, from = i == 0 && around->spaced ? 1 : 0;
        const char *piece = piece_of(fill->ids[i], &bytes);
        memcpy(out, piece + from, bytes - from);
        out += bytes - from;
    }
    *out = '\0';
}

/* Other tokens may spell the same text. */
static bool equal_texts(const struct around *around, const struct cut *a, const struct cut *b)
{
    char texts[2][64];
    text_of(around, &a->fill, texts[0]);
    text_of(around, &b->fill, texts[1]);
    return strcmp(texts[0], texts[1]) == 0;
}

/* Neither is it empty nor is its last space the right's. */
static bool may_end(const struct around *around, const struct ids *fill)
{
    char text[64];
    text_of(around, fill, text);
    size_t bytes = strlen(text);
    return bytes > 0 && !(around->behind && text[bytes - 1] == ' ');
}

/* The longest of the greedy candidate comes first, whatever it is worth. */
static int32_t all_cuts(const struct around *around, struct cut *cuts)
{
    struct candidate candidates[CANDIDATES];
    int32_t count = 0, longest = 0;
    int32_t candidate_count = all_candidates(around, candidates);
    for (int32_t k = 0; k < candidate_count; k++) {
        double fill = 0;
        for (int32_t n = 1; n <= FILL_MAX; n++) {
            struct cut *cut = &cuts[count];
            fill += candidates[k].said[n - 1].logprob;
            *cut = (struct cut){.order = count, .fill = filled(&candidates[k], n)};
            cut->total = fill + first_score(&around->left, &cut->fill, around->right.ids[0]);
            if (n >= candidates[k].own && may_end(around, &cut->fill)) {
                longest = k == 0 ? count : longest;
                count++;
            }
        }
    }
    cuts[longest].total = INFINITY;
    qsort(cuts, (size_t)count, sizeof(*cuts), by_total);
    return count;
}

/* The best fill of the best cuts. */
static struct cut best_cut(const struct around *around)
{
    static struct cut cuts[CUTS_MAX], kept[KEPT];
    int32_t count = all_cuts(around, cuts), kept_count = 0;
    for (int32_t i = 0; i < count && kept_count < KEPT; i++) {
        bool seen = false;
        for (int32_t k = 0; k < kept_count; k++) {
            seen = seen || equal_texts(around, &cuts[i], &kept[k]);
        }
        if (!seen) {
            kept[kept_count++] = cuts[i];
        }
    }
    assert_int_equal(kept_count, KEPT);
    struct cut best = {.score = -1e9};
    for (int32_t k = 0; k < kept_count; k++) {
        kept[k].score = whole_score(&around->left, &kept[k].fill, &around->right);
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
    for (int32_t id = 0; id < vocab; id++) {
        if (is_banned(id)) {
            (void)json_array_append_new(bans, json_pack("[i,b]", (int)id, 0));
        } else if (bias_of(id) != 0) {
            (void)json_array_append_new(bans, json_pack("[i,f]", (int)id, bias_of(id)));
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

static void check_fill(
    const json_t *reply, const struct around *around, const struct cut *expected, const char *name)
{
    const json_t *gap = json_array_get(json_object_get(reply, "gaps"), 0);
    char text[64];
    text_of(around, &expected->fill, text);
    double score = json_number_value(json_object_get(gap, "score"));
    if (strcmp(json_string_value(json_object_get(gap, "text")), text) != 0 ||
        score < expected->score - 1e-4 || score > expected->score + 1e-4) {
        fail_msg("%s: \"%s\" at %f, not \"%s\" at %f", name,
            json_string_value(json_object_get(gap, "text")), score, text, expected->score);
    }
    const char *finish = expected->fill.count == FILL_MAX ? "length" : "stop";
    assert_string_equal(json_string_value(json_object_get(gap, "finish_reason")), finish);
}

static void check_cases(double boosted)
{
    static const struct {
        const char *left, *right;
    } cases[] = {
        {"The cat", " sat on the mat."},
        {"x = f(", ");"},
        {"Once upon a", "!"},
        {"abcabcabc", "abcabcabcabcabc"},
        {"\n\n", "\n\n"},
        {"The cat ", " sat on the mat."},
        {"b a ", "t"},
        {"x  ", "  y"},
    };
    boost = boosted;
    json_t *bans = ban_what_does_not_print();
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char left[64];
        size_t bytes = strlen(cases[i].left);
        struct around around = {.spaced = cases[i].left[bytes - 1] == ' ',
            .behind = cases[i].right[0] == ' ',
            .right = ids_of(cases[i].right, RIGHT, false)};
        (void)snprintf(left, sizeof(left), "%.*s", (int)bytes - around.spaced, cases[i].left);
        around.left = ids_of(left, IDS_MAX, true);
        struct cut expected = best_cut(&around);
        json_t *reply = ask(cases[i].left, cases[i].right, bans);
        check_fill(reply, &around, &expected, cases[i].left);
        json_decref(reply);
    }
    json_decref(bans);
}

static void test_equals_the_definition(void **state)
{
    (void)state;
    check_cases(0);
    check_cases(3); /* many spaces: where one may come and where not decides */
    boost = 0;
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
