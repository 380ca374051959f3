/*
 * The gap form of /infill: text with marked gaps, or segments.
 *
 * In hybrid mode all text around the gaps is one bidirectional context. Gap k holds `reserve`
 * positions open; its first token is read from the row of its left neighbour:
 *
 *     "A B [gap] C", reserve 2:   tokens     A B C      positions 0 1 4
 *                                 gap tokens            positions 2 3, first read from row 1
 *
 * Sequential gaps are steps of one sequence (a later gap sees earlier fills), independent gaps are
 * sequences of their own over the same context.
 */
#include "api/infill_gaps.h"

#include <stdio.h>
#include <string.h>
#include "engine/base/assert.h"
#include "engine/base/utf8.h"

/* ---- reading the body ---------------------------------------------------------------------- */

static struct gap default_gap(const struct infill_request *request)
{
    return (struct gap){.tokens_max = request->max_tokens,
        .tokens_min = request->min_tokens,
        .reserve = request->has_reserve ? request->reserve : 0,
        .until = request->until,
        .has_stop = request->sampling.has_stop,
        .stop = request->sampling.stop};
}

static struct gap gap_of(const struct infill_request *request,
    const struct infill_request_gap_options *options, int32_t segment)
{
    struct gap gap = default_gap(request);
    (void)snprintf(gap.where, sizeof(gap.where), "/segments/%d/gap", segment);
    gap.id = options->has_id ? options->id.bytes : NULL;
    gap.tokens_max = options->has_max_tokens ? options->max_tokens : gap.tokens_max;
    gap.tokens_min = options->has_min_tokens ? options->min_tokens : gap.tokens_min;
    gap.reserve = options->has_reserve ? options->reserve : gap.reserve;
    gap.until = options->has_until ? options->until : gap.until;
    if (options->has_stop) {
        gap.has_stop = true;
        gap.stop = options->stop;
    }
    return gap;
}

static enum err add_gap(struct gaps_notes *notes, struct gap gap, struct err_info *info)
{
    if (notes->gap_count == LIMIT_GAPS) {
        return call_fail(info, ERR_INVALID, "too_many_gaps", gap.where[0] ? "/segments" : "/text",
            "holds more than %d gaps", LIMIT_GAPS);
    }
    notes->gaps[notes->gap_count++] = gap;
    return ERR_OK;
}

/* Splits `text` at each exact occurrence of the marker. */
static enum err read_text(struct call *call, struct gaps_notes *notes, struct err_info *info)
{
    const struct infill_request *request = call->request;
    const char *at = request->text.bytes;
    for (const char *mark; (mark = strstr(at, request->gap.bytes)) != NULL;) {
        notes->texts[notes->gap_count] = (struct bound_text){at, (int32_t)(mark - at)};
        enum err err = add_gap(notes, default_gap(request), info);
        if (err != ERR_OK) {
            return err;
        }
        at = mark + request->gap.count;
    }
    notes->texts[notes->gap_count] = call_text(at);
    return ERR_OK;
}

static enum err read_segments(struct call *call, struct gaps_notes *notes, struct err_info *info)
{
    const struct infill_request *request = call->request;
    const char *text = "";
    for (int32_t i = 0; i < request->segments.count; i++) {
        const struct infill_request_segments_item *segment = &request->segments.items[i];
        if (segment->form == INFILL_REQUEST_SEGMENTS_ITEM_TEXT) { /* neighbouring texts join */
            text = arena_printf(call->arena, "%s%s", text, segment->text.text.bytes);
            if (text == NULL) {
                return call_no_memory(info);
            }
            continue;
        }
        notes->texts[notes->gap_count] = call_text(text);
        enum err err = add_gap(notes, gap_of(request, &segment->gap.gap, i), info);
        if (err != ERR_OK) {
            return err;
        }
        text = "";
    }
    notes->texts[notes->gap_count] = call_text(text);
    return ERR_OK;
}

const char *infill_gaps_where(const struct call *call)
{
    return ((const struct infill_request *)call->request)->has_text ? "/text" : "/segments";
}

static enum err gap_error(
    const struct gap *gap, const char *field, struct err_info *info, const char *text)
{
    char where[96];
    (void)snprintf(where, sizeof(where), "%s/%s", gap->where, field);
    return call_fail(info, ERR_INVALID, NULL, where, "%s", text);
}

static enum err check_gaps(
    const struct call *call, const struct gaps_notes *notes, struct err_info *info)
{
    const char *where = infill_gaps_where(call);
    if (notes->gap_count == 0) {
        return call_fail(info, ERR_INVALID, "no_gap", where, "there is no gap");
    }
    if (notes->texts[0].count == 0 && !tokenizer_adds_bos(call->tokenizer)) {
        return call_fail(info, ERR_INVALID, NULL, where, "the first gap has no text before it");
    }
    for (int32_t i = 0; i < notes->gap_count; i++) {
        const struct gap *gap = &notes->gaps[i];
        if (i > 0 && notes->texts[i].count == 0) {
            return call_fail(info, ERR_INVALID, NULL, where, "two gaps have no text between them");
        }
        if (gap->tokens_min > gap->tokens_max) {
            return gap_error(gap, "min_tokens", info, "must not be more than max_tokens");
        }
        if (gap->reserve > gap->tokens_max) {
            return gap_error(gap, "reserve", info, "must not be more than max_tokens");
        }
    }
    return ERR_OK;
}

