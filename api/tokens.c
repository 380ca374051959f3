/*
 * /tokenize, /detokenize and /decode: answered at once, no job. Two forms of /tokenize, told by
 * which key is there: `content` (llama.cpp's, ids) and `inputs` (TEI's, ids with places that count
 * characters).
 */
#include "api/call.h"

#include <stdio.h>
#include <string.h>
#include "engine/base/utf8.h"

/* ---- /tokenize ----------------------------------------------------------------------------- */

/* A piece that is whole UTF-8 as text, else as a list of its bytes. */
static void write_piece(struct json_out *out, const char *piece, size_t bytes)
{
    if (utf8_valid(piece, bytes)) {
        json_out_bytes(out, piece, bytes);
        return;
    }
    json_out_array(out);
    for (size_t i = 0; i < bytes; i++) {
        json_out_int(out, (unsigned char)piece[i]);
    }
    json_out_end(out);
}

static enum err tokenize_content(struct call *call, const struct tokenize_request *request,
    struct json_out *out, struct err_info *info)
{
    unsigned flags =
        (request->add_special ? TOKENIZE_ADD : 0) | (request->parse_special ? TOKENIZE_SPECIAL : 0);
    struct call_ids ids;
    enum err err = call_tokenize(call, &request->content, flags, "/content", &ids, info);
    if (err != ERR_OK) {
        return err;
    }
    json_out_object(out);
    json_out_key(out, "tokens");
    json_out_array(out);
    for (int32_t i = 0; i < ids.count; i++) {
        if (!request->with_pieces) {
            json_out_int(out, ids.ids[i]);
            continue;
        }
        size_t bytes;
        const char *piece = tokenizer_piece(call->tokenizer, ids.ids[i], true, &bytes);
        json_out_object(out);
        json_out_key(out, "id");
        json_out_int(out, ids.ids[i]);
        json_out_key(out, "piece");
        write_piece(out, piece, bytes);
        json_out_end(out);
    }
    json_out_end(out);
    json_out_end(out);
    return ERR_OK;
}

/* Bytes of `text` to characters: places ascend, so one pass over the text serves all tokens. */
struct place {
    const char *text;
    int32_t bytes;
    int64_t characters;
};

static int64_t place_at(struct place *place, int32_t byte)
{
    if (byte < place->bytes) { /* several tokens of one character */
        return (int64_t)utf8_length(place->text, (size_t)byte);
    }
    place->characters +=
        (int64_t)utf8_length(place->text + place->bytes, (size_t)(byte - place->bytes));
    place->bytes = byte;
    return place->characters;
}

static void write_places(struct json_out *out, const struct call *call,
    const struct bound_text *text, const struct token_list *list, int32_t (*spans)[2])
{
    struct place start = {.text = text->bytes};
    struct place stop = {.text = text->bytes};
    json_out_array(out);
    for (int32_t i = 0; i < list->count; i++) {
        size_t bytes;
        const char *piece = tokenizer_piece(call->tokenizer, list->ids[i], true, &bytes);
        json_out_object(out);
        json_out_key(out, "id");
        json_out_int(out, list->ids[i]);
        json_out_key(out, "text");
        json_out_bytes(out, piece, bytes);
        json_out_key(out, "special");
        json_out_bool(out, tokenizer_is_control(call->tokenizer, list->ids[i]));
        json_out_key(out, "start");
        json_out_int(out, place_at(&start, spans[i][0]));
        json_out_key(out, "stop");
        json_out_int(out, place_at(&stop, spans[i][1]));
        json_out_end(out);
    }
    json_out_end(out);
}

static enum err tokenize_text(struct call *call, const struct bound_text *text, unsigned flags,
    const char *where, struct json_out *out, struct err_info *info)
{
    struct token_list list;
    int32_t(*spans)[2] = NULL;
    token_list_init(&list, LIMIT_CONTEXT * 8);
    enum err err = tokenizer_encode_spans(
        call->tokenizer, text->bytes, (size_t)text->count, flags, &list, &spans, info);
    if (err == ERR_OK) {
        write_places(out, call, text, &list, spans);
    } else if (err != ERR_NO_MEMORY) {
        (void)call_fail(info, err, NULL, where, "the text could not be turned into tokens");
    }
    mem_free(spans);
    token_list_free(&list);
    return err;
}

