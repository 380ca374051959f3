/*
 * See the header. One loop: a line that was read is sent while there is room; else what is done is
 * written, in the order of the lines; else it waits for bytes to read or for the engine, whichever
 * comes first. So a pipe that stays open gets its answers without its end.
 */
#include "batch/batch.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include "api/embed.h"
#include "api/error_map.h"
#include "api/json_in.h"
#include "api/json_out.h"
#include "batch/ask.h"
#include "batch/lines.h"
#include "batch/npy.h"
#include "batch/output.h"
#include "batch/progress.h"
#include "engine/base/assert.h"
#include "engine/base/utf8.h"

enum {
    SLOTS = 256,                /* lines under way: several steps of the engine's sequences */
    UNDER_WAY_BYTES = 16 << 20, /* of their bodies, or one line */
    REPLY_BYTES = 128 << 20,    /* as the server's */
    FIELDS_BYTES = 1 << 20,     /* of --body */
    BODY_BYTES = FIELDS_BYTES + 6 * LIMIT_LINE_BYTES + 64, /* a byte is six in JSON at most */
};

/* Where a line of text goes: the first row of the endpoint whose `with` is null or in --body. */
static const struct text_field {
    const struct endpoint *endpoint;
    const char *with, *field;
} text_fields[] = {
    {&endpoint_embed, NULL, "inputs"},
    {&endpoint_infill, NULL, "text"},
    {&endpoint_generate, NULL, "inputs"},
    {&endpoint_classify, "labels", "inputs"},
    {&endpoint_classify, "questions", "input"},
    {&endpoint_classify, NULL, "prompt"},
};

/* Something that lines have and that is told once. */
struct noted {
    size_t first, count; /* lines */
    char what[ERR_TEXT_BYTES];
};

struct batch {
    const struct batch_options *options;
    const struct endpoint *endpoint;
    struct ask ask;
    struct lines lines;
    struct output output;
    struct progress progress;
    struct buf fields; /* a body up to its text: {"dimensions":256,"inputs": */
    struct buf body, reply;
    bool array;
    int32_t dim;   /* of the array; 0 = no row came yet */
    uint64_t rows; /* of it */
    size_t done;   /* lines */
    int64_t tokens;
    struct noted failed, cut, ignored;
    struct err_info failure; /* of the first failed line */
};

static enum err fail_line(struct err_info *info, size_t number, const struct err_info *about)
{
    struct err_info copy = *about; /* may be *info */
    char where[ERR_WHERE_BYTES];
    (void)snprintf(where, sizeof(where), "line %zu", number);
    enum err err = err_set(
        info, copy.code, where, "%s%s%s", copy.where, copy.where[0] != '\0' ? ": " : "", copy.text);
    info->offset = copy.offset;
    return err;
}

static void note(struct noted *noted, size_t number, const char *what)
{
    if (noted->count++ == 0) {
        noted->first = number;
        (void)snprintf(noted->what, sizeof(noted->what), "%s", what);
    }
}

/* ---- asking ---- */

static enum err make_fields(struct batch *batch, const struct json_in *given, struct err_info *info)
{
    const struct text_field *field = text_fields;
    while (field->endpoint != batch->endpoint ||
           (field->with != NULL && (given == NULL || json_in_get(given, field->with) == NULL))) {
        field++;
    }
    if (given != NULL && json_in_get(given, field->field) != NULL) {
        return err_set(
            info, ERR_CONFIG, "body", "--body has \"%s\", which is the line's text", field->field);
    }
    struct buf *fields = &batch->fields;
    if (given != NULL) {
        buf_text(fields, batch->options->body);
        while (fields->count > 0 && fields->bytes[fields->count - 1] != '}') {
            fields->count--; /* blanks behind it */
        }
        fields->count -= fields->count > 0;
    } else {
        buf_char(fields, '{');
    }
    buf_printf(
        fields, "%s\"%s\":", given != NULL && json_in_count(given) > 0 ? "," : "", field->field);
    return fields->failed ? err_set(info, ERR_CONFIG, "body", "--body is too long") : ERR_OK;
}

