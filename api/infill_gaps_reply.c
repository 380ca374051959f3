/*
 * Replies and frames of /infill's gap form (infill_gaps.h). Gaps whose tokens are streamed as they
 * come, one gap after the other or independent ones side by side, have their frames made by event;
 * those of mode rerank come whole, as soon as they are settled.
 */
#include "api/infill_gaps.h"

#include "api/sse.h"
#include "engine/base/utf8.h"

/* ---- encode -------------------------------------------------------------------------------- */

/* What filled gap k in an answer. */
static struct infill_fill gap_fill(
    const struct gaps_notes *notes, const struct job *job, int32_t answer, int32_t k)
{
    if (notes->mode == INFILL_RERANK || (notes->chain && k < notes->current)) {
        return notes->fills[k];
    }
    if (notes->chain) {
        return infill_fill_of(&job->results[0].steps[0]);
    }
    return infill_fill_of(notes->independent ? &job->results[answer * notes->gap_count + k].steps[0]
                                             : &job->results[answer].steps[k]);
}

static const char *finish_word(enum finish finish)
{
    switch (finish) {
    case FINISH_EOS:
        return "stop";
    case FINISH_STOP_STRING:
        return "stop_string";
    case FINISH_TIMEOUT:
        return "timeout";
    case FINISH_NONE:
    case FINISH_LENGTH:
    case FINISH_CANCELLED:
    case FINISH_ERROR:
        break;
    }
    return "length";
}

static void write_gap(struct json_out *out, const struct gaps_notes *notes, int32_t index,
    const struct infill_fill *fill, size_t start)
{
    double logprob = 0;
    for (int32_t i = 0; i < fill->token_count; i++) {
        logprob += (double)fill->logprobs[i];
    }
    json_out_object(out);
    json_out_key(out, "index");
    json_out_int(out, index);
    json_out_key(out, "id");
    json_out_string(out, notes->gaps[index].id);
    json_out_key(out, "text");
    json_out_bytes(out, fill->text, fill->text_bytes);
    json_out_key(out, "start");
    json_out_int(out, (int64_t)start);
    json_out_key(out, "end");
    json_out_int(out, (int64_t)(start + utf8_length(fill->text, fill->text_bytes)));
    json_out_key(out, "tokens");
    json_out_int(out, fill->token_count);
    json_out_key(out, "finish_reason");
    json_out_string(out, finish_word(fill->finish));
    json_out_key(out, "logprob");
    json_out_float(out, (float)logprob);
    if (notes->mode == INFILL_RERANK) {
        json_out_key(out, "score");
        json_out_float(out, fill->score);
    }
    json_out_end(out);
}

/* The whole text, and the gaps with their places in it. */
static void write_texts(
    struct json_out *out, const struct gaps_notes *notes, const struct job *job, int32_t answer)
{
    struct buf whole;
    buf_init(&whole, MEM_REQUESTS, (size_t)64 << 20);
    for (int32_t i = 0; i <= notes->gap_count; i++) {
        buf_append(&whole, notes->texts[i].bytes, (size_t)notes->texts[i].count);
        if (i < notes->gap_count) {
            struct infill_fill fill = gap_fill(notes, job, answer, i);
            buf_append(&whole, fill.text, fill.text_bytes);
        }
    }
    json_out_key(out, "text");
    json_out_bytes(out, whole.bytes != NULL ? whole.bytes : "", whole.count);
    out->buf->failed |= whole.failed;
    buf_free(&whole);
    json_out_key(out, "gaps");
    json_out_array(out);
    size_t at = 0; /* in characters of the whole text */
    for (int32_t i = 0; i < notes->gap_count; i++) {
        struct infill_fill fill = gap_fill(notes, job, answer, i);
        at += utf8_length(notes->texts[i].bytes, (size_t)notes->texts[i].count);
        write_gap(out, notes, i, &fill, at);
        at += utf8_length(fill.text, fill.text_bytes);
    }
    json_out_end(out);
}

/* Hybrid gaps share one prompt, which counts once in each answer. In mode rerank all that was
 * computed counts: every candidate and every scored continuation. */
static struct call_usage usage_of(const struct call *call, const struct job *job, int32_t answer)
{
    const struct gaps_notes *notes = call->state;
    struct call_usage usage = call_usage(call, job);
    if (notes->mode == INFILL_RERANK) {
        return usage;
    }
    if (notes->mode == INFILL_HYBRID) {
        usage.prompt = job->results[0].prompt_tokens;
        usage.cached = job->results[0].cached_tokens;
    }
    usage.generated = 0;
    for (int32_t i = 0; i < notes->gap_count; i++) {
        usage.generated += gap_fill(notes, job, answer, i).token_count;
    }
    return usage;
}

