/*
 * llhttp calls back with spans that are split at the edges of what it was fed, so a header line is
 * collected in `field` and looked at when it is complete. Callbacks return -1 to stop.
 */
#include "tests/http_client/reply_parser.h"

#include <string.h>
#include <strings.h>
#include "engine/base/assert.h"

_Static_assert(LLHTTP_VERSION_MAJOR >= 8, "older releases accept desynchronising input");

static struct reply_parser *of(llhttp_t *llhttp)
{
    return (struct reply_parser *)llhttp; /* the first member */
}

static int on_name(llhttp_t *llhttp, const char *bytes, size_t count)
{
    struct reply_parser *parser = of(llhttp);
    for (size_t i = 0; i < count; i++) {
        bool big = bytes[i] >= 'A' && bytes[i] <= 'Z';
        buf_char(&parser->field, big ? (char)(bytes[i] - 'A' + 'a') : bytes[i]);
    }
    return parser->field.failed ? -1 : 0;
}

static int on_name_end(llhttp_t *llhttp)
{
    buf_text(&of(llhttp)->field, ": ");
    return 0;
}

static int on_value(llhttp_t *llhttp, const char *bytes, size_t count)
{
    buf_append(&of(llhttp)->field, bytes, count);
    return of(llhttp)->field.failed ? -1 : 0;
}

static int on_value_end(llhttp_t *llhttp)
{
    struct reply_parser *parser = of(llhttp);
    const char *line = parser->field.bytes;
    if (line == NULL || ++parser->fields > REPLY_FIELDS) {
        return -1;
    }
    if (strncmp(line, "content-length: ", 16) == 0) {
        parser->lengths++;
    } else if (strncmp(line, "transfer-encoding: ", 19) == 0) {
        parser->codings++;
        parser->chunked += strcasecmp(line + 19, "chunked") == 0;
    }
    buf_append(&parser->headers, line, parser->field.count);
    buf_char(&parser->headers, '\n');
    buf_clear(&parser->field);
    return parser->headers.failed ? -1 : 0;
}

static int on_headers_end(llhttp_t *llhttp)
{
    struct reply_parser *parser = of(llhttp);
    bool version = llhttp->http_major == 1 && llhttp->http_minor <= 1;
    bool coding = parser->codings == 0 || (parser->codings == 1 && parser->chunked == 1 &&
                                              parser->lengths == 0 && llhttp->http_minor == 1);
    parser->in_head = false;
    parser->status = llhttp->status_code;
    if (!version || !coding || parser->lengths > 1) {
        return -1;
    }
    return parser->head_only ? 1 : 0;
}

static int on_body(llhttp_t *llhttp, const char *bytes, size_t count)
{
    struct reply_parser *parser = of(llhttp);
    parser->between_bytes = 0;
    if (parser->on_body != NULL) {
        parser->on_body(parser->context, bytes, count);
        return 0;
    }
    buf_append(&parser->body, bytes, count);
    return parser->body.failed ? -1 : 0;
}

static int on_end(llhttp_t *llhttp)
{
    struct reply_parser *parser = of(llhttp);
    parser->done = true;
    parser->keep_alive = llhttp_should_keep_alive(llhttp) != 0;
    return HPE_PAUSED;
}

void reply_parser_init(struct reply_parser *parser, bool head_only)
{
    *parser = (struct reply_parser){.head_only = head_only, .in_head = true};
    llhttp_settings_init(&parser->settings);
    parser->settings.on_header_field = on_name;
    parser->settings.on_header_field_complete = on_name_end;
    parser->settings.on_header_value = on_value;
    parser->settings.on_header_value_complete = on_value_end;
    parser->settings.on_headers_complete = on_headers_end;
    parser->settings.on_body = on_body;
    parser->settings.on_message_complete = on_end;
    llhttp_init(&parser->llhttp, HTTP_RESPONSE, &parser->settings);
    buf_init(&parser->field, MEM_OTHER, REPLY_HEAD_BYTES);
    buf_init(&parser->headers, MEM_OTHER, REPLY_HEAD_BYTES);
    buf_init(&parser->body, MEM_OTHER, (size_t)1 << 30);
}

void reply_parser_free(struct reply_parser *parser)
{
    buf_free(&parser->field);
    buf_free(&parser->headers);
    buf_free(&parser->body);
}

/* Bytes of the head before llhttp sees them: it joins folded lines without a word. */
static bool head_is_plain(struct reply_parser *parser, const char *bytes, size_t count)
{
    for (size_t i = 0; i < count && !parser->head_seen; i++) {
        if (parser->last == '\n' && (bytes[i] == ' ' || bytes[i] == '\t')) {
            return false;
        }
        parser->head_seen = parser->last == '\n' && (bytes[i] == '\r' || bytes[i] == '\n');
        parser->last = bytes[i];
        if (++parser->head_bytes > REPLY_HEAD_BYTES) {
            return false;
        }
    }
    return true;
}

enum err reply_parser_feed(
    struct reply_parser *parser, const char *bytes, size_t count, size_t *out_used)
{
    ASSERT(!parser->done);
    if (!head_is_plain(parser, bytes, count)) {
        return ERR_FORMAT;
    }
    if (!parser->in_head) {
        parser->between_bytes += count; /* on_body sets it back */
    }
    enum llhttp_errno error = llhttp_execute(&parser->llhttp, bytes, count);
    if (error == HPE_PAUSED && parser->done) {
        *out_used = (size_t)(llhttp_get_error_pos(&parser->llhttp) - bytes);
        return ERR_OK;
    }
    if (error != HPE_OK || parser->between_bytes > REPLY_BETWEEN_CHUNKS + count) {
        return ERR_FORMAT;
    }
    *out_used = count;
    return ERR_OK;
}

enum err reply_parser_end(struct reply_parser *parser)
{
    if (parser->done) {
        return ERR_OK;
    }
    enum llhttp_errno error = llhttp_finish(&parser->llhttp);
    return (error == HPE_OK || error == HPE_PAUSED) && parser->done ? ERR_OK : ERR_FORMAT;
}

const char *reply_parser_field(const struct reply_parser *parser, const char *name)
{
    size_t bytes = strlen(name);
    const char *line = parser->headers.bytes;
    while (line != NULL && *line != '\0') {
        if (strncmp(line, name, bytes) == 0 && line[bytes] == ':') {
            return line + bytes + 2;
        }
        line = strchr(line, '\n') + 1;
    }
    return NULL;
}
