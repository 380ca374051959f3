/* Options of llama.cpp's routes to the engine's form; see llama.h. */
#include "api/llama.h"

#include <math.h>
#include <stdio.h>

/* [id or text, number or false]: a text biases each of its tokens, false bans. */
static enum err add_pair(struct call *call, struct sampling *sampling, struct logit_bias *biases,
    const struct common_llama_logit_bias_pairs_item *pair, int32_t index, struct err_info *info)
{
    char where[48];
    struct call_ids ids = {.count = 1};
    int32_t one = pair->token.id;
    bool ban = pair->bias.form == COMMON_LLAMA_LOGIT_BIAS_PAIRS_ITEM_BIAS_BAN;
    (void)snprintf(where, sizeof(where), "/logit_bias/%d/%d", index, ban ? 1 : 0);
    if (ban && pair->bias.ban) {
        return call_fail(info, ERR_INVALID, NULL, where, "must be a number or false");
    }
    float bias = ban ? -INFINITY : (float)pair->bias.number;
    enum err err = ERR_OK;
    if (pair->token.form == COMMON_LLAMA_LOGIT_BIAS_PAIRS_ITEM_TOKEN_TEXT) {
        err = call_tokenize(call, &pair->token.text, TOKENIZE_CONTINUES, where, &ids, info);
    } else {
        ids.ids = &one;
        if (one >= tokenizer_vocab(call->tokenizer)) {
            return call_fail(
                info, ERR_INVALID, "token_out_of_range", where, "is not in the vocabulary");
        }
    }
    for (int32_t i = 0; err == ERR_OK && i < ids.count; i++) {
        err = call_add_bias(sampling, biases, ids.ids[i], bias, info);
    }
    return err;
}

static enum err read_biases(struct call *call, const struct common_llama_logit_bias *given,
    struct sampling *sampling, struct err_info *info)
{
    struct logit_bias *biases = NULL;
    if (given->form == COMMON_LLAMA_LOGIT_BIAS_MAP) {
        return call_biases(call, &given->map, sampling, info);
    }
    enum err err = call_array(call, LIMIT_LOGIT_BIAS, sizeof(*biases), &biases, info);
    for (int32_t i = 0; err == ERR_OK && i < given->pairs.count; i++) {
        err = add_pair(call, sampling, biases, &given->pairs.items[i], i, info);
    }
    sampling->logit_bias = biases;
    return err;
}

enum err llama_sampling(struct call *call, const struct common_sampling *sampling,
    const struct common_llama *options, struct sampling *out_sampling, struct err_info *info)
{
    enum err err = call_sampling(
        call, sampling, options->repeat_penalty, options->repeat_last_n, "", out_sampling, info);
    return err == ERR_OK && options->has_logit_bias
               ? read_biases(call, &options->logit_bias, out_sampling, info)
               : err;
}

enum err llama_step(struct call *call, const struct common_sampling *sampling,
    const struct common_llama *options, struct plan_step *step, struct err_info *info)
{
    step->ban_end = options->ignore_eos;
    step->indent_min = options->n_indent;
    step->top_logprobs = options->n_probs > 0 ? options->n_probs : -1;
    return call_stops(call, sampling->has_stop, &sampling->stop, step, info);
}

void llama_plan(struct call *call, const struct common_sampling *sampling,
    const struct common_llama *options, bool lines)
{
    int64_t ms = MIN(options->t_max_predict_ms, call->limits->timeout_ms_max);
    call->plan.predict_us = options->has_t_max_predict_ms && ms > 0 ? ms * 1000 : 0;
    call->plan.predict_line = lines;
    call->plan.cache_off = !sampling->cache_prompt;
}