/* The endpoint, and what goes with every text. */
static enum err read_options(struct batch *batch, struct err_info *info)
{
    const struct batch_options *options = batch->options;
    for (size_t i = 0; i < ARRAY_COUNT(text_fields); i++) {
        if (strcmp(text_fields[i].endpoint->name, options->endpoint) == 0) {
            batch->endpoint = text_fields[i].endpoint;
        }
    }
    ASSERT(batch->endpoint != NULL);
    const size_t bytes = strlen(options->output);
    batch->array = bytes >= 4 && strcmp(options->output + bytes - 4, ".npy") == 0;
    if (batch->array && batch->endpoint != &endpoint_embed) {
        return err_set(info, ERR_CONFIG, "output", "only embed writes .npy");
    }
    if (options->body[0] == '\0') {
        return make_fields(batch, NULL, info);
    }
    if (options->jsonl) {
        return err_set(info, ERR_CONFIG, "body", "--body is for lines of text: no --jsonl");
    }
    struct arena arena;
    const struct json_in *given = NULL;
    arena_init(&arena, MEM_OTHER, 16 << 10, JSON_IN_TREE_BYTES);
    enum err err = json_in_parse(&arena, options->body, strlen(options->body), &given, info);
    if (err != ERR_OK) {
        (void)snprintf(info->where, sizeof(info->where), "body");
    } else {
        err = make_fields(batch, given, info);
    }
    arena_drop(&arena);
    return err;
}

static struct ask_slot *refuse(struct batch *batch, enum err err, const char *what)
{
    struct err_info info = {.offset = -1};
    (void)err_set(&info, err, NULL, "%s", what);
    return ask_refuse(&batch->ask, batch->endpoint, &info);
}

static struct ask_slot *ask_text(struct batch *batch, const struct line *line)
{
    struct json_out json;
    if (!utf8_valid(line->bytes, line->count)) {
        return refuse(batch, ERR_INVALID, "the line is not valid UTF-8");
    }
    buf_clear(&batch->body);
    buf_append(&batch->body, batch->fields.bytes, batch->fields.count);
    json_out_init(&json, &batch->body);
    json_out_bytes(&json, line->bytes, line->count);
    buf_char(&batch->body, '}');
    return batch->body.failed
               ? refuse(batch, ERR_NO_MEMORY, "no memory for a request")
               : ask_send(&batch->ask, batch->endpoint, batch->body.bytes, batch->body.count);
}

static void ask_line(struct batch *batch, const struct line *line)
{
    struct ask_slot *slot;
    if (line->bytes == NULL) {
        char what[64];
        (void)snprintf(what, sizeof(what), "the line has more than %d bytes", LIMIT_LINE_BYTES);
        slot = refuse(batch, ERR_LIMIT, what);
    } else if (batch->options->jsonl) {
        slot = ask_send(&batch->ask, batch->endpoint, line->bytes, line->count);
    } else {
        slot = ask_text(batch, line);
    }
    slot->from = line->number;
    slot->count = 1;
}

/* ---- answers ---- */

static enum err write_header(struct batch *batch, struct err_info *info)
{
    char header[NPY_HEADER_BYTES];
    npy_header(batch->rows, batch->dim, header);
    return fseek(batch->output.file, 0, SEEK_SET) == 0 &&
                   fwrite(header, sizeof(header), 1, batch->output.file) == 1
               ? ERR_OK
               : output_fail(info);
}

/* A row is an input's vector as float32. What asks for other numbers, or that a vector may be
 * missing, asks for what the array would not say. */
static enum err check_rows(const struct ask_slot *slot, struct err_info *info)
{
    enum err err = ask_items(slot, info);
    if (err != ERR_OK) {
        return err;
    }
    const struct embed_notes *notes = slot->call.state;
    const enum common_encoding_format format = notes->request->encoding_format;
    if (format != COMMON_ENCODING_FORMAT_FLOAT && format != COMMON_ENCODING_FORMAT_BASE64) {
        return err_set(
            info, ERR_UNSUPPORTED_FIELD, "/encoding_format", "the numbers of an array are float32");
    }
    if (notes->request->on_error == EMBED_REQUEST_ON_ERROR_REPORT) {
        return err_set(info, ERR_UNSUPPORTED_FIELD, "/on_error",
            "an array has no place for the errors of its inputs");
    }
    return ERR_OK;
}

