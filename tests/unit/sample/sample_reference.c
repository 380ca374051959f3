/* See sample_reference.h. State of a pick: one logit a token, -INFINITY once it is out. */
#include "tests/unit/sample/sample_reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct item {
    double key, p;
    int32_t id;
};

static int compare_items(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    if (x->key != y->key) {
        return x->key < y->key ? -1 : 1;
    }
    return (x->id > y->id) - (x->id < y->id);
}

/* Softmax over what is left; returns how many tokens that is. */
static int32_t softmax(const double *logits, int32_t vocab, double *out_p)
{
    double best = -INFINITY, sum = 0;
    int32_t count = 0;
    for (int32_t i = 0; i < vocab; i++) {
        best = fmax(best, logits[i]);
    }
    for (int32_t i = 0; i < vocab; i++) {
        out_p[i] = exp(logits[i] - best);
        sum += out_p[i];
        count += logits[i] > -INFINITY;
    }
    for (int32_t i = 0; i < vocab; i++) {
        out_p[i] /= sum;
    }
    return count;
}

/* Sorts by key and throws out all but the first k, or all after the mass has reached p. */
static void keep(double *logits, struct item *items, int32_t count, int32_t k, double mass)
{
    qsort(items, (size_t)count, sizeof(*items), compare_items);
    double reached = 0;
    for (int32_t i = 0; i < count; i++) {
        if (i >= k || (i > 0 && reached >= mass)) {
            logits[items[i].id] = -INFINITY;
        }
        reached += items[i].p;
    }
}

static void filter(
    const struct sampling *sampling, enum sampler_kind stage, double *logits, int32_t vocab)
{
    double p[REFERENCE_VOCAB_MAX], entropy = 0, p_max = 0;
    struct item items[REFERENCE_VOCAB_MAX];
    int32_t count = softmax(logits, vocab, p);
    int32_t n = 0;
    for (int32_t i = 0; i < vocab; i++) {
        p_max = fmax(p_max, p[i]);
        entropy -= p[i] > 0 ? p[i] * log(p[i]) : 0;
        if (logits[i] > -INFINITY) {
            items[n++] = (struct item){.key = -logits[i], .p = p[i], .id = i};
        }
    }
    if (stage == SAMPLER_TOP_K && sampling->top_k > 0) {
        keep(logits, items, count, sampling->top_k, INFINITY);
    } else if (stage == SAMPLER_TOP_P && sampling->top_p < 1) {
        keep(logits, items, count, count, (double)sampling->top_p);
    } else if (stage == SAMPLER_TYPICAL_P && sampling->typical_p < 1) {
        for (int32_t i = 0; i < count; i++) {
            items[i].key = fabs(-log(items[i].p) - entropy);
        }
        keep(logits, items, count, count, (double)sampling->typical_p);
    } else if (stage == SAMPLER_MIN_P) {
        for (int32_t i = 0; i < count; i++) {
            if (items[i].p < (double)sampling->min_p * p_max) {
                logits[items[i].id] = -INFINITY;
            }
        }
    } else if (stage == SAMPLER_TEMPERATURE) {
        for (int32_t i = 0; i < vocab; i++) {
            logits[i] /= (double)sampling->temperature;
        }
    }
}

static void penalize(const struct sample_request *request, double *logits, int32_t vocab)
{
    const struct sampling *s = request->sampling;
    for (int32_t id = 0; id < vocab; id++) {
        int32_t times = 0;
        bool repeated = false;
        for (int32_t back = 1; back <= request->history_count; back++) {
            if (request->history[request->history_count - back] == id) {
                repeated |= s->penalty_last_n < 0 || back <= s->penalty_last_n;
                times += back <= request->generated_count;
            }
        }
        if (repeated) {
            logits[id] *=
                logits[id] > 0 ? 1 / (double)s->repetition_penalty : (double)s->repetition_penalty;
        }
        logits[id] -= times > 0 ? (double)s->presence_penalty : 0;
        logits[id] -= times * (double)s->frequency_penalty;
    }
}

void reference_probabilities(
    const struct sample_request *request, const float *logits, int32_t vocab, double *out)
{
    static const enum sampler_kind usual[] = {SAMPLER_PENALTIES, SAMPLER_TOP_K, SAMPLER_TYPICAL_P,
        SAMPLER_TOP_P, SAMPLER_MIN_P, SAMPLER_TEMPERATURE};
    const struct sampling *s = request->sampling;
    double left[REFERENCE_VOCAB_MAX];
    for (int32_t i = 0; i < vocab; i++) {
        left[i] = isnan(logits[i]) ? -INFINITY : (double)logits[i];
    }
    for (int32_t i = 0; i < s->logit_bias_count; i++) {
        left[s->logit_bias[i].token] += (double)s->logit_bias[i].bias;
    }
    for (int32_t id = 0; request->allows != NULL && id < vocab; id++) {
        left[id] = request->allows(request->allows_context, id) ? left[id] : -INFINITY;
    }
    for (int32_t i = 0; i < request->banned_count; i++) {
        left[request->banned[i]] = -INFINITY;
    }
    bool usual_chain = s->sampler_count == 0 && !s->no_samplers;
    const enum sampler_kind *chain = usual_chain ? usual : s->samplers;
    int32_t stages = usual_chain ? SAMPLER_KIND_COUNT : s->sampler_count;
    for (int32_t i = 0; i < stages; i++) {
        if (chain[i] == SAMPLER_PENALTIES) {
            penalize(request, left, vocab);
        } else if (s->temperature > 0) {
            filter(s, chain[i], left, vocab);
        }
    }
    if (s->temperature > 0) {
        softmax(left, vocab, out);
        return;
    }
    int32_t best = 0;
    memset(out, 0, (size_t)vocab * sizeof(*out));
    for (int32_t i = 1; i < vocab; i++) {
        best = left[i] > left[best] ? i : best;
    }
    out[best] = 1;
}

int32_t reference_pick(const double *probabilities, int32_t vocab, double u)
{
    double mass = 0;
    int32_t last = 0;
    for (int32_t i = 0; i < vocab; i++) {
        mass += probabilities[i];
        last = probabilities[i] > 0 ? i : last;
        if (mass > u) {
            return i;
        }
    }
    return last;
}
