/*
 * What the modes share that see only the text before a gap (fim, rerank): that text with the
 * fills known by now, and budgets. Independent gaps see no fills. Sequential ones are a chain of
 * jobs: gap k is planned when the fills before it are known.
 *
 * What surprises: the budgets of a chain are all cut before its first job, so that a long first
 * fill cannot leave a later gap without room.
 */
#include "api/infill_gaps.h"

#include <string.h>

/* ---- text ---------------------------------------------------------------------------------- */

/* Text before gap k with the fills known by now. */
enum err infill_gaps_before(struct call *call, const struct gaps_notes *notes, int32_t k,
    struct bound_text *out_text, struct err_info *info)
{
    struct buf text;
    buf_init(&text, MEM_REQUESTS, (size_t)8 << 20);
    for (int32_t i = 0; i <= k; i++) {
        buf_append(&text, notes->texts[i].bytes, (size_t)notes->texts[i].count);
        if (notes->chain && i < notes->current) {
            buf_append(&text, notes->fills[i].text, notes->fills[i].text_bytes);
        }
    }
    char *copy =
        text.failed ? NULL : arena_copy(call->arena, text.count > 0 ? text.bytes : "", text.count);
    *out_text = (struct bound_text){copy, (int32_t)text.count};
    buf_free(&text);
    return copy != NULL ? ERR_OK : call_no_memory(info);
}

/* A text far too long is refused before it is tokenized once for every gap. */
enum err infill_gaps_check_length(
    struct call *call, const struct gaps_notes *notes, struct err_info *info)
{
    int64_t tokens = 0;
    for (int32_t i = 0; i <= notes->gap_count; i++) {
        struct call_ids ids;
        enum err err = call_tokenize(call, &notes->texts[i], i > 0 ? TOKENIZE_CONTINUES : 0,
            infill_gaps_where(call), &ids, info);
        if (err != ERR_OK) {
            return err;
        }
        tokens += i < notes->gap_count ? ids.count : 0;
    }
    return tokens > (int64_t)call->model->context * 2
               ? call_check_context(call, tokens, infill_gaps_where(call), info)
               : ERR_OK;
}

/* ---- budgets ------------------------------------------------------------------------------- */

/* One token of room is needed, unless the gap only warms the cache. */
int64_t infill_gaps_need(const struct gap *gap)
{
    return gap->tokens_max > 0 ? 1 : 0;
}

void infill_gaps_set_budget(struct gap *gap, int64_t room)
{
    gap->tokens_max = MIN(gap->tokens_max, room);
    gap->tokens_min = (int32_t)MIN(gap->tokens_min, gap->tokens_max);
}

/* A later prompt holds the fills before it: each gap gets what it wants as far as all later ones
 * still get a token each. */
enum err infill_gaps_fit_chain(
    struct call *call, struct gaps_notes *notes, const int64_t *fixed, struct err_info *info)
{
    int64_t given = 0;
    for (int32_t i = 0; i < notes->gap_count; i++) {
        struct gap *gap = &notes->gaps[i];
        int64_t room = INT64_MAX;
        int64_t later = 0; /* what the gaps behind this one need */
        for (int32_t k = i; k < notes->gap_count; k++) {
            later += k > i ? infill_gaps_need(&notes->gaps[k]) : 0;
            room = MIN(room, call->model->context - fixed[k] - given - later);
        }
        if (room < infill_gaps_need(gap)) {
            return call_check_context(call, call->model->context - room + infill_gaps_need(gap),
                infill_gaps_where(call), info);
        }
        infill_gaps_set_budget(gap, room);
        given += gap->tokens_max;
    }
    return ERR_OK;
}