static enum err write_rows(struct batch *batch, const struct ask_slot *slot, struct err_info *info)
{
    enum err err = check_rows(slot, info);
    if (err != ERR_OK) {
        return fail_line(info, slot->from, info);
    }
    for (int32_t i = 0; i < slot->job->plan.item_count; i++) {
        const struct item_result *result = &slot->job->results[i];
        ASSERT(result->vector_rows == 1 && result->vector_dim > 0);
        if (batch->dim == 0) {
            batch->dim = result->vector_dim;
            err = write_header(batch, info);
        }
        if (err == ERR_OK && result->vector_dim != batch->dim) {
            (void)err_set(info, ERR_INVALID, NULL, "its vector has %d numbers, those before %d",
                result->vector_dim, batch->dim);
            return fail_line(info, slot->from, info);
        }
        if (err == ERR_OK &&
            !npy_write(batch->output.file, result->vector, (size_t)result->vector_dim)) {
            err = output_fail(info);
        }
        if (err != ERR_OK) {
            return err;
        }
        batch->rows++;
    }
    return ERR_OK;
}

static enum err write_reply(struct batch *batch, struct ask_slot *slot, struct err_info *info)
{
    struct buf *reply = &batch->reply;
    const struct endpoint *endpoint = batch->endpoint;
    enum err err = slot->err;
    buf_clear(reply);
    if (err == ERR_OK) {
        err = endpoint->encode(&slot->call, slot->job, reply, &slot->info);
    }
    if (err == ERR_OK && reply->failed) {
        err = ERR_NO_MEMORY;
    }
    if (err != ERR_OK) {
        if (slot->info.code != err) {
            (void)err_set(&slot->info, err, NULL, "%s", err_word(err));
        }
        if (batch->failed.count == 0) {
            batch->failure = slot->info;
        }
        note(&batch->failed, slot->from, "");
        buf_clear(reply);
        error_body(&slot->info, endpoint->family, error_status(err, endpoint->family), reply);
    }
    buf_char(reply, '\n');
    if (reply->failed) {
        return err_set(info, ERR_NO_MEMORY, "output", "no memory for a reply");
    }
    return fwrite(reply->bytes, reply->count, 1, batch->output.file) == 1 ? ERR_OK
                                                                          : output_fail(info);
}

static void count_tokens(struct batch *batch, const struct ask_slot *slot)
{
    batch->tokens += slot->call.before.prompt + slot->call.before.generated;
    for (int32_t i = 0; slot->job != NULL && slot->err == ERR_OK && i < slot->job->plan.item_count;
         i++) {
        batch->tokens +=
            slot->job->results[i].prompt_tokens + slot->job->results[i].generated_tokens;
    }
}

static enum err take(struct batch *batch, struct ask_slot *slot, struct err_info *info)
{
    if (slot->call.truncated_count > 0) {
        note(&batch->cut, slot->from, "");
    }
    if (slot->call.ignored_fields != NULL) {
        note(&batch->ignored, slot->from, slot->call.ignored_fields);
    }
    count_tokens(batch, slot);
    enum err err = batch->array ? write_rows(batch, slot, info) : write_reply(batch, slot, info);
    ask_release(&batch->ask);
    batch->done++;
    progress_show(&batch->progress, batch->done, 0, batch->tokens, false);
    return err;
}

/* ---- the loop ---- */

static bool has_room(const struct batch *batch)
{
    return ask_room(&batch->ask) && batch->ask.bytes < UNDER_WAY_BYTES;
}