/* What stands behind the gaps, as far as it matters to their fills. */
static void look_behind(const struct infill_request *request, struct gaps_notes *notes)
{
    bool spaces = request->heal && notes->mode != INFILL_FIM;
    for (int32_t i = 0; i < notes->gap_count; i++) {
        const struct bound_text *text = &notes->texts[i + 1];
        enum behind behind = border_behind(text->bytes, (size_t)text->count);
        notes->gaps[i].behind = behind == BEHIND_SPACE && !spaces ? BEHIND_OTHER : behind;
    }
}

static enum err read_gaps(struct call *call, struct gaps_notes *notes, struct err_info *info)
{
    const struct infill_request *request = call->request;
    enum err err = call_array(call, LIMIT_GAPS, sizeof(*notes->gaps), &notes->gaps, info);
    if (err == ERR_OK) {
        err = call_array(call, LIMIT_GAPS + 1, sizeof(*notes->texts), &notes->texts, info);
    }
    if (err == ERR_OK) {
        err = request->has_text ? read_text(call, notes, info) : read_segments(call, notes, info);
    }
    notes->independent = request->spans == INFILL_REQUEST_SPANS_INDEPENDENT;
    notes->answers = request->n;
    if (err == ERR_OK) {
        err = check_gaps(call, notes, info);
    }
    if (err == ERR_OK) {
        look_behind(request, notes);
    }
    return err;
}

/* ---- steps --------------------------------------------------------------------------------- */

enum err infill_gaps_step(
    struct call *call, const struct gap *gap, struct plan_step *step, struct err_info *info)
{
    const struct infill_request *request = call->request;
    bool whole = gap->until == INFILL_REQUEST_UNTIL_LENGTH;
    step->tokens_min = whole ? 0 : gap->tokens_min;
    step->ban_end = whole || request->llama.ignore_eos;
    step->border = gap->border;
    step->behind = gap->behind;
    step->sentence = gap->until == INFILL_REQUEST_UNTIL_SENTENCE;
    return whole ? ERR_OK : call_stops(call, gap->has_stop, &gap->stop, step, info);
}

/* Cuts budgets to the room that is left: for all gaps together when they share a sequence. */
static enum err fit_budgets(
    const struct call *call, struct gaps_notes *notes, int64_t context, struct err_info *info)
{
    int64_t room = call->model->context - context;
    for (int32_t i = 0; i < notes->gap_count; i++) {
        struct gap *gap = &notes->gaps[i];
        int64_t need = gap->tokens_max > 0 ? 1 : 0;
        if (room < need) {
            return call_check_context(
                call, call->model->context - room + need, infill_gaps_where(call), info);
        }
        gap->tokens_max = MIN(gap->tokens_max, room);
        gap->tokens_min = (int32_t)MIN(gap->tokens_min, gap->tokens_max);
        if (gap->reserve == 0 || gap->reserve > gap->tokens_max) {
            gap->reserve = (int32_t)gap->tokens_max;
        }
        room -= notes->independent ? 0 : gap->tokens_max;
    }
    return ERR_OK;
}

/* ---- hybrid -------------------------------------------------------------------------------- */

/* Text `i` without the space that is moved into the gap behind it, as tokens. */
static enum err text_ids(struct call *call, const struct gaps_notes *notes, int32_t i,
    struct call_ids *out_ids, struct err_info *info)
{
    struct bound_text text = notes->texts[i];
    struct call_ids space;
    enum err err = ERR_OK;
    if (i < notes->gap_count) {
        err = infill_heal(call, &text, &space, info);
        notes->gaps[i].border = infill_border(&space);
    }
    return err != ERR_OK ? err
                         : call_tokenize(call, &text, i > 0 ? TOKENIZE_CONTINUES : 0,
                               infill_gaps_where(call), out_ids, info);
}

/* The context's tokens, text by text, BOS first; counts[i] = tokens up to the end of text i. */
static enum err context_ids(struct call *call, const struct gaps_notes *notes,
    struct call_ids *out_ids, int32_t *counts, struct err_info *info)
{
    struct call_ids *pieces = NULL;
    struct call_ids ids = {.count = tokenizer_adds_bos(call->tokenizer) ? 1 : 0};
    int32_t piece_count = notes->gap_count + 1;
    enum err err = call_array(call, (size_t)piece_count, sizeof(*pieces), &pieces, info);
    for (int32_t i = 0; err == ERR_OK && i < piece_count; i++) {
        err = text_ids(call, notes, i, &pieces[i], info);
        ids.count += err == ERR_OK ? pieces[i].count : 0;
        counts[i] = ids.count;
    }
    if (err == ERR_OK) {
        err = call_array(call, (size_t)ids.count, sizeof(int32_t), &ids.ids, info);
    }
    if (err != ERR_OK) {
        return err;
    }
    if (tokenizer_adds_bos(call->tokenizer)) {
        ids.ids[0] = tokenizer_special(call->tokenizer, TOKEN_BOS);
    }
    for (int32_t i = 0; i < piece_count; i++) {
        if (pieces[i].count > 0) {
            memcpy(ids.ids + counts[i] - pieces[i].count, pieces[i].ids,
                (size_t)pieces[i].count * sizeof(int32_t));
        }
    }
    *out_ids = ids;
    return ERR_OK;
}

