/*
 * Replies and events of llama.cpp's routes; see llama_reply.h.
 *
 * What surprises: in a stream the parts carry the probabilities of their tokens, so the last event,
 * which has everything else, has none.
 */
#include "api/llama_reply.h"

#include "api/sse.h"

/* ---- replies ------------------------------------------------------------------------------- */

void llama_reply_item(const struct job *job, int32_t index, struct llama_answer *out_answer)
{
    const struct plan_item *item = &job->plan.items[index];
    *out_answer = (struct llama_answer){.prompt = item->tokens,
        .prompt_count = item->token_count,
        .fill = infill_fill_of(&job->results[index].steps[0]),
        .step = &item->steps[0],
        .sampling = &item->sampling,
        .predicted = job->results[index].generated_tokens};
}

static struct llama_view view_of(struct call *call, const struct llama_reply *reply,
    const struct job *job, int32_t index, bool stream)
{
    struct llama_view view = {
        .call = call, .job = job, .options = reply->options, .index = index, .stream = stream};
    reply->answer(call, job, index, &view.answer);
    return view;
}

void llama_reply_encode(
    struct call *call, const struct llama_reply *reply, const struct job *job, struct json_out *out)
{
    if (reply->list) {
        json_out_array(out);
    }
    for (int32_t i = 0; i < reply->count(call, job); i++) {
        const struct llama_view view = view_of(call, reply, job, i, false);
        llama_answer_write(out, &view);
    }
    if (reply->list) {
        json_out_end(out);
    }
}

/* ---- events -------------------------------------------------------------------------------- */

/* A part of an answer with the tokens it came with. */
struct part {
    int32_t index;
    const char *text;
    size_t bytes;
    struct llama_tokens tokens;
    int64_t predicted, evaluated; /* tokens so far */
};

static enum err write_part(const struct call *call, const struct llama_reply *reply,
    const struct part *part, struct buf *out)
{
    struct json_out json;
    struct err_info unused;
    sse_begin(&json, out);
    json_out_object(&json);
    json_out_key(&json, "index");
    json_out_int(&json, part->index);
    json_out_key(&json, "content");
    json_out_bytes(&json, part->text, part->bytes);
    json_out_key(&json, "tokens");
    llama_answer_write_ids(&json, part->tokens.ids, part->tokens.count);
    json_out_key(&json, "stop");
    json_out_bool(&json, false);
    json_out_key(&json, "tokens_predicted");
    json_out_int(&json, part->predicted);
    json_out_key(&json, "tokens_evaluated");
    json_out_int(&json, part->evaluated);
    if (reply->options->n_probs > 0) {
        json_out_key(&json, "completion_probabilities");
        llama_answer_write_entries(&json, call, &part->tokens, reply->options->n_probs);
    }
    json_out_end(&json);
    enum err err = call_written(&json, &unused);
    sse_end(&json);
    return err;
}

/* Beside a running engine: of the result only what was written before the event may be read. */
enum err llama_reply_frame(struct call *call, const struct llama_reply *reply,
    const struct job *job, const struct token_event *event, struct buf *out)
{
    const struct step_result *step = &job->results[event->item].steps[event->step];
    size_t wanted = (size_t)reply->options->n_probs;
    bool is_end = event->last && event->finish == FINISH_EOS; /* its token is none of the answer */
    const struct part part = {.index = event->item,
        .text = step->text + event->text_from,
        .bytes = (size_t)event->text_bytes,
        .tokens = {&event->token, &event->logprob,
            wanted > 0 ? step->top + (size_t)event->index * wanted : NULL, is_end ? 0 : 1},
        .predicted = event->index + 1,
        .evaluated = job->plan.items[event->item].token_count};
    return is_end && part.bytes == 0 ? ERR_OK : write_part(call, reply, &part, out);
}

static enum err write_last(const struct llama_view *view, struct buf *out)
{
    struct json_out json;
    struct err_info unused;
    sse_begin(&json, out);
    llama_answer_write(&json, view);
    enum err err = call_written(&json, &unused);
    sse_end(&json);
    return err;
}

enum err llama_reply_frame_end(
    struct call *call, struct llama_reply *reply, const struct job *job, struct buf *out)
{
    const struct llama_view view = view_of(call, reply, job, reply->settled++, true);
    const struct llama_answer *answer = &view.answer;
    const struct part whole = {view.index, answer->fill.text, answer->fill.text_bytes,
        llama_answer_tokens(&answer->fill), answer->predicted, answer->prompt_count};
    enum err err = reply->whole ? write_part(call, reply, &whole, out) : ERR_OK;
    call->frames_left = reply->settled < reply->count(call, job);
    return err == ERR_OK ? write_last(&view, out) : err;
}