static void write_reply(
    struct json_out *out, const struct call *call, const struct job *job, int32_t answer, bool stop)
{
    const struct infill_request *request = call->request;
    const struct gaps_notes *notes = call->state;
    bool independent = request->spans == INFILL_REQUEST_SPANS_INDEPENDENT;
    struct call_usage usage = usage_of(call, job, answer);
    json_out_object(out);
    write_texts(out, notes, job, answer);
    json_out_key(out, "mode");
    json_out_string(out, call_mode_word(notes->mode));
    json_out_key(out, "spans");
    json_out_string(out, independent ? "independent" : "sequential");
    json_out_key(out, "model");
    json_out_string(out, call_model_name(call));
    json_out_key(out, "usage");
    call_write_usage(out, &usage);
    json_out_key(out, "timings");
    call_write_timings(out, call, job);
    if (stop) {
        json_out_key(out, "stop");
        json_out_bool(out, true);
    }
    json_out_end(out);
}

enum err infill_gaps_encode(
    struct call *call, const struct job *job, struct json_out *out, struct err_info *info)
{
    const struct gaps_notes *notes = call->state;
    bool list = notes->answers > 1;
    (void)info;
    if (list) {
        json_out_array(out);
    }
    for (int32_t i = 0; i < notes->answers; i++) {
        write_reply(out, call, job, i, false);
    }
    if (list) {
        json_out_end(out);
    }
    return ERR_OK;
}

/* ---- stream -------------------------------------------------------------------------------- */

/* {"gap":0,"text":"old","tokens":[..]} */
static void frame_text(struct buf *out, int32_t gap, const char *text, int32_t bytes,
    const int32_t *tokens, int32_t token_count)
{
    struct json_out json;
    sse_begin(&json, out);
    json_out_object(&json);
    json_out_key(&json, "gap");
    json_out_int(&json, gap);
    json_out_key(&json, "text");
    json_out_bytes(&json, text, (size_t)bytes);
    json_out_key(&json, "tokens");
    json_out_array(&json);
    for (int32_t i = 0; i < token_count; i++) {
        json_out_int(&json, tokens[i]);
    }
    json_out_end(&json);
    json_out_end(&json);
    sse_end(&json);
}

static void frame_finish(struct buf *out, int32_t gap, enum finish finish)
{
    struct json_out json;
    sse_begin(&json, out);
    json_out_object(&json);
    json_out_key(&json, "gap");
    json_out_int(&json, gap);
    json_out_key(&json, "finish_reason");
    json_out_string(&json, finish_word(finish));
    json_out_end(&json);
    sse_end(&json);
}

enum err infill_gaps_frame(
    struct call *call, const struct job *job, const struct token_event *event, struct buf *out)
{
    const struct gaps_notes *notes = call->state;
    int32_t gap = notes->chain ? notes->current : notes->independent ? event->item : event->step;
    const struct step_result *step = &job->results[event->item].steps[event->step];
    if (event->finish != FINISH_EOS || event->text_bytes > 0) {
        int32_t shown = event->finish == FINISH_EOS ? 0 : 1;
        frame_text(
            out, gap, step->text + event->text_from, event->text_bytes, &event->token, shown);
    }
    if (event->last) {
        frame_finish(out, gap, event->finish);
    }
    return out->failed ? ERR_NO_MEMORY : ERR_OK;
}

/* Where no token fits, there was no event. */
static bool told_by_event(const struct gaps_notes *notes, const struct job *job, int32_t gap)
{
    if (!job->plan.stream || notes->chain) { /* the results of earlier gaps are gone */
        return job->plan.stream && notes->gaps[gap].tokens_max > 0;
    }
    return notes->independent ? job->results[gap].steps[0].token_count > 0
                              : job->results[0].steps[gap].token_count > 0;
}

/* Gaps from..to - 1, each whole, but for those that events told of. */
static void frame_gaps(const struct gaps_notes *notes, const struct job *job, int32_t from,
    int32_t to, struct buf *out)
{
    for (int32_t i = from; i < to; i++) {
        if (told_by_event(notes, job, i)) {
            continue;
        }
        struct infill_fill fill = gap_fill(notes, job, 0, i);
        frame_text(out, i, fill.text, (int32_t)fill.text_bytes, fill.tokens, fill.token_count);
        frame_finish(out, i, fill.finish);
    }
}

enum err infill_gaps_frame_more(struct call *call, const struct job *job, struct buf *out)
{
    struct gaps_notes *notes = call->state;
    if (notes->mode == INFILL_RERANK && notes->chain) {
        frame_gaps(notes, job, notes->framed, notes->current, out);
        notes->framed = notes->current;
    }
    return out->failed ? ERR_NO_MEMORY : ERR_OK;
}

/* The gaps that nothing was said of; then the reply. */
enum err infill_gaps_frame_end(struct call *call, const struct job *job, struct buf *out)
{
    const struct gaps_notes *notes = call->state;
    frame_gaps(notes, job, notes->framed, notes->gap_count, out);
    struct json_out json;
    struct err_info unused;
    sse_begin(&json, out);
    write_reply(&json, call, job, 0, true);
    enum err err = call_written(&json, &unused);
    sse_end(&json);
    return err;
}
