/*
 * Goal: mode rerank answers what its definition says, with a real engine.
 * Method: the definition once more, slowly: each candidate is a job of its own, every cut is scored
 * by a job of its own, all cuts are sorted and gone through, and texts are scored whole by the
 * log-probabilities of a prompt. The model is a tiny random one over bytes (byte_llama.h), kept to
 * small letters by logit_bias, so that a token is a letter.
 */
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
    CUTS_MAX = CANDIDATES * FILL_MAX,
    KEPT = 16,
    OF_ONE = 3,
    RIGHT = 12,
    FIRST_BYTE = 3, /* token of byte 0 */
};

struct ids {
    int32_t ids[IDS_MAX];
    int32_t count;
};

struct cut {
    int32_t candidate, order;
    struct ids fill;
    double first, score;
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

/* Candidate k: the letters it says. */
static struct ids decode(const struct ids *left, int32_t k)
{
    struct plan_step step = {
        .kind = STEP_DECODE, .read_row = -1, .position = -1, .tokens_max = FILL_MAX};
    struct plan_item item = {.tokens = left->ids,
        .token_count = left->count,
        .steps = &step,
        .step_count = 1,
        .sampling = {.temperature = k == 0 ? 0 : 0.8f,
            .top_k = 40,
            .top_p = 0.95f,
            .min_p = 0.05f,
            .typical_p = 1,
            .repetition_penalty = 1,
            .penalty_last_n = 64,
            .sample_index = (uint32_t)k,
            .logit_bias = biases,
            .logit_bias_count = bias_count}};
    struct job *job = run(&item);
    const struct step_result *result = &job->results[0].steps[0];
    struct ids ids = {.count = result->token_count - (result->finish == FINISH_EOS)};
    memcpy(ids.ids, result->tokens, (size_t)ids.count * sizeof(*ids.ids));
    engine_release(engine, job);
    return ids;
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
    return sums[1] / right->count + 0.3 * sums[0] / fill->count;
}

/* ---- the definition ------------------------------------------------------------------------ */

static int by_first(const void *a, const void *b)
{
    const struct cut *x = a, *y = b;
    if (x->first != y->first) {
        return x->first > y->first ? -1 : 1;
    }
    return x->order - y->order;
}

static bool equal_fills(const struct cut *a, const struct cut *b)
{
    return a->fill.count == b->fill.count &&
           memcmp(a->fill.ids, b->fill.ids, (size_t)a->fill.count * sizeof(int32_t)) == 0;
}

static int32_t all_cuts(const struct ids *left, const struct ids *right, struct cut *cuts)
{
    int32_t count = 0;
    for (int32_t k = 0; k < CANDIDATES; k++) {
        struct ids said = decode(left, k);
        for (int32_t n = 1; n <= said.count; n++) {
            struct cut *cut = &cuts[count];
            *cut = (struct cut){.candidate = k, .order = count, .fill = said};
            cut->fill.count = n;
            cut->first = first_score(left, &cut->fill, right->ids[0]);
            count++;
        }
    }
    return count;
}

/* The best fill of the best cuts. */
static struct cut best_cut(const struct ids *left, const struct ids *right)
{
    static struct cut cuts[CUTS_MAX], kept[KEPT];
    int32_t count = all_cuts(left, right, cuts), kept_count = 0, of_one[CANDIDATES] = {0};
    qsort(cuts, (size_t)count, sizeof(*cuts), by_first);
    for (int32_t i = 0; i < count && kept_count < KEPT; i++) {
        bool seen = false;
        for (int32_t k = 0; k < kept_count; k++) {
            seen = seen || equal_fills(&cuts[i], &kept[k]);
        }
        if (!seen && of_one[cuts[i].candidate] < OF_ONE) {
            of_one[cuts[i].candidate]++;
            kept[kept_count++] = cuts[i];
        }
    }
    assert_true(kept_count > OF_ONE);
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

static json_t *bias_everything_but_letters(void)
{
    json_t *map = json_object();
    int32_t vocab = tokenizer_vocab(engine_tokenizer(engine));
    bias_count = 0;
    for (int32_t id = 0; id < vocab; id++) {
        char key[16];
        if (id >= FIRST_BYTE + 'a' && id <= FIRST_BYTE + 'z') {
            continue;
        }
        (void)snprintf(key, sizeof(key), "%d", (int)id);
        (void)json_object_set_new(map, key, json_real(-100));
        biases[bias_count++] = (struct logit_bias){id, -100};
    }
    return map;
}

static json_t *ask(const char *left, const char *right, json_t *map)
{
    char text[256];
    int32_t jobs;
    (void)snprintf(text, sizeof(text), "%s[gap]%s", left, right);
    json_t *body = json_pack("{s:s,s:i,s:i,s:O}", "text", text, "max_tokens", (int)FILL_MAX,
        "candidates", (int)CANDIDATES, "logit_bias", map);
    char *dumped = json_dumps(body, 0);
    json_t *reply = byte_llama_answer(engine, dumped, &jobs);
    assert_int_equal(jobs, 2);
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
    json_t *map = bias_everything_but_letters();
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct ids left = ids_of(cases[i].left, IDS_MAX, true);
        struct ids right = ids_of(cases[i].right, RIGHT, false);
        struct cut expected = best_cut(&left, &right);
        json_t *reply = ask(cases[i].left, cases[i].right, map);
        check_fill(reply, &expected, cases[i].left);
        json_decref(reply);
    }
    json_decref(map);
}

static void test_again_is_the_same(void **state)
{
    (void)state;
    json_t *map = bias_everything_but_letters();
    json_t *once = ask("The cat", " sat on the mat.", map);
    json_t *again = ask("The cat", " sat on the mat.", map);
    assert_true(json_equal(json_object_get(once, "gaps"), json_object_get(again, "gaps")));
    json_decref(once);
    json_decref(again);
    json_decref(map);
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