/* What was written goes out before: who reads it may be who writes the next line. */
static enum err wait_for_more(struct batch *batch, struct err_info *info)
{
    const bool reads = has_room(batch) && !batch->lines.ended;
    struct pollfd files[2] = {{.fd = batch->ask.wake_fd, .events = POLLIN},
        {.fd = reads ? batch->lines.fd : -1, .events = POLLIN}};
    if (fflush(batch->output.file) != 0) {
        return output_fail(info);
    }
    if (poll(files, 2, -1) < 0) {
        return errno == EINTR ? ERR_OK
                              : err_set(info, ERR_IO, "input", "no poll: %s", strerror(errno));
    }
    return files[1].revents != 0 ? lines_read(&batch->lines, info) : ERR_OK;
}

static enum err answer_all(struct batch *batch, struct err_info *info)
{
    struct line line;
    for (;;) {
        if (has_room(batch) && lines_take(&batch->lines, &line)) {
            ask_line(batch, &line); /* first of all, so that the engine has work meanwhile */
            continue;
        }
        if (batch->lines.ended && batch->ask.count == 0) {
            return ERR_OK;
        }
        struct ask_slot *slot = ask_ready(&batch->ask);
        enum err err = slot != NULL ? take(batch, slot, info) : wait_for_more(batch, info);
        if (err != ERR_OK) {
            return err;
        }
    }
}

/* ---- all of it ---- */

static void tell(const struct batch *batch)
{
    FILE *file = batch->options->messages;
    if (batch->cut.count > 0) {
        fprintf(file, "magnetd: line %zu: inputs were cut to the context (%zu lines)\n",
            batch->cut.first, batch->cut.count);
    }
    if (batch->ignored.count > 0) {
        fprintf(file, "magnetd: line %zu: unknown fields: %s (%zu lines)\n", batch->ignored.first,
            batch->ignored.what, batch->ignored.count);
    }
}

static enum err answer(struct batch *batch, struct err_info *info)
{
    const struct batch_options *options = batch->options;
    enum err err = ask_open(&options->engine, SLOTS, &batch->ask, info);
    if (err != ERR_OK) {
        return err;
    }
    batch->ask.served_name = options->served_name;
    batch->ask.aliases = options->aliases;
    progress_begin(&batch->progress, options->progress, options->terminal, "lines");
    err = answer_all(batch, info);
    progress_show(&batch->progress, batch->done, 0, batch->tokens, true);
    if (err == ERR_OK && batch->array) {
        err = write_header(batch, info); /* (0, 0) of no lines: no vector says its size */
    }
    ask_close(&batch->ask);
    tell(batch);
    return err;
}

static enum err answer_into(struct batch *batch, struct err_info *info)
{
    struct err_info second = {.offset = -1};
    enum err err = output_open(batch->options->output, &batch->output, info);
    if (err != ERR_OK) {
        return err;
    }
    err = answer(batch, info);
    enum err closed = output_close(&batch->output, err == ERR_OK, &second);
    if (err == ERR_OK && closed != ERR_OK) {
        *info = second;
        return closed;
    }
    if (err == ERR_OK && batch->failed.count > 0) {
        struct err_info first = batch->failure;
        if (batch->done > 1) {
            size_t used = strlen(first.text);
            (void)snprintf(first.text + used, sizeof(first.text) - used, " (%zu of %zu lines)",
                batch->failed.count, batch->done);
        }
        return fail_line(info, batch->failed.first, &first);
    }
    return err;
}

enum err batch_run(const struct batch_options *options, struct err_info *info)
{
    struct batch batch = {.options = options};
    buf_init(&batch.fields, MEM_OTHER, FIELDS_BYTES);
    buf_init(&batch.body, MEM_REQUESTS, BODY_BYTES);
    buf_init(&batch.reply, MEM_REQUESTS, REPLY_BYTES);
    enum err err = read_options(&batch, info);
    if (err == ERR_OK) {
        err = lines_open(options->input, &batch.lines, info);
    }
    if (err == ERR_OK) {
        err = answer_into(&batch, info);
        lines_close(&batch.lines);
    }
    buf_free(&batch.fields);
    buf_free(&batch.body);
    buf_free(&batch.reply);
    return err;
}