static enum err tokenize_inputs(struct call *call, const struct tokenize_request *request,
    struct json_out *out, struct err_info *info)
{
    const struct tokenize_request_inputs *inputs = &request->inputs;
    bool one = inputs->form == TOKENIZE_REQUEST_INPUTS_TEXT;
    const struct bound_text *texts = one ? &inputs->text : inputs->texts.items;
    int32_t count = one ? 1 : inputs->texts.count;
    if (count > call->limits->items_max) {
        return call_fail(info, ERR_LIMIT, "too_many_inputs", "/inputs",
            "%d inputs are more than %d", count, call->limits->items_max);
    }
    unsigned flags = (request->add_special_tokens ? TOKENIZE_ADD : 0) |
                     (request->parse_special ? TOKENIZE_SPECIAL : 0);
    json_out_array(out);
    for (int32_t i = 0; i < count; i++) {
        char where[32] = "/inputs";
        if (!one) {
            (void)snprintf(where, sizeof(where), "/inputs/%d", i);
        }
        enum err err = tokenize_text(call, &texts[i], flags, where, out, info);
        if (err != ERR_OK) {
            return err;
        }
    }
    json_out_end(out);
    return ERR_OK;
}

enum err endpoint_tokenize(
    struct call *call, const char *body, size_t bytes, struct buf *out, struct err_info *info)
{
    struct json_out json;
    enum err err = call_decode(call, &schema_tokenize_request, body, bytes, info);
    if (err != ERR_OK) {
        return err;
    }
    const struct tokenize_request *request = call->request;
    err = call_check_model(call, &request->model, info);
    if (err != ERR_OK) {
        return err;
    }
    if (request->has_content == request->has_inputs) {
        return call_fail(info, ERR_INVALID, NULL, request->has_content ? "/inputs" : "/content",
            "exactly one of content and inputs is needed");
    }
    json_out_init(&json, out);
    err = request->has_content ? tokenize_content(call, request, &json, info)
                               : tokenize_inputs(call, request, &json, info);
    return err != ERR_OK ? err : call_written(&json, info);
}

/* ---- /detokenize, /decode ------------------------------------------------------------------ */

static enum err detokenize(struct call *call, const struct bound_ints *ids, bool show_control,
    const char *where, struct json_out *out, struct err_info *info)
{
    enum err err = call_check_ids(call, ids, where, info);
    if (err != ERR_OK) {
        return err;
    }
    struct buf text;
    buf_init(&text, MEM_REQUESTS, (size_t)1 << 30);
    call_detokenize(call, ids->items, ids->count, show_control, &text);
    if (text.failed) {
        err = call_no_memory(info);
    } else {
        json_out_bytes(out, text.bytes != NULL ? text.bytes : "", text.count);
    }
    buf_free(&text);
    return err;
}

enum err endpoint_detokenize(
    struct call *call, const char *body, size_t bytes, struct buf *out, struct err_info *info)
{
    struct json_out json;
    enum err err = call_decode(call, &schema_detokenize_request, body, bytes, info);
    if (err != ERR_OK) {
        return err;
    }
    const struct detokenize_request *request = call->request;
    err = call_check_model(call, &request->model, info);
    if (err != ERR_OK) {
        return err;
    }
    json_out_init(&json, out);
    json_out_object(&json);
    json_out_key(&json, "content");
    err = detokenize(call, &request->tokens, true, "/tokens", &json, info);
    if (err != ERR_OK) {
        return err;
    }
    json_out_end(&json);
    return call_written(&json, info);
}

enum err endpoint_decode(
    struct call *call, const char *body, size_t bytes, struct buf *out, struct err_info *info)
{
    struct json_out json;
    enum err err = call_decode(call, &schema_decode_request, body, bytes, info);
    if (err != ERR_OK) {
        return err;
    }
    const struct decode_request *request = call->request;
    err = call_check_model(call, &request->model, info);
    bool one = request->ids.form == DECODE_REQUEST_IDS_ONE;
    const struct bound_ints *lists = one ? &request->ids.one : request->ids.many.items;
    int32_t count = one ? 1 : request->ids.many.count;
    json_out_init(&json, out);
    json_out_array(&json);
    for (int32_t i = 0; err == ERR_OK && i < count; i++) {
        char where[32] = "/ids";
        if (!one) {
            (void)snprintf(where, sizeof(where), "/ids/%d", i);
        }
        err = detokenize(call, &lists[i], !request->skip_special_tokens, where, &json, info);
    }
    if (err != ERR_OK) {
        return err;
    }
    json_out_end(&json);
    return call_written(&json, info);
}