/* Positions of the context with the gaps held open, and one step a gap. */
static enum err lay_out(struct call *call, const struct gaps_notes *notes,
    const struct call_ids *ids, const int32_t *counts, int32_t *positions, struct plan_step *steps,
    struct err_info *info)
{
    int32_t position = 0;
    int32_t row = 0;
    for (int32_t i = 0; i <= notes->gap_count; i++) {
        for (; row < counts[i]; row++) {
            positions[row] = position++;
        }
        if (i < notes->gap_count) {
            const struct gap *gap = &notes->gaps[i];
            steps[i] = infill_step(row - 1, position, (int32_t)gap->tokens_max);
            position += gap->reserve;
            enum err err = infill_gaps_step(call, gap, &steps[i], info);
            if (err != ERR_OK) {
                return err;
            }
        }
    }
    ASSERT(row == ids->count);
    return ERR_OK;
}

static enum err plan_hybrid(struct call *call, struct gaps_notes *notes, struct err_info *info)
{
    struct call_ids ids;
    int32_t counts[LIMIT_GAPS + 1];
    int32_t *positions = NULL;
    struct plan_step *steps = NULL;
    struct plan_item *items = NULL;
    int32_t items_each = notes->independent ? notes->gap_count : 1;
    int32_t item_count = items_each * notes->answers;
    enum err err = context_ids(call, notes, &ids, counts, info);
    if (err == ERR_OK) {
        err = fit_budgets(call, notes, ids.count, info);
    }
    if (err == ERR_OK) {
        err = call_array(call, (size_t)ids.count, sizeof(*positions), &positions, info);
    }
    if (err == ERR_OK) {
        err = call_array(call, (size_t)notes->gap_count, sizeof(*steps), &steps, info);
    }
    if (err == ERR_OK) {
        err = call_array(call, (size_t)item_count, sizeof(*items), &items, info);
    }
    if (err == ERR_OK) {
        err = lay_out(call, notes, &ids, counts, positions, steps, info);
    }
    if (err != ERR_OK) {
        return err;
    }
    for (int32_t i = 0; i < item_count; i++) {
        items[i] = (struct plan_item){.tokens = ids.ids,
            .positions = positions,
            .token_count = ids.count,
            .context_count = ids.count,
            .steps = &steps[i % items_each],
            .step_count = notes->independent ? 1 : notes->gap_count,
            .sampling = notes->sampling};
        items[i].sampling.sample_index = (uint32_t)i;
    }
    call->plan = (struct plan){.kind = KIND_INFILL, .items = items, .item_count = item_count};
    return ERR_OK;
}

/* ---- plan ---------------------------------------------------------------------------------- */

static enum err plan_mode(struct call *call, struct gaps_notes *notes, struct err_info *info)
{
    const struct infill_request *request = call->request;
    enum err err = notes->mode == INFILL_RERANK ? infill_gaps_rerank_plan(call, notes, info)
                   : notes->mode == INFILL_FIM  ? infill_gaps_fim_plan(call, notes, info)
                                                : plan_hybrid(call, notes, info);
    if (err == ERR_OK && notes->mode != INFILL_RERANK) {
        call->plan.stream = request->llama.stream;
    }
    return err;
}

enum err infill_gaps_plan(struct call *call, struct err_info *info)
{
    struct gaps_notes *notes = NULL;
    enum err err = call_array(call, 1, sizeof(*notes), &notes, info);
    if (err == ERR_OK) {
        err = infill_mode(call, &notes->mode, info);
    }
    if (err == ERR_OK) {
        err = infill_ignored_by(call, notes->mode, info);
    }
    if (err == ERR_OK) {
        err = read_gaps(call, notes, info);
    }
    if (err == ERR_OK) {
        err = infill_sampling(call, notes->mode, &notes->sampling, info);
    }
    if (err == ERR_OK) {
        err = plan_mode(call, notes, info);
    }
    if (err != ERR_OK) {
        return err;
    }
    call->state = notes;
    for (int32_t i = 0; i <= notes->gap_count; i++) {
        call->characters +=
            (int64_t)utf8_length(notes->texts[i].bytes, (size_t)notes->texts[i].count);
    }
    return ERR_OK;
}

enum err infill_gaps_more(
    struct call *call, const struct job *job, bool *out_more, struct err_info *info)
{
    const struct gaps_notes *notes = call->state;
    return notes->mode == INFILL_RERANK ? infill_gaps_rerank_more(call, job, out_more, info)
                                        : infill_gaps_fim_more(call, job, out_more, info);
}
