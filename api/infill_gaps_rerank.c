/*
 * The gap form in mode rerank (rerank.h). A sequential gap is settled before the next one
 * begins, whose left then holds its fill; independent gaps run side by side in the same jobs.
 *
 * What surprises: the left of a later gap is not tokenized as one text. It is the tokens of the
 * gap before, of its fill as it was sampled and of the text between, which is how the fill was
 * judged, what the cache holds, and a length that is known before the first job.
 */
#include "api/infill_gaps.h"

/* What is tokenized of a gap: the text before it (with independent gaps all of it) and behind. */
struct pieces {
    struct call_ids prefix, space, suffix;
};

static enum err gap_pieces(struct call *call, const struct gaps_notes *notes, int32_t k,
    struct pieces *out, struct err_info *info)
{
    struct pieces pieces = {0};
    struct bound_text before = notes->texts[k];
    struct bound_text after = notes->texts[k + 1];
    unsigned flags = notes->chain && k > 0 ? TOKENIZE_CONTINUES : 0;
    struct call_ids unused;
    bool empty = notes->gaps[k].tokens_max == 0;
    const char *where = infill_gaps_where(call);
    enum err err = notes->chain ? ERR_OK : infill_gaps_before(call, notes, k, &before, info);
    if (err == ERR_OK && !empty) {
        err = infill_heal(call, &before, &pieces.space, info);
    }
    if (err == ERR_OK) {
        err = call_tokenize(call, &before, flags, where, &pieces.prefix, info);
    }
    if (err == ERR_OK && k + 1 < notes->gap_count) { /* the space before the next gap is its own */
        err = infill_heal(call, &after, &unused, info);
    }
    if (err == ERR_OK && !empty) {
        err = call_tokenize(call, &after, TOKENIZE_CONTINUES, where, &pieces.suffix, info);
    }
    *out = pieces;
    return err;
}

static enum err gap_sides(
    struct call *call, const struct gaps_notes *notes, int32_t k, struct err_info *info)
{
    struct rerank_gap *gap = &notes->rerank[k];
    struct pieces pieces;
    int32_t bos_id = tokenizer_special(call->tokenizer, TOKEN_BOS);
    struct call_ids before = {&bos_id, tokenizer_adds_bos(call->tokenizer) ? 1 : 0};
    if (notes->chain && k > 0) {
        before = rerank_filled(&notes->rerank[k - 1], 0);
    }
    enum err err = gap_pieces(call, notes, k, &pieces, info);
    if (err != ERR_OK) {
        return err;
    }
    *gap = (struct rerank_gap){.space = pieces.space,
        .right = {pieces.suffix.ids, MIN(pieces.suffix.count, RERANK_RIGHT)},
        .sampling = notes->sampling,
        .answers = 1,
        .whole = notes->gaps[k].until == INFILL_REQUEST_UNTIL_LENGTH};
    notes->gaps[k].border = infill_border(&pieces.space);
    return call_join(call, &before, &pieces.prefix, &gap->left, info);
}

static enum err begin_gap(
    struct call *call, const struct gaps_notes *notes, int32_t k, struct err_info *info)
{
    struct gap *gap = &notes->gaps[k];
    struct rerank_gap *rerank = &notes->rerank[k];
    enum err err = gap_sides(call, notes, k, info);
    if (err == ERR_OK) {
        err = call_check_context(
            call, rerank_fixed(rerank) + infill_gaps_need(gap), infill_gaps_where(call), info);
    }
    if (err != ERR_OK) {
        return err;
    }
    infill_gaps_set_budget(gap, call->model->context - rerank_fixed(rerank));
    rerank->step = infill_step(-1, -1, (int32_t)gap->tokens_max);
    return infill_gaps_step(call, gap, &rerank->step, info);
}

/* Slots of every gap of a chain besides the fills. */
static enum err fit_chain(struct call *call, struct gaps_notes *notes, struct err_info *info)
{
    int64_t fixed[LIMIT_GAPS] = {0};
    int64_t left = tokenizer_adds_bos(call->tokenizer) ? 1 : 0;
    for (int32_t k = 0; k < notes->gap_count; k++) {
        struct pieces pieces;
        enum err err = gap_pieces(call, notes, k, &pieces, info);
        if (err != ERR_OK) {
            return err;
        }
        left += pieces.prefix.count + pieces.space.count;
        fixed[k] = left + MIN(pieces.suffix.count, RERANK_RIGHT);
    }
    return infill_gaps_fit_chain(call, notes, fixed, info);
}

enum err infill_gaps_rerank_plan(struct call *call, struct gaps_notes *notes, struct err_info *info)
{
    size_t count = (size_t)notes->gap_count;
    notes->chain = !notes->independent;
    call->asks_more = true;
    enum err err = call_array(call, count, sizeof(*notes->rerank), &notes->rerank, info);
    if (err == ERR_OK) {
        err = call_array(call, count, sizeof(*notes->fills), &notes->fills, info);
    }
    if (err == ERR_OK) {
        err = notes->chain ? fit_chain(call, notes, info)
                           : infill_gaps_check_length(call, notes, info);
    }
    int32_t begun = notes->chain ? 1 : notes->gap_count;
    for (int32_t k = 0; err == ERR_OK && k < begun; k++) {
        err = begin_gap(call, notes, k, info);
    }
    return err == ERR_OK ? rerank_plan(call, notes->rerank, begun, info) : err;
}

enum err infill_gaps_rerank_more(
    struct call *call, const struct job *job, bool *out_more, struct err_info *info)
{
    struct gaps_notes *notes = call->state;
    int32_t from = notes->chain ? notes->current : 0;
    int32_t count = notes->chain ? 1 : notes->gap_count;
    bool settled = false;
    enum err err = rerank_take(call, &notes->rerank[from], count, job, &settled, info);
    for (int32_t k = from; err == ERR_OK && settled && k < from + count; k++) {
        notes->fills[k] = notes->rerank[k].fills[0];
    }
    if (err != ERR_OK || (settled && from + count == notes->gap_count)) {
        return err;
    }
    call_add_job(call, job);
    if (settled) {
        notes->current = ++from;
        err = begin_gap(call, notes, from, info);
    }
    if (err == ERR_OK) {
        err = rerank_plan(call, &notes->rerank[from], count, info);
    }
    *out_more = err == ERR_OK;
    return err;
}
